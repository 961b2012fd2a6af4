"""A graph as the products that layers of graph networks take of it.

Where rows come from reports, [n, d] would be wide and dense after one hop; :class:`PropagatedRows` keeps the sparse
reports and moves only [n, hidden] through the graph, forward and backward, which is the same by linearity. On dense graphs
with few columns it is the other way round.
"""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np
import scipy.sparse as sp
import torch
from numpy.typing import NDArray
from torch import Tensor

from sfumato.nn._models import SparseRows, _to_torch, csr_tensor

_FORMED = 4  # entries an arc and hop


class Topology:
    """A topology is a symmetric 0/1 adjacency without self-loops, with the products that layers take of it.

    ``hop`` multiplies by :math:`D^{-1/2} A D^{-1/2}`, ``looped`` by the same with self-loops added, ``mean`` averages
    neighbors; rows of isolated nodes are zero (``looped``: their own).
    """

    def __init__(self, adjacency: sp.csr_matrix) -> None:
        self.adjacency = adjacency
        self.num_nodes = adjacency.shape[0]
        self.degrees = np.asarray(adjacency.sum(axis=1)).ravel()

    def hop(self, rows: Tensor, steps: int = 1, *, mean: bool = False) -> Tensor:
        """Propagate rows by ``steps`` hops without self-loops; with ``mean`` by that many means over neighbors."""
        if mean and steps:
            return self._shares.sqrt() * _SymmetricPower.apply(rows / self._shares.sqrt(), self._plain, steps)
        return _SymmetricPower.apply(rows, self._plain, steps) if steps else rows

    def looped(self, rows: Tensor) -> Tensor:
        """Propagate rows by one hop with self-loops."""
        return _SymmetricPower.apply(rows, self._looped, 1)

    def mean(self, rows: Tensor) -> Tensor:
        """Compute the mean of the rows of each node's neighbors."""
        return _SymmetricPower.apply(rows, self._sums, 1) * self._shares

    @cached_property
    def _plain(self) -> Tensor:
        return _symmetric(self.adjacency, self.degrees)

    @cached_property
    def _looped(self) -> Tensor:
        return _symmetric(self._with_loops, self.degrees + 1)

    @cached_property
    def _sums(self) -> Tensor:
        return _to_torch(self.adjacency, torch.float32)

    @cached_property
    def _shares(self) -> Tensor:
        return torch.from_numpy(1 / np.maximum(self.degrees, 1)).float()[:, None]

    @cached_property
    def _with_loops(self) -> sp.csr_matrix:
        return sp.csr_matrix(self.adjacency + sp.eye(self.num_nodes, dtype=np.float32))

    @cached_property
    def arcs(self) -> Arcs:
        """Return the arcs of the graph with self-loops added."""
        return Arcs(self._with_loops)


class Arcs:
    """These arcs of a symmetric structure are grouped by ``target``; each knows the place of its reverse."""

    def __init__(self, structure: sp.csr_matrix) -> None:
        places = np.arange(structure.nnz, dtype=np.int64)
        indptr, indices = structure.indptr.astype(np.int32), structure.indices.astype(np.int32)
        reverse = sp.csr_matrix((places, indices, indptr), structure.shape).T.tocsr().data
        self.shape = structure.shape
        self.indptr, self.indices, self.reverse = (torch.from_numpy(part) for part in (indptr, indices, reverse))
        self.source = self.indices.long()
        self.target = torch.repeat_interleave(torch.arange(structure.shape[0]), torch.from_numpy(np.diff(indptr)))

    def matrix(self, weights: Tensor) -> Tensor:
        """Return the structure as a sparse matrix with these weights."""
        return csr_tensor(self.indptr, self.indices, weights, self.shape)

    def softmax(self, scores: Tensor) -> Tensor:
        """Compute the softmax [arcs, heads] over the arcs into each target."""
        place = self.target[:, None].expand_as(scores)
        empty = scores.new_full((self.shape[0], scores.shape[1]), -torch.inf)
        peaks = empty.scatter_reduce(0, place, scores.detach(), "amax")
        raised = (scores - peaks.index_select(0, self.target)).exp()
        sums = torch.zeros_like(empty).index_add(0, self.target, raised)
        return raised / sums.index_select(0, self.target)


def _symmetric(adjacency: sp.csr_matrix, degrees: NDArray[np.floating]) -> Tensor:
    scale = sp.diags(1 / np.sqrt(np.maximum(degrees, 1)))
    return _to_torch(sp.csr_matrix(scale @ adjacency @ scale), torch.float32)


class _SymmetricPower(torch.autograd.Function):
    """Rows times a power of a symmetric matrix, which is its own transpose."""

    @staticmethod
    def forward(ctx: Any, rows: Tensor, matrix: Tensor, steps: int) -> Tensor:
        ctx.matrix, ctx.steps = matrix, steps
        for _ in range(steps):
            rows = matrix @ rows
        return rows

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None, None]:
        for _ in range(ctx.steps):
            grad = ctx.matrix @ grad
        return grad, None, None


class PropagatedRows:
    r"""Rows :math:`S^K (R + 1 o^\top + u s^\top)` [n, d] are formed only where they are small, else multiplied hop by hop.

    Small is up to 4 entries for each arc and hop: then one product with what is formed costs less than the K hops of its result.

    ``rows`` is R, CSR or, where most entries are there, dense; ``offset`` is o [d], and ``steps`` K. Some rows may have another
    offset: u marks them, ``missing`` bool [n], and s is the ``shift`` [d]. With ``mean``, S is the mean over neighbors.
    """

    def __init__(
        self,
        rows: Any,
        offset: NDArray[np.floating],
        topology: Topology,
        steps: int,
        missing: NDArray[np.bool_] | None = None,
        shift: NDArray[np.floating] | None = None,
        *,
        mean: bool = False,
    ) -> None:
        if sp.issparse(rows) and 2 * rows.nnz > np.prod(rows.shape):
            rows = rows.toarray()
        self.shape, self.topology, self.steps, self.mean = rows.shape, topology, steps, mean
        self.offset = torch.tensor(offset, dtype=torch.float32)
        self.missing = None if missing is None else torch.from_numpy(missing).float()[:, None]
        self.shift = None if shift is None else torch.tensor(shift, dtype=torch.float32)
        self.rows: SparseRows | Tensor
        if steps and np.prod(rows.shape) <= _FORMED * steps * topology.adjacency.nnz:
            dense = torch.as_tensor(rows.toarray() if sp.issparse(rows) else rows, dtype=torch.float32)
            dense = dense + self.offset
            if self.missing is not None and self.shift is not None:
                dense = dense + self.missing * self.shift
            self.rows, self.steps = topology.hop(dense, steps, mean=mean), 0
            self.offset, self.missing = torch.zeros_like(self.offset), None
        else:
            self.rows = SparseRows(rows) if sp.issparse(rows) else torch.as_tensor(rows, dtype=torch.float32)

    def __matmul__(self, weight: Tensor) -> Tensor:
        weight = weight.contiguous()
        projected = self.rows @ weight + self.offset @ weight
        if self.missing is not None and self.shift is not None:
            projected = projected + self.missing * (self.shift @ weight)
        return self.topology.hop(projected, self.steps, mean=self.mean)
