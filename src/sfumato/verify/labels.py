"""What the verifier knows of method label-messages. Part of the verifier: it needs the standard library."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, ClassVar

from .central import OF_HOPS, OWN, Central, Sizes, sizes

if TYPE_CHECKING:
    from .rules import Certificate


class LabelMessages(Central):
    """The rules of method label-messages: routed hops of labels, and logistic regression on them."""

    settings: ClassVar = {
        "num_hops": "count or null up to 1000",
        "learner_share": "share or null",
        "epochs": "count",
        "learning_rate": "positive up to 10",
        "l2_clip_norm": "positive",
    }
    audience: ClassVar = {
        "edge": OF_HOPS,
        "node": {"anyone": ["noisy aggregates", "weights"], "the node itself": OWN, "never": ["sums before noise"]},
    }
    routed = True
    inductive = True
    arrives = True

    def setting_faults(self, certificate: Certificate) -> Iterator[str]:
        """Yield a problem for wrong settings. More than one hop is for unit edge only, under which labels are public."""
        found = list(super().setting_faults(certificate))
        yield from found
        hops = certificate["settings"].get("num_hops")
        if not found and certificate["unit"]["name"] == "node" and hops not in (None, 1):
            yield f"certificate.json: settings.num_hops: expected 1 under unit node, got {hops}"

    def hops(self, certificate: Certificate) -> int:
        """Return the number of hops in the settings, or the default of the unit."""
        usual = 1 if certificate["unit"]["name"] == "node" else 3
        return certificate["settings"]["num_hops"] or usual

    def columns(self, certificate: Certificate) -> int:
        """Return the number of classes: each has a column."""
        return sizes(certificate)[2]

    def layers(self, certificate: Certificate) -> dict[str, Sizes]:
        """Return the layers of logistic regression. A linear layer that is the whole network has no name of its own."""
        _, features, classes = sizes(certificate)
        if certificate["unit"]["name"] != "edge":
            return {"head": ({"": (classes, classes + features)}, {})}
        return {"prior": ({"": (classes, features)}, {}), "head": ({"": (classes, 3 * classes)}, {})}
