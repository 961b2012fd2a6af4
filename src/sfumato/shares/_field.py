r"""The prime field of the shares, on arrays: 128-bit numbers as pairs of 64-bit words.

The field has :math:`p = 2^{128} - 28 \cdot 2^{64} + 1` elements, the Field128 of draft-irtf-cfrg-vdaf-18. The group of its
units has a subgroup of order :math:`2^{66}`, which 7 to the power :math:`(p - 1) / 2^{66}` generates, so there are roots of
unity of every small power of two. An array of elements has shape [..., 2] and dtype uint64: the low word, then the high word.
Every function takes and gives canonical elements, 0 to p - 1.

A product is four by four limbs of 32 bits in eight columns. Since :math:`2^{128} = 28 \cdot 2^{64} - 1` modulo p, columns fold
into four, whose carries fold again. No branch and no length of a loop depends on a value, but that an interpreter, NumPy and
the processor take the same time for all values is not claimed.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sfumato.errors import InputError

MODULUS = 2**128 - 28 * 2**64 + 1
SIZE = 16
"""Bytes of an encoded element, little-endian."""
Elements = NDArray[np.uint64]
"""Field elements, shape [..., 2]: low and high word."""
Bytes = NDArray[np.uint8]

_LOG_ORDER = 66
_GENERATOR = pow(7, (MODULUS - 1) >> _LOG_ORDER, MODULUS)
_HIGH = np.uint64((MODULUS >> 64) & (2**64 - 1))
_FOLD = 28
_HALF = np.uint64(32)
_LOW_HALF = np.uint64(2**32 - 1)
_wrapping = np.errstate(over="ignore")  # single words warn where arrays wrap


def root_of_unity(order: int) -> int:
    """Return the root of this order, a power of two, that the draft's generator gives.

    >>> pow(root_of_unity(8), 4, MODULUS) == MODULUS - 1
    True
    """
    return pow(_GENERATOR, 2**_LOG_ORDER // order, MODULUS)


def elements(values: Sequence[int]) -> Elements:
    """Return the elements that are these integers modulo p, shape [len(values), 2].

    >>> elements([3, -1]).tolist() == [[3, 0], [0, 2**64 - 28]]
    True
    """
    words = b"".join((value % MODULUS).to_bytes(SIZE, "little") for value in values)
    return np.frombuffer(words, "<u8").reshape(-1, 2).astype(np.uint64)


def from_bytes(rows: Bytes) -> tuple[Elements, NDArray[np.bool_]]:
    """Read rows of encoded elements.

    Args:
        rows: shape [n, 16 k].

    Returns:
        The elements, shape [n, k, 2], and shape [n]: whether each number of the row is below p. A row with one that is not holds
        zeros, so that nothing is computed from numbers that are no elements.
    """
    words = np.ascontiguousarray(rows).view("<u8").reshape(len(rows), rows.shape[1] // SIZE, 2).astype(np.uint64)
    fit: NDArray[np.bool_] = np.logical_not(_reaches_modulus(words[..., 0], words[..., 1]).any(axis=1))
    words[~fit] = 0
    return words, fit


def to_bytes(values: Elements) -> Bytes:
    """Return elements [n, k, 2] as rows of bytes, shape [n, 16 k]."""
    return np.ascontiguousarray(values.astype("<u8")).view(np.uint8).reshape(len(values), SIZE * values.shape[1])


def signed(values: Elements) -> NDArray[np.int64]:
    """Return elements that stand for integers from -2^63 to 2^63 - 1 as these integers, shape [...].

    Raises:
        InputError: an element stands for none, so shares were added that do not belong together.
    """
    away = negative(values)
    plus = (values[..., 1] == 0) & (values[..., 0] < 2**63)
    minus = (away[..., 1] == 0) & (away[..., 0] <= 2**63)
    if not (plus | minus).all():
        raise InputError(
            "Expected sums of 64-bit integers, got a number beyond them. Add the shares of all servers, each once, "
            "over the same reports."
        )
    return np.where(plus, values[..., 0], np.uint64(0) - away[..., 0]).view(np.int64)


def from_signed(values: ArrayLike) -> Elements:
    """Return the elements that stand for integers of int64, shape [..., 2].

    >>> signed(from_signed([-(2**63), -1, 0, 2**63 - 1])).tolist() == [-(2**63), -1, 0, 2**63 - 1]
    True
    """
    integers = np.asarray(values, np.int64)
    plain = integers.view(np.uint64)
    below = integers < 0
    size = np.where(below, np.uint64(0) - plain, plain)
    made = np.stack([size, np.zeros_like(size)], axis=-1)
    return np.where(below[..., None], negative(made), made)


@_wrapping
def add(left: Elements, right: Elements) -> Elements:
    """Return the sums of elements."""
    low = left[..., 0] + right[..., 0]
    carry = low < left[..., 0]
    high = left[..., 1] + right[..., 1]
    over = high < left[..., 1]
    high = high + carry
    over |= carry & (high == 0)
    return _less_modulus(low, high, over | _reaches_modulus(low, high))


@_wrapping
def subtract(left: Elements, right: Elements) -> Elements:
    """Return the differences of elements."""
    low = left[..., 0] - right[..., 0]
    borrow = left[..., 0] < right[..., 0]
    high = left[..., 1] - right[..., 1]
    under = (left[..., 1] < right[..., 1]) | (borrow & (high == 0))
    high = high - borrow
    low = low + under  # with p: less 28 * 2^64, plus 1
    high = high - np.uint64(_FOLD) * under + (under & (low == 0))
    return np.stack([low, high], axis=-1)


def negative(values: Elements) -> Elements:
    """Return the negatives of elements."""
    return subtract(np.zeros_like(values), values)


def multiply(left: Elements, right: Elements) -> Elements:
    """Return the products of elements.

    >>> multiply(elements([-3]), elements([5])).tolist() == elements([-15]).tolist()
    True
    """
    return _folded(_columns(left, right))


def inner(left: Elements, right: Elements) -> Elements:
    """Return the sums of products over the last axis but that of words: shape [..., k, 2] becomes [..., 2]. k is at most 2^16."""
    return _folded([column.sum(axis=-1) for column in _columns(left, right)])


def total(values: Elements) -> Elements:
    """Return the sums of elements over the first axis, of at most 2^30 rows."""
    return _carried([limb.sum(axis=0, dtype=np.int64) for limb in _limbs(values)])


def total_by(values: Elements, groups: NDArray[np.integer], count: int) -> Elements:
    """Return the sums of rows [n, ..., 2] by group, shape [count, ..., 2]; at most 2^30 rows, groups 0, ..., count - 1."""
    sums = []
    for limb in _limbs(values):
        sums.append(np.zeros((count, *limb.shape[1:]), np.int64))
        np.add.at(sums[-1], groups, limb.view(np.int64))
    return _carried(sums)


def equal(left: Elements, right: Elements) -> NDArray[np.bool_]:
    """Return where elements are equal."""
    same: NDArray[np.bool_] = (left == right).all(axis=-1)
    return same


def _limbs(values: Elements) -> list[Elements]:
    low, high = values[..., 0], values[..., 1]
    return [low & _LOW_HALF, low >> _HALF, high & _LOW_HALF, high >> _HALF]


def _columns(left: Elements, right: Elements) -> list[Elements]:
    """The product without carries: eight columns of weights 2^0, 2^32, ..., each below 2^35."""
    columns = [np.zeros(np.broadcast_shapes(left.shape, right.shape)[:-1], np.uint64) for _ in range(8)]
    others = _limbs(right)
    for place, limb in enumerate(_limbs(left)):
        for step, other in enumerate(others):
            product = np.multiply(limb, other)
            columns[place + step] += product & _LOW_HALF
            product >>= _HALF
            columns[place + step + 1] += product
    return columns


def _folded(columns: list[Elements]) -> Elements:
    """The element that eight columns make, each below 2^51: the upper four by 2^128 = 28 * 2^64 - 1, those of it again."""
    c = [column.view(np.int64) for column in columns]
    twice = _FOLD**2 - 1
    return _carried(
        [
            c[0] - c[4] - _FOLD * c[6],
            c[1] - c[5] - _FOLD * c[7],
            c[2] + _FOLD * c[4] + twice * c[6],
            c[3] + _FOLD * c[5] + twice * c[7],
        ]
    )


def _carried(limbs: list[NDArray[np.int64]]) -> Elements:
    """The element that four signed limbs make, each below 2^62 in size.

    The first pass leaves a carry below 2^31 in size, whose fold moves the value by less than 2^100. So the second leaves -1, 0
    or 1, and its fold ends between 0 and 2^128: had it carried 1, the rest was below 2^100; had it carried -1, above 2^128 -
    2^100.
    """
    half, low_half = np.int64(32), np.int64(2**32 - 1)
    a, b, c, d = limbs
    for more in (True, True, False):
        b = b + (a >> half)
        c = c + (b >> half)
        d = d + (c >> half)
        a, b, c = a & low_half, b & low_half, c & low_half
        if more:
            carry = d >> half
            d = d & low_half
            a = a - carry
            c = c + _FOLD * carry
    low = (a | (b << half)).view(np.uint64)
    high = (c | (d << half)).view(np.uint64)
    return _less_modulus(low, high, _reaches_modulus(low, high))


def _reaches_modulus(low: Elements, high: Elements) -> NDArray[np.bool_]:
    reached: NDArray[np.bool_] = (high > _HIGH) | ((high == _HIGH) & (low != 0))
    return reached


@_wrapping
def _less_modulus(low: Elements, high: Elements, where: NDArray[np.bool_]) -> Elements:
    """Words less p where told: 28 * 2^64 more and 1 less, modulo 2^128."""
    high = high + np.uint64(_FOLD) * where - (where & (low == 0))
    return np.stack([low - where, high], axis=-1)
