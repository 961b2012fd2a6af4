r"""Clipped gradients of single examples, for networks of any layers, such as convolutions.

**Formal guarantee** of :func:`clipped_example_sum`: integers, in steps of :math:`C / 2^{24}`, of which an example adds a
vector of norm at most :math:`2^{24}` (:mod:`~sfumato.bounded._clip_kernel`). An example with target -1 (an empty record) adds
zero. Sums are exact in any order and are not rounded again, so the margin eta of
:func:`~sfumato.bounded._gradients.noisy_steps` is 0. Two data sets that differ in one record have sums that differ by
at most C where one of them is empty, and by at most 2 C else; and they are equal where this record is not drawn.

**What is assumed.** What an example adds has to be a function of its own row and of the weights: if the coin of one record moved
the last bits of others, a network could make much of them, such as by the choice of a maximum. So each example is computed in
calls of its own, forward and backward, on a copy of its row: no other row takes part, and shapes and places in memory are the
same for all. One batch for many rows is about four times as fast, and does not have this property: Torch's products in
float32 were seen to give a row other bits at another place of a batch of 64 (a dense layer of 33 units).

Source: Abadi et al. (2016), algorithm 1.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from sfumato._validate import check_int, check_real, fail
from sfumato.bounded._clip_kernel import LEAST_CLIP, MOST_CLIP, MOST_ROWS, add_clipped

if TYPE_CHECKING:
    from numpy.typing import NDArray


def clipped_example_sum(
    model: nn.Module,
    inputs: Tensor,
    targets: Tensor,
    l2_clip_norm: float,
    loss: Callable[[Tensor, Tensor], Tensor] = functional.cross_entropy,
) -> NDArray[np.int64]:
    """Sum the gradients of the losses of all examples, each clipped to ``l2_clip_norm`` over all parameters jointly.

    The network and its ``loss`` have to keep nothing from one call to the next: batch norm is refused
    (:mod:`~sfumato.bounded._modules` refuses the rest). A target is a class, or -1 for an empty record.

    >>> model = nn.Linear(2, 2, bias=False)
    >>> _ = nn.init.zeros_(model.weight)
    >>> steps = clipped_example_sum(model, torch.tensor([[3.0, 4.0]]), torch.tensor([0]), l2_clip_norm=1.0)
    >>> (steps / 2**24).round(3).tolist()
    [-0.424, -0.566, 0.424, 0.566]
    """
    check_int(high=MOST_ROWS, examples=len(targets))
    check_real(low=LEAST_CLIP, high=MOST_CLIP, l2_clip_norm=l2_clip_norm)
    mixing = [type(module).__name__ for module in model.modules() if isinstance(module, nn.modules.batchnorm._NormBase)]
    if mixing:
        raise fail("model", ", ".join(mixing), "to score each example by itself", "Remove batch norm.")
    parameters, counted = list(model.parameters()), np.ones(1, bool)
    total = np.zeros(sum(parameter.numel() for parameter in parameters))
    with _small_convolutions():
        for i in torch.nonzero(targets >= 0).flatten().tolist():
            missed = loss(model(inputs[i : i + 1].clone()), targets[i : i + 1].clone())
            row = torch.cat([part.reshape(-1) for part in torch.autograd.grad(missed, parameters)])
            add_clipped(row[None].numpy(), counted, l2_clip_norm, total)
    return total.astype(np.int64)


@contextmanager
def _small_convolutions() -> Iterator[None]:
    """Let Torch convolve by its own loops: for a single image they take half the time of oneDNN's."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of another device's settings
        with torch.backends.mkldnn.flags(enabled=False):
            yield
