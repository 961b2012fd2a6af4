"""Arrow columns as encoders see them: their kinds, their values as one array, and where values stand among known ones."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt


def positions(values: pa.Array, known: pa.Array) -> np.ndarray:
    """Find where each value stands among ``known``: int64, -1 for a value that is missing or not there."""
    if values.type != known.type:
        values, known = values.cast(pa.large_string()), known.cast(pa.large_string())
    codes: np.ndarray = pc.index_in(values, value_set=known).fill_null(-1).to_numpy(zero_copy_only=False)
    return codes.astype(np.int64)


def plain(kind: pa.DataType) -> pa.DataType:
    """Return the type of the values, also of a dictionary, or of runs."""
    return plain(kind.value_type) if pt.is_dictionary(kind) or pt.is_run_end_encoded(kind) else kind


def is_text(kind: pa.DataType) -> bool:
    return bool(pt.is_string(kind) or pt.is_large_string(kind) or pt.is_string_view(kind))


def is_bytes(kind: pa.DataType) -> bool:
    return bool(
        pt.is_binary(kind) or pt.is_large_binary(kind) or pt.is_binary_view(kind) or pt.is_fixed_size_binary(kind)
    )


def is_number(kind: pa.DataType) -> bool:
    kind = plain(kind)
    return bool(pt.is_integer(kind) or pt.is_floating(kind) or pt.is_decimal(kind))


def spelled(kind: pa.DataType) -> str:
    """Return a type in words, for errors.

    >>> spelled(pa.list_(pa.int8())), spelled(pa.opaque(pa.int64(), "pandas.period", ""))
    ('list<item: int8>', 'pandas.period')
    """
    return str(kind.type_name if isinstance(kind, pa.OpaqueType) else kind)


def unlisted(values: pa.Array, codes: np.ndarray) -> int:
    """Count the values that are there, but not among those that ``codes`` number."""
    return int(np.count_nonzero(codes < 0)) - values.null_count


def counted(outside: Mapping[str, int]) -> dict[str, int]:
    return {name: count for name, count in outside.items() if count}
