r"""A stable out-degree cap: each owner keeps at most D of its own arcs, chosen by its own secret stream.

Arc (u, t) gets the 64-bit word :math:`\mathrm{PRF}_k(u, t)`; owner u keeps the D smallest. What u keeps is a function of
the key and u's own list alone: there is no shuffle of the whole graph, no refill when another node leaves, and no limit
on in-arcs. It does not depend on weights; an arc that is kept keeps its own.

**Formal guarantee.** For neighboring graphs that differ in the record of v (owned arcs), the capped graphs differ in
out-arcs of v only, at most D on each side. (Published degree bounds let other nodes resample when v leaves, which
moves up to in-degree(v) further arcs; see `docs/guarantees.md`.)
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from sfumato._validate import check_int
from sfumato.noise.keys import Key, Stream, derive_key


def cap_out_degree(
    indptr: NDArray[np.int64], indices: NDArray[np.int32], max_out_degree: int, key: Key
) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
    """Keep at most ``max_out_degree`` arcs of each owner; a uniform choice, secret and fixed by ``key``.

    Arcs are grouped by owner, with targets ascending and distinct in each group (self-loops count).

    >>> offsets, targets = cap_out_degree(np.array([0, 3, 4]), np.array([0, 1, 2, 0], np.int32), 2, bytes(32))
    >>> offsets.tolist(), len(targets)
    ([0, 2, 3], 3)
    """
    keep = kept_by_cap(indptr, indices, max_out_degree, key)
    if keep is None:
        return indptr, indices
    capped = np.zeros(len(indptr), np.int64)
    np.cumsum(np.minimum(np.diff(indptr), max_out_degree), out=capped[1:])
    return capped, indices[keep]


def kept_by_cap(
    indptr: NDArray[np.int64], indices: NDArray[np.int32], max_out_degree: int, key: Key
) -> NDArray[np.bool_] | None:
    """Mark the arcs that :func:`cap_out_degree` keeps, bool [num_arcs], so that what belongs to an arc stays with it.

    None stands for all arcs.

    >>> int(kept_by_cap(np.array([0, 3, 4]), np.array([0, 1, 2, 0], np.int32), 2, bytes(32)).sum())
    3
    """
    check_int(low=1, max_out_degree=max_out_degree)
    degree = np.diff(indptr)
    over = degree > max_out_degree
    if not over.any():
        return None
    owner = np.repeat(np.arange(len(degree), dtype=np.uint64), degree)
    contested = np.flatnonzero(np.repeat(over, degree))
    label = (owner[contested] << np.uint64(32)) | indices[contested].astype(np.uint64)
    word = Stream(derive_key(key, "degree-cap")).at(label, 0)[:, 0]
    order = np.lexsort((word, owner[contested]))
    starts = np.repeat(np.cumsum(degree[over]) - degree[over], degree[over])
    keep = np.repeat(~over, degree)
    keep[contested[order[np.arange(len(order)) - starts < max_out_degree]]] = True
    return keep


def by_destination(
    indptr: NDArray[np.int64], indices: NDArray[np.int32]
) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
    """Regroup arcs by destination. The sources of each destination ascend.

    >>> [part.tolist() for part in by_destination(np.array([0, 2, 2]), np.array([0, 1], np.int32))]
    [[0, 1, 2], [0, 0]]
    """
    num_nodes = len(indptr) - 1
    source = np.repeat(np.arange(num_nodes, dtype=np.int32), np.diff(indptr))
    order = np.argsort(indices, kind="stable")
    offsets = np.zeros(num_nodes + 1, np.int64)
    np.cumsum(np.bincount(indices, minlength=num_nodes), out=offsets[1:])
    return offsets, source[order]
