"""Readers turn a node table and an edge table, from CSV, Parquet or a database, into a :class:`Graph`.

DuckDB reads the files; one path of Arrow tables follows, so that every source obeys the same rules. Node ids and names of
columns are public; values and the ends of edges may not be, so errors name their row and column instead.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sfumato._optional import require
from sfumato._validate import fail
from sfumato.errors import DataError
from sfumato.graph._dropped import check_drop, tell_beyond, tell_dropped
from sfumato.graph._owned import of_persons
from sfumato.graph._schema import Schema
from sfumato.graph._unique import tell_texts
from sfumato.tables._build import Reading, build_graph
from sfumato.tables._columns import by_place, edge_names, id_name, row_number, unread
from sfumato.tables._ends import Numbered
from sfumato.tables._id_column import named_by_ends
from sfumato.tables._persons import owners_of_nodes
from sfumato.tables._several import EdgeTables
from sfumato.tables._tables import (
    FileTable,
    counted,
    documents_of,
    existing,
    file_table,
    guarded,
    known,
    no_edges,
    numbering,
    table,
)
from sfumato.text._encoders import with_texts

if TYPE_CHECKING:
    from sfumato.graph._graph import Graph
    from sfumato.tables._cells import Told
    from sfumato.tables._ends import Numbers
    from sfumato.text._documents import Report


def read_csv(
    nodes: str | Path,
    edges: str | Path | Mapping[str, str | Path],
    *,
    label: str | Sequence[str] | None = None,
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
    edge_weight: str | None = None,
    max_weight: float | None = None,
    told: Told | None = None,
    drop: Sequence[str] = (),
    window: str | None = None,
    person: str | None = None,
    edges_per_person: int | None = None,
    nodes_per_person: int | None = None,
    edge_type: str | None = None,
    edge_types: Sequence[str] | None = None,
    public_types: Sequence[str] = (),
    split_by_time: str | None = None,
    recency: str | None = None,
) -> Graph:
    r"""Read a graph from a node file and an edge file, both CSV with a header row.

    Node file: one row for each node. ``id_column`` (default: a column called id or node, else the first) holds integers or
    text; ``label`` one class for each node, missing allowed, or several columns of 0 and 1
    (:class:`~sfumato.graph._targets.Targets`); ``role`` train, val, test or none; ``features`` (default: all other columns)
    numbers, or text and booleans that become one-hot columns, all zero where missing. All rows decide which
    (:mod:`sfumato.tables._cells` has the rule). A missing number becomes the middle of its declared range, else 0
    (:attr:`~sfumato.graph._schema.Column.default`); a row without any value becomes zeros.
    Edge file: one row for each edge; ``source`` and ``target`` default to columns of such names, else the first two.
    ``edge_weight`` names a column of weights >= 0, which are clipped to the public ``max_weight``
    (:mod:`sfumato.graph._weights`). Other columns are not read, and a :class:`~sfumato.errors.DroppedWarning` names them. A row
    that is there twice counts once; so does, if undirected (the default, unless the schema says otherwise), a row beside its
    reverse. Weights of such rows are added. How many were merged is in ``Graph.merged``, which is as private as the edges.
    ``schema`` declares what is public (see :class:`Schema`); what it leaves open is read off the data and listed in
    ``Graph.assumed_public``. Numbers beyond a declared range are clipped to it; a category or class that is not declared
    counts as missing; ``Graph.outside`` counts both.

    Errors: :class:`~sfumato.errors.DataError` naming file, column and row, never a value;
    :class:`~sfumato.errors.SchemaError` where a table does not fit the schema.

    Args:
        nodes: path of the node file.
        edges: path of the edge file, or paths by the name of the type of their edges, where each has a file of its own.
        label: column of the classes, or columns of several labels; None takes the schema's word, else reads no labels.
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
        text_features: names the encoder of the texts, such as ``hashing`` (see :mod:`sfumato.text._encoders`).
        report: is told how far texts are encoded.
        edge_weight: column of the edges' weights; None takes the schema's word, else reads none.
        max_weight: the weight that counts in full, known without this data; None takes the schema's word.
        told: is told of each table what its columns were taken for (:class:`~sfumato.tables._cells.ReadColumn`).
        drop: columns of either table that are left out, beside those of the schema.
        window: COLUMN=WINDOW reads only the edges whose time lies in a public window, such as ``date=2026-03``
            (:mod:`sfumato.tables._windows` says what a time is).
        person: column that names who owns a row: of the edge file with ``edges_per_person``, for
            :class:`~sfumato.privacy.units.PersonLevel`; of the node file with ``nodes_per_person``, for
            :class:`~sfumato.privacy.units.PersonNodesLevel`.
        edges_per_person: the most distinct edges that one person adds to the graph, known without this data; a choice that reads
            only this person's rows leaves out the others (:mod:`sfumato.graph._persons`).
        nodes_per_person: the most nodes of one person that are read, known without this data; a choice by this person's ids
            leaves out the others, with all of their edges (:mod:`sfumato.graph._owned`).
        edge_type: column of the edges' types, if there are several kinds of links (:mod:`sfumato.graph._types`), or
            COLUMN:PERIOD, such as ``date:quarter``, where windows of time are the types; None takes the schema's word, else every
            edge is of one kind.
        edge_types: all types, known without this data; None takes the schema's word.
        public_types: those of them whose edges are no secret.
        split_by_time: COLUMN:DATE reads the edges before a public day, such as ``date:2026-03-01``, and keeps those from it on
            apart, as ``Graph.later``: links to score, which no method reads (:mod:`sfumato.graph._later`).
        recency: COLUMN:HALFLIFE@DATE, such as ``date:90d@2026-03-01``: the weight of a row halves with each half-life of age on
            this public day, and is 1 from it on; times its ``edge_weight``, if it has one. Without one ``max_weight`` is 1. The
            day of a split, or the last day of a window, stands in for DATE.

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
        text_features, report, edge_weight, max_weight, told, drop, window, person, edges_per_person, nodes_per_person,
        edge_type, edge_types, () if isinstance(edges, Mapping) else public_types, split_by_time, recency,
    )  # fmt: skip
    if isinstance(edges, Mapping):
        files = {name: (file_table(path), str(path), numbering(path)) for name, path in edges.items()}
        return read_several((file_table(nodes), str(nodes), numbering(nodes)), files, how, public_types)
    numbers = numbering(nodes), numbering(edges)
    return read_tables(file_table(nodes), file_table(edges), how, (str(nodes), str(edges)), numbers)


