"""Types of edges: on every neighbor of small typed graphs, all counts together move by one message. Near misses fail."""

import itertools

import numpy as np
import pytest

import sfumato as sf
from sfumato.bounded import _incoming as incoming
from sfumato.bounded._counting import count_sensitivity, from_senders, to_count_steps
from sfumato.bounded._routing import public_order
from sfumato.bounded.aggregation import affected_coordinates, hop_sensitivity, neighborhood_sum, to_steps
from sfumato.central import _typed as typed
from sfumato.graph._graph import Graph
from sfumato.loops.kernels import INT16_ONE
from sfumato.method import hops
from sfumato.method.contract import Planned
from sfumato.method.hops import Aggregation

NODES, TYPES = 5, ("friend", "call", "school")
KNOWN = np.array([True, True, False, False, False])
RANK = public_order(KNOWN, 3)


def graph_of(records, *, directed=False, public=()):
    """The typed graph of some records (u, v, number of a type)."""
    ends = np.array(sorted(records), np.int64).reshape(-1, 3)
    kinds = {"edge_type": ends[:, 2], "edge_types": TYPES, "public_types": public}
    y = np.arange(NODES) % 2
    return Graph.from_edges(ends[:, 0], ends[:, 1], NODES, directed=directed, y=y, roles=1 - KNOWN, **kinds)


def neighbors(*, directed=False, public=()):
    """Pairs of graphs that differ in one record of a protected type, many of them on pairs that other types link as well."""
    pairs = [(u, v) for u, v in itertools.permutations(range(NODES), 2) if directed or u < v]
    rng, kept = np.random.default_rng(0), [k for k, name in enumerate(TYPES) if name not in public]
    for u, v in pairs:
        for kind in kept:
            for share in (0.0, 0.4, 0.9):
                drawn = rng.random((len(pairs), len(TYPES))) < share
                base = {(*pair, k) for row, pair in zip(drawn, pairs, strict=True) for k in np.flatnonzero(row)}
                base -= {(u, v, kind)}
                yield tuple(graph_of(one, directed=directed, public=public) for one in (base, base | {(u, v, kind)}))


def counts(graph, unit):
    """Both parts of the counts of every protected type before noise, [parts * types, nodes, columns]."""
    plan = Planned(sf.LabelMessages(), unit, None, graph.public_facts(unit), (), None, None)
    rows = np.random.default_rng(1).random((NODES, 3)).astype(np.float32)
    steps = to_count_steps(rows / (rows.sum(1, keepdims=True) * (1 + 1e-6)))
    kinds = typed.routed_counts(plan, graph, KNOWN, RANK)
    return np.stack([
        neighborhood_sum(from_senders(arcs, sends), steps) for arcs in kinds.values() for sends in (KNOWN, ~KNOWN)
    ])  # fmt: skip


def check(directed=False, public=(), claim=None):
    unit = sf.EdgeLevel(directed=directed)
    claim = count_sensitivity(unit) if claim is None else claim
    most, rows, seen = 0.0, 0, 0
    for left, right in neighbors(directed=directed, public=public):
        moved = np.abs(counts(left, unit) - counts(right, unit))
        most, rows, seen = max(most, moved.sum() / INT16_ONE), max(rows, moved.any(2).sum()), seen + 1
    assert seen >= 30
    assert most <= claim + 1e-12, "too small a claim"
    assert rows <= 1, "two rows change"
    assert most > claim - 0.01, "not reached"


@pytest.mark.parametrize("directed", [False, True])
@pytest.mark.parametrize("public", [(), ("call",), ("friend", "school")])
def test_one_edge_of_one_type_moves_all_counts_together_by_one_message(directed, public):
    check(directed, public)


@pytest.mark.parametrize(("claim", "message"), [(0.95, "too small"), (1.05, "not reached")])
def test_another_claim_fails(claim, message):
    with pytest.raises(AssertionError, match=message):
        check(claim=claim)


def test_an_edge_that_is_counted_in_two_types_is_caught(monkeypatch):
    """The sum over all types beside that of one type: the same record moves both."""

    def nested(graph, name):
        lists = incoming.owned(graph)
        below = graph.types.names[: graph.types.names.index(name) + 1]
        return incoming.kept(lists, np.any([graph.types.of(one) for one in below], axis=0))

    monkeypatch.setattr(typed, "incoming_of", nested)
    with pytest.raises(AssertionError, match="too small a claim"):
        check()


def test_edges_of_a_public_type_may_be_read_and_those_of_a_protected_one_may_not(monkeypatch):
    """A public type that also reads protected edges without noise would be caught: exact counts have to stay as they are."""
    unit = sf.EdgeLevel(directed=False)

    def exact(graph):
        plan = Planned(sf.LabelMessages(), unit, None, graph.public_facts(unit), (), None, None)
        zero = np.zeros((NODES, 2 * 2), np.int64)
        return typed.with_public(plan, graph, zero)

    pairs = list(neighbors(public=("call",)))
    assert all((exact(left) == exact(right)).all() for left, right in pairs)
    monkeypatch.setattr(typed, "incoming_of", lambda graph, name: incoming.incoming(graph))
    assert not all((exact(left) == exact(right)).all() for left, right in pairs)


