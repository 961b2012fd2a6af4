"""Smoothed counts become probabilities: as sure as they are right, and with the classes that the linear smoothing tells."""

import numpy as np
import pytest

from sfumato.graph._synthetic import stochastic_block_model
from sfumato.local import _opened as module
from sfumato.local._cells import cells_of, kernels
from sfumato.local._collection import topology
from sfumato.nn._metrics import class_scores

GRAPH = stochastic_block_model(1500, 3, mean_degree=8, homophily=0.75, num_features=0, seed=4).with_split(
    (0.5, 0.25, 0.25), seed=0
)
ASKED = GRAPH.train_mask | GRAPH.val_mask
CELLS = cells_of(topology(GRAPH), ASKED, 32)
KERNELS = kernels(topology(GRAPH))
NOISE = 4.0


def opened(labels, seed):
    """Counts of labels in cells, with noise that sums to zero."""
    counts = np.zeros((1 + CELLS.max(), 3))
    np.add.at(counts, (CELLS[ASKED], labels[ASKED]), 1)
    noise = np.random.default_rng(seed).normal(size=counts.shape) * NOISE
    return counts + noise - noise.mean(axis=1, keepdims=True)


def smoothed(labels, seed=0):
    return module.smoothed(KERNELS, CELLS, opened(labels, seed), NOISE**2 * 2 / 3)


@pytest.fixture
def linear(monkeypatch):
    """Without the power: means as they are."""
    monkeypatch.setattr(module, "_power", lambda *_: 1.0)
    monkeypatch.setattr(module, "_OTHERS", 0.0)


def told(labels, seeds=4):
    """Mean calibration error, log loss and accuracy on test nodes."""
    found = []
    for seed in range(seeds):
        chances = smoothed(labels, seed)[GRAPH.test_mask]
        scores, y = class_scores(labels[GRAPH.test_mask], chances), labels[GRAPH.test_mask]
        found.append((scores["calibration_error"], scores["log_loss"], (chances.argmax(axis=1) == y).mean()))
    return np.mean(found, axis=0)


def test_probabilities_are_as_sure_as_they_are_right():
    """Chance alone is about 1.2 / sqrt(375) = 0.06."""
    error, loss, right = told(GRAPH.y)
    assert error < 0.13, error
    assert loss < 0.35, loss
    assert right > 0.85


def test_means_alone_are_less_sure_than_right(linear):
    error, loss, _ = told(GRAPH.y)
    assert error > 0.2, error
    assert loss > 0.45, loss


def test_the_most_probable_class_stays(monkeypatch):
    raised = smoothed(GRAPH.y)
    monkeypatch.setattr(module, "_power", lambda *_: 1.0)
    plain = smoothed(GRAPH.y)
    assert (raised.argmax(axis=1) == plain.argmax(axis=1)).all()
    assert np.allclose(raised.sum(axis=1), 1)
    assert raised.min() >= module._OTHERS / 3


def test_labels_that_follow_no_links_are_not_sharpened(monkeypatch):
    """Labels drawn for each node alone keep the power 1; those of blocks get more."""
    chosen, real = [], module._power
    monkeypatch.setattr(module, "_power", lambda *given: chosen.append(real(*given)) or chosen[-1])
    smoothed(np.random.default_rng(5).integers(0, 3, GRAPH.num_nodes))
    smoothed(GRAPH.y)
    none, blocks = chosen
    assert none == 1
    assert blocks > 1.5, chosen


def test_parts_of_counts_are_uncorrelated():
    """The two parts of a split share the counts and no noise: at any other split one tells of the noise in the other."""
    noise, again = np.random.default_rng(6).normal(size=(2, 200_000))

    def shared(second):
        return float(np.mean((noise + module._SPLIT * again) * (noise - second * again)))

    assert abs(shared(1 / module._SPLIT)) < 0.02
    assert shared(0.9 / module._SPLIT) > 0.05
