r"""Compiled loops for gradients of groups. A group's gradient is computed from that group's rows alone, one group after another.

The network is a graph convolution of two layers. With :math:`\hat A` and the rows :math:`R = \hat A X` of
:class:`~sfumato.bounded._splits.Split`,

.. math:: H = \mathrm{ReLU}(R W_1 + b_1), \qquad S = \hat A H W_2 + b_2,

and the loss of a group is the mean cross-entropy of S over its training nodes. Parameters are one flat vector:
:math:`W_1` [columns, width], :math:`b_1`, :math:`W_2` [width, classes], :math:`b_2`.

Rows without a labeled node around them take no part. All numbers are float64, added in the order of the group's own rows and
entries. Sums, products, quotients and roots are rounded correctly (IEEE 754), products are not fused with sums, and exp is
made of them (:mod:`~sfumato.nn._reproducible` says why). So the bits of a group's gradient depend on what the group holds and on
the weights, and on nothing else.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray

STEPS = 2**24
"""A clipped gradient holds integers, in steps of C / STEPS."""
_TERMS = np.array([1 / math.factorial(power) for power in range(13, -1, -1)])
_LN2_HIGH = float.fromhex("0x1.62e42fee00000p-1")
_LN2_LOW = float.fromhex("0x1.a39ef35793c76p-33")
_PER_LN2 = 1 / math.log(2)
Part = tuple[NDArray[Any], NDArray[Any], NDArray[np.float64]]
"""A sparse matrix: row pointers, columns, values."""
Floats = NDArray[np.float64]


@njit(cache=True, nogil=True, error_model="numpy")
def rounded_exp(x: float) -> float:
    """Compute e^x of x <= 0 by correctly rounded operations.

    >>> round(rounded_exp(-1.0), 12) == round(math.exp(-1), 12)
    True
    """
    x = max(x, -700.0) if x == x else x
    power = np.rint(x * _PER_LN2)
    rest = (x - power * _LN2_HIGH) - power * _LN2_LOW
    total = _TERMS[0]
    for term in _TERMS[1:]:
        total = total * rest + term
    return math.ldexp(total, int(power)) if x == x else x


@njit(cache=True, nogil=True)
def _kept(word: np.uint64, unit: int, dropout: float) -> bool:
    """Whether a hidden unit stays, by a public word and its number (SplitMix64)."""
    z = word + np.uint64(unit + 1) * np.uint64(0x9E3779B97F4A7C15)
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    z = z ^ (z >> np.uint64(31))
    return bool((z >> np.uint64(11)) * 2.0**-53 >= dropout)


@njit(cache=True, nogil=True, error_model="numpy")
def _add_gradient(
    low: int,
    high: int,
    share: float,
    rows: Part,
    hop: Part,
    targets: NDArray[np.int64],
    flat: Floats,
    dropout: float,
    word: np.uint64,
    hidden: Floats,
    back: Floats,
    marked: NDArray[np.bool_],
    grad: Floats,
    seen: NDArray[np.bool_],
    touched: NDArray[np.int64],
) -> int:
    """Add the gradient of the group at places low to high to ``grad``, and list the columns of features that it touches."""
    width, columns = hidden.shape[1], len(seen)
    at = columns * width
    classes = (len(flat) - at - width) // (width + 1)
    end = at + width + width * classes
    first, second = flat[:at].reshape(columns, width), flat[at + width : end].reshape(width, classes)
    first_bias, second_bias = flat[at : at + width], flat[end:]
    to_first, to_second = grad[:at].reshape(columns, width), grad[at + width : end].reshape(width, classes)
    to_first_bias, to_second_bias = grad[at : at + width], grad[end:]
    mixed, missed, boost, count = np.empty(width), np.empty(classes), 1 / (1 - dropout), 0

    marked[: high - low] = False
    for i in range(low, high):
        if targets[i] >= 0:
            for e in range(hop[0][i], hop[0][i + 1]):
                marked[hop[1][e] - low] = True

    for i in range(low, high):
        if not marked[i - low]:
            continue
        own = hidden[i - low]
        back[i - low, :] = 0.0
        for c in range(width):
            own[c] = first_bias[c]
        for e in range(rows[0][i], rows[0][i + 1]):
            value, weights = rows[2][e], first[rows[1][e]]
            for c in range(width):
                own[c] += value * weights[c]
        for c in range(width):
            stays = own[c] > 0 and (dropout == 0 or _kept(word, i * width + c, dropout))
            own[c] = own[c] * boost if stays else 0.0

    for i in range(low, high):
        if targets[i] < 0:
            continue
        mixed[:] = 0.0
        for e in range(hop[0][i], hop[0][i + 1]):
            value, other = hop[2][e], hidden[hop[1][e] - low]
            for c in range(width):
                mixed[c] += value * other[c]
        for c in range(classes):
            missed[c] = second_bias[c]
        for k in range(width):
            for c in range(classes):
                missed[c] += mixed[k] * second[k, c]
        peak, total = missed[0], 0.0
        for c in range(classes):
            peak = missed[c] if missed[c] > peak else peak
        for c in range(classes):
            missed[c] = rounded_exp(missed[c] - peak)
            total += missed[c]
        for c in range(classes):
            missed[c] = share * (missed[c] / total - (1.0 if c == targets[i] else 0.0))
            to_second_bias[c] += missed[c]
        for k in range(width):
            returned = 0.0
            for c in range(classes):
                to_second[k, c] += mixed[k] * missed[c]
                returned += second[k, c] * missed[c]
            mixed[k] = returned
        for e in range(hop[0][i], hop[0][i + 1]):
            value, other = hop[2][e], back[hop[1][e] - low]
            for c in range(width):
                other[c] += value * mixed[c]

    for i in range(low, high):
        if not marked[i - low]:
            continue
        own = back[i - low]
        for c in range(width):
            own[c] = own[c] * boost if hidden[i - low, c] > 0 else 0.0
            to_first_bias[c] += own[c]
        for e in range(rows[0][i], rows[0][i + 1]):
            value, column = rows[2][e], rows[1][e]
            if not seen[column]:
                seen[column] = True
                touched[count] = column
                count += 1
                to_first[column, :] = 0.0
            to_column = to_first[column]
            for c in range(width):
                to_column[c] += value * own[c]
    return count


@njit(cache=True, nogil=True, error_model="numpy", inline="always")
def _add_whole(part: Floats, factor: float, sign: float, sums: Floats, squares: Floats) -> None:
    """Add a part as integers, rounded toward zero, to ``sums``, and their squares to ``squares``."""
    for c in range(len(part)):
        whole = np.trunc(part[c] * factor)
        squares[c] += whole * whole
        sums[c] += sign * whole


@njit(cache=True, nogil=True, error_model="numpy")
def _add_clipped(
    by_column: Floats, rest: Floats, touched: NDArray[np.int64], clip: float, sums: Floats, squares: Floats
) -> None:
    """Add a group's gradient, clipped, as integers in steps of clip / STEPS: its touched columns, and all other parameters."""
    at, width = by_column.size, by_column.shape[1]
    squares[:] = 0.0
    for c in range(len(rest)):
        squares[c] = rest[c] * rest[c]
    for column in touched:
        for c in range(width):
            squares[c] += by_column[column, c] * by_column[column, c]
    norm, scale = math.sqrt(squares.sum()), STEPS / clip
    if not norm < np.inf:
        return
    factor = scale if norm * scale <= STEPS - 1 else (STEPS - 1) / norm
    for sign in (1.0, -1.0):
        squares[:] = 0.0
        _add_whole(rest, factor, sign, sums[at:], squares)
        for column in touched:
            _add_whole(by_column[column], factor, sign, sums[column * width : (column + 1) * width], squares)
        if squares.sum() <= float(STEPS) * STEPS:  # exact; if it ever fails, the group is taken out again
            return


