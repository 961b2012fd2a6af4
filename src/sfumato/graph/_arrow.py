"""Arrow columns as encoders see them: their kinds, their values as one array, and where values stand among known ones."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from sfumato.errors import DataError

MISSING = ("NA", "N/A", "n/a", "#N/A", "<NA>", "NaN", "nan", "NULL", "null")
"""Texts that stand for no value, unless a schema declares one of them as a category or class."""


def positions(values: pa.Array, known: pa.Array) -> np.ndarray:
    """Find where each value stands among ``known``: int64, -1 for a value that is missing or not there."""
    if values.type != known.type:
        values, known = values.cast(pa.large_string()), known.cast(pa.large_string())
    codes: np.ndarray = pc.index_in(values, value_set=known).fill_null(-1).to_numpy(zero_copy_only=False)
    return codes.astype(np.int64)


def plain(kind: pa.DataType) -> pa.DataType:
    """Return the type of the values, also of a dictionary."""
    return kind.value_type if pt.is_dictionary(kind) else kind


def sortable(kind: pa.DataType) -> pa.DataType:
    """Return the type that values are sorted as."""
    return pa.large_string() if is_text(kind) else kind


def is_text(kind: pa.DataType) -> bool:
    """Say whether a type is text."""
    return bool(pt.is_string(kind) or pt.is_large_string(kind) or pt.is_string_view(kind))


def is_number(kind: pa.DataType) -> bool:
    """Say whether a type is a number."""
    kind = plain(kind)
    return bool(pt.is_integer(kind) or pt.is_floating(kind) or pt.is_decimal(kind))


def flat(column: pa.ChunkedArray) -> pa.Array:
    """Return one array without dictionary; NaN stays NaN."""
    if pt.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    array = column.combine_chunks()
    return array if isinstance(array, pa.Array) else pa.concat_arrays(array.chunks)


def text(column: pa.ChunkedArray) -> pa.Array:
    """Return one array of texts."""
    return flat(column).cast(pa.large_string())


def without_marks(values: Any) -> Any:
    """Return texts, or a column of them, with nothing where one of :data:`MISSING` stands; other types as they are.

    >>> without_marks(pa.array(["north", "NA"])).to_pylist()
    ['north', None]
    """
    if not is_text(values.type):
        return values
    marks = pc.is_in(values, value_set=pa.array(MISSING, values.type))
    return pc.if_else(marks, pa.scalar(None, values.type), values)


def whole(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Return floats that hold whole numbers (a spreadsheet's way to leave gaps) as integers, NaN as missing."""
    if pt.is_decimal(column.type):
        return column.cast(pa.int64())
    if not pt.is_floating(column.type):
        return column
    return pc.if_else(pc.is_nan(column), pa.scalar(None, column.type), column).cast(pa.int64())


def categorical(name: str, column: pa.ChunkedArray) -> pa.Array:
    """Return the texts of a column of categories."""
    kind = plain(column.type)
    if not (is_text(kind) or is_number(kind) or pt.is_boolean(kind) or pt.is_null(kind)):
        raise DataError(
            f"Expected column {name!r} to hold numbers, text or booleans, got {kind}. "
            "Convert it, or leave it out with features=[...]."
        )
    try:
        return text(whole(column))
    except pa.ArrowInvalid:
        raise DataError(
            f"Expected column {name!r} to hold categories, got numbers with fractions. Declare min and max instead."
        ) from None


def unlisted(values: pa.Array, codes: np.ndarray) -> int:
    """Count the values that are there, but not among those that ``codes`` number."""
    return int(np.count_nonzero(codes < 0)) - values.null_count


def counted(outside: Mapping[str, int]) -> dict[str, int]:
    """Return the counts that are above 0."""
    return {name: count for name, count in outside.items() if count}
