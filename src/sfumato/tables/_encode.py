"""Columns of an Arrow table become arrays: node ids, class numbers, roles, texts.

Features and labels are protected under some units: no error here holds a value, and none of Arrow's, which do, leaves.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from sfumato.errors import DataError, SchemaError
from sfumato.graph._bounds import bounds_in
from sfumato.graph._checks import ROLES
from sfumato.graph._declared import CLASSES
from sfumato.graph._schema import Schema, contradiction
from sfumato.graph._targets import MULTILABEL, Targets
from sfumato.graph._types import check_codes
from sfumato.graph._unique import facts_of_classes
from sfumato.graph._weights import check_values
from sfumato.tables._arrow import counted, is_number, is_text, plain, spelled, unlisted, uuids
from sfumato.tables._cells import (
    CATEGORY,
    MISSING,
    NUMBER,
    TRUTH,
    booleans,
    cells,
    coded,
    integers,
    kind_of,
    no_number,
    numbers,
    settled,
    stray,
    without_point,
    words,
)
from sfumato.tables._strange import check_categories
from sfumato.tables._whole import without_fraction

_ROLE_NAMES = {name: code for code, name in enumerate(ROLES)} | {"valid": 1, "validation": 1}
_ROLE_NAMES |= {str(code): code for code in range(4)}
_TRUE, _FALSE = ("true", "yes", "t", "y"), ("false", "no", "f", "n")


@dataclass(frozen=True)
class Labels:
    """Class numbers int64 [num_nodes], -1 for missing, with class names; ``outside`` counts values beyond the schema.

    ``assumed`` names what was read off the data, ``undeclared`` what of it nobody declared or marked.
    """

    y: np.ndarray
    classes: tuple[str, ...]
    outside: dict[str, int]
    assumed: tuple[str, ...] = ()
    undeclared: tuple[str, ...] = ()


def encode_ids(column: pa.ChunkedArray, where: str, *, floats: bool = False) -> pa.Array:
    """Encode ids as int64 when every one is a plain integer of 64 bits, else as text; 16 bytes in every cell are UUIDs."""
    column = pa.chunked_array(column) if isinstance(column, pa.Array) else column
    printed = uuids(column)  # some tools, such as Polars, forget what 16 bytes are
    column = column if printed is None else printed
    kind = plain(column.type)
    if is_number(kind):
        whole = integers(column)
        if whole is None and (large := without_point(column)) is not None:
            return large
        if whole is None:
            raise DataError(
                f"Expected {where} to hold integers or text. Write ids as text, or put their columns first. Floats "
                "from 2^53 on are not read as ids, since two integers may have become one of them."
            )
        return whole
    if not (is_text(kind) or pt.is_null(kind)):
        raise DataError(f"Expected {where} to hold integers or text, got {spelled(kind)}. Choose another id column.")
    texts = settled(column).cast(pa.large_string())
    found = _plain_integers(texts)
    if found is None:
        texts = cells(texts)
        found = _plain_integers(texts)
        if found is None and floats and texts.null_count < len(texts) and booleans(texts):
            raise DataError(f"Expected {where} to hold integers or text, got booleans. Choose another id column.")
        if found is None and floats:
            found = _plain_integers(without_fraction(texts))
    return texts if found is None else found


def _plain_integers(texts: pa.Array) -> pa.Array | None:
    """Texts as int64 if every one is written as an integer is printed, so that 007 is not 7."""
    try:
        whole = texts.cast(pa.int64())
    except pa.ArrowInvalid:
        return None
    return whole if whole.cast(pa.large_string()).equals(texts) else None


def encode_labels(name: str, column: pa.ChunkedArray, schema: Schema, ids: np.ndarray) -> Labels:
    """Encode the labels by declared classes, or by those seen, sorted; a label of no declared class counts as missing."""
    kind = plain(column.type)
    if pt.is_nested(kind):
        raise DataError(
            f"Expected label column {name!r} to hold one class a node, got {spelled(kind)}. "
            "For several labels of a node write a column of 0 and 1 for each, and name them all."
        )
    if not (is_text(kind) or is_number(kind) or pt.is_boolean(kind) or pt.is_null(kind)):
        raise DataError(
            f"Expected label column {name!r} to hold text or integers, got {spelled(kind)}. Write classes as text."
        )
    if schema.classes is None:
        kind_there = kind_of(column)
        values = _whole_labels(name, column, ids) if kind_there == NUMBER else words(name, column)
        values = pc.utf8_lower(values) if kind_there == TRUTH else values
        if kind_there == CATEGORY:
            check_categories(name, pc.unique(values.drop_null()).to_pylist(), label=True)
            _check_one_kind(name, values, ids)
    else:
        values = words(name, column, schema.classes)
    if values.null_count == len(values):
        raise DataError(f"Expected label column {name!r} to hold labels, but all are missing. Choose another column.")
    classes = schema.classes
    if classes is None:
        seen = pc.unique(values.drop_null()).to_pylist()
        classes = tuple(map(str, sorted(seen)))
    values = values.cast(pa.large_string())
    codes = coded(values, classes)
    if codes.max() < 0:
        raise SchemaError(
            f"Expected label column {name!r} to hold some of the classes {', '.join(classes)}, got none of them. Correct the "
            "names of the classes, or choose another column."
        )
    assumed: tuple[str, ...] = ("classes",) if schema.assumes_classes else ()
    if schema.classes is None:
        assumed = facts_of_classes(classes, np.bincount(codes[codes >= 0]).tolist())
    undeclared = () if schema.classes else (CLASSES,)
    return Labels(codes, classes, counted({name: unlisted(values, codes)}), assumed, undeclared)


def encode_targets(columns: Mapping[str, pa.ChunkedArray], schema: Schema, ids: np.ndarray) -> tuple[Targets, int]:
    """Encode columns of labels (0, 1, false, true or missing), or one of numbers; count the numbers beyond the schema's range."""
    kind, values = schema.target or MULTILABEL, np.empty((len(ids), len(columns)))
    for at, (name, column) in enumerate(columns.items()):
        found = settled(column) if schema.target else _zero_one(settled(column))
        if not (is_number(found.type) or is_text(found.type) or pt.is_null(found.type)):
            wanted = "numbers" if schema.target else "0 and 1, or false and true"
            raise DataError(
                f"Expected column {name!r} to hold {wanted}, got {spelled(found.type)}. Name another column."
            )
        wanted, read = "finite numbers" if schema.target else "0, 1 or nothing", numbers(found)
        if read is None:
            raise contradiction(name, ids[no_number(found)], wanted)
        wrong = np.isinf(read) if schema.target else ~np.isin(np.nan_to_num(read), (0, 1))
        if wrong.any():
            raise contradiction(name, ids[np.argmax(wrong)], wanted)
        values[:, at] = read
    low, high = schema.target_range or (-np.inf, np.inf)
    return Targets(kind, values, tuple(columns), schema.target_range), int(((values < low) | (values > high)).sum())