@njit(cache=True, nogil=True, error_model="numpy")
def group_sums(
    drawn: NDArray[np.int64],
    offsets: NDArray[np.int64],
    shares: Floats,
    rows: Part,
    hop: Part,
    targets: NDArray[np.int64],
    flat: Floats,
    width: int,
    columns: int,
    dropout: float,
    word: np.uint64,
    clip: float,
) -> Floats:
    """Sum the gradients of groups, each clipped over all parameters jointly: integers, in steps of clip / STEPS.

    At most 2^29 groups keep every partial sum at most 2^53, which float64 holds exactly. With a clip of 0 the result is the
    plain sum, in which nothing is protected.

    ``rows`` is what the first layer reads. The loss of a training node in group k counts ``shares[k]``, and a place of target
    -1 has no loss. ``hop`` is symmetric, without an entry between groups; ``word`` is public.

    >>> one = (np.array([0, 1]), np.array([0]), np.array([1.0]))  # a matrix of one entry
    >>> group_sums(np.array([0]), np.array([0, 1]), np.ones(1), one, one, np.array([0]), np.zeros(6), 1, 1, 0.0,
    ...            np.uint64(0), 0.0).tolist()
    [0.0, 0.0, 0.0, 0.0, -0.5, 0.5]
    """
    longest = 0
    for k in drawn:
        longest = max(longest, offsets[k + 1] - offsets[k])
    hidden, back, marked = np.empty((longest, width)), np.empty((longest, width)), np.empty(longest, np.bool_)
    grad, sums = np.zeros(len(flat)), np.zeros(len(flat))
    seen, touched, at = np.zeros(columns, np.bool_), np.empty(columns, np.int64), columns * width
    by_column, rest = grad[:at].reshape(columns, width), grad[at:]
    squares = np.empty(max(len(rest), width))
    for k in drawn:
        count = _add_gradient(
            offsets[k], offsets[k + 1], shares[k], rows, hop, targets, flat, dropout, word,
            hidden, back, marked, grad, seen, touched,
        )  # fmt: skip
        if clip > 0:
            _add_clipped(by_column, rest, touched[:count], clip, sums, squares)
            rest[:] = 0.0
            for column in touched[:count]:
                seen[column] = False  # its gradient is set to zero when it is next met
    return sums if clip > 0 else grad
