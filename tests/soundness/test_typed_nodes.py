"""Types of edges at node level: whatever types a node's arcs have, all sums together move by one message. Near misses fail."""

from dataclasses import replace
from itertools import permutations

import numpy as np
import pytest
from soundness_neighbors import KEY
from test_piloted import Seen
from test_routing import OWNED, REPLACED

from sfumato.bounded import _typed_shares as shares
from sfumato.bounded._grouping import group_sensitivity
from sfumato.bounded._routing import routed_sensitivity
from sfumato.bounded.aggregation import neighborhood_sum, to_steps
from sfumato.central import _heads as heads
from sfumato.central import _learning as learning
from sfumato.central import _linear as linear
from sfumato.central import _piloted as piloted
from sfumato.central import _shares as hops
from sfumato.central import _typed_pilot as pilot
from sfumato.central import _weighing as weighing
from sfumato.central._piloted import PilotedMessages
from sfumato.errors import InputError
from sfumato.graph._graph import Graph
from sfumato.loops.kernels import INT16_ONE
from sfumato.privacy.budget import Budget

NODES, KINDS = 5, ("a", "b", "c")
PAIRS = np.array(list(permutations(range(NODES), 2)))
SOME, ALL = np.array([0, 0, 0, 1, 1], np.uint8), np.ones(NODES, np.bool_)
WEIGHTS = [(1.0, 1.0, 1.0), (1.0, 0.5, 0.0), (0.9, 0.3, 0.7), (0.125, 1.0, 0.125)]


def graph_of(kinds, rows, y, roles=SOME):
    """The graph in which pair i of PAIRS has an edge of type k if ``kinds[i, k]`` says so."""
    at, kind = kinds.nonzero()
    known = {"edge_type": kind, "edge_types": KINDS, "classes": ("a", "b", "c")}
    return Graph.from_edges(*PAIRS[at].T, NODES, directed=True, x=rows, y=y, **known).with_roles(roles)


def drawn(rng):
    """Edges of three types: often many of one type and few of another, or pairs that several types link."""
    kinds = rng.random((len(PAIRS), len(KINDS))) < rng.choice([0.0, 0.2, 0.5, 1.0], len(KINDS))
    return kinds, rng.random((NODES, 2)).astype(np.float32), rng.integers(0, 3, NODES)


def neighbor(rng, unit, kinds, rows, y):
    """The data with the record of node 0 emptied, or replaced."""
    kinds, rows, y = kinds.copy(), rows.copy(), y.copy()
    own = PAIRS[:, 0] == 0
    if unit.relation == "remove":
        kinds[own], rows[0], y[0] = False, 0, -1
    else:
        if rng.random() < 0.5:
            kinds[own] = drawn(rng)[0][own]
        rows[0], y[0] = rng.random(2), rng.integers(0, 3)
    return kinds, rows, y


def sums(graph, messages, weights=None, cap=None):
    """All sums of one release before noise; None for ``weights`` stands for types apart."""
    lists = shares.typed_lists(graph, ALL, ALL, cap, KEY)
    parts = shares.apart(lists, messages) if weights is None else [shares.weighed(lists, messages, weights)]
    return np.stack([neighborhood_sum(arcs, to_steps(rows)) for arcs, rows in parts])


def messages_of(y, sign=1):
    """A message of norm 1 for each class, zero without a label."""
    codes = np.array([[1, 0], [0.6, 0.8], [-0.28, 0.96], [0, 0]])
    return (codes[y] * np.array([sign, *[1] * (NODES - 1)])[:, None]).astype(np.float32)


def check(unit, weights, claim=None, draws=150):
    claim = routed_sensitivity(unit) if claim is None else claim
    rng, most = np.random.default_rng(0), 0.0
    for number in range(draws):
        data = drawn(rng)
        other = neighbor(rng, unit, *data)
        sign = 1
        if unit.relation == "replace" and number % 2:  # the same lists, and the opposite message
            other, sign = (data[0], *data[1:]), -1
        found = [sums(graph_of(*side), messages_of(side[2], s), weights, unit.max_out_degree)
                 for side, s in ((data, 1), (other, sign))]  # fmt: skip
        apart = np.linalg.norm(found[0] - found[1]) / INT16_ONE
        assert apart <= claim, "too small a claim"
        most = max(most, apart)
    assert most > 0.99 * claim, "not reached"


