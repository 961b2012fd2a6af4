"""Random simple graphs with given degrees of nodes and given numbers of edges between groups. Nothing here is private.

Every node has as many stubs as its degree. The stubs of a group are shuffled and dealt to the groups that its edges lead to,
then those of both sides are joined. An edge that is a loop, or is there already, exchanges its end with another edge between
the same groups, which changes no degree. The few that still collide are drawn again between the same groups. Time is that of
sorting the edges once, and then linear in the edges that collide.

Source: the degree-corrected block model of Karrer and Newman, "Stochastic blockmodels and community structure in networks",
Physical Review E 83, 2011, with fixed degrees and fixed numbers of edges.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Whole = NDArray[np.int64]
_ROUNDS, _DRAWS = 60, 40


@dataclass(frozen=True)
class Pairs:
    """Pairs of nodes as numbers, by which edges are sorted and compared."""

    num_nodes: int
    directed: bool

    def keys(self, source: Whole, target: Whole) -> Whole:
        """Number pairs; an undirected one has the same number either way."""
        if self.directed:
            return source * self.num_nodes + target
        return np.minimum(source, target) * self.num_nodes + np.maximum(source, target)

    def ends(self, keys: Whole) -> tuple[Whole, Whole]:
        source, target = np.divmod(keys, self.num_nodes)
        return source, target


def is_among(keys: Whole, ordered: Whole) -> NDArray[np.bool_]:
    """Say which keys are among ordered ones.

    >>> is_among(np.array([3, 4]), np.array([1, 4])).tolist()
    [False, True]
    """
    if not len(ordered):
        return np.zeros(len(keys), bool)
    at = np.minimum(np.searchsorted(ordered, keys), len(ordered) - 1)
    return np.asarray(ordered[at] == keys)


def capacities(sizes: Whole, *, directed: bool) -> Whole:
    """Return how many edges there may be between groups of these sizes, int64 [groups, groups].

    >>> capacities(np.array([3, 2]), directed=False).tolist()
    [[3, 6], [6, 1]]
    """
    found = np.outer(sizes, sizes)
    np.fill_diagonal(found, sizes * (sizes - 1) // (1 if directed else 2))
    return found


def with_room(table: Whole, sizes: Whole, *, directed: bool) -> Whole:
    """Move edges from pairs of groups that have no room for them, which noise can ask for, to the others.

    >>> with_room(np.array([[9, 1], [1, 0]]), np.array([3, 3]), directed=False).tolist()
    [[3, 5], [5, 2]]
    """
    room = capacities(sizes, directed=directed)
    fits = np.minimum(table, room)
    cells = np.ones(len(table) ** 2, bool) if directed else np.triu(np.ones(table.shape, bool)).ravel()
    lost, free = int((table - fits).ravel()[cells].sum()), np.where(cells, (room - fits).ravel(), 0)
    if lost:
        whole = np.cumsum(free)
        more = np.diff(np.minimum(whole[-1], whole * min(lost, whole[-1]) // max(1, whole[-1])), prepend=0).reshape(
            table.shape
        )
        fits = fits + more if directed else fits + np.triu(more) + np.triu(more, 1).T
    return fits


def stubs_of(table: Whole, *, directed: bool) -> Whole:
    """Return how many stubs of each group lead to each group: an undirected edge within a group has two of them."""
    return table if directed else table + np.diag(np.diag(table))


def wire(
    generator: np.random.Generator,
    groups: Whole,
    table: Whole,
    leaving: Whole,
    entering: Whole | None = None,
    taken: Whole | None = None,
) -> Whole:
    """Return the keys of new edges, in order: as many between each two groups as the table says, none of which is taken.

    Args:
        generator: of public randomness.
        groups: the group of each node.
        table: the number of edges between each two groups, int64 [groups, groups]; of an undirected graph it is symmetric and
            counts an edge within a group once. No entry may be above what there is room for.
        leaving: the degree of each node, in each group as many as the table has stubs.
        entering: of a directed graph the number of arcs into each node; None for an undirected graph.
        taken: keys of edges that are there already, in order.

    >>> keys = wire(np.random.default_rng(0), np.zeros(4, int), np.array([[3]]), np.array([3, 1, 1, 1]))
    >>> keys.tolist()
    [1, 2, 3]
    """
    directed, size = entering is not None, len(table)
    pairs, taken = Pairs(len(groups), directed), np.empty(0, np.int64) if taken is None else taken
    dealt = stubs_of(table, directed=directed)
    out = _shuffled(generator, groups, leaving)
    first = _starts(dealt)
    if entering is None:
        one, other = np.triu_indices(size)
        counts = table[one, other]
        within = one == other
        source = out[_ranges(first[one, other], counts)]
        target = out[_ranges(first[other, one] + np.where(within, counts, 0), counts)]
    else:
        one, other = (part.ravel() for part in np.indices((size, size)))
        counts, within = table[one, other], np.zeros(size * size, bool)
        source = out[_ranges(first[one, other], counts)]
        target = _shuffled(generator, groups, entering)[_ranges(_starts(table.T)[other, one], counts)]
    cell = np.repeat(np.arange(len(counts)), counts)
    source, target, bad = _exchanged(generator, pairs, (source, target), (cell, counts, within), taken)
    keys = pairs.keys(source, target)
    lost = np.bincount(cell[bad], minlength=len(counts))
    found = np.sort(keys[~bad])
    return _filled(generator, pairs, groups, (one, other, lost), found, taken) if lost.any() else found


def _shuffled(generator: np.random.Generator, groups: Whole, degrees: Whole) -> Whole:
    """The stubs of all nodes, group by group, in random order within each."""
    stubs = np.repeat(np.arange(len(groups)), degrees)
    mixed = generator.permutation(stubs)
    ordered: Whole = mixed[np.argsort(groups[mixed], kind="stable")]
    return ordered


def _starts(dealt: Whole) -> Whole:
    ends: Whole = np.cumsum(dealt.ravel()).reshape(dealt.shape)
    return ends - dealt


def _ranges(starts: Whole, counts: Whole) -> Whole:
    """Return the numbers of ranges one after another."""
    before = np.cumsum(counts) - counts
    return np.repeat(starts - before, counts) + np.arange(int(counts.sum()))


def _exchanged(
    generator: np.random.Generator,
    pairs: Pairs,
    ends: tuple[Whole, Whole],
    cells: tuple[Whole, Whole, NDArray[np.bool_]],
    taken: Whole,
) -> tuple[Whole, Whole, NDArray[np.bool_]]:
    """Exchange ends of edges that collide, and mark those that still do.

    A key that once was there is not used again, so edges are sorted once, and a round takes as long as there are collisions.
    """
    (source, target), (cell, counts, within) = ends, cells
    starts = np.cumsum(counts) - counts
    keys = pairs.keys(source, target)
    order = np.argsort(keys, kind="stable")
    ordered = keys[order]
    bad = source == target
    bad[order] |= is_among(ordered, taken)
    bad[order[1:][ordered[1:] == ordered[:-1]]] = True
    added = np.empty(0, np.int64)
    for _ in range(_ROUNDS):
        one = np.flatnonzero(bad)
        if not len(one):
            break
        other = starts[cell[one]] + (generator.random(len(one)) * counts[cell[one]]).astype(np.int64)
        kept = np.zeros(len(one), bool)
        kept[np.unique(other, return_index=True)[1]] = True
        kept &= ~bad[other]
        one, other = one[kept], other[kept]
        turned = within[cell[one]] & (generator.random(len(one)) < 0.5)
        far = np.where(turned, source[other], target[other])
        near = np.where(turned, target[other], source[other])
        made = np.stack([pairs.keys(source[one], far), pairs.keys(near, target[one])])
        fits = (source[one] != far) & (near != target[one])
        _, place, times = np.unique(made, return_inverse=True, return_counts=True)
        for half, again in zip(made, times[place.reshape(made.shape)] > 1, strict=True):
            fits &= ~(again | is_among(half, ordered) | is_among(half, added) | is_among(half, taken))
        one, other, near, far = one[fits], other[fits], near[fits], far[fits]
        last = target[one]
        target[one], source[other], target[other], bad[one] = far, near, last, False
        added = np.sort(np.concatenate([added, *made[:, fits]]))
    return source, target, bad


def _filled(
    generator: np.random.Generator,
    pairs: Pairs,
    groups: Whole,
    missing: tuple[Whole, Whole, Whole],
    found: Whole,
    taken: Whole,
) -> Whole:
    """Add edges between groups where some are missing, drawn evenly from the pairs of nodes that have none."""
    one, other, lost = missing
    order, sizes = np.argsort(groups, kind="stable"), np.bincount(groups, minlength=int(one.max()) + 1)
    starts = np.cumsum(sizes) - sizes
    lost = lost.copy()
    for left in reversed(range(_DRAWS)):
        cell = np.repeat(np.arange(len(lost)), lost)
        if not len(cell):
            break
        if left:
            near, far = one[cell], other[cell]
            source = order[starts[near] + (generator.random(len(cell)) * sizes[near]).astype(np.int64)]
            target = order[starts[far] + (generator.random(len(cell)) * sizes[far]).astype(np.int64)]
        else:
            source, target, cell = _every(order, (starts, sizes), (one, other), np.flatnonzero(lost))
        keys = pairs.keys(source, target)
        free = (source != target) & ~is_among(keys, found) & ~is_among(keys, taken)
        keys, at = np.unique(keys[free], return_index=True)
        cell = cell[free][at]
        mixed = generator.permutation(len(keys))
        keys, cell = keys[mixed], cell[mixed]
        turn = np.argsort(cell, kind="stable")
        place = np.arange(len(cell)) - np.searchsorted(cell[turn], cell[turn])
        used = turn[place < lost[cell[turn]]]
        lost -= np.bincount(cell[used], minlength=len(lost))
        found = np.sort(np.concatenate([found, keys[used]]))
    return found


def _every(
    order: Whole,
    members: tuple[Whole, Whole],
    ends: tuple[Whole, Whole],
    cells: Whole,
) -> tuple[Whole, Whole, Whole]:
    """Every pair of nodes of the groups of some cells: such cells are nearly full, so these are not many more than edges."""
    (starts, sizes), (one, other) = members, ends
    parts = []
    for cell in cells.tolist():
        near, far = (order[starts[end] : starts[end] + sizes[end]] for end in (one[cell], other[cell]))
        parts.append((np.repeat(near, len(far)), np.tile(far, len(near)), np.full(len(near) * len(far), cell)))
    source, target, cell = (np.concatenate(part) for part in zip(*parts, strict=True))
    return source, target, cell
