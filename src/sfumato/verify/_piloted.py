"""What the verifier knows of method piloted-messages. Part of the verifier: it needs the standard library."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from math import prod
from typing import TYPE_CHECKING, ClassVar

from ._baselines import center, center_tensors, lacks, split_faults
from ._kinds import Matrix, Network, Weights
from ._labels import LabelMessages
from ._rules import OWN, sizes
from ._units import no_arc_change

if TYPE_CHECKING:
    from ._kinds import Planned
    from ._rules import Certificate, Tensors

_STEPS, _LAST_STEPS, _TESTED, _WEIGHTS = 150, 50, 3, 3
_BEFORE = 4  # head, pilot hop, test and rest
_SHARES = {"center": 0.015, "head": 0.14, "aggregate/1": 0.035, "test": 0.03, "aggregate/2": 0.75, "last": 0.03}
_EARLY_SHARES = {"center": 0.015, "head": 0.14, "aggregate/1": 0.035, "test": 0.025, "aggregate/2": 0.785}


class PilotedMessages(LabelMessages):
    """The rules of method piloted-messages: features, a pilot hop, a test, and the rest for one of both.

    The rest is one Gaussian event, under the name of the second hop. A record touches the weights at each step, and the rows
    of a second hop, whichever of the two the rest went to: ``affected`` counts both. Runs that were made before the last stage
    was there have a test of three numbers, without the counts of classes, and 50 steps of the head in its place.
    """

    audience: ClassVar = {
        "node": {"anyone": ["noisy aggregates", "weights"], "the node itself": OWN, "never": ["sums before noise"]}
    }

    def faults(self, certificate: Certificate) -> Iterator[str]:
        yield from split_faults(certificate, _EARLY_SHARES if self._early(certificate) else _SHARES, "head")

    def releases(self, certificate: Certificate) -> list[Planned]:
        hops = [release for release in super().releases(certificate) if isinstance(release, Matrix)]
        if not hops or certificate["composition"]["builds_on"]:
            return list(hops)
        (_, _, classes), early = sizes(certificate), self._early(certificate)
        pilot = replace(hops[0], name="aggregate/1")
        size = sum(prod(shape) for name, shape in self.networks(certificate).items() if name.startswith("head."))
        epochs, tested = certificate["settings"]["epochs"], _TESTED + classes * (not early)
        steps, last = max(epochs, _LAST_STEPS) if early else epochs, _WEIGHTS + classes
        affected = None if pilot.affected is None else pilot.affected + steps * size
        stage = Weights("last", [last], _LAST_STEPS * last, arc_change=no_arc_change(certificate))
        return [
            *center(certificate),
            Network("head", [size], size, 1.0, _STEPS, arc_change=no_arc_change(certificate)),
            pilot,
            Matrix("test", [1, tested], tested, arc_change=no_arc_change(certificate)),
            replace(pilot, name="aggregate/2", affected=affected),
            *([] if early else [stage]),
        ]

    def networks(self, certificate: Certificate, found: Iterable[str] = ()) -> Tensors:
        named = super().networks(certificate, found)
        if certificate["unit"]["name"] == "none":
            return named
        borrowed, (_, features, classes) = bool(certificate["composition"]["builds_on"]), sizes(certificate)
        if "last.weight" in found if borrowed else not self._early(certificate):
            named = {"head.weight": [classes, features], "head.bias": [classes]}
            named |= {"last.weight": [_WEIGHTS], "last.bias": [classes]}
        return {**named, **center_tensors(certificate, found)}

    def _early(self, certificate: Certificate) -> bool:
        return lacks(certificate, "last", _BEFORE + len(center(certificate)))
