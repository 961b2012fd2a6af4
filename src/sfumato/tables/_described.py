"""What a reader takes each column for, before or while a graph is built. Of values it says only how many are missing."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from sfumato.graph._schema import Schema, label_columns
from sfumato.tables._columns import edge_names, id_name

_ROWS = 1 << 14

if TYPE_CHECKING:
    from sfumato.tables._cells import ReadColumn
    from sfumato.tables._reading import Nodes, Reading


def node_columns(nodes: Any, how: Reading, place: str, found: Nodes) -> tuple[ReadColumn, ...]:
    columns, words = zip(*_node_columns(nodes, how, place, found), strict=True)
    missing = _missing(nodes, {one.name: keep for one, keep in zip(columns, words, strict=True) if keep is not None})
    return tuple(replace(one, missing=missing.get(one.name, one.missing)) for one in columns)


def _node_columns(
    nodes: Any, how: Reading, place: str, found: Nodes
) -> Iterator[tuple[ReadColumn, tuple[str, ...] | None]]:
    """Each column, and the words that are declared for it; None where it is not said how many cells are missing."""
    from sfumato.tables._cells import BOOLEAN, CATEGORY, INTEGER, NUMBER, TEXT, TRUTH, ReadColumn

    schema, names = Schema.read(how.schema), nodes.column_names
    ids, labels = id_name(names, how, schema, place), label_columns(how.label or schema.label)
    parts = {name: (declared, categories) for name, declared, categories in found.layout.parts}
    for name in names:
        if name == ids:
            yield ReadColumn(name, "id", _kind_of_ids(found.ids)), None
        elif name in labels and (len(labels) > 1 or schema.target):
            kind = NUMBER if schema.target else TRUTH
            yield ReadColumn(name, "label", kind, declared=schema.target_range is not None), ()
        elif name in labels:
            classes, declares = len(found.fields["classes"]), schema.classes is not None
            yield ReadColumn(name, "label", CATEGORY, classes, declared=declares), schema.classes or ()
        elif name == (how.role or schema.role):
            yield ReadColumn(name, "role", CATEGORY, declared=True), ()
        elif how.account is not None and name == how.account[0]:
            yield ReadColumn(name, "owner"), None
        elif name == schema.degree_column:
            yield ReadColumn(name, "bound", INTEGER, declared=True), None
        elif name in how.text:
            yield ReadColumn(name, "text", TEXT), ()
        elif name in parts:
            declared, categories = parts[name]
            kind = NUMBER if categories is None else TRUTH if categories == BOOLEAN else CATEGORY
            count = None if categories is None else len(categories)
            words = declared.categories or () if declared else ()
            yield ReadColumn(name, "feature", kind, count, declared=declared is not None), words
        else:
            yield ReadColumn(name, "left out"), None


def edge_columns(names: list[str], how: Reading, place: str, ids: Any) -> tuple[ReadColumn, ...]:
    """Return what each column of an edge table is taken for. None is missing of ends, weights, types and times."""
    from sfumato.tables._cells import CATEGORY, NUMBER, ReadColumn

    ends, weight, times = edge_names(names, how, place), how.weight, [one.column for one in how.times]
    return tuple(
        ReadColumn(name, "end", _kind_of_ids(ids))
        if name in ends
        else ReadColumn(name, "time")
        if name in times
        else ReadColumn(name, "person")
        if how.owner is not None and name == how.owner[0]
        else ReadColumn(name, "type", CATEGORY, len(how.types[1]), declared=True)
        if how.types is not None and name == how.types[0]
        else ReadColumn(name, "weight", NUMBER, declared=True)
        if weight is not None and name == weight[0]
        else ReadColumn(name, "left out")
        for name in names
    )


def _kind_of_ids(ids: Any) -> str:
    import pyarrow as pa

    from sfumato.tables._cells import INTEGER, TEXT

    return INTEGER if ids.type == pa.int64() else TEXT


def _missing(nodes: Any, columns: Mapping[str, tuple[str, ...]]) -> dict[str, int]:
    """How many cells of each column are missing, by its name; a file is read once for all ``columns``."""
    from sfumato.tables._cells import cells

    missing = dict.fromkeys(columns, 0)
    names = [name for name in nodes.column_names if name in columns]
    parts = [nodes] if hasattr(nodes, "to_batches") else nodes.batches(names, _ROWS)
    for part in parts if names else ():
        for name in names:
            missing[name] += int(cells(part.column(name), columns[name]).null_count)
    return missing
