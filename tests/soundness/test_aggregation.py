"""Sensitivity of hops, caps, regrouping and rounding, on every neighbor of tiny graphs; and the faults these checks find.

The sum over all operations is counted in `test_pair_count.py`.
"""

import numpy as np
import pytest
import soundness_faults as faults
from soundness_neighbors import (
    ARC,
    CASES,
    EDGE,
    NODES,
    WIDTH,
    Graphs,
    arcs_case,
    assert_sound,
    base_graphs,
    edge_pairs,
    hop,
    hop_case,
    node_pairs,
    node_unit,
    regrouped_arcs,
    result,
)  # fmt: skip

from sfumato.bounded import _degree as degree
from sfumato.bounded import aggregation
from sfumato.bounded.aggregation import Arcs, affected_coordinates, hop_sensitivity, to_steps
from sfumato.errors import InputError
from sfumato.loops.kernels import INT16_ONE, loops
from sfumato.privacy.units import EdgeLevel, NodeLevel

TOO_SMALL, DROPPED = "too small", "records are dropped"


@pytest.mark.parametrize("case", CASES, ids=str)
def test_sensitivity_is_never_above_the_claim_and_reached(case):
    assert_sound(result(case), case.claim, case.coordinates)


def test_claims_of_all_units():
    unit, replaced = NodeLevel(max_out_degree=9), NodeLevel(max_out_degree=9, relation="replace")
    assert hop_sensitivity(EdgeLevel(directed=True), released_messages=True) == 1
    assert hop_sensitivity(EdgeLevel(directed=False), released_messages=True) == pytest.approx(2**0.5)
    assert [hop_sensitivity(unit, released_messages=r) for r in (True, False)] == [3, 3]
    assert hop_sensitivity(replaced, released_messages=True) == pytest.approx(18**0.5)
    assert hop_sensitivity(replaced, released_messages=False) == 6


@pytest.mark.parametrize("max_out_degree", [1, 2, NODES])
def test_sums_of_capped_arcs_are_exact(max_out_degree):
    """Against a dense product in integers."""
    graphs = base_graphs(20, directed=True)
    kept = regrouped_arcs(graphs, max_out_degree)
    steps = to_steps(graphs.rows.reshape(-1, WIDTH)).reshape(graphs.rows.shape).astype(np.int64)
    assert np.array_equal(hop(graphs, max_out_degree), kept @ steps)
    assert np.array_equal(kept.sum(1), np.minimum(graphs.adjacency.sum(2), max_out_degree))
    assert (kept <= graphs.adjacency.transpose(0, 2, 1)).all()


ARC_HOP, _, EDGE_HOP, ARC_GROUPS, EDGE_GROUPS, *_ = CASES
REPLACE_HOPS = {released: hop_case("replace", 2, released=released, num_random=0) for released in (True, False)}
FALSE_CLAIMS = {
    "one arc for an undirected edge": (EDGE_HOP, faults.ONE_ARC, 0, TOO_SMALL),  # the published lemma
    "one arc regrouped for an undirected edge": (EDGE_GROUPS, faults.ONE_ARC, 0, TOO_SMALL),
    "one arc counted for coordinates": (
        EDGE_HOP, 1,
        affected_coordinates(ARC, NODES, WIDTH) - affected_coordinates(EDGE, NODES, WIDTH), "miscounted",
    ),
    "replacement counted as removal": (REPLACE_HOPS[True], 0.5**0.5, 0, TOO_SMALL),
    "replacement counted as removal, private messages": (REPLACE_HOPS[False], 0.5, 0, TOO_SMALL),
    "private messages taken for released": (
        REPLACE_HOPS[False], REPLACE_HOPS[True].claim / REPLACE_HOPS[False].claim, 0, TOO_SMALL,
    ),
    **{f"{factor} times too much for {case}": (case, factor, 0, "not reached") for case in CASES[:6] for factor in (1.02, 2.0)},
    "too many coordinates": (ARC_HOP, 1, 1, "overcounted"),
}  # fmt: skip


@pytest.mark.parametrize(("case", "factor", "more", "message"), FALSE_CLAIMS.values(), ids=FALSE_CLAIMS)
def test_false_claims_fail(case, factor, more, message):
    with pytest.raises(AssertionError, match=message):
        assert_sound(result(case), factor * case.claim, case.coordinates + more)


