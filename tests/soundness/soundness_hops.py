"""Watching the hops of a whole method: what was charged, what noise was drawn, and neighbors to run it on."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

import numpy as np
import pytest
from soundness_neighbors import ARC, EDGE, KEY, Graphs, Pairs, edge_pairs, messages, node_pairs, node_unit

from sfumato.bounded import aggregation
from sfumato.loops.kernels import INT16_ONE
from sfumato.noise.keys import derive_key
from sfumato.privacy.units import NodeLevel

CAP = 2
REMOVE, REPLACE = node_unit("remove", CAP), node_unit("replace", CAP)
UNITS = {"arc": ARC, "edge": EDGE, "node, remove": REMOVE, "node, replace": REPLACE}
NAMES = ["aggregate/1", "aggregate/2"]
UNDER_CHARGED = "sensitivities, charged"


@dataclass
class Trace:
    """In order: what was charged, and every draw of noise as (key, stddev, start, stop)."""

    charged: list[str] = field(default_factory=list)
    draws: list[list[tuple[bytes, float, int, int]]] = field(default_factory=list)

    def charge(self, name: str) -> None:
        """Take the place of the ledger."""
        self.charged.append(name)
        self.draws.append([])


class Given:
    """Noise from position 0 on that is given as values."""

    compiled = None

    def __init__(self, values):
        self.values = values

    def add(self, sums, start):
        sums += self.values[start : start + sums.size].reshape(sums.shape)


@contextmanager
def observed(trace: Trace, sampler: Callable) -> Iterator[None]:
    """Record every draw of noise, and let ``sampler`` answer it."""

    def draw(key, stddev, start, stop, onto=None):
        trace.draws[-1].append((key, stddev, start, stop))
        values = sampler(key, stddev, start, stop)
        return values if onto is None else onto(Given(values))

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


def assert_charged(plan, pairs: Pairs, run: Callable) -> int:
    """For each hop: drawn standard deviation / measured sensitivity = the event's noise multiplier, within 1 %.

    ``run(adjacency, rows, given, key)`` gives what two hops release and a trace. What hop 1 released is held equal in both
    graphs (that is what adaptive composition compares): ``given`` takes its place. Returns the number of pairs.
    """
    shift = np.random.default_rng(1)
    worst, stddevs, heard = np.zeros(2), [set(), set()], set()
    for i, record in enumerate(pairs.record.tolist()):
        given, key = messages(shift)[i % 6], derive_key(KEY, i)
        (left, one), (right, two) = (
            run(side.adjacency[i], side.rows[i], given, key) for side in (pairs.left, pairs.right)
        )
        moved = [np.linalg.norm(a - b) / INT16_ONE for a, b in zip(left, right, strict=True)]
        worst, heard = np.maximum(worst, moved), heard | ({record} if any(moved) else set())
        for trace in (one, two):
            assert trace.charged == NAMES, f"charged {trace.charged}"
            for hop, draws in enumerate(trace.draws):
                stddevs[hop] |= {stddev for _, stddev, *_ in draws} or {0.0}
    for name, sensitivity, seen in zip(NAMES, worst, stddevs, strict=True):
        assert len(seen) == 1, f"{name}: the noise depends on the data"
        ratio, charged = seen.pop() / INT16_ONE / sensitivity, plan.event(name).noise_multiplier
        assert ratio >= charged * (1 - 1e-9), f"{name}: noise of {ratio:.4g} sensitivities, charged {charged:.4g}"
        assert ratio <= charged * 1.01, f"{name}: more noise than charged"
    assert heard == set(pairs.record.tolist()), "records are dropped"
    return pairs.distinct
