r"""Every public image gets a class from few noisy answers: by regression on all answers, and by agreement among neighbors.

Two score matrices say what class an image has. With unit rows h(x) (:func:`sfumato.students._histograms.edge_histograms`) and
Y the one-hot answers to K classes, one is kernel ridge regression, the other the answers themselves, 0 where none was given:

.. math:: R_1 = G (G_a + \lambda I)^{-1} (Y - 1 / K), \quad G(x, x') = e^{-|h(x) - h(x')|^2}, \qquad R_2 = (Y; 0).

Both spread over the graph of nearest neighbors, :math:`Z \leftarrow \alpha S Z + (1 - \alpha) R`, with S its symmetrically
normalized similarities. On images without an answer, wrong answers are outvoted twice: by all images alike, and by the
neighborhood; an image with an answer often keeps its own. Where classes are clusters it helps to spread far; where they overlap,
to spread little or not at all. Of ``RIDGES`` and ``SPREADS`` the lambda and alpha are taken, for each matrix by itself, that best
predict answers left out.

A class with few answers has small scores wherever it lies. So the scores of each class are shifted and scaled until they have
mean :math:`p_k` and variance :math:`p_k (1 - p_k)` over all images, as the indicator of a class has that holds a share
:math:`p_k` of them, and both matrices are added. The share is estimated from the :math:`n_k` answers and ``PRIOR`` imagined
ones of each of the A classes that an answer names, :math:`p_k = (n_k + m) / (n + m A)`; no image gets another class. So a class
of one right answer is found. The price: where no image has the class of a wrong answer, some are given to it all the same.

**Formal guarantee.** Post-processing: public images, noisy answers and a public seed go in, and nothing else.

Source: Zhou et al. (2004), Learning with Local and Global Consistency; Saunders et al. (1998) for the regression.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from scipy import linalg, sparse
from torch import Tensor

Floats = NDArray[np.float32]
RIDGES = (0.1, 1.0)
"""Candidates of lambda."""
SPREADS = (0.99, 0.97, 0.9, 0.8, 0.5, 0.0)
"""Candidates of alpha; the first of equals is taken, of both. Answers themselves always spread: 0 is left out for them."""
PRIOR = 10.0
"""Imagined answers of each class, m; chosen on training images of MNIST and Fashion-MNIST (decision 0012)."""

_AT_ONCE = 500
_ROUNDS = 60  # of spreading
_FOLDS = 5
_POWER = 4  # of similarities


def label_all(rows: Tensor, y: Tensor, num_classes: int, *, neighbors: int = 5, seed: int = 0) -> Tensor:
    """Give every image a class, answered or not, from unit rows [n, d] and the answers to the first of them."""
    graph = similarities(rows, neighbors)
    kernel = torch.exp(2 * (rows @ rows[: len(y)].T - 1)).numpy()
    answers = np.eye(num_classes, dtype=np.float32)[y.numpy()]
    fold = np.random.default_rng(seed).permutation(len(y)) % min(_FOLDS, len(y))
    parts = [*(np.flatnonzero(fold != i) for i in range(fold.max() + 1)), np.arange(len(y))]
    regressed = [np.stack([_regress(kernel, answers, part, ridge) for part in parts], 1) for ridge in RIDGES]
    given = np.zeros_like(regressed[0])
    for way, part in enumerate(parts):
        given[part, way] = answers[part]
    by_all, by_neighbors = (
        _scaled(_best(graph, starts, spreads, fold, y.numpy()), answers.sum(0))
        for starts, spreads in ((regressed, SPREADS), ([given], [alpha for alpha in SPREADS if alpha]))
    )
    return torch.from_numpy((by_all + by_neighbors).argmax(1))


def similarities(rows: Tensor, neighbors: int) -> sparse.csr_matrix:
    """Join every unit row to its nearest ones: symmetrically normalized fourth powers of cosines, [n, n]."""
    count = len(rows)
    neighbors = min(neighbors, count - 1)
    cosines, nearest = np.empty((count, neighbors)), np.empty((count, neighbors), np.int64)
    for start in range(0, count, _AT_ONCE):
        products = rows[start : start + _AT_ONCE] @ rows.T
        own = torch.arange(len(products))
        products[own, start + own] = -1.0
        found = products.topk(neighbors)
        cosines[start : start + _AT_ONCE], nearest[start : start + _AT_ONCE] = found.values, found.indices
    weights = np.maximum(cosines, 0) ** _POWER
    places = np.repeat(np.arange(count), neighbors), nearest.ravel()
    graph = sparse.csr_matrix((weights.ravel(), places), shape=(count, count), dtype=np.float32)
    graph = graph + graph.T
    scale = sparse.diags(1 / np.sqrt(np.maximum(np.asarray(graph.sum(1)).ravel(), 1e-12)))
    return (scale @ graph @ scale).tocsr()


def _regress(kernel: Floats, answers: Floats, shown: NDArray[np.int64], ridge: float) -> Floats:
    """R_1 of all images from the answers shown."""
    system = kernel[np.ix_(shown, shown)]
    system[np.diag_indices(len(shown))] += ridge
    wanted = answers[shown] - 1 / answers.shape[1]
    return np.asarray(kernel[:, shown] @ linalg.solve(system, wanted, assume_a="pos"))


def _best(
    graph: sparse.csr_matrix,
    candidates: list[Floats],
    spreads: Sequence[float],
    fold: NDArray[np.int64],
    y: NDArray[np.int64],
) -> Floats:
    """Scores of all images, from the starts and the spread that best predict the answers left out of each fold.

    A start is [images, ways, classes]: a way for each fold, without its answers, and one with all.
    """
    most, found = -1, candidates[0][:, -1]
    for starts in candidates:
        for alpha in spreads:
            ends = _spread(graph, starts, alpha)
            right = int((ends[np.arange(len(y)), fold].argmax(1) == y).sum())
            if right > most:
                most, found = right, ends[:, -1]
    return found


def _scaled(scores: Floats, counts: Floats) -> Floats:
    """Scores with mean and variance of the indicators of classes, whose shares follow from the counts of answers."""
    share = np.where(counts > 0, counts + PRIOR, 0.0)
    share = share / share.sum()
    least = 1e-5 * np.abs(scores).max(0) + np.finfo(np.float32).tiny  # below it, what differs is rounding
    scores = (scores - scores.mean(0)) / np.maximum(scores.std(0), least)
    return np.where(counts > 0, share + scores * np.sqrt(share * (1 - share)), -np.inf)


def _spread(graph: sparse.csr_matrix, starts: Floats, alpha: float) -> Floats:
    """Scores [images, ways, classes] after spreading, each way by itself."""
    start = starts.reshape(len(starts), -1)
    held = start
    for _ in range(_ROUNDS if alpha else 0):
        held = alpha * (graph @ held) + (1 - alpha) * start
    return held.reshape(starts.shape)
