"""Rows of a stored matrix, for a first layer that reads them where they lie: in memory or in a file, and never as a copy."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import cached_property
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from sfumato._blocks import let_go, rows_of

_BLOCK = 1 << 22
"""Most numbers of one copied block. A much larger one is new memory of the system each time: slower than the copy itself."""
_KEPT = 1 << 16
"""Most rows whose blocks are kept for the next product."""


Block = tuple[slice, Tensor, Tensor | None]


class StoredRows:
    """Chosen rows of a dense matrix can be multiplied by a thin one, with a gradient for it, without copying them all.

    A block of chosen rows that lie close together is read as one slice, and the product leaves out the rows between them. Others
    are copied: once if they are few, and otherwise for each product.

    ``matrix`` is float32 [n, d], in memory or mapped from a file, or anything that gives blocks of such rows; no ``ids`` take
    all.
    """

    def __init__(self, matrix: Any, ids: NDArray[np.integer] | None = None) -> None:
        self.matrix, self.ids = np.asarray(matrix, np.float32) if isinstance(matrix, np.ndarray) else matrix, ids
        self.shape = (len(matrix) if ids is None else len(ids), matrix.shape[1])

    def __len__(self) -> int:
        return self.shape[0]

    def __matmul__(self, dense: Tensor) -> Tensor:
        return _Product.apply(self, dense)

    def dense(self) -> Tensor:
        """Copy the chosen rows into a tensor."""
        return _tensor(self.matrix[:]) if self.ids is None else _chosen(self.matrix, self.ids)

    def blocks(self) -> Iterable[Block]:
        """Give the places among the chosen rows, rows that hold theirs, and where these lie among them (None: all, in order)."""
        return self._kept if len(self) <= _KEPT else self._blocks()

    @cached_property
    def _kept(self) -> list[Block]:
        return list(self._blocks())

    def _blocks(self) -> Iterator[Block]:
        step = max(1, _BLOCK // max(1, self.shape[1]))
        for start in range(0, len(self), step):
            at = slice(start, min(start + step, len(self)))
            if self.ids is None:
                yield at, _tensor(self.matrix[at]), None
                continue
            ids = self.ids[at]
            first, last = int(ids.min()), int(ids.max()) + 1
            if last - first > 2 * len(ids):
                yield at, _chosen(self.matrix, ids), None
            else:
                yield at, _tensor(self.matrix[first:last]), torch.from_numpy(ids - first)


def _chosen(matrix: Any, ids: NDArray[np.integer]) -> Tensor:
    if not isinstance(matrix, np.ndarray) or not matrix.flags.writeable:
        return torch.from_numpy(rows_of(matrix, ids))
    return torch.from_numpy(matrix).index_select(0, torch.from_numpy(ids))


def _tensor(rows: NDArray[np.float32]) -> Tensor:
    """Rows as a tensor; those of a file that is mapped for reading alone are copied, and their pages let go."""
    if rows.flags.writeable:
        return torch.from_numpy(rows)
    copied = torch.from_numpy(rows.copy())
    let_go(rows)
    return copied


class _Product(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, rows: StoredRows, dense: Tensor) -> Tensor:
        ctx.rows = rows
        found = torch.empty(len(rows), dense.shape[1])
        for at, part, places in rows.blocks():
            found[at] = part @ dense if places is None else (part @ dense)[places]
        return found

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[None, Tensor]:
        total = torch.zeros(ctx.rows.shape[1], grad.shape[1])
        for at, part, places in ctx.rows.blocks():
            own = grad[at]
            if places is not None:
                own = torch.zeros(len(part), grad.shape[1]).index_add_(0, places, own)
            total.addmm_(part.T, own)
        return None, total
