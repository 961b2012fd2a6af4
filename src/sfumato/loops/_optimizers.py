"""A step of Adam in one pass over memory: compiled from C, or else in NumPy, with the same bits."""

from __future__ import annotations

import ctypes
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sfumato.loops import _native

KEPT = 0.999
"""How much of the mean of squares a step keeps."""


def adam_step(
    flat: NDArray[np.floating],
    grad: NDArray[np.floating],
    mean: NDArray[np.floating],
    square: NDArray[np.floating],
    *,
    decay: float,
    momentum: float,
    rate: float,
    steps: int,
) -> None:
    """Change parameters, and the means of their gradients and squares, in place; set the gradients to zero.

    All are vectors of float32 or float64 of one length in C order. ``steps`` counts this step, too. Each operation is rounded
    once, in one order, so the bits depend on nothing else.

    >>> flat, grad, mean, square = np.ones((4, 1)) * [[1.0], [2.0], [0.0], [0.0]]
    >>> adam_step(flat, grad, mean, square, decay=0.0, momentum=0.9, rate=0.1, steps=1)
    >>> flat.round(3).tolist(), grad.tolist()
    ([0.9], [0.0])
    """
    correction, rate = 1 / (1 - KEPT**steps), rate / (1 - momentum**steps)
    vectors = flat, grad, mean, square
    for one in vectors:
        if (
            one.dtype != flat.dtype
            or one.dtype.char not in "fd"
            or one.shape != flat.shape
            or not one.flags.c_contiguous
        ):
            raise TypeError(f"Expected four vectors of float32 or float64 in C order, got {one.dtype} {one.shape}.")
    library = _compiled()
    if library is None:
        _in_numpy(*vectors, decay, 1 - momentum, correction, rate)
    else:
        given = flat.size, int(flat.itemsize == 4), decay, 1 - momentum, correction, rate
        library.adam(*(one.ctypes.data for one in vectors), *given, _native.threads())


def _in_numpy(
    flat: NDArray[np.floating],
    grad: NDArray[np.floating],
    mean: NDArray[np.floating],
    square: NDArray[np.floating],
    decay: float,
    fresh: float,
    correction: float,
    rate: float,
) -> None:
    with np.errstate(over="ignore", invalid="ignore"):
        if decay:
            grad += flat * decay
        mean += (grad - mean) * fresh
        square *= KEPT
        square += grad * grad * 0.001
        flat -= mean / (np.sqrt(square * correction) + 1e-8) * rate
    grad[...] = 0


@cache
def _compiled() -> Any:
    found = _native.library()
    if found is not None:
        pointer, number, real = ctypes.c_void_p, ctypes.c_int64, ctypes.c_double
        found.adam.argtypes, found.adam.restype = [pointer] * 4 + [number] * 2 + [real] * 4 + [number], None
    return found
