r"""Heat kernels of a public graph by sparse products, and Lanczos quadrature on them: no reports are read here.

The kernel is :math:`K_t = D\, e^{-tL} D` with :math:`L = I - \hat A`, where :math:`\hat A` is the adjacency with self-loops,
normalized symmetrically, and D is diagonal with :math:`D_v^{-2} \approx (e^{-tL})_{vv}`: every node has prior variance 1,
so small components and nodes of low degree are not shrunk away.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from scipy.special import ive

Floats = NDArray[Any]  # float32 on nodes, float64 on quadrature
_TAIL = 1e-5
_DIAGONAL_PROBES = 128


def normalized_adjacency(adjacency: sp.csr_matrix, *, self_loops: bool = True) -> sp.csr_matrix:
    """Return ``D^(-1/2) A D^(-1/2)`` in float32, with one loop at every node or with none; weights are ignored.

    Args:
        adjacency: A, sparse [n, n].
        self_loops: whether every node gets one loop.
    """
    looped = (adjacency != 0).astype(np.float32)
    looped = looped - sp.diags(looped.diagonal()) + self_loops * sp.eye(adjacency.shape[0], dtype=np.float32)
    scale = sp.diags(1 / np.sqrt(np.maximum(np.asarray(looped.sum(axis=1)).ravel(), 1)))
    return sp.csr_matrix(scale @ looped @ scale, dtype=np.float32)


def heat(step: sp.csr_matrix, width: float, columns: Floats) -> Floats:
    r"""Return :math:`e^{-t(I - S)} X` by its Chebyshev series :math:`e^{-t} (I_0(t) + 2 \sum_k I_k(t)\, T_k(S)) X`.

    Args:
        step: S, sparse [n, n], symmetric.
        width: t.
        columns: X, [n, k].
    """
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


class HeatKernel:
    """A heat kernel is ``D exp(-t L) D`` of one width on one graph: a linear map on columns [n, k], and nothing dense."""

    def __init__(self, step: sp.csr_matrix, width: float, seed: int) -> None:
        self.step, self.width = step, width
        signs = np.random.default_rng(seed).choice(np.array([-1, 1], np.float32), (step.shape[0], _DIAGONAL_PROBES))
        variance = np.square(heat(step, width / 2, signs)).mean(axis=1)
        self.scale = (1 / np.sqrt(variance))[:, None]

    def __matmul__(self, columns: Floats) -> Floats:
        return self.scale * heat(self.step, self.width, self.scale * columns)


def lanczos(kernel: HeatKernel, masks: NDArray[np.bool_], starts: Floats, steps: int) -> tuple[Floats, Floats, Floats]:
    r"""Run Lanczos on the restricted kernel from every column of ``starts``.

    Args:
        kernel: K, a linear map on columns [n, k].
        masks: nodes to which the kernel is restricted for each column.
        starts: b, [n, k], zero outside the mask.
        steps: number of Lanczos steps, the size of the basis.

    Returns ``basis`` [steps, n, k], Ritz values ``nodes`` [k, steps] and eigenvectors ``vectors`` [k, steps, steps]:
    :math:`f(K) b \approx \|b\| Q V f(\theta) V^\top e_1` and
    :math:`b^\top f(K) b \approx \|b\|^2 \sum_i V_{1i}^2 f(\theta_i)`.
    """
    keep = masks.astype(np.float32)
    basis = np.zeros((steps, *starts.shape), np.float32)
    diagonal, off = np.zeros((starts.shape[1], steps)), np.zeros((starts.shape[1], steps))
    basis[0] = starts / np.maximum(np.linalg.norm(starts, axis=0), 1e-30)
    for i in range(steps):
        image = keep * (kernel @ basis[i])
        if i:
            image -= off[:, i - 1].astype(np.float32) * basis[i - 1]
        diagonal[:, i] = (image * basis[i]).sum(axis=0)
        image -= diagonal[:, i].astype(np.float32) * basis[i]
        if i + 1 == steps:
            break
        size = np.linalg.norm(image, axis=0)
        off[:, i] = np.where(size > 1e-5, size, 0)
        basis[i + 1] = np.where(size > 1e-5, image / np.maximum(size, 1e-30), 0)
    tridiagonal = np.zeros((starts.shape[1], steps, steps))
    ladder = np.arange(steps)
    tridiagonal[:, ladder, ladder] = diagonal
    tridiagonal[:, ladder[1:], ladder[:-1]] = tridiagonal[:, ladder[:-1], ladder[1:]] = off[:, :-1]
    nodes, vectors = np.linalg.eigh(tridiagonal)
    return basis, np.maximum(nodes, 0), vectors
