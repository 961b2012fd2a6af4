"""What a run of some size can be expected to do: what the default did on public graphs of similar size and degree.

The figures are those of ``docs/results/defaults.md`` and ``docs/results/rare.md``, of which ``python tools/docs_pages.py`` makes
``figures.csv``. They are no promise: how much edges say about a label is a fact about each graph.
"""

from __future__ import annotations

import csv
import math
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

from sfumato.graph._rare_outcomes import PATTERNS

ACCURACY, AUC = "accuracy", "auc"
_GENERATED = (20_000, 20.0)
"""Nodes and mean degree of the generated tasks of ``docs/results/rare.md``."""
_LEAST_GAIN = 2.0
"""Below so many points from floor to ceiling no share of the way is told."""
_NEAREST = 4
FACTOR = 8.0
"""Beyond so large a ratio of nodes or degrees another graph says little."""


@dataclass(frozen=True)
class Figure:
    """A figure is one score of the default on a public graph, in percent, between those of its controls."""

    unit: str  # edge or node
    task: str  # the name of the data set; of a rare class the task
    epsilon: float
    score: str  # accuracy or auc
    run: float
    floor: float  # of the better model of features alone, at the same budget
    ceiling: float  # of label messages without privacy

    @property
    def size(self) -> tuple[int, float] | None:
        """The number of nodes and the mean degree; None if they are not known."""
        generated = self.task.partition("-")[0] in PATTERNS
        return _GENERATED if generated else _sizes().get(self.task.partition(":")[0])

    @property
    def kept(self) -> float | None:
        """The share of the way from floor to ceiling; None where the graph adds next to nothing."""
        gain = self.ceiling - self.floor
        return None if gain < _LEAST_GAIN else (self.run - self.floor) / gain


@cache
def figures() -> tuple[Figure, ...]:
    """Return all figures that are kept."""
    text = (files("sfumato.evaluation") / "figures.csv").read_text(encoding="utf-8")
    return tuple(
        Figure(row["unit"], row["task"], float(row["epsilon"]), row["score"], *(float(row[name]) for name in _SCORES))
        for row in csv.DictReader(text.splitlines())
    )


_SCORES = ("run", "floor", "ceiling")


def expected(unit: str, epsilon: float, num_nodes: int, mean_degree: float, score: str = ACCURACY) -> list[Figure]:
    """Return the figures of the public graphs that are most similar, the nearest first; empty if none of the kind is kept.

    >>> [figure.task for figure in expected("edge", 1.0, 2700, 4.0)][:2]
    ['planetoid/cora', 'planetoid/citeseer']
    """
    there = [one for one in figures() if (one.unit, one.score) == (unit, score) and one.size is not None]
    if not there or epsilon <= 0:
        return []
    at = min({one.epsilon for one in there}, key=lambda measured: (abs(math.log(measured / epsilon)), measured))
    asked = (max(num_nodes, 1), max(mean_degree, 0.1))
    near = sorted((one for one in there if one.epsilon == at), key=lambda one: _distance(one, asked))
    return near[:_NEAREST]


def far(figure: Figure, num_nodes: int, mean_degree: float) -> bool:
    """Say whether a graph differs from that of a figure by more than :data:`FACTOR` in nodes or degree."""
    assert figure.size is not None
    pairs = zip(figure.size, (num_nodes, mean_degree), strict=True)
    return any(not 1 / FACTOR <= max(asked, 1e-9) / known <= FACTOR for known, asked in pairs)


def _distance(figure: Figure, asked: tuple[float, float]) -> float:
    assert figure.size is not None
    return math.hypot(*(math.log(known / one) for known, one in zip(figure.size, asked, strict=True)))


@cache
def _sizes() -> dict[str, tuple[int, float]]:
    from sfumato.datasets._listing import list_datasets

    rows = [row for row in list_datasets(None) if row.num_nodes and row.num_arcs]
    return {row.name: (row.num_nodes, row.num_arcs / row.num_nodes) for row in rows if row.num_nodes and row.num_arcs}
