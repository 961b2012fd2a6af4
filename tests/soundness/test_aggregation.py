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
    edge_case,
    edge_pairs,
    hop,
    hop_case,
    measure,
    measure_rounding,
    node_pairs,
    node_unit,
    regrouped_arcs,
    result,
)  # fmt: skip

from sfumato.bounded import _degree as degree
from sfumato.bounded import aggregation
from sfumato.bounded.aggregation import Arcs, affected_coordinates, hop_sensitivity, neighborhood_sum, to_steps
from sfumato.bounded.kernels import INT16_ONE, loops
from sfumato.errors import InputError, UnsupportedUnitError
from sfumato.privacy.units import EdgeLevel, NodeLevel, NoPrivacy, RecordLevel

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


@pytest.mark.parametrize("sign", [1, -1])
def test_a_node_that_very_many_point_at(sign):
    """More messages than a packed field holds (2^16), all of full length and alike: nothing overflows into a neighbor."""
    senders = (1 << 16) + 5000
    rows = np.tile(np.array([[sign, 0.0]], np.float32), (senders, 1))
    arcs = Arcs(np.r_[0, np.full(senders, senders)], np.arange(senders, dtype=np.int32))
    sums = neighborhood_sum(arcs, to_steps(rows))
    assert sums[0].tolist() == [sign * senders * INT16_ONE, 0]
    assert not sums[1:].any()
    fewer = neighborhood_sum(Arcs(np.r_[0, np.full(senders, senders - 1)], arcs.sources[1:]), to_steps(rows))
    assert np.linalg.norm(sums - fewer) == INT16_ONE


def check(case, **changed):
    """The check of the real code, measured again, with another claim if one is given."""
    assert_sound(case.measure(), changed.get("claim", case.claim), case.coordinates)


@pytest.mark.parametrize("operation", ["hop", "by_destination"])
def test_planted_fault_one_arc_for_an_undirected_edge(operation):
    """The published lemma counts one arc."""
    case = edge_case(EDGE, operation)
    with pytest.raises(AssertionError, match=TOO_SMALL):
        check(case, claim=case.claim * faults.ONE_ARC)


def test_planted_fault_one_arc_counted_for_coordinates():
    pairs = edge_pairs(0, directed=False)
    with pytest.raises(AssertionError, match="miscounted"):
        assert_sound(measure(pairs, hop, INT16_ONE), 2**0.5, affected_coordinates(ARC, NODES, WIDTH))


def test_planted_fault_replacement_counted_as_removal():
    for released in (True, False):
        with pytest.raises(AssertionError, match=TOO_SMALL):
            check(hop_case("replace", 2, released=released, num_random=0), claim=2**0.5)


def test_planted_fault_private_messages_taken_for_released():
    case = hop_case("replace", 2, released=False, num_random=0)
    with pytest.raises(AssertionError, match=TOO_SMALL):
        check(case, claim=hop_sensitivity(node_unit("replace", 2), released_messages=True))


@pytest.mark.parametrize("factor", [1.02, 2.0])
@pytest.mark.parametrize("case", CASES[:6], ids=str)
def test_planted_fault_claim_too_large(case, factor):
    with pytest.raises(AssertionError, match="not reached"):
        assert_sound(result(case), factor * case.claim, case.coordinates)


def test_planted_fault_too_many_coordinates():
    with pytest.raises(AssertionError, match="overcounted"):
        assert_sound(result(CASES[0]), CASES[0].claim, CASES[0].coordinates + 1)


@pytest.mark.parametrize("cap", [*faults.UNSTABLE_CAPS, faults.no_cap], ids=lambda cap: cap.__name__)
def test_planted_faults_of_the_cap_break_the_hop(monkeypatch, cap):
    """sqrt D does not bound a hop when other owners' arcs move, or when nobody's are capped."""
    case = hop_case("remove", 2, released=True, alone=True, num_random=10)
    monkeypatch.setattr(degree, "cap_out_degree", cap)
    with pytest.raises(AssertionError, match=TOO_SMALL):
        check(case)


@pytest.mark.parametrize("fault", [faults.last_source_dropped(NODES), faults.last_target_dropped(NODES)])
@pytest.mark.parametrize(
    "case", [edge_case(ARC, "hop"), edge_case(EDGE, "hop"), edge_case(ARC, "by_destination")], ids=str
)
def test_planted_fault_the_last_node_is_dropped(monkeypatch, fault, case):
    monkeypatch.setattr(degree, "by_destination", fault)
    with pytest.raises(AssertionError, match=DROPPED):
        check(case)


@pytest.mark.parametrize(
    "case", [hop_case("remove", 2, released=True, alone=True), arcs_case("degree cap", "remove", 2)], ids=str
)
def test_planted_fault_the_last_owner_is_dropped(monkeypatch, case):
    monkeypatch.setattr(degree, "cap_out_degree", faults.last_owner_dropped)
    with pytest.raises(AssertionError, match=DROPPED):
        check(case)


@pytest.mark.parametrize("fault", faults.ROUNDINGS, ids=lambda fault: fault.__name__)
def test_planted_faults_of_rounding_are_caught(monkeypatch, fault):
    """Messages rounded up or to nearest, or too long ones left so: by the check of rounding, and by that of hops."""
    monkeypatch.setattr(loops(), "quantize", fault)
    for relation, claim in (("remove", 1.0), ("replace", 2.0)):
        with pytest.raises(AssertionError, match=TOO_SMALL):
            assert_sound(measure_rounding(relation), claim, WIDTH)
    for case in (edge_case(ARC, "hop"), edge_case(EDGE, "hop"), hop_case("remove", 2, released=False)):
        with pytest.raises(AssertionError, match=TOO_SMALL):
            check(case)


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


@pytest.mark.parametrize(
    "unit", [NodeLevel(arcs="incident"), NodeLevel(5, arcs="incident", relation="replace"), RecordLevel(),
             RecordLevel(relation="replace"), NoPrivacy()]
)  # fmt: skip
def test_units_without_a_proof_are_refused(unit):
    for released in (True, False):
        with pytest.raises(UnsupportedUnitError, match=r"no bounded sensitivity.*Use EdgeLevel"):
            hop_sensitivity(unit, released_messages=released)
    with pytest.raises(UnsupportedUnitError):
        affected_coordinates(unit, 10, 2)


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
