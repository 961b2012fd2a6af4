"""Two tables become a graph: which columns mean what, and how nodes and the ends of edges are numbered."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from sfumato.errors import DataError, InputError, SchemaError
from sfumato.graph._tables import FileTable, known
from sfumato.graph.bounds import bounds_in
from sfumato.graph.graph import Graph
from sfumato.graph.runs import Packing, arc_keys, merge_runs, sort_keys
from sfumato.graph.schema import Schema, label_columns
from sfumato.graph.weights import Weighed, declared_weight

if TYPE_CHECKING:
    from sfumato.graph.documents import Report

_BATCH = 1 << 22
_ID_NAMES = ("id", "node_id", "node", "nodeid")
_SOURCE_NAMES = ("source", "src", "from", "u", "node1", "node_1", "source_id", "from_id")
_TARGET_NAMES = ("target", "dst", "to", "v", "node2", "node_2", "target_id", "to_id")


@dataclass(frozen=True)
class Reading:
    """A reading says how two tables become a graph: the keyword arguments that all readers share (see :func:`read_csv`).

    ``label``, ``schema``, ``directed``, ``id_column``, ``role``, ``features``, ``source``, ``target``, ``self_loops``,
    ``name``, ``text``, ``text_features``, ``edge_weight`` and ``max_weight`` are explained there. ``report`` is told of texts.

    Raises:
        InputError: ``text`` or ``text_features`` is given without the other.
    """

    label: str | Sequence[str] | None = None
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
    edge_weight: str | None = None
    max_weight: float | None = None

    def __post_init__(self) -> None:
        if bool(self.text) != (self.text_features is not None):
            raise InputError(
                f"Expected columns of texts and their encoder together, got text={self.text!r} and "
                f"text_features={self.text_features!r}. Name both, such as text=['abstract'] and text_features='hashing'."
            )

    @property
    def weight(self) -> tuple[str, float] | None:
        """The column of the weights of edges and their public bound; None where edges have none."""
        return declared_weight(self.edge_weight, self.max_weight, Schema.read(self.schema).edges)


@dataclass(frozen=True)
class Nodes:
    """A read node table: everything but the values of features.

    ``ids`` is an Arrow array in the order of the nodes, ``layout`` says what the columns of features become (see
    :class:`sfumato.graph.features.Layout`), and ``fields`` are those of :class:`Graph`.
    """

    ids: Any
    layout: Any
    fields: dict[str, Any]


def build_graph(nodes: Any, edges: Any, how: Reading, places: tuple[str, str], first_row: int = 1) -> Graph:
    """Build a graph from two tables, each an Arrow table or a :class:`sfumato.graph._tables.FileTable`.

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
    found = read_facts(nodes, how, places[0], first_row)
    x, outside = _features(nodes, found)
    num_nodes, directed = len(found.ids), direction(how)
    runs, rows, kept, weighed = [], 0, 0, Weighed(how.weight)
    for source, target, weights in edge_batches(edges, Places(found.ids), how, places, first_row):
        weighed.append(source, target, weights)
        keys = arc_keys(source, target, num_nodes, directed=directed, self_loops=how.self_loops, first=rows)
        rows, kept = rows + len(source), kept + len(keys) // (1 if directed else 2)
        runs.append(sort_keys(keys, num_nodes))
    packing, indices = Packing(num_nodes, directed=directed), np.empty(sum(map(len, runs)), dtype=np.int32)
    stop = 0
    for keys in merge_runs(runs, _BATCH):
        targets = packing.targets(keys)
        indices[stop : stop + len(targets)] = targets
        stop += len(targets)
    indices.resize(stop, refcheck=False)
    outside = found.fields["outside"] | outside
    fields = {**found.fields, "outside": outside, "x": x, "merged": packing.merged(rows, rows - kept)}
    indptr = packing.indptr()
    fields = weighed.of(fields, indptr, indices, pairs=not directed)
    return Graph.from_sorted(indptr, indices, directed=directed, **fields)


