"""The variational graph auto-encoder maps nodes to Gaussian codes, and pairs of codes to the odds of an edge."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.nn import functional

from sfumato.nn._models import Linear, Rows, SparseRows
from sfumato.nn._training import Adam

_MAX_LOG_STD = 10.0
_CHECK_EVERY, _PATIENCE = 10, 10


class VGAE(nn.Module):
    r"""The encoder has two graph convolutions, the second one twice: for mean and log standard deviation of a code.

    With :math:`\hat A` the normalized adjacency, :math:`h = \mathrm{ReLU}(\mathrm{BN}(\hat A X W_0))`,
    :math:`\mu = \hat A h W_1`, :math:`\log \sigma = \hat A h W_2`; a pair (u, v) has log odds :math:`z_u^\top z_v`. Features
    are projected before they are propagated, which is the same and cheaper.

    Codes are drawn in training mode; in evaluation mode they are the means.

    Source: Kipf and Welling (2016), Variational graph auto-encoders.
    """

    def __init__(self, num_features: int, hidden: int = 32, width: int = 16) -> None:
        super().__init__()
        self.first, self.heads = Linear(num_features, hidden), Linear(hidden, 2 * width)
        self.norm = nn.BatchNorm1d(hidden)
        for layer in (self.first, self.heads):
            nn.init.xavier_uniform_(layer.weight)
            nn.init.zeros_(layer.bias)

    def encode(self, x: Rows, adjacency: SparseRows) -> tuple[Tensor, Tensor]:
        """Compute means and log standard deviations of the codes, [n, width] each."""
        hidden = functional.relu(self.norm(adjacency @ self.first(x)))
        mean, log_std = (adjacency @ self.heads(hidden)).chunk(2, dim=1)
        return mean, log_std.clamp(max=_MAX_LOG_STD)

    def forward(self, x: Rows, adjacency: SparseRows) -> Tensor:
        mean, log_std = self.encode(x, adjacency)
        return drawn(mean, log_std) if self.training else mean


def drawn(mean: Tensor, log_std: Tensor) -> Tensor:
    """Draw a code from the Gaussian of each node."""
    return mean + torch.randn_like(mean) * log_std.exp()


def log_odds(codes: Tensor, pairs: Tensor) -> Tensor:
    """Compute the log odds of an edge for each column of ``pairs`` [2, m]."""
    return (codes.index_select(0, pairs[0]) * codes.index_select(0, pairs[1])).sum(1)


def reconstruction_loss(codes: Tensor, edges: Tensor, non_edges: Tensor) -> Tensor:
    """Compute the mean negative log likelihood of edges, plus that of non-edges."""
    found = functional.softplus(-log_odds(codes, edges)).mean()
    return found + functional.softplus(log_odds(codes, non_edges)).mean()


def divergence(mean: Tensor, log_std: Tensor) -> Tensor:
    """Compute the mean Kullback-Leibler divergence of the codes from standard Gaussians."""
    return 0.5 * (mean.square() + (2 * log_std).exp() - 1 - 2 * log_std).sum(1).mean()


def train_vgae(
    model: VGAE,
    x: Rows,
    adjacency: SparseRows,
    edges: Tensor,
    validation_edges: Tensor,
    non_edges: Callable[[int], Tensor],
    *,
    learning_rate: float = 0.01,
    weight_decay: float = 0.01,
    min_epochs: int = 100,
    max_epochs: int = 500,
    report: Callable[[int, int], None] | None = None,
) -> int:
    """Train by Adam on reconstruction loss + divergence / n, in place, and return the epochs it took.

    ``non_edges(m)`` draws m fresh pairs [2, m] for each loss. The loss on the validation edges is checked every 10
    epochs; training ends when 10 checks in a row brought no better one, and keeps the last weights, as published.
    """
    optimizer = Adam(model.parameters(), learning_rate)
    best, waited = float("inf"), 0
    for epoch in range(1, max_epochs + 1):
        model.train()
        mean, log_std = model.encode(x, adjacency)
        loss = reconstruction_loss(drawn(mean, log_std), edges, non_edges(edges.shape[1]))
        (loss + divergence(mean, log_std) / len(mean)).backward()
        optimizer.grad.add_(optimizer.flat, alpha=weight_decay)
        optimizer.step()
        if report is not None:
            report(epoch, max_epochs)
        if epoch % _CHECK_EVERY:
            continue
        model.eval()
        with torch.no_grad():
            mean, log_std = model.encode(x, adjacency)
            held_out = reconstruction_loss(mean, validation_edges, non_edges(validation_edges.shape[1]))
            now = float(held_out + divergence(mean, log_std) / len(mean))
        best, waited = (now, 0) if now < best else (best, waited + 1)
        if waited >= _PATIENCE and epoch >= min_epochs:
            break
    model.eval()
    return epoch
