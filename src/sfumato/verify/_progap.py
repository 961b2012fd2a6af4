"""What the verifier knows of method progap. Part of the verifier: it needs the standard library."""

from __future__ import annotations

from itertools import chain
from typing import TYPE_CHECKING, ClassVar

from ._central import OF_HOPS, OWN, TRAINING, Central, Sizes, sizes

if TYPE_CHECKING:
    from ._kinds import Planned
    from ._rules import Certificate


class ProGAP(Central):
    """The rules of method progap: stages, each trained on the hops of all stages before it."""

    settings: ClassVar = {
        **TRAINING,
        "depth": "count or null up to 100",
        "base_layers": "count or null up to 10",
        "layerwise": "flag",
    }
    audience: ClassVar = {
        "edge": OF_HOPS,
        "node": {
            "anyone": ["noisy aggregates", "weights"],
            "the node itself": OWN,
            "never": ["sums before noise", "embeddings of single nodes that read their features"],
        },
    }
    inductive = True
    reads_weights = True
    targets: ClassVar[tuple[str, ...]] = ("multilabel", "number")
    epochs = 5

    def hops(self, certificate: Certificate) -> int:
        """Return the number of hops, which is one less than the number of stages."""
        usual = 4 if certificate["unit"]["name"] == "node" else 5
        return certificate["settings"]["depth"] or usual

    def order(self, networks: list[Planned], hops: list[Planned]) -> list[Planned]:
        """Return a hop before every stage except the first."""
        pairs = zip(hops, networks[1:], strict=True)
        return [networks[0], *chain.from_iterable(pairs)] if networks else hops

    def layers(self, certificate: Certificate) -> dict[str, Sizes]:
        """Return the layers and batch norms of every stage."""
        return {f"stage/{k}": self._stage(certificate, k) for k in range(self.hops(certificate) + 1)}

    def _stage(self, certificate: Certificate, stage: int) -> Sizes:
        settings, (width, features, classes) = certificate["settings"], sizes(certificate)
        depth = settings["base_layers"] or (2 if certificate["unit"]["name"] == "node" else 1)
        inputs = [features, *[width] * stage][stage if settings["layerwise"] else 0 :]
        linear = {
            f"base.{k}.{layer}": (width, width if layer else first)
            for k, first in enumerate(inputs)
            for layer in range(depth)
        }
        norms = {f"norms.{layer}": width * len(inputs) for layer in range(depth)}
        return {**linear, "head": (classes, width * (stage + 1))}, norms
