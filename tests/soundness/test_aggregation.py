"""Sensitivity of one hop, measured on neighboring graphs: never above the claim, and reached within 1 %.

Thousands of tiny graphs are summed at once as one disjoint union: graph g holds the ids g N to g N + N - 1.
"""

from dataclasses import dataclass, replace

import numpy as np
import pytest

from sfumato.bounded.aggregation import Arcs, affected_coordinates, hop_sensitivity, neighborhood_sum, to_steps
from sfumato.bounded.degree import by_destination, cap_out_degree
from sfumato.bounded.kernels import UNIT
from sfumato.errors import InputError, UnsupportedUnitError
from sfumato.privacy.units import EdgeLevel, NodeLevel, NoPrivacy, RecordLevel

GRAPHS, NODES, WIDTH, CAP = 2000, 7, 3, 3
KEY = bytes(32)


@dataclass(frozen=True)
class Batch:
    """Graphs side by side: ``adjacency[g, u, t]`` says that u owns an arc to t; ``rows[g, u]`` is u's message."""

    adjacency: np.ndarray
    rows: np.ndarray


def random_batch(seed, *, directed):
    """Sparse and dense graphs, a hub that sends everywhere, a hub that all send to; random or aligned messages."""
    rng = np.random.default_rng(seed)
    adjacency = rng.random((GRAPHS, NODES, NODES)) < rng.uniform(0.05, 0.9, (GRAPHS, 1, 1))
    adjacency[::3, 0, :] = True
    adjacency[::4, :, 1] = True
    if not directed:
        adjacency = np.triu(adjacency) | np.triu(adjacency).transpose(0, 2, 1)
    rows = rng.normal(size=(GRAPHS, NODES, WIDTH))
    rows /= np.linalg.norm(rows, axis=2, keepdims=True)
    rows[::2] *= rng.random((len(rows[::2]), NODES, 1))
    rows[::5] = [1, 0, 0]
    return Batch(adjacency, rows)


def edge_neighbor(batch, seed, *, directed):
    """Toggle one arc, or one edge between distinct nodes, of each graph."""
    rng = np.random.default_rng(seed)
    adjacency, each = batch.adjacency.copy(), np.arange(GRAPHS)
    u = rng.integers(0, NODES, GRAPHS)
    t = (u + rng.integers(0 if directed else 1, NODES, GRAPHS)) % NODES
    adjacency[each, u, t] ^= True
    if not directed:
        adjacency[each, t, u] = adjacency[each, u, t]
    return replace(batch, adjacency=adjacency)


def node_neighbor(batch, seed, *, relation, released):
    """Empty or replace the record of one node of each graph; what others own and send stays as it is."""
    rng = np.random.default_rng(seed)
    adjacency, rows, each = batch.adjacency.copy(), batch.rows.copy(), np.arange(GRAPHS)
    v = rng.integers(0, 2, GRAPHS) * rng.integers(0, NODES, GRAPHS)
    kept = rng.random(GRAPHS) < 0.3 if not released else np.zeros(GRAPHS, bool)
    fresh = rng.random((GRAPHS, NODES)) < 0.5
    targets = adjacency[each, v] & kept[:, None] | ~adjacency[each, v] & fresh & ~kept[:, None]
    adjacency[each, v] = targets if relation == "replace" else False
    if not released:
        rows[each, v] = -rows[each, v] if relation == "replace" else 0
    return Batch(adjacency, rows)


def owner_arcs(adjacency):
    """CSR by owner of the union."""
    graph, _, target = np.nonzero(adjacency)
    indptr = np.zeros(GRAPHS * NODES + 1, np.int64)
    np.cumsum(adjacency.sum(2).reshape(-1), out=indptr[1:])
    return indptr, (graph * NODES + target).astype(np.int32)


def sums(batch, cap=None):
    arcs = owner_arcs(batch.adjacency)
    arcs = cap(*arcs, CAP, KEY) if cap else arcs
    steps = to_steps(batch.rows.reshape(-1, WIDTH))
    return neighborhood_sum(Arcs(*by_destination(*arcs)), steps).reshape(GRAPHS, NODES, WIDTH)


def changes(batch, neighbor, cap=None):
    """Squared Frobenius norms (exact integers) and numbers of changed coordinates."""
    difference = sums(batch, cap) - sums(neighbor, cap)
    return np.square(difference).sum((1, 2)), (difference != 0).sum((1, 2))


def assert_sensitivity(unit, released, pairs, cap=None, factor=1.0):
    """The measured maximum is at most the claim (times ``factor``), and within 1 % of it."""
    claim = factor * hop_sensitivity(unit, released_messages=released)
    worst, touched = 0.0, 0
    for batch, neighbor in pairs:
        squares, changed = changes(batch, neighbor, cap)
        worst = max(worst, float(np.sqrt(squares.max())) / UNIT)
        touched = max(touched, int(changed.max()))
    assert worst <= claim * (1 + 1e-12), "the claim is too small"
    assert worst >= 0.99 * claim, "the claim is not reached: too large, or the search is too weak"
    assert touched == affected_coordinates(unit, NODES, WIDTH), "coordinates are miscounted"


