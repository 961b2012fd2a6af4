"""The best-scored others of nodes by link messages, from the numbers of :mod:`~sfumato.central._evidence`.

A score is a sum of monotone functions (how rare a number is) of four numbers, each of which is an inner product of what is known
of one node and of the other. It is no inner product itself, so an index of nearest neighbors does not give the best others. What
does is to score all pairs of candidates quickly: a compiled loop leaves most of them after the numbers that are cheap.
"""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from sfumato._blocks import in_blocks
from sfumato._threads import numba_threads
from sfumato.central._evidence import NAMES, Evidence
from sfumato.method._suggesting import Finder

if TYPE_CHECKING:
    from sfumato.graph._sides import Sides

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
_CELLS, _SPARE, _CLOSE, _SKETCH, _MANY = 1 << 12, 8, 1e-12, 8, 1 << 18


class EvidenceFinder(Finder):
    """A finder by the evidence of a release and the ``weights`` of its numbers."""

    def __init__(self, evidence: Evidence, weights: Floats) -> None:
        self.evidence, self.weights = evidence, np.asarray(weights, np.float64)

    @property
    def sides(self) -> Sides | None:
        return self.evidence.sides

    def pair_scores(self, pairs: NDArray[np.integer]) -> Floats:
        found: Floats = self.evidence.of(pairs) @ self.weights
        return found

    def best(self, nodes: Ints, others: Ints, top: int) -> tuple[Ints, Floats]:
        from sfumato.central import _best_kernel

        numba_threads()
        kept = np.empty((len(nodes), top + _SPARE), np.int64)
        scores = np.empty(kept.shape)
        public = self.evidence.public
        table = public.indptr, public.indices, public.data
        _best_kernel.best(nodes, others, self.evidence.of_nodes, table, *self._scale, public.shape[1], kept, scores)
        there = kept >= 0
        rows = np.nonzero(there)[0]
        scores[there] = self.pair_scores(np.stack((nodes[rows], kept[there])))  # by the arithmetic of single pairs
        order = np.lexsort((kept, -scores), axis=1)[:, :top]
        return np.take_along_axis(kept, order, 1), np.take_along_axis(scores, order, 1)

    def places(self, nodes: Ints) -> NDArray[np.float32]:
        """Return coordinates, of which those count more whose number moves scores more."""
        logs, met, labels, directions = self.evidence.of_nodes
        public = self.evidence.public
        codes = np.random.default_rng(0).standard_normal((public.shape[1], _SKETCH)) / np.sqrt(_SKETCH)
        classes = np.eye(met.shape[1])

        def parts_of(some: Ints) -> tuple[Any, ...]:
            known = np.hstack((met[some, :-1], classes[labels[some]]))
            return public[some] @ codes, logs[some, None], known, directions[some].astype(np.float64)

        spread = [
            max(float(np.sqrt(part.var(axis=0).sum())), _CLOSE) for part in parts_of(nodes[:: -(-len(nodes) // _MANY)])
        ]

        def scaled(first: int, last: int) -> NDArray[np.float32]:
            parts = zip(parts_of(nodes[first:last]), self.weights, spread, strict=True)
            return np.hstack([part * (abs(weight) / one) for part, weight, one in parts]).astype(np.float32)

        return in_blocks(scaled, len(nodes))

    @cached_property
    def _scale(self) -> tuple[Any, Any]:
        """Sorted reference values, the weighted rank at each place among them, a guide to places, and the most of each cell."""
        references = np.ascontiguousarray(self.evidence.sorted_reference.T)
        count = references.shape[1]
        total = count + 1
        ranks = np.log(total / (total - np.arange(total))) / np.log(total) * self.weights[:, None]
        lows, highs = references[:, 0], references[:, -1]
        widths = np.where(highs > lows, highs - lows, 1.0)
        guide = np.zeros((len(NAMES), 2, _CELLS + 2), np.int32)  # of each cell of values, the first and the last place
        for number, values in enumerate(references):
            ends = lows[number] + widths[number] / _CELLS * np.arange(-1, _CELLS + 2)
            places = np.searchsorted(values, ends)
            guide[number, 0, 1:], guide[number, 1, 1:] = places[:-2], np.append(places[3:], count)
        shifted = references + _CLOSE * widths[:, None]  # a product in another order may be a little smaller
        every, upper = np.arange(len(NAMES))[:, None], ranks.max(axis=1, keepdims=True)
        caps = np.maximum(ranks[every, guide[:, 0]], ranks[every, guide[:, 1]])
        return (shifted, ranks, lows, _CELLS / widths, guide), np.hstack((caps, upper)) + _CLOSE
