r"""The bits of these functions of single numbers depend on the number alone, not on its place in an array.

Vector units and the code for the last few numbers of an array, or of one thread's share of it, compute exp in different
ways, which differ in the last bit. So what ``torch.exp`` gives for one row depends on how many rows there are. Sums,
products, quotients, roots and comparisons are rounded correctly (IEEE 754), hence the same in any code. Here exp and
what follows from it are made of these alone: :math:`e^x = 2^k e^r` with :math:`k = \mathrm{round}(x / \ln 2)`, e^r by
its Taylor polynomial of degree 13 (:math:`|r| \le 0.35`, relative error below 1e-15), 2^k by its bits.

Numbers of other types than float64 are left to Torch: exact sums need float64.
"""

from __future__ import annotations

import math
from functools import reduce
from typing import Any

import torch
from torch import Tensor
from torch.autograd import Function
from torch.nn import functional

_SCALE, _ALPHA = 1.0507009873554804934193349852946, 1.6732632423543772848170429916717
_TAYLOR = [1 / math.factorial(power) for power in range(13, -1, -1)]
_LN2_HIGH = float.fromhex("0x1.62e42fee00000p-1")  # with 32 bits, so that its products with k are exact
_LN2_LOW = float.fromhex("0x1.a39ef35793c76p-33")
_LEAST = -700.0  # where e^x is about 1e-304, and 2^k still a normal number


def exp(x: Tensor) -> Tensor:
    """Compute e^x of float64 numbers x <= 0; numbers below -700 count as -700."""
    x = x.clamp_min(_LEAST)
    power = (x * (1 / math.log(2))).round()
    rest = (x - power * _LN2_HIGH) - power * _LN2_LOW
    total = torch.full_like(x, _TAYLOR[0])
    for coefficient in _TAYLOR[1:]:
        total = total * rest + coefficient
    two = ((power.nan_to_num().to(torch.int64) + 1023) << 52).view(torch.float64)
    return total * two


def softmax(scores: Tensor) -> Tensor:
    """Compute the probabilities of each row [n, C], C >= 1, of float64 scores; columns are added in order."""
    raised = exp(scores - scores.amax(1, keepdim=True))
    return raised / reduce(torch.add, raised.unbind(1))[:, None]


def sigmoid(scores: Tensor) -> Tensor:
    """Compute 1 / (1 + e^-s) for each of float64 scores."""
    raised = exp(-scores.abs())
    return torch.where(scores >= 0, 1.0, raised) / (1.0 + raised)


def attention(scores: Tensor, rows: Tensor) -> Tensor:
    """Compute the mean of the rows of each example [n, K, width] weighted by the softmax of its scores [n, K]; [n, width].

    The gradient is known to autograd. Sums are made in order, here and in the gradient.
    """
    if scores.dtype != torch.float64:
        return (functional.softmax(scores, dim=1).unsqueeze(2) * rows).sum(1)
    return _Attention.apply(scores, rows)[0]


class _Attention(Function):
    generate_vmap_rule = True

    @staticmethod
    def forward(scores: Tensor, rows: Tensor) -> tuple[Tensor, Tensor]:
        """The weighted mean, and the weights."""
        weights = softmax(scores)
        return reduce(torch.add, (weights.unsqueeze(2) * rows).unbind(1)), weights

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor, Tensor], output: tuple[Tensor, Tensor]) -> None:
        ctx.mark_non_differentiable(output[1])
        ctx.save_for_backward(inputs[1], output[1])

    @staticmethod
    def backward(ctx: Any, grad: Tensor, _: Tensor) -> tuple[Tensor, Tensor]:
        rows, weights = ctx.saved_tensors
        toward = reduce(torch.add, (rows * grad.unsqueeze(1)).unbind(2))
        along = reduce(torch.add, (weights * toward).unbind(1)).unsqueeze(1)
        return weights * (toward - along), weights.unsqueeze(2) * grad.unsqueeze(1)


def selu(x: Tensor) -> Tensor:
    """Compute the activation SELU, whose gradient is known to autograd."""
    return _Selu.apply(x)[0] if x.dtype == torch.float64 else functional.selu(x)


class _Selu(Function):
    generate_vmap_rule = True

    @staticmethod
    def forward(x: Tensor) -> tuple[Tensor, Tensor]:
        """The activation, and its slope."""
        positive = x > 0
        negative = (exp(x.clamp_max(0.0)) - 1.0) * (_SCALE * _ALPHA)
        return torch.where(positive, x * _SCALE, negative), torch.where(positive, _SCALE, negative + _SCALE * _ALPHA)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor], output: tuple[Tensor, Tensor]) -> None:
        ctx.mark_non_differentiable(output[1])
        ctx.save_for_backward(output[1])

    @staticmethod
    def backward(ctx: Any, grad: Tensor, _: Tensor) -> Tensor:
        (slope,) = ctx.saved_tensors
        return grad * slope
