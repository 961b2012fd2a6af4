r"""Numbers of nodes by degree from noisy cumulative counts. Post-processing alone.

With :math:`y_k` the noisy number of nodes of degree at most k, the estimate C minimizes

.. math:: \sum_k \frac{(y_k - C_k)^2}{2 b^2} + \sum_k \frac{(C_k - C_{k-1} - \lambda_k)^2}{\lambda_k},

where b is the scale of the noise and :math:`\lambda_k` the mean of the numbers at degrees near k, no further away than k / 4:
an empirical Bayes estimate, as if the number at each degree was a Poisson draw of a rate that changes slowly with the degree.
Where many nodes have a degree, the noisy number counts; where few do, the mean of near ones. Rates are taken of an isotonic
regression first, and then of the first estimate. A known sum of all degrees is a linear condition, which is met exactly.

Mean L1 errors, in shares of all nodes, at edge level and the usual share of epsilon 1 (`benchmarks/describe.py`), are half to
three quarters of those of isotonic regression alone, and a tenth to a quarter of those of sorted noisy degrees (Hay, Li, Miklau
and Jensen 2009: noise of the same scale on each node's degree). The window k / 4 was chosen on Berkeley13, Reed98 and Cora-ML.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import solveh_banded
from scipy.optimize import isotonic_regression

Counts = NDArray[np.int64]
Values = NDArray[np.float64]
NEAR, _ROUNDS, _LEAST = 4, 2, 1e-4


def middles(ends: Counts) -> Counts:
    """Return the degree that stands for those above one end and up to the next, int64 [ends + 1]."""
    starts = np.append(ends, ends[-1] + 1)
    between = np.maximum(starts[1:-1], (starts[:-2] + 1 + starts[1:-1]) // 2)
    return np.concatenate([starts[:1], between, starts[-1:]])


def smoothed(row: Values, scale: float, size: int, degrees: Counts, total: int | None) -> Values:
    """Return the estimated number of nodes of degree at most each end, and all nodes last, float64 [ends + 1].

    Args:
        row: the noisy cumulative counts, float64 [ends].
        scale: the scale of their discrete Laplace noise, above 0.
        size: the number of nodes.
        degrees: what :func:`middles` returned.
        total: the sum of the degrees of all nodes, if something tells of it.

    >>> smoothed(np.array([3.0, 2.0, 9.0]), 1.0, 10, np.arange(4), 15).round(1).tolist()
    [2.9, 2.9, 9.2, 10.0]
    """
    near = np.arange(len(row) + 1) // NEAR
    found = np.append(isotonic_regression(np.clip(row, 0, size)).x, size)
    steps, wanted = np.diff(degrees).astype(np.float64), None
    if total is not None:
        wanted = float(degrees[-1]) * size - total  # what the counts, each times its step, add up to
    for _ in range(_ROUNDS if len(row) > 1 else 0):
        rates = _means(np.diff(found, prepend=0), near) + _LEAST
        matrix, right = _system(row, rates, 2 * scale * scale, size)
        counts = solveh_banded(matrix, right)
        if wanted is not None:
            moved = solveh_banded(matrix, steps)
            counts = counts + moved * (wanted - steps @ counts) / (steps @ moved)
        found = np.append(isotonic_regression(np.clip(counts, 0, size)).x, size)
    return found


def _means(numbers: Values, near: Counts) -> Values:
    below, places = np.append(0.0, np.cumsum(numbers)), np.arange(len(numbers))
    first, last = places - near, np.minimum(places + near + 1, len(numbers))
    means: Values = (below[last] - below[first]) / (last - first)
    return np.maximum(means, 0)


def _system(row: Values, rates: Values, variance: float, size: int) -> tuple[Any, Values]:
    """The upper form of a matrix of three diagonals, and the right side, for the minimum that the top of this file names."""
    weights = 1 / rates
    matrix = np.zeros((2, len(row)))
    matrix[1] = 1 / variance + weights[:-1] + weights[1:]
    matrix[0, 1:] = -weights[1:-1]
    right = row / variance  # each weight times its rate is 1, so the rates cancel but for the last count
    right[-1] += weights[-1] * size
    return matrix, right


def sequence_of(below: Values, degrees: Counts, total: int | None) -> Counts:
    """Return the degrees of all nodes in ascending order, int64, of cumulative counts; they add up to the total if there is one.

    >>> sequence_of(np.array([2.4, 4.7, 7.9, 10.0]), np.arange(4), 16).tolist()
    [0, 0, 1, 1, 2, 2, 2, 2, 3, 3]
    """
    size = round(below[-1])
    whole: Counts = np.rint(below).astype(np.int64)
    found: Counts = np.repeat(degrees, np.diff(whole, prepend=np.int64(0)))
    most = int(degrees[-1])
    if total is None:
        return found
    left = min(max(total, 0), most * size) - int(found.sum())
    while left:
        if abs(left) >= size:
            found = np.clip(found + int(left / size), 0, most)
        else:  # nodes at the ends of runs of one degree move by one, evenly spread: the order stays
            more = left > 0
            new = found[1:] != found[:-1]
            ends = np.flatnonzero(np.append(new, True) & (found < most) if more else np.append(True, new) & (found > 0))
            count = min(abs(left), len(ends))
            chosen = ends[(2 * np.arange(count) + 1) * len(ends) // (2 * count)]
            found[chosen] += 1 if more else -1
        left = min(max(total, 0), most * size) - int(found.sum())
    return found
