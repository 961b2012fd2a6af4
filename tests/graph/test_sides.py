"""Bipartite graphs: who is on which side, and that pairs within a side are never scored, drawn, listed or linked."""

from dataclasses import replace

import numpy as np
import pytest

import sfumato as sf
from sfumato import verify
from sfumato.errors import DataError, InputError
from sfumato.evaluation._links import HeldOut, alike_items, hold_out
from sfumato.graph._graph import Graph
from sfumato.graph._sides import check_sides, sides_of

USERS, ITEMS = 150, 60
EDGE = sf.EdgeLevel(directed=False)


def shop(seed=0):
    """Users of three tastes, items of three kinds, of which a tenth are liked much more; items alone have a label."""
    rng = np.random.default_rng(seed)
    taste, kind = rng.integers(3, size=USERS), rng.integers(3, size=ITEMS)
    liked = np.where(taste[:, None] == kind, 0.2, 0.03) * np.where(np.arange(ITEMS) < 6, 4, 1)
    source, target = np.nonzero(rng.random((USERS, ITEMS)) < liked)
    x = np.zeros((USERS + ITEMS, 2), np.float32)
    x[:USERS, 1] = x[USERS:, 0] = 1
    y = np.concatenate((np.full(USERS, -1), kind))
    return Graph.from_edges(
        source, target + USERS, USERS + ITEMS, directed=False, x=x, y=y, classes=("a", "b", "c"),
        feature_names=("kind=item", "kind=user"),
    ).with_split(seed=0)  # fmt: skip


@pytest.fixture(scope="module")
def graph():
    return shop()


@pytest.fixture(scope="module")
def fitted(graph):
    return fit(graph)


def fit(graph, sides="kind=user"):
    return sf.LinkMessages(sides=sides).calibrate(sf.Budget(2.0, 0.0), EDGE, graph.public_facts(EDGE)).fit(graph)


def test_sides_come_from_words_numbers_or_the_label(graph):
    users = np.arange(USERS + ITEMS) < USERS
    for declared in ("kind", "kind=user"):
        found = sides_of(graph, declared)
        np.testing.assert_array_equal(found.second, users)
        np.testing.assert_array_equal(found.asks, users | (declared == "kind"))
    numbers = replace(graph, x=graph.x[:, [1]], feature_names=("is_user",))
    np.testing.assert_array_equal(sides_of(numbers, "is_user=1").asks, users)
    labels = replace(graph, y=users.astype(int), classes=("item", "user"))
    np.testing.assert_array_equal(sides_of(labels, "label=user").asks, users)
    assert sides_of(graph, None) is None


@pytest.mark.parametrize(
    ("declared", "said"),
    [
        ("kid", "Did you mean 'kind'"),
        ("kind=use", "Did you mean 'user'"),
        ("label", "which of two sides"),
        ("", "to be COLUMN or COLUMN=VALUE"),
    ],
)
def test_a_declaration_that_says_no_sides_is_refused(declared, said, graph):
    with pytest.raises((InputError, DataError), match=said):
        fit(graph, declared)


def test_a_graph_that_contradicts_its_sides_is_refused_before_anything_is_charged(graph):
    ends = np.stack((np.repeat(np.arange(graph.num_nodes), np.diff(graph.indptr)), graph.indices))
    wrong = Graph.from_edges(*np.hstack((ends, [[0], [1]])), graph.num_nodes, directed=False)
    wrong = replace(graph, indptr=wrong.indptr, indices=wrong.indices)
    for refused in (fit, lambda one: hold_out(one, 0, "kind"), lambda one: check_sides(one, "kind")):
        with pytest.raises(DataError, match="some edge joins two nodes of one side"):
            refused(wrong)


def test_a_run_counts_nodes_without_a_label_and_verifies(graph, fitted, tmp_path):
    assert fitted.embeddings(graph).shape == (USERS + ITEMS, 4)
    clear = sf.LinkMessages(sides="kind").calibrate(None, sf.NoPrivacy(), graph.public_facts(sf.NoPrivacy())).fit(graph)
    rows, degrees = clear.released["links"][:-5].reshape(-1, 4) / 32767, np.diff(graph.indptr)
    assert (rows[USERS:, :3] == 0).all(), "users have no label"
    assert abs(rows[USERS:, 3].sum() / degrees[USERS:].sum() - 0.8) < 0.05
    run = fitted.save(tmp_path / "run")
    assert verify.verify(run).problems == ()
    pairs = np.array([[0, USERS], [USERS + 1, 5]])
    np.testing.assert_array_equal(sf.load(run).score_pairs(graph, pairs), fitted.score_pairs(graph, pairs))
    with pytest.raises(InputError, match="to join the two sides"):
        fitted.score_pairs(graph, np.array([[0], [1]]))


def test_only_pairs_across_are_drawn_and_listed(graph):
    held = hold_out(graph, 0, "kind=user")
    assert held.sides.apart(held.links).all()
    assert held.sides.apart(held.others).all()
    lists = held.lists(0)
    assert (lists.nodes < USERS).all()
    for others, there in map(lists.of, lists.nodes.tolist()):
        assert (others >= USERS).all()
        assert there.any()
    both = HeldOut(held.graph, held.links, held.others, held.missing, sides_of(graph, "kind")).lists(0)
    assert (both.nodes >= USERS).any()


def test_what_is_learned_beats_popularity_where_tastes_differ(graph, fitted):
    held = hold_out(graph, 1, "kind=user")
    run = fit(held.graph)
    popular = np.diff(held.graph.indptr)
    ours, theirs = (
        held.score(scorer)[0]
        for scorer in (lambda pairs: run.score_pairs(held.graph, pairs), lambda pairs: popular[pairs].sum(axis=0))
    )
    assert ours > theirs


def test_alike_items_by_hand():
    names = ("side",)
    x = np.array([[1], [1], [0], [0]], np.float32)
    graph = Graph.from_edges([0, 0, 1], [2, 3, 3], 4, directed=False, x=x, feature_names=names)
    sides = sides_of(graph, "side=1")
    pairs = np.array([[1, 2], [2, 1]])
    np.testing.assert_allclose(alike_items(graph, pairs, sides), [1 / np.sqrt(2)] * 2)
