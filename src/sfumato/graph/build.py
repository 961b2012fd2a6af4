"""Two tables become a graph: which columns mean what, and how nodes and the ends of edges are numbered."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

import numpy as np

from sfumato.errors import DataError, SchemaError
from sfumato.graph._tables import FileTable, check_names, counted, known
from sfumato.graph.columns import check_ends, check_words, edge_names, feature_names, id_name
from sfumato.graph.graph import Graph
from sfumato.graph.reading import Nodes as Nodes
from sfumato.graph.reading import Reading as Reading
from sfumato.graph.runs import Packing, arc_keys, merge_runs, sort_keys
from sfumato.graph.schema import Schema, label_columns
from sfumato.graph.weights import Weighed

Numbers = Callable[[int], int]
"""Gives the number of a row in errors; rows of values are counted from 0."""
_BATCH = 1 << 22


def build_graph(
    nodes: Any, edges: Any, how: Reading, places: tuple[str, str], numbers: tuple[Numbers, Numbers] = (counted, counted)
) -> Graph:
    """Build a graph from two tables, each an Arrow table or a :class:`sfumato.graph._tables.FileTable`.

    Args:
        nodes: the node table.
        edges: the edge table.
        how: what the columns mean.
        places: name the two tables in errors.
        numbers: give the numbers of their rows in errors.

    Raises:
        DataError: a table is empty, lacks a column, or holds what does not fit.
        SchemaError: a table does not fit the schema.
    """
    found = read_facts(nodes, how, places[0], numbers[0])
    if how.told is not None:
        from sfumato.graph.described import edge_columns, node_columns

        how.told(places[0], node_columns(nodes, how, places[0], found))
        how.told(places[1], edge_columns(edges.column_names, how, places[1], found.ids))
    x, outside = _features(nodes, found)
    num_nodes, directed = len(found.ids), direction(how)
    runs, read, kept, weighed = [], 0, 0, Weighed(how.weight)
    for source, target, weights in edge_batches(edges, Places(found.ids), how, places, numbers[1]):
        weighed.append(source, target, weights)
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
    fields = weighed.of(fields, indptr, indices, pairs=not directed)
    return Graph.from_sorted(indptr, indices, directed=directed, **fields)


def read_facts(nodes: Any, how: Reading, place: str, number: Numbers) -> Nodes:
    """Read ids, labels, roles, bounds and the layout of features; ``place`` names the table in errors.

    Args:
        nodes: the node table.
        how: what the columns mean.
        place: names the table in errors.
        number: gives the number of a row in errors.

    Raises:
        DataError: the table is empty, lacks a column, or holds what does not fit.
        SchemaError: the table does not fit the schema.
    """
    from sfumato.graph import encode
    from sfumato.graph.features import check_num_features, lay_out

    schema, names = Schema.read(how.schema), nodes.column_names
    if nodes.num_rows == 0:
        raise DataError(f"Expected {place} to have at least one row, got none. A graph needs a node.")
    check_names(names, place)
    id_column = id_name(names, how, schema, place)
    ids = encode.encode_ids(nodes.column(id_column), f"column {id_column!r} of {place}", floats=True)
    _check_unique(ids, id_column, place, number)
    id_array = ids.to_numpy(zero_copy_only=False)
    id_array = id_array.astype(str) if id_array.dtype == object else id_array
    labels = [name for name in label_columns(how.label or schema.label) if known(names, name, place)]
    role = known(names, how.role or schema.role, place)
    named = next((column for column in how.text if column in (id_column, *labels, role)), None)
    if named is not None:
        raise DataError(f"Expected texts in columns other than id, label and role, got {named!r}. Remove it from text.")
    bound = known(names, schema.degree_column, place)
    columns = feature_names(names, how, schema, (id_column, *labels, role, bound, *how.text), place)
    layout = lay_out(types_of(nodes, columns), nodes.column, schema, id_array)
    check_num_features(layout.names, schema)
    for name, declared, categories in layout.parts:
        check_words(name, () if declared else categories or (), names, how, schema, place)
    assumed = list(layout.assumed)
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
    }
    return Nodes(ids, layout, fields)


def types_of(table: Any, columns: Sequence[str]) -> dict[str, Any]:
    """Return the Arrow types of columns of an Arrow table or a :class:`FileTable`, by name."""
    if isinstance(table, FileTable):
        return {name: table.types[name] for name in columns}
    return {name: table.schema.field(name).type for name in columns}


def feature_blocks(nodes: Any, found: Nodes, *, packed: bool = False) -> Iterator[tuple[Any, dict[str, int]]]:
    """Yield the features of rows after rows, and the counts of their values beyond the schema.

    Args:
        nodes: the node table.
        found: what :func:`read_facts` read of it.
        packed: give dense rows as :class:`~sfumato.graph.packed.PackedRows`.
    """
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

    from sfumato.graph._arrow import counted

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


class Places:
    """The numbers of nodes by their ids; ``ids`` is an Arrow array in the order of the nodes."""

    def __init__(self, ids: Any) -> None:
        import pyarrow as pa

        self.ids, self._table, self._low = ids, None, 0
        if ids.type == pa.int64():
            numbers = ids.to_numpy()
            low, high = int(numbers.min()), int(numbers.max())
            if high - low < 8 * len(numbers) + 1024:
                self._low, self._table = low, np.full(high - low + 1, -1, dtype=np.int32)
                self._table[numbers - low] = np.arange(len(numbers), dtype=np.int32)

    def holds(self, name: str) -> bool:
        """Say whether a text is the id of a node."""
        import pyarrow as pa

        from sfumato.graph._arrow import positions

        return bool(positions(pa.array([name], pa.large_string()), self.ids)[0] >= 0)

    def find(self, values: Any) -> np.ndarray:
        """Return the number of the node that each of an Arrow array of ids names, -1 for none.

        ``7.0`` names 7 where no id is written so.
        """
        import pyarrow as pa

        from sfumato.graph._arrow import is_text, positions
        from sfumato.graph.cells import without_fraction

        if self.ids.type == pa.int64() and is_text(values.type):
            values = without_fraction(values)
        elif is_text(values.type):
            found = positions(values, self.ids)
            lost = found < 0
            return np.where(lost, positions(without_fraction(values), self.ids), found) if lost.any() else found
        if self._table is None or values.type != self.ids.type or values.null_count:
            return positions(values, self.ids)
        numbers = values.to_numpy()
        if not len(numbers):
            return numbers.astype(np.int32)
        if numbers.min() < self._low or int(numbers.max()) - self._low >= len(self._table):
            return positions(values, self.ids)
        codes: np.ndarray = self._table[numbers - self._low]
        return codes


def edge_batches(
    edges: Any, nodes: Places, how: Reading, places: tuple[str, str], number: Numbers, rows: int = 0, skip: int = 0
) -> Iterator[tuple[np.ndarray, np.ndarray, np.ndarray | None]]:
    """Yield the numbers of both ends of edges and their weights (None where none are declared), rows after rows.

    Args:
        edges: an Arrow table, which is one batch, or a :class:`sfumato.graph._tables.FileTable`.
        nodes: the numbers of nodes.
        how: what the columns mean.
        places: name the nodes and the edge table in errors.
        number: gives the number of a row in errors.
        rows: how many rows a batch has; 0 takes the usual number.
        skip: how many rows are left out.

    Raises:
        DataError: an end is missing, or no node has its id, or a weight is none.
    """
    from sfumato.graph import encode

    check_names(edges.column_names, places[1])
    names = edge_names(edges.column_names, how, places[1])
    check_ends(names, edges.column_names, how, places[1], nodes.holds)
    weight = known(edges.column_names, how.weight and how.weight[0], places[1])
    if weight in names:
        raise DataError(
            f"Expected weights of {places[1]} beside its ends, got the column {weight!r} as both. Name another."
        )
    read = list(dict.fromkeys(filter(None, (*names, weight))))
    parts = edges.batches(read, rows or _BATCH, skip) if isinstance(edges, FileTable) else (edges,)
    for part in parts:
        ends = []
        for column in names:
            values = encode.encode_ids(part.column(column), f"column {column!r} of {places[1]}")
            codes = nodes.find(values)
            if len(codes) and codes.min() < 0:
                row = int(np.argmin(codes))
                problem = "an unknown node" if values[row].is_valid else "no node"
                raise DataError(
                    f"Expected every edge to link nodes of {places[0]}, but row {number(row + skip)} of {places[1]} has "
                    f"{problem} in column {column!r}. Add the node or remove the edge. Ends are read from "
                    f"the columns {' and '.join(map(repr, names))}: if others are meant, put them first."
                )
            ends.append(codes)
        here = partial(_shifted, number, skip)
        yield ends[0], ends[1], encode.encode_weights(weight, part.column(weight), places[1], here) if weight else None
        skip += part.num_rows


def endpoints(
    edges: Any, ids: Any, how: Reading, places: tuple[str, str], number: Numbers
) -> tuple[np.ndarray, np.ndarray]:
    """Find the numbers of both ends of every edge of an Arrow table.

    Args:
        edges: the edge table.
        ids: of the nodes, in the order of their numbers.
        how: what the columns mean.
        places: name the nodes and the edge table in errors.
        number: gives the number of a row in errors.

    Raises:
        DataError: an end is missing, or no node has its id.
    """
    return next(edge_batches(edges, Places(ids), how, places, number))[:2]


def _shifted(number: Numbers, first: int, row: int) -> int:
    return number(first + row)


def _check_unique(ids: Any, column: str, place: str, number: Numbers) -> None:
    if ids.null_count:
        from sfumato.graph.cells import MISSING

        row = int(np.argmax(ids.is_null().to_numpy(zero_copy_only=False)))
        raise DataError(
            f"Expected an id in every row of {place}, but row {number(row)} has none in column {column!r}. Fill it; "
            f"a cell counts as missing if it is empty, or one of {', '.join(MISSING)}."
        )
    from sfumato.graph._arrow import positions

    first = positions(ids, ids)
    again = np.flatnonzero(first != np.arange(len(first)))
    if len(again):
        row = int(again[0])
        raise DataError(
            f"Expected every node once, but column {column!r} of {place} has {ids[row].as_py()!r} in rows "
            f"{number(int(first[row]))} and {number(row)}. Remove one of them."
        )


def direction(how: Reading) -> bool:
    """Return whether arcs are declared directed: by the reading or its schema, else undirected.

    Raises:
        SchemaError: the two contradict each other.
    """
    schema = Schema.read(how.schema)
    declared = {value for value in (how.directed, schema.directed) if value is not None}
    if len(declared) == 2:
        raise SchemaError(
            f"Expected one direction, got directed={how.directed} beside directed={schema.directed} in the schema. "
            "Correct one of them."
        )
    return declared.pop() if declared else False
