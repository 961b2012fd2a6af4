"""The common part of graph methods of a trusted curator: noisy hops along arcs, and networks trained by DP-SGD.

Part of the verifier: it needs the standard library.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from math import prod
from typing import ClassVar

from ._kinds import Matrix, Network, Planned, Replaced
from ._rules import Audience, Certificate, Rules, Tensors
from ._units import owns_arcs, public_parts, unit_rules

Sizes = tuple[dict[str, tuple[int, int]], dict[str, int]]
"""Of linear layers (outputs, inputs) and of batch norms (units), by module."""
TRAINING = {"width": "count", "epochs": "count or null", "learning_rate": "positive up to 10", "batch_size": "count",
            "l2_clip_norm": "positive"}  # fmt: skip
OWN = ["predictions that read the node's own features (joint DP)"]
OF_HOPS: Audience = {"anyone": ["noisy aggregates", "weights", "predictions for all nodes"], "the node itself": [],
                     "never": ["sums before noise"]}  # fmt: skip


class Central(Rules):
    """The common rules of methods that release noisy hops and, where labels are private, networks trained by DP-SGD.

    Its ``network`` is the kind of release that these are.

    Each hop releases a matrix, ``aggregate/k``. ``epochs`` is the number of passes of DP-SGD if the settings give none.
    ``routed`` hops send each label along one arc.
    """

    epochs: ClassVar[int] = 10
    routed: ClassVar[bool] = False
    network: ClassVar[type[Network]] = Network

    def layers(self, certificate: Certificate) -> dict[str, Sizes]:
        """Return the layers and batch norms of each network, in training order."""
        raise NotImplementedError

    def hops(self, certificate: Certificate) -> int:
        """Return how many aggregates the method releases."""
        return 0

    def columns(self, certificate: Certificate) -> int:
        """Return the number of columns of an aggregate."""
        width: int = certificate["settings"]["width"]
        return width

    def order(self, networks: list[Planned], hops: list[Planned]) -> list[Planned]:
        """Return all releases in the order in which they are made: all networks but the last before the hops."""
        return [*networks[:-1], *hops, *networks[-1:]]

    def releases(self, certificate: Certificate) -> list[Planned]:
        """Return the hops and, where they are trained under privacy, the networks; nothing without privacy.

        Networks are trained under privacy if labels are private and the weights do not come from another run.
        """
        unit, facts, hops = certificate["unit"]["name"], certificate["public_facts"], self.hops(certificate)
        if unit == "none":
            return []
        nodes, aggregates = facts["num_nodes"], []
        if hops:
            columns, rows = self.columns(certificate), self._touched_rows(certificate)
            touched = None if rows is None else min(rows, nodes) * columns
            aggregates = [
                Matrix(f"aggregate/{k}", [nodes, columns], touched, arc_change=self._arc_change(certificate, k))
                for k in range(1, hops + 1)
            ]
        trained = "labels" not in public_parts(certificate) and not certificate["composition"]["builds_on"]
        names = self.layers(certificate) if trained else ()
        return self.order([self._network(certificate, name) for name in names], [*aggregates])

    def networks(self, certificate: Certificate, found: Iterable[str] = ()) -> Tensors:
        """Return the shapes of linear layers and, where labels are public, of batch norms."""
        shapes: Tensors = {}
        for network, (layers, norms) in self.layers(certificate).items():
            for module, (outputs, inputs) in layers.items():
                name = f"{network}.{module}".rstrip(".")
                shapes |= {f"{name}.weight": [outputs, inputs], f"{name}.bias": [outputs]}
            for module, size in norms.items() if "labels" in public_parts(certificate) else ():
                name = f"{network}.{module}"
                shapes |= {f"{name}.{leaf}": [size] for leaf in ("weight", "bias", "running_mean", "running_var")}
                shapes[f"{name}.num_batches_tracked"] = [1]
        return shapes

    def sgd(self, certificate: Certificate) -> tuple[float, int]:
        """Return with which probability DP-SGD draws an example, and its steps: those of passes over the training nodes."""
        settings, rows = certificate["settings"], max(certificate["public_facts"]["num_train"], 1)
        batch = min(settings.get("batch_size", rows), rows)
        return batch / rows, max(1, (settings["epochs"] or self.epochs) * rows // batch)

    def terms(self, certificate: Certificate) -> int | None:
        """Return how many terms DP-SGD reads of a record, where these may be several."""
        return None

    def _network(self, certificate: Certificate, name: str) -> Network:
        tensors = self.networks(certificate).items()
        size = sum(prod(shape) for tensor, shape in tensors if tensor.startswith(f"{name}."))
        moved = None if self.network is Replaced else no_arc_change(certificate)
        return self.network(
            name, [size], size, *self.sgd(certificate), occurrences=self.terms(certificate), arc_change=moved
        )

    def _arc_change(self, certificate: Certificate, hop: int) -> float | None:
        """Return how far one arc of another owner moves a hop, over its sensitivity; None where no bound is known.

        A routed row of norm 1 moves, or with a cap of 1 a second one. Else one message may move from a row to another.
        """
        if not owns_arcs(certificate):
            return None
        cap: int | None = certificate["unit"]["max_out_degree"]
        replaced: bool = certificate["unit"]["relation"] == "replace"
        if self.routed:
            return max(1.0, math.sqrt(2 / (cap or 2))) / (1 + replaced)
        moved = (
            1 if not replaced else 4 if hop == 1 else 2
        )  # first messages read the record, later ones what was released
        return None if cap is None else math.sqrt(2 / (moved * cap))

    def _touched_rows(self, certificate: Certificate) -> int | None:
        """Return how many rows of an aggregate a record can change; None without a bound on its sensitivity."""
        unit, nodes = certificate["unit"], certificate["public_facts"]["num_nodes"]
        if self.routed and unit["name"] == "edge":
            return 1
        if self.routed and unit["name"] == "node" and unit["max_out_degree"] is None:
            unit = {**unit, "max_out_degree": nodes}
        return unit_rules(certificate).rows(unit)


def no_arc_change(certificate: Certificate) -> float | None:
    """Return the ``arc_change`` of a release that reads no arcs: 0 under owned arcs, else None."""
    return 0.0 if owns_arcs(certificate) else None


def sizes(certificate: Certificate) -> tuple[int, int, int]:
    """Return the width (0 if there is none), the number of features and the number of classes."""
    public = certificate["public_facts"]
    return certificate["settings"].get("width", 0), public["num_features"], public["num_classes"]
