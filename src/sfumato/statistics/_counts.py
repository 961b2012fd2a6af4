"""Exact counts over a graph: what statistics release with noise. Nothing here is private.

Arcs from a node to itself are left out of all counts.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from sfumato._blocks import let_go
from sfumato.bounded._statistics import MOST_COUNT
from sfumato.graph._weights import FULL

if TYPE_CHECKING:
    from sfumato.graph._graph import Graph

RANGES = 16
"""Ranges of equal width that weights are counted in."""
_ARCS, _EXACT = 1 << 21, 1 << 13
Counts = NDArray[np.int64]


def degree_ends(most: int) -> Counts:
    """Return the degrees k at which nodes of degree at most k are counted: each one up to 8,191, then ever fewer.

    ``most`` is the largest degree that there may be; no entry is needed for it.

    >>> degree_ends(4).tolist(), len(degree_ends(10**6))
    ([0, 1, 2, 3], 8503)
    """
    ends, last = list(range(min(most, _EXACT))), _EXACT
    while last < most:
        ends.append(last)
        last += last // 64
    return np.array(ends, np.int64)


@dataclass(frozen=True)
class Counted:
    """What is counted of a graph, each when it is asked for. Nodes without a label are a group of their own, the last."""

    graph: Graph

    @cached_property
    def groups(self) -> NDArray[np.int64]:
        """The group of each node: its class, or the number of classes, which is 0 in a graph without any."""
        graph = self.graph
        if graph.y is None:
            return np.full(graph.num_nodes, self.num_groups - 1)
        return np.where(graph.y < 0, graph.num_classes, graph.y).astype(np.int64)

    @property
    def num_groups(self) -> int:
        return self.graph.num_classes + 1 if self.graph.num_classes else 1

    def blocks(self) -> Iterator[tuple[Counts, NDArray[Any], slice]]:
        """Yield owners and targets of arcs block by block, loops included, with the places of the arcs."""
        indptr, start = self.graph.indptr, 0
        while start < self.graph.num_nodes:
            end = int(np.searchsorted(indptr, indptr[start] + _ARCS, side="right")) - 1
            end = min(max(end, start + 1), self.graph.num_nodes)
            places = slice(int(indptr[start]), int(indptr[end]))
            owners = np.repeat(np.arange(start, end), np.diff(indptr[start : end + 1]))
            yield owners, self.graph.indices[places], places
            let_go(self.graph.indices)
            start = end

    @cached_property
    def _ends(self) -> tuple[Counts, Counts]:
        """Arcs out of and into each node, without loops."""
        size = self.graph.num_nodes
        leaving, entering = np.zeros(size, np.int64), np.zeros(size, np.int64)
        for owners, targets, _ in self.blocks():
            others = owners != targets
            if len(owners):
                first, last = int(owners[0]), int(owners[-1])
                leaving[first : last + 1] += np.bincount(owners[others] - first, minlength=last - first + 1)
            if self.graph.directed:
                entering += np.bincount(targets[others], minlength=size)
        return leaving, entering if self.graph.directed else leaving

    @property
    def arcs_an_edge(self) -> int:
        return 1 if self.graph.directed else 2

    def edges(self) -> Counts:
        return np.array([self._ends[0].sum() // self.arcs_an_edge], np.int64)

    def tops(self) -> Counts:
        """The two largest degrees."""
        degrees = self._ends[0]
        largest = np.sort(np.partition(degrees, -2)[-2:])[::-1] if len(degrees) > 1 else np.append(degrees, 0)
        return largest.astype(np.int64)

    def degrees(self, ends: Counts, *, entering: bool = False, grouped: bool = False) -> Counts:
        """Count nodes of degree at most each end, by groups if asked: int64 [groups, ends]."""
        degrees = self._ends[int(entering)]
        groups = self.groups if grouped else np.zeros(len(degrees), np.int64)
        size = self.num_groups if grouped else 1
        above = np.searchsorted(ends, degrees)  # the first end that is no smaller
        counts = np.bincount(groups * (len(ends) + 1) + above, minlength=size * (len(ends) + 1))
        below: Counts = np.cumsum(counts.reshape(size, -1), axis=1)[:, :-1].astype(np.int64)
        return below

    def node_degrees(self) -> Counts:
        """The degree of each node, int64 [1, n]; of a directed graph those out and in, int64 [2, n]."""
        return np.stack(self._ends if self.graph.directed else self._ends[:1])

    def group_sizes(self) -> Counts:
        """Count the nodes of each group."""
        return np.bincount(self.groups, minlength=self.num_groups).astype(np.int64)

    def mixing(self) -> Counts:
        """Count edges by the groups of both ends: the upper triangle row by row, or all pairs of a directed graph."""
        size, groups = self.num_groups, self.groups
        found = np.zeros(size * size, np.int64)
        for owners, targets, _ in self.blocks():
            used = owners != targets if self.graph.directed else owners < targets
            found += np.bincount(groups[owners[used]] * size + groups[targets[used]], minlength=size * size)
        table = found.reshape(size, size)
        if self.graph.directed:
            return found
        whole = table + table.T - np.diag(np.diag(table))
        return np.asarray(whole[np.triu_indices(size)], np.int64)

    def mutual(self) -> Counts:
        """Count pairs of nodes with an arc in both directions."""
        indptr, indices, found = self.graph.indptr, self.graph.indices, 0
        for owners, targets, _ in self.blocks():
            ahead = owners < targets
            wanted, rows = owners[ahead], targets[ahead]
            low, high = indptr[rows], indptr[rows + 1]
            while (still := low < high).any():  # the first target of each row that is no smaller than the wanted one
                middle = (low + high) >> 1
                smaller = still & (indices[np.minimum(middle, len(indices) - 1)] < wanted)
                low, high = np.where(smaller, middle + 1, low), np.where(still & ~smaller, middle, high)
            there = low < indptr[rows + 1]
            found += int((indices[low[there]] == wanted[there]).sum())
        return np.array([found], np.int64)

    def triangles(self, *, grouped: bool = False) -> Counts:
        """Count triangles, or those whose three nodes are in one group, by group."""
        from sfumato.loops._triangles import triangles

        if not grouped:
            return triangles(self.graph.indptr, self.graph.indices, np.zeros(self.graph.num_nodes, np.int64), 1)
        return triangles(self.graph.indptr, self.graph.indices, self.groups, self.num_groups)

    def wedges(self) -> Counts:
        return self._stars(2)

    def stars(self) -> Counts:
        return self._stars(3)

    def weight(self) -> Counts:
        """The sum of weights in steps; the whole sum is at most 2^15 an edge."""
        assert self.graph.weights is not None
        total = 0
        for owners, targets, place in self.blocks():
            used = owners != targets if self.graph.directed else owners < targets
            total += int(self.graph.weights.steps[place][used].sum(dtype=np.int64))
        return np.array([total], np.int64)

    def weights(self) -> Counts:
        """Count edges by their weights, in ranges of equal width up to the declared bound."""
        assert self.graph.weights is not None
        found = np.zeros(RANGES, np.int64)
        for owners, targets, place in self.blocks():
            used = owners != targets if self.graph.directed else owners < targets
            steps = self.graph.weights.steps[place][used].astype(np.int64)
            found += np.bincount(np.minimum(steps * RANGES // FULL, RANGES - 1), minlength=RANGES)
        return found

    def _stars(self, size: int) -> Counts:
        """Sum the number of ways to choose so many edges at a node; no sum is above 2^62, which moves none by more."""
        total = sum(
            math.comb(int(d), size) * int(n) for d, n in zip(*np.unique(self._ends[0], return_counts=True), strict=True)
        )
        return np.array([min(total, MOST_COUNT)], np.int64)


COUNTS: dict[str, Callable[..., Counts]] = {
    "edges": Counted.edges,
    "bounds": Counted.tops,
    "mixing": Counted.mixing,
    "mutual": Counted.mutual,
    "wedges": Counted.wedges,
    "stars": Counted.stars,
    "weight": Counted.weight,
    "weights": Counted.weights,
    "node-degrees": Counted.node_degrees,
    "groups": Counted.group_sizes,
}
