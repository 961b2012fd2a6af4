"""Arrow columns as encoders see them: of plain types, as one array, and where values stand among known ones.

Arrow, and each tool that writes it, has types that others store as something else: a period as the number of months since 1970,
a boolean as a byte, a UUID as 16 bytes. Whoever reads the storage reads another table. So a type is read by its name: UUIDs are
text, booleans of a byte are booleans, and what no rule here knows keeps its name, by which encoders refuse it.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

_NAME = b"ARROW:extension:name"
_UUID, _BOOL8, _JSON = "arrow.uuid", "arrow.bool8", "arrow.json"


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
    """Return a type in words, for errors."""
    return str(kind.type_name if isinstance(kind, pa.OpaqueType) else kind)


def unlisted(values: pa.Array, codes: np.ndarray) -> int:
    """Count the values that are there, but not among those that ``codes`` number."""
    return int(np.count_nonzero(codes < 0)) - values.null_count


def counted(outside: Mapping[str, int]) -> dict[str, int]:
    return {name: count for name, count in outside.items() if count}


def plain_table(table: pa.Table) -> pa.Table:
    """Return a table as readers take it: names of columns without white space at their ends, and columns of plain types."""
    columns = [plain_column(column, field) for column, field in zip(table.columns, table.schema, strict=True)]
    names = [name.strip() for name in table.column_names]
    if names == table.column_names and all(one is other for one, other in zip(columns, table.columns, strict=True)):
        return table
    return pa.table(columns, names=names)


def is_foreign(field: pa.Field) -> bool:
    """Say whether the type of a column is one that Parquet stores as another: DuckDB reads the storage alone."""
    return bool(pt.is_duration(field.type)) or _extension(field) is not None


def plain_column(column: pa.ChunkedArray, field: pa.Field) -> pa.ChunkedArray:
    if not is_foreign(field):
        return column
    name = _extension(field) or str(field.type)
    stored = column
    if isinstance(column.type, pa.BaseExtensionType):
        stored = pa.chunked_array([chunk.storage for chunk in column.chunks], column.type.storage_type)
    if name == _BOOL8 and pt.is_integer(stored.type):
        return stored.cast(pa.bool_())
    if name == _JSON or (name == _UUID and not pt.is_fixed_size_binary(stored.type)):
        return stored
    if name == _UUID:
        return uuids(stored)
    kind = pa.opaque(stored.type, name, "")
    return pa.chunked_array([pa.ExtensionArray.from_storage(kind, chunk) for chunk in stored.chunks], kind)


def _extension(field: pa.Field) -> str | None:
    """The name of an extension of Arrow's types, also of one that this process does not know."""
    if isinstance(field.type, pa.OpaqueType):
        return str(field.type.type_name)
    if isinstance(field.type, pa.BaseExtensionType):
        return str(field.type.extension_name)
    return (field.metadata or {}).get(_NAME, b"").decode(errors="replace") or None


def uuids(stored: pa.ChunkedArray) -> pa.ChunkedArray | None:
    """Return UUIDs as text, the way that they are printed; None for a column that does not hold 16 bytes in every cell."""
    if not is_bytes(stored.type):
        return None
    try:
        sized = stored.cast(pa.binary(16))
    except pa.ArrowInvalid:
        return None
    return pa.chunked_array([_uuids(chunk) for chunk in sized.chunks], pa.large_string())


def _uuids(stored: pa.Array) -> pa.Array:
    """The 16 bytes of each UUID as text, the way that it is printed."""
    there = stored.is_valid().to_numpy(zero_copy_only=False)
    digits = pa.concat_arrays([stored]).fill_null(bytes(16)).buffers()[1].to_pybytes().hex()
    texts = np.array([digits[at : at + 32] for at in range(0, 32 * len(stored), 32)], dtype=object)
    parts = [f"{one[:8]}-{one[8:12]}-{one[12:16]}-{one[16:20]}-{one[20:]}" for one in texts]
    return pa.array(parts, pa.large_string(), mask=~there)
