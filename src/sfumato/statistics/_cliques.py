r"""Cliques of nodes of similar degree within groups, which give a random graph its triangles. Nothing here is private.

A random graph with given degrees has few triangles. So a share of the nodes of each group, nearly in the order of their degrees,
is cut into cliques first: each is as large as nine tenths of the least degree d in it allow, or of
:math:`d^{3/4} m^{1/4}` if that is above the mean m. The other edges of these nodes are wired at random.
:mod:`~sfumato.statistics._twin` finds the share for which the whole graph has as many triangles as it should. Time is that
of sorting the nodes, and linear in the edges of the cliques.

Source: Seshadhri, Kolda and Pinar, "Community structure and scale-free collections of Erdos-Renyi graphs", Physical Review E
85, 2012, whose affinity blocks are random graphs of one density where these are cliques of some of the nodes.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from sfumato.statistics._wiring import Pairs, Whole

_PART, _SHUFFLE, _BEND = 0.9, 0.1, 0.75
_PASSES = 6


def cliques(
    generator: np.random.Generator, groups: Whole, degrees: Whole, room: Whole, shares: NDArray[np.float64]
) -> tuple[Whole, Whole]:
    """Choose cliques within groups; return who is in which, int64 [2, nodes in cliques] with nodes and numbers of cliques.

    The second array counts the triangles of the cliques by group, int64 [groups].

    Args:
        generator: of public randomness.
        groups: the group of each node.
        degrees: the degree of each node, which no clique exceeds.
        room: how many edges there may be within each group.
        shares: the share of the nodes of each group that are in a clique.

    >>> cliques(np.random.default_rng(0), np.zeros(10, int), np.full(10, 5), np.array([25]), np.ones(1))[1].tolist()
    [20]
    """
    mean = max(float(degrees.mean()), 1e-9)
    fuzzy = degrees * np.exp(_SHUFFLE * generator.standard_normal(len(degrees)))
    used = np.flatnonzero((generator.random(len(degrees)) < shares[groups]) & (degrees > 2))
    if not len(used):
        return np.empty((2, 0), np.int64), np.zeros(len(room), np.int64)
    used = used[np.lexsort((fuzzy[used], groups[used]))]
    reach = np.minimum(degrees[used], mean * (degrees[used] / mean) ** _BEND)
    most = np.minimum(degrees[used], 1 + np.ceil(reach * _PART - 1e-9).astype(np.int64))
    block = _blocks(groups[used], most)
    sizes = np.bincount(block)
    owner, edges = groups[used][np.cumsum(sizes) - 1], sizes * (sizes - 1) // 2
    kept = _that_fit(generator, owner, edges, room)
    closed = np.bincount(owner[kept], (edges * (sizes - 2) // 3)[kept], minlength=len(room)).astype(np.int64)
    return np.stack([used, block])[:, kept[block]], closed


def edges_of(members: Whole, num_nodes: int) -> Whole:
    """Return the keys of the edges of cliques, in order.

    >>> edges_of(np.array([[5, 3, 4], [0, 0, 0]]), 10).tolist()
    [34, 35, 45]
    """
    nodes, block = members
    end = np.searchsorted(block, block, side="right")
    after = end - 1 - np.arange(len(block))
    source = np.repeat(np.arange(len(block)), after)
    target = source + 1 + np.arange(len(source)) - np.repeat(np.cumsum(after) - after, after)
    return np.sort(Pairs(num_nodes, directed=False).keys(nodes[source], nodes[target]))


def thinned(generator: np.random.Generator, members: Whole, kinds: Whole, wanted: NDArray[np.float64]) -> Whole:
    """Leave out cliques at random until no kind has more triangles than wanted, and return the others.

    Args:
        generator: of public randomness.
        members: of the cliques.
        kinds: the kind of each node, which is that of its clique.
        wanted: the number of triangles of each kind.
    """
    nodes, block = members
    if not len(block):
        return members
    _, first, place, sizes = np.unique(block, return_index=True, return_inverse=True, return_counts=True)
    owner, closed = kinds[nodes[first]], sizes * (sizes - 1) * (sizes - 2) // 6
    kept, left = np.zeros(len(sizes), bool), wanted
    for _ in range(_PASSES):  # a large clique that does not fit leaves room for smaller ones
        rest = np.flatnonzero(~kept)
        kept[rest[_that_fit(generator, owner[rest], closed[rest], left)]] = True
        left = wanted - np.bincount(owner[kept], closed[kept], minlength=len(wanted))
    thin: Whole = members[:, kept[place]]
    return thin


def _that_fit(
    generator: np.random.Generator, owner: Whole, edges: Whole, room: NDArray[np.integer] | NDArray[np.floating]
) -> NDArray[np.bool_]:
    """Mark cliques, in random order, until a group has no more room for their edges (or triangles)."""
    order = np.lexsort((generator.random(len(owner)), owner))
    whole = np.cumsum(edges[order])
    first = np.searchsorted(owner[order], owner[order])
    fits = np.zeros(len(owner), bool)
    fits[order] = whole - (whole - edges[order])[first] <= room[owner[order]]
    return fits


def _blocks(groups: Whole, most: Whole) -> Whole:
    """Cut nodes, in order, into blocks of one group, none of which is larger than a node in it allows."""
    block, sizes = np.zeros(len(groups), np.int64), most.tolist()
    start, number = 0, 0
    for bound in np.append(np.flatnonzero(np.diff(groups)) + 1, len(groups)).tolist():
        while start < bound:
            stop = min(bound, start + sizes[start])
            while (least := min(sizes[start:stop])) < stop - start:
                stop = start + least
            block[start:stop] = number
            start, number = stop, number + 1
    return block
