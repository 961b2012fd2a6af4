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

The mean q of Y is the best *linear* guess: it is drawn to :math:`\pi`, and less sure than it is right. Probabilities are

.. math:: p_{vc} = (1 - \eta)\, q_{vc}^k / \sum_b q_{vb}^k + \eta / C, \qquad \eta = 0.05,

with the same most probable class, and with a power k from 1 to 4 that the counts choose (:func:`_power`). Counts tell of sums
over cells alone: where cells are mixed and the kernel tells their nodes apart, probabilities stay less sure than right.

Source: Gaussian processes, Rasmussen and Williams (2006), chapters 2 and 5; heat kernels on graphs, Kondor and Lafferty (2002).
The counts are split in two as in the coupled bootstrap of Oliveira, Lei and Tibshirani (2021).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
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
_POWERS = 2.0 ** (np.arange(17) / 8)
_TYPICAL_POWER = 1.5
_OTHERS = 0.05  # share of nodes that are unlike their neighborhood, which no sum over cells can show
_DRAWS, _SPLIT = 3, 0.5  # how often counts are split, and how much of a draw the first part gets


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
    channels = _Channels.of(counts, counted / sizes, variance * num_classes / (num_classes - 1))
    scores, found, best = [], [], None
    for kernel, log_prior in kernels:
        images = _images(kernel, member)
        inner = np.asarray(member @ images, np.float64)
        inner = _of_counted((inner + inner.T) / 2, sizes, counted)
        for share in _SHARES:
            values, basis = np.linalg.eigh(share * inner + (1 - share) * np.diag(counted))
            one = _Linear(channels, images, basis, np.maximum(values, 0), share)
            score = one.likelihood(counts) + log_prior - 2 * np.log2(share / _TYPICAL_SHARE) ** 2
            if best is None or score > max(scores):
                best = one.of(users)
            scores.append(score)
            found.append(one.means(counts))
    assert best is not None
    mean = np.asarray(np.tensordot(softmax(np.array(scores)), np.stack(found), 1))
    power = _power(best, sp.diags(counted / sizes) @ member[:, users], counts)
    return (1 - _OTHERS) * _raised(mean, power) + _OTHERS / num_classes


@dataclass(frozen=True, eq=False)
class _Channels:
    """The directions in which classes differ: shares [C], ``vectors`` [C, C - 1] with the variance ``scales`` of a label in each.

    ``counted`` [m] are the users of cells who were counted, ``part`` [m] is their share, and ``noise`` is the variance of the
    noise of a cell in each direction.
    """

    shares: Floats
    scales: Floats
    vectors: Floats
    counted: Floats
    part: Floats
    noise: float

    @classmethod
    def of(cls, counts: Floats, part: Floats, noise: float) -> _Channels:
        shares = _shares(counts, noise)
        plane = scipy.linalg.null_space(np.ones((1, len(shares))))
        scales, vectors = np.linalg.eigh(plane.T @ (np.diag(shares) - np.outer(shares, shares)) @ plane)
        return cls(shares, np.maximum(scales, 1e-12), plane @ vectors, counts.sum(axis=1), part, noise)


@dataclass(frozen=True, eq=False)
class _Linear:
    """The Gaussian process of one kernel and share: its posterior mean is a linear map of the counts."""

    channels: _Channels
    images: Floats
    basis: Floats
    values: Floats
    share: float

    def of(self, nodes: NDArray[np.int64]) -> _Linear:
        """The same, for some nodes."""
        return replace(self, images=self.images[nodes])

    def likelihood(self, counts: Floats) -> float:
        """The log likelihood of counts, up to a constant."""
        turned, spread = self._turned(counts)
        return float(-(turned**2 / spread + np.log(spread)).sum() / 2)

    def means(self, counts: Floats) -> Floats:
        """Posterior means of the classes of nodes, kept above a floor, [n, C]."""
        turned, spread = self._turned(counts)
        weights = self.basis @ (turned / spread) * self.channels.part[:, None] * (self.share * self.channels.scales)
        moved = (self.images @ weights.astype(np.float32)).astype(np.float64) @ self.channels.vectors.T
        return _raised(np.maximum(self.channels.shares + moved, _FLOOR), 1)

    def _turned(self, counts: Floats) -> tuple[Floats, Floats]:
        seen = (counts - np.outer(self.channels.counted, self.channels.shares)) @ self.channels.vectors
        return self.basis.T @ seen, self.channels.scales * self.values[:, None] + self.channels.noise


def _raised(positive: Floats, power: float) -> Floats:
    return np.asarray(softmax(power * np.log(positive), axis=1))


def _power(one: _Linear, member: sp.csr_matrix, counts: Floats) -> float:
    r"""Choose the power with which probabilities of users add up to what cells were expected to count.

    Counts differ from their expectation by N: noise, and labels that are drawn by chance. With a fresh draw N' of the same
    covariance, :math:`Z + N'/2` and :math:`Z - 2 N'` are uncorrelated. So the second is a fair judge of what is smoothed from the
    first, by the squared distance from the sums :math:`A p` of probabilities. Labels are drawn by the smoothed shares of cells.
    Draws come in pairs of opposite signs, from a fixed seed. A weak prior (two log units for a factor of 2) is centered at 1.5.
    ``member`` is A for the users who were asked, and ``one`` is the process for them.
    """
    generator, noise, counted = np.random.default_rng(0), one.channels.noise, one.channels.counted
    chances = member @ _raised(one.means(counts), _TYPICAL_POWER) / counted[:, None]
    losses, spread = np.zeros(len(_POWERS)), 0.0
    for _ in range(_DRAWS):
        drawn = generator.normal(size=counts.shape) * np.sqrt(noise)
        drawn -= drawn.mean(axis=1, keepdims=True)
        drawn += generator.multinomial(np.rint(counted).astype(np.int64), chances) - counted[:, None] * chances
        spread += float(np.square(drawn).sum())
        for sign in (-1, 1):
            first, second = counts + sign * _SPLIT * drawn, counts - sign * drawn / _SPLIT
            mean = one.means(first)
            sums = (member @ _raised(mean, power) for power in _POWERS)
            losses += [float((expected * (expected - 2 * second)).sum()) for expected in sums]
    free = counts.size * (1 - 1 / counts.shape[1])
    scores = losses / (4 * spread) * free + 2 * np.log2(_POWERS / _TYPICAL_POWER) ** 2
    return float(_POWERS[scores.argmin()])


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
