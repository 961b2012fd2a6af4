"""Suggestions: for each node the others with the best scores, block by block, from a release. Nothing here reads an edge.

All pairs are scored unless ``among`` says how many candidates are: then nodes that are alike in what scores are made of are one
cell, and the best others of four of its nodes are the candidates of all of it. There are at most 4,096 cells, so the time grows
with the number of nodes and not with its square. Among more than 2^17 others the cells of a 64th of the nodes look for their
candidates in a pool: the 1,024 best others of each of sixteen of these nodes. How many of the best others such lists hold is
measured on some nodes, whose whole lists are made too.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from sfumato._validate import check_int, fail
from sfumato.graph._sides import Sides, values_of

if TYPE_CHECKING:
    from sfumato.graph._graph import Graph

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
Scorer = Callable[[NDArray[np.integer]], Floats]
_PAIRS, _MOST, _SMALLEST, _ASK, _SAMPLE, _TESTED = 1 << 22, 4096, 32, 4, 1000, 100
_FEW, _POOLS, _POOL_ASKS, _POOL = 1 << 17, 64, 16, 1024


class Finder(ABC):
    """A finder scores pairs of nodes by a release and public values, and finds the best others of nodes."""

    @property
    def sides(self) -> Sides | None:
        """Return the sides of a bipartite graph, which alone are suggested to each other."""
        return None

    @abstractmethod
    def pair_scores(self, pairs: NDArray[np.integer]) -> Floats:
        """Return the score of each pair of nodes [2, m]."""

    @abstractmethod
    def places(self, nodes: Ints) -> NDArray[np.float32]:
        """Return coordinates of nodes, in which those that are near have alike scores."""

    def best(self, nodes: Ints, others: Ints, top: int) -> tuple[Ints, Floats]:
        """Return the ``top`` best of ``others`` (rising) for each node, -1 where there are no more, and their scores."""
        pairs = np.stack((np.repeat(nodes, len(others)), np.tile(others, len(nodes))))
        scores = self.pair_scores(pairs).reshape(len(nodes), len(others))
        scores[nodes[:, None] == others] = -np.inf
        order = np.argsort(-scores, axis=1, kind="stable")[:, :top]
        found = np.take_along_axis(scores, order, 1)
        return np.where(np.isneginf(found), -1, others[order]), found


class CodeFinder(Finder):
    """A finder by a code of each node, of which ``scored`` makes the scores of pairs."""

    def __init__(self, codes: NDArray[np.float32], scored: Scorer) -> None:
        self._codes, self._scored = codes, scored

    def pair_scores(self, pairs: NDArray[np.integer]) -> Floats:
        return self._scored(pairs)

    def places(self, nodes: Ints) -> NDArray[np.float32]:
        return self._codes[nodes]


class Block(NamedTuple):
    """The lists of some nodes: pairs of a node and one of its others [2, m], the best first, with their scores."""

    pairs: Ints
    scores: Floats
    num_nodes: int

    def without(self, neighbors: NDArray[np.integer], top: int | None = None) -> Block:
        """Return the first ``top`` of the list of one viewer that are no ``neighbors``, on the viewer's device alone.

        What is left tells which links went. So it stays with the viewer, who knows them.

        >>> block = Block(np.array([[7, 7, 7], [3, 1, 2]]), np.array([0.9, 0.8, 0.7]), 1)
        >>> block.without(np.array([1])).pairs.tolist()
        [[7, 7], [3, 2]]
        """
        kept = np.flatnonzero(~np.isin(self.pairs[1], neighbors))[:top]
        return Block(self.pairs[:, kept], self.scores[kept], self.num_nodes)


class Suggestions:
    """The lists of nodes, made while they are read; then ``share_found`` says how many of the best others they hold."""

    def __init__(
        self,
        finder: Finder,
        graph: Graph,
        nodes: Ints,
        top: int,
        within: str | None = None,
        among: int | None = None,
        rows: Ints | None = None,
    ) -> None:
        if not 1 <= check_int(top=top) <= graph.num_nodes - 1:
            raise fail("top", top, f"to be from 1 to {graph.num_nodes - 1}, the number of other nodes")
        if among is not None:
            check_int(low=top, among=among)
        self._finder, self._graph, self._top, self._within, self._among = finder, graph, top, within, among
        self._rows = rows  # the asked row of each fitted row, None if the same
        asks = np.ones(graph.num_nodes, bool) if finder.sides is None else finder.sides.asks
        self.nodes = nodes[asks[nodes]]
        tested = np.random.default_rng(0).permutation(self.nodes)[:_TESTED]
        self._tested, self._held = tested, dict[int, set[int]]()

    def __iter__(self) -> Iterator[Block]:
        for nodes, others in self._groups():
            exact = self._among is None or self._among >= len(others)
            blocks = _parts(nodes, others) if exact else _blocks(self._finder, nodes, others, self._among or 0)
            for part, candidates in blocks:
                yield self._block(part, candidates)

    def _block(self, nodes: Ints, others: Ints) -> Block:
        kept, scores = self._finder.best(nodes, others, self._top)
        if self._among is not None:
            for row in np.flatnonzero(np.isin(nodes, self._tested)).tolist():
                self._held[int(nodes[row])] = set(kept[row].tolist())
        there = kept >= 0
        pairs = np.stack((np.broadcast_to(nodes[:, None], kept.shape)[there], kept[there]))
        return Block(pairs if self._rows is None else self._rows[pairs], scores[there], len(nodes))

    def _groups(self) -> Iterator[tuple[Ints, Ints]]:
        """Nodes, and which others may be suggested to them."""
        every, sides = np.arange(self._graph.num_nodes), self._finder.sides
        if self._within is None and sides is None:
            yield self.nodes, every
            return
        keys = np.zeros(len(every), np.int64) if self._within is None else 2 * values_of(self._graph, self._within)
        keys = keys if sides is None else keys + sides.second
        for key in np.unique(keys[self.nodes]).tolist():
            other = key ^ 1 if sides is not None else key
            yield self.nodes[keys[self.nodes] == key], every[keys == other]

    @property
    def share_found(self) -> float | None:
        """Return which share of the best others of up to 100 nodes is in their lists; None if all pairs were scored."""
        if not self._held:
            return None
        found = total = 0
        for nodes, others in self._groups():
            tested = nodes[np.isin(nodes, [*self._held])]
            for node, best in zip(
                tested.tolist(), self._finder.best(tested, others, self._top)[0].tolist(), strict=True
            ):
                there = {*best} - {-1}
                found, total = found + len(there & self._held[node]), total + len(there)
        return found / max(total, 1)


def _parts(nodes: Ints, others: Ints) -> Iterator[tuple[Ints, Ints]]:
    for part in np.array_split(nodes, max(1, -(-len(nodes) * len(others) // _PAIRS))):
        yield part, others


def _blocks(finder: Finder, nodes: Ints, others: Ints, candidates: int) -> Iterator[tuple[Ints, Ints]]:
    """Cells of nodes with the candidates for each: the best others of some of its nodes."""
    size = max(_SMALLEST, -(-len(nodes) // _MOST))
    parts = [nodes] if len(others) <= _FEW else cells_of(finder, nodes, max(size, -(-len(nodes) // _POOLS)))
    for part in parts:
        pool = others if len(others) <= _FEW else _best_of(finder, part, others, _POOL_ASKS, max(_POOL, candidates))
        for group in cells_of(finder, part, size):
            yield np.sort(group), _best_of(finder, group, pool, _ASK, -(-candidates // min(_ASK, len(group))))


def _best_of(finder: Finder, nodes: Ints, others: Ints, asks: int, each: int) -> Ints:
    """The best others of some of the nodes, so many of each."""
    some = nodes[np.linspace(0, len(nodes) - 1, min(asks, len(nodes))).astype(int)]
    found = finder.best(some, others, each)[0]
    return np.unique(found[found >= 0])


def cells_of(finder: Finder, nodes: Ints, size: int) -> list[Ints]:
    """Divide nodes into cells of at most ``size``, at the median of the coordinate that spreads most."""
    places, open_, done = finder.places(nodes), [np.arange(len(nodes))], list[Ints]()
    while open_:
        part = open_.pop()
        if len(part) <= size:
            done.append(nodes[part])
            continue
        sample = places[part[:: -(-len(part) // _SAMPLE)]]
        values = places[part, int(sample.var(axis=0).argmax())]
        middle = len(part) // 2
        order = np.argpartition(values, middle)
        open_ += [part[order[:middle]], part[order[middle:]]]
    return done
