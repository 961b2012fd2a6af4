"""Amounts are the Shapley values that permutations give, add up to the log-odds, and follow from release and own row alone."""

from dataclasses import replace
from itertools import permutations

import numpy as np
import pytest

import sfumato as sf
from sfumato.catalog import METHODS as CATALOG
from sfumato.central._linear import Linear
from sfumato.central._lpgnet import LPGNet
from sfumato.errors import InputError, NotFittedError
from sfumato.graph import Graph, Targets, stochastic_block_model

EDGE, NODE = sf.EdgeLevel(directed=False), sf.NodeLevel(max_out_degree=10)
METHODS = {
    "linear": Linear(epochs=5),
    "graph-free": sf.GraphFree(epochs=5),
    "mlp": sf.MLP(epochs=2),
    "gap": sf.GAP(epochs=2),
    "progap": sf.ProGAP(epochs=2),
    "label-messages": sf.LabelMessages(epochs=5),
}


@pytest.fixture(scope="module")
def graph():
    return stochastic_block_model(90, 3, mean_degree=12, num_features=4, seed=0).with_split()


def fit(method, unit, graph):
    return method.calibrate(sf.Budget(4.0, 1e-6), unit, graph.public_facts(unit)).fit(graph)


def log_odds(fitted, graph, rows):
    table = np.log(fitted.predict_proba(graph)[rows].astype(np.float64))
    return table - table.mean(axis=-1, keepdims=True)


def test_every_method_that_explains_is_tested_here():
    assert {name for name, method in CATALOG.items() if method.card.explains} == set(METHODS)


RUNS = [(name, unit) for name in METHODS for unit in (EDGE, NODE) if (name, unit) != ("graph-free", NODE)]


@pytest.mark.parametrize(("name", "unit"), RUNS, ids=lambda one: getattr(one, "name", one))
def test_amounts_add_up_and_read_no_other_node(graph, name, unit):
    fitted, node = fit(METHODS[name], unit, graph), 7
    found = fitted.explain(graph, node)
    expected = log_odds(fitted, graph, node)
    assert np.abs(found.log_odds - expected).max() < 1e-5
    assert np.abs(found.amounts.sum(axis=1)).max() < 1e-9  # of all classes together nothing moves
    assert np.abs(found.amounts).max() > 1e-3
    if unit is NODE:
        x = np.random.default_rng(1).normal(size=graph.x.shape).astype(np.float32)
        x[node] = graph.x[node]
        none = np.zeros(0, np.int64)
        other = Graph.from_edges(none, none, 90, directed=False, x=x, roles=graph.roles)
        again = fitted.explain(other, node)
        assert again.parts == found.parts
        assert (again.amounts == found.amounts).all()
        x[node] *= -1
        assert (fitted.explain(replace(other, x=x), node).amounts != found.amounts).any()


@pytest.mark.parametrize("name", ["linear", "gap"])
def test_amounts_are_means_over_all_orders_of_the_parts(graph, name):
    fitted = fit(METHODS[name], NODE, graph)
    found = fitted.explain(graph, 7)
    features = [f"feature {at}" for at in range(4)]
    hops = [] if name == "linear" else ["hop 1, released row", "hop 2, released row"]
    parts = [*features, *hops]

    def value(there):
        if name == "linear":  # of centered rows, with the head as it was released
            row = graph.x[7] / np.linalg.norm(graph.x[7]) - fitted.weights["center"]
            row = np.array([part in there for part in features]) * row / np.linalg.norm(row)
            scores = (fitted.weights["head.weight"] @ row + fitted.weights["head.bias"]) * fitted.weights["scale"]
            return scores - scores.mean()
        x, released = graph.x.copy(), {one: rows.copy() for one, rows in fitted.released.items()}
        x[7] *= np.array([part in there for part in features])
        for hop in (1, 2):
            released[f"aggregate/{hop}"][7] *= f"hop {hop}, released row" in there
        return log_odds(replace(fitted, released=released), replace(graph, x=x), 7)

    known = {}

    def seen(there):
        return known.setdefault(frozenset(there), None if frozenset(there) in known else value(there))

    orders = list(permutations(parts))
    for part in parts[-2:]:
        gains = [seen(one[: one.index(part) + 1]) - seen(one[: one.index(part)]) for one in orders]
        mean, amount = np.mean(gains, axis=0), found.amounts[found.parts.index(part)]
        assert np.abs(mean - amount).max() < 1e-5
        assert np.abs(gains[0] - amount).max() > 1e-5 or name == "linear"  # one order alone gives something else
    assert np.abs(seen(()) - found.baseline).max() < 1e-5


