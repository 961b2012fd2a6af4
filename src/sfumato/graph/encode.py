"""Columns of an Arrow table become arrays: node ids, one-hot and numeric features, class numbers, roles.

Features and labels are protected under some units: no error here holds a value, and none of Arrow's, which do, leaves.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt
import scipy.sparse as sp

from sfumato.errors import DataError, SchemaError
from sfumato.graph.checks import ROLES
from sfumato.graph.schema import CATEGORIES, Column, Schema, contradiction

SPARSE_COLUMNS = 64
SPARSE_DENSITY = 0.25
_ROLE_NAMES = {name: code for code, name in enumerate(ROLES)} | {"valid": 1, "validation": 1}
_ROLE_NAMES |= {str(code): code for code in range(4)}


@dataclass(frozen=True)
class Features:
    """Encoded features are ``x`` float32 [num_nodes, num_features], the names of its columns, and what was read off the data.

    ``outside`` counts, by column, the values beyond the schema: clipped numbers, and categories that it does not list.

    ``assumed`` names what was read off the data.
    """

    x: np.ndarray | sp.csr_matrix | None
    names: tuple[str, ...]
    assumed: tuple[str, ...]
    outside: dict[str, int]


@dataclass(frozen=True)
class Labels:
    """Encoded labels are class numbers int64 [num_nodes], -1 for missing, with class names.

    ``outside`` counts values beyond the schema, as in :class:`Features`.

    ``y`` holds the class numbers, ``classes`` their names.
    """

    y: np.ndarray
    classes: tuple[str, ...]
    outside: dict[str, int]


@dataclass(frozen=True)
class _Block:
    """The columns that one table column becomes: numbers float32, or codes int64 with -1 for an all-zero row."""

    names: tuple[str, ...]
    values: np.ndarray
    number: bool

    def entries(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Rows, columns within the block, and values of the entries that differ from zero."""
        rows = np.flatnonzero(self.values if self.number else self.values >= 0)
        if self.number:
            return rows, np.zeros(len(rows), dtype=np.int64), self.values[rows]
        return rows, self.values[rows], np.ones(len(rows), dtype=np.float32)


def encode_ids(column: pa.ChunkedArray, where: str) -> pa.Array:
    """Encode ids as int64 when every one is a plain integer, else as text; ``where`` names the column in errors.

    Raises:
        DataError: the column holds neither integers nor text.
    """
    kind = _plain(column.type)
    if _is_number(kind):
        try:
            return _flat(_whole(column).cast(pa.int64()))
        except pa.ArrowInvalid:
            raise DataError(f"Expected {where} to hold whole 64-bit numbers or text. Write the ids as text.") from None
    if not (_is_text(kind) or pt.is_null(kind)):
        raise DataError(f"Expected {where} to hold integers or text, got {kind}. Choose another id column.")
    text = pc.utf8_trim_whitespace(_text(column))
    try:
        whole = text.cast(pa.int64())
    except pa.ArrowInvalid:
        return text
    return whole if whole.cast(pa.large_string()).equals(text) else text


def positions(values: pa.Array, known: pa.Array) -> np.ndarray:
    """Find where each value stands among ``known``: int64, -1 for a value that is missing or not there."""
    if values.type != known.type:
        values, known = values.cast(pa.large_string()), known.cast(pa.large_string())
    codes: np.ndarray = pc.index_in(values, value_set=known).fill_null(-1).to_numpy(zero_copy_only=False)
    return codes.astype(np.int64)


def encode_features(columns: dict[str, pa.ChunkedArray], schema: Schema, ids: np.ndarray) -> Features:
    """Encode text and boolean columns as one-hot columns, and numbers clipped to a declared range.

    A one-hot row is all zero where the value is missing or not declared; a missing number becomes ``Column.default``.

    Args:
        columns: columns of the node table, by name.
        schema: declares categories and ranges.
        ids: the ids of the nodes, for messages.

    Raises:
        DataError: a column holds other values than numbers, text or booleans.
        SchemaError: a value is of another kind than declared.

    The result is CSR when it has more than 64 columns and fewer than a quarter of its entries differ from zero.
    """
    blocks: list[_Block] = []
    assumed: list[str] = []
    outside: dict[str, int] = {}
    for name, column in columns.items():
        declared = schema.columns.get(name)
        if (declared and declared.categories is None) or (not declared and _is_number(column.type)):
            numbers = _numbers(name, column, declared, ids)
            clipped = declared.clip(numbers) if declared else numbers
            outside[name] = int(np.count_nonzero(clipped != numbers))
            blocks.append(_Block((name,), _single(name, _scaled(clipped, declared), ids), number=True))
            continue
        values = _categorical(name, column)
        categories = declared.categories if declared else None
        if categories is None:
            categories, read_off = _seen(name, column, values, ids)
            assumed += [CATEGORIES + name] * read_off
        codes = positions(values, pa.array(categories, pa.large_string()))
        outside[name] = _unlisted(values, codes)
        blocks.append(_Block(tuple(f"{name}={category}" for category in categories), codes, number=False))
    names = tuple(name for block in blocks for name in block.names)
    return Features(_assemble(blocks, len(names), len(ids)), names, tuple(assumed), _counted(outside))


