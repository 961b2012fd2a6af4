"""A graph as two tables, of nodes and of edges, in CSV or Parquet."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp

from sfumato._files import whole_file
from sfumato._optional import require

if TYPE_CHECKING:
    from sfumato.graph._graph import Graph

FORMATS = ("csv", "parquet")
_ROWS = 1 << 16


def write_tables(folder: Path, graph: Graph, kind: str = "csv", *, features: bool = False) -> None:
    """Write the tables ``nodes`` and ``edges`` of a graph into a folder: an undirected edge has one row.

    Nodes have the columns id and label (none without labels; empty where one is missing), and those of features if asked for.
    """
    ids = np.arange(graph.num_nodes) if graph.node_ids is None else graph.node_ids
    columns: dict[str, Any] = {"id": ids}
    if graph.y is not None:
        columns["label"] = np.array([*graph.classes, ""], object)[graph.y]
    source = np.repeat(np.arange(graph.num_nodes), np.diff(graph.indptr))
    used = slice(None) if graph.directed else source <= graph.indices
    edges = {"source": ids[source[used]], "target": ids[graph.indices[used]]}
    write = _write_csv if kind == "csv" else _write_parquet
    names = _names(graph, columns) if features else ()
    write(folder / f"nodes.{kind}", columns, names, graph.x if names else None)
    write(folder / f"edges.{kind}", edges, (), None)


def _names(graph: Graph, taken: Iterable[str]) -> tuple[str, ...]:
    names = graph.feature_names or tuple(f"f{column}" for column in range(graph.num_features))
    return tuple(f"{name}_feature" if name in taken else str(name) for name in names)


def _blocks(columns: dict[str, Any], x: Any) -> Iterable[list[Any]]:
    """Columns of some rows at a time, those of features last."""
    size = len(next(iter(columns.values())))
    for start in range(0, size, _ROWS):
        some = [column[start : start + _ROWS].tolist() for column in columns.values()]
        if x is not None:
            rows = x[start : start + _ROWS]
            some += list((rows.toarray() if sp.issparse(rows) else rows).T)
        yield some


def _write_csv(path: Path, columns: dict[str, Any], names: Sequence[str], x: Any) -> None:
    with whole_file(path) as binary:
        file = io.TextIOWrapper(binary, encoding="utf-8", newline="")
        writer = csv.writer(file)
        writer.writerow([*columns, *names])
        for some in _blocks(columns, x):
            writer.writerows(zip(*some, strict=True))
        file.detach()  # its text is written; the file is still to be synced


def _write_parquet(path: Path, columns: dict[str, Any], names: Sequence[str], x: Any) -> None:
    arrow, parquet = require("pyarrow"), require("pyarrow.parquet")
    with whole_file(path) as file:
        writer = None
        for some in _blocks(columns, x):
            table = arrow.table(dict(zip([*columns, *names], some, strict=True)))
            if writer is None:
                writer = parquet.ParquetWriter(file, table.schema)
            writer.write_table(table)
        if writer is None:
            parquet.write_table(
                arrow.table({name: arrow.array([], arrow.string()) for name in [*columns, *names]}), file
            )
        else:
            writer.close()
