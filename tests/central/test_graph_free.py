"""The floor where labels are public: which model is kept, and trees that are copied into arrays."""

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.ensemble import HistGradientBoostingClassifier

import sfumato as sf
from sfumato import verify
from sfumato.central import _graph_free as graph_free
from sfumato.central._graph_free import GraphFree, tree_arrays, tree_scores
from sfumato.graph._graph import Graph

EDGE = sf.EdgeLevel(directed=False)


def graph_of(y, x, seed=0):
    rng = np.random.default_rng(seed)
    source, target = rng.integers(0, len(y), (2, 3 * len(y)))
    return Graph.from_edges(source, target, len(y), directed=False, x=x.astype(np.float32), y=y).with_split(seed=seed)


def xor(n=1000, seed=0):
    """Two columns that tell the class only together, which no linear model sees."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(n, 2))
    return graph_of((x[:, 0] * x[:, 1] > 0).astype(int), x, seed)


def lines(n=600, seed=0):
    """Many weak columns, as a linear model has them."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(n, 60))
    return graph_of((x.sum(1) + rng.normal(size=n) > 0).astype(int), x, seed)


def fitted_on(graph, **settings):
    return GraphFree(**settings).calibrate(sf.Budget(1, 1e-6), EDGE, graph.public_facts(EDGE)).fit(graph)


def kept(fitted):
    (name,) = {key.partition(".")[0] for key in fitted.weights}
    return name


def test_sparse_features_of_zeros_and_ones_are_learned_as_dense_ones():
    x = (np.random.default_rng(0).random((200, 6)) < 0.3).astype(np.float32)
    dense = graph_of(x[:, 0].astype(int), x)
    sparse = replace(dense, x=sp.csr_array(x))
    assert np.array_equal(fitted_on(dense).predict(dense), fitted_on(sparse).predict(sparse))


@pytest.mark.parametrize("classes", [(0, 1), (0, 1, 2, 3), (1, 3)])
def test_copied_trees_give_the_scores_of_scikit_learn(classes):
    rng = np.random.default_rng(1)
    x = rng.normal(size=(400, 5)).astype(np.float32)
    y = np.asarray(classes)[rng.integers(0, len(classes), 400)] * (x[:, 0] > -1) + classes[0] * (x[:, 0] <= -1)
    model = HistGradientBoostingClassifier(max_iter=15, early_stopping=False).fit(x, y)
    scores = tree_scores(tree_arrays(model, 4), x)
    theirs = model.decision_function(x)
    ours = scores[:, classes[1]] - scores[:, classes[0]] if len(classes) == 2 else scores[:, classes]
    np.testing.assert_allclose(ours, theirs, atol=1e-4)
    assert set(scores.argmax(1)) <= set(classes), "a class that training lacks is never predicted"


def test_a_row_on_a_threshold_goes_where_scikit_learn_sends_it():
    x = np.linspace(0, 1, 400, dtype=np.float32)[:, None]
    model = HistGradientBoostingClassifier(max_iter=5, early_stopping=False).fit(x, (x[:, 0] > 0.3).astype(int))
    arrays = tree_arrays(model, 2)
    cuts = arrays["threshold"][arrays["left"] != arrays["right"]][:, None]
    rows = np.vstack([cuts, np.nextafter(cuts, np.float32(2)), np.nextafter(cuts, np.float32(-2))])
    scores = tree_scores(arrays, rows)
    np.testing.assert_allclose(scores[:, 1] - scores[:, 0], model.decision_function(rows), atol=1e-4)


def test_trees_are_kept_where_columns_tell_something_together_only_and_the_run_verifies(tmp_path):
    graph = xor()
    fitted = fitted_on(graph, width=1)
    assert kept(fitted) == "trees"
    assert (fitted.predict(graph) == graph.y)[graph.test_mask].mean() > 0.9
    run = fitted.save(tmp_path / "run")
    assert verify.verify(run).problems == ()
    np.testing.assert_array_equal(sf.load(run).predict_proba(graph), fitted.predict_proba(graph))


