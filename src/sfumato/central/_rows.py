"""What heads read of features, which nodes have a public label, and heads that learn from these: NumPy and SciPy alone."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from sfumato.bounded.aggregation import normalize_rows
from sfumato.nn._numpy_networks import Logistic, train

MOST_LEARNED, MOST_HELD_OUT = 1 << 17, 1 << 16
"""Most labeled nodes that a small model of public labels learns from, and most that it is chosen by."""

if TYPE_CHECKING:
    from sfumato.graph._graph import Graph
    from sfumato.method.contract import Arrays, Session

Labeled = tuple[NDArray[np.float32], NDArray[np.int64]]
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


def learn_head(method: Any, num_classes: int, session: Session, learners: Labeled, held_out: Labeled) -> Arrays:
    """Train a head on the rows of learners, standardized, by public labels, in the epochs and at the rate of a ``method``.

    The head is for rows as they are.
    """
    mean, scale = _moments(learners[0])
    rows, held = (((inputs - mean) / scale).astype(np.float32) for inputs, _ in (learners, held_out))
    head = Logistic(rows.shape[1], num_classes)
    session.watch.curves["head"] = train(
        head,
        rows,
        learners[1],
        epochs=method.epochs,
        learning_rate=method.learning_rate,
        held_out=(held, held_out[1]),
        coins=np.random.default_rng(session.seed),
        progress=session.watch.stage("head"),
    )
    return _unscaled(head.state, mean, scale)


def _moments(rows: NDArray[np.float32]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Mean and scale of columns; a column that is flat here would be blown up elsewhere, and keeps scale 1."""
    deviation = rows.std(axis=0, dtype=np.float64)
    return rows.mean(axis=0, dtype=np.float64), np.where(deviation > 1e-3, deviation, 1.0)


def _unscaled(head: Arrays, mean: NDArray[np.float64], scale: NDArray[np.float64]) -> Arrays:
    """Let a head that learned on standardized inputs read them as they are."""
    weight = head["weight"] / scale
    bias = head["bias"] - weight @ mean
    return {"head.weight": weight.astype(np.float32), "head.bias": bias.astype(np.float32)}