@pytest.mark.parametrize("weights", [None, *WEIGHTS], ids=str)
@pytest.mark.parametrize(
    "unit", [OWNED, replace(OWNED, max_out_degree=2), replace(REPLACED, max_out_degree=3)], ids=str
)
def test_a_node_moves_the_sums_of_all_types_together_by_one_message(unit, weights):
    check(unit, weights)


@pytest.mark.parametrize("weights", [None, WEIGHTS[2]], ids=str)
@pytest.mark.parametrize(("factor", "message"), [(0.95, "too small"), (1.05, "not reached")])
def test_another_claim_fails(weights, factor, message):
    for unit in (OWNED, REPLACED):
        with pytest.raises(AssertionError, match=message):
            check(unit, weights, factor * routed_sensitivity(unit))


def of_each_type_alone(rows, degrees, real=shares.share):
    """Shares within each type alone, of an owner that has all three: joint norm up to the root of three."""
    return real(rows, degrees / len(KINDS))


def of_the_average_owner(rows, load, real=shares.share):
    return real(rows, np.full(len(rows), load.mean()))


@pytest.mark.parametrize("fault", [of_each_type_alone, of_the_average_owner])
@pytest.mark.parametrize("weights", [None, WEIGHTS[0]], ids=str)
def test_planted_faults_in_shares_are_caught(monkeypatch, weights, fault):
    monkeypatch.setattr(shares, "share", fault)
    with pytest.raises(AssertionError, match="too small"):
        check(OWNED, weights)


def test_a_divisor_by_edges_and_not_by_pairs_is_caught(monkeypatch):
    """Pairs that several types link carry their sum, whose square is more than the sum of the squares of weights."""
    real = shares.share
    monkeypatch.setattr(shares, "share", lambda rows, load: real(rows, load / 3))
    with pytest.raises(AssertionError, match="too small"):
        check(OWNED, (0.25, 0.25, 0.25))


def test_equal_weights_are_the_graph_without_types():
    rng = np.random.default_rng(3)
    for _ in range(20):
        kinds, rows, y = drawn(rng)
        typed = sums(graph_of(kinds, rows, y), messages_of(y), (1.0, 1.0, 1.0))
        plain = Graph.from_edges(*PAIRS[kinds.any(1)].T, NODES, directed=True, x=rows, y=y)
        lists = hops.owned(plain)
        routed = shares.share(messages_of(y), np.diff(lists.offsets))
        assert (typed[0] == neighborhood_sum(hops.regrouped(lists), to_steps(routed))).all()


@pytest.mark.parametrize("cap", [None, 1, 2])
@pytest.mark.parametrize("weights", [None, *WEIGHTS], ids=str)
def test_arcs_of_another_owner_move_sums_by_no_more_than_stated(weights, cap):
    """One pair loses one type or all of them; the near miss of half the stated change fails."""
    unit, rng, most = replace(OWNED, max_out_degree=cap), np.random.default_rng(1), 0.0
    claim = shares.typed_arc_change(unit, weighed=weights is not None)
    for number in range(200):
        kinds, rows, y = drawn(rng)
        pair = rng.choice(np.flatnonzero(PAIRS[:, 1] == 0))
        kinds[pair, rng.integers(3)] = True
        fewer = kinds.copy()
        fewer[pair, rng.integers(3) if number % 2 else slice(None)] = False
        one, two = (sums(graph_of(side, rows, y), messages_of(y), weights, cap) for side in (kinds, fewer))
        most = max(most, np.linalg.norm(one - two) / INT16_ONE)
    assert most <= claim
    assert most > 0.7 * claim


