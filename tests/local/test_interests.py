"""On the graph made for it, feature reports are told apart and labels without features are worth nothing."""

import numpy as np
import pytest

from sfumato.graph._graph import PublicFacts
from sfumato.graph._synthetic import interests
from sfumato.local import propagate_labels
from sfumato.local._collection import topology
from sfumato.noise.coins import SecretWords
from sfumato.randomizers._questions import Questions

SEED = bytes(range(32))


@pytest.fixture(scope="module")
def graph():
    return interests(12_000).with_split((0.5, 0.25, 0.25), seed=0)


def accuracy(graph, predicted):
    return float((predicted == graph.y)[graph.test_mask].mean())


def linear_accuracy(graph, rows):
    """Least squares fitted on all but the test nodes."""
    rows = np.column_stack((rows, np.ones(len(rows))))
    known = ~graph.test_mask
    weights = np.linalg.lstsq(rows[known], np.eye(5)[graph.y[known]], rcond=None)[0]
    return accuracy(graph, (rows @ weights).argmax(axis=1))


@pytest.mark.parametrize("settings", [{"hops": 2}, {"hops": 8}, {"hops": 30, "restart": 0.1}])
def test_labels_alone_stay_near_the_floor(graph, settings):
    clear = np.where(graph.test_mask, -1, graph.y)
    scores = propagate_labels(topology(graph), clear, ~graph.test_mask, np.eye(5), **settings)
    assert accuracy(graph, scores.argmax(axis=1)) < 0.24


@pytest.mark.parametrize("epsilon", [2.0, 4.0])
def test_mechanisms_are_told_apart(graph, epsilon):
    public = PublicFacts(graph.num_nodes, 0, 60, 5, False)
    reached = {}
    for mechanism in ("collision", "multi-bit", "one-bit"):
        randomizer = Questions(epsilon, None, mechanism=mechanism, cap=8).features(public)
        reports = randomizer.encode(graph.x, SecretWords(SEED))
        reached[mechanism] = linear_accuracy(graph, randomizer.estimate(reports).toarray())
    assert reached["collision"] > reached["multi-bit"] + 0.03
    assert reached["multi-bit"] > reached["one-bit"] + 0.015
    assert linear_accuracy(graph, graph.x.toarray()) > 0.93
