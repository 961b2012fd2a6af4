"""One answer of a run of statistics."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any


@dataclass(frozen=True)
class Answer:
    """One number with its interval.

    Args:
        statistic: the name of the statistic that it comes from.
        what: what it is, in words.
        value: the estimate; None where the noise was too wide to be drawn.
        low: lower end of the interval.
        high: upper end of the interval.
        coverage: the chance with which the interval holds the number of this graph.
        exact: whether the chance is exact or a lower bound; else it is an approximation.
        count: whether it counts nodes, edges or other parts of a graph.
        groups: the groups that it is about: none, one, or those of both ends.
        span: of nodes by their degree, the first and the last degree that are counted.
    """

    statistic: str
    what: str
    value: float | None
    low: float | None
    high: float | None
    coverage: float
    exact: bool = True
    count: bool = False
    groups: tuple[str, ...] = ()
    span: tuple[int, int] | None = None

    def to_dict(self) -> dict[str, Any]:
        """Return all fields by name, as JSON values; ``interval`` says whether the chance is exact or approximate."""
        told = asdict(self)
        kind = "exact" if told.pop("exact") else "approximate"
        return {**told, "interval": kind}
