"""Two tables become a graph: which columns mean what, and how nodes and the ends of edges are numbered."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

import numpy as np

from sfumato.errors import DataError, SchemaError
from sfumato.graph._graph import Graph
from sfumato.graph._later import with_later
from sfumato.graph._schema import Schema, label_columns
from sfumato.graph._types import with_types
from sfumato.graph._weights import with_weights
from sfumato.tables._columns import (
    check_no_roles,
    check_order,
    check_words,
    feature_names,
    id_name,
    needed,
    passed,
    usual_id,
)
from sfumato.tables._ends import Numbered, Numbers, Places, edge_batches
from sfumato.tables._id_column import check_counts, named_by_ends
from sfumato.tables._persons import capped
from sfumato.tables._reading import Nodes as Nodes
from sfumato.tables._reading import Reading as Reading
from sfumato.tables._runs import Packing, arc_keys, merge_runs, sort_keys
from sfumato.tables._several import EdgeTables
from sfumato.tables._tables import FileTable, check_names, counted, known

_BATCH = 1 << 22


def build_graph(
    nodes: Any, edges: Any, how: Reading, places: tuple[str, str], numbers: tuple[Numbers, Numbers] = (counted, counted)
) -> Graph:
    """Build a graph from two tables, each an Arrow table or a :class:`sfumato.tables._tables.FileTable`.

    In place of the second there may be several, one for each type of edges (:class:`sfumato.tables._several.EdgeTables`).
    """
    several = edges if isinstance(edges, EdgeTables) else None
    if several is None:
        check_order(nodes.column_names, edges.column_names, how, places)
    else:
        several.check_order(nodes.column_names, how, places[0])
    how = named_by_ends(how, nodes.column_names, edges.column_names, places[1])
    found = read_facts(nodes, how, places[0], numbers[0])
    if how.told is not None:
        from sfumato.tables._described import edge_columns, node_columns

        how.told(places[0], node_columns(nodes, how, places[0], found))
        tables = {places[1]: edges} if several is None else {own: table for table, own, _ in several.tables.values()}
        for own, table in tables.items():
            how.told(own, edge_columns(table.column_names, how, own, found.ids))
    x, outside = _features(nodes, found)
    num_nodes, directed = len(found.ids), direction(how)
    runs, read, kept = [], 0, 0
    weighed: list[Any] = [(np.empty(0, np.int64), np.empty(0, np.int64), np.empty(0))]

    def rows(*, late: bool) -> Any:
        if several is not None:
            return several.batches(Places(found.ids), how, places[0], late=late)
        return edge_batches(edges, Places(found.ids), how, places, numbers[1], late=late)

    batches = rows(late=False)
    if how.owner is not None:
        batches = capped(batches, found.ids, how.owner[1], directed=directed)
    for source, target, weights, _ in batches:
        weighed += [] if weights is None else [(source, target, weights)]
        keys = arc_keys(source, target, num_nodes, directed=directed, self_loops=how.self_loops, first=read)
        read, kept = read + len(source), kept + len(keys) // (1 if directed else 2)
        runs.append(sort_keys(keys, num_nodes))
    packing, indices = Packing(num_nodes, directed=directed), np.empty(sum(map(len, runs)), dtype=np.int32)
    stop = 0
    for keys in merge_runs(runs, _BATCH):
        targets = packing.targets(keys)
        indices[stop : stop + len(targets)] = targets
        stop += len(targets)
    indices.resize(stop, refcheck=False)
    outside = found.fields["outside"] | outside
    fields = {**found.fields, "outside": outside, "x": x, "merged": packing.merged(read, read - kept)}
    indptr = packing.indptr()
    if how.weight is not None:
        source, target, weights = (np.concatenate(part) for part in zip(*weighed, strict=True))
        fields |= {"edge_weight": weights, "max_weight": how.weight[1]}
        fields = with_weights(fields, (indptr, indices), (source, target), pairs=not directed)
    types = how.types if several is None else (None, several.names, several.public)
    if types is not None:
        source, target, kinds = (np.concatenate(part) for part in zip(*weighed, strict=True))
        fields |= {"edge_type": kinds.astype(np.int64), "edge_types": types[1], "public_types": types[2]}
        fields = with_types(fields, (indptr, indices), (source, target), pairs=not directed)
    graph = Graph.from_sorted(indptr, indices, directed=directed, **fields)
    if how.split_by_time is None:
        return graph
    late = ((source, target) for source, target, _, _ in rows(late=True))
    return with_later(graph, str(how.within), late, places[1])


def read_facts(nodes: Any, how: Reading, place: str, number: Numbers) -> Nodes:
    """Read ids, labels, roles, bounds and the layout of features; ``place`` names the table in errors."""
    from sfumato.tables import _encode as encode
    from sfumato.tables._features import check_num_features, lay_out

    schema, names = Schema.read(how.schema), nodes.column_names
    if nodes.num_rows == 0:
        raise DataError(f"Expected {place} to have at least one row, got none. A graph needs a node.")
    check_names(names, place)
    id_column = id_name(names, how, schema, place)
    ids = encode.encode_ids(nodes.column(id_column), f"column {id_column!r} of {place}", floats=True)
    by_place = not (how.id_column or schema.id or usual_id([id_column]))
    for name in passed(names, how) if by_place else ():
        if _numbers_nodes(nodes.column(name)):
            since = "it stands first and has another value in every row (if others are the ids, call them id)"
            needed(name, how, place, f"id, since {since}")
    _check_unique(ids, id_column, place, number, by_place=by_place)
    id_array = ids.to_numpy(zero_copy_only=False)
    id_array = id_array.astype(str) if id_array.dtype == object else id_array
    labels = [name for name in label_columns(how.label or schema.label) if known(names, name, place)]
    role = known(names, how.role or schema.role, place)
    named = next((column for column in how.text if column in (id_column, *labels, role)), None)
    if named is not None:
        raise DataError(f"Expected texts in columns other than id, label and role, got {named!r}. Remove it from text.")
    if id_column in labels[:1] and not (schema.target or labels[1:]):
        raise DataError(
            f"Expected a label that groups the nodes of {place}, got {id_column!r}, which holds their ids. Name another column, "
            "or that of the ids with id_column (id in the schema)."
        )
    bound = known(names, schema.degree_column, place)
    owner = None if how.account is None else known(names, how.account[0], place)
    if owner in (id_column, *labels, role, bound, *how.text) and owner is not None:
        raise DataError(
            f"Expected persons of {place} in a column of their own, got {owner!r}, which is read as id, label, role, bound or "
            "text. Name another; a person who is one node is protected by node."
        )
    columns = feature_names(names, how, schema, (id_column, *labels, role, bound, owner, *how.text), place)
    if by_place:
        check_counts(nodes, ids, id_column, how, place)
    types = (
        nodes.types if isinstance(nodes, FileTable) else dict(zip(nodes.column_names, nodes.schema.types, strict=True))
    )
    layout = lay_out({name: types[name] for name in columns}, nodes.column, schema, id_array)
    check_num_features(layout.names, schema)
    for name, declared, categories in layout.parts:
        check_words(name, () if declared else categories or (), names, how, schema, place)
        if declared is None and name not in (how.features or ()):
            check_no_roles(name, categories or (), place)
    assumed, undeclared = list(layout.assumed), list(layout.undeclared)
    if not schema.fixes(columns):
        assumed.insert(0, "num_features")
    fields: dict[str, Any] = {"classes": schema.classes or (), "outside": {}}
    if len(labels) > 1 or (labels and schema.target):
        targets, beyond = encode.encode_targets({name: nodes.column(name) for name in labels}, schema, id_array)
        fields = {"targets": targets, "outside": {labels[0]: beyond} if beyond else {}}
    elif labels:
        classes = encode.encode_labels(labels[0], nodes.column(labels[0]), schema, id_array)
        fields = {"y": classes.y, "classes": classes.classes, "outside": classes.outside}
        check_words(labels[0], () if schema.classes else classes.classes, names, how, schema, place)
        assumed += classes.assumed
        undeclared += classes.undeclared
    fields |= {
        "node_ids": id_array,
        "feature_names": layout.names,
        "ranges": layout.ranges,
        "roles": None if role is None else encode.encode_roles(role, nodes.column(role), id_array),
        "name": how.name,
        "max_degree": schema.max_degree,
        "mean_degree": schema.mean_degree,
        "degree_bounds": None if bound is None else encode.encode_bounds(bound, nodes.column(bound), id_array),
        "assumed_public": tuple(assumed),
        "undeclared": tuple(undeclared),
        "window": how.window,
        "edges_per_person": how.owner and how.owner[1],
    }
    return Nodes(ids, layout, fields)


def feature_blocks(nodes: Any, found: Nodes, *, packed: bool = False) -> Iterator[tuple[Any, dict[str, int]]]:
    """Yield the features of rows after rows, and the counts of their values beyond the schema."""
    encode = found.layout.packed if packed and not found.layout.sparse else found.layout.rows
    names, ids = [name for name, _, _ in found.layout.parts], found.fields["node_ids"]
    rows = max(1024, _BATCH // max(1, len(found.layout.names)))
    parts = nodes.batches(names, rows) if isinstance(nodes, FileTable) else (nodes.select(names),)
    start = 0
    for part in parts:
        stop = start + part.num_rows
        yield encode({name: part.column(name) for name in names}, ids[start:stop])
        start = stop


def _features(nodes: Any, found: Nodes) -> tuple[Any, dict[str, int]]:
    import scipy.sparse as sp

    from sfumato.tables._arrow import counted

    layout, outside, blocks, start = found.layout, Counter[str](), [], 0
    if not layout.names:
        return None, {}
    dense = None if layout.sparse else np.empty((len(found.ids), len(layout.names)), dtype=np.float32)
    for block, beyond in feature_blocks(nodes, found):
        outside.update(beyond)
        if dense is None:
            blocks.append(block)
        else:
            dense[start : start + len(block)] = block
            start += len(block)
    return (sp.vstack(blocks, format="csr") if dense is None else dense), counted(outside)


def _check_unique(ids: Any, column: str, place: str, number: Numbers, *, by_place: bool) -> None:
    if ids.null_count:
        from sfumato.tables._cells import MISSING

        row = int(np.argmax(ids.is_null().to_numpy(zero_copy_only=False)))
        raise DataError(
            f"Expected an id in every row of {place}, but row {number(row)} has none in column {column!r}. Fill it; "
            f"a cell counts as missing if it is empty, or one of {', '.join(MISSING)}."
        )
    from sfumato.tables._arrow import positions

    first = positions(ids, ids)
    again = np.flatnonzero(first != np.arange(len(first)))
    if len(again):
        row, rows = int(again[0]), f"{number(int(first[again[0]]))} and {number(int(again[0]))}"
        if by_place:
            raise DataError(
                f"Expected every node once, but the ids of {place} were taken from its first column {column!r}, since nothing "
                f"names them, and it has the same value in rows {rows}. Remove one of them, or call the column of ids id."
            )
        raise DataError(
            f"Expected every node once, but column {column!r} of {place} has {ids[row].as_py()!r} in rows {rows}. Remove one of "
            "them."
        )


def _numbers_nodes(column: Any) -> bool:
    """Whether a column has another value in every row, and does more than number the rows."""
    import pyarrow.compute as pc

    from sfumato.tables import _encode as encode

    try:
        values = encode.encode_ids(column, "", floats=True)
    except DataError:
        return False
    rows = Numbered([""])
    rows.see("", values)
    return not values.null_count and int(pc.count_distinct(values).as_py()) == len(values) and not rows.rows("")


def direction(how: Reading) -> bool:
    """Return whether arcs are declared directed: by the reading or its schema, else undirected."""
    schema = Schema.read(how.schema)
    declared = {value for value in (how.directed, schema.directed) if value is not None}
    if len(declared) == 2:
        raise SchemaError(
            f"Expected one direction, got directed={how.directed} beside directed={schema.directed} in the schema. "
            "Correct one of them."
        )
    return declared.pop() if declared else False
