"""The fast path of the Gaussian sampler, compiled; mathematics and proof in :mod:`sfumato.privacy.noise`."""

from __future__ import annotations

import math

import numpy as np
from numba import njit, prange
from numpy.typing import NDArray

REJECTED, ACCEPTED, UNCERTAIN = 0, 1, 2
_BAND = 2.0**-44
_COUNTS = 4.0
_NEAR = np.uint64(4)
_WIDTH = 1 << 31


@njit(cache=True, parallel=True, nogil=True)
def decode(
    words: NDArray[np.uint64],
    thresholds: NDArray[np.uint64],
    guide: NDArray[np.int64],
    first_bin: int,
    shift: int,
    half_precision: float,
) -> tuple[NDArray[np.int64], NDArray[np.uint8]]:
    """Turn blocks into values and a status each: rejected, accepted, or too close to a threshold to tell here."""
    size = words.shape[0]
    values = np.empty(size, np.int64)
    status = np.empty(size, np.uint8)
    last = thresholds.shape[0] - 1
    half = np.int64(1) << (shift - 1)
    for i in prange(size):
        word = words[i, 0]
        j = guide[word >> np.uint64(53)]
        while j < last and thresholds[j + 1] <= word:
            j += 1
        values[i] = 0
        above = word - thresholds[j]
        below = thresholds[j + 1] - word if j < last else ~word
        left, count = np.float64(above), np.float64(above + below)
        index = np.int64(first_bin) + j
        offset = np.int64(words[i, 1] >> np.uint64(33))
        first = index * np.int64(_WIDTH)
        cell = first + offset
        mode = first if index >= 0 else first + np.int64(_WIDTH - 1)
        threshold = -math.expm1(-np.float64(cell - mode) * np.float64(cell + mode + 1) * half_precision) * count
        margin = threshold * _BAND + _COUNTS
        if above < _NEAR or below < _NEAR or abs(left - threshold) <= margin:
            status[i] = UNCERTAIN
        elif left < threshold:
            status[i] = REJECTED
        else:
            status[i] = ACCEPTED
            values[i] = (cell + half) >> shift
    return values, status
