"""Method graph-split: what it learns, what its predictions read, what it refuses, and what its verifier notices."""

from dataclasses import replace

import numpy as np
import pytest
from central_nodes import EASY, GRAPH, accuracy, noticed
from central_nodes import INCIDENT as NODE
from central_nodes import fitted as fit

import sfumato as sf
from sfumato.central import _two_layers
from sfumato.central._arrivals import graph_free, reads_features_alone
from sfumato.central._two_layers import own_scores
from sfumato.errors import InputError
from sfumato.graph._synthetic import stochastic_block_model

SETTINGS = {"num_groups": 100, "batch_size": 50, "steps": 40, "learning_rate": 0.05, "width": 8}


def fitted(unit=NODE, epsilon=40.0, graph=GRAPH, **settings):
    return fit(sf.GraphSplit(**{**SETTINGS, **settings}), unit, graph, epsilon)


@pytest.mark.parametrize(
    "settings", [{}, {"second_hop": False}, {"dropout": 0.2}, {"optimizer": "sgd", "learning_rate": 50.0}]
)
def test_it_learns_where_noise_is_small(settings):
    assert accuracy(fitted(graph=EASY, **settings), EASY) > 0.7  # of about 0.4 for one class


def test_without_privacy_it_reads_groups_and_is_better_than_features_alone():
    run = fitted(sf.NoPrivacy(), num_groups=1, steps=100)
    alone = (own_scores(run.weights, GRAPH).argmax(1) == GRAPH.y)[GRAPH.test_mask].mean()
    assert accuracy(run, GRAPH) > alone + 0.05


def test_another_graph_is_predicted_from_features_alone_and_for_free():
    """Its arcs are not read. Without privacy they would be."""
    other = replace(stochastic_block_model(50, 3, mean_degree=10, num_features=6, seed=1), node_ids=np.arange(900, 950))
    run = fitted()
    with pytest.raises(InputError, match="Features alone predict here"):
        run.predict_proba(other)
    assert reads_features_alone(run, other)
    without = replace(other, indptr=np.zeros_like(other.indptr), indices=other.indices[:0])
    assert np.array_equal(graph_free(run, other), graph_free(run, without))
    assert np.array_equal(graph_free(run, other).argmax(1), own_scores(run.weights, other).argmax(1))
    plain = fitted(sf.NoPrivacy())
    assert not reads_features_alone(plain, other)
    with pytest.raises(InputError, match="cannot predict without a graph"):
        graph_free(plain, other)


def test_scores_inside_groups_are_those_of_the_layers():
    run = fitted()
    method = run.plan.method
    inside, alone = method.group_scores(run.weights, GRAPH), own_scores(run.weights, GRAPH)
    without = replace(GRAPH, indptr=np.zeros_like(GRAPH.indptr), indices=GRAPH.indices[:0])
    assert np.allclose(method.group_scores(run.weights, without), alone, atol=1e-5)
    assert not np.allclose(inside, alone, atol=1e-3)


@pytest.fixture(scope="module")
def run():
    return fitted(epsilon=4.0)


def test_groups_with_absent_nodes_are_left_out_under_remove_alone(monkeypatch):
    told = []
    real = _two_layers.split_steps

    def watched(*arguments, **named):
        told.append(named["leave_out"])
        return real(*arguments, **named)

    monkeypatch.setattr(_two_layers, "split_steps", watched)
    fitted()
    fitted(sf.NodeLevel(arcs="incident", relation="replace"))
    assert told == [True, False]


@pytest.mark.parametrize(
    ("field", "value", "problem"),
    [("num_groups", 200, "sampling_prob"), ("steps", 20, "steps"), ("width", 9, "shape"), ("dropout", 1.0, "dropout"),
     ("optimizer", "none", "optimizer"), ("group_seed", -1, "group_seed"), ("second_hop", 1, "second_hop"),
     ("num_groups", 2**29 + 1, "num_groups"), ("l2_clip_norm", 1.1e9, "l2_clip_norm"), ("l2_clip_norm", 9e-10, "l2_clip_norm")],
)  # fmt: skip
def test_the_verifier_notices_other_settings(run, field, value, problem):
    assert not list(noticed(run))
    assert any(problem in one for one in noticed(run, **{field: value}))


@pytest.mark.parametrize(
    ("field", "value"), [("num_groups", 2**29 + 1), ("l2_clip_norm", 1.1e9), ("l2_clip_norm", 9e-10)]
)
def test_the_method_has_the_same_limits(field, value):
    with pytest.raises(InputError, match=field):
        sf.GraphSplit(**{field: value})


def test_the_verifier_names_what_the_number_of_groups_decides(run):
    (problem,) = noticed(run, num_groups=200)
    assert problem == "event.sampling_prob: expected 0.25, as settings and public facts say, got 0.5"
