"""Link messages: one pure release from which any pair of nodes gets a score, and which pairs come first."""

from dataclasses import replace

import numpy as np
import pytest

import sfumato as sf
from sfumato import verify
from sfumato.central import _evidence as evidence
from sfumato.central._link_messages import NAME, LinkMessages
from sfumato.errors import InputError, UnsupportedUnitError
from sfumato.evaluation._links import hold_out
from sfumato.graph._graph import PublicFacts
from sfumato.graph._synthetic import campus, stochastic_block_model

EDGE, NONE = sf.EdgeLevel(directed=False), sf.NoPrivacy()
PAIRS = np.array([[0, 1, 2, 5], [5, 6, 7, 0]])


@pytest.fixture(scope="module")
def graph():
    return campus(1000, seed=1).with_split(seed=0)


@pytest.fixture(scope="module")
def fitted(graph):
    return fit(graph)


def fit(graph, epsilon=1.0, **settings):
    unit = NONE if epsilon is None else EDGE
    budget = None if epsilon is None else sf.Budget(epsilon, 0.0)
    return LinkMessages(**settings).calibrate(budget, unit, graph.public_facts(unit)).fit(graph)


def test_one_pure_release_costs_epsilon_and_no_delta(graph, fitted):
    assert (fitted.certificate.delta, [one.name for one in fitted.plan.releases]) == (0, [NAME])
    assert 0.999999 < fitted.certificate.epsilon <= 1
    assert fitted.released[NAME].shape == (1000 * 6 + 5,)
    assert fitted.weights["link.weight"].shape == (4,)


def test_counts_are_those_of_counted_edges_with_noise_of_scale_2(graph, fitted):
    clear = fit(graph, None)
    noise = (fitted.released[NAME] - clear.released[NAME])[:6000] / 32767
    assert abs(np.abs(noise).mean() / 2 - 1) < 5 / np.sqrt(noise.size)
    counts = clear.released[NAME][:6000].reshape(1000, 6) // 32767
    assert abs(counts.sum() / graph.num_arcs - 0.8) < 0.02
    assert (counts.sum(axis=1) <= np.diff(graph.indptr)).all()
    learners = clear.released[NAME][-1] / 13106
    assert 2 * learners + counts.sum() == graph.num_arcs


@pytest.mark.parametrize("seed", [0, 1])
def test_held_out_links_come_before_other_pairs_and_beat_the_floor(graph, seed):
    held = hold_out(graph, seed)
    rows = evidence.public_rows(graph)
    floor, _ = held.score(lambda pairs: evidence.cosines(rows, pairs))
    run, _ = held.score(lambda pairs: fit(held.graph).score_pairs(held.graph, pairs))
    clear, _ = held.score(lambda pairs: fit(held.graph, None).score_pairs(held.graph, pairs))
    assert floor + 0.08 < run <= clear + 0.02


def test_with_almost_no_budget_likeness_alone_decides():
    """Public likeness of nodes of one class says most here; noise must not drown it."""
    graph = stochastic_block_model(400, 4, mean_degree=8, homophily=0.9, num_features=16, seed=0).with_split(seed=0)
    held = hold_out(graph, 0)
    rows = evidence.public_rows(graph)
    floor, _ = held.score(lambda pairs: evidence.cosines(rows, pairs))
    scores = [held.score(lambda pairs: fit(held.graph, 0.01).score_pairs(held.graph, pairs))[0] for _ in range(3)]
    assert np.mean(scores) > floor - 0.01


def test_a_saved_run_verifies_and_scores_the_same(graph, fitted, tmp_path):
    run = fitted.save(tmp_path / "run")
    assert verify.verify(run).problems == ()
    scores = fitted.score_pairs(graph, PAIRS)
    assert scores.shape == (4,)
    assert scores[0] == scores[3], "the order of the two does not count"
    np.testing.assert_array_equal(sf.load(run).score_pairs(graph, PAIRS), scores)


def test_scores_read_no_edge(graph, fitted):
    bare = replace(graph, indptr=np.zeros_like(graph.indptr), indices=graph.indices[:0])
    np.testing.assert_array_equal(fitted.score_pairs(bare, PAIRS), fitted.score_pairs(graph, PAIRS))


def test_nodes_without_labels_or_features_have_scores_too(graph):
    y = graph.y.copy()
    y[::3] = -1
    some = replace(graph, y=y, x=None, feature_names=())
    held = hold_out(some, 0)
    found, _ = held.score(lambda pairs: fit(held.graph).score_pairs(held.graph, pairs))
    assert found > 0.6


def test_a_graph_almost_without_edges_is_fitted():
    lonely = sf.graph.Graph.from_edges([0], [1], 30, directed=False, y=np.arange(30) % 2).with_split(seed=0)
    for epsilon in (0.1, None):
        assert np.isfinite(fit(lonely, epsilon).score_pairs(lonely, PAIRS)).all()


def test_dense_features_count_around_their_mean():
    x = np.array([[5.0, 1.0], [5.0, 1.1], [5.0, -1.0]], np.float32)
    graph = sf.graph.Graph.from_edges([0], [1], 3, directed=False, y=[0, 0, 0], x=x)
    found = evidence.cosines(evidence.public_rows(graph), np.array([[0, 0], [1, 2]]))
    assert found[0] > found[1]


@pytest.mark.parametrize(
    "unit",
    [sf.EdgeLevel(directed=True), sf.NodeLevel(max_out_degree=4), sf.NodeLevel(arcs="incident"), sf.RecordLevel()],
)
def test_other_units_are_refused(unit):
    public = PublicFacts(100, 75, 4, 3, directed=getattr(unit, "directed", False))
    with pytest.raises(UnsupportedUnitError, match="no proof when the unit is"):
        LinkMessages().calibrate(sf.Budget(1.0, 1e-6), unit, public)


@pytest.mark.parametrize("share", [0.0, 1.0, -1, "half"])
def test_a_share_out_of_range_is_refused(share):
    with pytest.raises(InputError, match="learner_share"):
        LinkMessages(learner_share=share)


def test_classes_of_nodes_are_refused(graph, fitted):
    with pytest.raises(InputError, match="task to be link for method 'link-messages'"):
        fitted.predict(graph)


@pytest.mark.parametrize(
    ("pairs", "said"),
    [
        ([[0], [1000]], "rows from 0 to 999"),
        ([[0, 1]], "shape"),
        ([[0.0], [1.0]], "integers"),
        ([[-1], [1]], "rows from 0"),
    ],
)
def test_rows_that_are_none_are_refused(pairs, said, graph, fitted):
    with pytest.raises(InputError, match=said):
        fitted.score_pairs(graph, np.array(pairs))


def test_a_graph_without_the_labels_of_training_is_refused(graph, fitted):
    with pytest.raises(InputError, match="labels of 6 classes, as in training"):
        fitted.score_pairs(replace(graph, y=None), PAIRS)


def test_no_pairs_have_no_scores(graph, fitted):
    assert fitted.score_pairs(graph, np.empty((2, 0), int)).shape == (0,)
