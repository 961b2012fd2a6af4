"""Groups of nodes that are looked at apart, from the value that each node has."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sfumato._validate import fail

_MOST, _PARTS = 20, 4
MISSING, _OTHERS = "(missing)", "(others)"


@dataclass(frozen=True)
class Groups:
    """Which group each node is in, by a column."""

    column: str
    names: tuple[str, ...]
    codes: NDArray[np.int64]

    @classmethod
    def of(cls, column: str, values: Sequence[Any] | NDArray[Any]) -> Groups:
        """Group nodes by their values: many numbers by ranges, words by words.

        Numbers of more than twenty values become four ranges of about equally many nodes; of more than twenty words the most
        frequent are kept, and the others are one group.
        """
        found = np.asarray(values)
        if found.ndim != 1:
            raise fail("by", found.shape, "to be one value for each node", "Pass a list or a column.")
        if found.dtype.kind in "iuf" and many(found):
            return _ranges(column, found.astype(np.float64))
        told = [MISSING if one is None or one != one else _word(one) for one in found.tolist()]
        return _words(column, np.array(told, object))


def many(values: NDArray[Any]) -> bool:
    """Return whether numbers have so many values that they are grouped by ranges; NaN is none."""
    return len(np.unique(values[~np.isnan(values)])) > _MOST


def _word(value: Any) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)


def _words(column: str, values: NDArray[np.object_]) -> Groups:
    names, codes, counts = np.unique(values.astype(str), return_inverse=True, return_counts=True)
    if len(names) > _MOST:
        kept = np.sort(np.argsort(-counts, kind="stable")[: _MOST - 1])
        place = np.full(len(names), len(kept))
        place[kept] = np.arange(len(kept))
        names, codes = np.array([*names[kept], _OTHERS]), place[codes]
    return Groups(column, tuple(names.tolist()), codes.astype(np.int64))


def _ranges(column: str, values: NDArray[np.float64]) -> Groups:
    known = ~np.isnan(values)
    ends = np.unique(np.quantile(values[known], np.linspace(0, 1, _PARTS + 1)))
    codes = np.full(len(values), len(ends) - 1)
    codes[known] = np.clip(np.searchsorted(ends, values[known], side="left") - 1, 0, len(ends) - 2)
    names = [f"{low:.6g} to {high:.6g}" for low, high in pairwise(ends.tolist())]
    return Groups(column, (*names, *((MISSING,) * (not known.all()))), codes.astype(np.int64))
