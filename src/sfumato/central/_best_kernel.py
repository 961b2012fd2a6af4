"""The best-scored others of nodes: the numbers of :mod:`~sfumato.central._evidence`, pair by pair, without a table of all pairs.

The most that the cheap numbers of a pair may add, by a small table, and the others at all, is compared with the worst score that
is kept: most pairs are left there. Others come in rising order, and one of equal score takes no place: the lower row is first.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit, prange


@njit(cache=True, nogil=True, error_model="numpy", inline="always")
def _cell(number: int, value: float, lows: Any, steps: Any, last: int) -> Any:
    """The cell of values that a number is in, of equal cells between the least and the largest reference value."""
    at = (value - lows[number]) * steps[number]
    return 0 if at < 0 else (last if at >= last else np.int64(at) + 1)


@njit(cache=True, nogil=True, error_model="numpy", inline="always")
def _rank(number: int, value: float, cell: int, references: Any, ranks: Any, guide: Any) -> float:
    """The weighted rank of a value among the sorted reference values of a number."""
    low, high = guide[number, 0, cell], guide[number, 1, cell]
    while low < high:
        middle = (low + high) // 2
        if references[number, middle] < value:
            low = middle + 1
        else:
            high = middle
    return ranks[number, low]


@njit(cache=True, nogil=True, error_model="numpy", inline="always")
def _score(u: int, v: int, least: float, near: Any, nodes: Any, public: Any, scale: Any, caps: Any) -> float:
    """The score of a pair; minus infinity if it cannot be above ``least``. ``near`` holds the public row of u.

    ``caps`` hold the most that each number may add, by the cell of its value, and of any value in a last column.
    """
    logs, met, labels, directions = nodes
    starts, columns, values = public
    references, ranks, lows, steps, guide = scale
    last = guide.shape[2] - 1
    degree, affinity = logs[u] + logs[v], np.float64(met[u, labels[v]]) + met[v, labels[u]]
    first, second = _cell(1, degree, lows, steps, last), _cell(2, affinity, lows, steps, last)
    most = caps[1, first] + caps[2, second]
    if most + caps[0, last + 1] + caps[3, last + 1] <= least:
        return -np.inf
    direction = 0.0
    for j in range(directions.shape[1]):
        direction += np.float64(directions[u, j]) * directions[v, j]
    third = _cell(3, direction, lows, steps, last)
    most += caps[3, third]
    if most + caps[0, last + 1] <= least:
        return -np.inf
    likeness = 0.0
    for at in range(starts[v], starts[v + 1]):
        likeness += near[columns[at]] * values[at]
    cell = _cell(0, likeness, lows, steps, last)
    if most + caps[0, cell] <= least:
        return -np.inf
    found = _rank(1, degree, first, references, ranks, guide) + _rank(2, affinity, second, references, ranks, guide)
    found += _rank(3, direction, third, references, ranks, guide)
    return found + _rank(0, likeness, cell, references, ranks, guide)


@njit(cache=True, nogil=True, error_model="numpy", parallel=True)
def best(
    asks: Any, others: Any, nodes: Any, public: Any, scale: Any, caps: Any, width: int, kept: Any, scores: Any
) -> None:
    """Set ``kept`` [num_asks, top] to the best others of each node, -1 where there are no more, and their ``scores``."""
    starts, columns, values = public
    top = kept.shape[1]
    for i in prange(len(asks)):
        u, near = asks[i], np.zeros(width)
        for at in range(starts[u], starts[u + 1]):
            near[columns[at]] = values[at]
        for j in range(top):
            kept[i, j], scores[i, j] = -1, -np.inf
        for v in others:
            if v == u:
                continue
            least = scores[i, top - 1]
            found = _score(u, v, least, near, nodes, public, scale, caps)
            if found > least:
                j = top - 1
                while j > 0 and scores[i, j - 1] < found:
                    kept[i, j], scores[i, j] = kept[i, j - 1], scores[i, j - 1]
                    j -= 1
                kept[i, j], scores[i, j] = v, found
