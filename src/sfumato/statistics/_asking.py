"""What can be asked about a graph, and how near the answers would be: known before any data is read."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from sfumato.bounded._statistics import by_bounds
from sfumato.errors import UnsupportedUnitError
from sfumato.graph._facts import PublicFacts
from sfumato.graph._weights import FULL
from sfumato.privacy.units import EdgeLevel, NodeLevel, PersonLevel, Unit
from sfumato.statistics._laws import Law
from sfumato.statistics._statistics import ROWS, Statistics

if TYPE_CHECKING:
    from sfumato.method._plan import Plan

_UNITS: tuple[tuple[str, Unit], ...] = (
    ("edge", EdgeLevel(directed=False)),
    ("edge", EdgeLevel(directed=True)),
    ("person", PersonLevel(1, directed=False)),
    ("person", PersonLevel(1, directed=True)),
    ("node", NodeLevel(arcs="incident")),
)


@dataclass(frozen=True)
class Offer:
    """A statistic that can be asked for.

    Args:
        name: as ``stats`` names it.
        words: what it counts.
        share: its share of the budget, unless another is named.
        units: the units under which it has a proof, with the kind of graph if it is for one alone.
    """

    name: str
    words: str
    share: float
    units: tuple[str, ...]


def offers() -> tuple[Offer, ...]:
    """Return all statistics that can be asked for, with the units that have a proof.

    >>> [one.units for one in offers() if one.name in ("edges", "triangles")]
    [('edge', 'person', 'node'), ('edge (undirected)', 'node (undirected)')]
    """
    return tuple(Offer(name, row.words, row.share, tuple(_units(name))) for name, row in ROWS.items())


def _units(name: str) -> Iterator[str]:
    found: dict[str, list[str]] = {}
    for word, unit in _UNITS:
        for directed in (False, True):
            public = PublicFacts(100, 75, 0, 2, directed=directed, max_degree=10, max_weight=1.0)
            try:
                Statistics(name).releases(unit, public, 1.0)
            except UnsupportedUnitError:
                continue
            found.setdefault(word, []).append("directed" if directed else "undirected")
    for word, kinds in found.items():
        yield word if len(set(kinds)) == 2 else f"{word} ({kinds[0]})"


def half_width(plan: Plan, name: str, confidence: float = 0.95) -> float | None:
    """Return how far one count of a release may be from the truth with this chance; None if released bounds decide it.

    >>> public = PublicFacts(100, 75, 0, 2, directed=False)
    >>> from sfumato.privacy.budget import Budget
    >>> plan = Statistics("edges").calibrate(Budget(1.0, 0.0), EdgeLevel(directed=False), public)
    >>> half_width(plan, "edges")
    3.0
    """
    method = plan.method
    assert isinstance(method, Statistics)
    if by_bounds(name, plan.unit):
        return None
    low, high, _ = Law.of([float(method.scale(plan, name, {}))]).interval(confidence)
    bound = plan.public.max_weight
    return max(-low, high) * (bound / FULL if name == "weight" and bound is not None else 1.0)
