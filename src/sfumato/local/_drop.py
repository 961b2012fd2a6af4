r"""Learning from noisy labels: the losses (cross-entropy, forward correction, Drop), and which epoch is kept.

With p the network's class probabilities, :math:`T_{yr} = P(r \mid y)` the randomizer of labels and h the hops of
:mod:`~sfumato.local._propagation`, losses are means over training nodes of

* ``cross-entropy``: :math:`-\log p_r`, as if the report were the label;
* ``forward``: :math:`-\log (pT)_r`, whose minimizer in expectation is that of the loss on true labels;
* ``drop``: :math:`-\log \operatorname{softmax}(h(pT))_{\tilde y}`, where :math:`\tilde y` is the largest entry of h applied
  to the reports of training *and* validation nodes. With 0 hops this is ``forward``. Where reports are sets of classes,
  their unbiased label estimates are smoothed in place of one-hot reports, and p in place of pT.

A training node that no report reaches has no target and no part in the loss (as published, it would be taught class 0).

Epochs are judged by the forward loss of the validation reports, and by how often a prediction agrees with a report. A
prediction that is right agrees with probability :math:`Acc^*`, the p of randomized response, and a wrong one with probability q.

* ``published``: an epoch replaces the kept one only if its validation loss is lower, its validation agreement higher and
  at most Acc*, and its training agreement (of the pass with dropout, before the step) higher and at most 1.05 Acc*. The
  first epoch is kept unconditionally: if it exceeds a cap, or by luck scores well, an untrained network is returned.
* ``algorithm-4``: least validation loss among epochs with both agreements at most Acc*; with none, among all.
* ``debiased``: least validation loss. Its minimizer in expectation is that of the loss on true labels (forward correction), it
  uses whole probabilities where agreement uses one bit, and no cap or earlier epoch can lock it. What is reported is the
  accuracy :math:`(agreement - q) / (p - q)` with its 95 % interval.
* ``last``: the last epoch.

**Formal guarantee.** All of this is post-processing of reports, so it spends nothing. True labels are never an argument.

Source: Sajadmanesh and Gatica-Perez (2021), Locally Private Graph Neural Networks, algorithm 4 and its reference code
(``published``); Patrini et al. (2017), forward correction.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from sfumato._validate import check_choice
from sfumato.local._propagation import propagate
from sfumato.local._smoothed import debiased

if TYPE_CHECKING:
    from torch import Tensor

    from sfumato.local._collection import Collection
    from sfumato.local._heat import Floats
    from sfumato.nn._topology import Topology

LOSSES = ("cross-entropy", "forward", "drop")
SELECTIONS = ("published", "algorithm-4", "debiased", "last")
_LEAST = 1e-20
_TRAIN_SLACK = 1.05
Z = 1.959963984540054


def targets(collection: Collection, steps: int, *, mean: bool = False) -> NDArray[np.int64]:
    """Compute Drop's label of each training node, int64 [n]; -1 elsewhere and where no report reaches."""
    num_classes, num_outputs = collection.transition.shape
    known = collection.known
    rows = np.eye(num_classes) if num_classes == num_outputs else debiased(collection.transition)
    columns = np.zeros((len(known), num_classes + 1))
    columns[known, :-1] = rows[collection.labels[known]]
    columns[known, -1] = 1
    smoothed = propagate(collection.adjacency, columns, steps, mean=mean)[-1]
    return np.where(collection.train_mask & (smoothed[:, -1] > 0), smoothed[:, :-1].argmax(axis=1), -1)


