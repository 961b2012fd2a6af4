r"""Integer weights that spread a change over all later releases, their exact sensitivity, and how the releases are read.

An encoder has coefficients :math:`q_k = \lfloor 2^{15} (k + 1)^{-1/4} \rfloor`, k = 0, ..., m - 1, for m refreshes: a change is
told by every later refresh, with a weight that falls with its age. With Q the lower triangular Toeplitz matrix of q, and changes
x, what is released is :math:`y = Q x + z`, z with deviation :math:`\sigma`.

**Reading.** For a steady stream, :math:`x = c \, (1, \ldots, 1) / j` through refresh j, the estimate of c with the least variance
is :math:`\hat c = j \sum_{i \le j} w_i y_i / \sum_{i \le j} w_i^2` with :math:`w = Q (1, \ldots, 1)`, of deviation
:math:`\sigma j / \sqrt{\sum_{i \le j} w_i^2}`. One number for each count keeps all of it. Where a stream is not steady, early
changes count a little more than late ones, and those of the last refreshes hardly yet: a matter of accuracy, not of privacy.

**Why this power.** Over 365 refreshes at (2, 1e-6), the deviation of :math:`\hat c` after the last is 3.7 at this power; it is
3.9 at power 0 (sums without fading), and 4.8 at power 1/2, the square root of prefix sums, or 6.6 if prefix sums are read without
bias. After 30 it is 7.0 here, and 13.1 and 4.8 there. Counting deletions costs 3 % more. All of these are computed
in ``tests/soundness/test_history.py``.

Source of the mechanism y = Q x + z: Li, Miklau, Hay, McGregor and Rastogi (2015), The matrix mechanism; of Toeplitz forms for
streams: Fichtenberger, Henzinger and Upadhyay (2023), Constant matters.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import cache, cached_property

import numpy as np
from numpy.typing import NDArray

from sfumato._validate import check_int

MOST_REFRESHES = 4096


@dataclass(frozen=True, eq=False)
class Encoder:
    """An encoder of integer coefficients q, ``steps`` int64 [num_refreshes], which are positive and never rise.

    >>> encoder(3).steps.tolist(), encoder(3).norm(False) <= encoder(3).norm(True)
    ([32768, 27554, 24898], True)
    """

    steps: NDArray[np.int64]

    def squared_norm(self, deletions: bool) -> int:
        r"""Return the square of the L2 sensitivity, an exact integer.

        **Formal guarantee.** With :math:`g_{i,k} = \langle Q e_i, Q e_k \rangle = \sum_s q_s q_{s + k - i}`, over
        :math:`s < m - k`: the maximum of :math:`g_{i,i}`, and with ``deletions`` also of
        :math:`g_{i,i} + g_{k,k} - 2 g_{i,k}` over all :math:`i < k`. Every pair is computed.

        >>> encoder(1).squared_norm(True) == 2**30
        True
        """
        q, most = self.steps, len(self.steps)
        squares = np.cumsum(q * q)  # g_ii is that of m - i terms
        largest = int(squares[-1])
        for lag in range(1, most if deletions else 0):
            both = np.cumsum(q[: most - lag] * q[lag:])  # g_ik of m - k terms, k = i + lag
            largest = max(largest, int((squares[lag:] + squares[: most - lag] - 2 * both).max()))
        return largest

    def norm(self, deletions: bool) -> float:
        """Return the L2 sensitivity in steps, rounded upward."""
        square = self.squared_norm(deletions)
        root = math.sqrt(square)
        while Fraction(root) ** 2 < square:
            root = math.nextafter(root, math.inf)
        return root

    @cached_property
    def readers(self) -> NDArray[np.float64]:
        """The weights w by which releases are read, float64 [num_refreshes]."""
        return np.cumsum(self.steps).astype(np.float64)

    @cached_property
    def squares(self) -> NDArray[np.float64]:
        """The sums of the first squares of w, float64 [num_refreshes + 1]."""
        return np.concatenate(([0.0], np.cumsum(np.square(self.readers))))


@cache
def encoder(refreshes: int) -> Encoder:
    """Return the encoder for so many refreshes of every row.

    Raises:
        InputError: there are none, or more than 4096.
    """
    check_int(low=1, high=MOST_REFRESHES, refreshes=refreshes)
    return Encoder(np.array([math.isqrt(math.isqrt((1 << 60) // (k + 1))) for k in range(refreshes)], np.int64))
