"""What the verifier knows of method gap. Part of the verifier: it needs the standard library."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from ._central import OF_HOPS, OWN, TRAINING, Central, Sizes, sizes
from ._values import kind_faults

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ._rules import Certificate

_HOPS = 2


class GAP(Central):
    """The rules of method gap: an encoder, hops on its encodings, and a classifier that combines all of them.

    ``combine`` is a setting where it is not concatenation, which no certificate names.
    """

    settings: ClassVar = {**TRAINING, "num_hops": "count or null up to 1000", "encoder": "flag"}
    audience: ClassVar = {
        "edge": OF_HOPS,
        "node": {
            "anyone": ["noisy aggregates", "weights"],
            "the node itself": OWN,
            "never": ["sums before noise", "encodings of single nodes (hop 0)"],
        },
    }
    inductive = True
    reads_weights = True
    targets: ClassVar[tuple[str, ...]] = ("multilabel", "number")

    def setting_faults(self, certificate: Certificate) -> Iterator[str]:
        """Yield a problem for settings that are not exactly those of the method; concatenation is not named."""
        settings, kinds = certificate["settings"], dict(self.settings)
        if "combine" in settings:
            kinds["combine"] = "one of sum, attention"
        return kind_faults(settings, kinds, "certificate.json: settings", "a setting of method gap")

    def hops(self, certificate: Certificate) -> int:
        """Return the number of hops in the settings, or the default."""
        return certificate["settings"]["num_hops"] or _HOPS

    def columns(self, certificate: Certificate) -> int:
        """Return the width of the encoder or, without an encoder, the number of features."""
        width, features, _ = sizes(certificate)
        return width if certificate["settings"]["encoder"] else features

    def layers(self, certificate: Certificate) -> dict[str, Sizes]:
        """Return the layers of the encoder, if there is one, and of the classifier."""
        (width, features, classes), stages = sizes(certificate), self.hops(certificate) + 1
        encoder = {"mlp.layers.0": (width, features), "mlp.layers.1": (width, width), "head": (classes, width)}
        bases = {f"base.{k}": (width, self.columns(certificate)) for k in range(stages)}
        combine = certificate["settings"].get("combine", "cat")
        if combine == "attention":
            bases |= {f"score.{k}": (1, width) for k in range(stages)}
        joint = width * stages if combine == "cat" else width
        found: dict[str, Sizes] = {"encoder": (encoder, {"mlp.norms.0": width, "mlp.norms.1": width})}
        found["classifier"] = {**bases, "head": (classes, joint)}, {"norm": joint}
        return found if certificate["settings"]["encoder"] else {"classifier": found["classifier"]}
