"""The gradient of a small batch by hand: where a batch is a few rows, autograd takes longer than the products.

Up to rounding the gradients are those of autograd, which calls the same functions of Torch; on most processors bit by bit.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.nn import functional

from sfumato.loops._products import products
from sfumato.nn._convolution import Selu

_SELU = 1.6732632423543772848170429916717, 1.0507009873554804934193349852946, 1.0
_MEAN, _NONE_IGNORED = 1, -100

Slope = Callable[[Tensor], Tensor]
"""Maps the gradient in what leaves an activation to that in what enters it."""


def mean_gradient(network: nn.Module, inputs: Tensor, targets: Tensor, scale: float = 1.0) -> Tensor:
    """Compute the gradient of the mean cross-entropy times ``scale``, one vector in the order of the parameters.

    Shapes: ``inputs`` [n, k], ``targets`` int64 [n].

    >>> layer = nn.Linear(2, 2, bias=False)
    >>> _ = nn.init.zeros_(layer.weight)
    >>> mean_gradient(layer, torch.tensor([[3.0, 4.0]]), torch.tensor([0])).tolist()
    [-1.5, -2.0, 1.5, 2.0]
    """
    layers = list(network) if isinstance(network, nn.Sequential) else [network]
    if not {type(layer) for layer in layers} <= {nn.Linear, nn.ReLU, Selu}:
        loss = scale * functional.cross_entropy(network(inputs), targets)
        return torch.cat([part.reshape(-1) for part in torch.autograd.grad(loss, list(network.parameters()))])
    with torch.no_grad():
        return _by_hand(layers, inputs, targets, scale)


def _by_hand(layers: list[nn.Module], inputs: Tensor, targets: Tensor, scale: float) -> Tensor:
    sizes = [parameter.numel() for layer in layers for parameter in layer.parameters()]
    flat = torch.empty(sum(sizes), dtype=inputs.dtype)
    parts, entered, slopes = list(flat.split(sizes)), [], []
    for layer in layers:
        entered.append(inputs)
        inputs, slope = (layer(inputs), None) if isinstance(layer, nn.Linear) else _activated(layer, inputs)
        slopes.append(slope)
    grad = _loss_slope(inputs, targets, scale)
    for layer, rows, slope in zip(reversed(layers), reversed(entered), reversed(slopes), strict=True):
        if slope is not None:
            grad = slope(grad)
            continue
        assert isinstance(layer, nn.Linear)
        if layer.bias is not None:
            torch.sum(grad, 0, out=parts.pop())
        torch.mm(grad.t(), rows, out=parts.pop().view(layer.weight.shape))
        if parts:
            grad = grad.mm(layer.weight)
    return flat


def _activated(layer: nn.Module, x: Tensor) -> tuple[Tensor, Slope]:
    aten = torch.ops.aten
    if isinstance(layer, nn.ReLU):
        out = functional.relu(x)
        return out, lambda grad: aten.threshold_backward(grad, out, 0)
    if x.dtype == torch.float64:
        out, slope = products().selu(x)
        return out, lambda grad: grad * slope
    return functional.selu(x), lambda grad: aten.elu_backward(grad, *_SELU, False, x)


def _loss_slope(scores: Tensor, targets: Tensor, scale: float) -> Tensor:
    """The gradient of the mean cross-entropy times ``scale`` in the scores."""
    aten, logs = torch.ops.aten, torch.log_softmax(scores, 1)
    ends = _MEAN, _NONE_IGNORED, logs.new_tensor(float(len(targets)))
    grad = aten.nll_loss_backward(logs.new_tensor(scale), logs, targets, None, *ends)
    found: Tensor = aten._log_softmax_backward_data(grad, logs, 1, logs.dtype)
    return found
