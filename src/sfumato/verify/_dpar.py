"""What the verifier knows of method dpar: released PageRank rows, and one network that DP-SGD trained on roots."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from ._kinds import Planned, Replaced, Shape, type_faults
from ._layers import two_layers
from ._rules import OWN, Known, Rules, Sizes
from ._units import no_arc_change

if TYPE_CHECKING:
    from ._rules import Audience, Certificate
    from ._tensors import Stored

DECLARED = (
    "Features of nodes outside the training role, and arcs between them, were declared public: nothing is promised about "
    "them, and the predictions for these nodes read them."
)
_NOISY = ("gaussian", "exponential", "exponential-laplace")
_UNRELEASED = "unreleased"


@dataclass(frozen=True)
class PageRankRows(Planned):
    """The K entries of each row: their columns, ascending numbers below ``nodes``, their values, or both."""

    nodes: int = field(kw_only=True)
    axes: ClassVar[str] = "roots and entries, "

    def value_faults(self, stored: Mapping[str, Stored]) -> Iterator[str]:
        for part in self.names:
            yield from type_faults(part, stored[part], "I64")
            if part.endswith("columns"):
                found = stored[part].array()
                if found.size and not 0 <= int(found.min()) <= int(found.max()) < self.nodes:
                    yield f"{part}: holds nodes from {found.min()} to {found.max()}, expected 0 to {self.nodes - 1}"
                if not (np.diff(found, axis=1) > 0).all():
                    yield f"{part}: holds rows that are not in ascending order, each node once"


class DPAR(Rules):
    """The rules of method dpar: rows where the mechanism has noise, and two linear layers."""

    settings: ClassVar = {
        "mechanism": "one of " + ", ".join(("auto", "none", "random", _UNRELEASED, *_NOISY)),
        "num_roots": "count or null", "top_k": "count", "occurrences": "count",
        "appr_share": "part", "row_clip": "positive", "entry_clip": "positive", "alpha": "share",
        "rho": "part", "gamma": "part", "batch_size": "count or null", "steps": "count",
        "learning_rate": "positive up to 100", "width": "count", "l2_clip_norm": "positive", "public_test_graph": "flag",
        "power_steps": "count", "root_seed": "index",
    }  # fmt: skip
    optional: ClassVar = {"column_clip": "positive"}  # losses read the same nodes, whatever scales their entries
    audience: ClassVar = {
        "node": {
            "anyone": ["PageRank rows with noise", "weights"],
            "the node itself": OWN,
            "never": ["PageRank rows before noise"],
        }
    }

    def who_may_see(self, certificate: Certificate) -> Audience:
        told = super().who_may_see(certificate)
        hidden = certificate["settings"]["mechanism"] == _UNRELEASED
        return {**told, "anyone": ["weights"]} if hidden else told

    def layers(self, certificate: Certificate) -> dict[str, Sizes]:
        return two_layers(Known(certificate))

    def caveats(self, certificate: Certificate) -> list[str]:
        return [DECLARED] if certificate["settings"]["public_test_graph"] else []

    def releases(self, certificate: Certificate) -> list[Planned]:
        if certificate["unit"]["name"] == "none":
            return []
        network = self._network(certificate, "network")
        if certificate["settings"]["mechanism"] == _UNRELEASED:  # a record moves rows that do not read it
            network = Replaced(**vars(network))
        return [*self._rows(certificate), network]

    def _rows(self, certificate: Certificate) -> Iterator[Planned]:
        settings, (rows, nodes) = certificate["settings"], self._roots(certificate)
        entries, mechanism = min(settings["top_k"], nodes), settings["mechanism"]
        shape: Shape = [rows, entries]
        same: dict[str, Any] = {"nodes": nodes, "arc_change": no_arc_change(certificate)}
        columns, values = "appr/columns", "appr/values"
        if mechanism == "gaussian":
            yield PageRankRows("appr", shape, nodes, count=rows, parts=(columns, values), **same)
        elif mechanism in _NOISY:
            picks = rows * entries
            yield PageRankRows(columns, shape, 0, event="exponential", count=picks, parts=(columns,), **same)
            if mechanism == "exponential-laplace":
                yield PageRankRows(values, shape, entries, event="laplace", count=rows, parts=(values,), **same)

    def sgd(self, certificate: Certificate) -> tuple[float, int]:
        settings, (rows, _) = certificate["settings"], self._roots(certificate)
        return min(settings["batch_size"] or rows, rows) / rows, settings["steps"]

    def terms(self, certificate: Certificate) -> int | None:
        """Return how many roots a record may move, where these may be several: all, if exact rows are read."""
        settings = certificate["settings"]
        if settings["mechanism"] == _UNRELEASED:
            most, _ = self._roots(certificate)
        else:
            most = 1 if settings["mechanism"] in ("auto", "none") else settings["occurrences"]
        return None if most == 1 else most

    @staticmethod
    def _roots(certificate: Certificate) -> tuple[int, int]:
        nodes = max(certificate["public_facts"]["num_train"], 1)
        return min(certificate["settings"]["num_roots"] or nodes, nodes), nodes
