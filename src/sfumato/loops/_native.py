"""The loops of :mod:`sfumato.loops.kernels`, compiled from C when the package is built, and loaded without Python's ABI.

A library that is missing, damaged or built from other sources is not used. There is no privacy here, only exact arithmetic.
"""

from __future__ import annotations

import ctypes
import hashlib
import os
import sys
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from sfumato._threads import default_threads, numba_threads

_NAMES = (
    *("hop.c", "products.c", "rows.c", "chain.c", "optimizers.c", "sampler.c", "hash.c", "triangles.c"),
    *("levels.h", "rows.h", "sampler.h"),
)
SOURCES = tuple(Path(__file__).with_name(name) for name in _NAMES)
LIBRARY = SOURCES[0].with_suffix(".native")
_LINE = 64


class Noise(Protocol):
    """Noise of a release: ``add`` adds the values of positions ``start`` and on to sums, in place.

    ``compiled`` does so in C where that can; what it leaves open is added by whoever made the noise.
    """

    @property
    def compiled(self) -> Any: ...

    def add(self, sums: NDArray[np.int64], start: int) -> None: ...


class Compiled:
    """The loops of one library; they run without the interpreter's lock, in as many threads as Numba would.

    >>> compiled = load()
    >>> compiled is None or compiled.NAME == "C"
    True
    """

    NAME = "C"

    def __init__(self, library: ctypes.CDLL) -> None:
        pointer, number = ctypes.c_void_p, ctypes.c_int64
        self._sum_rows, self._quantize, self._closed = library.sum_rows, library.quantize, library.closed
        self._sum_rows.argtypes = [pointer] * 3 + [number] * 4 + [pointer] * 3 + [number]
        self._quantize.argtypes = [pointer, number, number, pointer, pointer, number]
        self._closed.argtypes = [pointer, pointer, number, pointer, number]
        self._sum_rows.restype, self._quantize.restype, self._closed.restype = None, None, number

    def pack(self, steps: NDArray[np.int16]) -> NDArray[np.int16]:
        """Give int16 rows [nodes, width] 8, 16 or a multiple of 32 columns, of which those beyond the width mean nothing.

        Few such rows cross a cache line. Rows that are so already are not copied.
        """
        width = steps.shape[1]
        padded = 8 if width <= 8 else 16 if width <= 16 else -(-width // 32) * 32
        if width == padded and steps.ctypes.data % _LINE == 0 and steps.flags.c_contiguous:
            return steps
        rows = aligned(len(steps), padded)
        rows[:, :width] = steps
        return rows

    def sum_rows(
        self,
        offsets: NDArray[np.int64],
        sources: NDArray[np.int32],
        packed: NDArray[np.int16],
        first: int,
        out: NDArray[np.int64],
        weights: NDArray[np.uint16] | None = None,
        noise: Noise | None = None,
    ) -> None:
        """Set ``out[i]`` [rows, width] to the sum of the rows that the arcs of row ``first + i`` name, each times its weight.

        Noise is added while the sums are in the cache.
        """
        rows, width = out.shape
        arcs, padded = (_at(offsets, np.int64), _at(sources, np.int32)), packed.shape[1]
        written, each = _at(out, np.int64), None if weights is None else _at(weights, np.uint16)
        sampler = None if noise is None else noise.compiled
        ends = first, first + rows, written, each, None if sampler is None else sampler.address
        self._sum_rows(*arcs, _at(packed, np.int16), padded, width, *ends, threads())
        if noise is not None and sampler is None:
            noise.add(out, first * width)

    def quantize(self, rows: NDArray[np.float32], out: NDArray[np.int16], squares: NDArray[np.float64]) -> None:
        """Write rows to ``out`` in whole steps and their squared norms to ``squares``; rows that are not finite stay out."""
        written = _at(out, np.int16), _at(squares, np.float64)
        self._quantize(_at(rows, np.float32), *rows.shape, *written, threads())

    def closed(self, offsets: NDArray[np.int64], targets: NDArray[np.int32], out: NDArray[np.int64]) -> None:
        """Set ``out[v]`` to the number of pairs of targets of node v of which one is a target of the other."""
        arcs = _at(offsets, np.int64), _at(targets, np.int32)
        if not self._closed(*arcs, len(out), _at(out, np.int64), threads()):
            raise MemoryError(
                "Expected memory for one bit of each node in each thread, got none. Free some, or use fewer."
            )


def aligned(rows: int, width: int) -> NDArray[np.int16]:
    """Return an int16 matrix, not filled, that begins where a cache line does.

    >>> aligned(3, 16).shape
    (3, 16)
    """
    memory = np.empty(2 * rows * width + _LINE, np.uint8)
    start = -memory.ctypes.data % _LINE
    return memory[start : start + 2 * rows * width].view(np.int16).reshape(rows, width)


def load(path: Path = LIBRARY) -> Compiled | None:
    """Load the loops of hops, or return None where :func:`library` does.

    >>> load(Path("absent")) is None
    True
    """
    found = library(path)
    return None if found is None else Compiled(found)


def library(path: Path = LIBRARY) -> ctypes.CDLL | None:
    """Load a library, or return None if it is missing, damaged or built from other sources than this package's.

    >>> library(Path("absent")) is None
    True
    """
    try:
        found = ctypes.CDLL(os.fspath(path.absolute()))
        found.hop_source.restype = ctypes.c_char_p
        return found if found.hop_source() == digest().encode() else None
    except (OSError, AttributeError):
        return None


def digest() -> str:
    """Return the SHA-256 of the sources, one after the other, which the library was built with."""
    return hashlib.sha256(b"".join(source.read_bytes() for source in SOURCES)).hexdigest()


def _at(array: NDArray[Any], kind: type[np.generic]) -> int:
    if array.dtype != kind or not array.flags.c_contiguous:
        raise TypeError(f"Expected an array of {kind.__name__} in C order, got {array.dtype}. Convert it once, before.")
    return array.ctypes.data


def threads() -> int:
    """Return how many threads Numba would use if it is loaded; else OMP_NUM_THREADS, or one a processor."""
    return numba_threads() if "numba" in sys.modules else default_threads()