ALONE = hop_case("remove", 2, released=True, alone=True, num_random=10)
PLANTED = [
    *[(degree, "cap_out_degree", cap, ALONE, TOO_SMALL) for cap in (*faults.UNSTABLE_CAPS, faults.no_cap)],
    *[(degree, "by_destination", fault(NODES), case, DROPPED)
      for fault in (faults.last_source_dropped, faults.last_target_dropped)
      for case in (ARC_HOP, EDGE_HOP, ARC_GROUPS)],
    *[(degree, "cap_out_degree", faults.last_owner_dropped, case, DROPPED)
      for case in (hop_case("remove", 2, released=True, alone=True), arcs_case("degree cap", "remove", 2))],
    *[(loops(), "quantize", fault, case, TOO_SMALL)
      for fault in faults.ROUNDINGS for case in (ARC_HOP, EDGE_HOP, hop_case("remove", 2, released=False), *CASES[-2:])],
]  # fmt: skip


@pytest.mark.parametrize(
    ("module", "name", "fault", "case", "message"),
    PLANTED,
    ids=lambda one: "loops" if one is loops() else getattr(one, "__name__", str(one)),
)
def test_planted_faults_are_caught(monkeypatch, module, name, fault, case, message):
    """Other owners' arcs that move, nobody's that are capped, nodes that are dropped, messages rounded up or left too long."""
    monkeypatch.setattr(module, name, fault)
    with pytest.raises(AssertionError, match=message):
        assert_sound(case.measure(), case.claim, case.coordinates)


def test_messages_that_are_too_long_are_refused():
    pairs = edge_pairs(0, directed=True)
    arcs = Arcs(np.array([0, 1, 1], np.int64), np.array([1], np.int32))
    with pytest.raises(InputError, match="norm at most 1"):
        aggregation.noisy_neighborhood_sum(arcs, 1.01 * pairs.left.rows[0, :2], 1.0, bytes(32))


def test_every_single_neighbor_is_there():
    """The search is exhaustive: all arcs, all edges with loops, all records, all target lists, all kinds of messages."""
    graphs = len(base_graphs(0, directed=True).rows)
    lists = 2**NODES
    assert len(edge_pairs(0, directed=True).record) == graphs * NODES**2
    assert len(edge_pairs(0, directed=False).record) == graphs * NODES * (NODES + 1) // 2
    assert len(node_pairs(0, "remove", released=False).record) == graphs * NODES
    assert len(node_pairs(0, "replace", released=True).record) == graphs * NODES * lists
    assert len(node_pairs(0, "replace", released=False).record) == graphs * NODES * lists * 4
    pairs = node_pairs(0, "replace", released=False)
    others = np.ones((len(pairs.record), NODES), bool)
    others[np.arange(len(others)), pairs.record] = False
    assert np.array_equal(pairs.left.adjacency[others], pairs.right.adjacency[others])
    assert np.array_equal(pairs.left.rows[others], pairs.right.rows[others])


def test_an_incident_unit_has_no_bound_indeed():
    """Why it is refused: when the arcs that others point at a hub go with it, its row loses all of them."""
    arcs = np.zeros((1, NODES, NODES), bool)
    arcs[:, 1:, 0] = True
    rows = np.tile(np.eye(WIDTH, dtype=np.float32)[0], (1, NODES, 1))
    moved = np.linalg.norm(hop(Graphs(arcs, rows), 1) - hop(Graphs(np.zeros_like(arcs), rows), 1)) / INT16_ONE
    assert moved == NODES - 1
    assert moved > hop_sensitivity(node_unit("remove", 1), released_messages=False)


def test_a_node_unit_needs_its_cap():
    with pytest.raises(InputError, match="max_out_degree"):
        hop_sensitivity(NodeLevel(), released_messages=True)


def test_affected_coordinates_never_exceed_the_matrix():
    assert affected_coordinates(NodeLevel(max_out_degree=100), 10, 2) == 20
    assert affected_coordinates(NodeLevel(max_out_degree=4, relation="replace"), 100, 2) == 16
    assert affected_coordinates(EdgeLevel(directed=True), 100, 5) == 5
