"""Sensitivity of routed hops on every neighbor of tiny graphs, and of label messages from end to end; planted faults."""

from dataclasses import replace
from functools import partial

import numpy as np
import pytest
import soundness_faults as faults
from soundness_neighbors import (
    ARC,
    EDGE,
    KEY,
    NODES,
    WIDTH,
    Graphs,
    assert_sound,
    edge_pairs,
    measure,
    node_pairs,
    owner_arcs,
    shared_hop,
    without_loops,
)

from sfumato.bounded import _routing as routing
from sfumato.bounded._counting import to_count_steps
from sfumato.bounded._degree import by_destination
from sfumato.bounded.aggregation import Arcs, neighborhood_sum, to_steps
from sfumato.central import _counts as counts
from sfumato.central import _labels as labels
from sfumato.central import _shares as shares
from sfumato.central import _typed as typed
from sfumato.central._labels import LabelMessages
from sfumato.errors import InputError
from sfumato.graph._graph import Graph
from sfumato.loops.kernels import INT16_ONE
from sfumato.privacy.budget import Budget
from sfumato.privacy.units import NodeLevel

OWNED, REPLACED = NodeLevel(), NodeLevel(relation="replace")


def one_way_hop(graphs: Graphs) -> np.ndarray:
    """The edge-level hop before noise; every node of the union has a public rank."""
    rank = np.random.default_rng(3).permutation(len(graphs.rows) * NODES)
    arcs = routing.one_way(Arcs(*by_destination(*owner_arcs(graphs.adjacency))), rank)
    return neighborhood_sum(arcs, to_steps(graphs.rows.reshape(-1, WIDTH))).reshape(graphs.rows.shape)


def removals():
    """Each record emptied (its message too)."""
    return node_pairs(30, "remove", released=False)


def replacements():
    """Each record replaced by every list, with the same, the opposite, another or no message."""
    return node_pairs(2, "replace", released=False)


CASES = {
    "edge": (lambda: without_loops(edge_pairs(40, directed=False)), one_way_hop, EDGE),
    "node, remove": (removals, shared_hop, OWNED),
    "node, replace": (replacements, shared_hop, REPLACED),
}


def check(name, claim=None):
    pairs, operate, unit = CASES[name]
    claim = routing.routed_sensitivity(unit) if claim is None else claim
    measured = measure(pairs(), operate, INT16_ONE)
    others = NODES - 1  # nobody receives from oneself; the count allows for it
    assert_sound(measured, claim, routing.routed_coordinates(unit, others, WIDTH))
    return measured


@pytest.mark.parametrize("name", CASES)
def test_sensitivity_is_never_above_the_claim_and_reached(name):
    assert check(name).pairs > 1000


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize(("factor", "message"), [(0.95, "too small"), (1.05, "not reached")])
def test_another_claim_fails(name, factor, message):
    with pytest.raises(AssertionError, match=message):
        check(name, factor * routing.routed_sensitivity(CASES[name][2]))


def divided_by_cube_root(rows, out_degree):
    return (rows / np.maximum(out_degree, 1)[:, None] ** (1 / 3)).astype(np.float32)


def divided_by_mean_degree(rows, out_degree, real=routing.share):
    """The divisor of the others depends on this record."""
    local = np.repeat(np.maximum(out_degree.reshape(-1, NODES).mean(1), 1), NODES)
    return real(rows, local)


@pytest.mark.parametrize(
    ("name", "function", "fault"),
    [
        ("edge", "one_way", faults.both_ways),
        ("edge", "one_way", faults.degree_order),
        *((name, "share", fault) for name in list(CASES)[1:] for fault in (faults.undivided, divided_by_cube_root)),
        ("node, remove", "share", divided_by_mean_degree),
    ],
)
def test_planted_faults_are_caught(monkeypatch, name, function, fault):
    monkeypatch.setattr(routing, function, fault)
    with pytest.raises(AssertionError, match=r"too small|miscounted"):
        check(name)


