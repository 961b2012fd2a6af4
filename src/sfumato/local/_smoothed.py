"""Smoothing reads label reports through these functions: unbiased reports, shares of the classes, and the result."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp
import scipy.special
from numpy.typing import NDArray

from sfumato._validate import fail

if TYPE_CHECKING:
    from collections.abc import Callable

    from sfumato.local._heat import Floats

MOST_CONDITION = 1e6  # of a transition matrix: beyond it reports say nothing


@dataclass(frozen=True, eq=False)
class Smoothed:
    """A smoothing ends with class probabilities of every node, and with what they were made with.

    ``probabilities`` [n, C] use every report; ``held_out`` [n, C] leave out, at a known node, its own report and those of
    its fold, so that a later model can weigh them against that report; elsewhere the two are equal. ``width`` and ``share``
    are the best t and a, ``log_weights`` the natural-log score of every (t, a) that took part, ``evidence`` the best of them.
    """

    probabilities: Floats
    held_out: Floats
    width: float
    share: float
    evidence: float
    log_weights: dict[tuple[float, float], float]


def debiased(transition: Floats) -> Floats:
    r"""Compute the matrix B, [R, C]: what each report says of the label, without bias.

    :math:`B = W T^\top (T W T^\top)^{-1}`, W the inverse of the chance of each report under a uniform label: among all
    unbiased ones (:math:`T B = I`) that of least variance there, and :math:`T^{-1}` where R = C.
    """
    weighted = transition.T / np.maximum(transition.sum(axis=0), 1e-300)[:, None]
    return np.asarray(weighted @ np.linalg.inv(transition @ weighted))


def class_prior(noisy_labels: NDArray[np.integer], known_mask: NDArray[np.bool_], transition: Floats) -> Floats:
    r"""Estimate the class shares [C] from reports: debiased counts, shrunk toward uniform as their noise demands.

    With debiased shares s and their summed variance v, :math:`\pi = 1/C + (1 - 2 v / \|s - 1/C\|^2)_+ (s - 1/C)`, kept
    above a tenth of uniform. (Twice the noise: a wrong prior misleads more than a flat one.)
    """
    labels, known, transition = checked_reports(noisy_labels, known_mask, transition)
    (num_classes, num_outputs), inverse = transition.shape, debiased(transition)
    counts = np.bincount(labels[known], minlength=num_outputs) / known.sum()
    uniform = 1 / num_classes
    offset = counts @ inverse - uniform
    kept = max(0.0, 1 - 2 * np.trace(spread(counts, inverse)) / known.sum() / max(float(offset @ offset), 1e-12))
    shares = np.maximum(uniform + kept * offset, 0.1 * uniform)
    return np.asarray(shares / shares.sum())


def spread(shares: Floats, values: Floats) -> Floats:
    """Compute the covariance [C, C] of a row of ``values`` [R, C] that is drawn with probabilities ``shares`` [R]."""
    mean = shares @ values
    return np.asarray((values * shares[:, None]).T @ values - np.outer(mean, mean))


def averaged(fitted: list[tuple[tuple[float, float], float, Floats, Floats]]) -> Smoothed:
    """Average fits, each (settings, log weight, all probabilities, held-out ones), by the exponential of the weight."""
    logs = np.array([log_weight for _, log_weight, _, _ in fitted])
    weights = scipy.special.softmax(logs)
    full, part = (np.asarray(sum(w * item[i] for w, item in zip(weights, fitted, strict=True))) for i in (2, 3))
    (width, share), evidence = fitted[int(logs.argmax())][:2]
    return Smoothed(full, part, width, share, evidence, {item[0]: item[1] for item in fitted})


Cache = dict[str, tuple[sp.csr_matrix, Any]]


def for_last(cache: Cache, adjacency: sp.csr_matrix, make: Callable[[sp.csr_matrix], Any]) -> Any:
    """Return what is made of a graph; what was made of the last one is kept."""
    last = cache.get("last")
    if last is None or last[0].shape != adjacency.shape or (last[0] != adjacency).nnz:
        last = cache["last"] = adjacency.copy(), make(adjacency)
    return last[1]


def checked_graph(adjacency: sp.csr_matrix, num_nodes: int) -> sp.csr_matrix:
    """Return the graph as CSR, or refuse what is not a symmetric sparse matrix of that many rows."""
    if not sp.issparse(adjacency) or adjacency.shape != (num_nodes, num_nodes):
        got = getattr(adjacency, "shape", type(adjacency).__name__)
        raise fail("adjacency", got, f"to be a sparse matrix of shape {(num_nodes, num_nodes)}", "One row per label.")
    adjacency = sp.csr_matrix(adjacency)
    if (adjacency != adjacency.T).nnz:
        raise fail("adjacency", "an asymmetric matrix", "to be symmetric", "Pass (A + A.T) > 0 for undirected edges.")
    return adjacency


def checked_reports(
    noisy_labels: NDArray[np.integer], known_mask: NDArray[np.bool_], transition: Floats
) -> tuple[NDArray[np.int64], NDArray[np.bool_], Floats]:
    """Return reports, mask and matrix, or refuse those that do not fit each other."""
    labels, known, matrix = np.asarray(noisy_labels), np.asarray(known_mask), np.asarray(transition, np.float64)
    if labels.ndim != 1 or not np.issubdtype(labels.dtype, np.integer):
        raise fail("noisy_labels", f"{labels.dtype} {labels.shape}", "to be a vector of integers", "Pass class codes.")
    if known.dtype != bool or known.shape != labels.shape:
        got, expected = f"{known.dtype} {known.shape}", f"to be bool of shape {labels.shape}"
        raise fail("known_mask", got, expected, "Give True or False for each report.")
    if matrix.ndim != 2 or not 2 <= matrix.shape[0] <= matrix.shape[1]:
        raise fail(
            "transition", matrix.shape, "to have a row a class, at least 2, and no fewer columns", "Transpose it?"
        )
    if (matrix < 0).any() or not np.allclose(matrix.sum(axis=1), 1):
        raise fail("transition", matrix.sum(axis=1).tolist(), "to have nonnegative rows that sum to 1", "Transpose it?")
    if np.linalg.cond(matrix) > MOST_CONDITION:
        raise fail("transition", "a singular matrix", "to be of full rank", "At epsilon 0 reports say nothing.")
    if not known.any():
        raise fail("known_mask", "no True", "to mark at least one report", "Smoothing needs reports.")
    seen = labels[known]
    most = matrix.shape[1]
    if seen.min() < 0 or seen.max() >= most:
        wrong = int(seen[(seen < 0) | (seen >= most)][0])
        raise fail("noisy_labels", wrong, f"to lie in 0..{most - 1}", "Number the reports from 0.")
    return labels.astype(np.int64), known, matrix
