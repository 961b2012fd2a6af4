"""Graphs are built here from what is already in memory: data frames, Arrow tables, sparse matrices."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import scipy.sparse as sp

from sfumato._optional import require
from sfumato._validate import fail
from sfumato.errors import DataError, SfumatoError
from sfumato.graph._dropped import tell_dropped
from sfumato.graph._graph import Graph
from sfumato.tables._build import Reading
from sfumato.tables._io import read_several, read_tables
from sfumato.tables._tables import check_names, counted


def from_frames(nodes: Any, edges: Any, **how: Any) -> Graph:
    """Build a graph from a node table and an edge table of pandas, Polars or Arrow.

    Whatever hands over its columns as an Arrow stream (``__arrow_c_stream__``) will do: pandas 2.2, Polars, DuckDB, PyArrow.
    A named index of pandas counts as a column, any other index is not read. Keyword arguments, and the rules for columns, are
    those of :func:`~sfumato.tables._io.read_csv`: ``nodes`` has one row for each node, ``edges`` one for each edge.

    In place of one edge table there may be several, ``{"friend": friends, "call": calls}``: each holds the edges of one type.

    Raises:
        InputError: an argument is no table.
        DataError: a table is empty, lacks a column, or holds what does not fit.
        SchemaError: a table does not fit the schema.

    >>> import pandas as pd
    >>> nodes = pd.DataFrame({"id": ["ann", "bob"], "age": [31, None], "year": [2004, 2005]})
    >>> graph = from_frames(nodes, pd.DataFrame({"from": ["ann"], "to": ["bob"]}), label="year")
    >>> graph.x.ravel().tolist(), graph.classes
    ([31.0, 0.0], ('2004', '2005'))
    """
    places = ("the nodes table", "the edges table")
    if isinstance(edges, Mapping) and edges and all(map(_is_table, edges.values())):
        tables = {
            name: (arrow_table(one, f"edges[{name!r}]"), f"edges[{name!r}]", counted) for name, one in edges.items()
        }
        public = how.pop("public_types", ())
        return read_several((arrow_table(nodes, "nodes"), places[0], counted), tables, Reading(**how), public)
    return read_tables(arrow_table(nodes, "nodes"), arrow_table(edges, "edges"), Reading(**how), places)


def _is_table(value: Any) -> bool:
    """Whether this is a table, and not a column of one."""
    return isinstance(value, Mapping) or hasattr(value, "columns")


def from_scipy(
    adjacency: Any,
    x: Any = None,
    y: Any = None,
    *,
    directed: bool,
    self_loops: str = "remove",
    max_weight: float | None = None,
    **fields: Any,
) -> Graph:
    """Build a graph from a sparse adjacency matrix of SciPy, features and class numbers.

    Shapes: ``adjacency`` [num_nodes, num_nodes], an arc from row to column wherever an entry differs from zero; ``x``
    [num_nodes, num_features], dense or sparse; ``y`` [num_nodes], -1 for missing. ``fields`` are other fields of
    :class:`~sfumato.graph._graph.Graph`, such as ``classes`` and ``node_ids``.

    Entries of one place are added.
    With ``max_weight``, a public bound, entries of ``adjacency`` are weights >= 0 and are clipped to it
    (:mod:`sfumato.graph._weights`); without it they are not read. ``directed`` says whether arcs have a direction; if not, the
    matrix must be symmetric. ``self_loops`` is "remove" (and count), "keep" or "error".

    Raises:
        InputError: ``adjacency`` is no sparse matrix, or ``directed`` is neither True nor False.
        DataError: the matrix is not square, an entry is no finite number, an arc lacks its reverse, or the arrays do not fit.

    >>> import scipy.sparse as sp
    >>> from_scipy(sp.csr_matrix([[0, 1], [1, 0]]), y=[0, 1], directed=False)
    Graph('graph', 2 nodes, 1 undirected edges, 0 features, 2 classes)
    """
    entries = _entries(adjacency)
    there = entries.data != 0
    if max_weight is not None:
        fields |= {"edge_weight": entries.data[there], "max_weight": max_weight}
    elif (entries.data[there] != 1).any():
        tell_dropped(["weights"], "adjacency")
    return Graph.from_arcs(
        entries.row[there],
        entries.col[there],
        entries.shape[0],
        directed=directed,
        self_loops=self_loops,
        x=x,
        y=y,
        **{"assumed_public": () if x is None else ("num_features",), **fields},
    )


def _entries(adjacency: Any) -> Any:
    """The entries of a matrix as floats, those of one place added, as a matrix is read. Which one is wrong is private."""
    if not sp.issparse(adjacency):
        raise fail("adjacency", type(adjacency).__name__, "to be a sparse matrix of SciPy", "Wrap it: csr_matrix(a).")
    shape = tuple(adjacency.shape)
    if len(shape) != 2 or shape[0] != shape[1]:
        raise DataError(f"Expected adjacency to be square, got shape {shape}. Keep one row for each node.")
    if adjacency.dtype.kind not in "biuf":
        raise DataError(
            f"Expected adjacency to hold numbers, got entries of {adjacency.dtype}. Convert them, such as by abs(adjacency)."
        )
    entries = sp.csr_matrix(adjacency.astype(np.float64, copy=False))
    if not entries.has_canonical_format:
        entries = entries.copy()
        entries.sum_duplicates()
    if not np.isfinite(entries.data).all():
        raise DataError(
            "Expected adjacency to hold finite numbers, got an entry that is missing or infinite. Say whether there is an arc: "
            "write a number, or 0."
        )
    if adjacency.dtype.kind == "b":
        np.minimum(entries.data, 1, out=entries.data)
    return entries.tocoo()


def arrow_table(frame: Any, name: str) -> Any:
    """Return a table of pandas, Polars or Arrow as an Arrow table; ``name`` is that of the argument."""
    pa = require("pyarrow")
    from sfumato.tables._arrow import plain_table

    refused = (TypeError, ValueError, OverflowError, AttributeError, pa.ArrowException)
    try:
        return plain_table(pa.table(_dense(frame, name)))
    except SfumatoError:
        raise
    except refused:  # Arrow's own messages may quote values
        if not hasattr(frame, "__arrow_c_stream__") and not isinstance(frame, dict):
            raise fail(name, type(frame).__name__, "to be a table of pandas, Polars or Arrow") from None

    def fits(column: Any) -> bool:
        try:
            pa.table(_dense(frame[[column]], name))
        except refused:
            return False
        return True

    columns = getattr(frame, "columns", ())
    wrong = next(
        (f"column {str(one)!r}" for one in columns if isinstance(one, str | int) and not fits(one)), "a column"
    )
    raise DataError(
        f"Expected every column of {name} to hold values of one kind, text, booleans or numbers of at most 64 bits, but "
        f"{wrong} has others. Convert it, for instance to text, or take it out of the table."
    )


def _dense(frame: Any, name: str) -> Any:
    """A frame of pandas without sparse columns, which Arrow does not take; any other frame as it is."""
    kinds: Any = getattr(frame, "dtypes", None)
    if not hasattr(kinds, "items"):
        return frame
    check_names([str(column) for column in frame.columns], f"the {name} table")
    sparse = {column: kind.subtype for column, kind in kinds.items() if type(kind).__name__ == "SparseDtype"}
    return frame.astype(sparse) if sparse else frame
