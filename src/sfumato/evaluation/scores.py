"""Evaluation beside its controls: scores of repeated fits, their interval, and the share of the graph's gain kept.

Everything here reads true labels: it belongs under `evaluation/`, outside the guarantee.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from numpy.typing import NDArray

from sfumato.errors import DataError
from sfumato.nn.metrics import accuracy, macro_f1

if TYPE_CHECKING:
    from sfumato.graph.graph import Graph


class Predictor(Protocol):
    """Any object that predicts a class for every node of a graph."""

    def predict(self, graph: Graph) -> NDArray[np.int64]: ...


@dataclass(frozen=True)
class Summary:
    """The mean of a score over seeds, with its 95 % t-interval. Scores are shares, so the interval ends at 0 and 1.

    Args:
        mean: the mean over all seeds.
        low: lower end of the interval; None for a single seed.
        high: upper end of the interval; None for a single seed.
        seeds: the number of seeds.

    >>> summary = Summary.of([0.70, 0.72, 0.74])
    >>> round(summary.mean, 3), round(summary.low, 3), round(summary.high, 3)
    (0.72, 0.67, 0.77)
    >>> Summary.of([0.98, 1.0]).high
    1.0
    """

    mean: float
    low: float | None
    high: float | None
    seeds: int

    @classmethod
    def of(cls, values: Sequence[float]) -> Summary:
        """Make the summary of a score that each seed has one value of."""
        mean = float(np.mean(values))
        if len(values) < 2:
            return cls(mean, None, None, len(values))
        from scipy.special import stdtrit

        half = float(stdtrit(len(values) - 1, 0.975) * np.std(values, ddof=1) / math.sqrt(len(values)))
        return cls(mean, max(mean - half, 0.0), min(mean + half, 1.0), len(values))

    def to_dict(self) -> dict[str, Any]:
        """Return the JSON form, in which scores are fractions."""
        return {"mean": self.mean, "low": self.low, "high": self.high, "seeds": self.seeds}

    def __str__(self) -> str:
        interval = "" if self.low is None or self.high is None else f" [{100 * self.low:.1f}, {100 * self.high:.1f}]"
        return f"{100 * self.mean:.1f} %{interval}"


def score(fitted: Predictor, graph: Graph) -> tuple[float, float]:
    """Return accuracy and macro-F1 of a fitted model on the graph's labeled test nodes."""
    assert graph.y is not None
    test = graph.test_mask
    predicted = fitted.predict(graph)[test]
    return accuracy(graph.y[test], predicted), macro_f1(graph.y[test], predicted, graph.num_classes)


def check_scorable(graph: Graph) -> None:
    """Refuse a split without a labeled test node, before anything is spent on it.

    Raises:
        DataError: no test node has a label.
    """
    assert graph.y is not None
    if not (graph.test_mask & (graph.y >= 0)).any():
        raise DataError(
            f"Expected graph {graph.name!r} to have a labeled test node, got none. Check the label column and the split."
        )


def majority_share(graph: Graph) -> float:
    """Return the accuracy on test nodes if every answer is the most frequent training class."""
    assert graph.y is not None
    train = graph.y[graph.train_mask & (graph.y >= 0)]
    test = graph.y[graph.test_mask & (graph.y >= 0)]
    return float((test == np.bincount(train).argmax()).mean())


def graph_gain_recovered(score: float, floor: float | None, ceiling: float | None) -> float | None:
    """Return the share of the graph's gain that remains under privacy: (score - floor) / (ceiling - floor).

    Args:
        score: the score under privacy.
        floor: the score without the graph, or None.
        ceiling: the score without privacy, or None.

    Returns:
        The share, or None if a control is missing or the graph gains nothing.

    >>> graph_gain_recovered(0.65, 0.50, 0.80)
    0.5
    """
    if floor is None or ceiling is None or ceiling <= floor:
        return None
    return round((score - floor) / (ceiling - floor), 12)
