r"""The contract of every randomizer: encode on the device, estimate on the server, with an exact guarantee.

A randomizer is a frozen dataclass of *public* settings, checked when built. ``encode`` is the only call that touches
private values; it needs a secret :class:`~sfumato.noise.coins.SecretWords`. Everything else is public post-processing.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from sfumato._validate import check_int, fail
from sfumato.noise.exact import WORDS, check_epsilon, hit_share, realized
from sfumato.randomizers._values import Floats, Values, check_range, dense, floats

if TYPE_CHECKING:
    from sfumato.noise.coins import SecretWords

Pmf = dict[tuple[int, ...], Fraction]


@dataclass(frozen=True, eq=False)
class Reports:
    """What n users send. It holds integers only, and few for each user if the mechanism samples features.

    Shapes: ``values`` [n, k] bits, buckets, cells or steps; ``indices`` [n, k] the coordinates that they are about, ascending,
    or None if these are implied; ``users`` [n] public ids, or None if the mechanism needs none.

    >>> Reports(np.array([[1, 0]]), np.array([[2, 7]])).key(0)
    (2, 7, 1, 0)
    """

    values: NDArray[np.integer]
    indices: NDArray[np.integer] | None = None
    users: NDArray[np.int64] | None = None

    def __len__(self) -> int:
        return len(self.values)

    def key(self, row: int) -> tuple[int, ...]:
        """Return the report of a row as :meth:`Randomizer.pmf` names it: indices, then values."""
        indices = () if self.indices is None else self.indices[row].tolist()
        return (*indices, *self.values[row].tolist())

    def take(self, rows: NDArray[np.integer] | slice) -> Reports:
        """Return the reports of some rows."""
        indices = None if self.indices is None else self.indices[rows]
        return Reports(self.values[rows], indices, None if self.users is None else self.users[rows])


@dataclass(frozen=True, eq=False)
class Estimate:
    r"""Unbiased estimate :math:`S + 1 o^\top` of the values: what reports say, plus what unsampled entries decode to.

    Propagation is linear: :math:`A (S + 1 o^\top) = A S + (A 1) o^\top`, so no n x d array is ever needed.

    Rows of users who sent nothing are empty in ``sparse``, and have ``neutral`` in place of the offset.

    Shapes: ``sparse`` CSR float64 [n, d]; ``offset`` float64 [d]; ``missing`` bool [n], or None if everyone sent something;
    ``neutral`` float64 [d], if ``missing`` is given.

    >>> from scipy import sparse
    >>> Estimate(sparse.csr_matrix(np.array([[2.0, 0.0]])), np.array([0.5, 0.5])).toarray().tolist()
    [[2.5, 0.5]]
    """

    sparse: sparse.csr_matrix
    offset: Floats
    missing: NDArray[np.bool_] | None = None
    neutral: Floats | None = None

    @property
    def shift(self) -> Floats | None:
        """What the rows of ``missing`` have beside the offset, [d]; None if nobody is missing."""
        return None if self.neutral is None else self.neutral - self.offset

    def spread(self, reported: NDArray[np.bool_], neutral: Floats) -> Estimate:
        """Return the estimate of all users, of whom the rows of this one sent something and the others are ``neutral``.

        Args:
            reported: who sent something, bool [n], as many as this estimate has rows.
            neutral: the row of a user who did not, [d].

        >>> from scipy import sparse
        >>> said = Estimate(sparse.csr_matrix(np.array([[2.0, 0.0]])), np.array([0.5, 0.5]))
        >>> said.spread(np.array([False, True]), np.zeros(2)).toarray().tolist()
        [[0.0, 0.0], [2.5, 0.5]]
        """
        if reported.all():
            return self
        lengths = np.zeros(len(reported), np.int64)
        lengths[reported] = np.diff(self.sparse.indptr)
        starts = np.concatenate(([0], lengths.cumsum()))
        rows = sparse.csr_matrix((self.sparse.data, self.sparse.indices, starts), (len(reported), self.shape[1]))
        return Estimate(rows, self.offset, ~reported, neutral)

    @property
    def shape(self) -> tuple[int, int]:
        """The number of users and the number of features."""
        users, width = self.sparse.shape
        return users, width

    def toarray(self) -> Floats:
        """Return the dense estimate. Use it for small data only."""
        said: Floats = self.sparse.toarray() + self.offset
        if self.missing is not None:
            said[self.missing] = self.neutral
        return said

    def __matmul__(self, weight: Floats) -> Floats:
        """Project to a narrow width: O(entries * width)."""
        projected = np.asarray(self.sparse @ weight) + self.offset @ weight
        if self.missing is not None and self.neutral is not None:
            projected[self.missing] = self.neutral @ weight
        return projected


@dataclass(frozen=True)
class Layout:
    r"""The integers of one report: ``count`` values from ``low`` to ``high``, about as many features drawn from ``of``.

    ``of`` is 0 where the features are implied. In its shortest form a report writes every value in
    :math:`\lceil \log_2 (\mathrm{high} - \mathrm{low} + 1) \rceil` bits, and the drawn features as ascending numbers of
    :math:`\lceil \log_2 \mathrm{of} \rceil` bits, or as ``of`` bits where that is shorter.
    """

    count: int
    low: int
    high: int
    of: int = 0

    @cached_property
    def width(self) -> int:
        """Bits of one value."""
        return (self.high - self.low).bit_length()

    @cached_property
    def index_width(self) -> int:
        """Bits of the number of one feature."""
        return (self.of - 1).bit_length()

    @cached_property
    def as_bitmap(self) -> bool:
        """Whether the drawn features are written as one bit for each feature."""
        return 0 < self.of < self.count * self.index_width

    @cached_property
    def bits(self) -> int:
        """Bits of a whole report."""
        return self.count * self.width + (min(self.of, self.count * self.index_width) if self.of else 0)


class Randomizer(ABC):
    r"""A local randomizer: each user's report is :math:`(\epsilon, \delta)`-indistinguishable between any two values.

    **Formal guarantee.** For all values x, x' and sets O of reports,
    :math:`P[R(x) \in O] \le e^\epsilon P[R(x') \in O] + \delta` with :math:`\epsilon` = ``total_epsilon``. It holds for one
    report: a second report, fresh or on other columns, adds up. Computational: coins come from AES-256 (or, for
    Gaussian noise, from the keyed streams of :mod:`sfumato.noise.keys`).

    * ``epsilon``: the requested budget. ``realized_epsilon``: the guarantee of the integer thresholds, rounded upward; it is
      never above ``epsilon``.
    * ``total_epsilon``: what a user spends, over all its features. It differs from ``realized_epsilon`` only for PGC.
    * ``delta``: 0, except for Gaussian noise. ``bits``: the size of a report when it is sent.
    * ``encode(values, source, users=None)``: [n, d] values to n :class:`Reports`.
    * ``clipped(values)``: the allowed values that ``encode`` uses in place of ``values``.
    * ``estimate(reports)``: unbiased :class:`Estimate` of the (clipped) values.
    * ``variance(values)``: variance of each coordinate in closed form, [n, d]; without values the largest possible, [d].
    * ``pmf(value, user=0)``: exact probability of every report as fractions, for small d.

    **Every value has a report.** If it depended on the value whether a device reports, that would reveal something of the
    value. So ``encode`` refuses only what is public, before it draws the first coin: container, dtype, shape, and user ids.
    Entries never stop it: a number outside a range, norm or size is clipped, also if it is infinite. NaN counts as the middle
    of a range, or as 0 if there is no range. A label that is none of the classes counts as class 0. The report is the same
    that ``clipped(values)`` would get from the same coins.

    >>> from sfumato.randomizers import MultiBit
    >>> MultiBit(1433, epsilon=1.0).describe()
    'MultiBit: epsilon 1 a user, 12 bits a report'
    """

    epsilon: float
    delta: float = 0.0

    @property
    @abstractmethod
    def realized_epsilon(self) -> float:
        """The guarantee of the thresholds in use, rounded upward."""

    @property
    def total_epsilon(self) -> float:
        """The total that a report costs a user."""
        return self.realized_epsilon

    @property
    @abstractmethod
    def layout(self) -> Layout:
        """The integers that a report holds; all of them can occur."""

    @property
    @abstractmethod
    def thresholds(self) -> dict[str, int | float]:
        """The public numbers that the guarantee rests on, from which anyone can compute ``total_epsilon`` again.

        With finitely many reports these are ``hit``, ``favored``, ``others`` and ``parts``: see :mod:`sfumato.noise.exact`.
        """

    @property
    def bits(self) -> int:
        """The size of one report in bits."""
        return self.layout.bits

    @property
    def neutral(self) -> Floats:
        """What a server takes for the values of a user who sent no report, [d]: 0, or the middle of every range."""
        return np.zeros(len(self.variance()))

    @abstractmethod
    def encode(self, values: Values, source: SecretWords, users: NDArray[np.integer] | None = None) -> Reports:
        """Randomize the values of n users. This is the only call that reads them.

        Args:
            values: one row for each user, [n, d]; for labels, one integer for each user, [n].
            source: the secret coins of the devices.
            users: public ids, for randomizers with public hashes or directions; row numbers by default.

        Raises:
            InputError: container, dtype or shape of the values, or the ids, do not fit.
        """

    @abstractmethod
    def clipped(self, values: Values) -> Any:
        """Return the allowed values that ``encode`` uses in place of these."""

    @abstractmethod
    def estimate(self, reports: Reports) -> Estimate:
        """Return an unbiased estimate of the (clipped) values."""

    @abstractmethod
    def variance(self, values: Values | None = None) -> Floats:
        """Return the variance of every coordinate of the estimate: [n, d], or without values the largest possible, [d]."""

    def pmf(self, value: NDArray[np.generic], user: int = 0) -> Pmf:
        """Return the exact probability of every possible report on one value; ``user`` is the public id.

        Raises:
            InputError: the randomizer has too many possible reports.
        """
        raise fail(
            "pmf", type(self).__name__, "of a randomizer with finitely many reports", "Read its class docstring."
        )

    def describe(self) -> str:
        """Return a line with the name, what a user spends, and the size of a report."""
        spent = f"epsilon {self.total_epsilon:.6g}" + (f", delta {self.delta:.3g}" if self.delta else "")
        return f"{type(self).__name__}: {spent} a user, {self.bits} bits a report"


class Drawn(Randomizer):
    """The common part of randomizers that favor some of finitely many outcomes by exact draws. It is not used alone."""

    @property
    @abstractmethod
    def _odds(self) -> tuple[int, ...]:
        """How many outcomes a draw favors, how many others there are, and the number of draws that share the budget, if not 1."""

    @cached_property
    def _hit(self) -> int:
        return hit_share(self.epsilon, *self._odds)

    @cached_property
    def realized_epsilon(self) -> float:
        """The guarantee of the thresholds in use, rounded upward."""
        return realized(self._hit, *self._odds)

    @property
    def thresholds(self) -> dict[str, int | float]:
        """The share of words of each favored outcome, how many others share the rest, and the number of draws."""
        return shares(self._hit, *self._odds)


@dataclass(frozen=True)
class Ranged(Randomizer):
    """The common settings of randomizers of columns with a public range. It is not used alone.

    Args:
        num_features: number of columns d of the values.
        epsilon: the requested budget, > 0.
        low: public lower end, one number for all columns or a tuple of d.
        high: public upper end, above ``low``.
    """

    num_features: int
    epsilon: float
    low: float | tuple[float, ...] = 0.0
    high: float | tuple[float, ...] = 1.0

    def __post_init__(self) -> None:
        check_int(low=1, high=2**32, num_features=self.num_features)
        check_epsilon(self.epsilon)
        narrow = np.flatnonzero(~(self.start + self.width > self.start))
        if narrow.size:
            raise fail("high", self.high, f"to be above low = {self.low} in every column", "Drop constant columns.")

    @cached_property
    def start(self) -> Floats:
        """The lower end of every column, [d]."""
        return check_range("low", self.low, self.num_features)

    @cached_property
    def width(self) -> Floats:
        """The width of every range, [d]."""
        return check_range("high", self.high, self.num_features) - self.start

    @property
    def middle(self) -> Floats:
        """The middle of every range, [d]."""
        return self.start + self.width / 2

    @property
    def neutral(self) -> Floats:
        """The middle of every range, [d]."""
        return self.middle

    def to_unit(self, block: NDArray[np.generic], columns: NDArray[np.integer] | slice = slice(None)) -> Floats:
        """Clip values to their range and scale them to [0, 1]; NaN becomes the middle."""
        start, width = self.start[columns], self.width[columns]
        with np.errstate(over="ignore"):
            return np.nan_to_num(np.clip((floats(block) - start) / width, 0.0, 1.0), nan=0.5)

    def clipped(self, values: Values) -> Floats:
        """Return the values clipped to their range, [n, d], which the estimate aims at."""
        return self.start + self.width * self.to_unit(dense(values))

    def around_middle(self, reports: Reports, decoded: NDArray[np.floating], scale: Floats) -> Estimate:
        """Return an estimate of n m entries, ``decoded`` [n, m] times the ``scale`` [d] of their columns, around the middle."""
        n, m = decoded.shape
        indices = np.tile(np.arange(m), (n, 1)) if reports.indices is None else reports.indices
        entries = (decoded * scale[indices]).ravel(), indices.ravel().astype(np.int32), np.arange(0, n * m + 1, m)
        return Estimate(sparse.csr_matrix(entries, (n, self.num_features)), self.middle)


class OnGrid(Ranged):
    """The common part of randomizers that send every feature with noise, on a public grid. It is not used alone."""

    @property
    @abstractmethod
    def _grid(self) -> tuple[int, float]:
        """Steps K a range, and the scale of the noise in steps."""

    @property
    def grid_error(self) -> Floats:
        """Largest distance of a value from the grid, [d]."""
        return self.width / (2 * self._grid[0])

    def estimate(self, reports: Reports) -> Estimate:
        """Return the reports in units of the values. The estimate is dense, because every feature reports."""
        return Estimate(sparse.csr_matrix(reports.values * (self.width / self._grid[0])), self.start)


def shares(hit: int, favored: int, others: int, parts: int = 1) -> dict[str, int | float]:
    """Return the thresholds of a randomizer by their names in a public schema.

    ``hit`` is H, ``favored`` the number k of favored outcomes, ``others`` the number N - k of others, and ``parts`` the number
    of such draws.
    """
    return {"hit": hit, "favored": favored, "others": others, "parts": parts}


def bit_thresholds(unit: Floats, hit: int) -> NDArray[np.uint64]:
    """Return how many of the 2^64 words give a bit 1, for values in [0, 1].

    The number is affine in the value, from 2^64 - ``hit`` at 0 to ``hit`` at 1, and exact at both ends.
    """
    span = 2 * hit - WORDS
    scale = float(span) if int(float(span)) <= span else np.nextafter(float(span), 0.0)
    steps = np.where(unit >= 1, np.uint64(span), (unit * scale).astype(np.uint64))
    return np.uint64(WORDS - hit) + steps