def read_parquet(nodes: str | Path, edges: str | Path | Mapping[str, str | Path], **how: Any) -> Graph:
    """Read a graph from a node file and an edge file, both Parquet. Keyword arguments are those of :func:`read_csv`.

    Columns are read one after the other and edges in batches, so that no second copy of features or edges is held.
    """
    if isinstance(edges, Mapping):
        files = {name: (FileTable(path), str(path), counted) for name, path in edges.items()}
        public = how.pop("public_types", ())
        return read_several((FileTable(nodes), str(nodes), counted), files, Reading(**how), public)
    return read_tables(FileTable(nodes), FileTable(edges), Reading(**how), (str(nodes), str(edges)))


def read_several(
    nodes: tuple[Any, str, Numbers], edges: Mapping[str, tuple[Any, str, Numbers]], how: Reading, public: Any
) -> Graph:
    """Build a graph from a table of nodes and several of edges, each with its place and numbers of rows, by their types.

    ``public`` are the types that are no secret.
    """
    tables, (people, place, number) = EdgeTables.of(edges, how, public), nodes
    places = place, ", ".join(own for _, own, _ in tables.tables.values())
    return read_tables(people, tables, how, places, (number, counted))


def read_tables(
    nodes: Any, edges: Any, how: Reading, places: tuple[str, str], numbers: tuple[Numbers, Numbers] = (counted, counted)
) -> Graph:
    """Build a graph from two tables, and name the columns of edges that are not read; ``numbers`` give the rows in errors."""
    check_drop(how.left_out, nodes.column_names, edges.column_names, places)
    graph = build_graph(nodes, edges, how, places, numbers)
    several = edges.tables.values() if isinstance(edges, EdgeTables) else [(edges, places[1], numbers[1])]
    for part, own, _ in several:
        ends = edge_names(part.column_names, how, own)
        used = {*ends, *how.of_edges, how.owner and how.owner[0], *how.left_out}
        tell_dropped(unread(part.column_names, [*used]), own, 2, weighted=bool(how.weight))
    if how.text_features is not None:
        graph = with_texts(graph, documents_of(nodes, how.text, places[0]), how.text_features, how.report)
    tell_texts(graph.assumed_public, places[0], 2)
    if how.account is None:
        return graph
    kept = of_persons(graph, owners_of_nodes(nodes, how.account[0], places[0]), how.account[1])
    tell_beyond(graph.num_nodes - kept.num_nodes, graph.num_nodes, how.account[1], places[0], 2)
    return kept


