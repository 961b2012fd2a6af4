"""These scores compare predictions with known labels; a missing one (-1 of classes, NaN of other targets) does not count."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from sfumato._validate import fail

_GROUPS = 15
_DIGITS = 12  # sums over rows in another order differ beyond


def accuracy(y: NDArray[np.integer], predicted: NDArray[np.integer]) -> float:
    """Compute the share of labeled rows that are predicted right."""
    labeled = _labeled(y)
    return float((y[labeled] == predicted[labeled]).mean())


def macro_f1(y: NDArray[np.integer], predicted: NDArray[np.integer], num_classes: int) -> float:
    """Compute the unweighted mean of the classes' F1; a class that neither occurs nor is predicted does not count."""
    labeled = _labeled(y)
    confusion = np.zeros((num_classes, num_classes), np.int64)
    np.add.at(confusion, (y[labeled], predicted[labeled]), 1)
    total = confusion.sum(0) + confusion.sum(1)
    return float((2 * np.diag(confusion)[total > 0] / total[total > 0]).mean())


def class_scores(y: NDArray[np.integer], chances: NDArray[np.floating]) -> dict[str, float]:
    """Compute what accuracy does not see: scores of the probabilities, and those that count every class the same.

    * ``balanced_accuracy``: the mean of the classes' recall at the most probable class.
    * ``roc_auc`` and ``average_precision``: of each class against the rest, from its probability, and the mean over classes that
      occur and are not alone. Of two classes the precision is that of the rarer one, which is the one looked for.
    * ``log_loss``: the mean of minus the logarithm of the true class's probability, which is taken to be at least 1e-9.
    * ``brier``: the mean of the squared distance between the probabilities and the true class, 0 to 2.
    * ``calibration_error``: how far the probability of the told class is from the share of right answers: the mean distance over
      15 groups of equally many nodes, in order of that probability. With n nodes chance alone gives about 1.2 / sqrt(n).
    """
    labeled = _labeled(y)
    y, chances = y[labeled], chances[labeled].astype(np.float64)
    told, rows = chances.argmax(axis=1), np.arange(len(y))
    present = np.unique(y)
    areas = [one_against_rest(y == label, chances[:, label]) for label in present]
    area, precision = np.mean(areas, axis=0) if len(present) > 1 else (0.5, 1.0)
    if chances.shape[1] == len(present) == 2:
        precision = areas[int((y == 1).sum() <= (y == 0).sum())][1]
    sure = chances[rows, told]
    gap = sure - shared(sure, told == y)
    groups = np.array_split(np.argsort(sure, kind="stable"), _GROUPS)
    distance = chances.copy()
    distance[rows, y] -= 1
    found = {
        "balanced_accuracy": float(np.mean([(told[y == label] == label).mean() for label in present])),
        "roc_auc": float(area),
        "average_precision": float(precision),
        "log_loss": float(-np.log(np.maximum(chances[rows, y], 1e-9)).mean()),
        "brier": float(np.square(distance).sum(axis=1).mean()),
        "calibration_error": float(sum(abs(gap[group].sum()) for group in groups) / len(y)),
    }
    return {name: round(value, _DIGITS) for name, value in found.items()}


def one_against_rest(there: NDArray[np.bool_], chances: NDArray[np.floating]) -> tuple[float, float]:
    """Compute the area under the ROC curve and the average precision of one class against the rest.

    A class that no row has, or every row, has no area: it is taken for one half, and the precision for the share of the class.
    """
    if there.all() or not there.any():
        return 0.5, float(there.mean())
    right, rows = _above(there, chances)
    return _ordered(right, rows), float((np.diff(right, prepend=0) * right / rows).sum() / right[-1])


