"""One sort of large arrays of keys, by counting digits: many times faster than by comparing them."""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit

_BITS = 12  # the counts of all digits fit the fastest cache


@njit(cache=True, nogil=True)
def radix_sort(keys: Any, spare: Any, bits: int) -> Any:  # pragma: no cover
    """Sort int64 keys from 0 to ``2 ** bits - 1``; both arrays are overwritten, and the answer is one of them."""
    passes = (bits + _BITS - 1) // _BITS
    width = (bits + passes - 1) // passes
    mask = (1 << width) - 1
    for shift in range(0, bits, width):
        places = np.zeros(mask + 2, dtype=np.int64)
        for i in range(len(keys)):
            places[((keys[i] >> shift) & mask) + 1] += 1
        for digit in range(1, mask + 2):
            places[digit] += places[digit - 1]
        for i in range(len(keys)):
            digit = (keys[i] >> shift) & mask
            spare[places[digit]] = keys[i]
            places[digit] += 1
        keys, spare = spare, keys
    return keys
