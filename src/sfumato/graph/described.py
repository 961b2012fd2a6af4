"""What a reader takes each column for, before or while a graph is built. Of values it says only how many are missing."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from sfumato.graph.columns import edge_names, id_name
from sfumato.graph.schema import Schema, label_columns

if TYPE_CHECKING:
    from sfumato.graph.cells import ReadColumn
    from sfumato.graph.reading import Nodes, Reading


def node_columns(nodes: Any, how: Reading, place: str, found: Nodes) -> tuple[ReadColumn, ...]:
    """Return what each column of a node table was taken for.

    Args:
        nodes: an Arrow table, or a :class:`~sfumato.graph._tables.FileTable`.
        how: what the columns mean.
        place: names the table in errors.
        found: what was read of it.
    """
    return tuple(_node_columns(nodes, how, place, found))


def _node_columns(nodes: Any, how: Reading, place: str, found: Nodes) -> Iterator[ReadColumn]:
    from sfumato.graph.cells import BOOLEAN, CATEGORY, INTEGER, NUMBER, TEXT, TRUTH, ReadColumn

    schema, names = Schema.read(how.schema), nodes.column_names
    ids, labels = id_name(names, how, schema, place), label_columns(how.label or schema.label)
    parts = {name: (declared, categories) for name, declared, categories in found.layout.parts}
    for name in names:
        if name == ids:
            yield ReadColumn(name, "id", _kind_of_ids(found.ids))
        elif name in labels and (len(labels) > 1 or schema.target):
            kind = NUMBER if schema.target else TRUTH
            yield ReadColumn(name, "label", kind, None, _missing(nodes, name), schema.target_range is not None)
        elif name in labels:
            classes = found.fields["classes"]
            missing = _missing(nodes, name, schema.classes or ())
            yield ReadColumn(name, "label", CATEGORY, len(classes), missing, schema.classes is not None)
        elif name == (how.role or schema.role):
            yield ReadColumn(name, "role", CATEGORY, None, _missing(nodes, name), declared=True)
        elif name == schema.degree_column:
            yield ReadColumn(name, "bound", INTEGER, declared=True)
        elif name in how.text:
            yield ReadColumn(name, "text", TEXT, None, _missing(nodes, name))
        elif name in parts:
            declared, categories = parts[name]
            missing = _missing(nodes, name, declared.categories or () if declared else ())
            kind = NUMBER if categories is None else CATEGORY
            kind = TRUTH if categories == BOOLEAN else kind
            yield ReadColumn(
                name, "feature", kind, None if categories is None else len(categories), missing, declared is not None
            )
        else:
            yield ReadColumn(name, "left out")


def edge_columns(names: list[str], how: Reading, place: str, ids: Any) -> tuple[ReadColumn, ...]:
    """Return what each column of an edge table is taken for. No end and no weight is missing: rows without are refused.

    Args:
        names: the columns of the table.
        how: what they mean.
        place: names the table in errors.
        ids: of the nodes, as :class:`~sfumato.graph.build.Nodes` holds them.
    """
    from sfumato.graph.cells import NUMBER, ReadColumn

    ends, weight = edge_names(names, how, place), how.weight
    return tuple(
        ReadColumn(name, "end", _kind_of_ids(ids))
        if name in ends
        else ReadColumn(name, "weight", NUMBER, declared=True)
        if weight is not None and name == weight[0]
        else ReadColumn(name, "left out")
        for name in names
    )


def _kind_of_ids(ids: Any) -> str:
    import pyarrow as pa

    from sfumato.graph.cells import INTEGER, TEXT

    return INTEGER if ids.type == pa.int64() else TEXT


def _missing(nodes: Any, name: str, keep: tuple[str, ...] = ()) -> int:
    from sfumato.graph.cells import cells

    return int(cells(nodes.column(name), keep).null_count)
