"""What the verifier knows of methods under unit servers: two servers open noisy counts of public cells."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from ._kinds import Planned, Reports, Values, type_faults
from ._reports import SENT

if TYPE_CHECKING:
    from ._rules import Certificate, Known
    from ._tensors import Stored

COUNTS = "cell-counts"


@dataclass(frozen=True)
class Opened(Reports):
    """A row for each node: the number of its cell, or -1, and what was opened of that cell, one count a class."""

    def value_faults(self, stored: Mapping[str, Stored]) -> Iterator[str]:
        found = stored[self.name]
        if found.dtype != "I64":
            yield from type_faults(self.name, found, "I64")
            return
        rows = found.array()
        cells, counts = rows[:, 0], rows[:, 1:]
        most = int(cells.max(initial=-1))
        if cells.min(initial=0) < -1 or most >= len(rows) or most < 0:
            yield f"{self.name}: expected cells that are numbered from 0, and -1 for nodes that are not asked"
            return
        inside = cells >= 0
        users = np.bincount(cells[inside], minlength=most + 1)
        first = np.zeros((most + 1, counts.shape[1]), counts.dtype)
        first[cells[inside]] = counts[inside]
        if not users.all():
            yield f"{self.name}: holds a cell without users"
        if (first[cells[inside]] != counts[inside]).any():
            yield f"{self.name}: holds different counts for users of one cell"
        if (first.sum(axis=1) != users).any():
            yield f"{self.name}: holds counts that do not sum to the users of their cell"
        if counts[~inside].any():
            yield f"{self.name}: holds counts for nodes that are not asked"


def _faults(known: Known) -> Iterator[str]:
    if known.unit["name"] != "none" and (delta := known.certificate["claim"]["delta"]) != 0:
        yield f"certificate.json: claim.delta: expected 0, got {delta}"


def _check(certificate: Certificate, where: str, release: Values) -> Iterator[str]:
    """Yield what is wrong with opened counts: each user is in one cell, so that all together cost the epsilon asked for."""
    event, facts, asked = release["event"], certificate["public_facts"], certificate["settings"]["epsilon_y"]
    expected = [facts["num_nodes"], 1 + facts["num_classes"]]
    if release["shape"] != expected:
        yield f"{where}shape: expected {expected}, a cell and {facts['num_classes']} counts a node, got {release['shape'][:4]}"
    if release["affected_coordinates"] != 0:
        yield f"{where}affected_coordinates: expected 0, got {release['affected_coordinates']}"
    if event["type"] != "pure" or event["count"] != 1:
        yield f"{where}event: expected one report of type pure"
    elif event["epsilon"] != asked:
        yield f"{where}event.epsilon: expected {asked:.9g}, as the settings ask, got {event['epsilon']:.9g}"


def _releases(known: Known) -> list[Planned]:
    shape = [known.num_nodes, 1 + known.num_classes]
    return [Opened(COUNTS, shape, 0, lambda where, release: _check(known.certificate, where, release), _integers)]


def _integers(_: int) -> Any:
    return "I64", 0, (0, 0), (0, 0)


RULES: dict[str, Any] = {
    "settings": {"epsilon_y": "positive up to 100"}, "audience": {"servers": SENT}, "faults": _faults, "releases": _releases,
    "tensors": lambda known, _: {"probabilities": [known.num_nodes, known.num_classes]},
}  # fmt: skip
