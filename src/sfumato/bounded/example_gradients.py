r"""Clipped gradients of single examples, for convolutional networks.

The gradient of an example in a convolution's weights is the product of the gradient in what leaves the layer, [outputs,
places], and of the patches that enter it, [places, inputs]: one batched product gives those of all examples. In a linear layer
there is one place.

**Formal guarantee** of :func:`clipped_example_sum`: whole numbers of steps of :math:`C / 2^{24}`, of which an example adds a
vector of norm at most :math:`2^{24}` (:mod:`~sfumato.bounded.clip_kernel`). An example with target -1 (an empty record) adds
zero. Sums are exact in any order and are not rounded again, so the margin eta of
:func:`~sfumato.bounded.gradients.noisy_steps` is 0. Two data sets that differ in one record have sums that differ by
at most C where one of them is empty, and by at most 2 C else; and they are equal where this record is not drawn.

**What is assumed.** What an example adds has to be a function of its own row and of the weights. If the coin of one record
moved the last bits of others, a network could make much of them, such as by the choice of a maximum. Each chunk has exactly 64
rows, filled up with zeros, so that its shape never depends on what was drawn or is empty. Torch is assumed to give a row of a
chunk the same bits wherever it stands and whatever other rows hold. That can only hold if functions of single
numbers are exact ones, such as ReLU and maxima, or those of :mod:`~sfumato.nn.steady`: Torch computes the last few
numbers of a thread's share of an array in other code. Tests hold networks to it, bit for bit.

Source: Abadi et al. (2016), algorithm 1; patches: Rochette, Manoel and Tramel (2019).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from sfumato._validate import check_int, fail
from sfumato.bounded.clip_kernel import MOST_ROWS, add_clipped
from sfumato.nn.steady import softmax

if TYPE_CHECKING:
    from numpy.typing import NDArray

CHUNK = 64
"""Rows of a chunk: a fixed number, so that shapes depend on nothing."""
Layer = nn.Linear | nn.Conv2d


def clipped_example_sum(model: nn.Module, inputs: Tensor, targets: Tensor, l2_clip_norm: float) -> NDArray[np.int64]:
    """Sum the cross-entropy gradients of all examples, each clipped to ``l2_clip_norm`` over all parameters jointly.

    **Formal guarantee.** The result is exact: whole numbers of steps of ``l2_clip_norm`` / 2^24, of which an example adds a
    vector of norm at most 2^24; see the top of this file.

    Args:
        model: a network in which every parameter belongs to an ``nn.Linear`` or ``nn.Conv2d`` that an example meets once. A
            ``forward`` that mixes rows cannot be detected here: pass networks of `nn/`.
        inputs: what the network reads, [batch, ...].
        targets: class of each example, int64 [batch]; -1 for an empty record.
        l2_clip_norm: the clipping threshold C, from 1e-9 to 1e9.

    Shapes: the result is [num_parameters], in the order of ``model.parameters()``.

    Raises:
        InputError: the model has other parameters, uses a layer twice, or ``l2_clip_norm`` is out of range.

    >>> model = nn.Linear(2, 2, bias=False)
    >>> _ = nn.init.zeros_(model.weight)
    >>> steps = clipped_example_sum(model, torch.tensor([[3.0, 4.0]]), torch.tensor([0]), l2_clip_norm=1.0)
    >>> (steps / 2**24).round(3).tolist()
    [-0.424, -0.566, 0.424, 0.566]
    """
    check_int(high=MOST_ROWS, examples=len(targets))
    layers, total = _layers(model), np.zeros(sum(parameter.numel() for parameter in model.parameters()))
    for at in range(0, len(targets), CHUNK):
        labels = targets[at : at + CHUNK]
        missing = CHUNK - len(labels)
        rows = functional.pad(inputs[at : at + CHUNK].flatten(1), (0, 0, 0, missing)).reshape(CHUNK, *inputs.shape[1:])
        labels = functional.pad(labels, (0, missing), value=-1)
        gradients = _example_gradients(model, layers, rows, labels.clamp_min(0))
        add_clipped(gradients.numpy(), (labels >= 0).numpy(), l2_clip_norm, total)
    return total.astype(np.int64)


def _example_gradients(model: nn.Module, layers: list[Layer], rows: Tensor, labels: Tensor) -> Tensor:
    """Return the gradient of each example, [batch, num_parameters]."""
    met: dict[Layer, tuple[Tensor, Tensor]] = {}

    def keep(layer: Layer, entering: tuple[Tensor, ...], leaving: Tensor) -> None:
        if layer in met:
            raise fail("model", type(layer).__name__, "to use each layer once an example")
        met[layer] = entering[0].detach(), leaving

    hooks = [layer.register_forward_hook(keep) for layer in layers]
    try:
        scores = model(rows)
    finally:
        for hook in hooks:
            hook.remove()
    missed = softmax(scores.detach().double()) - functional.one_hot(labels, scores.shape[1])
    leaving = torch.autograd.grad(scores, [met[layer][1] for layer in layers], missed.to(scores.dtype))
    parts: dict[int, Tensor] = {}
    for layer, grad in zip(layers, leaving, strict=True):
        entering, grad = _patches(layer, met[layer][0]), grad.flatten(2) if grad.ndim > 2 else grad[:, :, None]
        parts[id(layer.weight)] = (grad @ entering).flatten(1)
        if layer.bias is not None:
            parts[id(layer.bias)] = grad.sum(2)
    return torch.cat([parts[id(parameter)] for parameter in model.parameters()], 1)


def _patches(layer: Layer, entering: Tensor) -> Tensor:
    """Return what meets the weights, [batch, places, inputs]."""
    if isinstance(layer, nn.Linear):
        return entering[:, None]
    padding, stride, dilation = layer.padding, layer.stride, layer.dilation
    assert not isinstance(padding, str)
    return functional.unfold(entering, layer.kernel_size, dilation, padding, stride).transpose(1, 2)


def _layers(model: nn.Module) -> list[Layer]:
    layers = [module for module in model.modules() if isinstance(module, Layer)]
    owned = {id(parameter) for layer in layers for parameter in layer.parameters()}
    faults = [name for name, parameter in model.named_parameters() if id(parameter) not in owned]
    faults += [
        type(module).__name__ for module in model.modules() if isinstance(module, nn.modules.batchnorm._NormBase)
    ]
    if sum(len(list(layer.parameters())) for layer in layers) > len(owned):
        faults.append("shared weights")
    for layer in layers:
        if isinstance(layer, nn.Conv2d) and (
            layer.groups > 1 or layer.padding_mode != "zeros" or isinstance(layer.padding, str)
        ):
            faults.append("convolution in groups, or padded by a word")
    if faults:
        raise fail(
            "model",
            ", ".join(faults),
            "to hold only Linear and Conv2d layers used once an example",
            "Remove batch norm and other parameters, and give paddings as numbers.",
        )
    return layers
