"""Training without noise is one plain loop. Nothing here is private; private training lives in `bounded/_gradients.py`."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional

from sfumato.loops._optimizers import adam_step

if TYPE_CHECKING:
    from sfumato.nn._losses import Loss

Steps = Callable[[int, int], None]
"""Told how many steps are done, and of how many."""


class Adam:
    r"""Adam works on one flat vector that the parameters become views of: one update for all, however many there are.

    :math:`m \leftarrow \beta m + (1 - \beta) g`, :math:`v \leftarrow 0.999 v + 0.001 g^2`, and a step of
    :math:`-\eta \hat m / (\sqrt{\hat v} + 10^{-8})` with both means corrected for their start at zero. (`torch.optim`
    would load the compiler stack, which takes longer than a whole edge-level run.) Weight decay adds its multiple of the
    parameters to the gradient; the momentum beta is 0.9, which GANs lower. A step is one pass over memory
    (:func:`~sfumato.loops._optimizers.adam_step`). ``paces`` are multiples of the learning rate, one for each parameter.

    Source: Kingma and Ba (2015), algorithm 1.
    """

    def __init__(
        self,
        parameters: Iterable[nn.Parameter],
        learning_rate: float,
        weight_decay: float = 0.0,
        momentum: float = 0.9,
        paces: Sequence[float] = (),
    ) -> None:
        parameters = list(parameters)
        self.learning_rate, self.weight_decay, self.momentum, self.steps = learning_rate, weight_decay, momentum, 0
        self.flat = torch.cat([parameter.detach().reshape(-1) for parameter in parameters])
        self.grad, self.mean, self.square = (torch.zeros_like(self.flat) for _ in range(3))
        sizes = [parameter.numel() for parameter in parameters]
        for parameter, value, grad in zip(parameters, self.flat.split(sizes), self.grad.split(sizes), strict=True):
            parameter.data, parameter.grad = value.view_as(parameter), grad.view_as(parameter)
        self.parts = [*zip(sizes, paces, strict=True)] if paces else [(sum(sizes), 1.0)]

    def step(self) -> None:
        """Update the parameters from ``grad``, and set ``grad`` to zero."""
        self.steps += 1
        arrays, start = [one.numpy() for one in (self.flat, self.grad, self.mean, self.square)], 0
        for size, pace in self.parts:
            part, rate = [one[start : start + size] for one in arrays], self.learning_rate * pace
            adam_step(*part, decay=self.weight_decay, momentum=self.momentum, rate=rate, steps=self.steps)
            start += size


class SGD(Adam):
    """Plain descent on one flat vector: a step of the learning rate against the gradient, without any memory."""

    def step(self) -> None:
        """Update the parameters from ``grad``, and set ``grad`` to zero."""
        self.flat.add_(self.grad, alpha=-self.learning_rate)
        self.grad.zero_()


class Momentum(Adam):
    """Descent with momentum 0.9 on one flat vector; the learning rate falls in equal steps to 0 at the end."""

    def __init__(self, parameters: Iterable[nn.Parameter], learning_rate: float, total: int) -> None:
        super().__init__(parameters, learning_rate)
        self.total = total

    def step(self) -> None:
        """Update the parameters from ``grad``, and set ``grad`` to zero."""
        rate = self.learning_rate * (1 - self.steps / self.total)
        self.steps += 1
        self.mean.mul_(self.momentum).add_(self.grad)
        self.flat.add_(self.mean, alpha=-rate)
        self.grad.zero_()


class _CrossEntropy(torch.autograd.Function):
    """Cross-entropy with a target mass [classes, rows], class by class: short rows of scores would not be vectorized."""

    @staticmethod
    def forward(ctx: Any, scores: Tensor, mass: Tensor) -> Tensor:
        log_probabilities = functional.log_softmax(scores.T.contiguous(), dim=0)
        ctx.save_for_backward(log_probabilities, mass)
        return -(log_probabilities * mass).sum()

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None]:
        log_probabilities, mass = ctx.saved_tensors
        return log_probabilities.exp().mul_(mass.sum(0)).sub_(mass).mul_(grad).T.contiguous(), None


def train_full_batch(
    model: nn.Module,
    scores: Callable[[], Tensor] | Sequence[Callable[[], Tensor]],
    targets: Tensor,
    *,
    num_classes: int,
    epochs: int,
    learning_rate: float,
    weight_decay: float = 0.0,
    validate: Callable[[], Tensor] | None = None,
    validation_targets: Tensor,
    patience: int | None = None,
    progress: Steps | None = None,
    loss: Loss | None = None,
) -> list[float]:
    """Train by Adam on the cross-entropy, in place; with ``validate``, keep the epoch with the best accuracy there.

    With another ``loss`` the epoch with the least of it is kept. Choosing an epoch reads the validation labels: callers pass
    ``validate`` only where labels are public. ``scores`` computes the scores of the training rows, in training mode; several
    such functions are for the equal parts of the rows that ``torch.tensor_split`` makes, of which each step takes the next. A
    target of -1 has no loss.
    """
    optimizer = Adam(model.parameters(), learning_rate, weight_decay)
    parts = [scores] if callable(scores) else scores
    measures = _measures(loss, targets, num_classes, len(parts))
    best, best_epoch, best_state, losses = -math.inf, 0, None, []
    for epoch in range(epochs):
        model.train()
        found = measures[epoch % len(parts)](parts[epoch % len(parts)]())
        found.backward()
        optimizer.step()
        losses.append(found.detach())
        if validate is not None:
            model.eval()
            with torch.no_grad():
                held_out = validate()
                if loss is None:
                    merit = float(torch.eq(held_out.argmax(1), validation_targets).double().mean())
                else:
                    merit = -float(loss.mean(held_out, validation_targets))
            if merit > best:
                best, best_epoch = merit, epoch
                best_state = {key: value.clone() for key, value in model.state_dict().items()}
        if progress is not None:
            progress(epoch + 1, epochs)
        if validate is not None and patience is not None and epoch - best_epoch >= patience:
            break
    if best_state is not None:
        model.load_state_dict(best_state)
    model.eval()
    return [float(one) for one in losses]


def _measures(loss: Loss | None, targets: Tensor, num_classes: int, num_parts: int) -> list[Callable[[Tensor], Tensor]]:
    """For each part of the rows, the mean loss of its scores."""
    parts = targets.tensor_split(num_parts)
    if loss is None:
        return [partial(_cross_entropy, _mass(own, num_classes)) for own in parts]
    return [partial(loss.mean, targets=own) for own in parts]


def _mass(targets: Tensor, num_classes: int) -> Tensor:
    labeled = targets >= 0
    return functional.one_hot(targets.clamp_min(0), num_classes).T * (labeled / labeled.sum())


def _cross_entropy(mass: Tensor, scores: Tensor) -> Tensor:
    found: Tensor = _CrossEntropy.apply(scores, mass)
    return found


def train_in_batches(
    model: nn.Module,
    take: Callable[[NDArray[np.int64]], tuple[Tensor, Tensor]],
    rows: NDArray[np.int64],
    *,
    epochs: int,
    batch_size: int,
    learning_rate: float,
    seed: int,
    progress: Steps | None = None,
) -> None:
    """Train by Adam on the cross-entropy of random batches, in place."""
    optimizer = Adam(model.parameters(), learning_rate)
    draw, each = np.random.default_rng(seed), -(-len(rows) // batch_size)
    model.train()
    for step in range(epochs * each):
        if step % each == 0:
            order = draw.permutation(rows)
        at = (step % each) * batch_size
        inputs, targets = take(order[at : at + batch_size])
        functional.cross_entropy(model(inputs), targets).backward()
        optimizer.step()
        if progress is not None:
            progress(step + 1, epochs * each)
