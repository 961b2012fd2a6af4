r"""Opened counts of public cells are smoothed to class probabilities of all nodes: post-processing.

Let A [m, n] say who is in which cell, and let :math:`Z = A Y + \text{noise}` be the opened counts of the one-hot labels Y, with
noise of variance :math:`\sigma^2` in each of the C - 1 directions that a total leaves free. With the class shares :math:`\pi` (of
all counts together, shrunk toward uniform as their noise demands) and a kernel K of the public graph,

.. math:: Y = \pi + f + g, \qquad f \sim N(0, a\,\Sigma \otimes K), \quad g \sim N(0, (1 - a)\,\Sigma \otimes I), \quad
    \Sigma = \operatorname{diag} \pi - \pi\pi^\top.

In the eigenvectors of :math:`\Sigma` (eigenvalues l) the counts of a channel have the covariance
:math:`l\,A (a K + (1 - a) I) A^\top + \sigma^2 I`, of m cells alone: one eigendecomposition for each kernel and share serves all
channels.
The posterior means of f are averaged over kernels and shares by the likelihood of the counts and a weak public prior.

Source: Gaussian processes, Rasmussen and Williams (2006), chapters 2 and 5; heat kernels on graphs, Kondor and Lafferty (2002).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import scipy.linalg
import scipy.sparse as sp
from numpy.typing import NDArray
from scipy.special import softmax

if TYPE_CHECKING:
    from collections.abc import Iterable

    from sfumato.local._heat import Floats, Kernel

_SHARES = (0.3, 0.6, 0.9)
_TYPICAL_SHARE = 0.9
_FLOOR = 0.01
_BLOCK = 256


def smoothed(
    kernels: Iterable[tuple[Kernel, float]], cells: NDArray[np.integer], counts: Floats, variance: float
) -> Floats:
    """Compute class probabilities [n, C] of all nodes from the opened counts of their cells.

    Args:
        kernels: kernels of the public graph, each with its log prior.
        cells: the cell of each node who was asked, from 0, -1 for the others, [n].
        counts: what was opened, [m, C]; each row sums to the users of its cell.
        variance: of the noise of one count.
    """
    users = np.flatnonzero(cells >= 0)
    member = sp.csr_matrix(
        (np.ones(len(users), np.float32), (cells[users], users)), (len(counts), len(cells)), dtype=np.float32
    )
    sizes = np.asarray(member.sum(axis=1), np.float64).ravel()
    num_classes = counts.shape[1]
    free = variance * num_classes / (num_classes - 1)
    prior = _shares(counts, sizes, free)
    plane = scipy.linalg.null_space(np.ones((1, num_classes)))
    scales, vectors = np.linalg.eigh(plane.T @ (np.diag(prior) - np.outer(prior, prior)) @ plane)
    scales, channels = np.maximum(scales, 1e-12), plane @ vectors
    seen = (counts - np.outer(sizes, prior)) @ channels
    scores, found = [], []
    for kernel, log_prior in kernels:
        images = _images(kernel, member)
        inner = np.asarray(member @ images, np.float64)
        inner = (inner + inner.T) / 2
        for share in _SHARES:
            values, basis = np.linalg.eigh(share * inner + (1 - share) * np.diag(sizes))
            spread = scales * np.maximum(values, 0)[:, None] + free
            turned = basis.T @ seen
            weights = basis @ (turned / spread) * (share * scales)
            likelihood = -(turned**2 / spread + np.log(spread)).sum() / 2
            scores.append(likelihood + log_prior - 2 * np.log2(share / _TYPICAL_SHARE) ** 2)
            mean = prior + (images @ weights.astype(np.float32)).astype(np.float64) @ channels.T
            positive = np.maximum(mean, _FLOOR)
            found.append(positive / positive.sum(axis=1, keepdims=True))
    return np.asarray(np.tensordot(softmax(np.array(scores)), np.stack(found), 1))


def _images(kernel: Kernel, member: sp.csr_matrix) -> Floats:
    """K A^T, float32 [n, m], some columns at a time."""
    blocks = range(0, member.shape[0], _BLOCK)
    return np.concatenate([kernel @ member[i : i + _BLOCK].T.toarray() for i in blocks], axis=1)


def _shares(counts: Floats, sizes: Floats, free: float) -> Floats:
    """Class shares [C] of all cells together, shrunk toward uniform as their noise demands, and kept above a tenth of it."""
    total, num_classes = sizes.sum(), counts.shape[1]
    offset = counts.sum(axis=0) / total - 1 / num_classes
    noise = len(counts) * free * (num_classes - 1) / total**2 + 1 / total
    kept = max(0.0, 1 - 2 * noise / max(float(offset @ offset), 1e-12))
    shares = np.maximum(1 / num_classes + kept * offset, 0.1 / num_classes)
    return np.asarray(shares / shares.sum())
