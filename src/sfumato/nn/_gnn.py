"""Graph networks of two layers, the first of which projects its input before it propagates."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from sfumato._validate import check_choice
from sfumato.nn._models import SparseRows
from sfumato.nn._topology import Arcs, PropagatedRows, Topology

BACKBONES = ("sage", "gcn", "gat", "mlp")
ACTIVATIONS = ("selu", "relu")
_HEADS = 4
_SLOPE = 0.2
_AT_ONCE = 4096  # arcs whose rows fit a cache

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
