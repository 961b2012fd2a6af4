"""Least squares on pixels is the floor that students of PATE stand beside."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray


class Ridge:
    """Ridge is the floor: least squares on the pixels of the answered queries, without the pool.

    ``x`` [n, ...] and ``y`` [n] are the answered rows and their classes, of which there are ``num_classes``.

    >>> Ridge(np.array([[-9.0], [9.0]]), np.array([0, 1]), 2).predict(np.array([[-1.0], [1.0]])).tolist()
    [0, 1]
    """

    def __init__(self, x: NDArray[np.float32], y: NDArray[np.int64], num_classes: int) -> None:
        rows = self._rows(x)
        self.weights = np.linalg.solve(rows.T @ rows + 10.0 * np.eye(rows.shape[1]), rows.T @ np.eye(num_classes)[y])

    def predict(self, x: NDArray[np.float32]) -> NDArray[np.int64]:
        """Predict the classes [rows] of rows ``x``."""
        return np.asarray((self._rows(x) @ self.weights).argmax(1))

    def _rows(self, x: NDArray[np.float32]) -> NDArray[np.float64]:
        flat = x.reshape(len(x), -1).astype(np.float64)
        return np.concatenate([flat, np.ones((len(x), 1))], 1)
