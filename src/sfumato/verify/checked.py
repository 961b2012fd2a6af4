"""What the verifier knows of method checked-messages. Part of the verifier: it needs the standard library."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from .central import OF_HOPS
from .labels import LabelMessages

if TYPE_CHECKING:
    from collections.abc import Iterable

    from .central import Sizes
    from .rules import Certificate, Tensors

_WIDTH = 64


class CheckedMessages(LabelMessages):
    """The rules of method checked-messages: label messages, or a network of features; the tensors show which was kept."""

    audience: ClassVar = {"edge": OF_HOPS}

    def networks(self, certificate: Certificate, found: Iterable[str] = ()) -> Tensors:
        """Return the tensors of the network if one of them is there, and those of label messages otherwise."""
        if not any(name.startswith("alone.") for name in found):
            return super().networks(certificate, found)
        return _Alone().networks(certificate)


class _Alone(LabelMessages):
    """A network of one hidden layer."""

    def layers(self, certificate: Certificate) -> dict[str, Sizes]:
        """Return two linear layers, and a batch norm."""
        public = certificate["public_facts"]
        linear = {"layers.0": (_WIDTH, public["num_features"]), "layers.1": (public["num_classes"], _WIDTH)}
        return {"alone": (linear, {"norms.0": _WIDTH})}
