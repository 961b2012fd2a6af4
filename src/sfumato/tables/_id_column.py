"""Which column of a node table holds the ids, where no argument and no schema names it.

A usual name tells it, else the name of an end of the edges, else the place: the first column. No column is taken by its place
that merely numbers the rows while another could hold the ids as well.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from sfumato.errors import DataError
from sfumato.graph._schema import Schema
from sfumato.tables._columns import by_place, edge_names, left, meant, named, passed, usual_id
from sfumato.tables._ends import Numbered
from sfumato.tables._tables import FileTable

if TYPE_CHECKING:
    from sfumato.tables._reading import Reading

_HEAD = 1024


def named_by_ends(how: Reading, nodes: Sequence[str], edges: Sequence[str], place: str) -> Reading:
    """Return a reading that names the column of ids, where nothing else does and one column is called as an end of the edges."""
    schema = Schema.read(how.schema)
    if how.id_column or schema.id or usual_id(nodes):
        return how
    try:
        ends: tuple[str, ...] = edge_names([*edges], how, place)
    except DataError:  # is raised again where the edges are read
        return how
    if by_place([*edges], how) and passed([*edges], how):  # an end was left out, perhaps: the second may be none
        ends = ends[:1]
    other = meant(how, schema)
    shared = [name for name in left(named(nodes), how) if name in ends and name not in other]
    return replace(how, id_column=shared[0]) if len(shared) == 1 else how


def check_counts(nodes: Any, ids: Any, column: str, how: Reading, place: str) -> None:
    """Refuse ids that were found by place and merely number the rows, while another column is unique as well."""
    rows = Numbered([column])
    rows.see(column, ids)
    if rows.still() is None or ids[0].as_py() not in (0, 1):
        return
    other = meant(how, Schema.read(how.schema))
    names = [name for name in left(named(nodes.column_names), how) if name != column and name not in other]
    if not names:
        return
    head = next(iter(nodes.batches(names, _HEAD))) if isinstance(nodes, FileTable) else nodes.slice(0, _HEAD)
    for name in names:
        if _unique(head.column(name)) and (len(ids) <= head.num_rows or _unique(nodes.column(name))):
            raise DataError(
                f"Expected ids in the first column of {place}, since nothing names them, but {column!r} merely numbers the rows "
                f"and {name!r} has another value in every row too. Name the column of ids with id_column (id in the schema), or "
                f"call it id. If {column!r} is no feature either, leave it out with drop."
            )


def _unique(column: Any) -> bool:
    """Whether a column holds integers or words, another in every row."""
    import pyarrow.compute as pc

    from sfumato.tables._arrow import is_number, is_text, plain
    from sfumato.tables._cells import CATEGORY, cells, integers, kind_of

    kind = plain(column.type)
    values = integers(column) if is_number(kind) or is_text(kind) else None
    if values is None and is_text(kind) and kind_of(column) == CATEGORY:
        values = cells(column)
    return values is not None and not values.null_count and int(pc.count_distinct(values).as_py()) == len(values)
