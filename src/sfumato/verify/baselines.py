"""What the verifier knows of methods mlp and sage. Part of the verifier: it needs the standard library."""

from __future__ import annotations

from typing import ClassVar

from .central import OWN, TRAINING, Central, Sizes, sizes
from .rules import Audience, Certificate, Rules

_OF_RECORDS: Audience = {"anyone": ["weights"], "the node itself": OWN, "never": []}


class MLP(Central):
    """The rules of method mlp, a network that reads features alone."""

    settings: ClassVar = TRAINING
    audience: ClassVar = {
        "edge": {"anyone": ["weights", "predictions"], "the node itself": [], "never": []},
        "node": _OF_RECORDS,
        "record": _OF_RECORDS,
    }
    reads_links = False

    def layers(self, certificate: Certificate) -> dict[str, Sizes]:
        """Return two linear layers, and a batch norm."""
        width, features, classes = sizes(certificate)
        return {"network": ({"layers.0": (width, features), "layers.1": (classes, width)}, {"norms.0": width})}


class SAGE(Rules):
    """The rules of method sage, which has no proof and runs without privacy only."""

    settings: ClassVar = {"width": "count", "epochs": "count", "learning_rate": "positive up to 10"}
