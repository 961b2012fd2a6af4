"""Labels: subset selection, the randomizer of most information for few classes and a small epsilon."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations, takewhile
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import sparse

from sfumato._validate import check_int
from sfumato.noise.exact import WORDS, probabilities
from sfumato.randomizers._randomized_response import Labels
from sfumato.randomizers._randomizer import Estimate, Layout, Pmf, Reports

if TYPE_CHECKING:
    from sfumato.noise.coins import SecretWords
    from sfumato.randomizers._values import Floats

_MOST_SUBSETS = 1 << 16


@dataclass(frozen=True)
class SubsetSelection(Labels):
    r"""Subset selection: report a set of k classes; sets that hold the label are :math:`e^\epsilon` times as likely.

    The label is in the set with probability :math:`p = k e^\epsilon / (k e^\epsilon + C - k)`; the rest of the set is uniform.
    Another class is in it with probability :math:`q = (p (k - 1) + (1 - p) k) / (C - 1)`. The one-hot row is estimated by
    :math:`(1[j \in S] - q) / (p - q)`. The size k has the most mutual information between a uniform label and the report, among
    the sizes with at most 65,536 sets; k = 1 is randomized response. At C = 7 the report has 1.6 times the information of
    randomized response at epsilon 0.5, 1.3 times at 1, and the same at 2.

    **Formal guarantee.** ``realized_epsilon``-LDP, delta 0. Proof: whatever the label is, each of the C(C - 1, k - 1) sets that
    hold it has the same probability h, and each other set the same probability l, with h / l <= e^epsilon for the rationals in
    use. One of 2^64 words, compared with a threshold, decides whether the set holds the label; the rest is an exactly uniform
    draw.

    Args:
        num_classes: number of classes C.
        epsilon: budget of the label, > 0.
        size: size k of the sets; None takes the best.

    Shapes: values are integers [n]; reports hold the place of the set in lexicographic order, int32 [n, 1]; estimates are
    [n, C] with n k entries.

    Raises:
        InputError: a setting is out of range.

    >>> labels = SubsetSelection(7, epsilon=0.5)
    >>> labels.chosen, labels.bits, round(labels.information, 4)
    (3, 6, 0.0311)

    Source: Ye and Barg (2018), Optimal Schemes for Discrete Distribution Estimation under LDP, section III.
    """

    size: int | None = None

    def __post_init__(self) -> None:
        if self.size is not None:
            check_int(low=1, high=self.num_classes - 1, size=self.size)
        super().__post_init__()

    @cached_property
    def chosen(self) -> int:
        """The size k of the sets."""
        if self.size is not None:
            return self.size
        c = self.num_classes
        sizes = takewhile(lambda k: math.comb(c, k) <= _MOST_SUBSETS, range(1, c // 2 + 1))
        return max(sizes, key=self._information, default=1)

    def _information(self, k: int) -> float:
        share = k / self.num_classes
        log_odds = min(self.epsilon, 700.0) + math.log(share / (1 - share))
        p = 1 / (1 + math.exp(-log_odds))
        missed = 1 / (1 + math.exp(log_odds))
        return p * math.log(p / share) + (missed * math.log(missed / (1 - share)) if missed else 0.0)

    @property
    def information(self) -> float:
        """Mutual information between a uniform label and its report, in nats."""
        return self._information(self.chosen)

    @cached_property
    def _odds(self) -> tuple[int, int]:
        """How many sets hold a given class, and how many do not."""
        c, k = self.num_classes, self.chosen
        return math.comb(c - 1, k - 1), math.comb(c - 1, k)

    @cached_property
    def sets(self) -> NDArray[np.int32]:
        """Members of every set, [R, k], in lexicographic order."""
        return np.array(list(combinations(range(self.num_classes), self.chosen)), np.int32)

    @cached_property
    def _holding(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Places of the sets that hold each class, [C, in], and of those that do not, [C, out]."""
        held = np.zeros((self.num_classes, len(self.sets)), bool)
        held[self.sets.T, np.arange(len(self.sets))] = True
        inside, outside = (np.nonzero(mask)[1].reshape(self.num_classes, -1) for mask in (held, ~held))
        return inside, outside

    @cached_property
    def transition(self) -> Floats:
        """The probabilities P[set r | label i] in use, shape [C, R]."""
        hit, miss = probabilities(self._hit, *self._odds)
        table = np.full((self.num_classes, len(self.sets)), float(miss))
        table[np.arange(self.num_classes)[:, None], self._holding[0]] = float(hit)
        return table

    @property
    def layout(self) -> Layout:
        """The place of a set."""
        return Layout(1, 0, math.comb(self.num_classes, self.chosen) - 1)

    def encode(
        self, values: NDArray[np.integer], source: SecretWords, users: NDArray[np.integer] | None = None
    ) -> Reports:
        """Send a set that holds the label, or a set that does not; ``users`` is not needed."""
        labels = self.clipped(values)
        (inside, outside), (hits, misses) = self._holding, self._odds
        held = source.words(labels.shape) < np.uint64(hits * self._hit)
        with_label, without = source.below(hits, labels.shape), source.below(misses, labels.shape)
        reports = np.where(held, inside[labels, with_label], outside[labels, without])
        return Reports(reports.astype(np.int32)[:, None])

    @cached_property
    def _p_and_q(self) -> tuple[float, float]:
        c, k, p = self.num_classes, self.chosen, self._odds[0] * self._hit / WORDS
        return p, (p * (k - 1) + (1 - p) * k) / (c - 1)

    def estimate(self, reports: Reports) -> Estimate:
        """Return unbiased one-hot rows, with k entries for each user."""
        (p, q), n, k = self._p_and_q, len(reports), self.chosen
        members = self.sets[reports.values[:, 0]]
        starts = np.arange(0, n * k + 1, k)
        matrix = sparse.csr_matrix((np.full(n * k, 1 / (p - q)), members.ravel(), starts), (n, self.num_classes))
        return Estimate(matrix, np.full(self.num_classes, -q / (p - q)))

    def variance(self, values: NDArray[np.integer] | None = None) -> Floats:
        """Return the variance of each coordinate: [n, C], or the largest possible, [C]."""
        return self._variance(values, *self._p_and_q)

    def pmf(self, value: ArrayLike, user: int = 0) -> Pmf:
        """Return the exact probability of every set on one label."""
        label = int(self.clipped(np.atleast_1d(value))[0])
        hit, miss = probabilities(self._hit, *self._odds)
        held = set(self._holding[0][label].tolist())
        return {(place,): hit if place in held else miss for place in range(len(self.sets))}
