"""Triangles of undirected graphs, each counted once, in memory of one int32 for each edge."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from sfumato._blocks import let_go
from sfumato.loops.kernels import loops

_ARCS = 1 << 21


def triangles(
    indptr: NDArray[np.int64], indices: NDArray[np.int32], groups: NDArray[np.integer], num_groups: int
) -> NDArray[np.int64]:
    """Count triangles whose three nodes are in one group, int64 [num_groups].

    Only arcs to the end of the larger degree (the larger number among equals) are kept, so that every triangle is found from
    its least node alone, and no row is longer than about the root of twice the number of edges. Arcs are read in blocks.

    >>> indptr, indices = np.array([0, 2, 5, 8, 10]), np.array([1, 2, 0, 2, 3, 0, 1, 3, 1, 2], np.int32)
    >>> triangles(indptr, indices, np.zeros(4, int), 1).tolist()
    [2]

    Source: Schank and Wagner, "Finding, counting and listing all triangles in large graphs", WEA 2005, the forward algorithm.
    """
    size = len(indptr) - 1
    rank = np.diff(indptr) * size + np.arange(size)
    kept, targets, stop = np.zeros(size + 1, np.int64), np.empty(len(indices) // 2, np.int32), 0
    first = 0
    while first < size:
        last = max(first + 1, int(np.searchsorted(indptr, indptr[first] + _ARCS, side="right")) - 1)
        ends = np.asarray(indices[indptr[first] : indptr[last]])
        owners = np.repeat(np.arange(first, last), np.diff(indptr[first : last + 1]))
        used = (rank[owners] < rank[ends]) & (groups[owners] == groups[ends])
        start, stop = stop, stop + int(used.sum())
        targets[start:stop] = ends[used]
        kept[first + 1 : last + 1] = np.bincount(owners[used] - first, minlength=last - first)
        let_go(indices)
        first = last
    closed, found = np.empty(size, np.int64), np.zeros(num_groups, np.int64)
    loops().closed(np.cumsum(kept), targets[:stop], closed)
    np.add.at(found, groups, closed)
    return found
