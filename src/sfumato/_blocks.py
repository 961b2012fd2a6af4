"""Large arrays lie in files without a name, and large work is done a block after the other.

An array of more than :data:`MOST_HELD` bytes is mapped from a file that was unlinked as soon as it was made: nobody else can
open it, and it is gone with the process, whatever ends that. The system writes it to disk and drops its pages as it needs memory.
So such an array takes disk and no memory of its own, where memory is short; no bit of a result depends on where it lies. Its
blocks of the disk may hold what is protected, as those of the store do.
"""

from __future__ import annotations

import mmap
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

MOST_HELD = 1 << 28
"""Most bytes of one array with a row for every node that is held in memory."""
ROWS_AT_ONCE = 1 << 18
"""Most rows that are computed together. Products of float32 round alike in the same blocks alone, so it never changes."""
_MOST_READ = 1 << 26
_SCRATCH: ContextVar[Path | None] = ContextVar("scratch", default=None)


@contextmanager
def scratch_in(folder: Path) -> Iterator[None]:
    """Let large arrays that the block makes lie in files in a folder that exists; else they lie where temporary files do."""
    token = _SCRATCH.set(folder)
    try:
        yield
    finally:
        _SCRATCH.reset(token)


def room(shape: int | Sequence[int], dtype: Any) -> NDArray[Any]:
    """Return an array to be filled: in memory, or in a file without a name if it is above :data:`MOST_HELD` bytes.

    Raises:
        OSError: the disk has no room for the file. All of it is taken here, so that no write can fail later.

    >>> room((2, 3), np.float32).shape
    (2, 3)
    """
    sides = (shape,) if isinstance(shape, int) else tuple(shape)
    size = int(np.prod(sides, dtype=object)) * np.dtype(dtype).itemsize
    if size <= MOST_HELD:
        return np.empty(sides, dtype)
    folder = _SCRATCH.get() or Path(tempfile.gettempdir())
    with tempfile.TemporaryFile(dir=folder) as file:
        if hasattr(os, "posix_fallocate"):
            try:
                os.posix_fallocate(file.fileno(), 0, size)
            except OSError as error:
                free = shutil.disk_usage(folder).free
                text = f"{size / 1e9:.1f} GB for an array of all nodes, of which {free / 1e9:.1f} GB are free"
                raise OSError(error.errno, f"Cannot reserve {text}", str(folder)) from None
        else:
            file.seek(size - 1)
            file.write(b"\0")
            file.flush()
        return np.asarray(np.memmap(file, dtype, "r+", shape=sides))


def spans(total: int, most: int) -> list[tuple[int, int]]:
    """Cut 0 to ``total`` into ranges of ``most``, the last of which may be shorter.

    >>> spans(5, 2)
    [(0, 2), (2, 4), (4, 5)]
    """
    return [(first, min(first + most, total)) for first in range(0, total, most)]


def in_blocks(
    function: Callable[[int, int], NDArray[Any]], count: int, *, most: int | None = None, read: Sequence[Any] = ()
) -> NDArray[Any]:
    """Put together what a function gives for rows from one number to another, in :func:`room`.

    Up to ``most`` rows (:data:`ROWS_AT_ONCE`) are one block, whose result is returned as it is. Pages of ``read``, arrays that
    the function reads, are let go after each block.

    >>> in_blocks(lambda first, last: np.arange(first, last), 5, most=2).tolist()
    [0, 1, 2, 3, 4]
    """
    most = most or ROWS_AT_ONCE
    if count <= most:
        return function(0, count)
    found: NDArray[Any] | None = None
    for first, last in spans(count, most):
        part = function(first, last)
        if found is None:
            found = room((count, *part.shape[1:]), part.dtype)
        found[first:last] = part
        for array in (found, *read):
            let_go(array)
    assert found is not None
    return found


def rows_of(matrix: Any, ids: NDArray[np.integer] | slice) -> Any:
    """Return chosen rows of a matrix, as many at a time as fit a bound; what was read of a file is let go again.

    ``matrix`` is an array, sparse rows, or anything else that gives chosen rows.

    >>> rows_of(np.arange(6).reshape(3, 2), np.array([0, 2])).tolist()
    [[0, 1], [4, 5]]
    """
    width = max(1, matrix.shape[1]) if len(matrix.shape) > 1 else 1
    step = max(1, _MOST_READ // (width * np.dtype(matrix.dtype).itemsize))
    if isinstance(ids, slice) or len(ids) <= step or not isinstance(matrix[:0], np.ndarray):
        return matrix[ids]
    found = np.empty((len(ids), *matrix.shape[1:]), matrix.dtype)
    for first, last in spans(len(ids), step):
        found[first:last] = matrix[ids[first:last]]
        let_go(matrix)
    return found


def let_go(array: Any) -> None:
    """Unmap the pages of an array that lies in a file: what was read or written stays in the file, and memory is free.

    Arrays in memory stay as they are, and so do maps whose changes are not those of the file.
    """
    for part in getattr(array, "parts", (array,)):
        held = part
        while isinstance(held, np.ndarray) and not isinstance(held, np.memmap):
            held = held.base
        if isinstance(held, np.memmap) and held.mode in ("r", "r+") and hasattr(mmap, "MADV_DONTNEED"):
            held._mmap.madvise(mmap.MADV_DONTNEED)  # type: ignore[attr-defined]
