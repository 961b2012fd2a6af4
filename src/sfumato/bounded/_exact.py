r"""Matrix products that do not depend on the order of summation: rows and weights are integers of 16 bits.

**Rows.** A row x of k numbers that enters a linear layer with a bias is :math:`\tilde x = (x, 1)`; without one,
:math:`\tilde x = x`. It is kept as integers :math:`p = \mathrm{round}(2^s \tilde x / \nu)`, s = ``ROW_BITS`` = 14, with
:math:`\nu = \|\tilde x\| \, 2^s / (2^s - \sqrt{k + 1} / 2 - 1)`. Rounding moves a vector of k + 1 coordinates by at most
:math:`\sqrt{k + 1} / 2`, so :math:`\|p\| \le 2^s`. This inequality is *checked* on the integers, and a row that does
not pass (it overflows, or is not a number) becomes zero. The check is exact: squares are integers, none is
negative, so a floating-point sum of them that ends at or below :math:`2^{2s}` was exact all along.

**Products** of int16 are added in int32 (``products.c``). Two kinds are made:

* rows by a matrix W that is the same for all (weights). Each column of W is made integers as a row is, of norm at most
  :math:`2^s`. By Cauchy-Schwarz the absolute values of the terms of one entry, and so of any part of them, add up to at most
  :math:`2^{2s} = 2^{28}`, which int32 holds;
* outer products :math:`q_i p_i^\top` summed over rows, with :math:`\|q_i\| \le 2^t`, t = ``GRADIENT_BITS`` = 14. No entry of
  row i is above :math:`\max_j |q_{ij}| \max_c |p_{ic}|`. Rows are added in int32 in runs for which these bounds add up to less
  than :math:`2^{31}`, and the sums of runs in int64, which holds ``MOST_ROWS`` rows.

So one row of the first kind of product is a function of that row and W alone, and a sum of the second kind is the exact
sum of what each row gives: in any order, on any number of threads, on any processor.

Source: error-free products by splitting operands, Ozaki et al. (2012), *Error-free transformations of matrix
multiplication*.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor
from torch.autograd import Function

from sfumato._validate import fail
from sfumato.loops._products import products
from sfumato.loops._torch_products import BITS, TINY, Parts

ROW_BITS = GRADIENT_BITS = BITS
MOST_ROWS = 2 ** (63 - ROW_BITS - GRADIENT_BITS) - 1


@dataclass(frozen=True)
class WholeRows:
    """Rows as integers. Each row, with the number that stands for the bias's input, has norm at most 2^ROW_BITS.

    ``matrix`` holds the integers p, int16 [n, padded], or sparse ones. The column after the ``width`` ones of the row stands for
    the bias's input 1, and is zero without a bias. A row is p nu / 2^ROW_BITS up to the rounding, with nu in ``norms``.

    >>> rows = WholeRows.of(torch.tensor([[3.0, 4.0]], dtype=torch.float64))
    >>> rows.matrix[:, :2].tolist(), [round(norm, 3) for norm in rows.norms.tolist()]
    ([[9829, 13106]], [5.001])
    """

    matrix: Tensor | SparseIntegers
    norms: Tensor
    width: int

    @classmethod
    def of(cls, rows: Tensor, *, bias: bool = False) -> WholeRows:
        """Make integers of dense float64 rows. With ``bias``, each row gets an input 1 for the bias."""
        return cls(*products().whole_rows(rows.double().contiguous(), _room(rows.shape[1]), bias=bias), rows.shape[1])

    @classmethod
    def of_csr(cls, rows: sp.csr_matrix) -> WholeRows:
        """Make integers of sparse rows that enter a layer with a bias."""
        return cls(*SparseIntegers.of(rows), rows.shape[1])

    def __getitem__(self, ids: Tensor) -> WholeRows:
        """Choose some of the rows."""
        matrix = self.matrix.index_select(0, ids) if isinstance(self.matrix, Tensor) else self.matrix[ids]
        return WholeRows(matrix, self.norms.index_select(0, ids), self.width)

    @classmethod
    def joined(cls, parts: Sequence[WholeRows]) -> WholeRows:
        """Join dense rows of one width."""
        matrices = [part.matrix for part in parts if isinstance(part.matrix, Tensor)]
        return cls(torch.cat(matrices), torch.cat([part.norms for part in parts]), parts[0].width)

    def integers(self) -> Tensor:
        """Return all integers, float32 [n, width + 1]; the last column stands for the bias's input."""
        matrix = self.matrix if isinstance(self.matrix, Tensor) else self.matrix.dense()
        return matrix[:, : self.width + 1].float()

    def plain(self) -> Tensor:
        """Return the numbers that the integers stand for, float32 [n, width]."""
        return self.integers()[:, :-1].mul_(self.norms.float()[:, None] / 2**ROW_BITS)

    def times(self, weight: Tensor, bias: Tensor | None = None) -> Tensor:
        """Return the rows times a matrix ``weight`` [k, m], plus ``bias``. A row gives the same bits whatever the others are.

        >>> WholeRows.of(torch.eye(2, dtype=torch.float64)).times(torch.eye(2, dtype=torch.float64)).round(decimals=3)
        tensor([[1., 0.],
                [0., 1.]], dtype=torch.float64)
        """
        if len(weight) != self.width:
            raise ValueError(f"Expected rows of {len(weight)} columns, as the weights have, got {self.width}.")
        bias = None if bias is None else bias.detach()
        rows = self.matrix if isinstance(self.matrix, Tensor) else self.matrix.by_row
        return products().times(rows, self.norms, weight.detach().T.contiguous(), _room(len(weight)), bias)

    @property
    def parts(self) -> tuple[Tensor | None, Parts | None, Parts | None, Tensor]:
        """What a chain of steps reads: rows, or their rows and columns if they are sparse, and their norms."""
        if isinstance(self.matrix, Tensor):
            return self.matrix, None, None, self.norms
        return None, self.matrix.by_row, self.matrix.by_column, self.norms

    @property
    def summed(self) -> tuple[Tensor | Parts, Tensor]:
        """What sums of outer products read: rows, or their columns if they are sparse, and their norms."""
        return (self.matrix if isinstance(self.matrix, Tensor) else self.matrix.by_column), self.norms


