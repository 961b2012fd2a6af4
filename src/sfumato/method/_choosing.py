r"""What is decided from probabilities: sets of classes that hold the true one, thresholds, and whom to look at first.

Everything here is post-processing of predictions and, where labels are public, of the labels of validation nodes: nothing is
spent, and nothing new is stored in a release.

* *Sets* are split conformal. The set of node v holds each class whose probability at v is at least the r-th largest
  probability that the n validation nodes have of their own class, :math:`r = \lceil (n + 1) c \rceil` for coverage c. If v is
  exchangeable with the validation nodes, as a node that was drawn with them is, its set holds its class with probability at
  least c, and at most :math:`c + 1 / (n + 1)`. Equal probabilities are told apart by public numbers that follow from node
  ids. With ``each_class``, r and n are those of the class alone, and so is what is promised.
* *Thresholds* are a number, or the largest one at which new nodes of the positive class reach a recall in expectation (the
  same rule, for this class), or FP / (FP + FN), which costs least if probabilities are right. No validation node moves that
  one: where a class is rare, the few that it has cannot show that another is cheaper.
* *Top*: the nodes with the largest probability of the positive class, among those whose label is not known.

Validation labels also chose passes, weights and parts of the model, out of a few hundred; the decision note 0044 measures what
that costs. Where labels are protected, sets and recall would have to read protected labels and are refused.

Source: Vovk et al. (2005), Algorithmic Learning in a Random World; Sadinle et al. (2019), Least Ambiguous Set-Valued
Classifiers with Bounded Error Levels.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sfumato.errors import InputError
from sfumato.method._decisions import parsed

BINS = 32
"""Of log-odds from -8 to 8; the first and the last hold what is beyond."""
_MOST_ODDS = 8.0
_CAUTION = 0.25  # deviations of the noise of a sum, chosen on generated scores
_ONE_SIDED = 1.645  # deviations that 19 of 20 draws stay above
SLACK = 1e-9
"""Floats make products such as 10 x 0.7 a little more, or less, than they are."""


def needed(coverage: float, count: int) -> int:
    r"""Return r, of ``count`` nodes how many must be covered: :math:`\lceil (n + 1) c \rceil`; it may be more than there are."""
    return max(1, math.ceil((count + 1) * coverage - SLACK))


def public_numbers(nodes: Sequence[Any]) -> NDArray[np.uint64]:
    """Return a number for each node that follows from its id alone and is as good as drawn."""
    drawn = b"".join(hashlib.sha256(f"sfumato node order 1\0{node}".encode()).digest()[:8] for node in nodes)
    return np.frombuffer(drawn, dtype="<u8").astype(np.uint64)


def conformal_sets(
    probabilities: NDArray[np.floating],
    numbers: NDArray[np.uint64],
    labels: NDArray[np.int64],
    coverage: float,
    *,
    each_class: bool = False,
) -> NDArray[np.bool_]:
    """Return which classes are in the set of each node, [n, C]; ``labels`` of nodes that do not calibrate are -1.

    A class of which too few nodes are known, or all classes if too few are known at all, is in every set. ``numbers`` tell equal
    probabilities apart (:func:`public_numbers`).
    """
    known = np.flatnonzero(labels >= 0)
    own = probabilities[known, labels[known]]
    sets = np.ones(probabilities.shape, np.bool_)
    for label in range(probabilities.shape[1]):
        among = labels[known] == label if each_class else np.ones(len(known), np.bool_)
        taken = needed(coverage, int(among.sum()))
        if taken > among.sum():
            continue
        rank = np.lexsort((numbers[known][among], own[among]))[::-1][taken - 1]
        least, last = own[among][rank], numbers[known][among][rank]
        column = probabilities[:, label]
        sets[:, label] = (column > least) | ((column == least) & (numbers >= last))
    return sets


def bins_of(probabilities: NDArray[np.floating]) -> NDArray[np.int64]:
    """Return the bin of each probability by its log-odds, from 0 to 31, of any shape."""
    found = np.clip(probabilities.astype(np.float64), 1e-9, 1 - 1e-9)
    place = (np.log(found / (1 - found)) + _MOST_ODDS) / (2 * _MOST_ODDS) * BINS
    return np.clip(np.floor(place), 0, BINS - 1).astype(np.int64)


@dataclass(frozen=True)
class NoisyCounts:
    """Validation nodes by the bin of the probability of their own class, with discrete Laplace noise of a ``scale``."""

    values: NDArray[np.int64]
    scale: float

    def deviation(self, bins: NDArray[np.int64] | int) -> Any:
        """Return the standard deviation of the noise in a sum of ``bins`` bins, at most."""
        return self.scale * np.sqrt(2.0 * np.asarray(bins))


def sets_from_counts(
    probabilities: NDArray[np.floating], numbers: NDArray[np.uint64], counts: NoisyCounts, coverage: float
) -> tuple[NDArray[np.bool_], float]:
    """Return which classes are in the set of each node, [n, C], by noisy counts, and the least share that is covered.

    It is the rule of :func:`conformal_sets` for probabilities that are known by their bins alone: within a bin, numbers of nodes
    decide. Sums are taken from the low bins, where classes that are left out are, so that noise of the others hardly counts.
    Noise makes sums go up and down, and where few nodes may be missed it moves the covered share down more than up. So the bin is
    the first at which a sum and a quarter of the deviation of its noise are too large: sets cover what was asked for, or more, on
    average over noise too. The share is reached in 19 of 20 draws of validation nodes and noise.
    """
    from scipy.special import betaincinv

    there = max(float(counts.values.sum()), 0.0)
    missed = there - coverage * (there + 1)
    if missed <= 0:
        return np.ones(probabilities.shape, np.bool_), 1.0
    sums = np.maximum.accumulate(np.cumsum(counts.values) + _CAUTION * counts.deviation(np.arange(1, BINS + 1)))
    last = min(int(np.searchsorted(sums, missed, side="right")), BINS - 1)
    before = sums[last - 1] if last else 0.0
    share = np.clip((missed - before) / max(sums[last] - before, 1.0), 0.0, 1.0)
    bins = bins_of(probabilities)
    lucky = numbers[:, None] >= np.uint64(min(share * 2.0**64, 2.0**64 - 2048))
    found: NDArray[np.bool_] = (bins > last) | ((bins == last) & lucky)
    drawn = coverage - float(betaincinv(there - missed, missed + 1, 0.05))
    noise = _ONE_SIDED * float(counts.deviation(last + 1)) / there
    return found, max(0.0, coverage - math.hypot(drawn, noise))


def covered_between(coverage: float, count: int) -> tuple[float, float]:
    """Return the shares of new nodes between which the covered share is in 19 of 20 draws of ``count`` validation nodes."""
    from scipy.special import betaincinv

    taken = needed(coverage, count)
    low, high = betaincinv(taken, count + 1 - taken, [0.025, 0.975])
    return float(low), float(high)


def balanced(probabilities: NDArray[np.floating], labels: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the class of each node that is most probable if all classes were equally many.

    That is the class with the largest probability for its number of training nodes, of which each class has one more.
    """
    counts = np.bincount(labels, minlength=probabilities.shape[1]) + 1
    found: NDArray[np.int64] = (probabilities / counts).argmax(axis=1)
    return found


def least_probability(threshold: float | str, of_class: NDArray[np.floating], labels: NDArray[np.bool_]) -> float:
    """Return the least probability of the positive class at which a node is chosen; above 1 where none shall be.

    ``of_class`` are probabilities of the class at validation nodes; none where their labels are protected.
    """
    way, first, second = parsed(threshold)
    if way == "number":
        return first
    if way == "cost":
        return first / (first + second)
    there = int(labels.sum())
    if not _supports(first, there):
        least = there + 1
        while not _supports(first, least):
            least = least + 1 + least // 100  # such as 0.999 takes thousands
        raise InputError(
            f"Expected {least} validation nodes of the class, or more, for a recall of {first:g}, got {there}: with fewer, new "
            "nodes could be found at less than half of it. Ask for another recall, or train with a larger share of validation "
            "nodes."
        )
    return float(np.sort(of_class[labels])[::-1][needed(first, there) - 1])


def _supports(recall: float, there: int) -> bool:
    """Whether so many nodes of a class find at least half of the recall in all but 1 of 40 draws of them."""
    return needed(recall, there) <= there and covered_between(recall, there)[0] >= recall / 2
