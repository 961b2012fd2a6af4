r"""Kernels of a public graph by sparse products, and Lanczos quadrature on them: no reports are read here.

The heat kernel is :math:`K_t = D\, e^{-tL} D` with :math:`L = I - \hat A`, where :math:`\hat A` is the adjacency with
self-loops, normalized symmetrically, and D is diagonal with :math:`D_v^{-2} \approx (e^{-tL})_{vv}`: every node has prior
variance 1, so small components and nodes of low degree are not shrunk away. The walk kernel is :math:`D S^{2k} D` with S the
same without self-loops: nodes are alike whose walks of k steps end at the same nodes, whether or not neighbors are alike.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from scipy.special import ive

Floats = NDArray[Any]  # float32 on nodes, float64 on quadrature
_TAIL = 1e-5
_DIAGONAL_PROBES = 128
_TRACE_PROBES, _TRACE_STEPS = 8, 30


def normalized_adjacency(adjacency: sp.csr_matrix, *, self_loops: bool = True) -> sp.csr_matrix:
    """Return ``D^(-1/2) A D^(-1/2)`` in float32, with one loop at every node or with none; weights are ignored."""
    looped = (adjacency != 0).astype(np.float32)
    looped = looped - sp.diags(looped.diagonal()) + self_loops * sp.eye(adjacency.shape[0], dtype=np.float32)
    scale = sp.diags(1 / np.sqrt(np.maximum(np.asarray(looped.sum(axis=1)).ravel(), 1)))
    return sp.csr_matrix(scale @ looped @ scale, dtype=np.float32)


def heat(step: sp.csr_matrix, width: float, columns: Floats) -> Floats:
    r"""Return :math:`e^{-t(I - S)} X` by its Chebyshev series :math:`e^{-t} (I_0(t) + 2 \sum_k I_k(t)\, T_k(S)) X`."""
    coefficients = ive(np.arange(int(8 * np.sqrt(width) + width / 4 + 16)), width).astype(np.float32)
    coefficients = coefficients[: np.flatnonzero(coefficients > _TAIL)[-1] + 2]
    before, now = columns, step @ columns
    total = coefficients[0] * columns + 2 * coefficients[1] * now
    for coefficient in coefficients[2:]:
        after = step @ now
        after *= 2
        after -= before
        before, now = now, after
        total += 2 * coefficient * now
    return total


class Kernel:
    """A kernel is ``D H H D`` for a symmetric map H on columns [n, k], scaled to a diagonal near 1: nothing is dense."""

    def __init__(self, half: Callable[[Floats], Floats], num_nodes: int, seed: int) -> None:
        signs = np.random.default_rng(seed).choice(np.array([-1, 1], np.float32), (num_nodes, _DIAGONAL_PROBES))
        self.half, self.scale = half, (1 / np.sqrt(np.maximum(np.square(half(signs)).mean(axis=1), 1e-12)))[:, None]

    def __matmul__(self, columns: Floats) -> Floats:
        return self.scale * self.half(self.half(self.scale * columns))


class HeatKernel(Kernel):
    """A heat kernel is ``D exp(-t L) D`` of one width on one graph."""

    def __init__(self, step: sp.csr_matrix, width: float, seed: int) -> None:
        super().__init__(lambda columns: heat(step, width / 2, columns), step.shape[0], seed)
        self.step, self.width = step, width

    def __matmul__(self, columns: Floats) -> Floats:
        return self.scale * heat(self.step, self.width, self.scale * columns)


class WalkKernel(Kernel):
    """A walk kernel is ``D S^(2k) D`` for walks of k steps on one graph; an isolated node is like no other."""

    def __init__(self, step: sp.csr_matrix, hops: int, seed: int) -> None:
        super().__init__(lambda columns: reduce(lambda now, _: step @ now, range(hops), columns), step.shape[0], seed)


def typical_width(step: sp.csr_matrix, directions: float, seed: int) -> float:
    r"""Find the width t, from 1 to 500, at which the heat kernel has as many ``directions`` as asked for, beyond one a component.

    With c connected components these are :math:`\operatorname{tr} e^{-tL} - c`.
    """
    count, component = sp.csgraph.connected_components(step, directed=False)
    flat = sp.csr_matrix(
        (1 / np.sqrt(step.diagonal()), (np.arange(len(component)), component)), (len(component), count)
    )
    flat = flat @ sp.diags(1 / np.sqrt(flat.power(2).sum(axis=0)).A1)
    signs = np.random.default_rng(seed).choice(np.array([-1.0, 1.0]), (len(component), _TRACE_PROBES))
    signs -= flat @ (flat.T @ signs)
    _, nodes, vectors = lanczos(step, np.ones_like(signs, bool), signs.astype(np.float32), _TRACE_STEPS)
    weights = (signs**2).sum(axis=0)[:, None] * vectors[:, 0] ** 2 / _TRACE_PROBES
    low, high = 0.0, np.log(500.0)
    for _ in range(20):
        middle = (low + high) / 2
        trace = (weights * np.exp(-np.exp(middle) * (1 - nodes))).sum()
        low, high = (middle, high) if trace > directions else (low, middle)
    return float(np.exp(middle))


def lanczos(
    kernel: Kernel | sp.csr_matrix, masks: NDArray[np.bool_], starts: Floats, steps: int
) -> tuple[Floats, Floats, Floats]:
    r"""Run Lanczos on the restricted kernel K from every column b of ``starts`` [n, k], which is zero outside the mask.

    The result is ``images`` :math:`K Q` [steps, n, k], not restricted, Ritz values ``nodes`` [k, steps] and eigenvectors
    ``vectors`` [k, steps, steps]: :math:`K f(K) b \approx \|b\| (K Q) V f(\theta) V^\top e_1`, where f(K) is restricted and the
    K before it is not, and :math:`b^\top f(K) b \approx \|b\|^2 \sum_i V_{1i}^2 f(\theta_i)`.
    """
    keep = masks.astype(np.float32)
    images = np.zeros((steps, *starts.shape), np.float32)
    diagonal, off = np.zeros((starts.shape[1], steps)), np.zeros((starts.shape[1], steps))
    before, now = np.zeros_like(starts), starts / np.maximum(np.linalg.norm(starts, axis=0), 1e-30)
    for i in range(steps):
        images[i] = kernel @ now
        rest = keep * images[i]
        if i:
            rest -= off[:, i - 1].astype(np.float32) * before
        diagonal[:, i] = (rest * now).sum(axis=0)
        rest -= diagonal[:, i].astype(np.float32) * now
        size = np.linalg.norm(rest, axis=0)
        off[:, i] = np.where(size > 1e-5, size, 0)
        before, now = now, np.where(size > 1e-5, rest / np.maximum(size, 1e-30), 0)
    tridiagonal = np.zeros((starts.shape[1], steps, steps))
    ladder = np.arange(steps)
    tridiagonal[:, ladder, ladder] = diagonal
    tridiagonal[:, ladder[1:], ladder[:-1]] = tridiagonal[:, ladder[:-1], ladder[1:]] = off[:, :-1]
    nodes, vectors = np.linalg.eigh(tridiagonal)
    return images, nodes, vectors
