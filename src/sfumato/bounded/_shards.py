r"""Sums of clipped gradients over rows that workers hold, each a public range of the training rows.

**The sum is that of one process, bit by bit.** What row i adds to a step is a vector of integers :math:`v_i`, a function of the
row and of the weights alone (:mod:`~sfumato.bounded._gradients`). With :math:`R_1, \dots, R_k` a partition of the rows, and B
those whose coins fell heads, a worker returns

.. math:: s_j = \sum_{i \in B \cap R_j} v_i

in int64, in steps of :math:`C / 2^{28}`, *before* the sum is rounded to the grid of the noise. So :math:`\sum_j s_j` is the sum
over B in any order, for any k, and whoever computes which part: integer addition is associative, and no part of it overflows,
since B has at most ``MOST_ROWS`` rows. The process that fits rounds this sum once, and so
the margin eta is counted once. (Were each :math:`s_j` rounded to the grid, the result would depend on k.)

**A part may run again.** It draws nothing: coins and noise are drawn where the sums are added, and the weights that a part reads
are those of its step. So a worker that dies is replaced, and the sum is the same.

**What is shared.** Only networks are, whose values are exact products and row-by-row sums in one written order of correctly
rounded operations (``Plan.known``). These have the same bits on processors of different kinds. Torch's own sums, such as those of
batches of images, need not, so that a row could add other integers on another machine; such networks train in one process.
How rows are cut follows from public numbers: how many rows are in the training role, the parameters, and the engine.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import scipy.sparse as sp
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn.utils import vector_to_parameters

from sfumato.bounded._engine import LOCAL, engine
from sfumato.bounded._exact import SparseIntegers, WholeRows

_LEAST = 1 << 28
"""Fewest multiplications that make a part of a step worth sending: about 20 ms on one processor, where a part costs some 5."""

Inputs = Sequence[Tensor | WholeRows]
_Kept = NDArray[Any] | tuple[NDArray[Any] | sp.csr_matrix, NDArray[np.float64], int]
"""Rows of a tensor; or integers of whole rows, their norms and their width."""


def ranges(total: int, work: float) -> list[tuple[int, int]]:
    """Cut ``total`` rows into public ranges for workers, (first, one past the last), a single one where sharing does not pay.

    ``work`` is how many multiplications a step has on average.

    >>> ranges(10, 1e12)
    [(0, 10)]
    """
    parts = 1 if engine() is LOCAL else max(1, min(engine().parts, int(work // _LEAST)))
    step = max(1, -(-total // parts))
    return [(first, min(first + step, total)) for first in range(0, total, step)]


@dataclass(frozen=True)
class Shard:
    """The rows of one range, as arrays that processes of one machine can share.

    >>> shard = Shard.of([(torch.eye(3).double(), torch.tensor([0, 1, 2]))])
    >>> shard[np.array([2])]
    (tensor([[0., 0., 1.]], dtype=torch.float64), tensor([2]))
    """

    inputs: tuple[_Kept, ...]
    targets: NDArray[Any]

    @classmethod
    def of(cls, batches: Sequence[Inputs]) -> Shard:
        """Join batches, each of inputs and, as the last, targets."""
        *inputs, targets = map(_joined, zip(*batches, strict=True))
        assert isinstance(targets, np.ndarray)
        return cls(tuple(inputs), targets)

    def __getitem__(self, chosen: NDArray[np.int64]) -> tuple[Tensor | WholeRows, ...]:
        """Return inputs and targets of some rows, by their positions in the range."""
        return *(_taken(kept, chosen) for kept in self.inputs), torch.from_numpy(self.targets[chosen])


def _joined(parts: tuple[Tensor | WholeRows, ...]) -> _Kept:
    if isinstance(parts[0], Tensor):
        return _small(torch.cat([part for part in parts if isinstance(part, Tensor)]).numpy())
    whole = [part for part in parts if isinstance(part, WholeRows)]
    matrices: list[Any] = [
        part.matrix.rows if isinstance(part.matrix, SparseIntegers) else part.matrix.numpy() for part in whole
    ]
    matrix = sp.vstack(matrices, format="csr") if sp.issparse(matrices[0]) else np.concatenate(matrices)
    return matrix, np.concatenate([part.norms.numpy() for part in whole]), whole[0].width


def _small(rows: NDArray[Any]) -> NDArray[Any]:
    """Keep float64 that was float32 as what it was."""
    if rows.dtype != np.float64:
        return rows
    with np.errstate(over="ignore"):
        half = rows.astype(np.float32)
    return half if np.array_equal(half, rows, equal_nan=True) else rows


def _taken(kept: _Kept, chosen: NDArray[np.int64]) -> Tensor | WholeRows:
    if isinstance(kept, np.ndarray):
        return torch.from_numpy(kept[chosen]).double()
    matrix, norms, width = kept[0][chosen], torch.from_numpy(kept[1][chosen]), kept[2]
    return WholeRows(
        torch.from_numpy(matrix) if isinstance(matrix, np.ndarray) else SparseIntegers(matrix), norms, width
    )


class Shards:
    """Rows that workers hold for a whole training. They are sent when the first sum is asked for.

    ``summed(model, inputs, targets, *settings)`` returns int64 that add up over rows, a function of its arguments alone.
    ``batch`` reads inputs and targets of positions, at most ``block`` at a time.
    """

    def __init__(
        self,
        summed: Callable[..., NDArray[np.int64]],
        model: nn.Module,
        settings: Sequence[Any],
        batch: Callable[[NDArray[np.int64]], Inputs],
        cuts: Sequence[tuple[int, int]],
        block: int,
    ) -> None:
        self._task, self._batch, self._cuts, self._block = (summed, model, tuple(settings)), batch, cuts, block

    def sum(self, flat: NDArray[np.float64], chosen: NDArray[np.int64]) -> NDArray[np.int64]:
        """Add up what the rows at ``chosen`` positions, in ascending order, add under the weights ``flat``.

        Every range has a part, even where none of its rows is chosen: how many parts run is public.
        """
        task, shards = self._held
        firsts = [first for first, _ in self._cuts]
        pieces = np.split(chosen, np.searchsorted(chosen, firsts[1:]))
        parts = ((shard, piece - first) for shard, piece, first in zip(shards, pieces, firsts, strict=True))
        total = np.zeros(len(flat), np.int64)
        for _, sums in engine().run(_part, (task, flat), parts):
            total += sums
        return total

    @cached_property
    def _held(self) -> tuple[Any, list[Any]]:
        return engine().hold(self._task), [engine().hold(self._shard(*rows)) for rows in self._cuts]

    def _shard(self, first: int, last: int) -> Shard:
        starts = range(first, last, self._block)
        return Shard.of([self._batch(np.arange(at, min(at + self._block, last))) for at in starts])


def _part(
    task: tuple[Callable[..., NDArray[np.int64]], nn.Module, tuple[Any, ...]],
    flat: NDArray[np.float64],
    shard: Shard,
    chosen: NDArray[np.int64],
) -> NDArray[np.int64]:
    summed, model, settings = task
    vector_to_parameters(torch.tensor(flat), model.parameters())
    *inputs, targets = shard[chosen]
    return summed(model, inputs, targets, *settings)
