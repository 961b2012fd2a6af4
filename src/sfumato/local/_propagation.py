r"""Propagation of noisy rows over a public graph: KProp for networks, and debiased label reports as a control.

KProp takes K hops of :math:`S = D^{-1/2} A D^{-1/2}`, without self-loops, on columns already projected. Neighbors' noise
averages out while what they share stays. S is linear, so rows are projected first: for an estimate :math:`R + 1 o^\top` and
weights W, :math:`S^K (R + 1 o^\top) W = S^K (R W + 1 (o^\top W))`, and nothing of n x d is ever stored. An isolated node
becomes zero. With ``mean``, S is the mean over neighbors, :math:`D^{-1} A`, in its place. Label reports take K hops or
personalized PageRank.

**Formal guarantee.** Post-processing of reports and the public graph; spends nothing.

Sources: Sajadmanesh and Gatica-Perez (2021), Locally Private Graph Neural Networks, algorithm 3 and equation 14; Sajadmanesh
(2023), equation 3.40, on both aggregators; Gasteiger, Bojchevski and Günnemann (ICLR 2019), personalized PageRank propagation.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from sfumato._validate import check_int, check_real, fail
from sfumato.local._heat import Floats, normalized_adjacency
from sfumato.local._smoothed import checked_graph, checked_reports, class_prior, debiased
from sfumato.randomizers._randomizer import Estimate

_PROBES = 128
_SEED = 0


PROPAGATIONS: tuple[dict[str, Any], ...] = (
    *({"hops": hops} for hops in (2, 4, 8, 16)),
    *({"hops": 30, "restart": restart} for restart in (0.3, 0.1, 0.03)),
)
"""Settings of :func:`propagate_labels` that :func:`best_propagation` tries."""


def propagate(
    adjacency: sp.csr_matrix, values: Estimate | Floats, steps: int, weight: Floats | None = None, *, mean: bool = False
) -> list[Floats]:
    """Return :math:`S^k X W` for k = 0, ..., ``steps`` in one pass: ``steps + 1`` arrays [n, width].

    With ``mean``, S is the mean over neighbors.

    >>> import scipy.sparse as sp
    >>> path = sp.csr_matrix([[0, 1, 0, 0], [1, 0, 0, 0], [0, 0, 0, 1], [0, 0, 1, 0]])
    >>> [hop.ravel().tolist() for hop in propagate(path, np.array([[1.0], [0], [0], [2]]), 1)]
    [[1.0, 0.0, 0.0, 2.0], [0.0, 1.0, 2.0, 0.0]]
    """
    steps = check_int(low=0, steps=steps)
    if values.shape[0] != adjacency.shape[0]:
        raise fail("values", values.shape, f"to have {adjacency.shape[0]} rows, one a node", "Order both alike.")
    if isinstance(values, Estimate) and weight is None:
        raise fail("weight", None, f"to project the {values.shape[1]} columns of an estimate", "Pass [d, width].")
    step = normalized_adjacency(adjacency, self_loops=False)
    if mean:
        roots = np.sqrt(np.maximum(np.diff(step.indptr), 1)).astype(np.float32)
        step = sp.csr_matrix(sp.diags(1 / roots) @ step @ sp.diags(roots))
    hops: list[Floats] = [values if weight is None else values @ weight]  # type: ignore[list-item]
    for _ in range(steps):
        hops.append(step @ hops[-1])
    return hops


def noise_scale(adjacency: sp.csr_matrix, steps: int, *, mean: bool = False) -> Floats:
    r"""Compute how much of independent noise is left after k hops: :math:`\|S^k\|_F / \sqrt n` for k = 0, ..., ``steps``.

    It is the root mean square over nodes of the norms of the rows of :math:`S^k`, by which independent noise of
    standard deviation 1 a node is scaled; ``mean`` is that of :func:`propagate`. It reads the topology alone, so dividing by
    it is public. Exact up to 128 nodes; beyond, 128 sign vectors drawn with a fixed seed estimate it within a few percent,
    the same each time.

    >>> import scipy.sparse as sp
    >>> star = sp.csr_matrix([[0, 1, 1, 1], [1, 0, 0, 0], [1, 0, 0, 0], [1, 0, 0, 0]])
    >>> noise_scale(star, 2).round(4).tolist()
    [1.0, 0.7071, 0.7071]
    """
    n = adjacency.shape[0]
    signs = np.random.default_rng(_SEED).choice(np.array([-1, 1], np.float32), (n, _PROBES)) / np.sqrt(_PROBES)
    probes = np.eye(n, dtype=np.float32) if n <= _PROBES else signs.astype(np.float32)
    return np.array([np.linalg.norm(hop) for hop in propagate(adjacency, probes, steps, mean=mean)]) / np.sqrt(n)


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

    >>> import scipy.sparse as sp
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
    """Return scores [n, C] of the one of ``PROPAGATIONS`` that best predicts the reports of a held-out third, drawn by ``seed``.

    Each is tried on two thirds of the known nodes; the one whose predictions most often are of the classes that make the other
    reports likeliest then uses all. Post-processing.
    """
    labels, known, transition = checked_reports(noisy_labels, known_mask, transition)
    part = known & (np.random.default_rng(seed).random(len(known)) < 2 / 3)
    hidden = known & ~part
    likely = (transition >= transition.max(axis=0) * (1 - 1e-9))[:, labels[hidden]].T

    def hits(settings: dict[str, Any]) -> int:
        scores = propagate_labels(adjacency, labels, part if part.any() else known, transition, **settings)
        return int(likely[np.arange(len(likely)), scores[hidden].argmax(axis=1)].sum())

    return propagate_labels(adjacency, labels, known, transition, **max(PROPAGATIONS, key=hits))
