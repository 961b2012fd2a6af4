r"""Losses of several labels and of a number, and the slopes that DP-SGD clips.

A slope is the gradient of one example's loss in its scores. **Each row of it depends on the same row of scores and targets
alone**, and is zero where a target is missing: an example with many labels is one example, with one gradient to clip.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping

from torch import Tensor
from torch.nn import functional

from sfumato.loops._products import products
from sfumato.nn._reproducible import sigmoid

Slope = Callable[[Tensor, Tensor], Tensor]
"""Maps scores float64 [n, k] and targets to slopes [n, k], row by row."""


def class_slope(scores: Tensor, classes: Tensor) -> Tensor:
    """Return the slopes of cross-entropy in float64 scores; a class of -1 is missing."""
    return products().class_slope(scores, classes)


class Loss(ABC):
    """A loss compares scores with targets, both [n, k]; NaN is a missing target, which has no loss."""

    @abstractmethod
    def mean(self, scores: Tensor, targets: Tensor) -> Tensor:
        """Compute the mean loss of the targets that are there, for plain training."""

    @abstractmethod
    def slope(self, scores: Tensor, targets: Tensor) -> Tensor:
        """Return the slope of each example's loss, the sum over its columns; exact for float64 scores."""


class LabelLoss(Loss):
    r"""The loss of several labels is the binary cross-entropy of each, :math:`\log(1 + e^s) - t s` for score s and label t."""

    def mean(self, scores: Tensor, targets: Tensor) -> Tensor:
        """Compute the mean binary cross-entropy; ``scores`` and ``targets`` are [n, k]."""
        known = ~targets.isnan()
        return functional.binary_cross_entropy_with_logits(scores[known], targets[known])

    def slope(self, scores: Tensor, targets: Tensor) -> Tensor:
        """Return probabilities less labels; ``scores`` and ``targets`` are [n, k]."""
        return (sigmoid(scores) - targets).masked_fill_(targets.isnan(), 0.0)


class NumberLoss(Loss):
    r"""The loss of a number is half of its squared error, :math:`(s - t)^2 / 2` for score s and target t."""

    def mean(self, scores: Tensor, targets: Tensor) -> Tensor:
        """Compute half of the mean squared error; ``scores`` and ``targets`` are [n, 1]."""
        known = ~targets.isnan()
        return functional.mse_loss(scores[known], targets[known]) / 2

    def slope(self, scores: Tensor, targets: Tensor) -> Tensor:
        """Return scores less targets; ``scores`` and ``targets`` are [n, 1]."""
        return (scores - targets).masked_fill_(targets.isnan(), 0.0)


LOSSES: Mapping[str, Loss] = {"multilabel": LabelLoss(), "number": NumberLoss()}
"""By the kind of the targets."""
