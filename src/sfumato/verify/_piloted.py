"""What the verifier knows of method piloted-messages. Part of the verifier: it needs the standard library."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from math import prod, sqrt
from typing import TYPE_CHECKING, ClassVar

from ._baselines import center, center_tensors, lacks, split_faults
from ._kinds import Matrix, Network, Weights
from ._labels import LabelMessages
from ._rules import OWN, sizes
from ._units import no_arc_change

if TYPE_CHECKING:
    from ._kinds import Planned
    from ._rules import Certificate, Tensors
    from ._tensors import Stored

_STEPS, _LAST_STEPS, _TESTED, _WEIGHTS = 150, 50, 3, 3
_BEFORE = 4  # head, pilot hop, test and rest
_TYPE_SHARE, _MOST_PILOTS, _OF_PRODUCTS = 0.01, 4, 0.9
_SHARES = {"center": 0.015, "head": 0.14, "aggregate/1": 0.035, "test": 0.03, "aggregate/2": 0.75, "last": 0.03}
_EARLY_SHARES = {"center": 0.015, "head": 0.14, "aggregate/1": 0.035, "test": 0.025, "aggregate/2": 0.785}


class PilotedMessages(LabelMessages):
    """The rules of method piloted-messages: features, a pilot hop, a test, and the rest for one of both.

    The rest is one Gaussian event, under the name of the second hop. A record touches the weights at each step, and the rows
    of a second hop, whichever of the two the rest went to: ``affected`` counts both. Runs that were made before the last stage
    was there have a test of three numbers, without the counts of classes, and 50 steps of the head in its place. Where edges have
    types, the pilot has a block for each, one more release says what each type tells, and both are paid by the rest.
    """

    audience: ClassVar = {
        "node": {"anyone": ["noisy aggregates", "weights"], "the node itself": OWN, "never": ["sums before noise"]}
    }
    reads_types = ("node", "none")

    def faults(self, certificate: Certificate) -> Iterator[str]:
        shares, kinds = _EARLY_SHARES if self._early(certificate) else _SHARES, _kinds(certificate)
        if kinds:
            pilot = shares["aggregate/1"] * min(kinds, _MOST_PILOTS)
            rest = shares["aggregate/2"] - (pilot - shares["aggregate/1"] + _TYPE_SHARE)
            shares = {**shares, "aggregate/1": pilot, "types": _TYPE_SHARE, "aggregate/2": rest}
        yield from split_faults(certificate, shares, "head")

    def releases(self, certificate: Certificate) -> list[Planned]:
        hops = [release for release in super().releases(certificate) if isinstance(release, Matrix)]
        if not hops:
            return []
        unit, kinds, borrowed = certificate["unit"], _kinds(certificate), bool(certificate["composition"]["builds_on"])
        group = 2 if unit["relation"] == "replace" else 1
        apart = sqrt(2) / group  # of one arc of another owner, if types are told apart
        weighed = kinds or (
            borrowed and "edge_types" in certificate["public_facts"]
        )  # weights of the run are not seen here
        if weighed and unit["max_out_degree"] is not None:
            hops = [replace(hop, arc_change=apart) for hop in hops]
        if borrowed:
            return list(hops)
        (_, _, classes), early = sizes(certificate), self._early(certificate)
        pilot, typed, still = replace(hops[0], name="aggregate/1"), [], no_arc_change(certificate)
        rest = pilot
        if kinds:
            touched = None if pilot.affected is None else pilot.affected * kinds
            pilot = replace(pilot, shape=[pilot.shape[0], kinds * classes], affected=touched, arc_change=apart)
            told = None if still is None else sqrt(2 * (1 - _OF_PRODUCTS)) / group
            typed = [Matrix("types", [1, 2 * kinds], 2 * kinds, arc_change=told)]
        size = sum(prod(shape) for name, shape in self.networks(certificate).items() if name.startswith("head."))
        epochs, tested = certificate["settings"]["epochs"], _TESTED + classes * (not early)
        steps, last = max(epochs, _LAST_STEPS) if early else epochs, _WEIGHTS + classes
        affected = None if rest.affected is None else rest.affected + steps * size
        stage = Weights("last", [last], _LAST_STEPS * last, arc_change=still)
        return [
            *center(certificate),
            Network("head", [size], size, 1.0, _STEPS, arc_change=still),
            pilot,
            *typed,
            Matrix("test", [1, tested], tested, arc_change=still),
            replace(rest, name="aggregate/2", affected=affected),
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
        kinds = _kinds(certificate)
        if borrowed and "types.weight" in found:
            kinds = len(certificate["public_facts"].get("edge_types", ()))
        if kinds:
            named["types.weight"] = [2, kinds]
        return {**named, **center_tensors(certificate, found)}

    def weight_faults(self, certificate: Certificate, weights: Mapping[str, Stored]) -> Iterator[str]:
        yield from super().weight_faults(certificate, weights)
        if "types.weight" in weights:
            found = weights["types.weight"].array()
            if not ((found >= 0) & (found <= 1)).all():
                yield "types.weight: expected numbers from 0 to 1"

    def _early(self, certificate: Certificate) -> bool:
        return lacks(certificate, "last", _BEFORE + len(center(certificate)))


def _kinds(certificate: Certificate) -> int:
    """Return how many types of edges a run tells apart, 0 if it reads all edges alike."""
    number = len(certificate["public_facts"].get("edge_types", ()))
    return number if number and not lacks(certificate, "types", _BEFORE + 1 + len(center(certificate))) else 0
