"""Link messages: brute force over edges measures the L1 sensitivity of counts and sums together; near misses fail."""

from itertools import combinations

import numpy as np
import pytest

import sfumato as sf
from sfumato.bounded import _pairs as pairs
from sfumato.central import _evidence as evidence
from sfumato.central import _link_messages as link_messages
from sfumato.central._link_messages import NAME, LinkMessages
from sfumato.evaluation._links import hold_out
from sfumato.graph._graph import Graph
from sfumato.loops.kernels import INT16_ONE

NODES, EDGE = 5, sf.EdgeLevel(directed=False)
EVERY = list(combinations(range(NODES), 2))
SECOND = np.array([[0, 0, 0]] * 2 + [[0, 0, 1]] * 3, np.float32) * [[1], [1], [0], [1], [1]]


@pytest.fixture(autouse=True)
def _few_random_pairs(monkeypatch):
    monkeypatch.setattr(evidence, "_REFERENCE", 200)


def graph_of(edges, sides=None):
    source, target = np.array(edges, int).reshape(-1, 2).T
    y = np.arange(NODES) % 2 if sides is None else [-1, -1, 0, 1, 0]
    return Graph.from_edges(
        source, target, NODES, directed=False, y=y, classes=("0", "1"), x=np.eye(NODES, 3, dtype=np.float32) + SECOND,
        feature_names=("a", "b", "item"),
    ).with_split(seed=0)  # fmt: skip


def neighbors(sides=None, count=100, most=1):
    """Graphs with and without one edge, or ``most`` edges of a person; with sides, users and items are linked alone."""
    rng = np.random.default_rng(0)
    every = EVERY if sides is None else [(0, 2), (0, 3), (0, 4), (1, 2), (1, 3), (1, 4)]
    for _ in range(count):
        kept = [pair for pair in every if rng.random() < 0.5]
        own = {every[at] for at in rng.integers(len(every), size=most)}
        yield graph_of([pair for pair in kept if pair not in own], sides), graph_of(sorted({*kept, *own}), sides)


def released(graph, monkeypatch, counts=None, sides=None):
    """What a fit releases, before noise. Sums may read given counts, as those of a neighbor that came out alike."""
    noiseless = LinkMessages(learner_share=0.4, sides=sides)
    with monkeypatch.context() as patch:
        if counts is not None:
            real = LinkMessages._evidence
            patch.setattr(LinkMessages, "_evidence", lambda self, plan, graph, _: real(self, plan, graph, counts))
        fitted = noiseless.calibrate(None, sf.NoPrivacy(), graph.public_facts(sf.NoPrivacy())).fit(graph)
    return fitted.released[NAME]


def changes(monkeypatch, sides=None, most=1):
    """How far both parts move, in messages, at an equal outcome of the counts; and whether the counts moved."""
    for less, more in neighbors(sides, most=most):
        one = released(less, monkeypatch, sides=sides)
        counts = one[:-5].reshape(NODES, -1)
        other = released(more, monkeypatch, counts, sides)
        yield np.abs(one - other).sum() / INT16_ONE, bool((one != other)[:-5].any())


def check(monkeypatch, claim, sides=None, most=1):
    found = list(changes(monkeypatch, sides, most))
    worst = max(change for change, _ in found)
    assert worst <= claim + 1e-12, "too small a claim"
    assert worst > claim - 0.01, "not reached"
    assert {counted for _, counted in found} == {True, False}, "both parts are seen"


@pytest.mark.parametrize("sides", [None, "item"])
def test_counts_and_sums_together_move_by_2_messages_at_most(monkeypatch, sides):
    check(monkeypatch, pairs.pair_sensitivity(EDGE), sides)


@pytest.mark.parametrize("sides", [None, "item"])
def test_all_edges_of_a_person_move_both_parts_by_2_messages_each_at_most(monkeypatch, sides):
    check(monkeypatch, pairs.pair_sensitivity(sf.PersonLevel(2, directed=False)), sides, most=2)
    with pytest.raises(AssertionError, match="too small"):
        check(monkeypatch, pairs.pair_sensitivity(EDGE), sides, most=2)


@pytest.mark.parametrize(("claim", "message"), [(1.0, "too small"), (2.1, "not reached")])
def test_another_claim_fails(claim, message, monkeypatch):
    with pytest.raises(AssertionError, match=message):
        check(monkeypatch, claim)


def _counted_by_all(arcs, learns, real=link_messages._counted):
    return real(arcs, np.zeros_like(learns))


def _by_rank(found, num_nodes, purpose, seed=0):
    """A division of the edges by their place in the list, so that one edge moves others."""
    codes = np.sort(found, axis=0)
    keys = codes[0] * num_nodes + codes[1]
    return (np.searchsorted(np.unique(keys), keys) % 5) / 5


@pytest.mark.parametrize(
    ("module", "name", "fault"),
    [
        (link_messages, "_counted", _counted_by_all),
        (pairs, "public_draws", _by_rank),
    ],
    ids=["learners are counted too", "a draw by place"],
)
def test_planted_faults_are_caught(module, name, fault, monkeypatch):
    monkeypatch.setattr(module, name, fault)
    with pytest.raises(AssertionError, match="too small"):
        check(monkeypatch, 2.0)


def test_a_held_out_edge_changes_nothing_and_no_edge_moves_another():
    rng = np.random.default_rng(1)
    drawn = rng.integers(200, size=(2, 900))
    drawn = drawn[:, drawn[0] != drawn[1]]
    full = Graph.from_edges(*drawn, 200, directed=False)
    ends = np.stack((np.repeat(np.arange(200), np.diff(full.indptr)), full.indices))
    ends = ends[:, ends[0] < ends[1]]
    for edge in rng.integers(ends.shape[1], size=20):
        less = Graph.from_edges(*np.delete(ends, edge, axis=1), 200, directed=False)
        one, other = hold_out(full, 0), hold_out(less, 0)
        held = one.links.shape[1] - other.links.shape[1]
        assert one.graph.num_edges - other.graph.num_edges + held == 1
        if held:
            np.testing.assert_array_equal(one.graph.indices, other.graph.indices)
        else:
            np.testing.assert_array_equal(one.links, other.links)
