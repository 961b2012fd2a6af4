r"""Matrix products that do not depend on the order of summation: rows are integers, in float64.

**Rows.** A row x of k numbers that enters a linear layer with a bias is :math:`\tilde x = (x, 1)`; without one,
:math:`\tilde x = x`. It is kept as integers :math:`p = \mathrm{round}(2^s \tilde x / \nu)`, s = ``ROW_BITS``, with
:math:`\nu = \|\tilde x\| \, 2^s / (2^s - \sqrt{k + 1} / 2 - 1)`. Rounding moves a vector of k + 1 coordinates by at most
:math:`\sqrt{k + 1} / 2`, so :math:`\|p\| \le 2^s`. This inequality is *checked* on the integers, and a row that does
not pass (it overflows, or is not a number) becomes zero. The check is exact: squares are integers, none is
negative, so a floating-point sum of them that ends at or below :math:`2^{2s}` was exact all along.

**Products.** Float64 holds every integer up to :math:`2^{53}`. If the sum of the *absolute values* of all terms stays
below that, each product and each partial sum is an integer that float64 holds, so the result is the true one: in
any order, on any number of threads, with or without fused operations. Two kinds of products are made:

* rows by a matrix W that is the same for all (weights). W is rounded to integers of Frobenius norm at most
  :math:`2^{36.5}`, so by Cauchy-Schwarz the terms of one entry add up to at most :math:`2^{s + 36.5} < 2^{53}`;
* outer products :math:`q_i p_i^\top` summed over at most ``CHUNK`` rows, with :math:`\|q_i\| \le 2^t`, t =
  ``GRADIENT_BITS``: at most ``CHUNK`` :math:`\cdot 2^{s + t} = 2^{53}`. Sums of chunks are added as int64, which holds
  ``MOST_ROWS`` rows.

So one row of the first kind of product is a function of that row and W alone, and a sum of the second kind is the exact
sum of what each row gives.

Source: error-free products by splitting operands, Ozaki et al. (2012), *Error-free transformations of matrix
multiplication*.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor
from torch.autograd import Function

from sfumato._validate import fail
from sfumato.nn._models import _to_torch

ROW_BITS, GRADIENT_BITS = 16, 22
CHUNK = 2 ** (53 - ROW_BITS - GRADIENT_BITS)
MOST_ROWS = 2 ** (63 - ROW_BITS - GRADIENT_BITS) - 1
_WEIGHT_BITS = 36
_TINY = 1e-200  # stands in for a norm of 0, where every coordinate is 0


@dataclass(frozen=True)
class WholeRows:
    """Rows as integers. Each row, with the number that stands for the bias's input, has norm at most 2^ROW_BITS.

    ``matrix`` holds the integers p in float64, dense or CSR [n, k], and ``ones`` [n] those that stand for the bias's input 1,
    zeros without a bias. A row is p nu / 2^ROW_BITS up to the rounding, with nu in ``norms``. ``transposed`` holds the
    transposed chunks of a CSR matrix.

    >>> rows = WholeRows.of(torch.tensor([[3.0, 4.0]], dtype=torch.float64))
    >>> rows.matrix.tolist(), [round(norm, 3) for norm in rows.norms.tolist()]
    ([[39320.0, 52427.0]], [5.0])
    """

    matrix: Tensor
    ones: Tensor
    norms: Tensor
    transposed: Sequence[Tensor] = ()

    @classmethod
    def of(cls, rows: Tensor, *, bias: bool = False) -> WholeRows:
        """Make integers of dense float64 rows. With ``bias``, each row gets an input 1 for the bias."""
        squares = rows.square().sum(1)
        norms, scale = _norms(squares, rows.shape[1], bias)
        whole = (rows * scale[:, None]).round_()
        ones = (scale * bias).round_()
        lost = ~(torch.linalg.vecdot(whole, whole) + ones.square() <= 4**ROW_BITS)
        if lost.any():  # a pass that is seldom needed
            whole[lost], ones[lost] = 0.0, 0.0
        return cls(whole, ones, norms)

    @classmethod
    def of_csr(cls, rows: sp.csr_matrix) -> WholeRows:
        """Make integers of sparse rows that enter a layer with a bias. The rows are kept in chunks for the sums."""
        rows = rows.astype(np.float64)
        rows.sum_duplicates()
        each = np.diff(rows.indptr)
        norms, scale = _norms(torch.from_numpy(_row_sums(rows.data**2, rows)), rows.shape[1], True)
        whole = np.rint(rows.data * np.repeat(scale.numpy(), each))
        ones = scale.round().numpy()
        lost = ~(_row_sums(whole**2, rows) + ones**2 <= 4**ROW_BITS)
        whole[np.repeat(lost, each)] = 0
        matrix = sp.csr_matrix((whole, rows.indices, rows.indptr), shape=rows.shape)
        chunks = [_to_torch(matrix[at : at + CHUNK].T.tocsr(), torch.float64) for at in range(0, rows.shape[0], CHUNK)]
        return cls(_to_torch(matrix, torch.float64), torch.from_numpy(np.where(lost, 0.0, ones)), norms, chunks)

    def times(self, weight: Tensor) -> Tensor:
        """Return the rows times a matrix ``weight`` [k, m]. A row gives the same bits whatever the other rows are.

        The bias's input takes no part in the product.

        >>> WholeRows.of(torch.eye(2, dtype=torch.float64)).times(torch.eye(2, dtype=torch.float64)).round(decimals=3)
        tensor([[1., 0.],
                [0., 1.]], dtype=torch.float64)
        """
        scale = 2.0**_WEIGHT_BITS / torch.linalg.vector_norm(weight).clamp_min(_TINY)
        whole = (weight * scale).round_()
        if not torch.linalg.vector_norm(whole) <= 2.0 ** (_WEIGHT_BITS + 0.4):
            whole.zero_()  # its norm underflows, or is not a number
        products: Tensor = (self.matrix @ whole) * (self.norms * (2.0**-ROW_BITS / scale))[:, None]
        return products

    def outer_sums(self, whole: Tensor) -> tuple[Tensor, Tensor]:
        """Return the exact sums over rows of q p^T, int64 [m, k], and of q times the bias's input, int64 [m].

        Each row of ``whole`` [n, m], the integers q in float64, has norm at most 2^GRADIENT_BITS.

        >>> WholeRows.of(torch.ones(2, 1, dtype=torch.float64)).outer_sums(torch.ones(2, 1, dtype=torch.float64))[0]
        tensor([[131068]])
        """
        check_rows(len(whole))
        outer = torch.zeros(whole.shape[1], self.matrix.shape[1], dtype=torch.int64)
        ones = torch.zeros(whole.shape[1], dtype=torch.int64)
        for number, at in enumerate(range(0, len(whole), CHUNK)):
            part = slice(at, at + CHUNK)
            products = (
                (self.transposed[number] @ whole[part]).T if self.transposed else whole[part].T @ self.matrix[part]
            )
            outer += products.to(torch.int64)
            ones += (whole[part].T @ self.ones[part]).to(torch.int64)
        return outer, ones


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
        out = rows.times(weight.T)
        return out if bias is None else out + bias

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, None, None, None]:
        """Return the gradient in the layer's input; the other inputs get none."""
        (weight,) = ctx.saved_tensors
        return WholeRows.of(grad).times(weight) if ctx.needs_input_grad[0] else None, None, None, None


def _norms(squares: Tensor, columns: int, bias: bool) -> tuple[Tensor, Tensor]:
    """Return nu of each row, and the factor by which a row is multiplied before it is rounded."""
    lengths = (squares + bias).sqrt().clamp_min(_TINY)
    scale = (2.0**ROW_BITS - math.sqrt(columns + 1) / 2 - 1) / lengths
    return 2.0**ROW_BITS / scale, scale


def _row_sums(values: np.ndarray, rows: sp.csr_matrix) -> np.ndarray:
    sums: np.ndarray = sp.csr_matrix((values, rows.indices, rows.indptr), shape=rows.shape) @ np.ones(rows.shape[1])
    return sums
