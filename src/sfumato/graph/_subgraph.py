"""Subgraphs hold some nodes of a graph with the arcs between them; arcs can also be had as a matrix."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from sfumato.graph._arcs import owners

if TYPE_CHECKING:
    from sfumato.graph._graph import Graph


def induced(graph: Graph, nodes: Sequence[int] | NDArray[np.integer]) -> Graph | None:
    """Return the graph on these rows, in this order, without the arcs that leave them; None if there are no rows.

    Arcs keep their weights and types. It has no labels if all of them are missing.

    >>> from sfumato.graph._graph import Graph
    >>> path = Graph.from_edges([0, 1, 2], [1, 2, 3], 4, directed=False)
    >>> induced(path, [3, 2, 0])
    Graph('graph', 3 nodes, 1 undirected edges, 0 features, 0 classes)
    """
    chosen = np.asarray(nodes, np.int64)
    if len(chosen) == 0:
        return None
    part = adjacency(graph)[chosen][:, chosen]
    part.sort_indices()
    x, y, roles = (None if rows is None else rows[chosen] for rows in (graph.stored_x, graph.y, graph.roles))
    y = None if y is None or (y < 0).all() else y
    ids = chosen if graph.node_ids is None else graph.node_ids[chosen]
    indptr, indices = part.indptr.astype(np.int64), part.indices.astype(np.int32)
    weights = None if graph.weights is None else graph.weights.take(_places(graph, chosen))
    types = None if graph.types is None else graph.types.take(_places(graph, chosen))
    most = None if graph.max_degree is None else min(graph.max_degree, len(chosen))
    mean = None if graph.mean_degree is None else min(graph.mean_degree, len(chosen))
    return replace(
        graph,
        indptr=indptr,
        indices=indices,
        x=x,
        y=y,
        targets=None if graph.targets is None else graph.targets.take(chosen),
        roles=roles,
        node_ids=ids,
        max_degree=most,
        mean_degree=mean,
        degree_bounds=None if graph.degree_bounds is None else graph.degree_bounds[chosen],
        cells=None if graph.cells is None else graph.cells[chosen],
        weights=weights,
        types=types,
        later=None,
        merged={},
        outside={},
    )


def _places(graph: Graph, chosen: NDArray[np.int64]) -> NDArray[np.int64]:
    """Which arcs of a graph are those of an induced one, in its order."""
    numbers = np.arange(graph.num_arcs, dtype=np.int64)
    part = sp.csr_matrix((numbers, graph.indices, graph.indptr), shape=(graph.num_nodes, graph.num_nodes))
    part = part[chosen][:, chosen]
    part.sort_indices()
    places: NDArray[np.int64] = part.data
    return places


def induced_arcs(indptr: np.ndarray, indices: np.ndarray, keep: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """List the arcs between the nodes that ``keep`` marks, renumbered: ``(source, target)``."""
    source = owners(indptr)
    kept = keep[source] & keep[indices]
    renumbered = np.cumsum(keep) - 1
    return renumbered[source[kept]], renumbered[indices[kept]]


def adjacency(graph: Graph) -> sp.csr_matrix:
    """Return the stored arcs as a matrix of ones, float32 [num_nodes, num_nodes]; weights are not read."""
    ones = np.ones(graph.num_arcs, np.float32)
    return sp.csr_matrix((ones, graph.indices, graph.indptr), shape=(graph.num_nodes, graph.num_nodes))


def dense_rows(graph: Graph) -> NDArray[np.float32]:
    """Return the features of all nodes as a dense array, float32 [num_nodes, num_features]."""
    x: Any = graph.x
    return np.asarray(x.toarray() if sp.issparse(x) else x, np.float32)
