"""Readers turn a node table and an edge table, from CSV, Parquet or a database, into a :class:`Graph`.

DuckDB reads the files; one path of Arrow tables follows, so that every source obeys the same rules. Node ids and names of
columns are public; values and the ends of edges may not be, so errors name their row and column instead.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from sfumato._optional import require
from sfumato.errors import DataError, InputError, SchemaError
from sfumato.graph._tables import documents_of, existing, file_table, guarded, known, table
from sfumato.graph.bounds import bounds_in
from sfumato.graph.dropped import tell_dropped
from sfumato.graph.graph import Graph
from sfumato.graph.schema import Schema
from sfumato.graph.text import with_texts

if TYPE_CHECKING:
    from sfumato.graph.documents import Report

_ID_NAMES = ("id", "node_id", "node", "nodeid")
_SOURCE_NAMES = ("source", "src", "from", "u", "node1", "node_1", "source_id", "from_id")
_TARGET_NAMES = ("target", "dst", "to", "v", "node2", "node_2", "target_id", "to_id")


@dataclass(frozen=True)
class Reading:
    """A reading says how two tables become a graph: the keyword arguments that all readers share (see :func:`read_csv`).

    ``label``, ``schema``, ``directed``, ``id_column``, ``role``, ``features``, ``source``, ``target``, ``self_loops``,
    ``name``, ``text`` and ``text_features`` are explained there. ``report`` is told how far texts are encoded.

    Raises:
        InputError: ``text`` or ``text_features`` is given without the other.
    """

    label: str | None = None
    schema: Schema | Mapping[str, Any] | str | Path | None = None
    directed: bool | None = None
    id_column: str | None = None
    role: str | None = None
    features: Sequence[str] | None = None
    source: str | None = None
    target: str | None = None
    self_loops: str = "remove"
    name: str = "graph"
    text: Sequence[str] = ()
    text_features: str | None = None
    report: Report | None = None

    def __post_init__(self) -> None:
        if bool(self.text) != (self.text_features is not None):
            raise InputError(
                f"Expected columns of texts and their encoder together, got text={self.text!r} and "
                f"text_features={self.text_features!r}. Name both, such as text=['abstract'] and text_features='hashing'."
            )


def read_csv(
    nodes: str | Path,
    edges: str | Path,
    *,
    label: str | None = None,
    schema: Schema | Mapping[str, Any] | str | Path | None = None,
    directed: bool | None = None,
    id_column: str | None = None,
    role: str | None = None,
    features: Sequence[str] | None = None,
    source: str | None = None,
    target: str | None = None,
    self_loops: str = "remove",
    name: str = "graph",
    text: Sequence[str] = (),
    text_features: str | None = None,
    report: Report | None = None,
) -> Graph:
    r"""Read a graph from a node file and an edge file, both CSV with a header row.

    Node file: one row for each node. ``id_column`` (default: a column called id or node, else the first) holds integers or
    text; ``label`` one class for each node, missing allowed; ``role`` train, val, test or none; ``features`` (default: all
    other columns) numbers, or text and booleans that become one-hot columns, all zero where missing. A missing number becomes the
    middle of its declared range, else 0 (:attr:`~sfumato.graph.schema.Column.default`).
    Edge file: one row for each edge; ``source`` and ``target`` default to columns of such names, else the first two. Other
    columns, weights among them, are not read, and a :class:`~sfumato.errors.DroppedWarning` names them. Undirected (the default,
    unless the schema says otherwise): a row beside its reverse is merged and counted in ``Graph.merged``.
    ``schema`` declares what is public (see :class:`Schema`); what it leaves open is read off the data and listed in
    ``Graph.assumed_public``. Numbers beyond a declared range are clipped to it; a category or class that is not declared
    counts as missing; ``Graph.outside`` counts both.

    Errors: :class:`~sfumato.errors.DataError` naming file, column and row, never a value;
    :class:`~sfumato.errors.SchemaError` where a table does not fit the schema.

    Args:
        nodes: path of the node file.
        edges: path of the edge file.
        label: column of the classes; None reads no labels.
        schema: declares what is public.
        directed: whether arcs have a direction; None takes the schema's word, else undirected.
        id_column: column of the ids.
        role: column of the roles; None reads none.
        features: columns of the features; None takes all others.
        source: column of the edges' first end.
        target: column of the edges' second end.
        self_loops: "remove" (and count), "keep" or "error".
        name: the name of the graph, in messages and certificates.
        text: columns of texts, which become features by ``text_features`` and nothing else.
        text_features: names the encoder of the texts, such as ``hashing`` (see :mod:`sfumato.graph.text`).
        report: is told how far texts are encoded.

    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     _ = Path(folder, "nodes.csv").write_text("id,dorm,year\nann,north,2004\nbob,south,2005\n")
    ...     _ = Path(folder, "edges.csv").write_text("from,to\nann,bob\n")
    ...     graph = read_csv(Path(folder, "nodes.csv"), Path(folder, "edges.csv"), label="year")
    >>> graph.feature_names, graph.classes, graph.num_edges
    (('dorm=north', 'dorm=south'), ('2004', '2005'), 1)
    """
    how = Reading(
        label, Schema.read(schema), directed, id_column, role, features, source, target, self_loops, name, text,
        text_features, report,
    )  # fmt: skip
    return _read(read_nodes(nodes, how), read_edges(edges, how), how, (str(nodes), str(edges)), first_row=2)


def read_parquet(nodes: str | Path, edges: str | Path, **how: Any) -> Graph:
    """Read a graph from a node file and an edge file, both Parquet. Keyword arguments are those of :func:`read_csv`."""
    with require("duckdb").connect() as connection:
        node_table, edge_table = (
            table(partial(connection.read_parquet, str(existing(path))), str(path)) for path in (nodes, edges)
        )
    return _read(node_table, edge_table, Reading(**how), (str(nodes), str(edges)))


def _read(nodes: Any, edges: Any, how: Reading, places: tuple[str, str], first_row: int = 1) -> Graph:
    graph = build_graph(nodes, edges, how, places, first_row)
    ends = edge_names(edges.column_names, how, places[1])
    tell_dropped((column for column in edges.column_names if column not in ends), places[1], above=2)
    if how.text_features is None:
        return graph
    return with_texts(graph, documents_of(nodes, how.text, places[0]), how.text_features, how.report)


def read_nodes(path: str | Path, how: Reading) -> Any:
    """Read a node file, CSV or Parquet, as an Arrow table; ``how`` says what its columns mean."""
    public = Schema.read(how.schema)

    def texts(names: list[str]) -> set[str | None]:
        declared_label = (how.label or public.label) if public.classes else None
        return {*public.columns, _id_name(names, how, public, str(path)), declared_label, *how.text}

    return file_table(path, texts)


def read_texts(
    nodes: str | Path,
    text: Sequence[str],
    text_features: str,
    *,
    schema: Schema | Mapping[str, Any] | str | Path | None = None,
    report: Report | None = None,
) -> Graph:
    """Read the texts of a node file as features; no other column is read, and there are no edges.

    Args:
        nodes: path of the node file.
        text: columns of texts.
        text_features: names their encoder.
        schema: may name the column of the ids.
        report: is told how far texts are encoded.

    Raises:
        DataError: the file cannot be read, or lacks a column.
    """
    import pyarrow as pa

    declared = Schema(id=Schema.read(schema).id)
    how = Reading(schema=declared, features=(), text=text, text_features=text_features, report=report)
    none = pa.table({name: pa.array([], pa.large_string()) for name in ("source", "target")})
    return _read(read_nodes(nodes, how), none, how, (str(nodes), "no edges"), 2)


def read_edges(path: str | Path, how: Reading) -> Any:
    """Read an edge file, CSV or Parquet, as an Arrow table; ``how`` says what its columns mean."""
    return file_table(path, lambda names: set(edge_names(names, how, str(path))))


def read_sql(connection: Any, nodes: str, edges: str, **how: Any) -> Graph:
    """Read a graph from two queries over anything that DuckDB reaches.

    ``connection`` is an open DuckDB connection, which stays open, or the path of a database, which is only read.
    ``nodes`` and ``edges`` are queries. Keyword arguments as :func:`read_csv`.

    >>> import duckdb
    >>> edges = "SELECT * FROM (VALUES (1, 2), (2, 3)) AS links(source, target)"
    >>> with duckdb.connect() as connection:
    ...     read_sql(connection, "SELECT range AS id, range / 2 AS age FROM range(1, 4)", edges)
    Graph('graph', 3 nodes, 2 undirected edges, 1 features, 0 classes)
    """
    if isinstance(connection, str | Path):
        duckdb, path = require("duckdb"), existing(connection)
        with guarded(partial(duckdb.connect, str(path), read_only=True), str(path)) as opened:
            return read_sql(opened, nodes, edges, **how)
    node_table = table(partial(connection.sql, nodes), "the nodes query")
    edge_table = table(partial(connection.sql, edges), "the edges query")
    return _read(node_table, edge_table, Reading(**how), ("the nodes query", "the edges query"))


def build_graph(nodes: Any, edges: Any, how: Reading, places: tuple[str, str], first_row: int = 1) -> Graph:
    """Build a graph from two Arrow tables.

    Args:
        nodes: the node table.
        edges: the edge table.
        how: what the columns mean.
        places: name the two tables in errors.
        first_row: the number of row 0 in errors.

    Raises:
        DataError: a table is empty, lacks a column, or holds what does not fit.
        SchemaError: a table does not fit the schema.
    """
    from sfumato.graph import encode

    schema = Schema.read(how.schema)
    names = nodes.column_names
    if nodes.num_rows == 0:
        raise DataError(f"Expected {places[0]} to have at least one row, got none. A graph needs a node.")
    id_name = _id_name(names, how, schema, places[0])
    ids = encode.encode_ids(nodes.column(id_name), f"column {id_name!r} of {places[0]}")
    _check_unique(ids, id_name, places[0], first_row)
    id_array = ids.to_numpy(zero_copy_only=False)
    id_array = id_array.astype(str) if id_array.dtype == object else id_array
    label, role = (known(names, column, places[0]) for column in (how.label or schema.label, how.role or schema.role))
    named = next((column for column in how.text if column in (id_name, label, role)), None)
    if named is not None:
        raise DataError(f"Expected texts in columns other than id, label and role, got {named!r}. Remove it from text.")
    bound = known(names, schema.degree_column, places[0])
    columns = _feature_names(names, how, schema, (id_name, label, role, bound, *how.text), places[0])
    features = encode.encode_features({column: nodes.column(column) for column in columns}, schema, id_array)
    encode.check_num_features(features, schema)
    assumed = list(features.assumed)
    if schema.num_features is None and not set(columns) <= set(schema.columns):
        assumed.insert(0, "num_features")
    y, classes, outside = None, schema.classes or (), features.outside
    if label is not None:
        labels = encode.encode_labels(label, nodes.column(label), schema, id_array)
        y, classes, outside = labels.y, labels.classes, outside | labels.outside
        assumed += ["classes"] * (schema.classes is None)
    source, target = endpoints(edges, ids, how, places, first_row)
    return Graph.from_edges(
        source,
        target,
        len(ids),
        directed=_direction(how, schema),
        self_loops=how.self_loops,
        x=features.x,
        y=y,
        classes=classes,
        node_ids=id_array,
        feature_names=features.names,
        roles=None if role is None else encode.encode_roles(role, nodes.column(role), id_array),
        name=how.name,
        max_degree=schema.max_degree,
        mean_degree=schema.mean_degree,
        degree_bounds=None if bound is None else bounds_in(bound, nodes.column(bound).to_numpy(), id_array),
        assumed_public=tuple(assumed),
        outside=outside,
    )


def endpoints(
    edges: Any, ids: Any, how: Reading, places: tuple[str, str], first_row: int
) -> tuple[np.ndarray, np.ndarray]:
    """Find the numbers of both ends of every edge.

    Args:
        edges: the edge table.
        ids: of the nodes, in the order of their numbers.
        how: what the columns mean.
        places: name the nodes and the edge table in errors.
        first_row: the number of row 0 in errors.

    Raises:
        DataError: an end is missing, or no node has its id.
    """
    from sfumato.graph import encode

    ends = []
    for column in edge_names(edges.column_names, how, places[1]):
        values = encode.encode_ids(edges.column(column), f"column {column!r} of {places[1]}")
        codes = encode.positions(values, ids)
        if len(codes) and codes.min() < 0:
            row = int(np.argmin(codes))
            problem = "an unknown node" if values[row].is_valid else "no node"
            raise DataError(
                f"Expected every edge to link nodes of {places[0]}, but row {row + first_row} of {places[1]} has "
                f"{problem} in column {column!r}. Add the node or remove the edge."
            )
        ends.append(codes)
    return ends[0], ends[1]


def _check_unique(ids: Any, column: str, place: str, first_row: int) -> None:
    if ids.null_count:
        row = int(np.argmax(ids.is_null().to_numpy(zero_copy_only=False)))
        raise DataError(
            f"Expected an id in every row of {place}, but row {row + first_row} has none in column {column!r}. Fill it."
        )
    from sfumato.graph import encode

    first = encode.positions(ids, ids)
    again = np.flatnonzero(first != np.arange(len(first)))
    if len(again):
        row = int(again[0])
        raise DataError(
            f"Expected every node once, but column {column!r} of {place} has {ids[row].as_py()!r} in rows "
            f"{int(first[row]) + first_row} and {row + first_row}. Remove one of them."
        )


def _direction(how: Reading, schema: Schema) -> bool:
    declared = {value for value in (how.directed, schema.directed) if value is not None}
    if len(declared) == 2:
        raise SchemaError(
            f"Expected one direction, got directed={how.directed} beside directed={schema.directed} in the schema. "
            "Correct one of them."
        )
    return declared.pop() if declared else False


def _id_name(names: list[str], how: Reading, schema: Schema, place: str) -> str:
    named = known(names, how.id_column or schema.id, place)
    return named or next((name for name in names if name.lower() in _ID_NAMES), names[0])


def edge_names(names: list[str], how: Reading, place: str) -> tuple[str, str]:
    """Return the columns that hold the two ends of an edge.

    Args:
        names: the columns of the table.
        how: may name the two.
        place: names the table in errors.

    Raises:
        DataError: the table has fewer than two columns, or lacks one that is named.
    """
    if len(names) < 2:
        raise DataError(f"Expected {place} to have two columns of node ids, got {', '.join(names)}. Add the other one.")
    lower = [name.lower() for name in names]
    for source, target in zip(_SOURCE_NAMES, _TARGET_NAMES, strict=True):
        if source in lower and target in lower:
            found = names[lower.index(source)], names[lower.index(target)]
            break
    else:
        found = names[0], names[1]
    return known(names, how.source, place) or found[0], known(names, how.target, place) or found[1]


def _feature_names(
    names: list[str], how: Reading, schema: Schema, special: tuple[str | None, ...], place: str
) -> list[str]:
    missing = [column for column in schema.columns if column not in names]
    if missing:
        raise SchemaError(
            f"Expected {place} to have the column {missing[0]!r} of the schema, got the columns {', '.join(names)}. "
            "Add it or remove it from the schema."
        )
    declared = [column for column in special if column in schema.columns]
    if declared:
        raise SchemaError(
            f"Expected the columns of the schema to be features, but {declared[0]!r} is read as id, label, role or text. "
            f"Remove [columns.{declared[0]}]; classes belong under classes."
        )
    if how.features is None:
        return [column for column in names if column not in special]
    chosen = [column for column in how.features if known(names, column, place)]
    for column in chosen:
        if column in special:
            raise DataError(f"Expected features to leave out ids, labels, roles and texts, got {column!r}. Remove it.")
    return chosen
