"""The functions of :mod:`sfumato.loops._products` by Torch. Float64 holds all their sums of integers, in any order."""

from __future__ import annotations

import math
from functools import reduce
from typing import TYPE_CHECKING

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor
from torch.nn import functional

if TYPE_CHECKING:
    from collections.abc import Sequence

NAME, library = "Torch", None
BITS = 14
"""The norm of a row of int16 is at most 2^BITS; levels.h has the same."""
LANES = 32
TINY = 1e-200  # stands in for a norm of 0, where every number is 0
Parts = tuple[Tensor, Tensor, Tensor]
"""Of a sparse matrix of int16: offsets int64, places int32 and numbers."""
_LANES, _LEAST_NORM = 8, 1e-12
_CHUNK = 2 ** (53 - 2 * BITS)
_SCALE, _ALPHA = 1.0507009873554804934193349852946, 1.6732632423543772848170429916717
_TAYLOR = [1 / math.factorial(power) for power in range(13, -1, -1)]
_LN2_HIGH = float.fromhex("0x1.62e42fee00000p-1")  # with 32 bits, so that its products with k are exact
_LN2_LOW = float.fromhex("0x1.a39ef35793c76p-33")
_LEAST = -700.0  # where e^x is about 1e-304, and 2^k still a normal number


def padded(columns: int) -> int:
    """Return the number of columns of padded rows; there is always room for one more, which stands for the bias's input.

    >>> padded(31), padded(32), padded(0)
    (32, 64, 32)
    """
    return (columns // LANES + 1) * LANES


def whole_rows(rows: Tensor, room: float, *, bias: bool) -> tuple[Tensor, Tensor]:
    lengths = roots(_squares(rows) + float(bias))
    lengths = torch.where(lengths < TINY, TINY, lengths)
    scale = torch.full_like(lengths, room) / lengths  # Torch rounds a number over them twice
    whole = torch.zeros(len(rows), padded(rows.shape[1]), dtype=torch.float64)
    whole[:, : rows.shape[1]] = rows * scale[:, None]
    if bias:
        whole[:, rows.shape[1]] = scale
    whole.round_()
    whole[~(whole.square().sum(1) <= 4**BITS)] = 0
    return whole.to(torch.int16), 2**BITS / scale


def times(rows: Tensor | Parts, norms: Tensor, weights: Tensor, room: float, bias: Tensor | None) -> Tensor:
    whole, scales = whole_rows(weights, room, bias=False)
    if isinstance(rows, Tensor):
        sums = rows.double() @ whole.double().T
    else:
        columns = functional.pad(whole[:, : weights.shape[1]], (0, 1)).T.numpy().astype(np.int64)
        sums = torch.from_numpy(_sparse(rows, len(columns)) @ columns).double()
    found = sums * (norms[:, None] * (scales * 4.0**-BITS))
    return found if bias is None else found + bias


def clipped_sums(
    grads: Sequence[Tensor],
    rows: Sequence[tuple[Tensor | Parts, Tensor]],
    room: float,
    most: float,
    sums: Sequence[tuple[Tensor, Tensor | None]],
) -> None:
    slopes = _clip(grads, [norms for _, norms in rows], room, most)
    for (entered, _), slope, (weight, bias) in zip(rows, slopes, sums, strict=True):
        width = weight.shape[1]
        if isinstance(entered, Tensor):
            found = _outer_sums(slope, entered, width + 1)
        else:
            found = torch.from_numpy(_sparse(entered, len(slope)) @ slope.numpy().astype(np.int64)).T
        weight += found[:, :width]
        if bias is not None:
            bias += found[:, width]


def _outer_sums(slopes: Tensor, rows: Tensor, width: int) -> Tensor:
    total = torch.zeros(slopes.shape[1], width, dtype=torch.int64)
    for one, other in zip(slopes.split(_CHUNK), rows.split(_CHUNK), strict=True):
        total += (one.double().T @ other[:, :width].double()).long()
    return total


def _clip(grads: Sequence[Tensor], norms: Sequence[Tensor], room: float, most: float) -> list[Tensor]:
    squares = torch.zeros(len(grads[0]), dtype=torch.float64)
    for grad, norm in zip(grads, norms, strict=True):
        squares += _squares(grad) * (norm * norm)
    factor = _factors(squares, room, most)
    whole = [(grad * (factor * norm)[:, None]).round_() for grad, norm in zip(grads, norms, strict=True)]
    lost = ~(reduce(torch.add, [part.square().sum(1) for part in whole]) <= 4**BITS)
    return [part.masked_fill_(lost[:, None], 0.0).to(torch.int16) for part in whole]


def selu(x: Tensor) -> tuple[Tensor, Tensor]:
    positive = x > 0
    negative = (exp(x.clamp_max(0.0)) - 1.0) * (_SCALE * _ALPHA)
    return torch.where(positive, x * _SCALE, negative), torch.where(positive, _SCALE, negative + _SCALE * _ALPHA)


def normalize(rows: Tensor) -> tuple[Tensor, Tensor]:
    norms = roots(_squares(rows)).clamp_min(_LEAST_NORM)
    return rows / norms.unsqueeze(-1), norms


def normalize_slope(grad: Tensor, unit: Tensor, norms: Tensor) -> Tensor:
    return (grad - unit * _dots(grad, unit).unsqueeze(-1)) / norms.unsqueeze(-1)


def class_slope(scores: Tensor, classes: Tensor) -> Tensor:
    wrong = softmax(scores) - functional.one_hot(classes.clamp_min(0), scores.shape[1])
    return wrong.masked_fill_((classes < 0)[:, None], 0.0)


def exp(x: Tensor) -> Tensor:
    """Compute e^x of float64 numbers x <= 0; numbers below -700 count as -700."""
    x = x.clamp_min(_LEAST)
    power = (x * (1 / math.log(2))).round()
    rest = (x - power * _LN2_HIGH) - power * _LN2_LOW
    total = torch.full_like(x, _TAYLOR[0])
    for coefficient in _TAYLOR[1:]:
        total = total * rest + coefficient
    two = ((power.nan_to_num().to(torch.int64) + 1023) << 52).view(torch.float64)
    return total * two


def softmax(scores: Tensor) -> Tensor:
    """Compute the probabilities of each row [n, C], C >= 1, of float64 scores; columns are added in order."""
    raised = exp(scores - scores.amax(1, keepdim=True))
    return raised / reduce(torch.add, raised.unbind(1))[:, None]


def roots(squares: Tensor) -> Tensor:
    """Return the correctly rounded roots: not each of Torch's is."""
    return torch.from_numpy(np.sqrt(squares.numpy()))


def _factors(squares: Tensor, room: float, most: float) -> Tensor:
    """Return ``room`` over the root of each square, at most ``most``."""
    with np.errstate(divide="ignore"):
        return torch.from_numpy(room / np.sqrt(squares.numpy())).clamp_max(most)


def _squares(rows: Tensor) -> Tensor:
    """The squared norm of each row."""
    return _dots(rows, rows)


def _dots(rows: Tensor, others: Tensor) -> Tensor:
    """Sums of products of two rows: eight sums, each of every eighth column, added in order, as rows.c has it."""
    *shape, width = rows.shape
    lines = -(-width // _LANES)
    terms = functional.pad(rows * others, (0, lines * _LANES - width)).view(*shape, lines, _LANES)
    lanes = torch.zeros(*shape, _LANES, dtype=torch.float64)
    for part in terms.unbind(-2):
        lanes += part
    return reduce(torch.add, lanes.unbind(-1))


def _sparse(parts: Parts, columns: int) -> sp.csr_matrix:
    offsets, places, numbers = (part.numpy() for part in parts)
    return sp.csr_matrix((numbers.astype(np.int64), places, offsets), (len(offsets) - 1, columns))
