r"""The one contract of every randomizer: encode on the device, estimate on the server, with a guarantee stated exactly.

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

from sfumato._validate import check_int, fail
from sfumato.noise.exact import WORDS, check_epsilon
from sfumato.randomizers.values import Floats, Values, check_range, dense, floats

if TYPE_CHECKING:
    from scipy import sparse

    from sfumato.noise.coins import SecretWords

Pmf = dict[tuple[int, ...], Fraction]


@dataclass(frozen=True, eq=False)
class Reports:
    """What n users send, integers only: a few a user, never a dense row of floats where the mechanism samples.

    Shapes: ``values`` [n, k] bits, buckets, cells or steps; ``indices`` [n, k] the coordinates they speak of, ascending,
    or None where they are implied; ``users`` [n] public ids, or None where the mechanism needs none.

    >>> Reports(np.array([[1, 0]]), np.array([[2, 7]])).key(0)
    (2, 7, 1, 0)
    """

    values: NDArray[np.integer]
    indices: NDArray[np.integer] | None = None
    users: NDArray[np.int64] | None = None

    def __len__(self) -> int:
        return len(self.values)

    def key(self, row: int) -> tuple[int, ...]:
        """The report of a row as :meth:`Randomizer.pmf` names it: indices, then values."""
        indices = () if self.indices is None else self.indices[row].tolist()
        return (*indices, *self.values[row].tolist())

    def take(self, rows: NDArray[np.integer] | slice) -> Reports:
        """The reports of some rows."""
        indices = None if self.indices is None else self.indices[rows]
        return Reports(self.values[rows], indices, None if self.users is None else self.users[rows])


@dataclass(frozen=True, eq=False)
class Estimate:
    r"""Unbiased estimate :math:`S + 1 o^\top` of the values: what reports say, plus what unsampled entries decode to.

    Propagation is linear: :math:`A (S + 1 o^\top) = A S + (A 1) o^\top`, so no n x d array is ever needed.

    Shapes: ``sparse`` CSR float64 [n, d]; ``offset`` float64 [d].

    >>> from scipy import sparse
    >>> Estimate(sparse.csr_matrix(np.array([[2.0, 0.0]])), np.array([0.5, 0.5])).toarray().tolist()
    [[2.5, 0.5]]
    """

    sparse: sparse.csr_matrix
    offset: Floats

    @property
    def shape(self) -> tuple[int, int]:
        """Users and width."""
        users, width = self.sparse.shape
        return users, width

    def toarray(self) -> Floats:
        """The dense estimate; for small data."""
        said: Floats = self.sparse.toarray()
        return said + self.offset

    def __matmul__(self, weight: Floats) -> Floats:
        """Project to a narrow width: O(entries * width)."""
        return np.asarray(self.sparse @ weight) + self.offset @ weight


class Randomizer(ABC):
    r"""A local randomizer: each user's report is :math:`(\epsilon, \delta)`-indistinguishable between any two values.

    **Formal guarantee.** For all values x, x' and sets O of reports,
    :math:`P[R(x) \in O] \le e^\epsilon P[R(x') \in O] + \delta` with :math:`\epsilon` = ``total_epsilon``. It holds for one
    report: a second report, fresh or on other columns, adds up. Computational: coins come from AES-256 (or, for
    Gaussian noise, from the keyed streams of :mod:`sfumato.noise.keys`).

    * ``epsilon``: requested. ``realized_epsilon``: of the integer thresholds, rounded upward, never above it.
    * ``total_epsilon``: what a user spends, over all its features. Differs from ``realized_epsilon`` only for PGC.
    * ``delta``: 0 but for Gaussian noise. ``bits``: of one report on the wire.
    * ``encode(values, source, users=None)``: [n, d] values to n :class:`Reports`.
    * ``clipped(values)``: the allowed values that ``encode`` takes ``values`` for.
    * ``estimate(reports)``: unbiased :class:`Estimate` of the (clipped) values.
    * ``variance(values)``: closed form, a coordinate of the estimate, [n, d]; without values the largest possible, [d].
    * ``pmf(value, user=0)``: exact probability of every report as fractions, for small d.

    **Every value has a report.** Whether a device reports, refuses or fails would itself tell of its value. So ``encode``
    refuses only what is public, before it draws the first coin: container, dtype, shape, and user ids. Entries never stop
    it: a number outside a range, norm or size is clipped, an infinite one too; NaN counts as the middle of a range, and as
    0 where there is none; a label that is none of the classes counts as class 0. The report is the one that
    ``clipped(values)`` would get from the same coins.

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
        """What one report costs a user."""
        return self.realized_epsilon

    @property
    @abstractmethod
    def bits(self) -> int:
        """Size of one report on the wire."""

    @abstractmethod
    def encode(self, values: Values, source: SecretWords, users: NDArray[np.integer] | None = None) -> Reports:
        """Randomize the values of n users: the only call that reads them."""

    @abstractmethod
    def clipped(self, values: Values) -> Any:
        """The allowed values that ``encode`` takes these for."""

    @abstractmethod
    def estimate(self, reports: Reports) -> Estimate:
        """Unbiased estimate of the values."""

    @abstractmethod
    def variance(self, values: Values | None = None) -> Floats:
        """Variance of every coordinate of the estimate."""

    def pmf(self, value: NDArray[np.generic], user: int = 0) -> Pmf:
        """Exact probability of every possible report on one value."""
        raise fail(
            "pmf", type(self).__name__, "of a randomizer with finitely many reports", "Read its class docstring."
        )

    def describe(self) -> str:
        """One line: name, what a user spends, size of a report."""
        spent = f"epsilon {self.total_epsilon:.6g}" + (f", delta {self.delta:.3g}" if self.delta else "")
        return f"{type(self).__name__}: {spent} a user, {self.bits} bits a report"


