r"""In PATE with co-teaching and in PATE+, two discriminators choose each other's labels.

In epoch e each discriminator takes, of a minibatch's candidates, the share

.. math:: R(e) = 1 - \beta \min(e / E_0, 1)

with the smallest loss under itself, and its *peer* learns from them. Candidates are all labeled rows (co-teaching), or those
on which the two predict different classes (PATE+, "update by disagreement"). Without candidates a step has no supervised loss.

``as_published`` repeats five faults of the published training code of co-teaching+ that change its results:

1. losses of disagreeing rows read probabilities as if they were scores, so that softmax is taken twice;
2. the mean loss over the chosen rows is divided by their number once more;
3. of disagreeing rows, if the one at position 0 of the data is among them, the last of the minibatch is left out;
4. without disagreement all rows are learned from, while epoch x step, taken for a count of steps, is below 5000;
5. the share R(e) is rounded down (Algorithm 1 asks for at least that share), and to all rows instead of none.

It also moved tensors to a GPU without being asked; nothing here does, in either mode.

**Formal guarantee.** Post-processing of the noisy labels, see :mod:`sfumato.students._gan`; ``noise_rate`` is public, and must
not come from votes or from true labels of private rows.

Source: Algorithm 1 and section 3.4.1 of the thesis; Han et al. (2018); Yu et al. (2019).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from torch.nn import functional

from sfumato._validate import AT_LEAST_1, check_fields, real
from sfumato.students._gan import Batch, GANStudent

if TYPE_CHECKING:
    from torch import Tensor

_PUBLISHED_STEPS = 5000


@dataclass(frozen=True)
class CoTeaching(GANStudent):
    """PATE with co-teaching lets each discriminator learn from the labels its peer finds easy; these are its public settings.

    **Formal guarantee.** Post-processing of the noisy labels, see :mod:`sfumato.students._gan`.

    Args:
        noise_rate: beta, the public guess of the share of wrong labels.
        ramp: E_0, epochs until R(e) has come down to 1 - beta.
        as_published: repeat the faults of the published code that change this student (2 and 5 of the list in the module).

    Raises:
        InputError: a setting out of range.

    Source: section 3.4.1 of the thesis.

    >>> CoTeaching(10, noise_rate=0.3).discriminators
    2
    """

    noise_rate: float = 0.2
    ramp: int = 15
    as_published: bool = False

    discriminators: ClassVar[int] = 2

    def __post_init__(self) -> None:
        super().__post_init__()
        check_fields(self, noise_rate=real(0, 1, below=True), ramp=AT_LEAST_1)

    def supervised(self, scores: list[Tensor], batch: Batch) -> list[Tensor]:
        """Compute the supervised loss of each discriminator from the scores [batch, classes] of each."""
        rate = keep_rate(batch.epoch, self.noise_rate, self.ramp)
        return peer_losses(scores, batch.labels, rate, as_published=self.as_published)


@dataclass(frozen=True)
class PATEPlus(CoTeaching):
    """PATE+ is co-teaching on rows whose class the two discriminators disagree about; these are its public settings.

    **Formal guarantee.** Post-processing of the noisy labels, see :mod:`sfumato.students._gan`.

    Args:
        as_published: repeat all five faults of the published code (:mod:`~sfumato.students._coteaching`).

    Source: Algorithm 1 of the thesis.

    >>> PATEPlus(10).ramp
    15
    """

    def supervised(self, scores: list[Tensor], batch: Batch) -> list[Tensor]:
        """Compute the supervised loss of each discriminator from the scores [batch, classes] of each."""
        rate = keep_rate(batch.epoch, self.noise_rate, self.ramp)
        if self.as_published:
            return _published_losses(scores, batch, rate)
        rows = disagreeing(*scores)
        return peer_losses([own[rows] for own in scores], batch.labels[rows], rate)


def keep_rate(epoch: int, noise_rate: float, ramp: int = 15) -> float:
    """Compute R(e), the share of candidates kept in an epoch; ``noise_rate`` is beta."""
    return 1 - noise_rate * min(epoch / ramp, 1)


def disagreeing(first: Tensor, second: Tensor) -> Tensor:
    """Find the positions of the rows to which two networks give different classes, from their scores [batch, classes]."""
    return (first.argmax(1) != second.argmax(1)).nonzero()[:, 0]


def small_loss(scores: Tensor, labels: Tensor, rate: float, *, as_published: bool = False) -> Tensor:
    """Find the positions of the rows with the smallest cross-entropy, at least the share ``rate`` of them."""
    losses = functional.cross_entropy(scores.detach(), labels, reduction="none")
    share = rate * len(labels)
    count = int(share) or len(labels) if as_published else math.ceil(share - 1e-9)
    return losses.argsort(stable=True)[:count]


def peer_losses(scores: list[Tensor], labels: Tensor, rate: float, *, as_published: bool = False) -> list[Tensor]:
    """Compute the mean cross-entropy of each of two networks on the rows its peer finds easy; 0 without rows."""
    if not len(labels):
        return [own.sum() for own in scores]
    chosen = [small_loss(own, labels, rate, as_published=as_published) for own in scores]
    losses = []
    for own, rows in zip(scores, reversed(chosen), strict=True):
        loss = functional.cross_entropy(own[rows], labels[rows])
        losses.append(loss / len(rows) if as_published else loss)
    return losses


def _published_losses(scores: list[Tensor], batch: Batch, rate: float) -> list[Tensor]:
    """Losses of co-teaching+ with the faults 1 to 5."""
    rows = disagreeing(*scores)
    probabilities = [own.softmax(1) for own in scores]
    if not len(rows):
        weight = float(batch.epoch * batch.step < _PUBLISHED_STEPS)
        return [weight * functional.cross_entropy(own, batch.labels) for own in probabilities]
    rows = rows[: int((batch.rows[rows] != 0).sum())]
    return peer_losses([own[rows] for own in probabilities], batch.labels[rows], rate, as_published=True)
