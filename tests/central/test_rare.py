"""Rare classes: label messages are chosen and read where accuracy could not see them."""

import numpy as np
import pytest

import sfumato as sf
from sfumato.catalog import method_named
from sfumato.central._counts import class_shares, count_inputs, one_hot
from sfumato.graph._rare_outcomes import outcomes
from sfumato.nn._metrics import label_scores

EDGE, BUDGET = sf.EdgeLevel(directed=False), sf.Budget(2.0, 1e-6)


@pytest.fixture(scope="module")
def graph():
    return outcomes(4000, 5, pattern="pairs", mean_degree=30.0, clustering=2.0).with_split(seed=0)


def area(graph, method):
    chances = method.calibrate(BUDGET, EDGE, graph.public_facts(EDGE)).fit(graph).predict_proba(graph)
    return label_scores(graph.y[graph.test_mask][:, None].astype(float), chances[graph.test_mask][:, 1:])["roc_auc"]


def test_messages_find_the_rare_class(graph, fixed_key):
    assert area(graph, sf.LabelMessages()) > area(graph, method_named("graph-free")) + 0.15


def test_a_neighborhood_of_average_classes_has_no_surplus_and_the_rate_of_the_shares(graph):
    plan = sf.LabelMessages().calibrate(None, sf.NoPrivacy(), graph.public_facts(sf.NoPrivacy()))
    shares = class_shares(*one_hot(graph, 2))
    assert shares[1] < 0.1
    counts = np.array([[90, 10], [9, 1], [8, 2], [0, 0]]) * 32767
    inputs = count_inputs(plan, counts, np.full((4, 2), 0.5, np.float32), 0, np.array([0.9, 0.1], np.float32))
    surplus, direction, rates, root, own = np.split(inputs, [2, 4, 6, 7], axis=1)
    np.testing.assert_allclose(surplus, [[0, 0], [0, 0], [-1, 1], [0, 0]], atol=1e-5)
    np.testing.assert_allclose(direction[2], [-(0.5**0.5), 0.5**0.5], rtol=1e-5)
    np.testing.assert_allclose(np.exp(rates[:, 1]), [1, 1, (2 + 0.2) / (10 + 2) / 0.1, 1], rtol=1e-5)
    np.testing.assert_allclose(root[:, 0] ** 2, [100, 10, 10, 0], rtol=1e-5)
    np.testing.assert_allclose(own, np.log(0.5), rtol=1e-6)
