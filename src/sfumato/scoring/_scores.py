"""Evaluation beside its controls: scores of repeated fits, their interval, and the share of the graph's gain kept.

Everything here reads true labels: it belongs under `evaluation/`, outside the guarantee.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from sfumato.errors import DataError
from sfumato.graph._facts import labeled_mask
from sfumato.graph._targets import CLASS, MULTILABEL, NUMBER
from sfumato.nn._metrics import accuracy, class_scores, label_scores, macro_f1, number_scores
from sfumato.scoring._answers import Answers, Predictor, answers_of

if TYPE_CHECKING:
    from sfumato.graph._graph import Graph


SCORES = {
    CLASS: (
        "accuracy",
        "macro_f1",
        "balanced_accuracy",
        "roc_auc",
        "average_precision",
        "log_loss",
        "brier",
        "calibration_error",
    ),
    MULTILABEL: ("micro_f1", "macro_f1", "roc_auc"),
    NUMBER: ("r2", "mae", "rmse"),
}
"""The scores of each kind of target. The first is *the* score, by which runs are compared: more is better."""

TITLES = {
    "accuracy": "accuracy", "macro_f1": "macro-F1", "micro_f1": "micro-F1", "roc_auc": "ROC-AUC", "r2": "R2", "mae": "MAE",
    "rmse": "RMSE", "balanced_accuracy": "balanced accuracy", "average_precision": "average precision", "log_loss": "log-loss",
    "brier": "Brier score", "calibration_error": "calibration error",
}  # fmt: skip
"""How tables call each score."""
SHORT = {
    "balanced_accuracy": "balanced accuracy", "roc_auc": "AUC", "average_precision": "AP", "log_loss": "log-loss",
    "calibration_error": "ECE",
}  # fmt: skip
"""How narrow tables call some of them."""
ERRORS = ("mae", "rmse", "log_loss", "brier")
"""Scores that are no shares; the others are, of which R2 may be negative."""
UNBOUNDED = (*ERRORS, "r2")
"""Scores whose intervals do not end at 0 and 1."""


@dataclass(frozen=True)
class Summary:
    """The mean of a score over seeds, with its 95 % t-interval (None for a single seed), which ends at 0 and 1 for a share."""

    mean: float
    low: float | None
    high: float | None
    seeds: int

    @classmethod
    def of(cls, values: Sequence[float], *, share: bool = True) -> Summary:
        """Make the summary of a score that each seed has one value of; ``share`` says that it is from 0 to 1."""
        mean = float(np.mean(values))
        if len(values) < 2:
            return cls(mean, None, None, len(values))
        from scipy.special import stdtrit

        half = float(stdtrit(len(values) - 1, 0.975) * np.std(values, ddof=1) / math.sqrt(len(values)))
        low, high = (0.0, 1.0) if share else (-math.inf, math.inf)
        return cls(mean, max(mean - half, low), min(mean + half, high), len(values))

    def to_dict(self) -> dict[str, Any]:
        return {"mean": self.mean, "low": self.low, "high": self.high, "seeds": self.seeds}

    def __str__(self) -> str:
        interval = "" if self.low is None or self.high is None else f" [{100 * self.low:.1f}, {100 * self.high:.1f}]"
        return f"{100 * self.mean:.1f} %{interval}"


def target_kind(graph: Graph) -> str:
    """Return what is learned of a graph, a key of :data:`SCORES`."""
    return CLASS if graph.targets is None else graph.targets.kind


def score(fitted: Predictor, graph: Graph) -> dict[str, float]:
    """Return the :data:`SCORES` of a fitted model on the graph's labeled test nodes, by name."""
    return scores_of(answers_of(fitted, graph, graph.test_mask), graph)


def scores_of(answers: Answers, graph: Graph) -> dict[str, float]:
    """Return the :data:`SCORES` of what a model said of some nodes of a graph, by name."""
    truth, told, chances = answers.truth, answers.told, answers.chances
    if answers.kind == NUMBER:
        return number_scores(truth[:, 0], told)
    if answers.kind == MULTILABEL:
        return label_scores(truth, chances)
    found = {"accuracy": accuracy(truth, told), "macro_f1": macro_f1(truth, told, graph.num_classes)}
    return {**found, **class_scores(truth, chances)}


def without_information(graph: Graph) -> dict[str, float]:
    """Return the scores on test nodes of one answer for all, which no feature and no arc has a part in.

    That answer is each class's or label's share of the training nodes, or the middle of the range of a number. Its accuracy is
    the majority line.
    """
    if graph.targets is None:
        assert graph.y is not None
        counts = np.bincount(graph.y[graph.train_mask & (graph.y >= 0)], minlength=graph.num_classes)
        nodes = np.flatnonzero(graph.test_mask & (graph.y >= 0))
        chances = np.broadcast_to(counts / max(counts.sum(), 1), (len(nodes), graph.num_classes))
        told = np.full(len(nodes), counts.argmax())
        return scores_of(Answers(CLASS, nodes, graph.y[nodes], told, chances), graph)
    truth = graph.targets.values[graph.test_mask]
    if graph.targets.limits is not None:
        return number_scores(truth[:, 0], np.full(len(truth), sum(graph.targets.limits) / 2))
    shares = np.nan_to_num(np.nanmean(graph.targets.values[graph.train_mask], axis=0))
    return label_scores(truth, np.broadcast_to(shares, truth.shape))


def check_scorable(graph: Graph) -> None:
    """Refuse a split without a labeled test node, before anything is spent on it."""
    if not (graph.test_mask & labeled_mask(graph)).any():
        raise DataError(
            f"Expected graph {graph.name!r} to have a labeled test node, got none. Check the label column and the split."
        )


def graph_gain_recovered(score: float, floor: float | None, ceiling: float | None) -> float | None:
    """Return the share of the graph's gain that remains under privacy: (score - floor) / (ceiling - floor)."""
    if floor is None or ceiling is None or ceiling <= floor:
        return None
    return round((score - floor) / (ceiling - floor), 12)
