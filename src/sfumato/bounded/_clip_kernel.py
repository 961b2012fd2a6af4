r"""The clip of rows to integers, in one pass over each row.

**Formal guarantee** of :func:`add_clipped`: a row adds integers whose squares sum to at most :math:`2^{48}`, a function
of this row alone. **Proof.** The row is scaled to norm at most :math:`2^{24} - \sqrt P / 2 - 1`, and each coordinate is
rounded. The squares of these integers are added, and the row counts if their sum is at most :math:`2^{48}`. This check is
exact in any order of the additions: no square is negative, so partial sums only grow. As long as they are below
:math:`2^{53}` they are exact, and beyond it they stay too large. What is not a number fails the check. Sums of up to
:math:`2^{29}` rows stay within :math:`2^{53}` in every coordinate, hence exact in any order.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np
from numba import njit

from sfumato._validate import check_real

if TYPE_CHECKING:
    from numpy.typing import NDArray

STEPS = 2.0**24
"""Integers are steps of the clip norm over 2^24."""
LEAST_CLIP, MOST_CLIP = 1e-9, 1e9
"""Between these, no square of a number that counts leaves the range of float64."""
MOST_ROWS = 2**29
"""More rows could add up beyond 2^53."""


def add_clipped(
    rows: NDArray[np.floating], counted: NDArray[np.bool_], l2_clip_norm: float, total: NDArray[np.float64]
) -> None:
    """Add rows, each clipped to ``l2_clip_norm`` as integers, in steps of ``l2_clip_norm`` / 2^24, to ``total``.

    >>> total = np.zeros(2)
    >>> add_clipped(np.array([[3.0, 4.0], [np.nan, 1.0]]), np.ones(2, bool), 1.0, total)
    >>> (total / 2**24).round(3).tolist()
    [0.6, 0.8]
    """
    check_real(low=LEAST_CLIP, high=MOST_CLIP, l2_clip_norm=l2_clip_norm)
    arguments: Any = (rows, counted, STEPS / l2_clip_norm, total)
    _add(*arguments)


@njit(cache=True, nogil=True, error_model="numpy", fastmath={"reassoc"})
def _add(rows: Any, counted: Any, most: float, total: Any) -> None:
    """Add rows at no more than ``most`` steps a unit; the order of additions is free, for speed."""
    size = rows.shape[1]
    room = STEPS - math.sqrt(size) / 2 - 1  # norm before rounding
    whole = np.empty(size)
    for i in np.flatnonzero(counted):
        norm = 0.0
        for j in range(size):
            norm += np.float64(rows[i, j]) * np.float64(rows[i, j])
        factor = min(room / math.sqrt(norm), most) if norm > 0 else most
        squares = 0.0
        for j in range(size):
            step = np.rint(np.float64(rows[i, j]) * factor)
            whole[j] = step
            squares += step * step
        if squares <= STEPS * STEPS:
            for j in range(size):
                total[j] += whole[j]
