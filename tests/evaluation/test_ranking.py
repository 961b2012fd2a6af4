"""Ranks of held-out links in whole lists, and the scores that are made of them."""

import numpy as np
import pytest

from sfumato.evaluation._links import adamic_adar, hold_out
from sfumato.evaluation._ranking import lists_of, measures, ranks_of
from sfumato.graph._subgraph import adjacency
from sfumato.graph._synthetic import stochastic_block_model

GRAPH = stochastic_block_model(300, 3, mean_degree=12, seed=0)


def test_lists_hold_all_others_but_training_links():
    held = hold_out(GRAPH, 0)
    before, after = adjacency(GRAPH), adjacency(held.graph)
    lists = held.lists(0)
    assert len(lists.nodes) == 200
    for node in lists.nodes.tolist():
        others, there = lists.of(node)
        assert node not in others
        assert after[[node] * len(others), others].sum() == 0
        assert len(others) == 299 - after[[node]].sum()
        np.testing.assert_array_equal(there, np.asarray(before[[node] * len(others), others]).ravel() == 1)


def test_who_knows_has_all_and_who_guesses_what_chance_has(monkeypatch):
    held, links = hold_out(GRAPH, 0), adjacency(GRAPH)
    lists = held.lists(0)
    assert lists.measured(lambda pairs: np.asarray(links[tuple(pairs)]).ravel())[1] == 1.0
    guessed = lists.measured(lambda pairs: np.random.default_rng(0).random(pairs.shape[1]))
    assert abs(guessed[1] - 50 / 288) < 0.08
    assert lists.measured(lambda pairs: np.zeros(pairs.shape[1]))[1] == 0, "of equal scores half come before"
    monkeypatch.setattr("sfumato.evaluation._ranking._AT_ONCE", 700)
    assert lists.measured(lambda pairs: adamic_adar(held.graph, pairs)) == held.lists(0).measured(
        lambda pairs: adamic_adar(held.graph, pairs)
    )


def test_large_graphs_have_fewer_lists(monkeypatch):
    held = hold_out(GRAPH, 0)
    monkeypatch.setattr("sfumato.evaluation._ranking._PAIRS", 300 * 30)
    assert len(lists_of(held.graph, held.missing, 0).nodes) == 30
    assert set(lists_of(held.graph, held.missing, 0).nodes) != set(lists_of(held.graph, held.missing, 1).nodes)


def test_common_neighbors_are_the_same_of_pairs_and_of_lists():
    nodes, others = np.divmod(np.arange(300 * 300), 300)
    every = adamic_adar(GRAPH, np.stack((nodes, others)))
    some = np.random.default_rng(0).integers(300 * 300, size=50)
    np.testing.assert_allclose(adamic_adar(GRAPH, np.stack((nodes[some], others[some]))), every[some])


def test_scores_by_hand():
    assert ranks_of(np.array([1.0, 1, 1]), np.array([True, False, False])).tolist() == [2.0]
    ten, fifty, first, gain = measures([np.array([3.0, 30.0]), np.array([100.0])])
    assert (ten, fifty, first) == (pytest.approx(1 / 3), pytest.approx(2 / 3), pytest.approx((1 / 3 + 0.01) / 2))
    assert gain == pytest.approx((1 / np.log2(4) + 1 / np.log2(31)) / (1 + 1 / np.log2(3)) / 2)