def encode_labels(name: str, column: pa.ChunkedArray, schema: Schema, ids: np.ndarray) -> Labels:
    """Encode the labels by declared classes, or by those seen, sorted; a label of no declared class counts as missing.

    Args:
        name: the name of the label column.
        column: one class for each node.
        schema: may declare the classes.
        ids: the ids of the nodes, for messages.

    Raises:
        DataError: the column holds no classes, or all are missing.
        SchemaError: no label is of a declared class.
    """
    kind = _plain(column.type)
    if pt.is_nested(kind):
        raise DataError(
            f"Expected label column {name!r} to hold one class a node, got {kind}. "
            "Multi-label targets are not supported: choose one column."
        )
    if pt.is_floating(kind) or pt.is_decimal(kind):
        column = _whole_labels(name, column, ids)
    elif not (_is_text(kind) or pt.is_integer(kind) or pt.is_boolean(kind) or pt.is_null(kind)):
        raise DataError(f"Expected label column {name!r} to hold text or integers, got {kind}. Write classes as text.")
    values = _text(column)
    if values.null_count == len(values):
        raise DataError(f"Expected label column {name!r} to hold labels, but all are missing. Choose another column.")
    classes = schema.classes
    if classes is None:
        seen = pc.unique(column.drop_null()).cast(_sortable(_plain(column.type))).to_pylist()
        classes = tuple(str(value).lower() if isinstance(value, bool) else str(value) for value in sorted(seen))
    codes = positions(values, pa.array(classes, pa.large_string()))
    if codes.max() < 0:
        raise SchemaError(
            f"Expected label column {name!r} to hold some of the classes {', '.join(classes)}, got none of them. Correct the "
            "names of the classes, or choose another column."
        )
    return Labels(codes, classes, _counted({name: _unlisted(values, codes)}))


def encode_roles(name: str, column: pa.ChunkedArray, ids: np.ndarray) -> np.ndarray:
    """Encode roles as uint8 [num_nodes] from train, val, test and none (or 0 to 3); missing is none.

    Args:
        name: the name of the role column.
        column: one role for each node.
        ids: the ids of the nodes, for messages.

    Raises:
        SchemaError: a value is no role.
    """
    values = pc.utf8_lower(_categorical(name, column))
    codes = positions(values, pa.array(_ROLE_NAMES, pa.large_string()))
    if _unlisted(values, codes):
        wrong = (codes < 0) & values.is_valid().to_numpy(zero_copy_only=False)
        raise contradiction(name, ids[np.argmax(wrong)], "a role: train, val, test or none")
    roles: np.ndarray = np.append(np.array(list(_ROLE_NAMES.values())), 3)[codes].astype(np.uint8)
    return roles


def encode_texts(name: str, column: pa.ChunkedArray) -> list[str]:
    """Encode a column of texts as strings, empty where missing; ``name`` is the name of the column.

    Raises:
        DataError: the column holds something else than text.
    """
    kind = _plain(column.type)
    if not (_is_text(kind) or pt.is_null(kind)):
        raise DataError(f"Expected column {name!r} to hold texts, got {kind}. Name another column.")
    texts: list[str] = _text(column).fill_null("").to_pylist()
    return texts


def _plain(kind: pa.DataType) -> pa.DataType:
    return kind.value_type if pt.is_dictionary(kind) else kind


def _sortable(kind: pa.DataType) -> pa.DataType:
    return pa.large_string() if _is_text(kind) else kind


def _is_text(kind: pa.DataType) -> bool:
    return bool(pt.is_string(kind) or pt.is_large_string(kind) or pt.is_string_view(kind))


def _is_number(kind: pa.DataType) -> bool:
    kind = _plain(kind)
    return bool(pt.is_integer(kind) or pt.is_floating(kind) or pt.is_decimal(kind))


def _flat(column: pa.ChunkedArray) -> pa.Array:
    """One array without dictionary; NaN stays NaN."""
    if pt.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    array = column.combine_chunks()
    return array if isinstance(array, pa.Array) else pa.concat_arrays(array.chunks)


def _text(column: pa.ChunkedArray) -> pa.Array:
    return _flat(column).cast(pa.large_string())