def test_every_row_needs_its_out_degree():
    assert routing.share(np.ones((2, 1), np.float32), np.array([1, 1])).shape == (2, 1)
    with pytest.raises(InputError, match="Expected out_degree to be one for each of 2 rows"):
        routing.share(np.ones((2, 1), np.float32), np.array([1]))


# From end to end: what a fit hands to the noise, for neighboring data sets, while earlier releases are held equal.


def graph_of(rng, directed):
    adjacency = rng.random((NODES, NODES)) < rng.uniform(0.3, 0.9)
    np.fill_diagonal(adjacency, False)
    adjacency = adjacency if directed else np.triu(adjacency) | np.triu(adjacency).T
    x, y = rng.random((NODES, 2)).astype(np.float32), rng.integers(0, 3, NODES)
    roles = np.array([0, 0, 0, rng.integers(0, 3), 2], np.uint8)
    return adjacency, x, y, roles


def build(adjacency, x, y, roles, directed):
    indptr = np.r_[0, np.cumsum(adjacency.sum(1))]
    graph = Graph.from_csr(indptr, adjacency.nonzero()[1], directed=directed, x=x, y=y, classes=("a", "b", "c"))
    return graph.with_roles(roles)


def neighbor(rng, unit, adjacency, x, y, roles):
    """The data without one arc, one edge, or one record (or with that record replaced)."""
    adjacency, x, y = adjacency.copy(), x.copy(), y.copy()
    u, t = rng.choice(NODES, 2, replace=False)
    if isinstance(unit, NodeLevel):
        gone = unit.relation == "remove"
        kept = adjacency[u] if rng.random() < 0.5 else rng.random(NODES) < 0.5
        adjacency[u] = False if gone else kept & (np.arange(NODES) != u)
        x[u], y[u] = (0, -1) if gone else (rng.random(2), rng.integers(0, 3))
    else:
        adjacency[u, t] ^= True
        if not unit.directed:
            adjacency[t, u] = adjacency[u, t]
    return adjacency, x, y, roles


def handed_over(monkeypatch, plan, graph, fixed):
    """(exact sums, messages, scale of noise) of every part, when each is answered by the same fixed rows."""
    seen = []

    def observe(arcs, rows, scale, key, steps=to_count_steps):
        seen.append((neighborhood_sum(arcs, steps(rows)), rows, scale))
        return fixed[len(seen) - 1].copy()

    monkeypatch.setattr(shares, "noisy_neighborhood_sum", partial(observe, steps=to_steps))
    monkeypatch.setattr(counts, "noisy_counts", observe)
    monkeypatch.setattr(counts, "gaussian_counts", observe)
    monkeypatch.setattr("sfumato.method._opening.new_key", lambda: KEY)
    plan.fit(graph, seed=5)
    return seen


@pytest.mark.parametrize(
    ("unit", "law"),
    [
        *(
            (unit, None)
            for unit in (ARC, EDGE, OWNED, replace(OWNED, max_out_degree=2), replace(REPLACED, max_out_degree=3))
        ),
        (ARC, "gaussian"),
        (EDGE, "gaussian"),
    ],
    ids=str,
)
def test_noise_over_measured_sensitivity_is_what_is_charged(monkeypatch, unit, law):
    rng, worst = np.random.default_rng(0), 0.0
    fixed = rng.integers(-INT16_ONE, INT16_ONE, (3, NODES, 3))
    directed = unit != EDGE
    for _ in range(100):
        data = graph_of(rng, directed)
        left, right = (build(*side, directed) for side in (data, neighbor(rng, unit, *data)))
        plan = LabelMessages(epochs=1, noise=law).calibrate(Budget(1.0, 1e-5), unit, left.public_facts(unit))
        runs = [handed_over(monkeypatch, plan, graph, fixed) for graph in (left, right)]
        event, changed = plan.event("aggregate/1"), 0.0
        gaussian = isinstance(unit, NodeLevel) or law == "gaussian"
        noise = event.noise_multiplier if gaussian else 1 / event.epsilon
        assert len(runs[0]) == (1 if isinstance(unit, NodeLevel) else 2)
        for (sums_left, rows_left, scale), (sums_right, rows_right, other) in zip(*runs, strict=True):
            assert scale == other
            length = np.linalg.norm((sums_left - sums_right).ravel(), 2 if gaussian else 1)
            changed += length / INT16_ONE * noise / float(scale)
            assert changed <= 1 + 1e-12, "the parts together change by more than is charged"
            if not isinstance(unit, NodeLevel):
                assert np.array_equal(rows_left, rows_right), "messages read arcs other than by releases"
                assert np.count_nonzero((sums_left != sums_right).any(axis=1)) <= 1
        worst = max(worst, changed)
    assert worst > (0.99 if unit != replace(REPLACED, max_out_degree=3) else 0.8)


