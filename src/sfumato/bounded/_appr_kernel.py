"""Compiled draws without replacement by integer weights. The mathematics is in :mod:`~sfumato.bounded._appr_release`."""

from __future__ import annotations

import numpy as np
from numba import njit
from numpy.typing import NDArray

_ZERO, _ONE = np.uint64(0), np.uint64(1)


@njit(cache=True, nogil=True)
def draw_picks(
    indptr: NDArray[np.int64],
    indices: NDArray[np.int64],
    weights: NDArray[np.uint64],
    lightest: np.uint64,
    num_nodes: int,
    rows: NDArray[np.int64],
    words: NDArray[np.uint64],
    picks: NDArray[np.int64],
) -> NDArray[np.bool_]:
    """Write the picks of ``rows`` to ``picks``; return of each row whether its words were enough.

    A row reads words[row, pick, 0], words[row, pick, 1], ... until one is accepted. So more words change no pick of a row
    that was done before.

    ``words`` are independent and uniform, [len(rows), top_k, words of a pick]; ``picks`` [all rows, top_k] gets columns in
    order.

    >>> words, picks = np.array([[[5], [0]]], np.uint64), np.empty((1, 2), np.int64)
    >>> done = draw_picks(np.array([0, 1]), np.array([1]), np.array([4], np.uint64), np.uint64(1), 3, np.array([0]), words, picks)
    >>> done.tolist(), picks.tolist()
    ([True], [[2, 1]])
    """
    done = np.ones(len(rows), np.bool_)
    for i in range(len(rows)):
        columns = indices[indptr[rows[i]] : indptr[rows[i] + 1]]
        left = weights[indptr[rows[i]] : indptr[rows[i] + 1]].copy()
        total = np.uint64(num_nodes - len(columns)) * lightest
        for weight in left:
            total += weight
        taken, others = np.empty(words.shape[1], np.int64), 0
        for k in range(words.shape[1]):
            place, accepted = _below(total, words[i, k])
            if not accepted:
                done[i] = False
                break
            found = -1
            for entry in range(len(left)):
                if place < left[entry]:
                    found = entry
                    break
                place -= left[entry]
            if found >= 0:
                picks[rows[i], k] = columns[found]
                total -= left[found]
                left[found] = _ZERO
            else:
                picks[rows[i], k] = _other_column(columns, taken, others, int(place // lightest))
                others += 1
                total -= lightest
    return done


@njit(cache=True, nogil=True)
def _below(total: np.uint64, words: NDArray[np.uint64]) -> tuple[np.uint64, bool]:
    """A uniform integer below ``total``, and whether one of the words gave it."""
    surplus = (_ZERO - total) % total  # 2^64 mod total
    for word in words:
        if word <= ~surplus:
            return word % total, True
    return _ZERO, False


@njit(cache=True, nogil=True)
def _other_column(columns: NDArray[np.int64], taken: NDArray[np.int64], count: int, rank: int) -> int:
    """The column at ``rank`` among those neither stored nor taken; its rank among those not stored joins ``taken``, ascending."""
    place = 0
    while place < count and taken[place] <= rank:
        rank += 1
        place += 1
    for later in range(count, place, -1):
        taken[later] = taken[later - 1]
    taken[place] = rank
    for column in columns:
        if column > rank:
            break
        rank += 1
    return rank
