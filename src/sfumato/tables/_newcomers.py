"""Nodes that arrive after a graph was read: their rows, and the arcs that reach them.

An edge is *new* if at least one of its ends is. An edge between two nodes that were there before is refused: it was there, or
was absent, when the graph was read, and an earlier release may have said so.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from sfumato.errors import DataError
from sfumato.graph._arcs import pack_arcs, pack_edges
from sfumato.graph._facts import ROLES
from sfumato.graph._graph import Graph, PublicFacts
from sfumato.graph._schema import Column, Schema, label_columns, trimmed
from sfumato.tables._new_columns import check_named, columns_of, id_column_of, table_of, unnamed
from sfumato.text._encoders import of_texts, with_texts

if TYPE_CHECKING:
    from collections.abc import Mapping


_TEST = 2
_WHOLE = re.compile(r"^\+?(-?\d+)(\.0*)?$")


@dataclass(frozen=True, eq=False, repr=False)
class Newcomers(Graph):
    """Nodes that arrived together, with the arcs that lead to them from each other and from nodes that were there before.

    As a graph they have no arcs, no labels, and role test. Nodes have numbers: newcomers first, from 0 on, then those of
    each graph of ``known``, in order. Arcs grouped by source, ``reach_indptr`` int64 [num_known + num_nodes + 1] and
    ``reach_indices`` int32, lead to newcomers alone. Arcs from newcomers to known nodes are read by nobody, and dropped. Their
    edges have no weights.

    ``known`` holds the trained graph and then those of earlier arrivals.

    >>> known = Graph.from_edges([0], [1], 2, directed=False)
    >>> late = Graph.from_edges([], [], 1, directed=False, node_ids=np.array([7]))
    >>> Newcomers.join(late, [known], [0], [2]).reach_indices.tolist()
    [0]
    """

    known: tuple[Graph, ...] = ()
    reach_indptr: np.ndarray = field(default_factory=lambda: np.zeros(1, np.int64))
    reach_indices: np.ndarray = field(default_factory=lambda: np.zeros(0, np.int32))

    @classmethod
    def join(
        cls, nodes: Graph, known: Sequence[Graph], source: Any, target: Any, number: Callable[[int], int] = int
    ) -> Newcomers:
        """Join nodes to the graphs that were there before, by new edges.

        Args:
            nodes: the nodes that arrive, with features; its arcs and labels are not read.
            known: the trained graph, then earlier arrivals.
            source: numbers of the edges' first ends, [num_rows]: newcomers from 0 on, then the nodes of each known graph.
            target: numbers of their second ends.
            number: gives the number of a row in errors.

        Raises:
            DataError: a node was there before, an edge has no new end, or direction or columns differ.
        """
        trained = known[0]
        for name in ("directed", "num_features", "feature_names"):
            if getattr(nodes, name) != getattr(trained, name):
                raise DataError(
                    f"Expected the nodes that arrive to have the {name} of the trained graph, got others. Read them with "
                    "read_newcomers, or with the schema of that graph."
                )
        check_first(nodes, known)
        new = nodes.num_nodes
        total = new + sum(graph.num_nodes for graph in known)
        old = np.flatnonzero(np.minimum(source, target) >= new)
        if len(old):
            raise DataError(
                f"Expected every new edge to have an end among the nodes that arrive, but row {number(int(old[0]))} links "
                "two nodes that were there before. An earlier release may have read that edge, or its absence. Remove the row."
            )
        indptr, indices, merged = (pack_arcs if nodes.directed else pack_edges)(source, target, total)
        before = np.concatenate(([0], np.cumsum(indices < new, dtype=np.int64)))
        values: dict[str, Any] = {one.name: getattr(nodes, one.name) for one in fields(Graph)}
        values |= {
            "indptr": np.zeros(new + 1, np.int64),
            "indices": np.zeros(0, np.int32),
            "merged": merged,
            "weights": None,
            "types": None,
            "_checked": (),
        }
        values |= {"y": None, "classes": trained.classes, "roles": np.full(new, _TEST, np.uint8), "name": trained.name}
        values |= {"max_degree": None, "mean_degree": None, "known": (*known,)}
        return cls(**values, reach_indptr=before[indptr], reach_indices=indices[indices < new])

    def public_facts(self, unit: Any, *, assume_public: bool = True) -> PublicFacts:
        """Return what calibration may know of the newcomers; ``unit`` is the privacy unit.

        Their arcs are not counted, and their roles, all the same, follow from no label. What nobody declared was taken for public
        when the trained graph was fitted (``assume_public``): columns hold what they held there.
        """
        facts = super().public_facts(unit, assume_public=assume_public)
        assumed = tuple(fact for fact in facts.assumed if fact != ROLES)
        return replace(facts, num_arcs=None, split=None, assumed=assumed)


def check_first(nodes: Graph, known: Sequence[Graph]) -> None:
    """Refuse nodes that were there before, in one of the ``known`` graphs."""
    names = node_names(nodes)
    seen = {one for graph in known for one in _folded(node_names(graph))}
    again = next((name for name, one in zip(names, _folded(names), strict=True) if one in seen), None)
    if again is not None:
        raise DataError(
            f"Expected nodes that arrive for the first time, but {again!r} was there before. What the graph says of it is "
            "released already. Leave it out."
        )


def _folded(names: list[str]) -> list[str]:
    """Ids as every table would write them: 54, 54.0 and 5.4e1 are one person, whatever else their tables hold."""
    import pyarrow as pa

    from sfumato.tables._whole import without_fraction

    return [_WHOLE.sub(r"\1", one.strip()) for one in without_fraction(pa.array(names, pa.large_string())).to_pylist()]


def node_names(graph: Graph) -> list[str]:
    """Return the ids of all nodes as text.

    >>> node_names(Graph.from_edges([0], [1], 2, directed=False))
    ['0', '1']
    """
    ids: list[Any] = list(range(graph.num_nodes)) if graph.node_ids is None else graph.node_ids.tolist()
    return [str(name) for name in ids]


def read_new_nodes(
    trained: Graph,
    nodes: str | Path | Any,
    *,
    label: str | Sequence[str] | None = None,
    schema: Schema | Mapping[str, Any] | str | Path | None = None,
    text: Sequence[str] = (),
    text_features: str | None = None,
    drop: Sequence[str] = (),
    id_column: str | None = None,
) -> Graph:
    """Read nodes that arrive, from a table with the columns of the trained graph's; their label is not read.

    What a column holds (a number, booleans, or which categories) is what it held in training, whatever the few new rows look
    like: a column without a value gives what a missing one gave there. A category that the trained graph does not have counts as
    missing. Columns may stand in another order, and others are not read.

    Args:
        trained: the graph that they come to.
        nodes: path of the node file, CSV or Parquet, or a table of pandas, Polars or Arrow.
        label: column of the classes (or columns of the labels) in the trained graph's table.
        schema: the schema that the trained graph was read with.
        text: columns of texts.
        drop: columns that were left out of the trained graph's table.
        text_features: names their encoder. A vocabulary that was read off the trained graph's texts is taken from there.
        id_column: column of the ids in the trained graph's table; None looks for one of a usual name, else for the only one that
            holds nothing else.

    Raises:
        DataError: the table cannot be read, or lacks a column.
        SchemaError: a number of the trained graph is none here.
    """
    from sfumato.tables._build import Reading, build_graph
    from sfumato.tables._tables import documents_of, no_edges

    declared, label, text, drop = Schema.read(schema), trimmed(label), trimmed(text), trimmed(drop)
    texts = {name for name in trained.feature_names if text and of_texts(name, tuple(text))}
    table, place, number = table_of(nodes, "the new nodes")
    unread = {*label_columns(label or declared.label), declared.role, declared.degree_column, *drop, *declared.drop}
    seen = columns_of([name for name in trained.feature_names if name not in texts], table.column_names)
    lacking = next((name for name in seen if name not in table.column_names), None)
    if lacking is not None:
        raise DataError(
            f"Expected {place} to have the column {lacking!r}, which the model was trained with, got the columns "
            f"{', '.join(table.column_names)}. Add it."
        )
    table = table.select([name for name in table.column_names if name not in unread])
    num_features = trained.num_features - len(texts)
    ids = id_column_of(table.column_names, id_column or declared.id, {*seen, *text}, place)
    seen = seen or unnamed(table.column_names, ids, text, num_features, place)
    ends = {name: (low, high) for name, low, high in trained.ranges}
    known = {
        name: Column(categories) if categories else Column(None, *ends.get(name, (None, None)))
        for name, categories in seen.items()
    }
    public = Schema(columns={**known, **declared.columns}, id=ids, num_features=num_features)
    chosen = [*seen] if seen or not num_features else None
    how = Reading(schema=public, directed=trained.directed, features=chosen, text=text, text_features=text_features)
    graph = build_graph(table, no_edges(), how, (place, "no edges"), (number, number))
    if text_features is None:
        return graph
    return with_texts(graph, documents_of(table, text, place), text_features, trained=trained.feature_names)


def read_newcomers(
    nodes: Graph, known: Sequence[Graph], edges: str | Path | Any, *, ends: tuple[str, str] | None = None
) -> Newcomers:
    """Read the edges of nodes that arrive, to each other and to known nodes, from a table.

    Args:
        nodes: the nodes that arrive.
        known: the trained graph, then earlier arrivals.
        edges: path of the edge file, CSV or Parquet, or a table of pandas, Polars or Arrow.
        ends: columns of the two ends in the trained graph's table; None looks for two of usual names, else the only two.

    Raises:
        DataError: the table cannot be read, an edge has an end that is no node, or :meth:`Newcomers.join` refuses it.
    """
    check_first(nodes, known)
    names = [name for graph in (nodes, *known) for name in node_names(graph)]
    source, target, number = _ends(names, edges, ends, nodes.directed, "the new nodes, or those that were there before")
    return Newcomers.join(nodes, known, source, target, number)


def read_edges(nodes: Graph, edges: str | Path | Any, *, ends: tuple[str, str] | None = None) -> np.ndarray:
    """Read which nodes edges join, int64 [2, num_edges], from a table.

    ``nodes`` is a graph of the nodes, whose edges are not read; ``edges`` and ``ends`` are as for :func:`read_newcomers`.

    Raises:
        DataError: the table cannot be read, or an edge has an end that is no node.
    """
    source, target, _ = _ends(node_names(nodes), edges, ends, nodes.directed, "the nodes")
    return np.stack([source, target]).astype(np.int64)


def _ends(
    names: list[str], edges: Any, ends: tuple[str, str] | None, directed: bool, where: str
) -> tuple[np.ndarray, np.ndarray, Callable[[int], int]]:
    """The row numbers of both ends of each edge of a table, and what gives the number of a row in errors."""
    import pyarrow as pa

    from sfumato.tables._build import Reading
    from sfumato.tables._ends import Places, edge_batches

    table, place, number = table_of(edges, "the new edges")
    how = Reading(source=ends and ends[0], target=ends and ends[1])
    check_named(table.column_names, how, place, directed=directed)
    source, target, _, _ = next(
        edge_batches(table, Places(pa.array(names, pa.large_string())), how, (where, place), number)
    )
    return source, target, number
