"""These scores compare predictions with known labels; rows with a missing label (-1) do not count."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from sfumato._validate import fail


def accuracy(y: NDArray[np.integer], predicted: NDArray[np.integer]) -> float:
    """Compute the share of labeled rows that are predicted right.

    Raises:
        InputError: no row has a label.

    >>> accuracy(np.array([0, 1, 1, -1]), np.array([0, 1, 0, 0]))
    0.6666666666666666
    """
    labeled = _labeled(y)
    return float((y[labeled] == predicted[labeled]).mean())


def macro_f1(y: NDArray[np.integer], predicted: NDArray[np.integer], num_classes: int) -> float:
    """Compute the unweighted mean of the classes' F1; a class that neither occurs nor is predicted does not count.

    Args:
        y: true classes [n]; -1 for a missing label, which does not count.
        predicted: predicted classes [n].
        num_classes: how many classes there are.

    Raises:
        InputError: no row has a label.

    >>> round(macro_f1(np.array([0, 0, 1, 1]), np.array([0, 1, 1, 1]), 2), 4)
    0.7333
    """
    labeled = _labeled(y)
    confusion = np.zeros((num_classes, num_classes), np.int64)
    np.add.at(confusion, (y[labeled], predicted[labeled]), 1)
    total = confusion.sum(0) + confusion.sum(1)
    return float((2 * np.diag(confusion)[total > 0] / total[total > 0]).mean())


def _labeled(y: NDArray[np.integer]) -> NDArray[np.bool_]:
    labeled = y >= 0
    if not labeled.any():
        raise fail("y", "no labeled row", "to hold at least one label to score against", "Check the roles.")
    return labeled