class Objective:
    """An objective is one of ``LOSSES`` on the reports of the training nodes, as a function of scores [n, C].

    ``mean`` says how Drop takes its hops.
    """

    def __init__(
        self, loss: str, collection: Collection, topology: Topology, steps: int, *, mean: bool = False
    ) -> None:
        import torch

        check_choice(LOSSES, loss=loss)
        self.loss = "forward" if loss == "drop" and steps == 0 else loss
        self.topology, self.steps, self.mean = topology, steps, mean
        wanted = targets(collection, steps, mean=mean) if self.loss == "drop" else collection.labels
        ids = np.flatnonzero(collection.train_mask & (wanted >= 0))
        self.ids, self.wanted = torch.from_numpy(ids), torch.from_numpy(wanted[ids])
        self.transition = torch.from_numpy(collection.transition).float()

    def __call__(self, scores: Tensor) -> Tensor:
        from torch.nn import functional

        if self.loss == "cross-entropy":
            return functional.cross_entropy(scores[self.ids], self.wanted)
        if self.loss == "forward":
            return forward_loss(scores[self.ids], self.transition, self.wanted)
        shares = scores.softmax(1)
        if self.transition.shape[0] == self.transition.shape[1]:
            shares = shares @ self.transition
        return functional.cross_entropy(self.topology.hop(shares, self.steps, mean=self.mean)[self.ids], self.wanted)


def forward_loss(scores: Tensor, transition: Tensor, reports: Tensor) -> Tensor:
    """Compute the forward loss, the mean of -log P(report), from scores before softmax."""
    return -((scores.softmax(1) * transition.T[reports]).sum(1) + _LEAST).log().mean()


class Agreement:
    """An agreement tells how often predictions agree with reports, and what accuracy that means.

    A prediction agrees with a report if no other class makes this report more probable. Under randomized response the report
    is then the predicted class itself, and under subset selection a set that holds it. ``ceiling`` is p, or Acc*, the
    probability that a right prediction agrees; ``chance`` is q, that of a wrong one.
    """

    def __init__(self, transition: Floats) -> None:
        self.table = transition >= transition.max(axis=0) * (1 - 1e-9)
        agree = self.table @ transition.T
        num_classes = len(transition)
        self.ceiling = float(np.trace(agree) / num_classes)
        self.chance = float((agree.sum() - np.trace(agree)) / (num_classes * (num_classes - 1)))

    def share(self, predicted: NDArray[np.int64], reports: NDArray[np.int64]) -> float:
        return float(self.table[predicted, reports].mean())

    def accuracy(self, share: float, count: int) -> tuple[float, float, float]:
        """Compute the accuracy without bias, so that it may lie outside [0, 1], and its 95 % Wilson interval within."""
        center = (share + Z**2 / (2 * count)) / (1 + Z**2 / count)
        half = Z / (1 + Z**2 / count) * math.sqrt(share * (1 - share) / count + Z**2 / (4 * count**2))
        low, value, high = (
            (s - self.chance) / (self.ceiling - self.chance) for s in (center - half, share, center + half)
        )
        return value, min(max(low, 0.0), 1.0), min(max(high, 0.0), 1.0)


class Epoch(NamedTuple):
    """An epoch is judged by numbers from noisy reports alone: validation loss, and the shares of predictions that agree."""

    number: int
    loss: float
    val: float
    train: float


@dataclass(frozen=True)
class Selection:
    """A selection is a rule of ``SELECTIONS`` that decides which epoch is kept; ``ceiling`` is Acc*."""

    rule: str
    ceiling: float

    def __post_init__(self) -> None:
        check_choice(SELECTIONS, select=self.rule)

    def replaces(self, kept: Epoch | None, new: Epoch) -> bool:
        if kept is None or self.rule == "last":
            return True
        if self.rule == "published":
            val, train = kept.val < new.val <= self.ceiling, kept.train < new.train <= _TRAIN_SLACK * self.ceiling
            return new.loss < kept.loss and val and train
        if self.rule == "algorithm-4":
            return (self._over(new), new.loss) < (self._over(kept), kept.loss)
        return new.loss < kept.loss

    def _over(self, epoch: Epoch) -> bool:
        return max(epoch.val, epoch.train) > self.ceiling
