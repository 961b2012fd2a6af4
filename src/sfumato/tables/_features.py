"""Columns of a node table become features: numbers, and one column for each category. Errors never hold a value."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt
import scipy.sparse as sp

from sfumato.errors import DataError, SchemaError
from sfumato.graph._checks import MOST_FEATURE, first_beyond
from sfumato.graph._declared import RANGE_OF
from sfumato.graph._packed import PackedRows, Widths, code_type
from sfumato.graph._schema import CATEGORIES, Column, Schema, contradiction
from sfumato.graph._unique import RARE, TEXTS, WRITTEN, leave_out, standing, written_numbers
from sfumato.tables._arrow import is_number, plain, unlisted
from sfumato.tables._cells import (
    BOOLEAN,
    MISSING,
    NUMBER,
    TRUTH,
    check_kind,
    coded,
    kind_of,
    no_number,
    numbers,
    stray,
    words,
)
from sfumato.tables._strange import check_categories

if TYPE_CHECKING:
    from sfumato.graph._facts import Ranges

SPARSE_COLUMNS = 64
SPARSE_DENSITY = 0.25


@dataclass(frozen=True)
class Layout:
    """What each column of a table becomes: a number, or one column for each category.

    ``parts`` holds for each column its name, what declares it, and its categories, which are None for a number. ``assumed``
    names what was read off the data, ``undeclared`` what of it nobody marked so, and numbers without both ends of a range.
    """

    parts: tuple[tuple[str, Column | None, tuple[str, ...] | None], ...]
    assumed: tuple[str, ...]
    undeclared: tuple[str, ...] = ()

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(
            one
            for name, _, values in self.parts
            for one in ([name] if values is None else [f"{name}={v}" for v in values])
        )

    @property
    def ranges(self) -> Ranges:
        return tuple(
            (name, declared.min, declared.max)
            for name, declared, values in self.parts
            if values is None and declared is not None and (declared.min, declared.max) != (None, None)
        )

    @property
    def sparse(self) -> bool:
        """Whether encoded rows are CSR, by columns alone, since entries are private."""
        width = len(self.names)
        return width > SPARSE_COLUMNS and len(self.parts) < SPARSE_DENSITY * width

    def rows(self, columns: Mapping[str, pa.ChunkedArray], ids: np.ndarray) -> tuple[Any, dict[str, int]]:
        """Encode rows: float32 [num_rows, num_features], dense or CSR, and counts of the values beyond the schema.

        A row without any value becomes zeros, whatever a missing number counts as elsewhere: it is the empty record, to which
        units that protect nodes compare every other one.
        """
        width, start, empty = len(self.names), 0, np.ones(len(ids), bool)
        dense = None if self.sparse else np.zeros((len(ids), width), dtype=np.float32)
        entries: list[tuple[np.ndarray, np.ndarray, np.ndarray]] = []
        outside: dict[str, int] = {}
        for part in self.parts:
            found, missing, outside[part[0]] = _encoded(part, columns, ids)
            empty &= missing
            if part[2] is None:
                if dense is not None:
                    dense[:, start] = found
                else:
                    rows = np.flatnonzero(found)
                    entries.append((found[rows], rows, np.full(len(rows), start)))
                start += 1
                continue
            rows = np.flatnonzero(found >= 0)
            if dense is not None:
                dense[rows, found[rows] + start] = 1
            else:
                entries.append((np.ones(len(rows), dtype=np.float32), rows, found[rows] + start))
            start += len(part[2])
        if dense is not None:
            dense[empty] = 0
            return dense, outside
        values, rows, places = (np.concatenate(part) for part in zip(*entries, strict=True))
        values, rows, places = (part[~empty[rows]] for part in (values, rows, places))
        return sp.csr_matrix((values, (rows, places)), shape=(len(ids), width), dtype=np.float32), outside

    @property
    def widths(self) -> Widths:
        return tuple(None if values is None else len(values) for _, _, values in self.parts)

    def packed(self, columns: Mapping[str, pa.ChunkedArray], ids: np.ndarray) -> tuple[PackedRows, dict[str, int]]:
        """Encode rows that are not sparse as numbers and codes; what they give and what is refused are those of :meth:`rows`."""
        numbers, codes, outside, empty = [], [], {}, np.ones(len(ids), bool)
        for part in self.parts:
            found, missing, outside[part[0]] = _encoded(part, columns, ids)
            empty &= missing
            if part[2] is None:
                numbers.append(found)
            else:
                codes.append((found + 1).astype(code_type(self.widths)))
        first, second = (np.stack(side, axis=1) if side else None for side in (numbers, codes))
        if first is not None:
            first[empty] = 0
        return PackedRows(first, second, self.widths), outside


def _encoded(
    part: tuple[str, Column | None, tuple[str, ...] | None], columns: Mapping[str, pa.ChunkedArray], ids: np.ndarray
) -> tuple[np.ndarray, np.ndarray, int]:
    """The numbers of a column or the codes of its categories, -1 for none; rows without a value; how many are undeclared."""
    name, declared, categories = part
    if categories is None:
        written = _numbers(name, columns[name], ids)
        missing = np.isnan(written)
        values = np.where(missing, (declared or Column()).default, written)
        clipped = declared.clip(values) if declared else values
        return _single(name, _scaled(clipped, declared), ids), missing, int(np.count_nonzero(clipped != values))
    found = words(name, columns[name], categories if declared else ())
    codes = coded(found, categories)
    return codes, codes < 0, unlisted(found, codes)


def lay_out(
    types: Mapping[str, pa.DataType], read: Callable[[str], pa.ChunkedArray], schema: Schema, ids: np.ndarray
) -> Layout:
    """Find out what each column becomes; only columns of categories that no schema declares are read."""
    parts, assumed, undeclared = [], [], []
    for name, kind in types.items():
        check_kind(name, kind)
        declared = schema.columns.get(name)
        categories = declared.categories if declared else None
        if categories is None and not declared and not is_number(kind):
            categories, fact = _seen(name, kind, read, ids)
            assumed += [fact + name] if fact else []
            undeclared += [CATEGORIES + name] if fact == CATEGORIES else []
        elif declared and declared.from_data:
            assumed.append(CATEGORIES + name)
        if categories is None and (declared is None or None in (declared.min, declared.max)):
            undeclared.append(RANGE_OF + name)
        parts.append((name, declared, categories))
    layout = Layout(tuple(parts), tuple(assumed), tuple(undeclared))
    _check_names(layout)
    return layout


def _check_names(layout: Layout) -> None:
    """Refuse two columns that give features of one name, such as ``a=b`` and a category ``b`` of ``a``."""
    if len(set(layout.names)) == len(layout.names):
        return
    owner: dict[str, str] = {}
    for part in layout.parts:
        for name in Layout((part,), ()).names:
            if owner.setdefault(name, part[0]) != part[0]:
                raise DataError(
                    f"Expected every feature to have a name of its own, got one name for a feature of column {owner[name]!r} and "
                    f"one of column {part[0]!r}: categories are named after their column and a sign =. Rename a column."
                )


def _seen(
    name: str, kind: pa.DataType, read: Callable[[str], pa.ChunkedArray], ids: np.ndarray
) -> tuple[tuple[str, ...] | None, str]:
    """The categories of a column that no schema declares, and how the fact begins that they were read off the data, if any were.

    None stands for a column of numbers.
    """
    if pt.is_boolean(plain(kind)):
        return BOOLEAN, ""
    column = read(name)
    found = kind_of(column)
    if found in (NUMBER, TRUTH):
        return (None if found == NUMBER else BOOLEAN), ""
    values = words(name, column)
    counts = {one["values"]: one["counts"] for one in pc.value_counts(values.drop_null()).to_pylist()}
    seen = tuple(sorted(counts))
    check_categories(name, seen)
    strange = stray(seen)
    if strange and 2 * len(strange) < len(seen):
        row, written = pc.index(values, strange[0]).as_py(), f"{WRITTEN}. " if written_numbers(strange) else ""
        raise DataError(
            f"Expected column {name!r} to hold numbers or categories, got numbers beside text at node {ids[row].item()!r}. "
            f"{written}A missing number is empty, or one of {', '.join(MISSING)}. If these are categories, declare them in the "
            f"schema; or {leave_out(name)}."
        )
    if not seen:
        return seen, ""
    return seen, (CATEGORIES, RARE, TEXTS)[standing(seen, [counts[one] for one in seen])]


def _numbers(name: str, column: pa.ChunkedArray, ids: np.ndarray) -> np.ndarray:
    """The number of every row, float64: NaN where none is; infinite ones stay."""
    values = numbers(column)
    if values is None:
        raise contradiction(name, ids[no_number(column)], "a number")
    return values


def _single(name: str, values: np.ndarray, ids: np.ndarray) -> np.ndarray:
    with np.errstate(over="ignore"):
        single: np.ndarray = values.astype(np.float32)
    row = first_beyond(single)
    if row is not None:
        raise DataError(
            f"Expected column {name!r} to be finite and from -{MOST_FEATURE:g} to {MOST_FEATURE:g}, but the number of node "
            f"{ids[row].item()!r} is not. Correct or rescale it there, or declare min and max, if they are known without this "
            "data: it is then clipped."
        )
    return single


def _scaled(values: np.ndarray, declared: Column | None) -> np.ndarray:
    """From a declared range to [0, 1], so that ages do not dwarf one-hot columns."""
    if declared and declared.min is not None and declared.max is not None:
        return (values - declared.min) / ((declared.max - declared.min) or 1.0)
    return values


def check_num_features(names: Sequence[str], schema: Schema) -> None:
    if schema.num_features is not None and len(names) != schema.num_features:
        raise SchemaError(
            f"Expected num_features={schema.num_features} columns after encoding, got another number. Declare the "
            "categories of every text column, or correct num_features."
        )
