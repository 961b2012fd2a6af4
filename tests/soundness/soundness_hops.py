"""Watching the hops of a whole method: what was charged, what noise was drawn, and neighbors to run it on."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

import numpy as np
import pytest
from soundness_neighbors import ARC, Graphs, Pairs, edge_pairs, node_pairs

from sfumato.bounded import aggregation
from sfumato.privacy.units import NodeLevel


@dataclass
class Trace:
    """In order: what was charged, and every draw of noise as (key, stddev, start, stop)."""

    charged: list[str] = field(default_factory=list)
    draws: list[list[tuple[bytes, float, int, int]]] = field(default_factory=list)

    def charge(self, name: str) -> None:
        """Take the place of the ledger."""
        self.charged.append(name)
        self.draws.append([])


@contextmanager
def observed(trace: Trace, sampler: Callable) -> Iterator[None]:
    """Record every draw of noise, and let ``sampler`` answer it."""

    def draw(key, stddev, start, stop):
        trace.draws[-1].append((key, stddev, start, stop))
        return sampler(key, stddev, start, stop)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(aggregation, "rounded_gaussian", draw)
        yield


def silence(key, stddev, start, stop):
    """No noise."""
    return np.zeros(stop - start, np.int64)


def some_pairs(unit, limit) -> Pairs:
    """Neighbors under a unit, spread over all graphs, records and messages; hop 1 reads private messages."""
    by_node = isinstance(unit, NodeLevel)
    pairs = node_pairs(0, unit.relation, released=False) if by_node else edge_pairs(0, directed=unit is ARC)
    keep = np.random.default_rng(0).permutation(len(pairs.record))[:limit]
    left, right = (Graphs(g.adjacency[keep], g.rows[keep]) for g in (pairs.left, pairs.right))
    return Pairs(left, right, pairs.record[keep])
