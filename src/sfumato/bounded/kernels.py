"""Loops over neighborhoods, in C where the package was built with a compiler, or else in Numba. There is no privacy here.

Rows are int16; a row of norm 1 is ``INT16_ONE`` = 32767 steps. Sums are exact, so both loops give the same bits, at any number
of threads and in any order. Numba is imported only where the compiled library is missing.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any, Protocol

from numpy.typing import NDArray

from sfumato._threads import numba_threads
from sfumato.bounded import _native

if TYPE_CHECKING:
    import numpy as np

INT16_ONE = 32767


def pack(steps: NDArray[np.int16]) -> NDArray[Any]:
    """Copy int16 rows [nodes, width] to the form that :func:`sum_rows` reads.

    >>> import numpy as np
    >>> len(pack(np.zeros((2, 20), np.int16)))
    2
    """
    return _loops().pack(steps)


def sum_rows(
    offsets: NDArray[np.int64],
    sources: NDArray[np.int32],
    packed: NDArray[Any],
    first: int,
    out: NDArray[np.int64],
    weights: NDArray[np.uint16] | None = None,
) -> None:
    """Set ``out[i]`` [rows, width] to the sum of the packed rows that the arcs of row ``first + i`` name.

    The arcs of row i are ``sources[offsets[i]:offsets[i + 1]]``, and ``packed`` is what :func:`pack` returns. With ``weights``,
    one for each arc in steps of 2^-15 and at most 2^15, every entry is multiplied and rounded toward zero first.

    >>> import numpy as np
    >>> out, packed = np.empty((2, 1), np.int64), pack(np.array([[5], [7]], np.int16))
    >>> sum_rows(np.array([0, 1, 2]), np.array([1, 0], np.int32), packed, 0, out)
    >>> out.tolist()
    [[7], [5]]
    >>> sum_rows(np.array([0, 1, 2]), np.array([1, 0], np.int32), packed, 0, out, np.array([1 << 14, 1 << 15], np.uint16))
    >>> out.tolist()
    [[3], [5]]
    """
    _loops().sum_rows(offsets, sources, packed, first, out, weights)


def quantize(rows: NDArray[np.float32], out: NDArray[np.int16], squares: NDArray[np.float64]) -> None:
    """Write ``rows`` to ``out`` in steps of 1 / 32767, rounded toward zero, and their squared norms to ``squares``.

    A row whose steps have a squared norm above 32767^2, in integers, is shrunk. A row that is not finite has a squared
    norm that is not, and its place in ``out`` is left as it was.

    >>> import numpy as np
    >>> steps, squares = np.empty((1, 2), np.int16), np.empty(1)
    >>> quantize(np.array([[0.6, -0.8]], np.float32), steps, squares)
    >>> steps.tolist(), squares.round(6).tolist()
    ([[19660, -26213]], [1.0])
    """
    _loops().quantize(rows, out, squares)


def language() -> str:
    """Return the language of the loops in use.

    >>> language() in ("C", "Numba")
    True
    """
    return _loops().NAME


class _Loops(Protocol):
    @property
    def NAME(self) -> str: ...  # noqa: N802

    def pack(self, steps: NDArray[np.int16]) -> NDArray[Any]: ...

    def sum_rows(
        self,
        offsets: NDArray[np.int64],
        sources: NDArray[np.int32],
        packed: NDArray[Any],
        first: int,
        out: NDArray[np.int64],
        weights: NDArray[np.uint16] | None = None,
    ) -> None: ...

    def quantize(self, rows: NDArray[np.float32], out: NDArray[np.int16], squares: NDArray[np.float64]) -> None: ...


@cache
def _loops() -> _Loops:
    compiled = _native.load()
    if compiled is not None:
        return compiled
    from sfumato.bounded import _numba

    numba_threads()
    return _numba
