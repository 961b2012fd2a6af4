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

from sfumato.bounded._pairs import public_draws

if TYPE_CHECKING:
    from sfumato.graph._graph import Graph
    from sfumato.graph._sides import Sides

Pairs = NDArray[np.int64]
MEASURES = ("hits_at_10", "hits_at_50", "mrr", "ndcg_at_50")
_NODES, _FEWEST, _PAIRS, _AT_ONCE, _DEEP = 200, 20, 4_000_000, 1 << 20, 50


@dataclass(frozen=True, eq=False)
class Lists:
    """The lists of some nodes: ``nodes``, the ``others`` that each may be suggested, and which of them are ``held`` out."""

    nodes: Pairs
    others: tuple[Pairs, ...]
    held: tuple[NDArray[np.bool_], ...]

    def measured(self, scorer: Callable[[Pairs], NDArray[np.float64]]) -> tuple[float, ...]:
        """Return the four ``MEASURES`` of what a ``scorer`` says about pairs [2, m]."""
        return measures(self._ranks(scorer))

    def _ranks(self, scorer: Callable[[Pairs], NDArray[np.float64]]) -> list[NDArray[np.float64]]:
        ranks: list[NDArray[np.float64]] = []
        sizes = np.cumsum([len(one) for one in self.others])
        for part in np.split(np.arange(len(self.nodes)), np.flatnonzero(np.diff(sizes // _AT_ONCE)) + 1):
            pairs = np.hstack(
                [np.stack((np.full(len(self.others[at]), self.nodes[at]), self.others[at])) for at in part]
            )
            scores = np.split(scorer(pairs), np.cumsum([len(self.others[at]) for at in part])[:-1])
            ranks += [ranks_of(one, self.held[at]) for at, one in zip(part, scores, strict=True)]
        return ranks


def lists_of(graph: Graph, links: Pairs, seed: int, sides: Sides | None = None) -> Lists:
    """Draw up to 200 nodes with held-out ``links``, fewer in a large graph, by a public draw, and list all candidates of each."""
    ends = np.hstack((links, links[::-1]))
    asks = np.unique(ends[0] if sides is None else ends[0][sides.asks[ends[0]]])
    most = int(np.clip(_PAIRS // graph.num_nodes, _FEWEST, _NODES))
    order = np.argsort(public_draws(np.stack((asks, asks)), graph.num_nodes, "ranked", seed), kind="stable")
    nodes, others, held = np.sort(asks[order[:most]]), [], []
    for node in nodes.tolist():
        there = np.ones(graph.num_nodes, bool) if sides is None else sides.second != sides.second[node]
        there[graph.indices[graph.indptr[node] : graph.indptr[node + 1]]] = False
        there[node] = False
        others.append(np.flatnonzero(there))
        held.append(np.isin(others[-1], ends[1, ends[0] == node]))
    return Lists(nodes, tuple(others), tuple(held))


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
