r"""Public cells: a partition of the users who are asked, by the topology alone, into groups that are likely alike.

Every edge gets a weight by how alike its ends are in the public graph: the fourth power of the cosine of their rows, which are
four half kernels times random signs (heat kernels of the typical width and of a quarter of it, and walks of one and two steps;
:mod:`sfumato.local._heat`). On these weights grows one tree of communities (:mod:`sfumato.local._dendrogram`). Cells are its
largest clusters of at most ``size`` users. Users whose component has nobody else who is asked tell nothing of others; they are
put together, in the order of their nodes, so that noise is added to fewer counts.

**Formal guarantee.** No value of a user is an argument: cells are public, like the topology and who is asked.
"""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from sfumato.local._dendrogram import Dendrogram
from sfumato.local._heat import HeatKernel, Kernel, WalkKernel, heat, normalized_adjacency, typical_width

DIRECTIONS = 15.0
"""Directions of the typical heat kernel beyond one a component, as in :mod:`sfumato.local._smoothing`."""
_SIGNS = 128
_LEAST, _POWER = 0.01, 4


def kernels(adjacency: sp.csr_matrix, seed: int = 0) -> list[tuple[Kernel, float]]:
    """List the kernels that a public graph suggests, each with its log prior: heat of five widths, walks of one and two steps."""
    step, walk = normalized_adjacency(adjacency), normalized_adjacency(adjacency, self_loops=False)
    typical = typical_width(step, DIRECTIONS, seed)
    heats = [(HeatKernel(step, typical * 2.0**k, seed), -2.0 * k * k) for k in (-3, -2, -1, 0, 1)]
    return [*heats, *((WalkKernel(walk, hops, seed), 0.0) for hops in (1, 2))]


def cells_of(adjacency: sp.csr_matrix, asked: NDArray[np.bool_], size: int, seed: int = 0) -> NDArray[np.int64]:
    """Number the cell of every node that is asked, from 0, at most ``size`` of them in each; -1 for the others. Shape [n].

    Args:
        adjacency: the public graph, symmetric, [n, n].
        asked: who is asked, bool [n].
        size: the most users in a cell.
        seed: public seed of the signs.

    >>> pairs = sp.csr_matrix(np.kron(np.eye(2), [[0, 1], [1, 0]]))
    >>> cells_of(pairs, np.ones(4, bool), 2).tolist()
    [0, 0, 1, 1]
    """
    tree = Dendrogram.of(_weighed(adjacency, seed))
    clusters = _cut(tree, asked, size)
    count, component = sp.csgraph.connected_components(adjacency, directed=False)
    alone = asked & (np.bincount(component, weights=asked, minlength=count) == 1)[component]
    clusters[alone] = len(tree.sizes) + np.arange(alone.sum()) // size
    place = np.full(len(asked), -1, np.int64)
    place[asked] = np.unique(clusters[asked], return_inverse=True)[1]
    return place


def _weighed(adjacency: sp.csr_matrix, seed: int) -> sp.csr_matrix:
    """The weight of each edge, once, above the diagonal."""
    generator, n = np.random.default_rng(seed), adjacency.shape[0]
    step, walk = normalized_adjacency(adjacency), normalized_adjacency(adjacency, self_loops=False)
    typical = typical_width(step, DIRECTIONS, seed)
    heats = [HeatKernel(step, typical / share, seed) for share in (1, 4)]
    rows = []
    for kernel in (*heats, *(WalkKernel(walk, hops, seed) for hops in (1, 2))):
        signs = generator.choice(np.array([-1, 1], np.float32), (n, _SIGNS))
        half = heat(step, kernel.width / 2, signs) if isinstance(kernel, HeatKernel) else kernel.half(signs)
        rows.append(kernel.scale * half)
    edges = sp.triu(adjacency, 1).tocoo()
    alike, squares = np.zeros(edges.nnz), np.zeros(n)
    for part in rows:
        alike += np.einsum("ij,ij->i", part[edges.row], part[edges.col], dtype=np.float64)
        squares += np.einsum("ij,ij->i", part, part, dtype=np.float64)
    size = np.sqrt(np.maximum(squares, 1e-18))
    cosine = alike / (size[edges.row] * size[edges.col])
    weights = np.maximum(cosine, _LEAST) ** _POWER
    return sp.csr_matrix((weights, (edges.row, edges.col)), adjacency.shape)


def _cut(tree: Dendrogram, asked: NDArray[np.bool_], size: int) -> NDArray[np.int64]:
    """The largest cluster of at most ``size`` users around every node, [n]; a node that is not asked may be in none."""
    n = len(asked)
    users, cluster = np.zeros(n + len(tree.pairs)), np.arange(n + len(tree.pairs))
    users[:n] = asked
    for start, stop in pairwise(tree.rounds):
        users[n + start : n + stop] = users[tree.pairs[start:stop]].sum(axis=1)
    for start, stop in reversed(list(pairwise(tree.rounds))):
        around = cluster[n + start : n + stop]
        kept = users[around] <= size
        cluster[tree.pairs[start:stop][kept]] = around[kept, None]
    return cluster[:n]
