"""What the verifier knows of method dpar: power steps at edge level; else PageRank rows, and a network that DP-SGD trained."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from ._baselines import of_graph_free, tree_faults
from ._kinds import Matrix, Planned, Replaced, Shape, type_faults
from ._layers import two_layers
from ._rules import OF_HOPS, OWN, Known, Rules, Sizes, sizes
from ._units import no_arc_change

if TYPE_CHECKING:
    from ._rules import Audience, Certificate, Tensors
    from ._tensors import Stored

DECLARED = (
    "Features of nodes outside the training role, and arcs between them, were declared public: nothing is promised about "
    "them, and the predictions for these nodes read them."
)
_NOISY = ("gaussian", "exponential", "exponential-laplace")
_UNRELEASED = "unreleased"
_WIDTH = 64  # of the graph-free network
_POWERS = (0.0, 0.25, 0.5, 1.0, 1.5, 2.0, 3.0), (0.5, 1.0), (0.0, 0.125, 0.25, 0.5, 1.0)


def _at_edges(certificate: Certificate) -> bool:
    return bool(certificate["unit"]["name"] == "edge")


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
    """The rules of method dpar: rows where the mechanism has noise, and two linear layers.

    At edge level, counts with Laplace noise: an edge changes one of two parts, one row by one message or two by half of one.
    """

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
        "edge": OF_HOPS,
        "node": {
            "anyone": ["PageRank rows with noise", "weights"],
            "the node itself": OWN,
            "never": ["PageRank rows before noise"],
        },
    }

    def setting_faults(self, certificate: Certificate) -> Iterator[str]:
        """Yield a problem for wrong settings; at edge level, for those that mean something at node level alone."""
        found = list(super().setting_faults(certificate))
        yield from found
        if found or not _at_edges(certificate):
            return
        settings = certificate["settings"]
        for name, allowed in (
            ("mechanism", ("auto", "none")),
            ("public_test_graph", (False,)),
            ("power_steps", (1, 2)),
        ):
            if settings[name] not in allowed:
                words = " or ".join(map(str, allowed))
                yield f"certificate.json: settings.{name}: expected {words} under unit edge, got {settings[name]}"

    def networks(self, certificate: Certificate, found: Iterable[str] = ()) -> Tensors:
        if not _at_edges(certificate):
            return super().networks(certificate, found)
        prior = [name.removeprefix("prior.") for name in found if name.startswith("prior.")]
        alone = {f"prior.{name}": shape for name, shape in of_graph_free(certificate, _WIDTH, prior).items()}
        return {**alone, "steps.reading": [3], "class.shares": [sizes(certificate)[2]]}

    def weight_faults(self, certificate: Certificate, weights: Mapping[str, Stored]) -> Iterator[str]:
        if not _at_edges(certificate):
            return
        yield from tree_faults(weights, "prior.")
        for name, power, allowed in zip("wtu", weights["steps.reading"].array(), _POWERS, strict=True):
            if float(power) not in allowed:
                yield f"steps.reading: expected {name} to be one of {allowed}"
        shares = weights["class.shares"].array().astype(float)
        if not (shares > 0).all() or not abs(shares.sum() - 1) < 1e-3:
            yield "class.shares: expected numbers above 0 whose sum is 1"

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
        if _at_edges(certificate):
            nodes, (_, _, classes) = certificate["public_facts"]["num_nodes"], sizes(certificate)
            steps = certificate["settings"]["power_steps"]
            return [Matrix("aggregate/1", [nodes, steps * classes], 0, event="pure")]
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
