"""What the verifier knows of method graph-split: one network that DP-SGD trained on groups. It needs the standard library."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, ClassVar

from ._central import OWN, Central, Sizes, no_arc_change, sizes
from ._kinds import Network

if TYPE_CHECKING:
    from ._rules import Certificate

LEAST_CLIP = 1e-9


class GraphSplit(Central):
    """The rules of method graph-split: two linear layers; examples are groups, whose number is a setting."""

    settings: ClassVar = {
        "num_groups": "count up to 536870912", "batch_size": "count", "steps": "count", "learning_rate": "positive up to 100",
        "optimizer": "one of adam, sgd", "width": "count", "dropout": "fraction", "second_hop": "flag",
        "l2_clip_norm": "positive up to 1000000000", "group_seed": "index",
    }  # fmt: skip
    audience: ClassVar = {
        "node": {"anyone": ["weights"], "the node itself": OWN, "never": ["predictions that read neighbors"]}
    }

    def faults(self, certificate: Certificate) -> Iterator[str]:
        """Yield a problem for a clip norm below which gradients may leave the range of float64."""
        if certificate["settings"]["l2_clip_norm"] < LEAST_CLIP:
            yield f"certificate.json: settings.l2_clip_norm: expected at least {LEAST_CLIP:g}"

    def layers(self, certificate: Certificate) -> dict[str, Sizes]:
        """Return two linear layers."""
        width, features, classes = sizes(certificate)
        return {"network": ({"first": (width, features), "second": (classes, width)}, {})}

    def _network(self, certificate: Certificate, name: str) -> Network:
        settings = certificate["settings"]
        width, features, classes = sizes(certificate)
        size = features * width + width + (width + 1) * classes
        groups = settings["num_groups"]
        share, still = min(settings["batch_size"], groups) / groups, no_arc_change(certificate)
        return Network(name, [size], size, share, settings["steps"], arc_change=still)
