"""What the verifier knows of method piloted-messages. Part of the verifier: it needs the standard library."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from math import prod
from typing import TYPE_CHECKING, ClassVar

from .baselines import center, center_tensors
from .central import OWN, no_arc_change
from .kinds import Matrix, Network
from .labels import LabelMessages

if TYPE_CHECKING:
    from .kinds import Planned
    from .rules import Certificate, Tensors

_STEPS, _LAST_STEPS, _TESTED = 150, 50, 3


class PilotedMessages(LabelMessages):
    """The rules of method piloted-messages: features, a pilot hop, a test, and the rest for one of both.

    The rest is one Gaussian event, under the name of the second hop. A record touches the weights at each step, and the rows
    of a second hop, whichever of the two the rest went to: ``affected`` counts both.
    """

    audience: ClassVar = {
        "node": {"anyone": ["noisy aggregates", "weights"], "the node itself": OWN, "never": ["sums before noise"]}
    }

    def releases(self, certificate: Certificate) -> list[Planned]:
        """Return the center, the head, the pilot hop, the test and the rest; the hop alone of another graph."""
        hops = [release for release in super().releases(certificate) if isinstance(release, Matrix)]
        if not hops or certificate["composition"]["builds_on"]:
            return list(hops)
        pilot = replace(hops[0], name="aggregate/1")
        size = sum(map(prod, super().networks(certificate).values()))
        affected = (
            None
            if pilot.affected is None
            else pilot.affected + max(certificate["settings"]["epochs"], _LAST_STEPS) * size
        )
        return [
            *center(certificate),
            Network("head", [size], size, 1.0, _STEPS, arc_change=no_arc_change(certificate)),
            pilot,
            Matrix("test", [1, _TESTED], _TESTED, arc_change=no_arc_change(certificate)),
            replace(pilot, name="aggregate/2", affected=affected),
        ]

    def networks(self, certificate: Certificate, found: Iterable[str] = ()) -> Tensors:
        """Return the shapes of the head and, where there is one, of the center; without privacy those of label messages."""
        named = super().networks(certificate, found)
        return named if certificate["unit"]["name"] == "none" else {**named, **center_tensors(certificate, found)}
