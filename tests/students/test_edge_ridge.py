"""The floor of PATE: kernel ridge regression on histograms of edges, against scikit-learn and leaving out one by one."""

import numpy as np
import pytest
import torch
from sklearn.kernel_ridge import KernelRidge

from sfumato.students import _edge_ridge as edge_ridge
from sfumato.students._edge_ridge import EdgeRidge
from sfumato.students._histograms import edge_histograms, upright


def images(n, seed=0):
    """Bars that lean one way or the other, under noise, and their classes."""
    rng = np.random.default_rng(seed)
    y = rng.integers(0, 3, n)
    x = rng.uniform(0, 0.3, (n, 1, 28, 28)).astype(np.float32)
    for i, label in enumerate(y):
        at = np.arange(4, 24)
        x[i, 0, at, {0: at, 1: 27 - at, 2: np.full(20, 14)}[label]] += 0.7
    return x, y


@pytest.mark.parametrize("slanted", [False, True])
def test_it_is_kernel_ridge_regression_on_histograms(monkeypatch, slanted):
    monkeypatch.setattr(edge_ridge, "RIDGES", (0.5,))
    (x, y), (new, _) = images(40), images(25, seed=1)
    rows, others = (edge_histograms(upright(t) if slanted else t).numpy() for t in map(torch.from_numpy, (x, new)))
    peer = KernelRidge(alpha=0.5, kernel="rbf", gamma=1).fit(rows, np.eye(3)[y] - 1 / 3)
    np.testing.assert_array_equal(EdgeRidge(x, y, 3, slanted=slanted).predict(new), peer.predict(others).argmax(1))


def test_lambda_is_the_one_that_predicts_answers_left_out(monkeypatch):
    x, y = images(30)
    y = np.where(np.arange(30) % 4 == 0, (y + 1) % 3, y)  # wrong answers, which a small lambda follows
    right = []
    for ridge in edge_ridge.RIDGES:
        monkeypatch.setattr(edge_ridge, "RIDGES", (ridge,))
        others = [np.delete(np.arange(30), i) for i in range(30)]
        right.append(sum(EdgeRidge(x[o], y[o], 3).predict(x[[i]])[0] == y[i] for i, o in enumerate(others)))
    monkeypatch.undo()
    best = edge_ridge.RIDGES[int(np.argmax(right))]
    chosen = EdgeRidge(x, y, 3)
    monkeypatch.setattr(edge_ridge, "RIDGES", (best,))
    np.testing.assert_allclose(chosen.weights, EdgeRidge(x, y, 3).weights)
    assert min(right) < max(right)


def test_it_is_right_about_clean_images():
    (x, y), (new, truth) = images(30), images(60, seed=2)
    assert (EdgeRidge(x, y, 3).predict(new) == truth).mean() > 0.95
