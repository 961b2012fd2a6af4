"""Features of a stored graph take few bytes: two for a number where these hold it exactly, and a code for each category."""

from __future__ import annotations

from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import NDArray

from sfumato.errors import DataError

if TYPE_CHECKING:
    import scipy.sparse as sp

Widths = tuple[int | None, ...]
"""What each column of a table becomes: None for a number, or the number of its categories, which have one column each."""


class PackedRows:
    """Features are held as numbers and codes, and read as blocks of float32 rows, which are those that were written, bit for bit.

    ``numbers`` are float16 or float32, ``codes`` unsigned: 0 for none and c for the category before c. ``widths`` says which
    column of the table is which.
    """

    dtype, ndim = np.dtype(np.float32), 2

    def __init__(self, numbers: NDArray[Any] | None, codes: NDArray[Any] | None, widths: Widths) -> None:
        starts = np.cumsum([0, *(1 if width is None else width for width in widths)])
        known = np.array([width is None for width in widths], bool)
        self.numbers, self.codes, self.widths = numbers, codes, widths
        self.parts = tuple(part for part in (numbers, codes) if part is not None)
        held = [0 if part is None else part.shape[1] for part in (numbers, codes)]
        if not self.parts or held != [known.sum(), (~known).sum()] or len({len(part) for part in self.parts}) > 1:
            raise DataError(
                "Expected the stored features to fit their columns, got other shapes. Import the graph again."
            )
        self.shape = (len(self.parts[0]), int(starts[-1]))
        self._places, self._first = starts[:-1][known], starts[:-1][~known]
        self._most = np.array([width for width in widths if width is not None], np.int64)

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, rows: slice | NDArray[Any]) -> NDArray[np.float32]:
        """Return a block of ``rows``: a slice, numbers of rows, or a mask over all of them."""
        if self.codes is None:
            assert self.numbers is not None
            return self.numbers[rows].astype(np.float32)
        codes = self.codes[rows]
        if (codes.max(axis=0, initial=0) > self._most).any():
            raise DataError("Expected the stored codes to be those of categories, got others. Import the graph again.")
        block = np.zeros((len(codes), self.shape[1]), np.float32)
        if self.numbers is not None:
            block[:, self._places] = self.numbers[rows]
        for column, first in enumerate(self._first):
            there = np.flatnonzero(codes[:, column])
            block[there, first - 1 + codes[there, column].astype(np.int64)] = 1
        return block

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NDArray[Any]:
        return self[:].astype(dtype or self.dtype, copy=False)

    @cached_property
    def whole(self) -> NDArray[np.float32]:
        """All rows at once, made when they are first asked for: for readers that take no blocks."""
        return self[:]


class Features:
    """The field ``x`` of a graph gives packed rows as a whole; :attr:`FeaturesHeld.stored_x` gives them as they are held."""

    def __get__(self, graph: Any, kind: Any = None) -> np.ndarray | sp.csr_matrix | None:
        found: Any = None if graph is None else graph.stored_x
        return found.whole if isinstance(found, PackedRows) else found

    def __set__(self, graph: Any, value: Any) -> None:
        graph.__dict__["x"] = value


class FeaturesHeld:
    """A graph holds its features as they are stored, which its field ``x``, made of :class:`Features`, does not show."""

    @property
    def stored_x(self) -> Any:
        """Return the features as they are held: an array, a sparse matrix, :class:`PackedRows`, or None."""
        return self.__dict__["x"]

    @property
    def num_features(self) -> int:
        """Count the columns of ``x``; 0 without features."""
        return 0 if self.stored_x is None else int(self.stored_x.shape[1])

    def changed(self, **fields: Any) -> Self:
        """Return the same graph with these ``fields``; features stay as they are held (``dataclasses.replace`` unpacks them)."""
        graph: Any = self
        same: Self = replace(graph, **{"x": self.stored_x, **fields})
        return same


def code_type(widths: Widths) -> Any:
    """Return the smallest unsigned type for the codes of columns of so many categories."""
    return np.min_scalar_type(max((width for width in widths if width is not None), default=0))


def is_half(block: NDArray[np.float32]) -> bool:
    """Say whether every number of a block is one of float16, so that two bytes hold it exactly."""
    with np.errstate(over="ignore"):
        return bool((block.astype(np.float16) == block).all())