class TwiceCounted(counts.Counter):
    """The second part reads every arc again, also those along which known labels went."""

    def __init__(self, plan, session, arcs, known):
        super().__init__(plan, session, arcs, known)
        self._parts["others"] = {"": arcs}


@pytest.mark.parametrize(
    ("unit", "law", "name", "fault"),
    [
        (EDGE, None, "one_way", faults.both_ways),
        (EDGE, None, "one_way", faults.degree_order),
        (EDGE, "gaussian", "one_way", faults.both_ways),
        (EDGE, "gaussian", "count_deviation", lambda plan: plan.event("aggregate/1").noise_multiplier * 2 / 3),
        (EDGE, None, "Counter", TwiceCounted),
        (EDGE, "gaussian", "Counter", TwiceCounted),
        (ARC, None, "Counter", TwiceCounted),
        (OWNED, None, "share", faults.undivided),
    ],
)
def test_planted_faults_from_end_to_end(monkeypatch, unit, law, name, fault):
    monkeypatch.setattr({"share": shares, "count_deviation": counts, "one_way": typed}.get(name, labels), name, fault)
    with pytest.raises(AssertionError):
        test_noise_over_measured_sensitivity_is_what_is_charged(monkeypatch, unit, law)


@pytest.mark.parametrize(
    "unit", [OWNED, replace(OWNED, max_out_degree=1), replace(OWNED, max_out_degree=2), REPLACED], ids=str
)
def test_arcs_of_others_move_label_messages_by_no_more_than_their_price_says(monkeypatch, unit):
    rng, worst = np.random.default_rng(1), 0.0
    fixed = rng.integers(-INT16_ONE, INT16_ONE, (1, NODES, 3))
    for trial in range(30):
        adjacency, *rest = graph_of(rng, directed=True)
        node, k = rng.integers(NODES), int(rng.integers(1, NODES))
        owners = rng.permutation(np.delete(np.arange(NODES), node))[:k]
        k = max(1, int(adjacency[owners, node].sum()))
        fewer = adjacency.copy()
        fewer[owners, node] = False
        other = [part.copy() for part in rest]
        if trial % 2:  # the record is emptied, too
            fewer[node], other[0][node], other[1][node] = False, 0, -1
        left, right = (build(*side, True) for side in ((adjacency, *rest), (fewer, *other)))
        plan = LabelMessages(epochs=1).calibrate(Budget(1.0, 1e-5), unit, left.public_facts(unit))
        (before, *_), (after, *_) = (handed_over(monkeypatch, plan, graph, fixed)[0] for graph in (left, right))
        changed = np.linalg.norm(before - after) / INT16_ONE / routing.routed_sensitivity(unit)
        allowed = trial % 2 + k * plan.releases[0].arc_change
        assert changed <= allowed * (1 + 1e-12)
        worst = max(worst, changed / allowed)
    assert worst > 0.7
