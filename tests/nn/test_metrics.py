"""Scores against scikit-learn."""

import numpy as np
import pytest
from sklearn.metrics import accuracy_score, f1_score

from sfumato.errors import InputError
from sfumato.nn.metrics import accuracy, macro_f1


def test_four_nodes():
    y, predicted = np.array([0, 1, 1, -1]), np.array([0, 1, 0, 1])
    assert accuracy(y, predicted) == pytest.approx(2 / 3)
    assert macro_f1(y, predicted, 2) == pytest.approx(2 / 3)


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


def test_missing_labels_do_not_count():
    y, predicted = np.array([0, 1, -1, -1]), np.array([0, 0, 1, 0])
    assert accuracy(y, predicted) == accuracy(y[:2], predicted[:2]) == 0.5
    assert macro_f1(y, predicted, 2) == macro_f1(y[:2], predicted[:2], 2)


@pytest.mark.parametrize("y", [np.array([-1, -1]), np.zeros(0, np.int64)])
def test_no_labeled_row_is_an_error(y):
    with pytest.raises(InputError, match="at least one label"):
        accuracy(y, np.zeros(len(y), np.int64))
    with pytest.raises(InputError, match="at least one label"):
        macro_f1(y, np.zeros(len(y), np.int64), 2)
