"""Columns of an Arrow table become arrays: node ids, class numbers, roles, texts.

Features and labels are protected under some units: no error here holds a value, and none of Arrow's, which do, leaves.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from sfumato.errors import DataError, SchemaError
from sfumato.graph._arrow import (
    categorical,
    counted,
    flat,
    is_number,
    is_text,
    plain,
    positions,
    sortable,
    text,
    unlisted,
    whole,
    without_marks,
)
from sfumato.graph.checks import ROLES
from sfumato.graph.schema import Schema, contradiction
from sfumato.graph.targets import MULTILABEL, Targets
from sfumato.graph.weights import check_values

_ROLE_NAMES = {name: code for code, name in enumerate(ROLES)} | {"valid": 1, "validation": 1}
_ROLE_NAMES |= {str(code): code for code in range(4)}


@dataclass(frozen=True)
class Labels:
    """Encoded labels are class numbers int64 [num_nodes], -1 for missing, with class names.

    ``outside`` counts values beyond the schema, as in :class:`Features`.

    ``y`` holds the class numbers, ``classes`` their names.
    """

    y: np.ndarray
    classes: tuple[str, ...]
    outside: dict[str, int]


def encode_ids(column: pa.ChunkedArray, where: str) -> pa.Array:
    """Encode ids as int64 when every one is a plain integer, else as text; ``where`` names the column in errors.

    Raises:
        DataError: the column holds neither integers nor text.
    """
    kind = plain(column.type)
    if is_number(kind):
        try:
            return flat(whole(column).cast(pa.int64()))
        except pa.ArrowInvalid:
            raise DataError(
                f"Expected {where} to hold whole 64-bit numbers or text. Write ids as text, or put their columns first."
            ) from None
    if not (is_text(kind) or pt.is_null(kind)):
        raise DataError(f"Expected {where} to hold integers or text, got {kind}. Choose another id column.")
    texts = pc.utf8_trim_whitespace(text(column))
    try:
        numbers = texts.cast(pa.int64())
    except pa.ArrowInvalid:
        return texts
    return numbers if numbers.cast(pa.large_string()).equals(texts) else texts


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
    kind = plain(column.type)
    if pt.is_nested(kind):
        raise DataError(
            f"Expected label column {name!r} to hold one class a node, got {kind}. "
            "For several labels of a node write a column of 0 and 1 for each, and name them all."
        )
    if pt.is_floating(kind) or pt.is_decimal(kind):
        column = _whole_labels(name, column, ids)
    elif not (is_text(kind) or pt.is_integer(kind) or pt.is_boolean(kind) or pt.is_null(kind)):
        raise DataError(f"Expected label column {name!r} to hold text or integers, got {kind}. Write classes as text.")
    column = column if schema.classes else without_marks(column)
    values = text(column)
    if values.null_count == len(values):
        raise DataError(f"Expected label column {name!r} to hold labels, but all are missing. Choose another column.")
    classes = schema.classes
    if classes is None:
        seen = pc.unique(column.drop_null()).cast(sortable(plain(column.type))).to_pylist()
        classes = tuple(str(value).lower() if isinstance(value, bool) else str(value) for value in sorted(seen))
    codes = positions(values, pa.array(classes, pa.large_string()))
    if codes.max() < 0:
        raise SchemaError(
            f"Expected label column {name!r} to hold some of the classes {', '.join(classes)}, got none of them. Correct the "
            "names of the classes, or choose another column."
        )
    return Labels(codes, classes, counted({name: unlisted(values, codes)}))


def encode_targets(columns: Mapping[str, pa.ChunkedArray], schema: Schema, ids: np.ndarray) -> tuple[Targets, int]:
    """Encode columns of labels (0, 1, false, true or missing), or one of numbers; count the numbers beyond the schema's range.

    Args:
        columns: the columns by name.
        schema: says whether they are labels or a number, and may declare its range.
        ids: the ids of the nodes, for messages.

    Raises:
        DataError: a column holds something else, or all of them are missing everywhere.
    """
    kind, values = schema.target or MULTILABEL, np.empty((len(ids), len(columns)))
    for at, (name, column) in enumerate(columns.items()):
        found = plain(column.type)
        if not (is_number(found) or pt.is_boolean(found) or pt.is_null(found)):
            wanted = "numbers" if schema.target else "0 and 1, or false and true"
            raise DataError(f"Expected column {name!r} to hold {wanted}, got {found}. Name another column.")
        if pt.is_boolean(found):
            column = column.cast(pa.int8())
        values[:, at] = column.cast(pa.float64()).to_numpy()
        wrong = np.isinf(values[:, at]) if schema.target else ~np.isin(np.nan_to_num(values[:, at]), (0, 1))
        if wrong.any():
            raise contradiction(name, ids[np.argmax(wrong)], "finite numbers" if schema.target else "0, 1 or nothing")
    low, high = schema.target_range or (-np.inf, np.inf)
    return Targets(kind, values, tuple(columns), schema.target_range), int(((values < low) | (values > high)).sum())


def encode_roles(name: str, column: pa.ChunkedArray, ids: np.ndarray) -> np.ndarray:
    """Encode roles as uint8 [num_nodes] from train, val, test and none (or 0 to 3); missing is none.

    Args:
        name: the name of the role column.
        column: one role for each node.
        ids: the ids of the nodes, for messages.

    Raises:
        SchemaError: a value is no role.
    """
    values = pc.utf8_lower(categorical(name, column))
    codes = positions(values, pa.array(_ROLE_NAMES, pa.large_string()))
    if unlisted(values, codes):
        wrong = (codes < 0) & values.is_valid().to_numpy(zero_copy_only=False)
        raise contradiction(name, ids[np.argmax(wrong)], "a role: train, val, test or none")
    roles: np.ndarray = np.append(np.array(list(_ROLE_NAMES.values())), 3)[codes].astype(np.uint8)
    return roles


def encode_texts(name: str, column: pa.ChunkedArray) -> list[str]:
    """Encode a column of texts as strings, empty where missing; ``name`` is the name of the column.

    Raises:
        DataError: the column holds something else than text.
    """
    kind = plain(column.type)
    if not (is_text(kind) or pt.is_null(kind)):
        raise DataError(f"Expected column {name!r} to hold texts, got {kind}. Name another column.")
    texts: list[str] = text(column).fill_null("").to_pylist()
    return texts


def encode_weights(name: str, column: pa.ChunkedArray, place: str, first_row: int) -> np.ndarray:
    """Encode a column of weights of edges as float64 [num_rows], and refuse a row without one.

    Args:
        name: the name of the column.
        column: one number >= 0 for each edge.
        place: names the edge table in errors.
        first_row: the number of row 0 in errors.

    Raises:
        DataError: the column holds something else than numbers, or a weight is missing, negative or infinite.
    """
    kind = plain(column.type)
    if not is_number(kind):
        raise DataError(f"Expected column {name!r} of {place} to hold numbers, got {kind}. Name another column.")
    return check_values(column.cast(pa.float64()).to_numpy(), name, place, first_row)


def _whole_labels(name: str, column: pa.ChunkedArray, ids: np.ndarray) -> pa.ChunkedArray:
    numbers = column.cast(pa.float64())
    try:
        return whole(numbers)
    except pa.ArrowInvalid:
        values = numbers.to_numpy()
        row = int(np.argmax((values != np.floor(values)) & ~np.isnan(values)))
        raise DataError(
            f"Expected label column {name!r} to hold classes, but node {ids[row].item()!r} has a number with a fraction. "
            'To learn a number declare target = "number" in the schema; else bin it into classes.'
        ) from None
