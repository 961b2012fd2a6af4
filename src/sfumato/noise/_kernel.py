"""The fast paths of the rounded samplers, compiled; mathematics and proof in :mod:`sfumato.noise._rectangles`."""

from __future__ import annotations

import math

import numpy as np
from numba import njit
from numpy.typing import NDArray

LAYER_BITS = 10
REJECTED, KEPT, OPEN = 0, 1, 2
_MASK = np.uint64((1 << LAYER_BITS) - 1)
_ONE, _SHIFT = np.uint64(1), np.uint64(LAYER_BITS + 1)
_BLOCK = 512


@njit(cache=True, nogil=True)
def decode(
    words: NDArray[np.uint64],
    step: NDArray[np.float64],
    limit: NDArray[np.uint64],
    margin: float,
    out: NDArray[np.int64],
    where: NDArray[np.int32],
    pending: NDArray[np.uint64],
) -> np.int64:
    """Write the value of every word to ``out``; list those not certain in ``pending``, ``where`` they are, and how many.

    Gathers and arithmetic are separate loops, so that the second one compiles to vector instructions.
    """
    count = np.uint64(0)
    gathered = np.empty(_BLOCK, np.float64)
    for low in range(0, words.shape[0], _BLOCK):
        block = words[low : low + _BLOCK]
        values = out[low : low + _BLOCK]
        for i in range(block.shape[0]):
            layer = block[i] & _MASK
            gathered[i] = step[layer]
            if block[i] << _ONE >= limit[layer]:
                where[count] = low + i
                count += np.uint64(1)
        close = np.int64(0)
        for i in range(block.shape[0]):
            real = np.float64(np.int64((block[i] << _ONE) >> _SHIFT)) * gathered[i]
            nearest = np.rint(real)
            sign = np.int64(block[i]) >> 63
            values[i] = (np.int64(nearest) ^ sign) - sign
            close |= np.int64(abs(real - nearest) + margin * gathered[i] > 0.5)
        if close:
            for i in range(block.shape[0]):
                real = np.float64(np.int64((block[i] << _ONE) >> _SHIFT)) * gathered[i]
                certain = abs(real - np.rint(real)) + margin * gathered[i] <= 0.5
                if not certain and block[i] << _ONE < limit[block[i] & _MASK]:
                    where[count] = low + i
                    count += np.uint64(1)
    for k in range(count):
        pending[k] = words[where[k]]
    return np.int64(count)


@njit(cache=True, nogil=True)
def judge(
    words: NDArray[np.uint64],
    heights: NDArray[np.uint64],
    step: NDArray[np.float64],
    limit: NDArray[np.uint64],
    margin: float,
    half_width: NDArray[np.float64],
    levels: NDArray[np.float64],
    order: float,
    square: bool,
) -> tuple[NDArray[np.int64], NDArray[np.uint8]]:
    """Value of every word and, with the leading bits of its height, whether it is rejected, kept or open."""
    values = np.empty(words.shape[0], np.int64)
    status = np.empty(words.shape[0], np.uint8)
    for i in range(words.shape[0]):
        layer = words[i] & _MASK
        bits = np.float64(np.int64((words[i] << _ONE) >> _SHIFT))
        real = bits * step[layer]
        nearest = np.rint(real)
        sign = np.int64(words[i]) >> 63
        values[i] = (np.int64(nearest) ^ sign) - sign
        rise = levels[1, layer] * 2.0**-64
        height = levels[0, layer] + np.float64(heights[i]) * rise
        x = bits * 2.0**-53 * half_width[layer]
        graph = math.exp(-0.5 * x * x if square else -x)
        below = words[i] << _ONE < limit[layer]
        ordered = abs(graph - height) > order * (graph + height) + 2.0 * rise
        if abs(real - nearest) + margin * step[layer] > 0.5 or not (below or ordered):
            status[i] = OPEN
        else:
            status[i] = KEPT if below or height < graph else REJECTED
    return values, status