@pytest.mark.parametrize("cap", [None, 1, 2])
def test_arcs_of_another_owner_move_the_sum_about_types_by_no_more_than_stated(cap):
    """The share of types among an owner's arcs moves when one arc goes; nothing, as was once stated, is a near miss."""
    unit, rng, most = replace(OWNED, max_out_degree=cap), np.random.default_rng(3), 0.0
    claim = pilot.told_arc_change(unit)
    for number in range(300):
        kinds, rows, y = drawn(rng)
        pair = rng.choice(np.flatnonzero(PAIRS[:, 1] == 0))
        kinds[pair, rng.integers(3)] = True
        fewer = kinds.copy()
        fewer[pair, rng.integers(3) if number % 2 else slice(None)] = False
        released = rng.integers(-INT16_ONE, INT16_ONE, (NODES, 9))
        found = [
            pilot.type_rows(shares.typed_lists(graph_of(side, rows, y), ALL, ALL, cap, KEY), released, y, ALL)
            for side in (kinds, fewer)
        ]
        most = max(most, float(np.linalg.norm((found[0] - found[1]).sum(axis=0))))
    assert most <= claim
    assert most > 0.5 * claim > 0


def test_messages_of_weighed_sums_are_whole_steps_of_eight():
    """All messages that there are come back from float32 as the step that was meant, toward zero."""
    for start in range(0, INT16_ONE, 4096):
        steps = np.arange(start, min(start + 4096, INT16_ONE + 1))
        whole = steps // shares._PARTS * shares._PARTS
        for sign in (-1, 1):
            rows = (sign * (whole + np.sign(whole) * shares._INSIDE) / INT16_ONE).astype(np.float32)
            assert (to_steps(rows[:, None])[:, 0] == sign * whole).all()


# The sum about types.


def check_rows(draws=120):
    rng, most = np.random.default_rng(2), 0.0
    for _ in range(draws):
        released = rng.integers(-INT16_ONE, INT16_ONE, (NODES, 9)) * (rng.random(9) < rng.choice([0.3, 1.0]))
        data = drawn(rng)
        for unit in (OWNED, REPLACED):
            found = []
            for kinds, rows, y in (data, neighbor(rng, unit, *data)):
                lists = shares.typed_lists(graph_of(kinds, rows, y), ALL, ALL, None, KEY)
                found.append(pilot.type_rows(lists, released, y, ALL))
            assert (found[0][1:] == found[1][1:]).all(), "another node's row reads the record"
            if unit is OWNED:
                assert not found[1][0].any(), "an empty record is not empty"
            lengths = np.linalg.norm(np.concatenate(found), axis=1)
            assert lengths.max() <= 1, "too long"
            most = max(most, lengths.max())
    assert most > 0.95


def test_what_a_node_tells_of_types_is_one_row_of_norm_1():
    check_rows()


def test_products_of_each_type_by_itself_would_be_too_long(monkeypatch):
    real = np.einsum
    monkeypatch.setattr(pilot.np, "einsum", lambda how, *told: np.sqrt(3) * real(how, *told))
    with pytest.raises(AssertionError, match="too long"):
        check_rows()


# From end to end.


def handed_over(monkeypatch, plan, graph, fixed, pays):
    seen = Seen(fixed, pays)
    for home in (hops, pilot):
        monkeypatch.setattr(home, "noisy_neighborhood_sum", seen.hop)
    for home in (linear, piloted, weighing, pilot):
        monkeypatch.setattr(home, "noisy_group_sums", seen.group)
    for home in (learning, heads):
        monkeypatch.setattr(home, "train_charged", seen.train_charged)
    monkeypatch.setattr(piloted, "messages_pay", lambda *told: seen.pays)
    monkeypatch.setattr(pilot, "weights_of", lambda *told: np.array([[1, 0.5, 0.25], [0.8, 0.6, 0.0]], np.float32))
    monkeypatch.setattr("sfumato.method._opening.new_key", lambda: KEY)
    plan.fit(graph, seed=5)
    return seen


