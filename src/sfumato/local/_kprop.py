r"""KProp takes K hops of :math:`S = D^{-1/2} A D^{-1/2}` on noisy rows, without self-loops, on columns already projected.

Neighbors' noise averages out while what neighbors share stays. S is linear, so rows are projected first: for an
estimate :math:`R + 1 o^\top` and weights W, :math:`S^K (R + 1 o^\top) W = S^K (R W + 1 (o^\top W))`, and nothing of n x d
is ever stored. An isolated node becomes zero.

**Formal guarantee.** Post-processing of reports and the public graph; spends nothing.

Source: Sajadmanesh and Gatica-Perez (2021), Locally Private Graph Neural Networks, algorithm 3 and equation 14.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from sfumato._validate import check_int, fail
from sfumato.local._heat import Floats, normalized_adjacency
from sfumato.randomizers._randomizer import Estimate

if TYPE_CHECKING:
    import scipy.sparse as sp

_PROBES = 128
_SEED = 0


def propagate(
    adjacency: sp.csr_matrix, values: Estimate | Floats, steps: int, weight: Floats | None = None
) -> list[Floats]:
    """Return :math:`S^k X W` for k = 0, ..., ``steps`` in one pass: ``steps + 1`` arrays [n, width].

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
    hops: list[Floats] = [values if weight is None else values @ weight]  # type: ignore[list-item]
    for _ in range(steps):
        hops.append(step @ hops[-1])
    return hops


def noise_scale(adjacency: sp.csr_matrix, steps: int) -> Floats:
    r"""Compute how much of independent noise is left after k hops: :math:`\|S^k\|_F / \sqrt n` for k = 0, ..., ``steps``.

    It is the root mean square over nodes of the norms of the rows of :math:`S^k`, by which independent noise of
    standard deviation 1 a node is scaled. It reads the topology alone, so dividing by it is public. Exact up to 128
    nodes; beyond, 128 sign vectors drawn with a fixed seed estimate it within a few percent, the same each time.

    >>> import scipy.sparse as sp
    >>> star = sp.csr_matrix([[0, 1, 1, 1], [1, 0, 0, 0], [1, 0, 0, 0], [1, 0, 0, 0]])
    >>> noise_scale(star, 2).round(4).tolist()
    [1.0, 0.7071, 0.7071]
    """
    n = adjacency.shape[0]
    signs = np.random.default_rng(_SEED).choice(np.array([-1, 1], np.float32), (n, _PROBES)) / np.sqrt(_PROBES)
    probes = np.eye(n, dtype=np.float32) if n <= _PROBES else signs.astype(np.float32)
    return np.array([np.linalg.norm(hop) for hop in propagate(adjacency, probes, steps)]) / np.sqrt(n)
