"""What the verifier knows of method dpgnn: one network trained on sub-graphs, and a noisy sum. It needs the standard library."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from ._central import OWN, TRAINING, Central, Sizes, sizes
from ._kinds import Network, Planned

if TYPE_CHECKING:
    from ._rules import Certificate


@dataclass(frozen=True)
class Replaced(Network):
    """Weights of a network whose terms a record does not take away but replaces, under both relations of the unit."""

    def faults(self, where: str, release: dict[str, Any]) -> Iterator[str]:
        """Yield what is wrong with a network, and a problem for another relation than ``replace``."""
        yield from super().faults(where, release)
        if release["event"].get("relation") != "replace":
            yield f"{where}event.relation: expected replace, since terms of other nodes change"


class DPGNN(Central):
    """The rules of method dpgnn: two layers on a node's row and its averages, then one noisy sum if inference is noised."""

    epochs = 20
    settings: ClassVar = {
        **TRAINING, "num_layers": "count up to 8", "max_arcs": "count", "max_in_arcs": "count",
        "inference": "one of own, noised",
    }  # fmt: skip
    audience: ClassVar = {
        "node": {"anyone": ["noisy aggregates", "weights"], "the node itself": OWN, "never": ["sums before noise"]}
    }

    def faults(self, certificate: Certificate) -> Iterator[str]:
        """Yield a problem for noised inference over several layers, and for incident arcs."""
        settings, unit = certificate["settings"], certificate["unit"]
        if settings["inference"] == "noised" and settings["num_layers"] > 1:
            yield "certificate.json: settings.num_layers: expected 1 with noised inference"
        if unit["name"] == "node" and unit["arcs"] != "owned":
            yield "certificate.json: unit.arcs: method dpgnn has no proof for incident arcs"

    def hops(self, certificate: Certificate) -> int:
        """Return one hop if inference is noised."""
        return int(certificate["settings"]["inference"] == "noised")

    def columns(self, certificate: Certificate) -> int:
        """Return the width of the encoding, and one column that counts."""
        return super().columns(certificate) + 1

    def layers(self, certificate: Certificate) -> dict[str, Sizes]:
        """Return two linear layers; the first reads the node's features and one average a layer of messages."""
        width, features, classes = sizes(certificate)
        columns = features * (certificate["settings"]["num_layers"] + 1)
        return {"network": ({"layers.0": (width, columns), "layers.1": (classes, width)}, {})}

    def order(self, networks: list[Planned], hops: list[Planned]) -> list[Planned]:
        """Return the network before the noisy sum, which encodes by it."""
        return [*networks, *hops]

    def _network(self, certificate: Certificate, name: str) -> Network:
        plain, settings, unit = super()._network(certificate, name), certificate["settings"], certificate["unit"]
        cap = (
            settings["max_arcs"]
            if unit["max_out_degree"] is None
            else min(settings["max_arcs"], unit["max_out_degree"])
        )
        reached = sum(cap**layer for layer in range(1, settings["num_layers"] + 1))
        terms = 1 + reached * (1 + (unit["relation"] == "replace"))
        return Replaced(name, plain.shape, plain.affected, plain.sampling_prob, plain.steps, occurrences=terms)
