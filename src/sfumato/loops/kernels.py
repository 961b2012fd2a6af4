"""Loops over neighborhoods, in C where the package was built with a compiler, or else in Numba. There is no privacy here.

Rows are int16; a row of norm 1 is ``INT16_ONE`` = 32767 steps. Sums are exact, so both loops give the same bits, at any number
of threads and in any order. Numba is imported only where the compiled library is missing.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any, Protocol

from numpy.typing import NDArray

from sfumato._threads import numba_threads
from sfumato.loops import _native

if TYPE_CHECKING:
    import numpy as np

    from sfumato.loops._native import Noise

INT16_ONE = 32767


class _Loops(Protocol):
    @property
    def NAME(self) -> str: ...  # noqa: N802

    def pack(self, steps: NDArray[np.int16]) -> NDArray[Any]:
        """Copy int16 rows [nodes, width] to the form that :meth:`sum_rows` reads."""

    def sum_rows(
        self,
        offsets: NDArray[np.int64],
        sources: NDArray[np.int32],
        packed: NDArray[Any],
        first: int,
        out: NDArray[np.int64],
        weights: NDArray[np.uint16] | None = None,
        noise: Noise | None = None,
    ) -> None:
        """Set ``out[i]`` [rows, width] to the sum of the packed rows that the arcs of row ``first + i`` name.

        The arcs of row i are ``sources[offsets[i]:offsets[i + 1]]``. With ``weights``, one for each arc in steps of 2^-15 and at
        most 2^15, every entry is multiplied and rounded toward zero first. The noise of entry (row, column) is that of position
        row * width + column.
        """

    def quantize(self, rows: NDArray[np.float32], out: NDArray[np.int16], squares: NDArray[np.float64]) -> None:
        """Write ``rows`` to ``out`` in steps of 1 / 32767, rounded toward zero, and their squared norms to ``squares``.

        A row whose steps have a squared norm above 32767^2, in integers, is shrunk. A row that is not finite has a squared
        norm that is not, and its place in ``out`` is left as it was.
        """

    def closed(self, offsets: NDArray[np.int64], targets: NDArray[np.int32], out: NDArray[np.int64]) -> None:
        """Set ``out[v]`` to the number of pairs of targets of node v of which one is a target of the other.

        The targets of node v are ``targets[offsets[v]:offsets[v + 1]]``.
        """


@cache
def loops() -> _Loops:
    """Return the loops in use; their ``NAME`` is the language.

    >>> loops().NAME in ("C", "Numba")
    True
    """
    compiled = _native.load()
    if compiled is not None:
        return compiled
    from sfumato.loops import _numba

    numba_threads()
    return _numba