def special_columns(nodes: str | Path, edges: str | Path, **how: Any) -> tuple[str, str, str]:
    """Return the names of the column of ids of a node file, and of both ends of an edge file."""
    reading = Reading(**how)
    names, links = FileTable(nodes).column_names, FileTable(edges).column_names
    reading = named_by_ends(reading, names, links, str(edges))
    own = id_name(names, reading, Schema.read(reading.schema), str(nodes))
    return own, *edge_names(links, reading, str(edges))


def read_column(path: str | Path, name: str) -> Any:
    file = FileTable(path)
    known(file.column_names, name, file.place)
    return file.column(name)


def read_texts(
    nodes: str | Path,
    text: Sequence[str],
    text_features: str,
    *,
    schema: Schema | Mapping[str, Any] | str | Path | None = None,
    report: Report | None = None,
) -> Graph:
    """Read the texts of a node file as features; no other column is read, and there are no edges."""
    declared = Schema(id=Schema.read(schema).id)
    how = Reading(schema=declared, features=(), text=text, text_features=text_features, report=report)
    return read_tables(file_table(nodes), no_edges(), how, (str(nodes), "no edges"), (numbering(nodes), counted))


def read_ends(edges: str | Path) -> tuple[list[str], list[str]]:
    r"""Read both ends of every edge of a CSV or Parquet file, as texts.

    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     _ = Path(folder, "edges.csv").write_text("from,to,weight\nann,7,1\n")
    ...     read_ends(Path(folder, "edges.csv"))
    (['ann'], ['7'])
    """
    from sfumato.tables import _encode as encode

    how = Reading()
    table = file_table(edges)
    ends, names = [], edge_names(table.column_names, how, str(edges))
    numbered = Numbered(names if len(by_place(table.column_names, how)) > 2 else ())
    for column in names:
        ids = encode.encode_ids(table.column(column), f"column {column!r} of {edges}")
        if ids.null_count:
            raise DataError(f"Expected two ends in every row of {edges}, but column {column!r} lacks one. Fill it.")
        numbered.see(column, ids)
        ends.append([str(one) for one in ids.to_pylist()])
    if (odd := numbered.still()) is not None:
        raise row_number(odd, str(edges))
    return ends[0], ends[1]


def read_alone(
    nodes: str | Path, *, label: str | None = None, schema: str | None = None, features: bool = True
) -> Graph:
    """Read a node file as a graph without edges; its ids are texts."""
    declared = Schema.read(schema)
    declared = declared if features else replace(declared, columns={}, num_features=None)
    how = Reading(label=label, schema=declared, features=None if features else ())
    graph = build_graph(file_table(nodes), no_edges(), how, (str(nodes), "no edges"), (numbering(nodes), counted))
    ids = graph.node_ids
    return replace(graph, node_ids=None if ids is None else ids.astype(str))


def read_sql(connection: Any, nodes: str, edges: str | Mapping[str, str], **how: Any) -> Graph:
    """Read a graph from two queries over anything that DuckDB reaches.

    ``connection`` is an open DuckDB connection, which stays open, or the path of a database, which is only read.
    ``nodes`` and ``edges`` are queries, or ``edges`` several, by the types of edges. Keyword arguments as :func:`read_csv`.

    Raises:
        InputError: ``connection`` is one of another database.

    >>> import duckdb
    >>> edges = "SELECT * FROM (VALUES (1, 2), (2, 3)) AS links(source, target)"
    >>> with duckdb.connect() as connection:
    ...     read_sql(connection, "SELECT range AS id, range / 2 AS age FROM range(1, 4)", edges)
    Graph('graph', 3 nodes, 2 undirected edges, 1 features, 0 classes)
    """
    duckdb = require("duckdb")
    if isinstance(connection, str | Path):
        path = existing(connection)
        with guarded(partial(duckdb.connect, str(path), read_only=True), str(path)) as opened:
            return read_sql(opened, nodes, edges, **how)
    if connection is not duckdb and not isinstance(connection, duckdb.DuckDBPyConnection):
        raise fail(
            "connection", type(connection).__name__, "to be an open connection of DuckDB, or the path of a database",
            "DuckDB reads others, such as ATTACH 'people.sqlite' (TYPE sqlite); or pass data frames to from_frames.",
        )  # fmt: skip
    node_table = table(partial(connection.sql, nodes), "the nodes query")
    if isinstance(edges, Mapping):
        public, parts = how.pop("public_types", ()), {}
        for name, query in edges.items():
            parts[name] = table(partial(connection.sql, query), f"query {name!r}"), f"query {name!r}", counted
        return read_several((node_table, "the nodes query", counted), parts, Reading(**how), public)
    edge_table = table(partial(connection.sql, edges), "the edges query")
    return read_tables(node_table, edge_table, Reading(**how), ("the nodes query", "the edges query"))