def edge_pairs(directed):
    for seed in range(4):
        batch = random_batch(seed, directed=directed)
        yield batch, edge_neighbor(batch, seed + 100, directed=directed)


def node_pairs(relation, released):
    for seed in range(4):
        batch = random_batch(seed, directed=True)
        yield batch, node_neighbor(batch, seed + 100, relation=relation, released=released)


@pytest.mark.parametrize("released", [True, False])
@pytest.mark.parametrize("directed", [True, False])
def test_edges(directed, released):
    assert_sensitivity(EdgeLevel(directed=directed), released, edge_pairs(directed))


@pytest.mark.parametrize("released", [True, False])
@pytest.mark.parametrize("relation", ["remove", "replace"])
def test_nodes_with_owned_arcs(relation, released):
    unit = NodeLevel(max_out_degree=CAP, relation=relation)
    assert_sensitivity(unit, released, node_pairs(relation, released), cap_out_degree)


def test_claims_of_all_units():
    unit, replaced = NodeLevel(max_out_degree=9), NodeLevel(max_out_degree=9, relation="replace")
    assert hop_sensitivity(EdgeLevel(directed=True), released_messages=True) == 1
    assert hop_sensitivity(EdgeLevel(directed=False), released_messages=True) == pytest.approx(2**0.5)
    assert [hop_sensitivity(unit, released_messages=r) for r in (True, False)] == [3, 3]
    assert hop_sensitivity(replaced, released_messages=True) == pytest.approx(18**0.5)
    assert hop_sensitivity(replaced, released_messages=False) == 6


def test_planted_fault_one_arc_for_an_undirected_edge():
    """The published lemma counts one arc: the search above refutes it."""
    with pytest.raises(AssertionError, match="too small"):
        assert_sensitivity(EdgeLevel(directed=True), True, edge_pairs(directed=False))
    with pytest.raises(AssertionError, match="too small"):
        assert_sensitivity(EdgeLevel(directed=False), True, edge_pairs(directed=False), factor=2**-0.5)


def test_planted_fault_replacement_counted_as_removal():
    unit = NodeLevel(max_out_degree=CAP)
    for released in (True, False):
        with pytest.raises(AssertionError, match="too small"):
            assert_sensitivity(unit, released, node_pairs("replace", released), cap_out_degree)


def test_planted_fault_private_messages_taken_for_released():
    unit = NodeLevel(max_out_degree=CAP, relation="replace")
    with pytest.raises(AssertionError, match="too small"):
        assert_sensitivity(unit, True, node_pairs("replace", False), cap_out_degree)


def test_planted_fault_no_cap():
    with pytest.raises(AssertionError, match="too small"):
        assert_sensitivity(NodeLevel(max_out_degree=CAP), True, node_pairs("remove", True))


def test_planted_fault_claim_too_large():
    with pytest.raises(AssertionError, match="not reached"):
        assert_sensitivity(EdgeLevel(directed=True), True, edge_pairs(directed=True), factor=1.02)


def shuffled_cap(indptr, indices, max_out_degree, key):
    """A published bound: shuffle all arcs together, keep the first D of each owner."""
    owner = np.repeat(np.arange(len(indptr) - 1), np.diff(indptr))
    order = np.random.default_rng(key[0]).permutation(len(indices))
    seen, keep = np.zeros(len(indptr), int), np.zeros(len(indices), bool)
    for arc in order:
        keep[arc] = seen[owner[arc]] < max_out_degree
        seen[owner[arc]] += 1
    offsets = np.r_[0, np.cumsum(np.bincount(owner[keep], minlength=len(indptr) - 1))]
    return offsets, indices[keep]


def test_planted_fault_a_cap_that_shuffles_all_arcs():
    with pytest.raises(AssertionError, match="too small"):
        assert_sensitivity(NodeLevel(max_out_degree=CAP), True, node_pairs("remove", True), shuffled_cap)


@pytest.mark.parametrize(
    "unit", [NodeLevel(arcs="incident"), NodeLevel(5, arcs="incident", relation="replace"), RecordLevel(), NoPrivacy()]
)
def test_units_without_a_proof_are_refused(unit):
    with pytest.raises(UnsupportedUnitError, match=r"no bounded sensitivity.*Use EdgeLevel"):
        hop_sensitivity(unit, released_messages=True)
    with pytest.raises(UnsupportedUnitError):
        affected_coordinates(unit, 10, 2)


def test_a_node_unit_needs_its_cap():
    with pytest.raises(InputError, match="max_out_degree"):
        hop_sensitivity(NodeLevel(), released_messages=True)


def test_affected_coordinates_never_exceed_the_matrix():
    assert affected_coordinates(NodeLevel(max_out_degree=100), 10, 2) == 20
    assert affected_coordinates(NodeLevel(max_out_degree=4, relation="replace"), 100, 2) == 16
    assert affected_coordinates(EdgeLevel(directed=True), 100, 5) == 5
