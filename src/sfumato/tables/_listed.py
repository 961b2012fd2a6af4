"""Tables are read apart where ids come from several places: the ends of edges as texts, and nodes without edges."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from sfumato.errors import DataError
from sfumato.graph._schema import Schema
from sfumato.tables import _build as build
from sfumato.tables import _columns as columns
from sfumato.tables._ends import Numbered
from sfumato.tables._tables import counted, file_table, no_edges, numbering

if TYPE_CHECKING:
    from sfumato.graph._graph import Graph


def read_ends(edges: str | Path) -> tuple[list[str], list[str]]:
    r"""Read both ends of every edge of a CSV or Parquet file, as texts.

    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     _ = Path(folder, "edges.csv").write_text("from,to,weight\nann,7,1\n")
    ...     read_ends(Path(folder, "edges.csv"))
    (['ann'], ['7'])
    """
    from sfumato.tables import _encode as encode

    how = build.Reading()
    table = file_table(edges)
    ends, names = [], columns.edge_names(table.column_names, how, str(edges))
    numbered = Numbered(names if len(columns.by_place(table.column_names, how)) > 2 else ())
    for column in names:
        ids = encode.encode_ids(table.column(column), f"column {column!r} of {edges}")
        if ids.null_count:
            raise DataError(f"Expected two ends in every row of {edges}, but column {column!r} lacks one. Fill it.")
        numbered.see(column, ids)
        ends.append([str(one) for one in ids.to_pylist()])
    if (odd := numbered.still()) is not None:
        raise columns.row_number(odd, str(edges))
    return ends[0], ends[1]


def read_alone(
    nodes: str | Path, *, label: str | None = None, schema: str | None = None, features: bool = True
) -> Graph:
    """Read a node file as a graph without edges; its ids are texts."""
    declared = Schema.read(schema)
    declared = declared if features else replace(declared, columns={}, num_features=None)
    how = build.Reading(label=label, schema=declared, features=None if features else ())
    graph = build.build_graph(file_table(nodes), no_edges(), how, (str(nodes), "no edges"), (numbering(nodes), counted))
    ids = graph.node_ids
    return replace(graph, node_ids=None if ids is None else ids.astype(str))
