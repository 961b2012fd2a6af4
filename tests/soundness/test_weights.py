"""Weighted hops on every neighbor of tiny graphs: records come, go or change their weight. Near misses fail."""

from dataclasses import dataclass

import numpy as np
import pytest
from soundness_neighbors import ARC, EDGE, KEY, NODES, WIDTH, edge_pairs, node_pairs, node_unit, owner_arcs

from sfumato.bounded import _incoming as incoming
from sfumato.bounded import _routing as routing
from sfumato.bounded import aggregation
from sfumato.bounded._counting import count_sensitivity, from_senders, to_count_steps
from sfumato.bounded.aggregation import Arcs, hop_arc_change, hop_sensitivity, noisy_neighborhood_sum, to_steps
from sfumato.errors import DataError
from sfumato.graph._graph import Graph
from sfumato.graph._weights import FULL
from sfumato.loops.kernels import INT16_ONE
from sfumato.privacy.units import NodeLevel

RELATIONS = ("remove", "replace")
SOME = (0, 1, FULL // 3, FULL // 2, FULL - 1, FULL)


@dataclass(frozen=True)
class Sides:
    """Neighbors with weights: ``weights[g, u, t]`` is that of the arc from u to t, if there is one."""

    adjacency: np.ndarray
    rows: np.ndarray
    weights: np.ndarray

    @property
    def owned(self):
        return Arcs(*owner_arcs(self.adjacency), self.weights[np.nonzero(self.adjacency)].astype(np.uint16))


def some_weights(shape, rng, *, symmetric):
    """All full in a third of the graphs, all 0 or full in another, and of any size in the last."""
    mixed = rng.choice(SOME, shape)
    mixed[::3], mixed[1::3] = FULL, rng.choice((0, FULL), mixed[1::3].shape)
    return np.triu(mixed) + np.triu(mixed, 1).transpose(0, 2, 1) if symmetric else mixed


def weighted_edges(*, directed, change):
    """An arc or edge comes or goes; with ``change`` it is in both graphs, and only its weight differs."""
    pairs, rng = edge_pairs(40, directed=directed), np.random.default_rng(0)
    weights = some_weights(pairs.left.adjacency.shape, rng, symmetric=not directed)
    left, right, other = pairs.left.adjacency, pairs.right.adjacency, weights.copy()
    if change:
        left = right = left | right
        each, (u, t) = np.arange(len(left)), np.divmod(pairs.record, NODES)
        other[each, u, t] = rng.choice((0, FULL, FULL // 2), len(left))
        other[each, t, u] = other[each, u, t] if not directed else other[each, t, u]
    return Sides(left, pairs.left.rows, weights), Sides(right, pairs.right.rows, other)


def weighted_nodes(relation, *, released):
    """A record is emptied or replaced, with its targets, its weights and, unless ``released``, its message."""
    pairs, rng = node_pairs(3, relation, released=released), np.random.default_rng(1)
    weights = some_weights(pairs.left.adjacency.shape, rng, symmetric=False)
    other, each = weights.copy(), np.arange(len(weights))
    fresh = some_weights(weights.shape, rng, symmetric=False)
    other[each, pairs.record] = fresh[each, pairs.record]
    left, right = pairs.left, pairs.right
    return Sides(left.adjacency, left.rows, weights), Sides(right.adjacency, right.rows, other)


def hop(side, cap=None):
    """One hop before noise, by the path of gap."""
    lists = side.owned if cap is None else incoming.capped(side.owned, cap, KEY)
    rows = side.rows.reshape(-1, WIDTH)
    return noisy_neighborhood_sum(incoming.regrouped(lists), rows, 0.0, KEY, block=1013).reshape(side.rows.shape)


def worst(sides, operate):
    """The largest change of a pair in L2 norm, in full rows."""
    left, right = (operate(side) for side in sides)
    return float(np.sqrt(np.square(left - right).reshape(len(left), -1).sum(1).max())) / INT16_ONE


@pytest.mark.parametrize("unit", [ARC, EDGE], ids=str)
@pytest.mark.parametrize("change", [False, True])
def test_an_edge_that_comes_goes_or_changes_its_weight_moves_a_hop_by_the_claim_at_most(unit, change):
    moved = worst(weighted_edges(directed=unit.directed, change=change), hop)
    claim = hop_sensitivity(unit, released_messages=True)
    assert 0.99 * claim <= moved <= claim * (1 + 1e-12)


@pytest.mark.parametrize("relation", RELATIONS)
@pytest.mark.parametrize("released", [False, True])
@pytest.mark.parametrize("cap", [1, 2])
def test_a_node_with_weighted_arcs_moves_a_hop_by_the_claim_at_most(relation, released, cap):
    moved = worst(weighted_nodes(relation, released=released), lambda side: hop(side, cap))
    claim = hop_sensitivity(node_unit(relation, cap), released_messages=released)
    assert 0.99 * claim <= moved <= claim * (1 + 1e-12)


@pytest.mark.parametrize("cap", [1, 2])
def test_an_arc_of_another_owner_moves_a_capped_hop_by_its_bound_at_most(cap):
    moved = worst(weighted_edges(directed=True, change=False), lambda side: hop(side, cap))
    unit = NodeLevel(max_out_degree=cap)
    bound = hop_arc_change(unit, released_messages=True) * hop_sensitivity(unit, released_messages=True)
    assert 0.99 * bound <= moved <= bound * (1 + 1e-12)


def shared_hop(side):
    """The hop of label messages at node level, where all nodes send and receive."""
    every = np.ones(len(side.rows) * NODES, bool)
    lists = routing.receiving(side.owned, every, every)
    rows = routing.share(side.rows.reshape(-1, WIDTH), np.diff(lists.offsets))
    return aggregation.neighborhood_sum(incoming.regrouped(lists), to_steps(rows)).reshape(side.rows.shape)


@pytest.mark.parametrize("relation", RELATIONS)
def test_shared_messages_along_weighted_arcs_move_by_the_claim_at_most(relation):
    moved = worst(weighted_nodes(relation, released=False), shared_hop)
    claim = routing.routed_sensitivity(NodeLevel(relation=relation))
    assert 0.99 * claim <= moved <= claim * (1 + 1e-12)


def test_an_arc_of_another_owner_moves_shared_messages_by_its_bound_at_most():
    assert 0.9 < worst(weighted_edges(directed=True, change=False), shared_hop) <= 1 + 1e-12
    assert worst(weighted_edges(directed=True, change=True), shared_hop) <= 1 + 1e-12


@pytest.mark.parametrize("unit", [ARC, EDGE], ids=str)
@pytest.mark.parametrize("change", [False, True])
def test_counts_along_weighted_arcs_move_by_the_claim_in_one_row(unit, change):
    sides, parts = weighted_edges(directed=unit.directed, change=change), []
    flat = sides[0].rows.reshape(-1, WIDTH)
    rows = flat / np.maximum(np.abs(flat).sum(1, keepdims=True), 1)
    known = np.arange(len(rows)) % NODES < NODES // 2
    for side in sides:
        arcs = incoming.regrouped(side.owned)
        arcs = routing.outward(arcs, known) if unit.directed else routing.one_way(arcs, routing.public_order(known, 3))
        steps = to_count_steps(rows.astype(np.float32))
        sums = [aggregation.neighborhood_sum(from_senders(arcs, one), steps) for one in (known, ~known)]
        parts.append(np.stack(sums, axis=1).reshape(len(side.rows), -1, 2 * WIDTH))
    moved = np.abs(parts[0] - parts[1])
    assert 0.99 < moved.sum((1, 2)).max() / INT16_ONE <= count_sensitivity(unit)
    assert moved.any(2).sum(1).max() == 1


# Near misses.


def test_weights_above_the_bound_are_refused_and_would_break_the_claim(monkeypatch):
    sides = weighted_edges(directed=False, change=False)
    longer = [Sides(side.adjacency, side.rows, np.minimum(side.weights + 300, 2 * FULL - 1)) for side in sides]
    with pytest.raises(DataError, match="clipped to their public bound"):
        hop(longer[0])
    monkeypatch.setattr(aggregation, "check_steps", lambda *_: None)
    assert worst(longer, hop) > hop_sensitivity(EDGE, released_messages=True) * (1 + 1e-3)


def test_rows_of_an_edge_that_are_clipped_one_by_one_and_then_added_would_break_the_claim():
    graph = Graph.from_edges([0, 1], [1, 0], 2, directed=False, edge_weight=[9.0, 9.0], max_weight=9.0)
    rows, none = np.eye(2, dtype=np.float32), Arcs(np.zeros(3, np.int64), np.empty(0, np.int32))
    claim = hop_sensitivity(EDGE, released_messages=True) * INT16_ONE
    empty = noisy_neighborhood_sum(none, rows, 0.0, KEY)
    ours = noisy_neighborhood_sum(incoming.incoming(graph), rows, 0.0, KEY)
    twice = Arcs(np.array([0, 2, 4]), np.array([1, 1, 0, 0], np.int32), np.full(4, FULL, np.uint16))
    theirs = noisy_neighborhood_sum(twice, rows, 0.0, KEY)
    assert np.linalg.norm(ours - empty) <= claim * (1 + 1e-12)
    assert np.linalg.norm(theirs - empty) > 1.9 * claim


def test_shares_that_are_rounded_to_the_nearest_step_of_real_rows_would_break_the_claim():
    sides = weighted_edges(directed=True, change=False)

    def nearest(side):
        messages = np.rint(side.weights[..., None] / FULL * side.rows[:, :, None].astype(np.float64) * INT16_ONE)
        return (messages * side.adjacency[..., None]).sum(1)

    assert worst(sides, nearest) > 1 + 1e-6


def test_weights_that_do_not_stay_with_their_arcs_would_break_the_claim(monkeypatch):
    sides, claim = (
        weighted_nodes("remove", released=True),
        hop_sensitivity(node_unit("remove", 1), released_messages=True),
    )

    def left_behind(lists, keep):
        before = np.concatenate(([0], np.cumsum(keep, dtype=np.int64)))
        return Arcs(before[lists.offsets], lists.sources[keep], lists.weights[: keep.sum()])

    monkeypatch.setattr(incoming, "kept", left_behind)
    assert worst(sides, lambda side: hop(side, 1)) > claim * 1.1


def test_two_arcs_of_an_undirected_edge_with_other_weights_are_refused():
    with pytest.raises(DataError, match="both arcs of every edge to have one weight"):
        Graph.from_arcs([0, 1], [1, 0], 2, directed=False, edge_weight=[1.0, 2.0], max_weight=9.0)
