r"""Approximate personalized PageRank by iterative shrinkage (ISTA): local, compiled, all roots in parallel.

**Problem.** Let A be the adjacency, d the degrees, and W = (I + A D^-1) / 2 the lazy walk, column by column. The exact vector
of root s solves :math:`p = \alpha e_s + (1 - \alpha) W p`: its *residual*

.. math:: r(p) = \alpha e_s - \tfrac{1 + \alpha}{2} p + \tfrac{1 - \alpha}{2} A D^{-1} p

is zero. With :math:`q = D^{-1/2} p`, the approximate vector is the minimizer of

.. math:: \tfrac12 q^T Q q - \alpha e_s^T D^{-1/2} q + \rho \alpha \|D^{1/2} q\|_1, \qquad
          Q = \tfrac{1 + \alpha}{2} I - \tfrac{1 - \alpha}{2} D^{-1/2} A D^{-1/2}.

Its gradient is :math:`-D^{-1/2} r(p)`. So p is the minimizer if and only if :math:`p \ge 0`, :math:`r_i(p) \le \rho \alpha
d_i`, and :math:`r_i(p) = \rho \alpha d_i` wherever :math:`p_i > 0`. These conditions need no symmetry. They define the vector for
directed graphs too, where the walk follows the arcs that a node owns. A node without such arcs keeps its walk (d = 1).

**The scale of p.** The source writes the algorithm in :math:`p = D^{1/2} q`, and its recursion keeps :math:`-r_i / d_i` up to
date, which is the gradient by p. But its step :math:`\Delta p_i = r_i / d_i - \rho \alpha` lacks a factor :math:`d_i` against the
step by q. It has the same fixed point and takes up to d times the rounds. Here a step is

.. math:: \Delta p_i = \tfrac{2}{1 + \alpha} (r_i - \rho \alpha d_i) \quad\text{for all } i \text{ with }
          r_i > (1 + \gamma) \rho \alpha d_i ,

and the rounds end where there is none: :math:`\max_i r_i / d_i \le (1 + \gamma) \rho \alpha`, as in the source. The factor is the
largest that keeps iterates increasing.

**Bounds.** Let :math:`e_i = \max(0, r_i - \rho \alpha d_i)`. A step leaves at i only what neighbors send, so r never falls below
:math:`\rho \alpha d_i` there, p only grows, and the sum of e falls by at least :math:`2 \alpha / (1 + \alpha)` times what was
taken. What is left to add at the end is at most :math:`\sum e / \alpha`. On the support of the minimizer :math:`p^*`, r is
:math:`\rho \alpha d`, and :math:`\sum r + \alpha \sum p = \alpha`, so its degrees sum to at most :math:`1 / \rho`. Hence

* :math:`0 \le p^* - p` and :math:`\|p^* - p\|_1 \le \gamma`;
* for undirected graphs, :math:`0 \le p^{exact}_i - p_i \le (1 + \gamma) \rho d_i`: the difference is the exact operator on
  :math:`r / \alpha \le (1 + \gamma) \rho d`, and the walk leaves d as it is;
* a vector has at most :math:`1 / \rho` entries, and a round reads at most as many arcs, whatever the graph.

Nothing here is private; :mod:`~sfumato.bounded._appr_release` is.

Source: Fountoulakis et al. (2019), Variational perspective on local graph clustering, algorithm 3.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp
from numba import njit
from numpy.typing import NDArray

from sfumato._threads import numba_threads
from sfumato._validate import SHARE, check_fields, fail, real
from sfumato.bounded._engine import cut, engine

_ROOTS = 256  # of one task, which has one scratch of the size of the graph


@dataclass(frozen=True)
class Walk:
    r"""A walk from a root, and how closely its vector is computed.

    ``alpha`` is the chance :math:`\alpha` to return to the root at a step; rounds grow with 1 / alpha. ``rho`` weighs the l1
    norm: a vector has at most 1 / rho entries. ``gamma`` bounds the l1 distance to the minimizer; below 1e-12 rounding may
    never let the rounds end.

    >>> Walk(rho=1e-3)
    Walk(alpha=0.25, rho=0.001, gamma=0.0001)
    """

    alpha: float = 0.25
    rho: float = 1e-4
    gamma: float = 1e-4

    def __post_init__(self) -> None:
        check_fields(self, alpha=real(1e-3, 1), rho=SHARE, gamma=real(1e-12, 1, below=True))


def approximate_pagerank(
    indptr: NDArray[np.int64], indices: NDArray[np.int32], roots: NDArray[np.int64], walk: Walk
) -> sp.csr_array:
    r"""Return the approximate personalized PageRank vector of each root. Not private: the caller must add noise.

    A root is computed by itself, in a fixed order, so the bits do not depend on other roots or on the number of threads
    (as many as Numba has). A root without arcs has the one entry :math:`1 - \rho`, up to :math:`\gamma`.

    Targets are distinct within an owner, and undirected graphs hold both arcs of an edge. The result has positive entries only.

    >>> path = np.array([0, 1, 3, 4]), np.array([1, 0, 2, 1], np.int32)
    >>> approximate_pagerank(*path, np.array([0]), Walk(alpha=0.5)).toarray().round(3).tolist()
    [[0.708, 0.25, 0.042]]
    """
    num_nodes, roots = len(indptr) - 1, np.ascontiguousarray(roots, np.int64)
    if roots.size and not 0 <= roots.min() <= roots.max() < num_nodes:
        raise fail("roots", "a number outside", f"to be nodes from 0 to {num_nodes - 1}")

    pieces = [(roots[first:last],) for first, last in cut(max(len(roots), 1), max(len(roots), _ROOTS))]
    found = dict(engine().run(_all_vectors, (indptr, indices, walk), pieces))
    sizes, columns, values = (np.concatenate(arrays) for arrays in zip(*map(found.get, sorted(found)), strict=True))
    offsets = np.zeros(len(roots) + 1, np.int64)
    np.cumsum(sizes, out=offsets[1:])
    return sp.csr_array((values, columns, offsets), shape=(len(roots), num_nodes))


def _all_vectors(
    indptr: NDArray[np.int64], indices: NDArray[np.int32], walk: Walk, roots: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.int32], NDArray[np.float64]]:
    """What :func:`_vectors` returns, from all threads."""

    def vectors(first: int) -> tuple[NDArray[np.int64], NDArray[np.int32], NDArray[np.float64]]:
        part: tuple[NDArray[np.int64], NDArray[np.int32], NDArray[np.float64]] = _vectors(
            indptr, indices, roots[first : first + _ROOTS], walk.alpha, walk.rho, walk.gamma
        )
        return part

    with ThreadPoolExecutor(numba_threads()) as pool:
        parts = list(pool.map(vectors, range(0, max(len(roots), 1), _ROOTS)))
    sizes, columns, values = zip(*parts, strict=True)
    return np.concatenate(sizes), np.concatenate(columns), np.concatenate(values)


@njit(cache=True, nogil=True)
def _vectors(
    indptr: NDArray[np.int64],
    indices: NDArray[np.int32],
    roots: NDArray[np.int64],
    alpha: float,
    rho: float,
    gamma: float,
) -> tuple[NDArray[np.int64], NDArray[np.int32], NDArray[np.float64]]:
    """Return the number of entries of each root, and their columns and values, one root after another."""
    num_nodes = len(indptr) - 1
    scratch = np.zeros((3, num_nodes))
    seen, touched, active = np.zeros(num_nodes, np.bool_), np.empty(num_nodes, np.int32), np.empty(num_nodes, np.int32)
    sizes, filled = np.zeros(len(roots), np.int64), 0
    columns, values = np.empty(1024, np.int32), np.empty(1024)
    for k in range(len(roots)):
        count = _spread(indptr, indices, roots[k], alpha, rho, gamma, scratch, seen, touched, active)
        found = np.sort(touched[:count])
        if filled + count > len(columns):
            room = len(columns) + count
            columns = np.concatenate((columns, np.empty(room, np.int32)))
            values = np.concatenate((values, np.empty(room)))
        for node in found:
            if scratch[0, node] > 0:
                columns[filled], values[filled] = node, scratch[0, node]
                filled += 1
                sizes[k] += 1
            scratch[0, node] = scratch[1, node] = 0
            seen[node] = False
    return sizes, columns[:filled].copy(), values[:filled].copy()


@njit(cache=True, nogil=True)
def _spread(
    indptr: NDArray[np.int64],
    indices: NDArray[np.int32],
    root: int,
    alpha: float,
    rho: float,
    gamma: float,
    scratch: NDArray[np.float64],
    seen: NDArray[np.bool_],
    touched: NDArray[np.int32],
    active: NDArray[np.int32],
) -> int:
    """Run the rounds of one root: p, r and steps are the rows of ``scratch``. Return how many nodes were touched."""
    p, r = scratch[0], scratch[1]
    r[root], seen[root], touched[0], count = alpha, True, root, 1
    least, keep, pass_on = rho * alpha, (1 + alpha) / 2, (1 - alpha) / 2
    while True:
        moved = 0
        for k in range(count):
            node = touched[k]
            if r[node] > (1 + gamma) * least * max(indptr[node + 1] - indptr[node], 1):
                active[moved] = node
                moved += 1
        if not moved:
            return count
        for k in range(moved):  # steps of a round read residuals of its beginning: r is changed in the second loop
            node = active[k]
            step = (r[node] - least * max(indptr[node + 1] - indptr[node], 1)) / keep
            p[node] += step
            scratch[2, node] = step
        for k in range(moved):
            node = active[k]
            step, degree = scratch[2, node], indptr[node + 1] - indptr[node]
            r[node] -= step * (keep if degree else alpha)
            for arc in range(indptr[node], indptr[node + 1]):
                target = indices[arc]
                if not seen[target]:
                    seen[target], touched[count] = True, target
                    count += 1
                r[target] += pass_on * step / degree