def test_columns_of_words_are_one_part_with_their_word(graph):
    named = replace(graph, feature_names=("dorm=north", "dorm=south", "age", "score"), assumed_public=())
    found = fit(Linear(epochs=5), NODE, replace(named, x=np.abs(named.x) * [1, 0, 1, 1])).explain(named, "7")
    assert sorted(found.parts) == ["age", "dorm", "score"]
    assert found.columns()["part"][0] == "baseline"
    assert list(found.frame().columns) == ["node", "part", "value", "log_odds(0)", "log_odds(1)", "log_odds(2)"]


def test_many_columns_of_a_network_are_one_part():
    wide = stochastic_block_model(90, 3, mean_degree=12, num_features=14, seed=0).with_split()
    found = fit(sf.GAP(epochs=2), EDGE, wide).explain(wide, 3)
    assert set(found.parts) == {"own features", "hop 1, released row", "hop 2, released row"}
    assert "14 columns have too many subsets" in found.how
    assert len(fit(Linear(epochs=5), EDGE, wide).explain(wide, 3).parts) == 14


def test_without_features_the_released_row_is_all(graph):
    bare = replace(graph, x=None, feature_names=())
    fitted = fit(sf.LabelMessages(epochs=5), EDGE, bare)
    assert not fitted.predicts_alone  # neighbors share classes here, so messages are kept
    found = fitted.explain(bare, 7)
    assert found.parts == ("released row",)
    assert np.abs(found.log_odds - log_odds(fitted, bare, 7)).max() < 1e-5


def test_another_graph_is_explained_by_the_rows_that_were_paid_for(graph):
    other = stochastic_block_model(80, 3, mean_degree=12, num_features=4, seed=3).with_split()
    fitted = fit(sf.GAP(epochs=2), EDGE, graph)
    with pytest.raises(InputError, match="Expected the fitted graph"):
        fitted.explain(other, 7)
    late = fitted.calibrate_inference(sf.Budget(4.0, 1e-6), EDGE, other.public_facts(EDGE)).fit(other)
    assert np.abs(late.explain(other, 7).log_odds - log_odds(late, other, 7)).max() < 1e-5


def test_several_labels_have_log_odds_of_their_own(graph):
    values = np.stack([graph.y == 0, graph.y < 2], axis=1)
    both = replace(graph, y=None, classes=(), targets=Targets("multilabel", values), assumed_public=())
    fitted = fit(sf.MLP(epochs=2), EDGE, both)
    chance = fitted.predict_proba(both)[7].astype(np.float64)
    assert np.abs(fitted.explain(both, 7).log_odds - np.log(chance / (1 - chance))).max() < 1e-5


def test_what_cannot_be_explained_is_refused(graph):
    fitted = fit(Linear(epochs=5), EDGE, graph)
    with pytest.raises(InputError, match="Expected the id of a node of the run, got 'bob'"):
        fitted.explain(graph, "bob")
    with pytest.raises(InputError, match="to predict a node from its own features and its released rows alone"):
        fit(LPGNet(epochs=1), EDGE, graph).explain(graph, 7)
    number = replace(graph, y=None, classes=(), targets=Targets("number", graph.y, limits=(0, 2)), assumed_public=())
    with pytest.raises(InputError, match="A number has no log-odds"):
        fit(sf.MLP(epochs=1), EDGE, number).explain(number, 7)
    with pytest.raises(NotFittedError):
        fitted.plan.explain(graph, 7)
