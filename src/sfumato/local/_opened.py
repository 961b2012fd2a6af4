r"""Opened counts of public cells are smoothed to class probabilities of all nodes: post-processing.

Let A [m, n] say who is in which cell, and let :math:`Z = A Y + \text{noise}` be the opened counts of the one-hot labels Y, with
noise of variance :math:`\sigma^2` in each of the C - 1 directions that a total leaves free. With the class shares :math:`\pi` (of
all counts together, shrunk toward uniform as their noise demands) and a kernel K of the public graph,

.. math:: Y = \pi + f + g, \qquad f \sim N(0, a\,\Sigma \otimes K), \quad g \sim N(0, (1 - a)\,\Sigma \otimes I), \quad
    \Sigma = \operatorname{diag} \pi - \pi\pi^\top.

In the eigenvectors of :math:`\Sigma` (eigenvalues l) the counts of a channel have the covariance
:math:`l\,A M A^\top + \sigma^2 I` with :math:`M = a K + (1 - a) I`, of m cells alone: one eigendecomposition for each kernel and
share serves all channels.
The posterior means of f are averaged over kernels and shares by the likelihood of the counts and a weak public prior.

Of the n users of a cell k were counted, which is the sum of its counts, and nobody knows who. They are taken for a random draw
from the cell. Two different users of it are then both counted with probability :math:`k (k - 1) / (n (n - 1))`. With
:math:`w = k / n`, the row of A is w in place of 1, and the variance of the cell has besides

.. math:: l\,w (1 - w) \frac{n \operatorname{tr} M_s - 1^\top M_s 1}{n - 1},

where :math:`M_s` is the part of M on the cell, of unit diagonal. That is exact for first and second moments, and 0 if all were
counted. A cell in which nobody was counted says nothing, and is left out.

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
        counts: what was opened, [m, C]; each row sums to the users of its cell who were counted, so at most to all of them.
        variance: of the noise of one count.
    """
    users = np.flatnonzero(cells >= 0)
    member = sp.csr_matrix(
        (np.ones(len(users), np.float32), (cells[users], users)), (len(counts), len(cells)), dtype=np.float32
    )
    num_classes, heard = counts.shape[1], np.flatnonzero(counts.sum(axis=1) > 0)
    if not len(heard):
        return np.full((len(cells), num_classes), 1 / num_classes)
    counts, member = counts[heard], member[heard]
    sizes, counted = np.asarray(member.sum(axis=1), np.float64).ravel(), counts.sum(axis=1)
    part = counted / sizes
    free = variance * num_classes / (num_classes - 1)
    prior = _shares(counts, free)
    plane = scipy.linalg.null_space(np.ones((1, num_classes)))
    scales, vectors = np.linalg.eigh(plane.T @ (np.diag(prior) - np.outer(prior, prior)) @ plane)
    scales, channels = np.maximum(scales, 1e-12), plane @ vectors
    seen = (counts - np.outer(counted, prior)) @ channels
    scores, found = [], []
    for kernel, log_prior in kernels:
        images = _images(kernel, member)
        inner = np.asarray(member @ images, np.float64)
        inner = _of_counted((inner + inner.T) / 2, sizes, counted)
        for share in _SHARES:
            values, basis = np.linalg.eigh(share * inner + (1 - share) * np.diag(counted))
            spread = scales * np.maximum(values, 0)[:, None] + free
            turned = basis.T @ seen
            weights = basis @ (turned / spread) * part[:, None] * (share * scales)
            likelihood = -(turned**2 / spread + np.log(spread)).sum() / 2
            scores.append(likelihood + log_prior - 2 * np.log2(share / _TYPICAL_SHARE) ** 2)
            mean = prior + (images @ weights.astype(np.float32)).astype(np.float64) @ channels.T
            positive = np.maximum(mean, _FLOOR)
            found.append(positive / positive.sum(axis=1, keepdims=True))
    return np.asarray(np.tensordot(softmax(np.array(scores)), np.stack(found), 1))


def _of_counted(inner: Floats, sizes: Floats, counted: Floats) -> Floats:
    """The covariance of the sums over those who were counted, from that of the sums over all users of the cells, [m, m]."""
    part = counted / sizes
    unknown = part * (1 - part) * np.maximum(sizes**2 - inner.diagonal(), 0) / np.maximum(sizes - 1, 1)
    return np.asarray(inner * np.outer(part, part) + np.diag(unknown))


def _images(kernel: Kernel, member: sp.csr_matrix) -> Floats:
    """K A^T, float32 [n, m], some columns at a time."""
    blocks = range(0, member.shape[0], _BLOCK)
    return np.concatenate([kernel @ member[i : i + _BLOCK].T.toarray() for i in blocks], axis=1)


def _shares(counts: Floats, free: float) -> Floats:
    """Class shares [C] of all cells together, shrunk toward uniform as their noise demands, and kept above a tenth of it."""
    total, num_classes = counts.sum(), counts.shape[1]
    offset = counts.sum(axis=0) / total - 1 / num_classes
    noise = len(counts) * free * (num_classes - 1) / total**2 + 1 / total
    kept = max(0.0, 1 - 2 * noise / max(float(offset @ offset), 1e-12))
    shares = np.maximum(1 / num_classes + kept * offset, 0.1 / num_classes)
    return np.asarray(shares / shares.sum())
