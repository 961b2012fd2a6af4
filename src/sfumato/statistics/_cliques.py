"""Cliques of nodes of similar degree within groups, which give a random graph its triangles. Nothing here is private.

A random graph with given degrees has few triangles. So a share of the nodes of each group, nearly in the order of their degrees,
is cut into cliques first: each is as large as nine tenths of the least degree in it allow. The other edges of these nodes are
wired at random. :mod:`~sfumato.statistics._twin` finds the share for which the whole graph has as many triangles as it should.
Time is that of sorting the nodes, and linear in the edges of the cliques.

Source: Seshadhri, Kolda and Pinar, "Community structure and scale-free collections of Erdos-Renyi graphs", Physical Review E
85, 2012, whose affinity blocks are random graphs of one density where these are cliques of some of the nodes.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from sfumato.statistics._wiring import Pairs, Whole

_PART, _SHUFFLE, _POWER = 0.9, 0.1, 0.3
MOST_SHARE = 8.0
"""The largest share that is of use: nodes of many times the mean degree are in cliques then too."""


def cliques(
    generator: np.random.Generator, groups: Whole, degrees: Whole, room: Whole, shares: NDArray[np.float64]
) -> Whole:
    """Return the keys of edges that make cliques within groups, in order.

    Args:
        generator: of public randomness.
        groups: the group of each node.
        degrees: the degree of each node, which no clique exceeds.
        room: how many edges there may be within each group.
        shares: the share of the nodes of mean degree that are in a clique, by group; it falls with the degree.

    >>> keys = cliques(np.random.default_rng(0), np.zeros(10, int), np.full(10, 5), np.array([25]), np.ones(1))
    >>> len(keys)  # two cliques of five nodes
    20
    """
    pairs, mean = Pairs(len(groups), directed=False), max(float(degrees.mean()), 1e-9)
    fuzzy = degrees * np.exp(_SHUFFLE * generator.standard_normal(len(degrees)))
    chances = shares[groups] * (np.maximum(degrees, 1) / mean) ** -_POWER
    used = np.flatnonzero((generator.random(len(degrees)) < chances) & (degrees > 2))
    if not len(used):
        return np.empty(0, np.int64)
    used = used[np.lexsort((fuzzy[used], groups[used]))]
    most = np.minimum(degrees[used], 1 + np.ceil(degrees[used] * _PART - 1e-9).astype(np.int64))
    block = _blocks(groups[used], most)
    sizes = np.bincount(block)
    owner, edges = groups[used][np.cumsum(sizes) - 1], sizes * (sizes - 1) // 2
    kept = _that_fit(generator, owner, edges, room)[block]
    after = np.where(kept, np.cumsum(sizes)[block] - 1 - np.arange(len(block)), 0)
    source = np.repeat(np.arange(len(used)), after)
    target = source + 1 + np.arange(len(source)) - np.repeat(np.cumsum(after) - after, after)
    return np.sort(pairs.keys(used[source], used[target]))


def _that_fit(generator: np.random.Generator, owner: Whole, edges: Whole, room: Whole) -> NDArray[np.bool_]:
    """Mark cliques, in random order, until a group has no more room for their edges."""
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
