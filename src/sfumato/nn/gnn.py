"""Graph networks of two layers, the first of which projects its input before it propagates.

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
from torch import Tensor, nn
from torch.nn import functional

from sfumato._validate import check_choice
from sfumato.nn.models import SparseRows, _to_torch, csr_tensor

BACKBONES = ("sage", "gcn", "gat", "mlp")
ACTIVATIONS = ("selu", "relu")
_HEADS = 4
_SLOPE = 0.2
_FORMED = 4  # entries an arc and hop
_AT_ONCE = 4096  # arcs whose rows fit a cache


class Topology:
    """A topology is a symmetric 0/1 adjacency without self-loops, with the products that layers take of it.

    ``hop`` multiplies by :math:`D^{-1/2} A D^{-1/2}`, ``looped`` by the same with self-loops added, ``mean`` averages
    neighbors; rows of isolated nodes are zero (``looped``: their own).

    >>> pair = Topology(sp.csr_matrix(np.array([[0, 1], [1, 0]], np.float32)))
    >>> pair.looped(torch.tensor([[1.0], [3.0]])).round(decimals=4).tolist()
    [[2.0], [2.0]]
    """

    def __init__(self, adjacency: sp.csr_matrix) -> None:
        self.adjacency = adjacency
        self.num_nodes = adjacency.shape[0]
        self.degrees = np.asarray(adjacency.sum(axis=1)).ravel()

    def hop(self, rows: Tensor, steps: int = 1) -> Tensor:
        """Propagate rows by ``steps`` hops without self-loops."""
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

    ``rows`` is R, CSR or, where most entries are there, dense; ``offset`` is o [d]. Some rows may have another offset: u marks
    them, ``missing`` bool [n], and s is the ``shift`` [d].

    ``topology`` is the graph, and ``steps`` is K.

    >>> pair = Topology(sp.csr_matrix(np.array([[0, 1], [1, 0]], np.float32)))
    >>> rows = PropagatedRows(sp.csr_matrix(np.eye(2, 3)), np.full(3, 0.5), pair, steps=1)
    >>> (rows @ torch.eye(3)).tolist()
    [[0.5, 1.5, 0.5], [1.5, 0.5, 0.5]]
    """

    def __init__(
        self,
        rows: Any,
        offset: NDArray[np.floating],
        topology: Topology,
        steps: int,
        missing: NDArray[np.bool_] | None = None,
        shift: NDArray[np.floating] | None = None,
    ) -> None:
        if sp.issparse(rows) and 2 * rows.nnz > np.prod(rows.shape):
            rows = rows.toarray()
        self.shape, self.topology, self.steps = rows.shape, topology, steps
        self.offset = torch.tensor(offset, dtype=torch.float32)
        self.missing = None if missing is None else torch.from_numpy(missing).float()[:, None]
        self.shift = None if shift is None else torch.tensor(shift, dtype=torch.float32)
        self.rows: SparseRows | Tensor
        if steps and np.prod(rows.shape) <= _FORMED * steps * topology.adjacency.nnz:
            dense = torch.as_tensor(rows.toarray() if sp.issparse(rows) else rows, dtype=torch.float32)
            dense = dense + self.offset
            if self.missing is not None and self.shift is not None:
                dense = dense + self.missing * self.shift
            self.rows, self.steps = topology.hop(dense, steps), 0
            self.offset, self.missing = torch.zeros_like(self.offset), None
        else:
            self.rows = SparseRows(rows) if sp.issparse(rows) else torch.as_tensor(rows, dtype=torch.float32)

    def __matmul__(self, weight: Tensor) -> Tensor:
        weight = weight.contiguous()
        projected = self.rows @ weight + self.offset @ weight
        if self.missing is not None and self.shift is not None:
            projected = projected + self.missing * (self.shift @ weight)
        return self.topology.hop(projected, self.steps)


Rows = Tensor | SparseRows | PropagatedRows


class _SAGELayer(nn.Module):
    """Own row and mean of the neighbors, one map each; the bias is the neighbors'."""

    def __init__(self, width_in: int, width: int) -> None:
        super().__init__()
        self.own, self.neighbor = nn.Linear(width_in, width, bias=False), nn.Linear(width_in, width)

    def forward(self, x: Rows, topology: Topology) -> Tensor:
        joint = x @ torch.cat([self.own.weight, self.neighbor.weight]).T
        own, neighbor = joint.split(len(self.own.weight), dim=1)
        return own + topology.mean(neighbor.contiguous()) + self.neighbor.bias


class _GCNLayer(nn.Module):
    """One map, then the normalized sum over neighbors and the node itself."""

    def __init__(self, width_in: int, width: int) -> None:
        super().__init__()
        self.weight, self.bias = _glorot(width, width_in), nn.Parameter(torch.zeros(width))

    def forward(self, x: Rows, topology: Topology) -> Tensor:
        return topology.looped(x @ self.weight.T) + self.bias