def check_fit(monkeypatch, unit, pays, draws=60):
    monkeypatch.setattr(piloted, "tells_apart", lambda *told: True)
    rng, plan, most = np.random.default_rng(0), None, 0.0
    fixed, kinds = rng.integers(-INT16_ONE, INT16_ONE, (4, NODES, 3)), len(KINDS)
    roles = np.array([0, 0, 0, 1, 2], np.uint8)
    for _ in range(draws):
        data = drawn(rng)
        left, right = (graph_of(*side, roles) for side in (data, neighbor(rng, unit, *data)))
        plan = plan or PilotedMessages(epochs=1).calibrate(Budget(1.0, 1e-5), unit, left.public_facts(unit))
        a, b = (handed_over(monkeypatch, plan, graph, fixed, pays) for graph in (left, right))
        assert a.stddevs == b.stddevs
        names = ["center", *["aggregate/1"] * kinds, "types", "test", *["aggregate/2"] * pays]
        assert a.stddevs[: len(names)] == pytest.approx(
            [plan.event(name).noise_multiplier * routed_sensitivity(unit) for name in names], rel=1e-12
        )
        assert len(a.hops) == kinds + pays
        assert len(a.groups) == 3 + weighing.STEPS
        bound = routed_sensitivity(unit)
        assert bound == group_sensitivity(unit)
        apart = np.linalg.norm(np.stack(a.hops[:kinds]) - np.stack(b.hops[:kinds])) / INT16_ONE
        rest = [np.linalg.norm(one - two) / INT16_ONE for one, two in zip(a.hops[kinds:], b.hops[kinds:], strict=True)]
        told = [np.linalg.norm(one - two) / INT16_ONE for one, two in zip(a.groups, b.groups, strict=True)]
        assert max(apart, *rest, *told) <= bound * (1 + 1e-12), "above what is charged"
        most = max(most, *([min(apart, *rest)] if rest else [apart]))
    return most / routed_sensitivity(unit)


@pytest.mark.parametrize("pays", [False, True])
@pytest.mark.parametrize(
    "unit", [OWNED, replace(OWNED, max_out_degree=2), replace(REPLACED, max_out_degree=3)], ids=str
)
def test_a_fit_hands_over_no_more_than_is_charged(monkeypatch, unit, pays):
    assert check_fit(monkeypatch, unit, pays) > (0.98 if unit.relation == "remove" else 0.45)


def test_planted_fault_weights_that_read_arcs(monkeypatch):
    """Weights from the shares of types before noise: another owner's copies change with the record."""
    real = pilot.TypedPilot.routed

    def routed(self, weights):
        counts = self.lists.degrees().sum(0)
        return real(self, (counts / max(counts.max(), 1)).astype(np.float32))

    monkeypatch.setattr(pilot.TypedPilot, "routed", routed)
    with pytest.raises((AssertionError, InputError), match=r"above what is charged"):
        check_fit(monkeypatch, OWNED, True, draws=200)


def test_noise_of_types_is_not_shared(monkeypatch):
    """Three types with the very same arcs: with one noise for all, differences of blocks would be exact."""
    monkeypatch.setattr(piloted, "tells_apart", lambda *told: True)
    rng = np.random.default_rng(0)
    ends = np.repeat(rng.integers(300, size=(2, 900)), 3, axis=1)
    graph = Graph.from_edges(
        *ends, 300, directed=True, y=rng.integers(2, size=300), edge_type=np.tile(range(3), 900), edge_types=KINDS,
        classes=("a", "b"),
    ).with_split(labeled=True)  # fmt: skip
    plan = PilotedMessages(epochs=2).calibrate(Budget(16.0, 1e-5), OWNED, graph.public_facts(OWNED))
    blocks = plan.fit(graph).released["aggregate/1"].reshape(300, 3, 2) / INT16_ONE
    apart = (blocks[:, 0] - blocks[:, 1])[blocks.any(axis=(1, 2))]
    assert abs(apart.std() / (np.sqrt(2) * plan.event("aggregate/1").noise_multiplier) - 1) < 0.12
