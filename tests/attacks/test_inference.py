"""Degrees, hidden features and whole graphs are found where they leave, and not where nothing does."""

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

from sfumato.attacks._attributes import Attributes, even_column, neighbor_rows, same_attribute
from sfumato.attacks._degree import Degree, degrees_of
from sfumato.attacks._graphs import WholeGraph
from sfumato.attacks._node_rows import node_rows
from sfumato.attacks._regression import regress
from sfumato.central._dpar import DPAR
from sfumato.central._edgerand import EdgeRand
from sfumato.central._gap import GAP
from sfumato.errors import InputError
from sfumato.graph._graph import Graph
from sfumato.graph._synthetic import campus, rmat
from sfumato.method.contract import Planned
from sfumato.privacy.units import NoPrivacy

GRAPH = campus(300).with_split(seed=0)


def fit(method, graph=GRAPH):
    return method.calibrate(None, NoPrivacy(), graph.public_facts(NoPrivacy())).fit(graph)


def saying(rows):
    """A model that says these probabilities and releases nothing."""
    return SimpleNamespace(predict_proba=lambda graph: np.asarray(rows, np.float32), released={})


@pytest.fixture(scope="module")
def gap():
    return fit(GAP(epochs=5))


def test_ridge_chooses_the_penalty_by_leaving_each_row_out_once():
    coins = np.random.default_rng(0)
    rows = coins.normal(size=(25, 4))
    answers = rows @ [1.0, -2.0, 0.0, 0.0] + coins.normal(size=25)
    z = (rows - rows.mean(0)) / rows.std(0)

    def solved(rows, answers, penalty):
        design, fine = np.column_stack([np.ones(len(rows)), rows]), penalty * np.eye(5)
        fine[0, 0] = 0
        return np.linalg.solve(design.T @ design + fine, design.T @ answers)

    def left_out(penalty):
        keep = ~np.eye(25, dtype=bool)
        return sum(
            (answers[i] - np.append(1, z[i]) @ solved(z[k], answers[k], penalty)) ** 2 for i, k in enumerate(keep)
        )

    best = min((25 * 10.0**power for power in range(-4, 5)), key=left_out)
    expected = np.column_stack([np.ones(25), z]) @ solved(z, answers, best)
    assert regress("ridge", rows, answers, rows) == pytest.approx(expected, abs=1e-8)


@pytest.mark.parametrize("kind", ["ridge", "neighbors"])
def test_regressions_learn_what_is_there_and_scale_by_known_rows_alone(kind):
    coins = np.random.default_rng(1)
    rows = coins.normal(size=(400, 2)) * [1.0, 1000.0]
    answers = rows[:, 0]
    found = regress(kind, rows[:300], answers[:300], rows[300:])
    assert np.corrcoef(found, answers[300:])[0, 1] > 0.9
    assert regress(kind, rows[:300], answers[:300], rows[300:310]) == pytest.approx(found[:10])


def test_ridge_on_noise_answers_about_the_mean():
    coins = np.random.default_rng(2)
    rows, answers = coins.normal(size=(200, 60)), coins.normal(size=200) + 7
    assert abs(regress("ridge", rows[:100], answers[:100], rows[100:]) - 7).mean() < 0.4
    constant = np.ones((100, 3))
    assert regress("ridge", constant, answers[:100], constant) == pytest.approx(np.full(100, answers[:100].mean()))


def test_degrees_count_neighbors_once_and_can_stay_within_some_nodes():
    graph = Graph.from_edges([0, 1, 1, 3, 3], [1, 0, 2, 1, 3], 4, directed=True, self_loops="keep")
    assert degrees_of(graph).tolist() == [1, 3, 1, 1]
    assert degrees_of(graph, np.array([0, 1, 3])).tolist() == [1, 2, 0, 1]


def test_sums_over_neighbors_give_degrees_away(gap):
    found = Degree(sees="releases").run(gap, GRAPH, seed=0)
    assert found.measures["rmse"] < 0.3 * found.measures["mean_rmse"]
    assert found.measures["spearman"] > 0.9
    assert found.scores.auc().value > 0.95


def test_released_edges_give_degrees_away():
    assert Degree(sees="releases").run(fit(EdgeRand(epochs=1)), GRAPH, seed=0).measures["rmse"] < 0.1


@pytest.mark.parametrize("regression", ["ridge", "neighbors"])
def test_predictions_of_pure_noise_have_the_error_of_the_mean(regression):
    noise = np.random.default_rng(3).dirichlet(np.ones(6), 300)
    found = Degree(regression=regression, role="all").run(saying(noise), GRAPH, seed=0)
    assert found.measures["rmse"] > 0.93 * found.measures["mean_rmse"]
    assert found.measures["mean_spearman"] == 0
    assert found.baselines["mean of known degrees"].auc().value == 0.5


def test_a_predicted_degree_below_chance_stays_below():
    """A model whose answers are of another graph: nothing turns scores around."""
    graph = rmat(200, 1500, num_classes=2).with_split(seed=0)
    degrees = degrees_of(graph)
    wrong = np.where(graph.train_mask, degrees, -degrees)
    chance = 1 / (1 + np.exp(-np.clip(wrong / degrees.max(), -1, 1)))
    found = Degree().run(saying(np.stack([chance, 1 - chance], 1)), graph, seed=0)
    assert found.scores.auc().value > 0.95
    assert set(found.baselines) == {"mean of known degrees"}


def test_equal_degrees_are_refused():
    ring = Graph.from_edges(range(30), [*range(1, 30), 0], 30, directed=False, y=[0, 1] * 15)
    with pytest.raises(InputError, match="different degrees"):
        Degree(role="all").run(saying(np.full((30, 2), 0.5)), ring, seed=0)


