r"""Label-only prediction smooths noisy labels over a public graph and needs no feature report.

The control that every local method must beat, and one half of the hybrid. Each known node sent its label y through a
randomizer with transition matrix :math:`T_{yr} = P(r \mid y)`, [C, R]; row r of :func:`~sfumato.local._smoothed.debiased`,
called z, is its unbiased one-hot label. The class prior :math:`\pi` is the mean of z, shrunk toward uniform by the
positive part of James and Stein's rule with the known noise. Under a Gaussian process prior,

.. math:: z = \pi + f + \text{noise}, \qquad f \sim N(0, a\,(\operatorname{diag} \pi - \pi\pi^\top) \otimes K),

where K is a kernel of :mod:`~sfumato.local._heat` and the noise has the covariance of the randomizer plus the share
:math:`1 - a` of the labels that K does not know. In C - 1 uncorrelated channels of unit variance, of which the label makes
up :math:`\kappa_j`, the covariance is :math:`a \kappa_j K + (1 - a \kappa_j) I`; one Lanczos run a kernel solves for all a.

**Formal guarantee.** Everything here is post-processing: it reads the reports, T and the graph, and spends nothing beyond
the epsilon_y of the reports, whatever is tried and however often. The topology is public by assumption. Kernel and share
are chosen on the reports alone; true labels are never an argument.

Source: heat kernels on graphs, Kondor and Lafferty (ICML 2002).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np
import scipy.linalg
import scipy.sparse as sp
from numpy.typing import NDArray

from sfumato._validate import check_fields, check_int, check_real, fail, integer
from sfumato.local._heat import Floats, HeatKernel, Kernel, WalkKernel, lanczos, normalized_adjacency, typical_width
from sfumato.local._smoothed import (
    Cache,
    Smoothed,
    averaged,
    checked_graph,
    checked_reports,
    class_prior,
    debiased,
    for_last,
    spread,
)

_FLOOR = 0.01  # of a probability before it is sharpened
_POWERS = (0.5, 1.0, 1.5, 2.0, 3.0, 4.0)
_DIRECTIONS = 15.0  # of the typical heat kernel, beyond one a component
_AROUND = (1 / 8, 1 / 4, 1 / 2, 1.0, 2.0)  # times the typical width


@dataclass(frozen=True)
class KernelRidge(ABC):
    """A kernel ridge regression smooths debiased labels on kernels; its settings are averaged by what reports say.

    For every kernel and share a in ``shares``, predictions for each of ``folds`` parts of the known nodes are made from
    the others, sharpened by a power (a calibration, chosen on the same fold predictions), pushed through T, and scored by
    the log likelihood of the reports they did not see. A weak public prior decides where the reports cannot. All
    settings are averaged, weighted by the exponential of score and prior.

    ``steps`` Lanczos steps and ``seed`` (folds, random probes of the kernel's diagonal) fix the numerics; both are public.
    Kernels are cached on the instance for the last graph seen. The cost is ``steps`` products of a kernel with (folds + 1)(C - 1)
    columns. Nothing is dense in n x n.
    """

    shares: tuple[float, ...] = (0.1, 0.3, 0.6, 0.9)
    folds: int = 5
    steps: int = 10
    seed: int = 0
    _sizes: ClassVar[str]
    _share: ClassVar[float] = 0.9  # the typical one
    _cache: Cache = field(default_factory=dict, init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        for name in ("shares", self._sizes):
            given = getattr(self, name)
            if not (given is None and name == "widths") and not (isinstance(given, tuple) and given):
                raise fail(name, given, "to be a tuple of one or more numbers", f"Try {name}=(0.9,).")
        for share in self.shares:
            check_real("Try 0.9: 1 leaves no noise at all.", low=0, high=0.99, open_low=True, share=share)
        check_fields(self, folds=integer(2), steps=integer(2, 200), seed=integer(0))

    def fit(
        self,
        adjacency: sp.csr_matrix,
        noisy_labels: NDArray[np.integer],
        known_mask: NDArray[np.bool_],
        transition: Floats,
    ) -> Smoothed:
        """Compute probabilities for all nodes by smoothing the reports of the known ones.

        Args:
            adjacency: Sparse [n, n], symmetric; weights and self-loops are ignored.
            noisy_labels: Integers [n]; read only where ``known_mask`` is True.
            known_mask: Bool [n]; at least 2 nodes; fewer than ``folds`` are left out one by one.
        """
        labels, known, transition = checked_reports(noisy_labels, known_mask, transition)
        folds = min(self.folds, int(known.sum()))
        if folds < 2:
            raise fail("known_mask", folds, "to mark at least 2 nodes", "Add reports.")
        adjacency = checked_graph(adjacency, len(labels))
        prior = class_prior(labels, known, transition)
        signal, forward, back = _channels(prior, transition)
        rows = np.flatnonzero(known)
        fold = np.full(len(labels), -1)
        fold[rows] = np.random.default_rng(self.seed).permutation(len(rows)) % folds
        fitted: list[tuple[tuple[float, float], float, Floats, Floats]] = []
        targets = np.zeros((len(labels), len(signal)), np.float32)
        targets[known] = (debiased(transition)[labels[known]] - prior) @ forward
        for size, kernel, log_prior in for_last(self._cache, adjacency, self._kernels):
            for share, means in self._solve(kernel, known, fold, targets, signal):
                full = np.maximum(prior + means[0] @ back, _FLOOR)
                part = full.copy()
                part[known] = np.maximum(prior + means[1 + fold[rows], rows] @ back, _FLOOR)
                power, score = _calibrated(part[known], labels[known], transition)
                score += log_prior - 2 * np.log2(share / self._share) ** 2
                fitted.append(((size, share), float(score), _sharpened(full, power), _sharpened(part, power)))
        return averaged(fitted)

    @abstractmethod
    def _kernels(self, adjacency: sp.csr_matrix) -> list[tuple[float, Kernel, float]]:
        """Size, kernel and log prior of all that are tried."""

    def _solve(
        self, kernel: Kernel, known: NDArray[np.bool_], fold: NDArray[np.int64], targets: Floats, signal: Floats
    ) -> list[tuple[float, Floats]]:
        """For each share: posterior means [1 + folds, n, C - 1], first from all reports."""
        num_nodes, width = targets.shape
        parts = np.stack([known, *(known & (fold != f) for f in range(fold.max() + 1))], axis=1)
        masks = np.repeat(parts, width, axis=1)
        starts = np.tile(targets, (1, parts.shape[1])) * masks
        images, nodes, vectors = lanczos(kernel, masks, starts, self.steps)
        sizes, nodes = np.linalg.norm(starts.astype(np.float64), axis=0), np.maximum(nodes, 0)
        results = []
        for share in self.shares:
            weight = share * np.tile(signal, parts.shape[1])[:, None]
            inverse = vectors[:, 0] / (weight * nodes + 1 - weight)
            dual = weight * sizes[:, None] * np.einsum("kij,kj->ki", vectors, inverse)
            means = np.einsum("ki,ink->nk", dual.astype(np.float32), images)
            shaped = means.reshape(num_nodes, parts.shape[1], width).transpose(1, 0, 2)
            results.append((share, shaped.astype(np.float64)))
        return results


@dataclass(frozen=True)
class HeatKernelRidge(KernelRidge):
    """Heat-kernel ridge regression takes heat kernels of several ``widths`` t: neighbors are alike, near and far.

    The typical width is that at which the kernel has 15 directions beyond one a component, which the public topology
    tells: 5 on a dense school, 45 on Cora. The prior is centered there, and at share 0.9 (two log units for a factor of
    2). By default 1/8, 1/4, 1/2, 1 and 2 times the typical width are tried.

    Each product of a kernel costs about 5 sqrt(t) products of a sparse matrix.

    Raises:
        InputError: a setting is out of range.

    >>> path = sp.csr_matrix([[0, 1, 0, 0], [1, 0, 0, 0], [0, 0, 0, 1], [0, 0, 1, 0]])
    >>> known = np.array([True, False, True, False])
    >>> model = HeatKernelRidge(widths=(2.0,), folds=2)
    >>> model.fit(path, np.array([0, -1, 1, -1]), known, np.eye(2)).probabilities.argmax(axis=1).tolist()
    [0, 0, 1, 1]
    """

    widths: tuple[float, ...] | None = None
    _sizes: ClassVar[str] = "widths"

    def __post_init__(self) -> None:
        super().__post_init__()
        for width in self.widths or ():
            check_real("Try 60.", low=0, high=1000, open_low=True, width=width)

    def _kernels(self, adjacency: sp.csr_matrix) -> list[tuple[float, Kernel, float]]:
        step = normalized_adjacency(adjacency)
        typical = typical_width(step, _DIRECTIONS, self.seed)
        widths = self.widths or tuple(typical * factor for factor in _AROUND)
        return [(t, HeatKernel(step, t, self.seed), -2 * float(np.log2(t / typical)) ** 2) for t in widths]


@dataclass(frozen=True)
class WalkKernelRidge(KernelRidge):
    """Walk-kernel ridge regression takes kernels of walks: nodes are alike that reach the same nodes in a few ``hops``.

    Neighbors need not be alike: where they are not, as among pages of the web, nodes that link to the same ones still
    may be. Its first kernel is plain propagation over 2 hops, solved as a regression. The prior prefers a share of 0.3.

    Raises:
        InputError: a setting is out of range.

    Both ends of a path differ from its middle:

    >>> path = sp.csr_matrix([[0, 1, 0, 0], [1, 0, 1, 0], [0, 1, 0, 1], [0, 0, 1, 0]])
    >>> known = np.array([True, True, False, False])
    >>> model = WalkKernelRidge(hops=(1,), folds=2)
    >>> model.fit(path, np.array([0, 1, -1, -1]), known, np.eye(2)).probabilities.argmax(axis=1).tolist()
    [0, 1, 0, 1]
    """

    hops: tuple[int, ...] = (1, 2)
    _sizes: ClassVar[str] = "hops"
    _share: ClassVar[float] = 0.3

    def __post_init__(self) -> None:
        super().__post_init__()
        for hops in self.hops:
            check_int(low=1, hops=hops)

    def _kernels(self, adjacency: sp.csr_matrix) -> list[tuple[float, Kernel, float]]:
        step = normalized_adjacency(adjacency, self_loops=False)
        return [(hops, WalkKernel(step, hops, self.seed), 0.0) for hops in self.hops]


def _channels(prior: Floats, transition: Floats) -> tuple[Floats, Floats, Floats]:
    """Signal shares [C - 1], map of centered z to channels [C, C - 1] of variance 1, and its inverse [C - 1, C]."""
    total = spread(prior @ transition, debiased(transition))
    plane = scipy.linalg.null_space(np.ones((1, len(prior))))
    label = np.diag(prior) - np.outer(prior, prior)
    signal, vectors = scipy.linalg.eigh(plane.T @ label @ plane, plane.T @ total @ plane)
    return np.clip(signal, 1e-9, 1), plane @ vectors, np.linalg.inv(vectors) @ plane.T


def _sharpened(positive: Floats, power: float) -> Floats:
    raised = positive**power
    return np.asarray(raised / raised.sum(axis=1, keepdims=True))


def _calibrated(positive: Floats, labels: NDArray[np.int64], transition: Floats) -> tuple[float, float]:
    scores = []
    for power in _POWERS:
        seen = np.einsum("ij,ji->i", _sharpened(positive, power), transition[:, labels])
        scores.append(float(np.log(seen).sum()))
    best = int(np.argmax(scores))
    return _POWERS[best], scores[best]
