"""Labels: k-ary randomized response, optimized unary encoding, optimized local hashing."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from itertools import product
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import sparse

from sfumato._validate import check_int, fail
from sfumato.noise.exact import WORDS, check_epsilon, probabilities
from sfumato.randomizers._collision import Collision
from sfumato.randomizers._randomizer import Drawn, Estimate, Layout, Pmf, Reports
from sfumato.randomizers._values import Floats, check_array

if TYPE_CHECKING:
    from sfumato.noise.coins import SecretWords

_MOST_CLASSES_FOR_PMF = 20


@dataclass(frozen=True)
class Labels(Drawn):
    """The common part of randomizers of one label among public classes. It is not used alone.

    Values are integers 0, ..., num_classes - 1, one for each user. The estimate is an unbiased one-hot row.
    """

    num_classes: int
    epsilon: float

    def __post_init__(self) -> None:
        check_int(low=2, high=2**31, num_classes=self.num_classes)
        check_epsilon(self.epsilon)
        _ = self.realized_epsilon

    def clipped(self, values: NDArray[np.integer]) -> NDArray[np.int64]:
        """Return class numbers; a label that is none of the classes becomes class 0."""
        check_array("labels", values)
        if values.ndim != 1 or values.dtype.kind not in "iu":
            raise fail("labels", f"{values.dtype} of shape {values.shape}", "to be integers of shape [users]")
        return np.where((values >= 0) & (values < self.num_classes), values, 0).astype(np.int64)

    def _variance(self, values: NDArray[np.integer] | None, p: float, q: float) -> Floats:
        """Return the variance of (support - q) / (p - q), where the true class is supported with probability p, others with q."""
        true, other = (share * (1 - share) / (p - q) ** 2 for share in (p, q))
        if values is None:
            return np.full(self.num_classes, max(true, other))
        return np.where(self.clipped(values)[:, None] == np.arange(self.num_classes), true, other)


@dataclass(frozen=True)
class RandomizedResponse(Labels):
    r"""k-ary randomized response: the true class with probability :math:`p = e^\epsilon / (e^\epsilon + k - 1)`, else another.

    Each other class has probability q = (1 - p) / (k - 1). The one-hot row is estimated by
    :math:`(1[y' = j] - q) / (p - q)`, of variance p (1 - p) / (p - q)^2 at the true class, q (1 - q) / (p - q)^2 elsewhere.

    **Formal guarantee.** ``realized_epsilon``-LDP, delta 0. Proof: every report has probability p or q whatever the
    label, and p / q <= e^epsilon for the rationals in use.

    Args:
        num_classes: number of classes k.
        epsilon: budget of the label, > 0.

    Shapes: values are integers [n]; reports hold classes int32 [n, 1]; estimates are [n, k] with n entries.

    Raises:
        InputError: a setting is out of range.

    >>> RandomizedResponse(7, epsilon=1.0).transition.round(4)[0].tolist()
    [0.3118, 0.1147, 0.1147, 0.1147, 0.1147, 0.1147, 0.1147]

    Source: Kairouz, Bonawitz and Ramage (2016), Discrete Distribution Estimation under Local Privacy, section 3.1.
    """

    @property
    def _odds(self) -> tuple[int, ...]:
        return 1, self.num_classes - 1

    @cached_property
    def _keep_and_other(self) -> tuple[float, float]:
        keep, other = probabilities(self._hit, *self._odds)
        return float(keep), float(other)

    @property
    def transition(self) -> Floats:
        """The probabilities P[report j | label i] in use, shape [k, k]."""
        keep, other = self._keep_and_other
        return np.full((self.num_classes, self.num_classes), other) + (keep - other) * np.eye(self.num_classes)

    @property
    def layout(self) -> Layout:
        """The number of a class."""
        return Layout(1, 0, self.num_classes - 1)

    def encode(
        self, values: NDArray[np.integer], source: SecretWords, users: NDArray[np.integer] | None = None
    ) -> Reports:
        """Keep a label, or send another class instead; ``users`` is not needed."""
        labels = self.clipped(values)
        others = source.below(self.num_classes - 1, labels.shape)
        others += others >= labels
        kept = source.words(labels.shape) < np.uint64(self._hit)
        return Reports(np.where(kept, labels, others).astype(np.int32)[:, None])

    def estimate(self, reports: Reports) -> Estimate:
        """Return unbiased one-hot rows, with one entry for each user."""
        keep, other = self._keep_and_other
        n, scale = len(reports), 1 / (keep - other)
        matrix = sparse.csr_matrix(
            (np.full(n, scale), reports.values[:, 0], np.arange(n + 1)), shape=(n, self.num_classes)
        )
        return Estimate(matrix, np.full(self.num_classes, -other * scale))

    def variance(self, values: NDArray[np.integer] | None = None) -> Floats:
        """Return the variance of each coordinate: [n, k], or the largest possible, [k]."""
        return self._variance(values, *self._keep_and_other)

    def pmf(self, value: ArrayLike, user: int = 0) -> Pmf:
        """Return the exact probability of every class on one label."""
        label = int(self.clipped(np.atleast_1d(value))[0])
        keep, other = probabilities(self._hit, *self._odds)
        return {(j,): keep if j == label else other for j in range(self.num_classes)}


@dataclass(frozen=True)
class UnaryEncoding(Labels):
    r"""Optimized unary encoding: a bit a class, 1 with probability 1/2 at the label, :math:`q = 1 / (e^\epsilon + 1)` elsewhere.

    The one-hot row is estimated by (b - q) / (1/2 - q). Better than randomized response for k > 3 e^epsilon + 2.

    **Formal guarantee.** ``realized_epsilon``-LDP, delta 0. Proof: two labels change the law of two bits, each drawn once
    and independent; the ratio is at most ((1/2) / q) ((1 - q) / (1/2)) = (1 - q) / q <= e^epsilon.

    Args:
        num_classes: number of classes k.
        epsilon: budget of the label, > 0.

    Shapes: values are integers [n]; reports hold bits uint8 [n, k].

    Raises:
        InputError: a setting is out of range.

    >>> UnaryEncoding(100, epsilon=1.0).variance().round(2)[0].item()
    4.68

    Source: T. Wang, Blocki, Li and Jha (2017), Locally Differentially Private Protocols for Frequency Estimation, section 4.2.
    """

    _odds = (1, 1)

    @property
    def _other(self) -> int:
        return WORDS - self._hit

    @property
    def layout(self) -> Layout:
        """A bit for each class."""
        return Layout(self.num_classes, 0, 1)

    def encode(
        self, values: NDArray[np.integer], source: SecretWords, users: NDArray[np.integer] | None = None
    ) -> Reports:
        """Send one bit for each class, each drawn once; ``users`` is not needed."""
        labels = self.clipped(values)
        thresholds = np.full((len(labels), self.num_classes), np.uint64(self._other))
        thresholds[np.arange(len(labels)), labels] = WORDS // 2
        return Reports((source.words(thresholds.shape) < thresholds).view(np.uint8))

    def estimate(self, reports: Reports) -> Estimate:
        """Return unbiased one-hot rows, with an entry for every bit that is 1."""
        q = self._other / WORDS
        return Estimate(sparse.csr_matrix(reports.values / (0.5 - q)), np.full(self.num_classes, -q / (0.5 - q)))

    def variance(self, values: NDArray[np.integer] | None = None) -> Floats:
        """Return the variance of each coordinate: [n, k], or the largest possible, [k]."""
        return self._variance(values, 0.5, self._other / WORDS)

    def pmf(self, value: ArrayLike, user: int = 0) -> Pmf:
        """Return the exact probability of every row of bits on one label.

        Raises:
            InputError: there are more than 20 classes.
        """
        if self.num_classes > _MOST_CLASSES_FOR_PMF:
            raise fail("num_classes", self.num_classes, f"to be at most {_MOST_CLASSES_FOR_PMF} for an exact pmf")
        label, ones = int(self.clipped(np.atleast_1d(value))[0]), Fraction(self._other, WORDS)
        result = {}
        for bits in product((0, 1), repeat=self.num_classes):
            chance = Fraction(1, 2)
            for j, bit in enumerate(bits):
                chance *= 1 if j == label else (ones if bit else 1 - ones)
            result[bits] = chance
        return result


@dataclass(frozen=True)
class LocalHashing(Labels):
    r"""Optimized local hashing: randomized response on a public hash of the label to about :math:`e^\epsilon + 1` buckets.

    :class:`~sfumato.randomizers._collision.Collision` with a set of one: a user's hash follows from the collection and its id.

    **Formal guarantee.** ``realized_epsilon``-LDP, delta 0, as randomized response on the bucket; the hash is public.

    Args:
        num_classes: number of classes k.
        epsilon: budget of the label, > 0.
        collection: public name that fixes all hashes; use a new one for every collection.

    Shapes: values are integers [n]; reports hold buckets int32 [n, 1].

    Raises:
        InputError: a setting is out of range.

    >>> LocalHashing(1000, epsilon=1.0).bits, UnaryEncoding(1000, epsilon=1.0).bits
    (2, 1000)

    Source: T. Wang, Blocki, Li and Jha (2017), section 4.3.
    """

    collection: str = "collection"

    @cached_property
    def _sets(self) -> Collision:
        return Collision(self.num_classes, self.epsilon, 1, self.collection)

    @property
    def _odds(self) -> tuple[int, ...]:
        return self._sets._odds

    @property
    def layout(self) -> Layout:
        """The number of a bucket."""
        return self._sets.layout

    def _one_hot(self, values: NDArray[np.integer]) -> sparse.csr_matrix:
        labels = self.clipped(values)
        n = len(labels)
        return sparse.csr_matrix((np.ones(n), labels, np.arange(n + 1)), (n, self.num_classes))

    def encode(
        self, values: NDArray[np.integer], source: SecretWords, users: NDArray[np.integer] | None = None
    ) -> Reports:
        """Report one bucket for each user; ``users`` are the public ids that fix the hashes (row numbers by default)."""
        return self._sets.encode(self._one_hot(values), source, users)

    def estimate(self, reports: Reports) -> Estimate:
        """Return unbiased one-hot rows, with an entry for every class that the reported bucket supports."""
        return self._sets.estimate(reports)

    def variance(self, values: NDArray[np.integer] | None = None) -> Floats:
        """Return the variance of each coordinate over hash and report: [n, k], or the largest possible, [k]."""
        return self._sets.variance(None if values is None else self._one_hot(values))

    def pmf(self, value: ArrayLike, user: int = 0) -> Pmf:
        """Return the exact probability of every bucket on one label, given the user's public hash."""
        return self._sets.pmf(self._one_hot(np.atleast_1d(value)).toarray()[0], user)