def test_trees_of_the_same_rows_are_grown_once(monkeypatch):
    made = []

    def counted(*settings, **named):
        made.append(named["random_state"])
        return HistGradientBoostingClassifier(*settings, **named)

    monkeypatch.setattr(graph_free, "_kept", {})
    monkeypatch.setattr("sklearn.ensemble.HistGradientBoostingClassifier", counted)
    graph = xor(300)
    one, two = (fitted_on(replace(graph), width=1, epochs=5) for _ in range(2))
    assert len(made) == 1
    assert {name: part.tobytes() for name, part in one.weights.items()} == {
        name: part.tobytes() for name, part in two.weights.items()
    }
    for other in (
        graph.with_roles(np.roll(graph.roles, 1)),
        replace(graph, y=1 - graph.y),
        replace(graph, x=graph.x + 1),
    ):
        fitted_on(other, width=1, epochs=5)
    assert len(made) == 4
    monkeypatch.setattr(graph_free, "_MOST_KEPT", len(graph_free._kept))
    fitted_on(xor(300, seed=1), width=1, epochs=5)
    assert len(graph_free._kept) == 4


def test_another_model_is_kept_where_it_is_better(tmp_path):
    graph = lines()
    fitted = fitted_on(graph)
    assert kept(fitted) in ("linear", "network")
    assert (fitted.predict(graph) == graph.y)[graph.test_mask].mean() > 0.85
    assert verify.verify(fitted.save(tmp_path / "run")).problems == ()


def test_trees_are_left_out_above_the_public_limits(monkeypatch):
    monkeypatch.setattr(graph_free, "_MOST_COLUMNS", 1)
    assert kept(fitted_on(xor(300), width=1, epochs=5)) != "trees"


def test_test_labels_and_arcs_are_never_read():
    graph = xor(300)
    other = Graph.from_edges([0], [1], 300, directed=False, x=graph.x, y=graph.y, roles=graph.roles)
    hidden = replace(other, y=np.where(graph.test_mask, -1, graph.y), classes=graph.classes)
    one, two = fitted_on(graph, epochs=5), fitted_on(hidden, epochs=5)
    np.testing.assert_array_equal(one.predict_proba(graph), two.predict_proba(hidden))


def test_without_validation_labels_or_features_there_is_still_a_model():
    graph = xor(300)
    roles = np.where(graph.val_mask, 3, graph.roles).astype(np.uint8)
    assert kept(fitted_on(graph.with_roles(roles), epochs=5)) == "network"
    bare = replace(graph, x=None)
    fitted = fitted_on(bare, epochs=5)
    assert fitted.predict(bare).shape == (300,)
    assert fitted.unused == ("Features are not used: the graph has none.",)


@pytest.mark.parametrize("name", ["trees", "linear"])
def test_a_model_that_found_nothing_in_features_says_so(name):
    own = np.tile(np.arange(61, dtype=np.float32), (100, 2, 1))
    empty = {"trees": {"trees.left": own}, "linear": {"linear.weight": np.zeros((2, 3))}}[name]
    part = next(iter(empty))
    public = SimpleNamespace(num_features=3)
    assert graph_free.unused_features(public, empty) == ("Features are not used: no model found anything in them.",)
    some = empty[part].copy()
    some.flat[0] += 1
    assert graph_free.unused_features(public, {part: some}) == ()
    assert graph_free.unused_features(public, {"network.weight": np.zeros(3)}) == ()


@pytest.mark.parametrize("kind", ["linear", "network"])
def test_the_unit_of_a_column_changes_no_prediction(kind, monkeypatch):
    """Ages in years or in days: the models learn on one scale, and read rows as they are."""
    monkeypatch.setattr(GraphFree, "best", lambda self, public, graph, found: found[kind == "linear"])
    monkeypatch.setattr(graph_free, "grown", lambda *rest: [])
    graph, found = lines(), []
    for factor in (1, 365):
        x = graph.x.copy()
        x[:, :5] = (x[:, :5] + 8) * factor
        own = replace(graph, x=x)
        found.append(fitted_on(own).predict_proba(own))
    np.testing.assert_allclose(found[0], found[1], atol=1e-3)
    assert (found[0].argmax(1) == graph.y)[graph.test_mask].mean() > 0.75


def test_features_within_one_are_read_as_they_are_from_the_rows_that_train():
    x = np.random.default_rng(0).random((300, 3))
    graph, method = graph_of((x[:, 0] > 0.5).astype(int), x), GraphFree(epochs=15)
    session = SimpleNamespace(seed=0, watch=SimpleNamespace(curves={}, stage=lambda name: None))
    for weights in method.trained(graph.public_facts(EDGE), graph, session):
        found = method.apply(graph.public_facts(EDGE), weights, graph).argmax(1)
        assert (found == graph.y)[graph.test_mask].mean() > 0.85
