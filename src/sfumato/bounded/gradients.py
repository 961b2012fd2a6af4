r"""DP-SGD: Poisson samples, per-example clipping by the norm trick, noise on a grid.

For a linear layer :math:`z = W a + b` that each example meets once, the example's gradient is the outer product
:math:`g a^\top`, so its squared norm is :math:`\|g\|^2 (\|a\|^2 + 1)` (the 1 is the bias): no per-example gradient is
stored, and one re-weighted product a layer gives the clipped sum.

**Formal guarantee** of :func:`private_steps`: a :class:`~sfumato.privacy.events.PoissonGaussianEvent` under
add/remove, where removing a record makes its contribution zero. Each public id in the training role is drawn with
probability q by a secret coin of its own; an example's clipped gradient, over all parameters jointly, has norm at
most C; the divisor is the public ``q * num_ids``; empty samples are noised and counted.

**Grid.** Everything is computed in float64 and the clipped sum is rounded to multiples of :math:`C / 2^{24}`. Two
neighbouring sums then differ by at most :math:`C (1 + \eta)`, :math:`\eta = 2^{-20} + 2^{-24} \sqrt P` for P
parameters: :math:`2^{-24} \sqrt P` bounds the two roundings, and :math:`2^{-20}` is a stated (not proved) margin, a
thousandfold or more above the float64 error that one example can cause in the others' part of the sum. Noise has
standard deviation z C (1 + eta).

Source: Abadi et al. (2016), algorithm 1; norm trick: Goodfellow (2015).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from sfumato._validate import check_int, check_real, fail
from sfumato.nn.models import SparseRows
from sfumato.nn.training import Adam
from sfumato.noise.coins import coins
from sfumato.noise.gaussian import rounded_gaussian
from sfumato.noise.keys import Key, derive_key, operand_mac
from sfumato.privacy.splitting import MOST_SGD_NOISE

_GRID_BITS = 24
Batch = Callable[[NDArray[np.int64]], Sequence[Tensor | SparseRows]]


@dataclass(frozen=True)
class PrivateSGD:
    """Public settings of a DP-SGD run.

    Args:
        sampling_prob: q, probability that an id enters a step, in (0, 1].
        steps: number of steps, fixed in advance.
        l2_clip_norm: C > 0.
        noise_multiplier: z in (0, 2048], noise standard deviation over C (1 + eta).
        learning_rate: of Adam.

    >>> PrivateSGD(sampling_prob=0.1, steps=10, l2_clip_norm=1.0, noise_multiplier=1.0, learning_rate=0.01).steps
    10
    """

    sampling_prob: float
    steps: int
    l2_clip_norm: float
    noise_multiplier: float
    learning_rate: float

    def __post_init__(self) -> None:
        check_real(low=0, high=1, open_low=True, sampling_prob=self.sampling_prob)
        check_int(low=1, steps=self.steps)
        check_real(low=0, open_low=True, l2_clip_norm=self.l2_clip_norm)
        check_real(low=0, high=MOST_SGD_NOISE, open_low=True, noise_multiplier=self.noise_multiplier)
        check_real(low=0, open_low=True, learning_rate=self.learning_rate)


def rounding_margin(num_parameters: int) -> float:
    """eta: how far grid and float error may carry a clipped sum beyond C, as a fraction of C.

    >>> rounding_margin(10000) < 1e-5
    True
    """
    return 2.0**-20 + 2.0**-_GRID_BITS * math.sqrt(num_parameters)


def clipped_gradient_sum(
    model: nn.Module, inputs: Sequence[Tensor | SparseRows], targets: Tensor, l2_clip_norm: float
) -> list[Tensor]:
    """Sum over examples of the cross-entropy gradient, each clipped to ``l2_clip_norm`` over all parameters jointly.

    Examples with target -1 (an empty record) have zero loss; one whose gradient overflows adds zero too. Every parameter
    must belong to an ``nn.Linear`` that an example meets once; batch norm and shared weights are refused.
    A ``forward`` that mixes rows in other ways cannot be seen from here: pass networks of `nn/models.py`.

    Shapes: ``inputs`` [batch, ...], ``targets`` int64 [batch]; the result matches ``model.parameters()``.
    """
    layers = _linear_layers(model)
    captured: dict[int, tuple[Tensor | SparseRows, Tensor]] = {}

    def capture(layer: nn.Module, args: tuple[Tensor, ...], output: Tensor) -> None:
        if id(layer) in captured:
            raise fail("model", type(model).__name__, "to use each Linear layer once an example")
        captured[id(layer)] = (args[0], output)

    hooks = [layer.register_forward_hook(capture) for layer in layers]
    try:
        scores = model(*inputs)
        loss = nn.functional.cross_entropy(scores, targets, ignore_index=-1, reduction="sum")
    finally:
        for hook in hooks:
            hook.remove()
    outputs = [captured[id(layer)][1] for layer in layers]
    grads = torch.autograd.grad(loss, outputs)
    squares = torch.zeros(len(targets), dtype=scores.dtype)
    for layer, grad in zip(layers, grads, strict=True):
        squares += grad.square().sum(1) * (_squares(captured[id(layer)][0]) + float(layer.bias is not None))
    finite = torch.isfinite(squares)
    weight = l2_clip_norm / squares.sqrt().clamp_min(l2_clip_norm)
    sums: dict[int, Tensor] = {}
    for layer, grad in zip(layers, grads, strict=True):
        weighted = torch.where(finite[:, None], grad * weight[:, None], 0.0)
        sums[id(layer.weight)] = _outer(weighted, captured[id(layer)][0], finite)
        if layer.bias is not None:
            sums[id(layer.bias)] = weighted.sum(0)
    return [sums[id(parameter)] for parameter in model.parameters()]


def _squares(entering: Tensor | SparseRows) -> Tensor:
    return entering.squares if isinstance(entering, SparseRows) else entering.detach().square().sum(1)


def _outer(weighted: Tensor, entering: Tensor | SparseRows, finite: Tensor) -> Tensor:
    """Sum over finite rows of (weighted row) x (entering row); stored features are finite."""
    if isinstance(entering, SparseRows):
        return (entering.transposed @ weighted).T
    return weighted.T @ torch.where(finite[:, None], entering.detach(), 0.0)


def _linear_layers(model: nn.Module) -> list[nn.Linear]:
    layers = [module for module in model.modules() if isinstance(module, nn.Linear)]
    owned = {id(parameter) for layer in layers for parameter in layer.parameters()}
    foreign = [name for name, parameter in model.named_parameters() if id(parameter) not in owned]
    mixing = [type(m).__name__ for m in model.modules() if isinstance(m, nn.modules.batchnorm._NormBase)]
    shared = sum(len(list(layer.parameters())) for layer in layers) > len(owned)
    if foreign or mixing or shared:
        raise fail(
            "model",
            ", ".join(foreign + mixing) or "shared weights",
            "to hold only Linear layers used once an example",
            "Remove batch norm and parameters outside Linear layers.",
        )
    return layers


def private_steps(
    model: nn.Module,
    batch: Batch,
    ids: NDArray[np.integer],
    settings: PrivateSGD,
    key: Key,
    progress: Callable[[int, int], None] | None = None,
) -> bytes:
    """Train ``model`` in place with DP-Adam; the last iterate is the result. Returns a MAC of all sums read, secret.

    Args:
        model: float64 network of Linear layers, one example a row.
        batch: maps positions in ``ids`` to (inputs..., targets).
        ids: public ids in the training role; position and divisor use nothing else.
        settings: public settings.
        key: key of this release: the sampling coins and all noise derive from it.
        progress: called with (step, steps).
    """
    parameters = list(model.parameters())
    if any(parameter.dtype != torch.float64 for parameter in parameters):
        raise fail("model", "parameters below float64", "to be computed in float64", "Call model.double() first.")
    if len(ids) == 0:
        raise fail("ids", "no id", "to hold the ids of the training role", "Give at least one node the train role.")
    size = sum(p.numel() for p in parameters)
    step_size = settings.l2_clip_norm / 2.0**_GRID_BITS
    stddev = settings.noise_multiplier * (1 + rounding_margin(size)) * 2.0**_GRID_BITS
    divisor = settings.sampling_prob * len(ids)
    optimizer = Adam(parameters, settings.learning_rate)
    operands = key
    for step in range(settings.steps):
        chosen = np.flatnonzero(coins(derive_key(key, "sample", step), settings.sampling_prob, ids))
        *inputs, targets = batch(chosen)
        assert isinstance(targets, Tensor)
        sums = clipped_gradient_sum(model, inputs, targets, settings.l2_clip_norm)
        flat = np.rint(torch.cat([s.reshape(-1) for s in sums]).numpy() / step_size).astype(np.int64)
        mac = operand_mac(key, flat)
        operands = derive_key(operands, mac)
        noise_key = derive_key(key, "noise", step, mac)
        noisy = flat + rounded_gaussian(noise_key, stddev, 0, size)
        optimizer.grad.copy_(torch.from_numpy(noisy * (step_size / divisor)))
        optimizer.step()
        if progress is not None:
            progress(step + 1, settings.steps)
    return operands
