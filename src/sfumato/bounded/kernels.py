"""Loops over neighborhoods, compiled ahead (:mod:`sfumato.bounded.native`) or by Numba. There is no privacy here.

Rows are int16; a row of norm 1 is ``UNIT`` = 32767 steps. Sums are exact, so both loops give the same bits, at any number of
threads and in any order. Numba is imported only where the compiled library is missing.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any, Protocol

from numpy.typing import NDArray

from sfumato.bounded import native

if TYPE_CHECKING:
    import numpy as np

UNIT = 32767


class Loops(Protocol):
    """What sums rows and puts them on the grid of whole steps.

    >>> loops().NAME in ("C", "Numba")
    True
    """

    @property
    def NAME(self) -> str:  # noqa: N802
        """The language of the loops."""

    def pack(self, steps: NDArray[np.int16]) -> NDArray[Any]:
        """Bring int16 rows [nodes, width] into the form that :meth:`sum_rows` reads."""

    def sum_rows(
        self,
        offsets: NDArray[np.int64],
        sources: NDArray[np.int32],
        packed: NDArray[Any],
        first: int,
        out: NDArray[np.int64],
    ) -> None:
        """Set ``out[i]`` [rows, width] to the sum of the rows that the arcs of row ``first + i`` name.

        The arcs of row i are ``sources[offsets[i]:offsets[i + 1]]``, and ``packed`` is what :meth:`pack` returns.
        """

    def quantize(self, rows: NDArray[np.float32], out: NDArray[np.int16], squares: NDArray[np.float64]) -> None:
        """Write rows to ``out`` in steps of 1 / 32767, rounded toward zero, and their squared norms to ``squares``.

        A row whose steps have a squared norm above 32767^2, in whole numbers, is shrunk. A row that is not finite has a
        squared norm that is not, and nothing is written to its place in ``out``.
        """


@cache
def loops() -> Loops:
    """Return the loops in use: those compiled ahead if they are there, or else Numba's.

    >>> import numpy as np
    >>> total = np.empty((2, 1), np.int64)
    >>> packed = loops().pack(np.array([[5], [7]], np.int16))
    >>> loops().sum_rows(np.array([0, 1, 2]), np.array([1, 0], np.int32), packed, 0, total)
    >>> total.tolist()
    [[7], [5]]
    """
    compiled = native.load()
    if compiled is not None:
        return compiled
    from sfumato.bounded import hop_kernel

    return hop_kernel
