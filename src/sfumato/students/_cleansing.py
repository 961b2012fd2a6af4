r"""In PATE++, labels that two discriminators keep disputing are dropped, and PATE+ is trained again.

While PATE+ trains, a labeled row is *disputed* in an epoch if, in any of its minibatches there, the two discriminators predict
different classes and neither predicts its label. With :math:`c_e` in {0, 1} for the row and epoch e,

.. math:: T \leftarrow \alpha T + c_e,

so that early epochs, where networks disagree by chance, count little. (The thesis' text says so; line 16 of its Algorithm 3
multiplies :math:`c_e` instead, which scales all rows alike and decays nothing.) Of the rows *of each label*, the share tau with
the largest T joins the unlabeled rows; ties go by position. PATE+ is then trained on what remains, from the same seed: with
tau = 0 the student is that of PATE+.

Algorithm 3 takes the share of all rows together (``per_class=False``). Discriminators dispute the classes that look alike, so
it takes most labels of those, right ones too, and the second training hardly sees such a class.

The source has PATE++ above co-teaching; with our students it is not (docs/decisions/0012): labels that are surely wrong are those
of easy images, which a student that does not memorize ignores anyway.

**Formal guarantee.** Post-processing of the noisy labels, see :mod:`sfumato.students._gan`; tau and alpha are public.

Source: Algorithm 3 and section 3.3.3 of the thesis.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from sfumato._validate import check_fields, real
from sfumato.students._coteaching import PATEPlus
from sfumato.students._gan import Batch, TrainedStudent, train

if TYPE_CHECKING:
    from torch import Tensor

    from sfumato.nn._training import Steps


@dataclass(frozen=True)
class PATEPlusPlus(PATEPlus):
    """PATE++ trains PATE+, cleanses its labels, and trains PATE+ again; these are its public settings.

    **Formal guarantee.** Post-processing of the noisy labels, see :mod:`sfumato.students._gan`.

    Args:
        removal: tau, the share of labeled rows that lose their label.
        decay: alpha, what one more epoch leaves of a count.
        per_class: take the share tau of each label, not of all rows.

    Raises:
        InputError: a setting out of range.

    Source: Algorithm 3 of the thesis; its tau for Fashion-MNIST is 0.318, its alpha 0.9.

    >>> PATEPlusPlus(10).removal
    0.318
    """

    removal: float = 0.318
    decay: float = 0.9
    per_class: bool = True

    def __post_init__(self) -> None:
        super().__post_init__()
        check_fields(self, removal=real(0, 1, below=True), decay=real(0, 1))

    def fit(
        self,
        x_labeled: NDArray[np.floating],
        y_noisy: NDArray[np.integer],
        x_unlabeled: NDArray[np.floating],
        *,
        progress: Steps | None = None,
    ) -> CleansedStudent:
        """Train twice; arguments are those of :meth:`GANStudent.fit`, and ``progress`` counts the epochs of both trainings."""
        x, y, pool = self._checked(x_labeled, y_noisy, x_unlabeled)
        disputes = Disputes(len(y), self.decay)
        train(self, x, y, pool, progress=_part(progress, 0, self.epochs), watch=disputes)
        groups = y if self.per_class else np.zeros_like(y)
        moved = most_disputed(disputes.close(), self.removal, groups)
        kept = np.setdiff1d(np.arange(len(y)), moved)
        sanitized = np.concatenate([pool, x[moved]])
        again = train(self, x[kept], y[kept], sanitized, progress=_part(progress, self.epochs, self.epochs))
        return CleansedStudent(again.discriminators, again.generator, self.device, disputes.table, moved)


@dataclass(frozen=True, eq=False)
class CleansedStudent(TrainedStudent):
    """A student of PATE++ also holds ``counts``, the final T [n], and ``moved``, the positions of rows that lost their label."""

    counts: NDArray[np.float64]
    moved: NDArray[np.int64]


class Disputes:
    """The table T counts the epochs in which each labeled row was disputed; old counts decay by alpha."""

    def __init__(self, rows: int, decay: float) -> None:
        self.table, self.current, self.decay, self.epoch = np.zeros(rows), np.zeros(rows), decay, 1

    def __call__(self, scores: list[Tensor], batch: Batch) -> None:
        """Note the disputed rows of a minibatch, once an epoch."""
        if batch.epoch > self.epoch:
            self.close()
            self.epoch = batch.epoch
        first, second = (own.argmax(1) for own in scores)
        disputed = (first != second) & (first != batch.labels) & (second != batch.labels)
        self.current[batch.rows[disputed].cpu().numpy()] = 1

    def close(self) -> NDArray[np.float64]:
        self.table = self.decay * self.table + self.current
        self.current = np.zeros_like(self.current)
        return self.table


def most_disputed(table: NDArray[np.float64], share: float, groups: NDArray[np.integer]) -> NDArray[np.int64]:
    """Find the positions of the share of each group with the largest counts, in order; their number is rounded down."""
    order = np.argsort(-table, kind="stable")
    own = (order[groups[order] == group] for group in np.unique(groups))
    return np.sort(np.concatenate([rows[: math.floor(share * len(rows) + 1e-9)] for rows in own]))


def _part(progress: Steps | None, before: int, epochs: int) -> Steps | None:
    return None if progress is None else lambda epoch, _: progress(before + epoch, 2 * epochs)
