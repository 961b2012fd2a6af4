"""What the verifier knows of method scattering.

Part of the verifier: it needs the standard library.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, ClassVar

from ._central import OWN, TRAINING, Central, Sizes

if TYPE_CHECKING:
    from ._rules import Audience, Certificate

_AUDIENCE: Audience = {"anyone": ["weights"], "the node itself": OWN, "never": []}


class Scattering(Central):
    """The rules of method scattering: logistic regression on coefficients of images, whose number follows from public facts."""

    settings: ClassVar = {**{name: kind for name, kind in TRAINING.items() if name != "width"}, "epochs": "count"}
    audience: ClassVar = {"node": _AUDIENCE, "record": _AUDIENCE}
    reads_links = False

    def faults(self, certificate: Certificate) -> Iterator[str]:
        """Yield a problem for data that are no images of at least 8 x 8 pixels."""
        if not coefficients(certificate):
            yield "certificate.json: public_facts.image_shape: method scattering learns from images of at least 8 x 8 pixels"

    def layers(self, certificate: Certificate) -> dict[str, Sizes]:
        """Return one linear layer."""
        return {"head": ({"": (certificate["public_facts"]["num_classes"], coefficients(certificate))}, {})}


def coefficients(certificate: Certificate) -> int:
    """Return how many numbers an image becomes: 81 pictures of a quarter of its height and width for each channel; 0 for none."""
    channels, height, width = certificate["public_facts"].get("image_shape") or (0, 0, 0)
    return int(channels * 81 * (height // 4) * (width // 4)) if min(height, width) >= 8 else 0