@dataclass(frozen=True)
class SparseIntegers:
    """Sparse rows of int16 whose last column is that of the bias's input: of SciPy, and as offsets, places and numbers."""

    rows: sp.csr_matrix

    @cached_property
    def by_row(self) -> Parts:
        return _parts(self.rows)

    @cached_property
    def by_column(self) -> Parts:
        return _parts(self.rows.tocsc())

    def __getitem__(self, ids: Tensor) -> SparseIntegers:
        return SparseIntegers(self.rows[ids.numpy()])

    @classmethod
    def of(cls, rows: sp.csr_matrix) -> tuple[SparseIntegers, Tensor]:
        """Return the integers of rows with an input 1 for the bias, and the norms that they stand for."""
        rows = rows.astype(np.float64)
        rows.sum_duplicates()
        each = np.diff(rows.indptr)
        lengths = np.maximum(np.sqrt(_row_sums(rows.data**2, rows) + 1), TINY)
        scale = _room(rows.shape[1]) / lengths
        whole, ones = np.rint(rows.data * np.repeat(scale, each)), np.rint(scale)
        lost = ~(_row_sums(whole**2, rows) + ones**2 <= 4**ROW_BITS)
        whole[np.repeat(lost, each)] = 0
        ones[lost] = 0
        matrix = sp.csr_matrix((whole.astype(np.int16), rows.indices, rows.indptr), shape=rows.shape)
        joined = sp.hstack([matrix, sp.csr_matrix(ones.astype(np.int16)[:, None])], format="csr")
        return cls(joined), torch.from_numpy(2.0**ROW_BITS / scale)

    def dense(self) -> Tensor:
        """Return the integers as a matrix, with those of the bias's input."""
        return torch.from_numpy(self.rows.toarray())


def check_rows(count: int) -> None:
    """Refuse more rows than one sum of gradients holds.

    >>> check_rows(4096)
    """
    if count > MOST_ROWS:
        raise fail("rows", count, f"to be at most {MOST_ROWS} in one sum of gradients", "Lower the batch size.")


class ExactLinear(Function):
    """A linear layer on :class:`WholeRows`. Its gradient in its input is made of exact products as well.

    >>> x = torch.eye(2, dtype=torch.float64)
    >>> ExactLinear.apply(x, x, None, WholeRows.of(x)).round(decimals=3)
    tensor([[1., 0.],
            [0., 1.]], dtype=torch.float64)
    """

    @staticmethod
    def forward(ctx: Any, entering: Tensor | None, weight: Tensor, bias: Tensor | None, rows: WholeRows) -> Tensor:
        ctx.save_for_backward(weight)
        return rows.times(weight.T, bias)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, None, None, None]:
        """Return the gradient in the layer's input; the other inputs get none."""
        (weight,) = ctx.saved_tensors
        return WholeRows.of(grad).times(weight) if ctx.needs_input_grad[0] else None, None, None, None


def _room(columns: int) -> float:
    """The norm to which a row of so many columns is scaled before it is rounded."""
    return 2.0**ROW_BITS - math.sqrt(columns + 1) / 2 - 1


def _parts(matrix: Any) -> tuple[Tensor, Tensor, Tensor]:
    return (
        torch.from_numpy(matrix.indptr.astype(np.int64)),
        torch.from_numpy(matrix.indices.astype(np.int32)),
        torch.from_numpy(matrix.data),
    )


def _row_sums(values: np.ndarray, rows: sp.csr_matrix) -> np.ndarray:
    sums: np.ndarray = sp.csr_matrix((values, rows.indices, rows.indptr), shape=rows.shape) @ np.ones(rows.shape[1])
    return sums