def encode_roles(name: str, column: pa.ChunkedArray, ids: np.ndarray) -> np.ndarray:
    """Encode roles as uint8 [num_nodes] from train, val, test and none (or 0 to 3); missing is none."""
    values = pc.utf8_lower(words(name, column))
    codes = coded(values, tuple(_ROLE_NAMES))
    if unlisted(values, codes):
        wrong = (codes < 0) & values.is_valid().to_numpy(zero_copy_only=False)
        raise contradiction(name, ids[np.argmax(wrong)], "a role: train, val, test or none")
    roles: np.ndarray = np.append(np.array(list(_ROLE_NAMES.values())), 3)[codes].astype(np.uint8)
    return roles


def encode_texts(name: str, column: pa.ChunkedArray) -> list[str]:
    kind = plain(column.type)
    if not (is_text(kind) or pt.is_null(kind)):
        raise DataError(f"Expected column {name!r} to hold texts, got {spelled(kind)}. Name another column.")
    texts: list[str] = settled(column).cast(pa.large_string()).fill_null("").to_pylist()
    return texts


def encode_weights(name: str, column: pa.ChunkedArray, place: str, number: Callable[[int], int]) -> np.ndarray:
    kind = plain(column.type)
    if not (is_number(kind) or is_text(kind) or pt.is_null(kind)):
        raise DataError(
            f"Expected column {name!r} of {place} to hold numbers, got {spelled(kind)}. Name another column."
        )
    found = numbers(column)
    if found is None:
        raise DataError(
            f"Expected column {name!r} of {place} to hold numbers, but row {number(no_number(column))} has something else. "
            "Correct the row, or name another column."
        )
    return check_values(found, name, place, number)


