"""What the verifier knows of methods under unit link: users send noisy degrees and neighbor lists."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from ._kinds import Form, Planned, Reports, Values, type_faults
from ._reports import SENT, least_epsilon

if TYPE_CHECKING:
    from ._rules import Certificate, Known, Tensors
    from ._tensors import Stored

DEGREES, LINKS = "degree-reports", "link-reports"
LEARNERS = ("mlp", "beliefs", "gcn")
_STEPS = 2**20  # of the epsilon of a degree


def _faults(known: Known) -> Iterator[str]:
    """Yield a problem for a directed graph, because neighbor lists have no direction, and for a delta that is not needed."""
    if known.unit["name"] == "none":
        return
    if known.directed:
        yield "certificate.json: public_facts.directed: expected false, since both ends of a link report it"
    if (delta := known.certificate["claim"]["delta"]) != 0:
        yield f"certificate.json: claim.delta: expected 0, got {delta}"


def _releases(known: Known) -> list[Planned]:
    n = known.num_nodes
    check, degree = partial(link_faults, certificate=known.certificate), ("I64", 0, (0, 0), (-n, 2 * n))
    return [Reports(DEGREES, [n], 0, check, lambda _: degree), Bits(LINKS, [n, -(-n // 8)], 0, check, _bytes)]


def _tensors(known: Known, found: Iterable[str]) -> Tensors:
    learner = next((name for name in LEARNERS if name in found), LEARNERS[0])
    return {learner: [known.num_nodes, known.num_classes]}


RULES: dict[str, Any] = {
    "settings": {
        "epsilon": "positive up to 1000000", "degree_share": "part", "rule": "one of expected, hard", "width": "count",
        "epochs": "count", "learning_rate": "positive", "weight_decay": "amount", "dropout": "fraction",
    },
    "audience": {"link": SENT}, "faults": _faults, "releases": _releases, "tensors": _tensors,
}  # fmt: skip


def _bytes(_: int) -> Form:
    return "U8", 0, (0, 0), (0, 255)


@dataclass(frozen=True)
class Bits(Reports):
    """Packed neighbor lists, which hold one of n bits for each pair of users."""

    def value_faults(self, stored: Mapping[str, Stored]) -> Iterator[str]:
        found = stored[self.name]
        if found.dtype != "U8":
            yield from type_faults(self.name, found, "U8")
            return
        bits, n = found.array(), found.shape[0]
        own = np.arange(n)
        if n % 8 and (bits[:, -1] >> n % 8).any():
            yield f"{self.name}: holds bits beyond the {n} users"
        if (bits[own, own // 8] >> (own % 8) & 1).any():
            yield f"{self.name}: holds links of users with themselves"


def link_faults(where: str, release: Values, certificate: Certificate) -> Iterator[str]:
    """Yield what is wrong with degrees or bits of neighbor lists: every user sends them, at their part of the budget."""
    event, settings, n = release["event"], certificate["settings"], certificate["public_facts"]["num_nodes"]
    degrees = release["name"] == DEGREES
    expected = [n] if degrees else [n, -(-n // 8)]
    if release["shape"] != expected:
        yield f"{where}shape: expected {expected}, for {n} users, got {release['shape'][:4]}"
    if release["affected_coordinates"] != 0:
        yield f"{where}affected_coordinates: expected 0, got {release['affected_coordinates']}"
    if event["type"] != "pure" or event["count"] != 1:
        yield f"{where}event: expected one report of type pure"
        return
    asked = Fraction(settings["epsilon"])
    part = Fraction(int(asked * Fraction(settings["degree_share"]) * _STEPS), _STEPS)
    rest = float(asked - part)
    low, high = (float(part),) * 2 if degrees else (least_epsilon(rest, 1, 2, 2), (1 + 1e-9) * rest)
    if not low <= event["epsilon"] <= high:
        wanted = float(part) if degrees else rest
        yield f"{where}event.epsilon: expected about {wanted:.9g}, as the settings ask, got {event['epsilon']:.9g}"