def test_a_graph_without_its_types_moves_by_one_edge_at_most():
    """Methods that know no types read the arcs alone: a record changes one edge of them, or none."""
    for left, right in neighbors():
        changed = {*zip(*_pairs(left), strict=True)} ^ {*zip(*_pairs(right), strict=True)}
        assert len({tuple(sorted(pair)) for pair in changed}) <= 1


def _pairs(graph):
    return np.repeat(np.arange(NODES), np.diff(graph.indptr)).tolist(), graph.indices.tolist()


def hop(graph, unit):
    """One hop of gap or progap before noise, with a block for each type: [types, nodes, columns]."""
    plan = Planned(sf.GAP(by_type=True), unit, None, graph.public_facts(unit), (), None, None)
    rows = np.random.default_rng(1).random((NODES, 3)) * (1, 0.02, 0.01)
    steps = to_steps((rows / np.linalg.norm(rows, axis=1, keepdims=True) * (1 - 1e-6)).astype(np.float32))
    return np.stack([neighborhood_sum(arcs, steps) for arcs in Aggregation(plan, graph, None).arcs.values()])


def check_hop(directed=False):
    unit = sf.EdgeLevel(directed=directed)
    claim, most = hop_sensitivity(unit, released_messages=True), 0.0
    for left, right in neighbors(directed=directed):
        moved = hop(left, unit) - hop(right, unit)
        assert moved.any((1, 2)).sum() == 1, "two blocks change"
        assert np.count_nonzero(moved) <= affected_coordinates(unit, NODES, 3)
        most = max(most, np.linalg.norm(moved) / INT16_ONE)
    assert most <= claim, "too small a claim"
    assert most > 0.99 * claim


@pytest.mark.parametrize("directed", [False, True])
def test_one_edge_of_one_type_moves_one_block_of_a_hop(directed):
    check_hop(directed)


def test_a_block_for_the_sum_beside_those_of_types_is_caught(monkeypatch):
    """The sum that the classifier reads is computed from what was released, and is no release of its own."""
    monkeypatch.setattr(hops, "incoming_of", lambda graph, name: incoming.incoming(graph))
    with pytest.raises(AssertionError, match=r"two blocks change|too small"):
        check_hop()


@pytest.mark.parametrize("noise", ["laplace", "gaussian"])
def test_every_type_has_noise_of_its_own(noise):
    """Two types with the very same edges: with one noise for both, the difference of their counts would tell nothing, or all."""
    rng = np.random.default_rng(0)
    source, target = rng.integers(400, size=(2, 900))
    ends = np.concatenate([source, source]), np.concatenate([target, target])
    graph = Graph.from_edges(
        *ends, 400, directed=False, y=rng.integers(2, size=400), edge_type=np.repeat([0, 1], 900), edge_types=("a", "b")
    ).with_split(labeled=True)
    unit = sf.EdgeLevel(directed=False)
    plan = sf.LabelMessages(noise=noise, epochs=2).calibrate(sf.Budget(1.0, 1e-6), unit, graph.public_facts(unit))
    counts = plan.fit(graph).released["aggregate/1"].reshape(400, 2, 2, 2) / INT16_ONE  # part, type, class
    apart = counts[:, 0, 0] - counts[:, 0, 1]
    one = {"laplace": np.sqrt(2), "gaussian": plan.releases[0].event.__dict__.get("noise_multiplier", 0)}[noise]
    assert abs(apart.std() / (np.sqrt(2) * one) - 1) < 0.12
    assert abs(np.corrcoef(counts[:, 0, 0].ravel(), counts[:, 0, 1].ravel())[0, 1]) < 0.95


def test_the_same_edge_of_another_type_is_another_operand():
    """What is bound for a type holds its name's key and its arcs: moving an edge to another type changes both noises."""
    unit, key = sf.EdgeLevel(directed=False), bytes(32)
    rows = np.eye(NODES, 2, dtype=np.float32)
    from sfumato.bounded._counting import noisy_counts
    from sfumato.noise.keys import derive_key

    one, other = graph_of({(0, 2, 0), (1, 3, 1)}), graph_of({(0, 2, 1), (1, 3, 0)})
    noise = []
    for graph in (one, other):
        plan = Planned(sf.LabelMessages(), unit, None, graph.public_facts(unit), (), None, None)
        kinds = typed.routed_counts(plan, graph, KNOWN, RANK)
        for name in ("friend", "call"):
            own = derive_key(key, "known", name)
            noise.append(noisy_counts(kinds[name], rows, 2.0, own) - noisy_counts(kinds[name], rows, 0.0, own))
    for left, right in itertools.combinations(noise, 2):
        assert (left != right).mean() > 0.9
