"""Scores against scikit-learn."""

import numpy as np
import pytest
from sklearn.metrics import (
    accuracy_score,
    average_precision_score,
    balanced_accuracy_score,
    f1_score,
    log_loss,
    roc_auc_score,
)

from sfumato.errors import InputError
from sfumato.nn._metrics import accuracy, class_scores, macro_f1


@pytest.mark.parametrize("seed", range(10))
@pytest.mark.parametrize("num_classes", [2, 5, 30])
def test_scores_match_scikit_learn(seed, num_classes):
    """With 30 classes and 40 rows some classes neither occur nor are predicted."""
    rng = np.random.default_rng(seed)
    y = rng.integers(-1, num_classes, 40)
    predicted = np.where(rng.random(40) < 0.5, y, rng.integers(0, num_classes, 40)).clip(0)
    known = y >= 0
    assert accuracy(y, predicted) == pytest.approx(accuracy_score(y[known], predicted[known]))
    assert macro_f1(y, predicted, num_classes) == pytest.approx(f1_score(y[known], predicted[known], average="macro"))


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("num_classes", [2, 4])
def test_scores_of_probabilities_match_scikit_learn(seed, num_classes):
    """Probabilities are rounded, so that many are equal."""
    rng = np.random.default_rng(seed)
    y = np.append(rng.integers(-1, num_classes, 80), range(num_classes))
    chances = np.maximum(rng.dirichlet(np.full(num_classes, 0.7), len(y)).round(1), 1e-3)
    chances /= chances.sum(axis=1, keepdims=True)
    found, known = class_scores(y, chances), y >= 0
    y, chances = y[known], chances[known]
    each = [(y == label, chances[:, label]) for label in range(num_classes)]
    assert found["balanced_accuracy"] == pytest.approx(balanced_accuracy_score(y, chances.argmax(axis=1)))
    assert found["roc_auc"] == pytest.approx(np.mean([roc_auc_score(*one) for one in each]))
    rarer = [each[int((y == 1).sum() <= (y == 0).sum())]] if num_classes == 2 else each
    assert found["average_precision"] == pytest.approx(np.mean([average_precision_score(*one) for one in rarer]))
    assert found["log_loss"] == pytest.approx(log_loss(y, chances))
    assert found["brier"] == pytest.approx(np.square(chances - np.eye(num_classes)[y]).sum(axis=1).mean())


def test_the_calibration_error_is_that_of_the_told_class():
    generator = np.random.default_rng(0)
    chances = np.column_stack([np.full(30_000, 0.3), np.full(30_000, 0.7)])
    y = (generator.random(30_000) < 0.5).astype(np.int64)
    assert class_scores(y, chances)["calibration_error"] == pytest.approx(0.2, abs=0.01)
    y = (generator.random(30_000) < 0.7).astype(np.int64)
    assert class_scores(y, chances)["calibration_error"] < 0.02


def test_one_class_alone_has_no_order():
    found = class_scores(np.array([0, 0]), np.array([[0.6, 0.4], [0.2, 0.8]]))
    assert (found["roc_auc"], found["average_precision"], found["balanced_accuracy"]) == (0.5, 1.0, 0.5)


@pytest.mark.parametrize("y", [np.array([-1, -1]), np.zeros(0, np.int64)])
def test_no_labeled_row_is_an_error(y):
    with pytest.raises(InputError, match="at least one label"):
        accuracy(y, np.zeros(len(y), np.int64))
    with pytest.raises(InputError, match="at least one label"):
        macro_f1(y, np.zeros(len(y), np.int64), 2)
