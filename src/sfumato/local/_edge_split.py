"""Public edges are split by a seed: what is trained on, what decides when to stop, and what is found again, with its scores."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from sfumato._validate import check_int, fail
from sfumato.local import _collection as collection

if TYPE_CHECKING:
    from sfumato.graph._graph import Graph

Pairs = NDArray[np.int64]
_VALIDATION, _TEST = 0.05, 0.10
_FEWEST_EDGES = 20


@dataclass(frozen=True, eq=False)
class EdgeSplit:
    """Edges in three parts, and test pairs without an edge: each [2, m], the smaller id first."""

    num_nodes: int
    train: Pairs
    validation: Pairs
    test: Pairs
    test_non_edges: Pairs

    @property
    def training_graph(self) -> sp.csr_matrix:
        """The training edges alone as a symmetric matrix."""
        ones = np.ones(self.train.shape[1], np.float32)
        half = sp.csr_matrix((ones, tuple(self.train)), shape=(self.num_nodes, self.num_nodes))
        return sp.csr_matrix(half + half.T)


def split_edges(graph: Graph, seed: int = 0, test_share: float = _TEST) -> EdgeSplit:
    """Split the edges 85/5/10 at random; loops and the direction of arcs do not count.

    >>> from sfumato.graph._synthetic import stochastic_block_model
    >>> split = split_edges(stochastic_block_model(100, 2, mean_degree=4))
    >>> split.train.shape[1] > 8 * split.test.shape[1], split.test.shape == split.test_non_edges.shape
    (True, True)
    """
    generator = np.random.default_rng(check_int(low=0, seed=seed))
    edges = sp.triu(collection.topology(graph), k=1).tocoo()
    if edges.nnz < _FEWEST_EDGES:
        raise fail("graph", edges.nnz, f"to have at least {_FEWEST_EDGES} edges to split", "Bring a larger graph.")
    pairs = np.stack((edges.row, edges.col)).astype(np.int64)[:, generator.permutation(edges.nnz)]
    validation, test = round(_VALIDATION * edges.nnz), round(test_share * edges.nnz)
    parts = np.split(pairs, [validation, validation + test], axis=1)
    absent = non_edges(generator, graph.num_nodes, pairs, test)
    return EdgeSplit(graph.num_nodes, parts[2], parts[0], parts[1], absent)


def non_edges(generator: np.random.Generator, num_nodes: int, edges: Pairs, count: int) -> Pairs:
    """Draw pairs of two nodes that are not ``edges``, [2, count], the smaller node first.

    >>> non_edges(np.random.default_rng(0), 3, np.array([[0, 0], [1, 2]]), 2).tolist()
    [[1, 1], [2, 2]]
    """
    taken = np.sort(edges[0] * num_nodes + edges[1])
    if 2 * taken.size >= num_nodes * (num_nodes - 1):
        raise fail("graph", f"{taken.size} edges", "to leave some pair of nodes without an edge", "It is complete.")
    found = np.empty((2, 0), np.int64)
    while found.shape[1] < count:
        pairs = generator.integers(num_nodes, size=(2, 2 * count))
        pairs = np.sort(pairs[:, pairs[0] != pairs[1]], axis=0)
        keys = pairs[0] * num_nodes + pairs[1]
        place = np.minimum(np.searchsorted(taken, keys), taken.size - 1)
        found = np.hstack((found, pairs[:, taken[place] != keys]))
    return found[:, :count]
