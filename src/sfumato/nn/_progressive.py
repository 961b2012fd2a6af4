"""The network of one ProGAP stage is a small MLP for each cached input, side by side, under one linear head."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from sfumato.nn._models import Linear, Rows, normalize
from sfumato.nn._reproducible import selu


class StageNetwork(nn.Module):
    """A stage has one base MLP for each input; their outputs are concatenated and scaled to norm 1 for a linear head.

    A base repeats linear layer, SELU and norm.

    All bases are normalized in one pass: batch norm has a column of its own for each unit, and group norm a group for
    each base. Group norm has no weights here (the layer after it is linear, so nothing is lost) and reads one row at a
    time: it may stand in per-example private training.

    ``frozen`` columns of a further, last input are concatenated as they are (bases trained before).

    Source: Sajadmanesh and Gatica-Perez (2024), ProGAP, equations 5 to 7 and jumping knowledge by concatenation.
    """

    def __init__(
        self,
        input_widths: Sequence[int],
        width: int,
        num_classes: int,
        *,
        num_layers: int = 1,
        frozen: int = 0,
        batch_norm: bool,
    ) -> None:
        super().__init__()
        self.width, self.batch_norm, joint = width, batch_norm, width * len(input_widths)
        columns = [[first, *[width] * (num_layers - 1)] for first in input_widths]
        self.base = nn.ModuleList(nn.Sequential(*(Linear(size, width) for size in sizes)) for sizes in columns)
        self.norms = nn.ModuleList(
            nn.BatchNorm1d(joint) if batch_norm else nn.GroupNorm(len(columns), joint, affine=False)
            for _ in range(num_layers)
        )
        self.head = Linear(joint + frozen, num_classes)

    def continue_from(self, before: StageNetwork) -> None:
        """Start the first bases from those of the stage before."""
        trained = before.state_dict()
        with torch.no_grad():
            for name, value in self.state_dict().items():
                if name in trained and not name.startswith("head.") and value.ndim:
                    value[: len(trained[name])] = trained[name]

    def embed(self, *inputs: Rows) -> Tensor:
        """Compute the outputs of all bases side by side, [batch, width * len(input_widths)]."""
        rows: Sequence[Rows] = inputs
        for depth, norm in enumerate(self.norms):
            joint = torch.cat(
                [base.get_submodule(str(depth))(row) for base, row in zip(self.base, rows, strict=True)], dim=1
            )
            out: Tensor = norm(selu(joint))
            rows = out.split(self.width, dim=1)
        return out

    def forward(self, *inputs: Any) -> Tensor:
        """Compute scores [batch, num_classes] from the inputs."""
        bases = len(self.base)
        joint = self.embed(*inputs[:bases])
        for rows in inputs[bases:]:
            joint = torch.cat([joint, rows], dim=1)
        if self.batch_norm:
            return _NormalizedLinear.apply(joint, self.head.weight, self.head.bias)
        return self.head(normalize(joint))  # the same; per-example clipping has to see what enters the layer


class _NormalizedLinear(torch.autograd.Function):
    """A linear layer on rows scaled to norm 1: scores are divided, not the wide rows."""

    @staticmethod
    def forward(ctx: Any, rows: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
        scale = torch.linalg.vector_norm(rows, dim=1, keepdim=True).clamp_min_(1e-12).reciprocal_()
        scores = (rows @ weight.T).mul_(scale)
        ctx.save_for_backward(rows, weight, scale, scores)
        return scores + bias

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        rows, weight, scale, scores = ctx.saved_tensors
        scaled = grad * scale
        along = torch.linalg.vecdot(scaled, scores).unsqueeze(1) * scale
        return torch.addcmul(scaled @ weight, rows, along, value=-1), scaled.T @ rows, grad.sum(0)
