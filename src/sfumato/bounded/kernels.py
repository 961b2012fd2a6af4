"""Compiled loops for neighborhood sums. There is no privacy here, only exact integer arithmetic.

Rows are int16; a row of norm 1 is ``UNIT`` = 32767 steps. For summing, four values are packed in one 64-bit word,
each shifted by 2^15 so that it is not negative. Even and odd values are added separately, so each has a 32-bit field,
which 2^16 terms below 2^16 cannot overflow. Then the fields are added to int64 sums, and the shifts are subtracted.
"""

from __future__ import annotations

import numpy as np
from numba import njit, prange
from numpy.typing import NDArray

UNIT = 32767
LANES = 16
_FLUSH = 1 << 16
_SHIFT = 1 << 15
_EVEN = 0x0000FFFF0000FFFF


def pack(rows: NDArray[np.int16]) -> NDArray[np.uint64]:
    """Pack int16 rows [nodes, width] as uint64 [nodes, blocks, 4], 16 values a block, padded with zeros.

    >>> pack(np.zeros((2, 20), np.int16)).shape
    (2, 2, 4)
    """
    blocks = max(1, -(-rows.shape[1] // LANES))
    shifted = np.full((len(rows), blocks * LANES), _SHIFT, np.uint16)
    shifted[:, : rows.shape[1]] = rows.view(np.uint16) ^ np.uint16(_SHIFT)
    return shifted.view("<u8").reshape(len(rows), blocks, LANES // 4)


@njit(cache=True, parallel=True, nogil=True)
def sum_rows(
    indptr: NDArray[np.int64],
    indices: NDArray[np.int32],
    packed: NDArray[np.uint64],
    first: int,
    out: NDArray[np.int64],
) -> None:
    """Set ``out[i]`` [rows, blocks * 16] to the sum of the packed rows that the arcs of row ``first + i`` name.

    The arcs of row i are ``indices[indptr[i]:indptr[i + 1]]``, and ``packed`` is what :func:`pack` returns.

    >>> out = np.empty((2, 16), np.int64)
    >>> sum_rows(np.array([0, 1, 2]), np.array([1, 0], np.int32), pack(np.array([[5], [7]], np.int16)), 0, out)
    >>> out[:, 0].tolist()
    [7, 5]
    """
    for i in prange(out.shape[0]):
        low, high = indptr[first + i], indptr[first + i + 1]
        for block in range(packed.shape[1]):
            base = block * LANES
            for c in range(LANES):
                out[i, base + c] = -_SHIFT * (high - low)
            start = low
            while start < high:
                stop = min(start + _FLUSH, high)
                _sum_block(indices, packed, start, stop, block, out[i, base : base + LANES])
                start = stop


@njit(inline="always")
def _sum_block(
    indices: NDArray[np.int32], packed: NDArray[np.uint64], start: int, stop: int, block: int, out: NDArray[np.int64]
) -> None:
    mask, half, low = np.uint64(_EVEN), np.uint64(16), np.uint64(0xFFFFFFFF)
    even0 = even1 = even2 = even3 = odd0 = odd1 = odd2 = odd3 = np.uint64(0)
    for arc in range(start, stop):
        node = indices[arc]
        w0, w1, w2, w3 = packed[node, block, 0], packed[node, block, 1], packed[node, block, 2], packed[node, block, 3]
        even0 += w0 & mask
        even1 += w1 & mask
        even2 += w2 & mask
        even3 += w3 & mask
        odd0 += (w0 >> half) & mask
        odd1 += (w1 >> half) & mask
        odd2 += (w2 >> half) & mask
        odd3 += (w3 >> half) & mask
    for word, (even, odd) in enumerate(((even0, odd0), (even1, odd1), (even2, odd2), (even3, odd3))):
        out[4 * word] += np.int64(even & low)
        out[4 * word + 1] += np.int64(odd & low)
        out[4 * word + 2] += np.int64(even >> np.uint64(32))
        out[4 * word + 3] += np.int64(odd >> np.uint64(32))


@njit(cache=True, parallel=True, nogil=True)
def quantize(unit_rows: NDArray[np.float32], out: NDArray[np.int16]) -> None:
    """Quantize rows to steps of 1 / 32767, rounding toward zero. A row whose squared norm exceeds 32767^2 is shrunk.

    The norm is checked in whole numbers.

    >>> steps = np.empty((1, 2), np.int16)
    >>> quantize(np.array([[0.6, -0.8]], np.float32), steps)
    >>> steps.tolist()
    [[19660, -26213]]
    """
    for i in prange(unit_rows.shape[0]):
        square = np.int64(0)
        for c in range(unit_rows.shape[1]):
            value = min(max(np.float64(unit_rows[i, c]), -1.0), 1.0)
            step = np.int64(value * UNIT)
            out[i, c] = step
            square += step * step
        while square > UNIT * UNIT:
            square = np.int64(0)
            for c in range(unit_rows.shape[1]):
                step = np.int64(out[i, c])
                step -= np.int64(np.sign(step))
                out[i, c] = step
                square += step * step
