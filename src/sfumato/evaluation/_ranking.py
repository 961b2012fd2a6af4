r"""How high the held-out links of some nodes stand in the lists of these nodes, as suggestions would be made.

The list of a node holds all others but those that it is linked with in the training graph, which it knows; in a graph of two
sides, those of the other side. So all candidates are ranked, and none are sampled. Of equal scores half come before.

* *Hits@k*: the share of the held-out links, of all these nodes together, that are among the first k of their list;
* *MRR*: the mean over nodes of one over the rank of the first held-out link;
* *NDCG@k*: the mean over nodes of :math:`\sum_{r \le k} 1 / \log_2(1 + r)` over ranks r of held-out links, over its largest
  possible value.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from sfumato._blocks import spans
from sfumato.bounded._pairs import public_draws

if TYPE_CHECKING:
    from sfumato.bounded.aggregation import Arcs
    from sfumato.graph._graph import Graph
    from sfumato.graph._sides import Sides

Pairs = NDArray[np.int64]
MEASURES = ("hits_at_10", "hits_at_50", "mrr", "ndcg_at_50")
_NODES, _FEWEST, _PAIRS, _AT_ONCE, _DEEP = 200, 20, 4_000_000, 1 << 20, 50


@dataclass(frozen=True, eq=False)
class Lists:
    """The lists of some ``nodes``, made when they are asked for; links that the training ``graph`` lacks are ``missing``."""

    nodes: Pairs
    graph: Graph
    missing: Arcs
    sides: Sides | None = None

    def of(self, node: int) -> tuple[Pairs, NDArray[np.bool_]]:
        """Return the others that a node may be suggested, and which of them are held out."""
        there = (
            np.ones(self.graph.num_nodes, bool) if self.sides is None else self.sides.second != self.sides.second[node]
        )
        linked = self.missing.sources[self.missing.offsets[node] : self.missing.offsets[node + 1]]
        there[self.graph.indices[self.graph.indptr[node] : self.graph.indptr[node + 1]]] = False
        there[node] = False
        others = np.flatnonzero(there)
        held = np.zeros(len(others), bool)
        held[np.searchsorted(others, linked)] = True
        return others, held

    def measured(self, scorer: Callable[[Pairs], NDArray[np.float64]]) -> tuple[float, ...]:
        """Return the four ``MEASURES`` of what a ``scorer`` says about pairs [2, m]."""
        return measures(self._ranks(scorer))

    def _ranks(self, scorer: Callable[[Pairs], NDArray[np.float64]]) -> list[NDArray[np.float64]]:
        ranks: list[NDArray[np.float64]] = []
        for part in np.array_split(
            self.nodes, min(len(self.nodes), 1 + self.graph.num_nodes * len(self.nodes) // _AT_ONCE)
        ):
            lists = [self.of(node) for node in part.tolist()]
            pairs = np.hstack(
                [np.stack((np.full(len(one), node), one)) for node, (one, _) in zip(part, lists, strict=True)]
            )
            found = np.concatenate([scorer(pairs[:, first:last]) for first, last in spans(pairs.shape[1], _AT_ONCE)])
            scores = np.split(found, np.cumsum([len(one) for one, _ in lists])[:-1])
            ranks += [ranks_of(one, held) for one, (_, held) in zip(scores, lists, strict=True)]
        return ranks


def lists_of(graph: Graph, missing: Arcs, seed: int, sides: Sides | None = None) -> Lists:
    """Draw up to 200 nodes with ``missing`` links, fewer in a large graph, by a public draw."""
    asks = np.flatnonzero(np.diff(missing.offsets))
    asks = asks if sides is None else asks[sides.asks[asks]]
    most = min(int(np.clip(_PAIRS // graph.num_nodes, _FEWEST, _NODES)), len(asks))
    draws = public_draws(np.broadcast_to(asks, (2, len(asks))), graph.num_nodes, "ranked", seed)
    first = np.flatnonzero(draws <= np.partition(draws, most - 1)[most - 1])
    return Lists(np.sort(asks[first[np.argsort(draws[first], kind="stable")][:most]]), graph, missing, sides)


def ranks_of(scores: NDArray[np.float64], held: NDArray[np.bool_]) -> NDArray[np.float64]:
    """Return the rank of each held-out candidate among all, from 1 on; of equal scores half come before.

    >>> ranks_of(np.array([3.0, 1, 2, 1]), np.array([False, True, True, False])).tolist()
    [3.5, 2.0]
    """
    ordered = np.sort(scores)
    above = len(scores) - np.searchsorted(ordered, scores[held], side="right")
    equal = np.searchsorted(ordered, scores[held], side="right") - np.searchsorted(ordered, scores[held], side="left")
    return np.asarray(above + (equal + 1) / 2, np.float64)


def measures(ranks: list[NDArray[np.float64]]) -> tuple[float, ...]:
    """Return the ``MEASURES`` of the ranks of held-out links, one array for each node.

    >>> [round(value, 3) for value in measures([np.array([1.0, 60.0]), np.array([4.0])])]
    [0.667, 0.667, 0.625, 0.522]
    """
    flat = np.concatenate(ranks)
    first = np.mean([1 / one.min() for one in ranks])
    gains = [_gain(one) / _gain(np.arange(1.0, len(one) + 1)) for one in ranks]
    return float((flat <= 10).mean()), float((flat <= _DEEP).mean()), float(first), float(np.mean(gains))


def _gain(ranks: NDArray[np.float64]) -> float:
    return float((1 / np.log2(1 + ranks[ranks <= _DEEP])).sum())