def test_what_leaves_is_what_anyone_may_see(gap):
    rows = node_rows(gap, GRAPH, "releases")
    assert rows.shape[0] == 300
    assert rows.shape[1] == sum(array.shape[1] for array in gap.released.values())
    said = node_rows(gap, GRAPH, "posteriors")
    assert said.mean(1) == pytest.approx(np.zeros(300), abs=1e-9)
    assert np.exp(said) / np.exp(said).sum(1, keepdims=True) == pytest.approx(gap.predict_proba(GRAPH), abs=1e-5)
    own = replace(gap, ran=Planned(gap.plan.method, gap.plan.unit, None, gap.plan.public, (), None, None))
    first = SimpleNamespace(name=next(iter(gap.released)), visible_to="the node itself")
    own = SimpleNamespace(plan=SimpleNamespace(releases=(first,)), ran=own.ran, released=gap.released)
    assert node_rows(own, GRAPH, "releases").shape[1] < rows.shape[1]
    with pytest.raises(InputError, match="hidden layer"):
        node_rows(gap, GRAPH, "embeddings")
    assert node_rows(fit(DPAR(mechanism="none", steps=2)), GRAPH, "embeddings").shape == (300, 32)


def with_hidden(coins=None):
    """Features of which column 0 is independent of all others, and posteriors that are column 0."""
    coins = np.random.default_rng(0)
    x = (coins.random((300, 6)) < 0.3).astype(np.float32)
    x[:, 0] = coins.random(300) < 0.5
    chance = 0.2 + 0.6 * x[:, 0]
    return replace(GRAPH, x=x, feature_names=()), np.stack([chance, 1 - chance], 1)


def test_a_model_that_says_the_hidden_feature_is_found_out_beside_imputation_at_chance():
    graph, said = with_hidden()
    found = Attributes(column=0).run(saying(said), graph, seed=0)
    assert found.scores.auc().value > 0.99
    assert found.measures["auc_model_alone"] > 0.99
    assert 0.3 < found.baselines["imputation from other features"].auc().value < 0.7


def test_a_model_that_says_nothing_adds_nothing_to_imputation():
    graph, _ = with_hidden()
    graph = replace(graph, x=np.column_stack([graph.x, graph.x[:, 0]]))  # another feature tells all
    found = Attributes(column=0).run(saying(np.full((300, 2), 0.5)), graph, seed=0)
    assert found.scores.auc().value == found.baselines["imputation from other features"].auc().value == 1.0
    assert found.measures["auc_model_alone"] == 0.5


def test_columns_of_the_same_attribute_are_hidden_together():
    """gender=2 is one minus gender=1: with it, imputation would be no baseline."""
    column = even_column(GRAPH.x)
    names = [name for name, hidden in zip(GRAPH.feature_names, same_attribute(GRAPH, column), strict=True) if hidden]
    assert names == ["gender=1", "gender=2"]
    found = Attributes().run(saying(np.full((300, 6), 1 / 6)), GRAPH, seed=0)
    assert found.baselines["imputation from other features"].auc().value < 0.75
    assert same_attribute(replace(GRAPH, feature_names=()), 3).sum() == 1


def test_neighbors_of_whom_the_feature_is_unknown_are_not_read():
    graph = Graph.from_edges([0, 0, 1], [1, 2, 2], 4, directed=False)
    others = np.arange(8.0).reshape(4, 2)
    for secret in (0.0, 1.0):
        hidden = np.array([1.0, 0.0, secret, secret])
        means, near = neighbor_rows(graph, others, hidden, np.array([0, 1]))
        assert near.ravel().tolist() == [0.0, 1.0, 0.5, 0.5]
        assert means.tolist() == [[3, 4], [2, 3], [1, 2], [0, 0]]


def test_hidden_features_that_are_no_zeros_and_ones_are_refused():
    graph = replace(GRAPH, x=np.random.default_rng(0).normal(size=(300, 3)).astype(np.float32), feature_names=())
    with pytest.raises(InputError, match="zeros and ones"):
        Attributes().run(saying(np.full((300, 2), 0.5)), graph, seed=0)
    with pytest.raises(InputError, match="zeros and ones"):
        Attributes(column=7).run(saying(np.full((300, 2), 0.5)), graph, seed=0)


def test_rows_that_are_equal_on_links_alone_reconstruct_the_graph():
    cliques = [(4 * block + u, 4 * block + v) for block in range(10) for u in range(4) for v in range(u)]
    graph = Graph.from_edges(*zip(*cliques, strict=True), 40, directed=False)
    said = np.random.default_rng(0).dirichlet(np.ones(5), 10).repeat(4, axis=0)
    found = WholeGraph(distance="euclidean").run(saying(said), graph, seed=0)
    assert found.measures["precision"] == found.scores.auc().value == 1.0
    assert found.measures["links"] == 60
    assert found.measures["guessing_precision"] == pytest.approx(60 / 780)


def test_ties_among_all_pairs_are_worth_a_guess():
    found = WholeGraph().run(saying(np.full((300, 2), 0.5)), GRAPH, seed=0)
    assert found.scores.auc().value == 0.5
    assert found.measures["precision"] < 2 * found.measures["guessing_precision"]


def test_released_edges_are_the_reconstruction():
    fitted = fit(EdgeRand(epochs=1))
    assert WholeGraph(sees="releases", most=100).run(fitted, GRAPH, seed=0).measures["precision"] == 1.0
    assert WholeGraph(most=100).run(fitted, GRAPH, seed=0).measures["precision"] < 0.9


def test_settings_out_of_range_are_refused():
    for make in (lambda: Degree(sees="weights"), lambda: WholeGraph(most=2), lambda: Attributes(known=0.0)):
        with pytest.raises(InputError):
            make()