class _GATLayer(nn.Module):
    """Attention over neighbors and the node itself; heads of ``width`` columns are concatenated."""

    def __init__(self, width_in: int, width: int, heads: int) -> None:
        super().__init__()
        self.weight, self.bias = _glorot(heads * width, width_in), nn.Parameter(torch.zeros(heads * width))
        self.to_source, self.to_target = _glorot(heads, width), _glorot(heads, width)

    def forward(self, x: Rows, topology: Topology) -> Tensor:
        arcs = topology.arcs
        values = (x @ self.weight.T).unflatten(1, self.to_source.shape)
        source, target = (values * self.to_source).sum(2), (values * self.to_target).sum(2)
        reached = source.index_select(0, arcs.source) + target.index_select(0, arcs.target)
        scores = functional.leaky_relu(reached, _SLOPE)
        return _Attend.apply(arcs.softmax(scores), values, arcs).flatten(1) + self.bias


class _Attend(torch.autograd.Function):
    """Sums of sources' values [n, heads, width] with weights [arcs, heads], one sparse product a head."""

    @staticmethod
    def forward(ctx: Any, weights: Tensor, values: Tensor, arcs: Arcs) -> Tensor:
        ctx.arcs = arcs
        ctx.save_for_backward(weights, values)
        return _head_products(arcs, weights, values)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, Tensor, None]:
        weights, values = ctx.saved_tensors
        arcs = ctx.arcs
        grad = grad.contiguous()
        ends = zip(arcs.target.split(_AT_ONCE), arcs.source.split(_AT_ONCE), strict=True)
        by_arc = [(grad.index_select(0, to) * values.index_select(0, by)).sum(2) for to, by in ends]
        return torch.cat(by_arc), _head_products(arcs, weights.index_select(0, arcs.reverse), grad), None


def _head_products(arcs: Arcs, weights: Tensor, values: Tensor) -> Tensor:
    heads = range(weights.shape[1])
    return torch.stack([arcs.matrix(weights[:, h].contiguous()) @ values[:, h].contiguous() for h in heads], 1)


class _MLPLayer(nn.Module):
    def __init__(self, width_in: int, width: int) -> None:
        super().__init__()
        self.own = nn.Linear(width_in, width)

    def forward(self, x: Rows, topology: Topology) -> Tensor:
        return x @ self.own.weight.T + self.own.bias


def _glorot(*shape: int) -> nn.Parameter:
    return nn.Parameter(nn.init.xavier_uniform_(torch.empty(shape)))


class GNN(nn.Module):
    """A graph network has two layers, with an activation and then dropout between them; there is dropout nowhere else.

    * ``sage``: mean of the neighbors beside the node's own row, no normalization.
    * ``gcn``: self-loops, symmetric normalization.
    * ``gat``: 4 heads of ``width`` columns concatenated, then 1 head; no attention dropout.
    * ``mlp``: no graph beyond what the rows have been through.

    Shapes: rows [n, num_features] to scores [n, num_classes].

    Args:
        backbone: "sage", "gcn", "gat" or "mlp".
        num_features: columns of the input.
        width: hidden width, of each head for "gat".
        num_classes: columns of the scores.
        dropout: share of hidden units that are dropped in training.
        activation: "selu" or "relu".

    Raises:
        InputError: the backbone or the activation is unknown.

    >>> pair = Topology(sp.csr_matrix(np.array([[0, 1], [1, 0]], np.float32)))
    >>> GNN("gat", 5, 16, 3)(torch.zeros(2, 5), pair).shape
    torch.Size([2, 3])

    Source: Kipf and Welling (2017), Veličković et al. (2018), Hamilton et al. (2017).
    """

    def __init__(
        self,
        backbone: str,
        num_features: int,
        width: int,
        num_classes: int,
        *,
        dropout: float = 0.0,
        activation: str = "selu",
    ) -> None:
        super().__init__()
        check_choice(BACKBONES, backbone=backbone)
        check_choice(ACTIVATIONS, activation=activation)
        self.dropout, self.activate = dropout, getattr(functional, activation)
        if backbone == "gat":
            self.first: nn.Module = _GATLayer(num_features, width, _HEADS)
            self.second: nn.Module = _GATLayer(_HEADS * width, num_classes, 1)
            return
        kind = {"sage": _SAGELayer, "gcn": _GCNLayer, "mlp": _MLPLayer}[backbone]
        self.first, self.second = kind(num_features, width), kind(width, num_classes)

    def hidden(self, x: Rows, topology: Topology) -> Tensor:
        """Compute the activated first layer; it is the same in training and evaluation."""
        return self.activate(self.first(x, topology))

    def head(self, hidden: Tensor, topology: Topology) -> Tensor:
        """Compute scores from :meth:`hidden`, with dropout in training."""
        return self.second(functional.dropout(hidden, self.dropout, self.training), topology)

    def forward(self, x: Rows, topology: Topology) -> Tensor:
        return self.head(self.hidden(x, topology), topology)
