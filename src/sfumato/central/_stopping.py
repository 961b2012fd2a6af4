r"""Early stopping: weights along the way of DP-SGD, compared by how many validation nodes they predict right.

Weights after J steps, evenly spaced, are kept. The last is the only one without a comparison; with one, the weights with the
largest (noisy) number of right answers are taken, the later ones of equals.

**Formal guarantee** of the paid form: one Gaussian release of the J numbers, scaled by :math:`1 / \sqrt J`. The row of a node
says which of J weights predict it right from its own features, divided by :math:`\sqrt J`: norm at most 1. It reads the record,
and earlier releases: DP-SGD charges all its iterates. Without a label it is zero, so the sum has sensitivity 1 (2 if a record
is replaced), by :func:`~sfumato.bounded._grouping.group_sensitivity`.

Where validation nodes are *declared public*, nothing is promised about them, and the exact numbers are read for nothing: what is
kept is post-processing for all other records.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from sfumato.bounded._grouping import group_sensitivity, noisy_group_sums
from sfumato.central._two_layers import weight_arrays
from sfumato.loops.kernels import INT16_ONE
from sfumato.method._gaussian import multiplier_of
from sfumato.privacy.events import GaussianEvent
from sfumato.record.ledger import Release

if TYPE_CHECKING:
    from sfumato.bounded._split_kernel import Floats
    from sfumato.graph._graph import Graph
    from sfumato.method.contract import Arrays, Planned, Session
    from sfumato.privacy.events import PoissonGaussianEvent
    from sfumato.privacy.units import Unit

DECLARED = "Features and labels of validation nodes were declared public: nothing is promised about them."
_SHARE, _SLACK = 0.05, 1 - 2.0**-20


def choice_release(event: PoissonGaussianEvent, unit: Unit, checkpoints: int) -> Release:
    r"""Describe the comparison beside a DP-SGD run; it takes about 5 % of :math:`\mu^2`, by the central limit of the run."""
    whole = (
        event.steps * (event.sampling_prob / event.noise_multiplier) ** 2 * (4 if event.relation == "replace" else 1)
    )
    noise = GaussianEvent(math.sqrt((1 - _SHARE) / _SHARE / whole))
    return Release("choice", noise, (checkpoints,), checkpoints, arc_change=unit.no_arc_change)


class Stopping:
    """What is kept of a training, and the choice among it."""

    def __init__(self, checkpoints: int, steps: int, plan: Planned, graph: Graph) -> None:
        self.at = {math.ceil(steps * k / checkpoints) for k in range(1, checkpoints + 1)}
        self.plan, self.graph = plan, graph
        self.kept: list[Floats] = []

    def seen(self, step: int, flat: Floats) -> None:
        """Keep the parameters after a step, if it is one of those that are compared."""
        if step in self.at:
            self.kept.append(flat.copy())

    def best(
        self, last: Arrays, width: int, session: Session, scores: Callable[[Arrays], NDArray[np.float32]], *, paid: bool
    ) -> Arrays:
        """Return the weights with most right answers and, where they were paid for, the noisy numbers beside them."""
        kept = [weight_arrays(self.plan.public, width, flat) for flat in self.kept] or [last]
        rows, told = self._right([scores(one) for one in kept]), {}
        if paid and self.plan.unit.private:
            key = session.charge("choice")
            session.bind("choice", rows)
            noise = multiplier_of(self.plan, "choice") * group_sensitivity(self.plan.unit)
            counts = noisy_group_sums(rows, np.zeros(len(rows), np.int64), 1, noise, key)[0]
            told = {"choice": (counts * (math.sqrt(len(kept)) / INT16_ONE)).astype(np.float32)}
        else:
            counts = rows.sum(axis=0)
        return {**kept[len(kept) - 1 - int(np.argmax(counts[::-1]))], **told}

    def _right(self, found: list[NDArray[np.float32]]) -> NDArray[np.float32]:
        """Of each validation node which weights are right, of norm at most 1; zero without a label."""
        ids = np.flatnonzero(self.graph.val_mask)
        labels = np.full(len(ids), -1) if self.graph.y is None else self.graph.y[ids]
        right = np.stack([one[ids].argmax(axis=1) == labels for one in found], axis=1)
        return (right * (_SLACK / math.sqrt(len(found)))).astype(np.float32)
