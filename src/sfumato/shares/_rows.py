"""Arrays with a row for each report: checks of their shape, byte strings from outside, work in blocks."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from sfumato._validate import fail
from sfumato.errors import InputError

if TYPE_CHECKING:
    from sfumato.shares._field import Bytes

BLOCK = 1024
REFUSED = 0xFF
"""Bytes that encode no field elements: a row of them, from one server, makes every server refuse the report."""


def rows(messages: Sequence[bytes], size: int) -> tuple[Bytes, NDArray[np.bool_]]:
    """Return byte strings from outside as rows [n, size], and which had this size; others become rows of bytes 255.

    Whoever calls this refuses the others by these flags, since bytes 255 are a seed like any other.

    >>> made, right = rows([b"ab", b"c"], 2)
    >>> made.tolist(), right.tolist()
    ([[97, 98], [255, 255]], [True, False])
    """
    right = np.array([len(message) == size for message in messages], bool)
    whole = b"".join(message if len(message) == size else bytes([REFUSED]) * size for message in messages)
    return np.frombuffer(whole, np.uint8).reshape(len(messages), size), right


def in_blocks(function: Callable[..., tuple[Any, ...]], *arrays: NDArray[Any]) -> list[NDArray[Any]]:
    """Return the arrays that the function gives for blocks of rows that stay in the cache, each put together again."""
    starts = range(0, max(len(arrays[0]), 1), BLOCK)
    made = [function(*(array[at : at + BLOCK] for array in arrays)) for at in starts]
    return [np.concatenate(parts) for parts in zip(*made, strict=True)]


def check_rows(name: str, value: Any, count: int, size: int) -> None:
    """Check that an array holds so many rows of bytes.

    Args:
        name: what messages call it.
        value: the array.
        count: how many rows it should have.
        size: how many bytes a row should have.

    Raises:
        InputError: it does not.
    """
    if not isinstance(value, np.ndarray) or value.dtype != np.uint8 or value.shape != (count, size):
        got = f"{value.dtype} of shape {value.shape}" if isinstance(value, np.ndarray) else type(value).__name__
        raise InputError(f"Expected {name} to be uint8 of shape [{count}, {size}], got {got}.")


def check_flags(name: str, value: Any, count: int) -> NDArray[np.bool_]:
    """Return the array, which should hold so many flags.

    Args:
        name: what messages call it.
        value: the array.
        count: how many flags it should have.

    Raises:
        InputError: it does not.
    """
    flags = np.asarray(value)
    if flags.dtype != bool or flags.shape != (count,):
        raise fail(name, flags, f"to be flags of shape [{count}]")
    return flags
