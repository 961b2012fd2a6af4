r"""The floor of PATE's students: regression on what they see of the answered images, histograms of edges, and nothing else.

With unit rows h(x) (:func:`sfumato.students._histograms.edge_histograms`) and :math:`G(x, x') = e^{-|h(x) - h(x')|^2}`, scores
are :math:`G (G_a + \lambda I)^{-1} (Y - 1 / K)` for one-hot answers Y to K classes. Of ``RIDGES`` the lambda is taken that best
predicts each answer from all others: an answer that is left out has the score
:math:`Y - 1 / K - W / \mathrm{diag}\,(G_a + \lambda I)^{-1}`, with W the weights.

Source: Saunders et al. (1998), Ridge Regression Learning Algorithm in Dual Variables.
"""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray

from sfumato.students._histograms import edge_histograms, upright

RIDGES = (0.01, 0.1, 1.0, 10.0)
"""Candidates of lambda; the first of equals is taken."""
_AT_ONCE = 1000


class EdgeRidge:
    """The floor: it sees images as the students do, but none of the pool and no augmented view."""

    def __init__(
        self, x: NDArray[np.float32], y: NDArray[np.int64], num_classes: int, *, slanted: bool = False
    ) -> None:
        self.slanted = slanted
        self.rows = self._described(x)
        gram, wanted = self._kernel(self.rows), np.eye(num_classes)[y] - 1 / num_classes
        most = -1
        for ridge in RIDGES:
            inverse = np.linalg.inv(gram + ridge * np.eye(len(y)))
            weights = inverse @ wanted
            left_out = wanted - weights / np.diag(inverse)[:, None]
            right = int((left_out.argmax(1) == y).sum())
            if right > most:
                most, self.weights = right, weights

    def predict(self, x: NDArray[np.float32]) -> NDArray[np.int64]:
        parts = (x[start : start + _AT_ONCE] for start in range(0, len(x), _AT_ONCE))
        return np.concatenate([(self._kernel(self._described(part)) @ self.weights).argmax(1) for part in parts])

    def _described(self, x: NDArray[np.float32]) -> NDArray[np.float64]:
        images = torch.from_numpy(np.ascontiguousarray(x, np.float32))
        with torch.no_grad():
            return edge_histograms(upright(images) if self.slanted else images).double().numpy()

    def _kernel(self, rows: NDArray[np.float64]) -> NDArray[np.float64]:
        return np.asarray(np.exp(2 * (rows @ self.rows.T - 1)))
