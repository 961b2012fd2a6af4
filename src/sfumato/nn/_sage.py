"""GraphSAGE with sums over neighbors, and a network on counts of neighbors: what runs on a perturbed topology."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from sfumato.nn._models import MLP, Linear, Rows, SparseRows, normalize
from sfumato.nn._reproducible import selu

_MOST_GRADIENT = 1e12
"""Batch norm multiplies gradients of equal rows by 316 a layer, and rows of norm zero by 1e12; others never come near this."""


class SumSAGE(nn.Module):
    """GraphSAGE with sums: linear layers, message passing, and one linear layer, with SELU and batch norm between them.

    A message-passing layer maps a node's own row and the sum over its neighbors, adds both and scales rows to norm 1. The
    weights of the sum are those of the matrix that it is given.

    With ``jumping`` the last layer reads all message-passing layers side by side (jumping knowledge).

    Source: Hamilton et al. (2017), sum in place of mean; Xu et al. (2018), Jumping Knowledge; Sajadmanesh (2023), sections 4.7.3
    and 5.5.3 (16 units, SELU, two layers before, or one with jumping knowledge, and one after).
    """

    def __init__(
        self, num_features: int, width: int, num_classes: int, *, num_layers: int, jumping: bool, layers_before: int = 2
    ) -> None:
        super().__init__()
        self.before = MLP((num_features, *[width] * layers_before), batch_norm=True, plain_last=False)
        self.own = nn.ModuleList([Linear(width, width) for _ in range(num_layers)])
        self.neighbor = nn.ModuleList([Linear(width, width) for _ in range(num_layers)])
        self.norms = nn.ModuleList([nn.BatchNorm1d(width) for _ in range(num_layers)])
        self.jumping = jumping
        self.head = Linear(width * (num_layers if jumping else 1), num_classes)

    def forward(self, x: Rows, adjacency: SparseRows) -> Tensor:
        hidden, layers = _bounded_gradient(self.before(x)), []
        for own, neighbor, norm in zip(self.own, self.neighbor, self.norms, strict=True):
            hidden = _bounded_gradient(selu(norm(normalize(own(hidden) + adjacency @ neighbor(hidden)))))
            layers.append(hidden)
        return self.head(torch.cat(layers, dim=1) if self.jumping else hidden)


def _bounded_gradient(hidden: Tensor) -> Tensor:
    """The same rows; gradients that come back through them are cut to what no further layer makes infinite."""
    if hidden.requires_grad:
        hidden.register_hook(lambda grad: grad.nan_to_num(0.0).clamp(-_MOST_GRADIENT, _MOST_GRADIENT))
    return hidden


class BesideCounts(nn.Module):
    """A network reads a node's own features and, beside them, a few columns that count its neighbors."""

    def __init__(self, num_features: int, num_columns: int, width: int, num_classes: int) -> None:
        super().__init__()
        self.features, self.counts = Linear(num_features, width), Linear(num_columns, width)
        self.norm = nn.BatchNorm1d(2 * width)
        self.head = Linear(2 * width, num_classes)

    def forward(self, x: Rows, counts: Tensor) -> Tensor:
        return self.head(selu(self.norm(torch.cat([self.features(x), self.counts(counts)], dim=1))))