def _whole(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Floats that hold whole numbers (a spreadsheet's way to leave gaps) as integers, NaN as missing."""
    if pt.is_decimal(column.type):
        return column.cast(pa.int64())
    if not pt.is_floating(column.type):
        return column
    return pc.if_else(pc.is_nan(column), pa.scalar(None, column.type), column).cast(pa.int64())


def _whole_labels(name: str, column: pa.ChunkedArray, ids: np.ndarray) -> pa.ChunkedArray:
    numbers = column.cast(pa.float64())
    try:
        return _whole(numbers)
    except pa.ArrowInvalid:
        values = numbers.to_numpy()
        row = int(np.argmax((values != np.floor(values)) & ~np.isnan(values)))
        raise DataError(
            f"Expected label column {name!r} to hold classes, but node {ids[row].item()!r} has a number with a fraction. "
            "Regression targets are not supported: bin them into classes."
        ) from None


def _categorical(name: str, column: pa.ChunkedArray) -> pa.Array:
    kind = _plain(column.type)
    if not (_is_text(kind) or _is_number(kind) or pt.is_boolean(kind) or pt.is_null(kind)):
        raise DataError(
            f"Expected column {name!r} to hold numbers, text or booleans, got {kind}. "
            "Convert it, or leave it out with features=[...]."
        )
    try:
        return _text(_whole(column))
    except pa.ArrowInvalid:
        raise DataError(
            f"Expected column {name!r} to hold categories, got numbers with fractions. Declare min and max instead."
        ) from None


def _unlisted(values: pa.Array, codes: np.ndarray) -> int:
    """How many values are there, but not among those that ``codes`` number."""
    return int(np.count_nonzero(codes < 0)) - values.null_count


def _counted(outside: dict[str, int]) -> dict[str, int]:
    return {name: count for name, count in outside.items() if count}


def _seen(name: str, column: pa.ChunkedArray, values: pa.Array, ids: np.ndarray) -> tuple[tuple[str, ...], bool]:
    """The categories of a column that no schema declares, and whether there are any that were read off the data."""
    if pt.is_boolean(column.type):
        return ("false", "true"), False
    seen = tuple(sorted(pc.unique(values.drop_null()).to_pylist()))
    stray = [value for value in seen if not _reads_as_number(value)]
    if stray and 2 * len(stray) < len(seen):
        row = pc.index(values, stray[0]).as_py()
        raise DataError(
            f"Expected column {name!r} to hold numbers or categories, got numbers beside text at node {ids[row].item()!r}. "
            "Correct that row, or declare the column's categories in the schema."
        )
    return seen, bool(seen)


def _numbers(name: str, column: pa.ChunkedArray, declared: Column | None, ids: np.ndarray) -> np.ndarray:
    """A number in every row, float64: the public default where none is; infinite ones stay."""
    flat = _flat(column)
    flat = pc.utf8_trim_whitespace(flat) if _is_text(flat.type) else flat
    try:
        numbers = flat.cast(pa.float64())
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        row = next((i for i in range(len(flat)) if not _is_float(flat[i])), 0)
        raise contradiction(name, ids[row], (declared or Column()).describe()) from None
    values: np.ndarray = numbers.to_numpy(zero_copy_only=False)
    return np.where(np.isnan(values), (declared or Column()).default, values)


def _single(name: str, values: np.ndarray, ids: np.ndarray) -> np.ndarray:
    with np.errstate(over="ignore"):
        single: np.ndarray = values.astype(np.float32)
    if not np.isfinite(single).all():
        row = int(np.argmin(np.isfinite(single)))
        raise DataError(
            f"Expected column {name!r} to be finite in float32, but the number of node {ids[row].item()!r} is not. "
            "Correct it there, or declare min and max, if they are known without this data: it is then clipped."
        )
    return single


def _is_float(value: pa.Scalar) -> bool:
    try:
        value.cast(pa.float64())
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        return False
    return True


def _scaled(values: np.ndarray, declared: Column | None) -> np.ndarray:
    """From a declared range to [0, 1], so that ages do not dwarf one-hot columns."""
    if declared and declared.min is not None and declared.max is not None:
        return (values - declared.min) / ((declared.max - declared.min) or 1.0)
    return values


def _reads_as_number(value: Any) -> bool:
    try:
        return value is None or float(value) is not None
    except (TypeError, ValueError):
        return False


def _assemble(blocks: Sequence[_Block], width: int, num_nodes: int) -> np.ndarray | sp.csr_matrix | None:
    if not width:
        return None
    starts = np.cumsum([0, *(len(block.names) for block in blocks)])
    if width <= SPARSE_COLUMNS or len(blocks) >= SPARSE_DENSITY * width:  # by columns alone: entries are private
        x = np.zeros((num_nodes, width), dtype=np.float32)
        for start, block in zip(starts[:-1], blocks, strict=True):
            rows, columns, values = block.entries()
            x[rows, columns + start] = values
        return x
    parts = [block.entries() for block in blocks]
    rows, values = (np.concatenate([part[i] for part in parts]) for i in (0, 2))
    columns = np.concatenate([part[1] + start for part, start in zip(parts, starts[:-1], strict=True)])
    return sp.csr_matrix((values, (rows, columns)), shape=(num_nodes, width), dtype=np.float32)


def check_num_features(features: Features, schema: Schema) -> None:
    """Refuse a table that encodes to another number of columns than the schema promised.

    Raises:
        SchemaError: the numbers differ.
    """
    if schema.num_features is not None and len(features.names) != schema.num_features:
        raise SchemaError(
            f"Expected num_features={schema.num_features} columns after encoding, got another number. Declare the "
            "categories of every text column, or correct num_features."
        )
