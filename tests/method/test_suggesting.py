"""Lists of the best others: the same as of all pairs, block by block, for some nodes, within a column, and among candidates."""

from dataclasses import replace

import numpy as np
import pytest

import sfumato as sf
from sfumato.errors import InputError
from sfumato.method import _suggesting as suggesting
from sfumato.method._suggesting import CodeFinder, Suggestions, cells_of

EDGE = sf.EdgeLevel(directed=False)


@pytest.fixture(scope="module")
def graph():
    return sf.graph.campus(400, seed=0).with_split(seed=0)


@pytest.fixture(scope="module")
def fitted(graph):
    return sf.LinkMessages().calibrate(sf.Budget(2.0, 0.0), EDGE, graph.public_facts(EDGE)).fit(graph)


def by_hand(fitted, graph, node, others, top):
    others = others[others != node]
    scores = fitted.score_pairs(graph, np.stack((np.full(len(others), node), others)))
    best = np.argsort(-scores, kind="stable")[:top]
    return others[best].tolist(), scores[best]


@pytest.mark.parametrize("parts", [1 << 22, 900])
def test_lists_are_those_of_all_pairs(fitted, graph, parts, monkeypatch):
    monkeypatch.setattr(suggesting, "_PAIRS", parts)
    pairs, scores = fitted.best_pairs(graph, 7)
    np.testing.assert_array_equal(pairs[0], np.repeat(np.arange(400), 7))
    for node in (0, 17, 399):
        others, wanted = by_hand(fitted, graph, node, np.arange(400), 7)
        assert pairs[1][pairs[0] == node].tolist() == others
        np.testing.assert_array_equal(scores[pairs[0] == node], wanted)


def test_weights_of_any_sign_and_equal_scores_give_the_same_lists(fitted, graph):
    equal = replace(graph, x=None, feature_names=(), y=np.arange(400) % 6)
    for weights in ([3.0, -2.0, 1.0, -4.0], [1.0, 0, 0, 0], [0.0, 0, 0, 0]):
        finder = fitted.plan.method.finder(
            fitted.plan, {"link.weight": np.array(weights, np.float32)}, fitted.released, equal
        )
        kept, scores = finder.best(np.arange(40), np.arange(400), 9)
        for node in range(40):
            others = np.delete(np.arange(400), node)
            every = finder.pair_scores(np.stack((np.full(399, node), others)))
            order = np.argsort(-every, kind="stable")[:9]
            np.testing.assert_array_equal(kept[node], others[order])
            np.testing.assert_array_equal(scores[node], every[order])


def test_one_viewer_and_others_of_one_value_alone(fitted, graph):
    column = graph.feature_names[0].partition("=")[0]
    pairs, _ = fitted.best_pairs(graph, 5, nodes=np.array([3]))
    assert pairs[1].tolist() == by_hand(fitted, graph, 3, np.arange(400), 5)[0]
    pairs, _ = fitted.best_pairs(graph, 5, within="label")
    assert (graph.y[pairs[0]] == graph.y[pairs[1]]).all()
    same = np.flatnonzero(graph.y == graph.y[3])
    assert pairs[1][pairs[0] == 3].tolist() == by_hand(fitted, graph, 3, same, 5)[0]
    assert fitted.best_pairs(graph, 5, within=column)[0].shape[1] > 0
    with pytest.raises(InputError, match="column to be a column of the graph"):
        fitted.best_pairs(graph, 5, within="nothing")


def test_lists_of_candidates_say_how_many_of_the_best_they_hold(fitted, graph, monkeypatch):
    monkeypatch.setattr(suggesting, "_SMALLEST", 8)
    exact = fitted.best_pairs(graph, 5)[0]
    found = fitted.suggestions(graph, 5, among=60)
    pairs = np.hstack([block.pairs for block in found])
    mine = {tuple(pair) for pair in pairs.T.tolist()} & {tuple(pair) for pair in exact.T.tolist()}
    assert 0.5 < found.share_found < 1
    assert abs(len(mine) / exact.shape[1] - found.share_found) < 0.1
    assert sum(block.num_nodes for block in fitted.suggestions(graph, 5, among=60)) == 400
    every = fitted.suggestions(graph, 5, among=400)
    np.testing.assert_array_equal(np.hstack([block.pairs for block in every]), exact)
    assert every.share_found == 1
    with pytest.raises(InputError, match="among"):
        fitted.suggestions(graph, 5, among=4)


def test_pools_of_many_others_lose_little(fitted, graph, monkeypatch):
    monkeypatch.setattr(suggesting, "_SMALLEST", 8)
    without = fitted.suggestions(graph, 5, among=60)
    assert sum(block.num_nodes for block in without) == 400
    for name, value in (("_FEW", 100), ("_POOLS", 4), ("_POOL_ASKS", 4), ("_POOL", 160)):
        monkeypatch.setattr(suggesting, name, value)
    pooled = fitted.suggestions(graph, 5, among=60)
    pairs = np.hstack([block.pairs for block in pooled])
    assert sorted(set(pairs[0].tolist())) == list(range(400))
    assert pooled.share_found > 0.9 * without.share_found


def test_what_is_missing_is_left_out(fitted, graph):
    few = Suggestions(
        fitted.plan.method.finder(fitted.plan, fitted.weights, fitted.released, graph), graph, np.arange(400), 399
    )
    assert next(iter(few)).pairs.shape == (2, 399 * 400)


def test_lists_of_any_codes():
    codes = np.random.default_rng(0).standard_normal((30, 3)).astype(np.float32)
    finder = CodeFinder(codes, lambda pairs: (codes[pairs[0]] * codes[pairs[1]]).sum(axis=1).astype(float))
    kept, scores = finder.best(np.array([4]), np.arange(30), 40)
    assert (kept[0, -1], scores[0, -1]) == (-1, -np.inf)
    assert sorted(kept[0, :-1].tolist()) == [node for node in range(30) if node != 4]
    cells = cells_of(finder, np.arange(30), 4)
    assert max(map(len, cells)) <= 4
    assert sorted(np.concatenate(cells).tolist()) == list(range(30))
