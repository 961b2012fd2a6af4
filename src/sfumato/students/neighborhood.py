r"""Every public image gets a class from few noisy answers: by regression on all answers, then by agreement among neighbors.

With unit rows h(x) (:func:`sfumato.students.histograms.edge_histograms`), kernel ridge regression gives every image
scores

.. math:: R = G (G_a + \lambda I)^{-1} (Y - 1 / K) D^{-1/2}, \qquad G(x, x') = e^{-|h(x) - h(x')|^2},

with Y the one-hot answers to K classes, and D how often each class was answered (its root is halfway to equal mass for all).
The scores spread over the graph of nearest neighbors, :math:`Z \leftarrow \alpha S Z + (1 - \alpha) R`, with S its
symmetrically normalized similarities. Wrong answers are outvoted twice: by all images alike, and by the neighborhood. Where
classes are clusters it helps to spread far; where they overlap, to spread little or not at all. Of ``RIDGES`` and ``SPREADS``
the lambda and alpha are taken that best predict answers left out.

**Formal guarantee.** Post-processing: public images, noisy answers and a public seed go in, and nothing else.

Source: Zhou et al. (2004), Learning with Local and Global Consistency; Saunders et al. (1998) for the regression.
"""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray
from scipy import linalg, sparse
from torch import Tensor

Floats = NDArray[np.float32]
RIDGES = (0.1, 1.0)
"""Candidates of lambda."""
SPREADS = (0.99, 0.97, 0.9, 0.8, 0.5, 0.0)
"""Candidates of alpha; the first of equals is taken, of both."""

_AT_ONCE = 500
_ROUNDS = 60  # of spreading
_FOLDS = 5
_POWER = 4  # of similarities


def label_all(rows: Tensor, y: Tensor, num_classes: int, *, neighbors: int = 5, seed: int = 0) -> Tensor:
    """Give every image a class, answered or not.

    Args:
        rows: one unit row an image, the answered ones first.
        y: answers to these rows.
        num_classes: number of classes, which is public.
        neighbors: number of images to which an image is joined.
        seed: decides the folds that choose lambda and alpha.

    Shapes: [n, d] and [answered] to [n].

    >>> rows = torch.eye(2).repeat(6, 1)  # two kinds of images, in turn; the answer to row 2 is wrong
    >>> label_all(rows, torch.tensor([0, 1, 1, 1, 0, 1]), 2).tolist()
    [0, 1, 0, 1, 0, 1, 0, 1, 0, 1, 0, 1]
    """
    graph = similarities(rows, neighbors)
    kernel = torch.exp(2 * (rows @ rows[: len(y)].T - 1)).numpy()
    answers = np.eye(num_classes, dtype=np.float32)[y.numpy()]
    fold = np.random.default_rng(seed).permutation(len(y)) % min(_FOLDS, len(y))
    best, found = -1, answers
    for ridge in RIDGES:
        held = [_scores(kernel, answers, np.flatnonzero(fold != i), ridge) for i in range(fold.max() + 1)]
        starts = np.stack([*held, _scores(kernel, answers, np.arange(len(y)), ridge)], 1)
        for alpha in SPREADS:
            ends = _spread(graph, starts, alpha)
            right = int((ends[np.arange(len(y)), fold].argmax(1) == y.numpy()).sum())
            if right > best:
                best, found = right, ends[:, -1]
    return torch.from_numpy(found.argmax(1))


def similarities(rows: Tensor, neighbors: int) -> sparse.csr_matrix:
    """Join every row to its nearest ones: symmetrically normalized fourth powers of cosines.

    Shapes: unit rows [n, d] to [n, n].

    >>> similarities(torch.tensor([[1.0, 0.0], [1.0, 0.0], [0.0, 1.0]]), 1).toarray().round(3).tolist()
    [[0.0, 1.0, 0.0], [1.0, 0.0, 0.0], [0.0, 0.0, 0.0]]
    """
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


def _scores(kernel: Floats, answers: Floats, shown: NDArray[np.int64], ridge: float) -> Floats:
    """R of all images from the answers shown."""
    system = kernel[np.ix_(shown, shown)]
    system[np.diag_indices(len(shown))] += ridge
    known = answers[shown]
    wanted = (known - 1 / known.shape[1]) / np.sqrt(np.maximum(known.sum(0), 1))
    return np.asarray(kernel[:, shown] @ linalg.solve(system, wanted, assume_a="pos"))


def _spread(graph: sparse.csr_matrix, starts: Floats, alpha: float) -> Floats:
    """Scores [images, ways, classes] after spreading, each way by itself."""
    start = starts.reshape(len(starts), -1)
    held = start
    for _ in range(_ROUNDS if alpha else 0):
        held = alpha * (graph @ held) + (1 - alpha) * start
    return held.reshape(starts.shape)