def read_facts(nodes: Any, how: Reading, place: str, first_row: int) -> Nodes:
    """Read ids, labels, roles, bounds and the layout of features; ``place`` names the table in errors.

    Args:
        nodes: the node table.
        how: what the columns mean.
        place: names the table in errors.
        first_row: the number of row 0 in errors.

    Raises:
        DataError: the table is empty, lacks a column, or holds what does not fit.
        SchemaError: the table does not fit the schema.
    """
    from sfumato.graph import encode
    from sfumato.graph.features import check_num_features, lay_out

    schema, names = Schema.read(how.schema), nodes.column_names
    if nodes.num_rows == 0:
        raise DataError(f"Expected {place} to have at least one row, got none. A graph needs a node.")
    id_column = id_name(names, how, schema, place)
    ids = encode.encode_ids(nodes.column(id_column), f"column {id_column!r} of {place}")
    _check_unique(ids, id_column, place, first_row)
    id_array = ids.to_numpy(zero_copy_only=False)
    id_array = id_array.astype(str) if id_array.dtype == object else id_array
    labels = [name for name in label_columns(how.label or schema.label) if known(names, name, place)]
    role = known(names, how.role or schema.role, place)
    named = next((column for column in how.text if column in (id_column, *labels, role)), None)
    if named is not None:
        raise DataError(f"Expected texts in columns other than id, label and role, got {named!r}. Remove it from text.")
    bound = known(names, schema.degree_column, place)
    columns = _feature_names(names, how, schema, (id_column, *labels, role, bound, *how.text), place)
    layout = lay_out({name: nodes.schema.field(name).type for name in columns}, nodes.column, schema, id_array)
    check_num_features(layout.names, schema)
    assumed = list(layout.assumed)
    if schema.num_features is None and not set(columns) <= set(schema.columns):
        assumed.insert(0, "num_features")
    fields: dict[str, Any] = {"classes": schema.classes or (), "outside": {}}
    if len(labels) > 1 or (labels and schema.target):
        targets, beyond = encode.encode_targets({name: nodes.column(name) for name in labels}, schema, id_array)
        fields = {"targets": targets, "outside": {labels[0]: beyond} if beyond else {}}
    elif labels:
        classes = encode.encode_labels(labels[0], nodes.column(labels[0]), schema, id_array)
        fields = {"y": classes.y, "classes": classes.classes, "outside": classes.outside}
        assumed += ["classes"] * (schema.classes is None)
    fields |= {
        "node_ids": id_array,
        "feature_names": layout.names,
        "ranges": layout.ranges,
        "roles": None if role is None else encode.encode_roles(role, nodes.column(role), id_array),
        "name": how.name,
        "max_degree": schema.max_degree,
        "mean_degree": schema.mean_degree,
        "degree_bounds": None if bound is None else bounds_in(bound, nodes.column(bound).to_numpy(), id_array),
        "assumed_public": tuple(assumed),
    }
    return Nodes(ids, layout, fields)


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

    def find(self, values: Any) -> np.ndarray:
        """Return the number of the node that each of an Arrow array of ids names, -1 for none."""
        from sfumato.graph._arrow import positions

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
    edges: Any, nodes: Places, how: Reading, places: tuple[str, str], first_row: int, rows: int = 0, skip: int = 0
) -> Iterator[tuple[np.ndarray, np.ndarray, np.ndarray | None]]:
    """Yield the numbers of both ends of edges and their weights (None where none are declared), rows after rows.

    Args:
        edges: an Arrow table, which is one batch, or a :class:`sfumato.graph._tables.FileTable`.
        nodes: the numbers of nodes.
        how: what the columns mean.
        places: name the nodes and the edge table in errors.
        first_row: the number of row 0 in errors.
        rows: how many rows a batch has; 0 takes the usual number.
        skip: how many rows are left out.

    Raises:
        DataError: an end is missing, or no node has its id, or a weight is none.
    """
    from sfumato.graph import encode

    names = edge_names(edges.column_names, how, places[1])
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
                    f"Expected every edge to link nodes of {places[0]}, but row {row + skip + first_row} of {places[1]} has "
                    f"{problem} in column {column!r}. Add the node or remove the edge. Ends are read from "
                    f"the columns {' and '.join(map(repr, names))}: if others are meant, put them first."
                )
            ends.append(codes)
        row = skip + first_row
        yield ends[0], ends[1], encode.encode_weights(weight, part.column(weight), places[1], row) if weight else None
        skip += part.num_rows


def endpoints(
    edges: Any, ids: Any, how: Reading, places: tuple[str, str], first_row: int
) -> tuple[np.ndarray, np.ndarray]:
    """Find the numbers of both ends of every edge of an Arrow table.

    Args:
        edges: the edge table.
        ids: of the nodes, in the order of their numbers.
        how: what the columns mean.
        places: name the nodes and the edge table in errors.
        first_row: the number of row 0 in errors.

    Raises:
        DataError: an end is missing, or no node has its id.
    """
    return next(edge_batches(edges, Places(ids), how, places, first_row))[:2]


def _check_unique(ids: Any, column: str, place: str, first_row: int) -> None:
    if ids.null_count:
        row = int(np.argmax(ids.is_null().to_numpy(zero_copy_only=False)))
        raise DataError(
            f"Expected an id in every row of {place}, but row {row + first_row} has none in column {column!r}. Fill it."
        )
    from sfumato.graph._arrow import positions

    first = positions(ids, ids)
    again = np.flatnonzero(first != np.arange(len(first)))
    if len(again):
        row = int(again[0])
        raise DataError(
            f"Expected every node once, but column {column!r} of {place} has {ids[row].as_py()!r} in rows "
            f"{int(first[row]) + first_row} and {row + first_row}. Remove one of them."
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


def id_name(names: list[str], how: Reading, schema: Schema, place: str) -> str:
    """Return the column that holds the ids; ``place`` names the table in errors.

    Args:
        names: the columns of the table.
        how: may name the column.
        schema: may name the column.
        place: names the table in errors.
    """
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
