"""What heads read of features, and which nodes have a public label: NumPy and SciPy alone."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from sfumato.bounded.aggregation import normalize_rows

MOST_LEARNED, MOST_HELD_OUT = 1 << 17, 1 << 16
"""Most labeled nodes that a small model of public labels learns from, and most that it is chosen by."""

if TYPE_CHECKING:
    from sfumato.graph._graph import Graph
    from sfumato.method.contract import Arrays

Matrix: TypeAlias = NDArray[np.float32] | Any
"""Dense rows, a sparse matrix of SciPy, or :class:`~sfumato.graph._packed.PackedRows`."""


def features_of(graph: Graph) -> Matrix:
    """Return the features of a graph as they are stored, sparse, dense or packed; without any, rows of no column.

    The number of entries never decides between the two forms. One record could tip that choice, and with it the rounding of
    every other node's message, which the sensitivity of a hop takes for fixed.
    """
    return graph.stored_x if graph.stored_x is not None else np.zeros((graph.num_nodes, 0), np.float32)


def labeled_nodes(graph: Graph) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
    """Return all labels, and the labeled training and validation nodes; called only where labels are public."""
    assert graph.y is not None
    train_ids, val = (np.flatnonzero(mask & (graph.y >= 0)) for mask in (graph.train_mask, graph.val_mask))
    return graph.y, train_ids, val


def drawn(ids: NDArray[np.int64], most: int, seed: int = 0) -> NDArray[np.int64]:
    """Return at most so many of some nodes: all, or a random sample, ascending. The ``seed`` is public, and so are the nodes."""
    if len(ids) <= most:
        return ids
    return np.sort(ids[np.random.default_rng(seed).choice(len(ids), most, replace=False, shuffle=False)])


def centered_rows(graph: Graph, weights: Arrays) -> Matrix:
    """Return the rows that the head reads, of norm 1: around the center if there is one, and as they are stored otherwise."""
    if "center" in weights:
        return normalize_rows(normalized(graph) - weights["center"])
    x: Any = features_of(graph)
    if not sp.issparse(x):
        return normalize_rows(x)
    x = x.astype(np.float64)  # a square may leave the range of float32
    x.sum_duplicates()
    norms = np.sqrt(np.asarray(x.multiply(x).sum(axis=1)))
    return sp.csr_matrix(x.multiply(1 / np.maximum(norms, 1e-12)), dtype=np.float32)


def normalized(graph: Graph) -> NDArray[np.float32]:
    """Return dense features scaled to norm 1."""
    x: Any = features_of(graph)
    if sp.issparse(x):
        x = x.astype(np.float64)  # sums of entries may leave the range of float32
        x.sum_duplicates()
        x = x.toarray()
    return normalize_rows(x)


def beside(first: NDArray[np.floating], own: Matrix) -> Matrix:
    """Put columns before those of a matrix, sparse if it is; float32."""
    if sp.issparse(own):
        return sp.csr_matrix(sp.hstack([first, own]), dtype=np.float32)
    return np.hstack([first, own]).astype(np.float32)


def head_scores(weights: Arrays, inputs: Matrix) -> NDArray[np.float32]:
    """Apply the head among ``weights`` to rows, and return scores float32 [num_nodes, num_classes]."""
    scores: NDArray[np.float32] = inputs @ weights["head.weight"].T + weights["head.bias"]
    return scores
