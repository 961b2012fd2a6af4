"""What the verifier knows of methods edgerand, lapgraph and lpgnet. Part of the verifier: it needs the standard library.

All their releases are pure: randomized response of every pair of nodes, and discrete Laplace noise. So a claim is the sum of what
they cost, and delta is whatever the budget says, 0 included.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, ClassVar

from ._central import OF_HOPS, TRAINING, sizes
from ._kinds import EdgeSet, Matrix, Planned
from ._rules import Audience, Certificate, Rules, Tensors

if TYPE_CHECKING:
    from ._tensors import Stored

_OF_PAIRS: Audience = {
    "anyone": ["the perturbed edges", "weights", "predictions for all nodes"], "the node itself": [], "never": ["true edges"],
}  # fmt: skip
_MOST_HOPS = 1000
_MOST_LAYERS = 8
_DEEPER = 2
"""Up to this format of certificates a network could have more layers."""


class LapGraph(Rules):
    """The rules of method lapgraph: the number of edges, if it is not public, and the pairs with the largest noisy bits."""

    settings: ClassVar = {
        "backbone": "one of sage, mlp", "num_layers": "count", "jumping": "flag", "mean_degree": "positive or null",
        "count_share": "part", "width": "count", "epochs": "count", "learning_rate": "positive up to 10",
    }  # fmt: skip
    audience: ClassVar = {"edge": _OF_PAIRS}
    event: ClassVar[str] = "pure"

    def counts_edges(self, certificate: Certificate) -> bool:
        """Return whether the number of edges is released."""
        return certificate["settings"]["mean_degree"] is None

    def releases(self, certificate: Certificate) -> list[Planned]:
        """Return the number of edges, if it is released, and the edges."""
        if certificate["unit"]["name"] == "none":
            return []
        nodes, directed = certificate["public_facts"]["num_nodes"], certificate["unit"]["directed"]
        edges = EdgeSet("edges", [None, 2], 0, (nodes, nodes), directed=directed, event=self.event)
        count = [Matrix("edge-count", [1], 0, event="pure")] * self.counts_edges(certificate)
        return [*count, edges]

    def value_faults(self, certificate: Certificate, released: Mapping[str, Stored]) -> Iterator[str]:
        """Yield a problem for numbers of edges that are cut away, and for more pairs than are wanted."""
        yield from super().value_faults(certificate, released)
        if certificate["unit"]["name"] == "none":
            return
        nodes, single = certificate["public_facts"]["num_nodes"], certificate["unit"]["directed"]
        total = nodes * (nodes - 1) // (1 if single else 2)
        wanted = (certificate["settings"]["mean_degree"] or 0.0) * nodes / (1 if single else 2)
        if self.counts_edges(certificate):
            wanted = int(released["edge-count"].array()[0])
            if not 1 <= wanted <= total:
                yield f"edge-count: expected 1 to {total}, got {wanted}"
        if self.event == "pure" and released["edges"].shape[0] > max(1, min(wanted, total)):
            yield f"edges: expected at most {max(1, int(min(wanted, total)))} pairs, got {released['edges'].shape[0]}"

    def faults(self, certificate: Certificate) -> Iterator[str]:
        """Yield a problem for more layers than a run has, and if the number of edges does not cost its share of epsilon."""
        if certificate["format"] > _DEEPER and certificate["settings"]["num_layers"] > _MOST_LAYERS:
            yield f"certificate.json: settings.num_layers: expected at most {_MOST_LAYERS}"
        cost = {one["name"]: one["event"].get("epsilon") for one in certificate["releases"]}
        if None in cost.values() or set(cost) != {"edge-count", "edges"}:
            return
        share, total = certificate["settings"]["count_share"], cost["edge-count"] + cost["edges"]
        if abs(cost["edge-count"] - share * total) > 1e-9 * total:
            yield f"certificate.json: releases[0].event.epsilon: expected the share count_share = {share:g} of all epsilon"

    def networks(self, certificate: Certificate, found: Iterable[str] = ()) -> Tensors:
        """Return the shapes of the network that the settings name."""
        settings, (width, features, classes) = certificate["settings"], sizes(certificate)
        if settings["backbone"] == "mlp":
            layers = {"features": (width, features), "counts": (width, classes), "head": (classes, 2 * width)}
            return _tensors("network", layers, {"norm": 2 * width})
        deep = min(settings["num_layers"], 100)
        layers = {"before.layers.0": (width, features), "before.layers.1": (width, width)}
        layers |= {f"{part}.{k}": (width, width) for part in ("own", "neighbor") for k in range(deep)}
        layers["head"] = (classes, width * (deep if settings["jumping"] else 1))
        norms = {f"before.norms.{k}": width for k in range(2)} | {f"norms.{k}": width for k in range(deep)}
        return _tensors("network", layers, norms)


class EdgeRand(LapGraph):
    """The rules of method edgerand: the same with randomized response; without a share no number of edges is needed."""

    settings: ClassVar = {**LapGraph.settings, "asymmetric": "flag"}
    event: ClassVar[str] = "randomized-response"

    def counts_edges(self, certificate: Certificate) -> bool:
        """Return whether the number of edges is released."""
        return bool(certificate["settings"]["asymmetric"]) and super().counts_edges(certificate)

    def faults(self, certificate: Certificate) -> Iterator[str]:
        """Yield a problem for randomized response over more than two outcomes."""
        yield from super().faults(certificate)
        for one in certificate["releases"]:
            if one["event"].get("num_outcomes", 2) != 2:
                yield "certificate.json: releases: expected randomized response over 2 outcomes"


class LPGNet(Rules):
    """The rules of method lpgnet: counts by class, one release a stage at equal cost, and a network more than stages."""

    settings: ClassVar = {**TRAINING, "num_hops": f"count up to {_MOST_HOPS}"}
    audience: ClassVar = {"edge": OF_HOPS}

    def releases(self, certificate: Certificate) -> list[Planned]:
        """Return the counts of each stage."""
        if certificate["unit"]["name"] == "none":
            return []
        shape = [certificate["public_facts"]["num_nodes"], certificate["public_facts"]["num_classes"]]
        return [Matrix(f"aggregate/{k + 1}", shape, 0, event="pure") for k in range(self._stages(certificate))]

    def faults(self, certificate: Certificate) -> Iterator[str]:
        """Yield a problem for stages that cost unequal parts."""
        if len({one["event"].get("epsilon") for one in certificate["releases"]}) > 1:
            yield "certificate.json: releases: expected the same epsilon at every stage"

    def networks(self, certificate: Certificate, found: Iterable[str] = ()) -> Tensors:
        """Return the shapes of all networks; each reads what the earlier ones said, and all counts."""
        shapes: Tensors = {}
        width, features, classes = sizes(certificate)
        for k in range(self._stages(certificate) + 1):
            layers = {"layers.0": (width, 2 * k * classes or features), "layers.1": (classes, width)}
            shapes |= _tensors(f"network.{k}", layers, {"norms.0": width})
        return shapes

    @staticmethod
    def _stages(certificate: Certificate) -> int:
        stages: int = certificate["settings"]["num_hops"]
        return min(stages, _MOST_HOPS)


def _tensors(network: str, layers: dict[str, tuple[int, int]], norms: dict[str, int]) -> Tensors:
    """Of linear layers (outputs, inputs) and batch norms (units), by module."""
    shapes: Tensors = {}
    for module, (outputs, inputs) in layers.items():
        shapes |= {f"{network}.{module}.weight": [outputs, inputs], f"{network}.{module}.bias": [outputs]}
    for module, size in norms.items():
        shapes |= {f"{network}.{module}.{leaf}": [size] for leaf in ("weight", "bias", "running_mean", "running_var")}
        shapes[f"{network}.{module}.num_batches_tracked"] = [1]
    return shapes
