"""Triangles of undirected graphs, each counted once."""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

_ROWS = 1 << 12


def triangles(
    indptr: NDArray[np.integer], indices: NDArray[np.integer], groups: NDArray[np.integer], num_groups: int
) -> NDArray[np.int64]:
    """Count triangles whose three nodes are in one group, int64 [num_groups].

    Arcs point to the end of the larger degree (the larger number among equals), so that every triangle is found from its
    least node alone, and no row is longer than about the root of the number of edges.

    >>> square = sp.csr_matrix(np.array([[0, 1, 1, 0], [1, 0, 1, 1], [1, 1, 0, 1], [0, 1, 1, 0]]))
    >>> triangles(square.indptr, square.indices, np.zeros(4, int), 1).tolist()
    [2]
    """
    size = len(indptr) - 1
    owners = np.repeat(np.arange(size), np.diff(indptr))
    degrees = np.diff(indptr)
    rank = np.empty(size, np.int64)
    rank[np.lexsort((np.arange(size), degrees))] = np.arange(size)
    used = (rank[owners] < rank[indices]) & (groups[owners] == groups[indices])
    first, second = rank[owners[used]], rank[indices[used]]
    arcs = sp.csr_matrix((np.ones(len(first), np.int64), (first, second)), (size, size))
    of_rank = np.empty(size, np.int64)
    of_rank[rank] = groups
    found = np.zeros(num_groups, np.int64)
    for start in range(0, size, _ROWS):
        rows = arcs[start : start + _ROWS]
        closed = np.asarray((rows @ arcs).multiply(rows).sum(axis=1)).ravel().astype(np.int64)
        np.add.at(found, of_rank[start : start + _ROWS], closed)
    return found