def _above(there: NDArray[np.bool_], chances: NDArray[np.floating]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """From the highest probability on: how many rows of a class, and how many at all, have this one or a higher one."""
    order = np.argsort(-chances, kind="stable")
    ends = np.flatnonzero(np.append(np.diff(chances[order]) != 0, True))
    return np.cumsum(there[order], dtype=np.int64)[ends], np.asarray(ends + 1, np.int64)


def _ordered(right: NDArray[np.int64], rows: NDArray[np.int64]) -> float:
    """The share of pairs of a row of the class and another whose order is right; ties count half."""
    wrong, own = rows - right, np.diff(right, prepend=0)
    later = (
        wrong[-1] - wrong + np.diff(wrong, prepend=0) / 2
    )  # others with a lower probability, and half of those with this one
    return float((own * later).sum() / (right[-1] * wrong[-1]))


def shared(chances: NDArray[np.floating], true: NDArray[np.bool_]) -> NDArray[np.float64]:
    """Return for each row how often it came true among the rows of its own probability, [n]: no order of equal rows matters."""
    _, place, count = np.unique(chances, return_inverse=True, return_counts=True)
    rates: NDArray[np.float64] = (np.bincount(place, true) / count)[place]
    return rates


def area_by_row(there: NDArray[np.bool_], chances: NDArray[np.floating]) -> NDArray[np.float64]:
    r"""Return the area under the ROC curve spread over the rows, whose mean it is, so that its error is that of a mean.

    A row with the class is above the share :math:`V` of the rows without it, and the reverse (DeLong, DeLong and Clarke-Pearson
    1988). Its value is :math:`A + (V - A) / \pi`, with A the area and :math:`\pi` the share of rows of its kind. The mean is A.

    At least one row has the class, and at least one has not.
    """
    ranks = _ranks(chances)
    positive, total = int(there.sum()), len(there)
    beaten = np.empty(total)
    beaten[there] = (ranks[there] - _ranks(chances[there])) / (total - positive)
    beaten[~there] = 1 - (ranks[~there] - _ranks(chances[~there])) / positive
    area = beaten[there].mean()
    spread: NDArray[np.float64] = area + (beaten - area) / np.where(there, positive, total - positive) * total
    return spread


def label_scores(y: NDArray[np.floating], chances: NDArray[np.floating]) -> dict[str, float]:
    """Compute micro-F1 and macro-F1 at a probability of one half, and the mean area under the ROC curve of each label.

    A label that neither occurs nor is predicted has no F1, and one that all nodes have, or none, has no area: they do not count.
    """
    known = _there(y)
    true, said = (y == 1) & known, (chances > 0.5) & known
    right, total = (true & said).sum(0), true.sum(0) + said.sum(0)
    each = 2 * right[total > 0] / total[total > 0]
    areas = [_area(y[rows, at], chances[rows, at]) for at, rows in enumerate(known.T)]
    return {
        "micro_f1": float(2 * right.sum() / max(total.sum(), 1)),
        "macro_f1": float(each.mean()) if len(each) else 0.0,
        "roc_auc": float(np.nanmean(areas)) if not np.isnan(areas).all() else 0.5,
    }


def number_scores(y: NDArray[np.floating], said: NDArray[np.floating]) -> dict[str, float]:
    """Compute the share of the variance that is explained (R2), the mean absolute and the root of the mean squared error."""
    known = _there(y)
    truth = y[known].astype(np.float64)
    error = said[known].astype(np.float64) - truth
    spread = float(np.var(truth))
    mean_square = float(np.mean(error**2))
    return {
        "r2": 1 - mean_square / spread if spread else float(mean_square == 0),
        "mae": float(np.abs(error).mean()),
        "rmse": mean_square**0.5,
    }


def auc(present: NDArray[np.floating], absent: NDArray[np.floating]) -> float:
    """Compute the chance that a score of an edge is above that of a pair without edge; ties count half."""
    ranks = _ranks(np.concatenate((present, absent)))[: len(present)]
    return float((ranks.mean() - (len(present) + 1) / 2) / len(absent))


def average_precision(present: NDArray[np.floating], absent: NDArray[np.floating]) -> float:
    """Compute the mean, over edges, of the share of edges among the pairs scored as high or higher."""

    def above(scores: NDArray[np.floating]) -> NDArray[np.int64]:
        return len(scores) - np.searchsorted(np.sort(scores), present, side="left")

    return float((above(present) / (above(present) + above(absent))).mean())


def _area(y: NDArray[np.floating] | NDArray[np.bool_], chances: NDArray[np.floating]) -> float:
    """The share of pairs of a node with the label and one without whose order is right; ties count half."""
    there = y == 1
    return _ordered(*_above(there, chances)) if there.any() and not there.all() else float("nan")


def _ranks(values: NDArray[np.floating]) -> NDArray[np.float64]:
    """Ranks from 1 on; equal values share the mean of theirs."""
    _, place, count = np.unique(values, return_inverse=True, return_counts=True)
    ranks: NDArray[np.float64] = (np.cumsum(count) - (count - 1) / 2)[place]
    return ranks


def _there(y: NDArray[np.floating]) -> NDArray[np.bool_]:
    known: NDArray[np.bool_] = ~np.isnan(y)
    if not known.any():
        raise fail("y", "no known target", "to hold at least one target to score against", "Check the roles.")
    return known


def _labeled(y: NDArray[np.integer]) -> NDArray[np.bool_]:
    labeled = y >= 0
    if not labeled.any():
        raise fail("y", "no labeled row", "to hold at least one label to score against", "Check the roles.")
    return labeled
