"""The loops of :mod:`sfumato.loops.kernels` in Numba. There is no privacy here, only exact integer arithmetic.

For summing, four int16 values are packed in one 64-bit word, each shifted by 2^15 so that it is not negative. Even and odd
values are added separately, so each has a 32-bit field, which 2^16 terms below 2^16 cannot overflow. Then the fields are
added to int64 sums, and the shifts are subtracted.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numba import njit, prange
from numpy.typing import NDArray

if TYPE_CHECKING:
    from sfumato.loops._native import Noise

NAME = "Numba"
_UNIT = 32767
_LANES = 16
_FLUSH = 1 << 16
_SHIFT = 1 << 15
_EVEN = 0x0000FFFF0000FFFF
_WEIGHT = 1 << 15
_PIECES = 64


def pack(steps: NDArray[np.int16]) -> NDArray[np.uint64]:
    """Pack int16 rows [nodes, width] as uint64 [nodes, blocks, 4], 16 values a block, padded with zeros.

    >>> pack(np.zeros((2, 20), np.int16)).shape
    (2, 2, 4)
    """
    blocks = max(1, -(-steps.shape[1] // _LANES))
    shifted = np.full((len(steps), blocks * _LANES), _SHIFT, np.uint16)
    shifted[:, : steps.shape[1]] = steps.view(np.uint16) ^ np.uint16(_SHIFT)
    return shifted.view("<u8").reshape(len(steps), blocks, _LANES // 4)


def sum_rows(
    offsets: NDArray[np.int64],
    sources: NDArray[np.int32],
    packed: NDArray[np.uint64],
    first: int,
    out: NDArray[np.int64],
    weights: NDArray[np.uint16] | None = None,
    noise: Noise | None = None,
) -> None:
    """Set ``out[i]`` [rows, width] to the sum of the rows that the arcs of row ``first + i`` name, each times its weight.

    >>> out = np.empty((2, 1), np.int64)
    >>> sum_rows(np.array([0, 1, 2]), np.array([1, 0], np.int32), pack(np.array([[5], [7]], np.int16)), 0, out)
    >>> out.tolist()
    [[7], [5]]
    """
    if weights is not None:
        _sum_weighted(offsets, sources, weights, packed, first, out)
    else:
        width = packed.shape[1] * _LANES
        sums = out if out.shape[1] == width else np.empty((len(out), width), np.int64)
        _sum_padded(offsets, sources, packed, first, sums)
        if sums is not out:
            out[:] = sums[:, : out.shape[1]]
    if noise is not None:
        noise.add(out, first * out.shape[1])


@njit(cache=True, parallel=True, nogil=True)
def _sum_padded(
    indptr: NDArray[np.int64],
    indices: NDArray[np.int32],
    packed: NDArray[np.uint64],
    first: int,
    out: NDArray[np.int64],
) -> None:
    for i in prange(out.shape[0]):
        low, high = indptr[first + i], indptr[first + i + 1]
        for block in range(packed.shape[1]):
            base = block * _LANES
            for c in range(_LANES):
                out[i, base + c] = -_SHIFT * (high - low)
            start = low
            while start < high:
                stop = min(start + _FLUSH, high)
                _sum_block(indices, packed, start, stop, block, out[i, base : base + _LANES])
                start = stop


@njit(cache=True, parallel=True, nogil=True)
def _sum_weighted(
    indptr: NDArray[np.int64],
    indices: NDArray[np.int32],
    weights: NDArray[np.uint16],
    packed: NDArray[np.uint64],
    first: int,
    out: NDArray[np.int64],
) -> None:
    for i in prange(out.shape[0]):
        for c in range(out.shape[1]):
            out[i, c] = 0
        for arc in range(indptr[first + i], indptr[first + i + 1]):
            node, weight = indices[arc], np.int64(weights[arc])
            for c in range(out.shape[1]):
                word = packed[node, c // _LANES, c % _LANES // 4]
                value = np.int64((word >> np.uint64(16 * (c % 4))) & np.uint64(0xFFFF)) - _SHIFT
                share = abs(value) * weight // _WEIGHT
                out[i, c] += share if value > 0 else -share


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
def quantize(rows: NDArray[np.float32], out: NDArray[np.int16], squares: NDArray[np.float64]) -> None:
    """Write rows to ``out`` in whole steps and their squared norms to ``squares``; rows that are not finite stay out.

    >>> steps, squares = np.empty((1, 2), np.int16), np.empty(1)
    >>> quantize(np.array([[0.6, -0.8]], np.float32), steps, squares)
    >>> steps.tolist(), squares.round(6).tolist()
    ([[19660, -26213]], [1.0])
    """
    for i in prange(rows.shape[0]):
        norm = 0.0
        for c in range(rows.shape[1]):
            norm += np.float64(rows[i, c]) * np.float64(rows[i, c])
        squares[i] = norm
        if not np.isfinite(norm):
            continue
        square = np.int64(0)
        for c in range(rows.shape[1]):
            value = min(max(np.float64(rows[i, c]), -1.0), 1.0)
            step = np.int64(value * _UNIT)
            out[i, c] = step
            square += step * step
        while square > _UNIT * _UNIT:
            square = np.int64(0)
            for c in range(rows.shape[1]):
                step = np.int64(out[i, c])
                step -= np.int64(np.sign(step))
                out[i, c] = step
                square += step * step


def closed(offsets: NDArray[np.int64], targets: NDArray[np.int32], out: NDArray[np.int64]) -> None:
    """Set ``out[v]`` to the number of pairs of targets of node v of which one is a target of the other.

    >>> out = np.empty(3, np.int64)
    >>> closed(np.array([0, 2, 3, 3]), np.array([1, 2, 2], np.int32), out)
    >>> out.tolist()
    [1, 0, 0]
    """
    _closed(offsets, targets, out)


@njit(cache=True, parallel=True, nogil=True)
def _closed(offsets: NDArray[np.int64], targets: NDArray[np.int32], out: NDArray[np.int64]) -> None:
    pieces = min(len(out), _PIECES)
    for piece in prange(pieces):
        marked = np.zeros(len(out), np.uint8)
        for node in range(piece, len(out), pieces):
            start, end, total = offsets[node], offsets[node + 1], np.int64(0)
            for arc in range(start, end):
                marked[targets[arc]] = 1
            for arc in range(start, end):
                for following in range(offsets[targets[arc]], offsets[targets[arc] + 1]):
                    total += marked[targets[following]]
            for arc in range(start, end):
                marked[targets[arc]] = 0
            out[node] = total
