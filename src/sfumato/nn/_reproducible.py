r"""The bits of these functions of single numbers depend on the number alone, not on its place in an array.

Vector units and the code for the last few numbers of an array, or of one thread's share of it, compute exp in different
ways, which differ in the last bit. So what ``torch.exp`` gives for one row depends on how many rows there are. Sums,
products, quotients, roots and comparisons are rounded correctly (IEEE 754), hence the same in any code. Here exp and
what follows from it are made of these alone: :math:`e^x = 2^k e^r` with :math:`k = \mathrm{round}(x / \ln 2)`, e^r by
its Taylor polynomial of degree 13 (:math:`|r| \le 0.35`, relative error below 1e-15), 2^k by its bits.

Numbers of other types than float64 are left to Torch: exact sums need float64.
"""

from __future__ import annotations

from functools import reduce
from typing import Any

import torch
from torch import Tensor
from torch.autograd import Function
from torch.nn import functional

from sfumato.loops._products import products
from sfumato.loops._torch_products import exp, softmax


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
    @staticmethod
    def forward(x: Tensor) -> tuple[Tensor, Tensor]:
        """The activation, and its slope."""
        return products().selu(x)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor], output: tuple[Tensor, Tensor]) -> None:
        ctx.mark_non_differentiable(output[1])
        ctx.save_for_backward(output[1])

    @staticmethod
    def backward(ctx: Any, grad: Tensor, _: Tensor) -> Tensor:
        (slope,) = ctx.saved_tensors
        return grad * slope

    @staticmethod
    def vmap(_: Any, dims: tuple[int], x: Tensor) -> tuple[tuple[Tensor, Tensor], tuple[int, int]]:
        """Of many examples at once: each number by itself."""
        return _Selu.apply(x), (dims[0], dims[0])
