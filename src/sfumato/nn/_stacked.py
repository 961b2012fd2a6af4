"""Many small networks of one shape are trained as one: the parameters of member m are slice m of every tensor.

A layer maps member m's rows by member m's parameters and by nothing else. Nothing is computed across members or across
rows: there is no batch norm and no shared gradient norm. So a loss that is a sum of one term for each member gives each
member its own gradient, and an optimizer that works number by number (:class:`sfumato.nn._training.Adam`) its own
update.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional

from sfumato._validate import check_int, fail

Generators = Sequence[np.random.Generator]
_LAST_SIDE = 6  # of 28: 12 after the first convolution, halved by the maximum


class StackedLinear(nn.Module):
    """A stacked linear layer holds one linear layer a member, and computes them as one batched product.

    Rows are [members, batch, width_in], or [batch, width_in] for all.
    """

    def __init__(self, width_in: int, width: int, draw: Generators) -> None:
        super().__init__()
        self.weight = nn.Parameter(_uniform(draw, (width_in, width), width_in))
        self.bias = nn.Parameter(torch.zeros(len(draw), 1, width))

    def forward(self, x: Tensor) -> Tensor:
        rows = x if x.dim() == 3 else x.expand(len(self.weight), -1, -1)
        return torch.baddbmm(self.bias, rows, self.weight)


class StackedConv(nn.Module):
    """A stacked convolution holds one convolution for each member, and computes them as one convolution in groups of channels.

    Images are [batch, members x channels_in, height, width], or [batch, channels_in, height, width] for all.
    """

    def __init__(
        self, channels_in: int, channels: int, kernel: int, draw: Generators, *, stride: int = 1, padding: int = 0
    ) -> None:
        super().__init__()
        shape = (channels, channels_in, kernel, kernel)
        self.weight = nn.Parameter(_uniform(draw, shape, channels_in * kernel**2).flatten(0, 1))
        self.bias = nn.Parameter(torch.zeros(len(self.weight)))
        self.stride, self.padding = stride, padding

    def forward(self, x: Tensor) -> Tensor:
        groups = x.shape[1] // self.weight.shape[1]
        return functional.conv2d(x, self.weight, self.bias, self.stride, self.padding, groups=groups)


class StackedMLP(nn.Module):
    """A stacked MLP has linear layers with ReLU between them, one stack for each member."""

    def __init__(self, widths: Sequence[int], draw: Generators) -> None:
        super().__init__()
        self.members = len(draw)
        self.layers = nn.ModuleList([StackedLinear(a, b, draw) for a, b in pairwise(widths)])

    def forward(self, x: Tensor) -> Tensor:
        return self._scores(x.flatten(2))

    def forward_shared(self, x: Tensor) -> Tensor:
        """Compute the scores of the same rows [batch, ...] by every member."""
        return self._scores(x.flatten(1))

    def _scores(self, rows: Tensor) -> Tensor:
        for layer in list(self.layers)[:-1]:
            rows = functional.relu(layer(rows))
        scores: Tensor = self.layers[-1](rows)
        return scores


class StackedCNN(nn.Module):
    """A stacked CNN has a 5 x 5 convolution of stride 2, a padded 3 x 3 one, a 2 x 2 maximum and a linear head, for each member.

    For images of 28 x 28; a member of widths 16 and 32 has 16,586 parameters with ten classes.
    """

    def __init__(self, channels: int, widths: tuple[int, int], num_classes: int, draw: Generators) -> None:
        super().__init__()
        self.members = len(draw)
        self.first = StackedConv(channels, widths[0], 5, draw, stride=2)
        self.second = StackedConv(widths[0], widths[1], 3, draw, padding=1)
        self.head = StackedLinear(widths[1] * _LAST_SIDE**2, num_classes, draw)

    def forward(self, x: Tensor) -> Tensor:
        return self.forward_shared(x.transpose(0, 1).flatten(1, 2))

    def forward_shared(self, images: Tensor) -> Tensor:
        """Compute the scores of the same images [batch, channels, 28, 28] by every member."""
        hidden = functional.relu(self.first(images))
        hidden = functional.relu(_MaxOfFour.apply(self.second(hidden)))
        rows = hidden.view(len(hidden), self.members, -1).transpose(0, 1)
        scores: Tensor = self.head(rows)
        return scores


class _MaxOfFour(torch.autograd.Function):
    """``max_pool2d(x, 2)`` for even sides, whose own kernel for this memory layout is not vectorized.

    The gradient goes to one place of the four, the first of the largest.
    """

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        top, bottom = x.unflatten(2, (-1, 2)).unbind(3)
        highest = torch.maximum(top, bottom)
        left, right = highest[..., ::2], highest[..., 1::2]
        ctx.save_for_backward(top >= bottom, left >= right)
        return torch.maximum(left, right)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Tensor:
        is_top, is_left = ctx.saved_tensors
        by_column = grad.new_empty(is_top.shape)
        by_column[..., ::2] = kept = grad * is_left
        by_column[..., 1::2] = grad - kept
        by_row = grad.new_empty(*is_top.shape[:3], 2, is_top.shape[3])
        torch.mul(by_column, is_top, out=by_row[:, :, :, 0])
        torch.sub(by_column, by_row[:, :, :, 0], out=by_row[:, :, :, 1])
        return by_row.flatten(2, 3)


def generators(members: int, seed: int = 0) -> list[np.random.Generator]:
    """Make one independent generator a member, decided by (seed, member) alone."""
    members, seed = check_int(low=1, members=members), check_int(low=0, seed=seed)
    return [np.random.default_rng([seed, member]) for member in range(members)]


def take_member(stack: StackedMLP | StackedCNN, member: int) -> dict[str, NDArray[np.float32]]:
    """Return the parameters of one member by name."""
    if not 0 <= member < stack.members:
        raise fail("member", member, f"to be one of 0 to {stack.members - 1}", "Members count from 0.")
    return {
        name: value.detach().cpu().chunk(stack.members)[member].numpy().copy()
        for name, value in stack.named_parameters()
    }


def _uniform(draw: Generators, shape: tuple[int, ...], fan_in: int) -> Tensor:
    """He's uniform weights, one tensor for each member."""
    bound = math.sqrt(6 / fan_in)
    drawn = [generator.uniform(-bound, bound, shape).astype(np.float32) for generator in draw]
    return torch.from_numpy(np.stack(drawn))