def encode_types(
    name: str,
    column: pa.ChunkedArray,
    types: tuple[str, ...],
    place: str,
    number: Callable[[int], int],
    told: Callable[[pa.ChunkedArray, str], np.ndarray] | None = None,
) -> np.ndarray:
    """Return the number of the type of each row; ``told`` gives the words of all rows where these are no cells of the column."""
    where = f"{place}, column {name!r},"
    found = coded(words(name, column, types), types) if told is None else told(column, where)
    return check_codes(found, types, where, number)


def encode_bounds(name: str, column: pa.ChunkedArray, ids: np.ndarray) -> np.ndarray:
    found = numbers(column)
    return bounds_in(name, np.full(len(ids), np.nan) if found is None else found, ids)


def _zero_one(column: pa.Array) -> pa.Array:
    """Booleans, and the usual words for them, as 0 and 1; what else there is stays."""
    if pt.is_boolean(column.type):
        return column.cast(pa.int8())
    if not is_text(column.type):
        return column
    values = cells(column)
    lower = pc.utf8_lower(values)
    for word, places in (("1", _TRUE), ("0", _FALSE)):
        values = pc.if_else(
            pc.is_in(lower, value_set=pa.array(places, values.type)), pa.scalar(word, values.type), values
        )
    return values


def _check_one_kind(name: str, values: pa.Array, ids: np.ndarray) -> None:
    """Refuse classes of which some are numbers and some are words: one kind of the two is a slip, as a rule."""
    seen = pc.unique(values.drop_null()).to_pylist()
    texts = {*stray(seen)}
    numbers = [one for one in seen if one not in texts and any(map(str.isdigit, one))]
    if not numbers or not texts:
        return
    few, what = (numbers[0], "a number beside words") if len(numbers) < len(texts) else (
        next(one for one in seen if one in texts), "a word beside numbers",
    )  # fmt: skip
    row = pc.index(values, few).as_py()
    raise DataError(
        f"Expected label column {name!r} to hold classes that are all numbers or all words, but node {ids[row].item()!r} has "
        f"{what}. A missing label is empty, or one of {', '.join(MISSING)}. If these are classes, declare them in the schema."
    )


def _whole_labels(name: str, column: pa.ChunkedArray | pa.Array, ids: np.ndarray) -> pa.Array:
    """Labels that read as numbers, as integers; the first that is none is named, and why."""
    whole = integers(column)
    if whole is not None:
        return whole
    read = numbers(column)
    assert read is not None
    for wrong, what in (
        (np.isinf(read), "an infinite number"),
        (read != np.floor(read), "a number with a fraction"),
        (np.abs(read) >= 2.0**53, "a number that is too large to be a class"),
    ):
        wrong &= ~np.isnan(read)
        if wrong.any():
            raise DataError(
                f"Expected label column {name!r} to hold classes, but node {ids[int(np.argmax(wrong))].item()!r} has {what}. "
                'To learn a number declare target = "number" in the schema; else bin it into classes.'
            )
    raise DataError(
        f"Expected label column {name!r} to hold classes, got numbers written in another way. Write 1, 2, 3."
    )
