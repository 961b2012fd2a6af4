"""Decoupled networks meet the graph in fixed sums over neighbors, before or after they learn; nothing here is private."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from sfumato.nn._models import Linear, Rows, SparseRows

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


class Smoothed(nn.Module):
    r"""A smoothed network predicts from features alone, and then spreads its scores over the graph by personalized PageRank.

    With H the scores of an MLP and S a symmetric matrix of hops, :math:`Z^{(0)} = H` and
    :math:`Z^{(k)} = (1 - \alpha) S Z^{(k-1)} + \alpha H`.

    ``restart`` is :math:`\alpha`, the share of its own scores that a node keeps.

    Source: Klicpera, Bojchevski and Günnemann (2019), Predict then Propagate, equation 4.
    """

    def __init__(
        self,
        num_features: int,
        width: int,
        num_classes: int,
        *,
        steps: int = 10,
        restart: float = 0.1,
        dropout: float = 0.5,
    ) -> None:
        super().__init__()
        self.hidden, self.head = nn.Linear(num_features, width), nn.Linear(width, num_classes)
        self.steps, self.restart, self.dropout = steps, restart, dropout

    def forward(self, x: Rows, hop: SparseRows, ids: NDArray[np.integer]) -> Tensor:
        weight = functional.dropout(self.hidden.weight.T, self.dropout, self.training)
        hidden = functional.relu(x @ weight + self.hidden.bias)
        scores = own = self.head(functional.dropout(hidden, self.dropout, self.training))
        for _ in range(self.steps):
            scores = (1 - self.restart) * (hop @ scores) + self.restart * own
        return scores[ids]


class Blocks(nn.Module):
    """A network on blocks maps each block of columns by a linear map of its own, and adds them up in one hidden layer."""

    def __init__(self, widths: Sequence[int], width: int, num_classes: int, *, dropout: float = 0.5) -> None:
        super().__init__()
        self.maps = nn.ModuleList([Linear(columns, width, bias=False) for columns in widths])
        self.norm, self.head, self.dropout = nn.BatchNorm1d(width), nn.Linear(width, num_classes), dropout

    def forward(self, *blocks: Rows) -> Tensor:
        parts: list[Tensor] = []
        one: Any
        for one, block in zip(self.maps, blocks, strict=True):
            parts.append(block @ functional.dropout(one.weight.T, self.dropout, self.training))
        hidden = functional.relu(self.norm(torch.stack(parts).sum(0)))
        scores: Tensor = self.head(functional.dropout(hidden, self.dropout, self.training))
        return scores
