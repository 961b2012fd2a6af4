r"""DP-SGD over cells, such as classes: one mean gradient a cell, clipped, summed in integers, with noise.

**Formal guarantee** of :func:`class_steps`: a :class:`~sfumato.privacy.events.PoissonGaussianEvent` under the relation of the
unit (``replace`` or ``add-remove``), whose noise multiplier is the standard deviation over S. Each of K public cells enters a
step with probability q by a secret coin of its own, whatever it holds. The divisor is the public q K.

**Proof.** What cell k adds at a step, :math:`v_k`, is a function of the cell's own records, public facts, the weights (which
earlier steps released) and secret coins of this cell and step. It holds integers, in steps of :math:`S / 2^{24}`, of norm at
most S, whatever floating point did before (:mod:`~sfumato.bounded._clip_kernel`). Sums over cells are exact in any order,
and are not rounded again, so the margin eta of other DP-SGD here is 0. A cell without records adds 0.

*Given the coins that choose members*, neighboring data sets (:mod:`~sfumato.privacy.units`) have the same :math:`v_j` in all
cells but one. If the coin of this cell k falls tails, the sums are equal. If it falls heads, they differ by
:math:`v_k - v'_k`, of norm at most 2 S; under ``add-remove`` one of the two is 0, so at most S. The event carries the 2, and
nothing doubles it again. *The coins that choose members* have the same law for both data sets, are independent of the coins of
sampling and of the noise, and are never released. The divergence :math:`\sup_E P(E) - e^\epsilon P'(E)` of a mixture is at
most the mean of the divergences of its parts (it is jointly convex), so what holds given these coins holds without them.

**What is assumed.** The gradient of a cell is computed in calls of its own: forward and backward over this cell's records alone.
So its bits are a function of these records, the weights and the cell's coins, and other cells cannot move them.

The record level is the case of one record a cell, user-level privacy that of one user a cell.

Source: Algorithm 5 of the thesis on class-level privacy (section 4.4.2), whose noise has standard deviation sigma S.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

from sfumato._validate import check_int, check_real, fail
from sfumato.bounded._clip_kernel import LEAST_CLIP, MOST_CLIP, MOST_ROWS, add_clipped
from sfumato.bounded._gradients import noisy_steps
from sfumato.errors import UnsupportedUnitError
from sfumato.noise.keys import Stream, derive_key
from sfumato.privacy.units import ClassLevel, RecordLevel, SubclassLevel, Unit

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from torch import Tensor

    from sfumato.bounded._gradients import PrivateSGD
    from sfumato.nn._training import Adam
    from sfumato.noise.keys import Key


def check_cells(unit: Unit) -> None:
    """Refuse a unit whose record is not one cell of a partition.

    >>> check_cells(ClassLevel())
    """
    if type(unit) not in (ClassLevel, SubclassLevel, RecordLevel):  # a subclass may change more than one cell
        raise UnsupportedUnitError(
            f"DP-SGD over cells has no bounded sensitivity when the unit is {unit.describe()}: a record may change more than "
            "one cell. Use ClassLevel, SubclassLevel or RecordLevel."
        )


def members(key: Key, step: int, cell: int, rows: NDArray[np.int64], most: int) -> NDArray[np.int64]:
    """Choose at most ``most`` records of a cell for a step, by secret coins of this cell and step.

    **Formal guarantee.** The choice depends on the cell's own records alone, and each subset of this size is equally likely.

    >>> members(bytes(32), 0, 3, np.array([2, 5, 7, 11]), 2).tolist()
    [7, 11]
    """
    if len(rows) <= most:
        return rows
    words = Stream(derive_key(key, "members", step, cell)).at(rows.astype(np.uint64), 0)[:, 0]
    return rows[np.sort(np.argpartition(words, most)[:most])]


def class_steps(
    optimizer: Adam,
    mean_gradient: Callable[[int, int], Tensor | None],
    num_cells: int,
    settings: PrivateSGD,
    key: Key,
    progress: Callable[[int, int], None] | None = None,
) -> bytes:
    """Train with noise on the clipped mean gradients of drawn cells. Return a secret MAC of all sums that were read.

    ``mean_gradient`` maps a cell and a step to the gradient of the mean loss over the cell's records, as one vector in the
    order of the optimizer's, or to None if the cell has no record. It computes each cell in calls of its own.

    >>> import torch
    >>> from sfumato.bounded._gradients import PrivateSGD
    >>> from sfumato.nn._training import SGD
    >>> weight = torch.nn.Parameter(torch.zeros(2, dtype=torch.float64))
    >>> settings = PrivateSGD(1.0, steps=1, l2_clip_norm=1.0, noise_multiplier=1e-3, learning_rate=1.0)
    >>> _ = class_steps(SGD([weight], 1.0), lambda cell, step: torch.tensor([3.0, 4.0]), 1, settings, bytes(32))
    >>> weight.detach().round(decimals=1).tolist()
    [-0.6, -0.8]
    """
    check_int(low=1, high=MOST_ROWS, num_cells=num_cells)
    check_real(low=LEAST_CLIP, high=MOST_CLIP, l2_clip_norm=settings.l2_clip_norm)
    size, counted = len(optimizer.flat), np.ones(1, bool)

    def clipped_sum(drawn: NDArray[np.int64], step: int) -> NDArray[np.int64]:
        total = np.zeros(size)
        for cell in drawn.tolist():
            gradient = mean_gradient(cell, step)
            if gradient is not None:
                if gradient.shape != (size,):
                    raise fail("mean_gradient", tuple(gradient.shape), f"to return vectors of length {size}, or None")
                row = gradient.detach().reshape(1, -1).numpy()
                add_clipped(row, counted, settings.l2_clip_norm, total)
        return total.astype(np.int64)

    return noisy_steps(optimizer, clipped_sum, np.arange(num_cells), settings, key, 0.0, progress)
