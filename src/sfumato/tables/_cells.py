"""The one rule by which cells become values, whatever the table came from: CSV, Parquet, a frame, a query, a store.

A cell of text is trimmed: white space at its ends does not count, in ids, classes, categories, roles and numbers alike. A cell
that is then empty, or one of :data:`MISSING`, is missing, unless a schema declares that word as a category or class. A column
that no schema declares is *numbers* if every cell that is not missing reads as a number, *boolean* if every one is ``true`` or
``false``, in capitals or not (tools differ in how they write them), and otherwise *categories*: the words of the table, as they
stand. All rows decide, none of them by its place. No error here holds a value.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from sfumato.errors import DataError
from sfumato.graph._unique import leave_out
from sfumato.tables._arrow import is_number, is_text, plain, positions, spelled
from sfumato.tables._whole import EXACT, folded, unpointed

MISSING = (
    "NA", "N/A", "n/a", "#N/A", "<NA>", "NaN", "nan", "NAN", "-nan", "-NaN", "NULL", "null", "unknown", "Unknown", "UNKNOWN",
    "?", ".",
)  # fmt: skip
"""Texts that stand for no value, unless a schema declares one of them as a category or class."""
BOOLEAN = ("false", "true")
NUMBER, CATEGORY, TRUTH, INTEGER, TEXT, NOTHING = "number", "category", "boolean", "integer", "text", ""
"""What a column holds: numbers, categories or classes, booleans, integers, texts; nothing is said of one left out."""

_NO_FRACTION = r"^(-?[0-9]+)\.0*$"
_NUMBER = r"^[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?$|^[+-]?(?i:inf|infinity)$"


@dataclass(frozen=True)
class ReadColumn:
    """What a reader took a column for; of values it says only how many are missing.

    ``use`` is ``id``, ``label``, ``role``, ``feature``, ``text``, ``bound`` (of degrees), ``end``, ``weight``, ``type``,
    ``time``, ``person`` (who owns an edge), ``owner`` (who owns a node) or ``left out``;
    ``count`` is the number of categories or classes, and ``declared`` whether a schema says what the column may hold.
    """

    name: str
    use: str
    kind: str = NOTHING
    count: int | None = None
    missing: int = 0
    declared: bool = False


Told = Callable[[str, Sequence[ReadColumn]], None]
"""Is told the place of a table and its columns, in order."""


def settled(column: pa.ChunkedArray | pa.Array) -> pa.Array:
    """Return a column as one array without dictionaries, runs and views: text becomes ``large_string``."""
    if isinstance(column, pa.ChunkedArray):
        column = column.combine_chunks()
        column = pa.concat_arrays(column.chunks) if isinstance(column, pa.ChunkedArray) else column
    if pt.is_run_end_encoded(column.type):
        column = pc.run_end_decode(column)
    if pt.is_dictionary(column.type):
        values = settled(column.dictionary)
        column = pc.take(values, column.indices)
    return column.cast(pa.large_string()) if is_text(column.type) else column


def cells(column: pa.ChunkedArray | pa.Array, keep: Sequence[str] = ()) -> pa.Array:
    """Return a column with text trimmed, and nothing where a cell is missing; ``keep`` are declared words."""
    values = settled(column)
    if pt.is_floating(values.type):
        return pc.if_else(pc.is_nan(values), pa.scalar(None, values.type), values)
    if not is_text(values.type):
        return values
    values = pc.utf8_trim_whitespace(values)
    marks = pc.is_in(values, value_set=pa.array(["", *(word for word in MISSING if word not in keep)], values.type))
    return pc.if_else(marks, pa.scalar(None, values.type), values) if pc.any(marks).as_py() else values


def numbers(column: pa.ChunkedArray | pa.Array) -> np.ndarray | None:
    """Return a column as the nearest float64, NaN where missing; None if a cell is no number."""
    values = settled(column)
    if pt.is_null(values.type):
        return np.full(len(values), np.nan)
    if not (is_text(values.type) or is_number(values.type)):
        return None
    if pt.is_decimal(values.type):  # Arrow rounds decimals to another float than the nearest
        values = values.cast(pa.large_string())
    try:
        found = values.cast(pa.float64(), safe=False)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        try:
            found = cells(values).cast(pa.float64())
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
            return None
    if (
        is_text(values.type) and pc.any(pc.is_nan(found)).as_py()
    ):  # Arrow takes more words for no number than stand in MISSING
        named = pc.unique(values.filter(pc.is_nan(found).fill_null(False)))
        if cells(named).null_count < len(named):
            return None
    array: np.ndarray = found.to_numpy(zero_copy_only=False)
    return array


def no_number(column: pa.ChunkedArray | pa.Array) -> int:
    """Return the first row whose cell is there and no number; 0 if there is none."""
    values = cells(column)
    if not is_text(values.type):
        return int(np.argmax(values.is_valid().to_numpy(zero_copy_only=False)))
    return max(int(pc.index(_strange(values), True).as_py()), 0)


def stray(seen: Sequence[str]) -> list[str]:
    """Return the texts that are no numbers."""
    texts = pa.array(seen, pa.large_string())
    return texts.filter(_strange(texts)).to_pylist()


def _strange(values: pa.Array) -> pa.Array:
    return pc.invert(pc.match_substring_regex(values, _NUMBER)).fill_null(False)


def integers(column: pa.ChunkedArray | pa.Array) -> pa.Array | None:
    """Return integers as int64, with nothing where missing, however they are written; None if a cell is none."""
    values = cells(column)
    if is_text(values.type):
        plain_text = unpointed(values)
        if not pc.all(pc.match_substring_regex(plain_text, r"^[+-]?[0-9]+$"), min_count=0).as_py():
            return None
        values = pc.replace_substring_regex(plain_text, r"^\+", "")
    if (
        pt.is_floating(values.type)
        and not pc.all(pc.less(pc.abs(values.cast(pa.float64())), EXACT), min_count=0).as_py()
    ):
        return None
    try:
        return values.cast(pa.int64())
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        return None


def without_point(column: pa.ChunkedArray | pa.Array) -> pa.Array | None:
    """Return integers and decimals without a fraction as text, however large they are; None for other numbers."""
    values = settled(column)
    if not (pt.is_integer(values.type) or pt.is_decimal(values.type)):
        return None
    texts = pc.replace_substring_regex(values.cast(pa.large_string()), _NO_FRACTION, r"\1")
    return texts if pc.all(pc.match_substring_regex(texts, r"^-?[0-9]+$"), min_count=0).as_py() else None


def check_kind(name: str, kind: pa.DataType) -> None:
    """Refuse a column whose cells are neither text nor numbers nor booleans, such as lists, bytes, dates and durations."""
    kind = plain(kind)
    if not (is_text(kind) or is_number(kind) or pt.is_boolean(kind) or pt.is_null(kind)):
        remedy = "Write one column for each number in it" if pt.is_nested(kind) else "Convert it"
        remedy = "Convert it to numbers, such as days" if pt.is_temporal(kind) else remedy
        raise DataError(
            f"Expected column {name!r} to hold numbers, text or booleans, got {spelled(kind)}. {remedy}, or {leave_out(name)}."
        )


def words(name: str, column: pa.ChunkedArray | pa.Array, keep: Sequence[str] = ()) -> pa.Array:
    """Return the categories that a column holds as ``large_string``, with nothing where missing."""
    values = cells(column, keep)
    check_kind(name, values.type)
    if is_number(values.type) and not pt.is_integer(values.type):
        whole = integers(values)
        values = values if whole is None else whole
    return values.cast(pa.large_string())


def coded(values: pa.Array, known: Sequence[str]) -> np.ndarray:
    """Find where each cell stands among declared words, int64, -1 for none; ``+1``, ``01`` and ``1.0`` stand for ``1``."""
    words = pa.array(known, pa.large_string())
    codes = positions(values, words)
    if {word.lower() for word in known} == {*BOOLEAN}:
        return positions(pc.utf8_lower(values.cast(pa.large_string())), pc.utf8_lower(words))
    if int(np.count_nonzero(codes < 0)) > values.null_count:
        again = positions(folded(values.cast(pa.large_string())), pa.array(_numbered(known), pa.large_string()))
        codes = np.where(codes < 0, again, codes)
    return codes


def _numbered(known: Sequence[str]) -> list[str | None]:
    """Declared words as integers are written; none of several that are one number, but for the one that is written so."""
    numbers = folded(pa.array(known, pa.large_string())).to_pylist()
    return [one if one == word or numbers.count(one) == 1 else None for one, word in zip(numbers, known, strict=True)]


def booleans(values: pa.Array) -> bool:
    """Say whether cells that are trimmed are booleans: of that type, or the texts ``true`` and ``false``."""
    if pt.is_boolean(values.type):
        return True
    if not is_text(values.type):
        return False
    seen = pc.utf8_lower(pc.unique(values.drop_null()))
    return bool(pc.all(pc.is_in(seen, value_set=pa.array(BOOLEAN, seen.type)), min_count=0).as_py())


def kind_of(column: pa.ChunkedArray | pa.Array) -> str:
    """Return the kind of a column that no schema declares, by all of its cells."""
    if is_number(plain(column.type)):
        return NUMBER
    if numbers(column) is not None:
        return NUMBER
    return TRUTH if booleans(cells(column)) else CATEGORY