@dataclass(frozen=True)
class Ranged(Randomizer):
    """Settings shared by randomizers of columns with a public range: not used alone.

    Args:
        num_features: d, columns of the values.
        epsilon: requested.
        low: public lower end, one for all columns or a tuple of d.
        high: public upper end, above ``low``.

    Raises:
        InputError: a setting is out of range.

    >>> from sfumato.randomizers import OneBit
    >>> OneBit(2, epsilon=1.0, low=(0.0, -1.0), high=1.0).middle.tolist()
    [0.5, 0.0]
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
        """Lower end of every column, [d]."""
        return check_range("low", self.low, self.num_features)

    @cached_property
    def width(self) -> Floats:
        """Width of every range, [d]."""
        return check_range("high", self.high, self.num_features) - self.start

    @property
    def middle(self) -> Floats:
        """Middle of every range, [d]."""
        return self.start + self.width / 2

    def to_unit(self, block: NDArray[np.generic], columns: NDArray[np.integer] | slice = slice(None)) -> Floats:
        """Clip to the range and scale it to [0, 1]; NaN counts as the middle."""
        start, width = self.start[columns], self.width[columns]
        with np.errstate(over="ignore"):
            return np.nan_to_num(np.clip((floats(block) - start) / width, 0.0, 1.0), nan=0.5)

    def clipped(self, values: Values) -> Floats:
        """Values as the estimate aims at them, [n, d]."""
        return self.start + self.width * self.to_unit(dense(values))


def bit_thresholds(unit: Floats, hit: int) -> NDArray[np.uint64]:
    """How many of the 2^64 words give a one, affine from 2^64 - hit at 0 to hit at 1, exact at both ends.

    >>> bit_thresholds(np.array([0.0, 0.5, 1.0]), 3 * 2**62).tolist() == [2**62, 2**63, 3 * 2**62]
    True
    """
    span = 2 * hit - WORDS
    scale = float(span) if int(float(span)) <= span else np.nextafter(float(span), 0.0)
    steps = np.where(unit >= 1, np.uint64(span), (unit * scale).astype(np.uint64))
    return np.uint64(WORDS - hit) + steps
