r"""Label-only prediction smooths noisy labels over a public graph and needs no feature report.

The control that every local method must beat, and one half of the hybrid. Each known node sent its label y through a
randomizer with transition matrix :math:`T_{yr} = P(r \mid y)`, [C, R]; row r of :func:`~sfumato.local._smoothed.debiased`,
called z, is its unbiased one-hot label. The class prior :math:`\pi` is the mean of z, shrunk toward uniform by the
positive part of James and Stein's rule with the known noise. Under a Gaussian process prior,

.. math:: z = \pi + f + \text{noise}, \qquad f \sim N(0, a\,(\operatorname{diag} \pi - \pi\pi^\top) \otimes K_t),

where :math:`K_t` is the heat kernel of :mod:`~sfumato.local._heat` and the noise has the covariance of the randomizer plus
the unsmooth share :math:`1 - a` of the labels. In C - 1 uncorrelated channels of unit variance, of which the label makes
up :math:`\kappa_j`, the covariance is :math:`a \kappa_j K_t + (1 - a \kappa_j) I`; one Lanczos run a width solves for all a.

**Formal guarantee.** Everything here is post-processing: it reads the reports, T and the graph, and spends nothing beyond
the epsilon_y of the reports, whatever is tried and however often. The topology is public by assumption. Width and share
are chosen on the reports alone; true labels are never an argument.

Source: heat kernels on graphs, Kondor and Lafferty (ICML 2002); evidence by Lanczos quadrature, Ubaru, Chen and Saad
(2017); personalized PageRank propagation, Gasteiger, Bojchevski and Günnemann (ICLR 2019).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import scipy.linalg
import scipy.sparse as sp
from numpy.typing import NDArray

from sfumato._validate import check_choice, check_int, check_real, fail
from sfumato.local._heat import Floats, HeatKernel, lanczos, normalized_adjacency
from sfumato.local._smoothed import Smoothed, averaged, checked_graph, checked_reports, class_prior, debiased, spread

_FLOOR = 0.01  # of a probability before it is sharpened
_POWERS = (0.5, 1.0, 1.5, 2.0, 3.0, 4.0)
_TYPICAL_WIDTH, _TYPICAL_SHARE = 60.0, 0.9
_PROBES = 16
PROPAGATIONS: tuple[dict[str, Any], ...] = (
    *({"hops": hops} for hops in (2, 4, 8, 16)),
    *({"hops": 30, "restart": restart} for restart in (0.3, 0.1, 0.03)),
)
"""Settings of :func:`propagate_labels` that :func:`best_propagation` tries."""


def propagate_labels(
    adjacency: sp.csr_matrix,
    noisy_labels: NDArray[np.integer],
    known_mask: NDArray[np.bool_],
    transition: Floats,
    *,
    hops: int = 8,
    restart: float | None = None,
) -> Floats:
    r"""Return scores [n, C]: debiased labels after ``hops`` steps of :math:`S = D^{-1/2} A D^{-1/2}`, the prior added.

    Args:
        adjacency: A, sparse [n, n], symmetric.
        noisy_labels: integers [n]; read only where ``known_mask`` is True.
        known_mask: where there is a report, bool [n].
        transition: [C, R], P(report | label).
        hops: k, number of steps.
        restart: r, in personalized PageRank; None for plain steps.

    Without ``restart``, :math:`\pi + S^k (z - \pi)`; with restart r, :math:`\pi + \sum_{i \le k} r (1 - r)^i S^i (z - \pi)`.
    Rows of nodes without a report start at zero, and so does every isolated node after one step. Post-processing.

    Raises:
        InputError: a shape, a label, the graph, the matrix or a setting does not fit.

    >>> path = sp.csr_matrix([[0, 1, 0, 0], [1, 0, 0, 0], [0, 0, 0, 1], [0, 0, 1, 0]])
    >>> known = np.array([True, False, True, False])
    >>> propagate_labels(path, np.array([0, -1, 1, -1]), known, np.eye(2), hops=1).argmax(axis=1)[[1, 3]].tolist()
    [0, 1]
    """
    labels, known, transition = checked_reports(noisy_labels, known_mask, transition)
    step = normalized_adjacency(checked_graph(adjacency, len(labels)), self_loops=False)
    hops = check_int(low=0, hops=hops)
    if restart is not None:
        check_real(low=0, high=1, open_low=True, restart=restart)
    prior = class_prior(labels, known, transition)
    now = np.zeros((len(labels), len(prior)))
    now[known] = debiased(transition)[labels[known]] - prior
    total = now.copy() if restart is None else restart * now
    for _ in range(hops):
        now = step @ now if restart is None else (1 - restart) * (step @ now)
        total = now if restart is None else total + restart * now
    return np.asarray(prior + total)


def best_propagation(
    adjacency: sp.csr_matrix,
    noisy_labels: NDArray[np.integer],
    known_mask: NDArray[np.bool_],
    transition: Floats,
    seed: int = 0,
) -> Floats:
    """Return scores [n, C] of the one of ``PROPAGATIONS`` that best predicts the reports of a held-out third.

    ``adjacency``, ``noisy_labels``, ``known_mask`` and ``transition`` are those of :func:`propagate_labels`; ``seed`` draws the
    third.

    Arguments are those of :func:`propagate_labels`, and ``seed``, which draws the third.

    Each is tried on two thirds of the known nodes, drawn by ``seed``; the one whose predictions most often are of the
    classes that make the other reports likeliest then uses all. Post-processing.

    >>> path = sp.csr_matrix([[0, 1, 0, 0], [1, 0, 0, 0], [0, 0, 0, 1], [0, 0, 1, 0]])
    >>> best_propagation(path, np.array([0, 0, 1, 1]), np.ones(4, bool), np.eye(2)).argmax(axis=1).tolist()
    [0, 0, 1, 1]
    """
    labels, known, transition = checked_reports(noisy_labels, known_mask, transition)
    part = known & (np.random.default_rng(seed).random(len(known)) < 2 / 3)
    hidden = known & ~part
    likely = (transition >= transition.max(axis=0) * (1 - 1e-9))[:, labels[hidden]].T

    def hits(settings: dict[str, Any]) -> int:
        scores = propagate_labels(adjacency, labels, part if part.any() else known, transition, **settings)
        return int(likely[np.arange(len(likely)), scores[hidden].argmax(axis=1)].sum())

    return propagate_labels(adjacency, labels, known, transition, **max(PROPAGATIONS, key=hits))


@dataclass(frozen=True)
class HeatKernelRidge:
    """Heat-kernel ridge regression smooths debiased labels on the heat kernel; its settings are averaged by what reports say.

    For every width t in ``widths`` and share a in ``shares``, predictions for each of ``folds`` parts of the known nodes
    are made from the others, sharpened by a power (a calibration, chosen on the same fold predictions), pushed through
    T, and scored by the log likelihood of the reports they did not see. A weak public prior, centered at t = 60 and
    a = 0.9 (two log units for a factor of 2), decides where the reports cannot. ``choose="held-out"`` averages all settings,
    weighted by the exponential of that score; ``"evidence"`` puts the log marginal likelihood in its place.

    ``steps`` Lanczos steps and ``seed`` (folds, random probes of the kernel's diagonal and of the log determinant) fix the
    numerics; both are public. Kernels are cached on the instance for the last graph seen.

    Cost: ``widths x steps`` products of a sparse matrix with (folds + 1)(C - 1) columns, each about 5 sqrt(t) times. Nothing
    dense in n x n.

    Raises:
        InputError: a setting is out of range.

    >>> path = sp.csr_matrix([[0, 1, 0, 0], [1, 0, 0, 0], [0, 0, 0, 1], [0, 0, 1, 0]])
    >>> known = np.array([True, False, True, False])
    >>> model = HeatKernelRidge(widths=(2.0,), folds=2)
    >>> model.fit(path, np.array([0, -1, 1, -1]), known, np.eye(2)).probabilities.argmax(axis=1).tolist()
    [0, 0, 1, 1]
    """

    widths: tuple[float, ...] = (8.0, 15.0, 30.0, 60.0, 120.0)
    shares: tuple[float, ...] = (0.1, 0.3, 0.6, 0.9)
    choose: str = "held-out"
    folds: int = 3
    steps: int = 16
    seed: int = 0
    _cache: dict[str | float, Any] = field(default_factory=dict, init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        for name in ("widths", "shares"):
            if not isinstance(getattr(self, name), tuple) or not getattr(self, name):
                raise fail(name, getattr(self, name), "to be a tuple of one or more numbers", f"Try {name}=(0.9,).")
        for width in self.widths:
            check_real("Try 60.", low=0, high=1000, open_low=True, width=width)
        for share in self.shares:
            check_real("Try 0.9: 1 leaves no noise at all.", low=0, high=0.99, open_low=True, share=share)
        check_choice(("held-out", "evidence"), choose=self.choose)
        check_int(low=2, folds=self.folds)
        check_int(low=2, high=200, steps=self.steps)
        check_int(low=0, seed=self.seed)

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
            known_mask: Bool [n]; at least ``folds`` nodes.
            transition: [C, R], row y = distribution of the report of a node whose label is y; of rank C.

        Raises:
            InputError: a shape, a label, the graph or the matrix is not as described.
        """
        labels, known, transition = checked_reports(noisy_labels, known_mask, transition)
        if known.sum() < self.folds:
            raise fail("known_mask", int(known.sum()), f"to mark at least folds={self.folds} nodes", "Add reports.")
        adjacency = checked_graph(adjacency, len(labels))
        prior = class_prior(labels, known, transition)
        signal, forward, back = _channels(prior, transition)
        rows = np.flatnonzero(known)
        fold = np.full(len(labels), -1)
        fold[rows] = np.random.default_rng(self.seed).permutation(len(rows)) % self.folds
        fitted: list[tuple[tuple[float, float], float, Floats, Floats]] = []
        targets = np.zeros((len(labels), len(signal)), np.float32)
        targets[known] = (debiased(transition)[labels[known]] - prior) @ forward
        for width in self.widths:
            kernel = self._kernel(adjacency, width)
            for share, means, evidence in self._solve(kernel, known, fold, targets, signal):
                full = np.maximum(prior + means[0] @ back, _FLOOR)
                part = full.copy()
                part[known] = np.maximum(prior + means[1 + fold[rows], rows] @ back, _FLOOR)
                power, score = _calibrated(part[known], labels[known], transition)
                log_weight = evidence if self.choose == "evidence" else score
                log_weight -= 2 * (np.log2(width / _TYPICAL_WIDTH) ** 2 + np.log2(share / _TYPICAL_SHARE) ** 2)
                fitted.append(((width, share), float(log_weight), _sharpened(full, power), _sharpened(part, power)))
        return averaged(fitted)

    def _kernel(self, adjacency: sp.csr_matrix, width: float) -> HeatKernel:
        last = self._cache.get("graph")
        if last is None or last.shape != adjacency.shape or (last != adjacency).nnz:
            self._cache.clear()
            self._cache.update(graph=adjacency.copy(), step=normalized_adjacency(adjacency))
        if width not in self._cache:
            self._cache[width] = HeatKernel(self._cache["step"], width, self.seed)
        return self._cache[width]

    def _solve(
        self, kernel: HeatKernel, known: NDArray[np.bool_], fold: NDArray[np.int64], targets: Floats, signal: Floats
    ) -> list[tuple[float, Floats, float]]:
        """For each share: posterior means [1 + folds, n, C - 1] (first from all reports), and the log evidence."""
        num_nodes, width = targets.shape
        parts = np.stack([known, *(known & (fold != f) for f in range(self.folds))], axis=1)
        masks = np.repeat(parts, width, axis=1)
        starts = np.tile(targets, (1, self.folds + 1)) * masks
        basis, nodes, vectors = lanczos(kernel, masks, starts, self.steps)
        sizes = np.linalg.norm(starts.astype(np.float64), axis=0)
        probes = self._probes(kernel, known) if self.choose == "evidence" else None
        results = []
        for share in self.shares:
            weight = share * np.tile(signal, self.folds + 1)[:, None]
            inverse = vectors[:, 0] / (weight * nodes + 1 - weight)
            in_basis = weight * sizes[:, None] * np.einsum("kij,kj->ki", vectors, inverse)
            dual = np.einsum("ki,ink->nk", in_basis.astype(np.float32), basis)
            means = (kernel @ dual).reshape(num_nodes, self.folds + 1, width).transpose(1, 0, 2)
            evidence = 0.0
            if probes is not None:
                values, squares = probes
                quadratic = sizes[:width] ** 2 * (vectors[:width, 0] * inverse[:width]).sum(axis=1)
                spread = np.log(weight[:width, :, None] * values + 1 - weight[:width, :, None])
                log_determinant = known.sum() * (squares * spread).sum(axis=2).mean(axis=1)
                evidence = float(-0.5 * (quadratic + log_determinant).sum())
            results.append((share, means.astype(np.float64), evidence))
        return results

    def _probes(self, kernel: HeatKernel, known: NDArray[np.bool_]) -> tuple[Floats, Floats]:
        generator = np.random.default_rng(self.seed)
        signs = generator.choice(np.array([-1, 1], np.float32), (len(known), _PROBES)) * known[:, None]
        _, nodes, vectors = lanczos(kernel, known[:, None], signs, self.steps)
        return nodes, vectors[:, 0] ** 2


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
