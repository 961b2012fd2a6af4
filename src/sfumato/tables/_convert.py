"""Graphs are converted here from and to PyTorch Geometric and NetworkX."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp

from sfumato._optional import require
from sfumato._validate import check_choice, check_kind, fail
from sfumato.errors import DataError, SchemaError
from sfumato.graph._checks import ROLES
from sfumato.graph._dropped import check_drop, tell_dropped
from sfumato.graph._graph import Graph
from sfumato.graph._schema import Schema, label_columns, trimmed
from sfumato.graph._targets import MULTILABEL, NUMBER, Targets
from sfumato.graph._unique import tell_texts
from sfumato.graph._weights import check_values
from sfumato.tables import _attributes, _tensors
from sfumato.tables._build import build_graph
from sfumato.tables._columns import left, usual_id
from sfumato.tables._hetero import from_hetero
from sfumato.tables._reading import Reading
from sfumato.tables._temporal import from_temporal

if TYPE_CHECKING:
    import networkx as nx
    from torch_geometric.data import Data, HeteroData, TemporalData


def from_pyg(
    data: Data | HeteroData | TemporalData,
    directed: bool,
    *,
    self_loops: str = "remove",
    name: str = "graph",
    classes: Sequence[str] = (),
    target: str | None = None,
    target_range: tuple[float, float] | None = None,
    edge_weight: str | None = None,
    max_weight: float | None = None,
    label: str | None = None,
    public_types: Sequence[str] = (),
    nodes: Data | None = None,
    boundaries: Sequence[float] = (),
    split_by_time: float | None = None,
) -> Graph:
    """Read a PyTorch Geometric ``Data``: ``edge_index``, ``x``, ``y`` and the three masks.

    ``directed`` must be said: what ``data.is_directed()`` finds is a fact about the private arcs. With
    ``directed=False`` every arc must have its reverse. Attributes of edges other than ``edge_weight`` are not read, and a
    :class:`~sfumato.errors.DroppedWarning` names them. A node in no mask has no role; without masks the graph is not split yet.

    A ``HeteroData`` becomes a graph with types of edges (:func:`~sfumato.tables._hetero.from_hetero`): its types of nodes are
    features, and labels those of one type. Events of a ``TemporalData`` become edges between the ``nodes`` of a ``Data``
    (:func:`~sfumato.tables._temporal.from_temporal`).

    Shapes: ``edge_index`` [2, num_arcs], ``x`` [num_nodes, num_features] dense or sparse, ``y`` [num_nodes] or
    [num_nodes, 1], or [num_nodes, num_labels] of 0, 1 and NaN for several labels, masks bool [num_nodes]. Tensors may have any
    type of numbers, layout and device.

    Args:
        data: a graph, of one type of nodes and edges or several.
        directed: whether arcs have a direction.
        self_loops: "remove" (and count), "keep" or "error".
        name: the name of the graph, in messages and certificates.
        classes: names of the classes; without them they are numbered from the labels, which the certificate says.
        target: "number" where ``y`` is a number to learn.
        target_range: the least and the largest such number; None reads them off the data, and assumes them public.
        edge_weight: name of the attribute that holds weights >= 0, [num_arcs] or [num_arcs, 1], such as ``"edge_weight"``.
        max_weight: the public bound that they are clipped to.
        label: of a ``HeteroData``, the type of nodes whose labels are learned; None takes the only one with ``y``.
        public_types: of a ``HeteroData``, the types of edges that are no secret; of a ``TemporalData``, windows.
        nodes: of a ``TemporalData``, a ``Data`` that holds the nodes.
        boundaries: of a ``TemporalData``, public times between windows, which are its types of edges.
        split_by_time: of a ``TemporalData``, a public time: later events are ``Graph.later``, links to score.

    Raises:
        DataError: ``data`` has another form, or its arrays do not fit.
        InputError: ``directed`` is neither True nor False.

    >>> import torch
    >>> from torch_geometric.data import Data
    >>> data = Data(edge_index=torch.tensor([[0, 1], [1, 0]]), y=torch.tensor([0, 1]), num_nodes=2)
    >>> from_pyg(data, directed=False)
    Graph('graph', 2 nodes, 1 undirected edges, 0 features, 2 classes)
    """
    if not isinstance(directed, bool):
        raise fail("directed", directed, "to be True or False", "Declare the direction: it is not read off the data.")
    check_choice((NUMBER,), target=NUMBER if target is None else target)
    if edge_weight is not None and not isinstance(edge_weight, str):
        raise fail("edge_weight", type(edge_weight).__name__, "to be the name of an attribute")
    if type(data).__name__ == "TemporalData":
        if any(one is not None for one in (label, target, edge_weight)):
            raise fail(
                "label", label or target or edge_weight, "to be None for TemporalData", "Nodes and times are read."
            )
        return from_temporal(
            data, directed, nodes, boundaries=boundaries, split_by_time=split_by_time, public_types=public_types,
            classes=classes, self_loops=self_loops, name=name,
        )  # fmt: skip
    if nodes is not None or not isinstance(boundaries, tuple) or boundaries or split_by_time is not None:
        raise fail("nodes", "of events", "to come with TemporalData", "Others have no events: drop it.")
    if type(data).__name__ == "HeteroData":
        if target is not None or edge_weight is not None:
            raise fail(
                "edge_weight", edge_weight or target, "to be None for HeteroData", "Targets and weights are not read."
            )
        return from_hetero(
            data, directed, label=label, public_types=public_types, classes=classes, self_loops=self_loops, name=name
        )
    if label is not None or not isinstance(public_types, tuple) or public_types:
        raise fail("label", "of types", "to come with HeteroData", "A Data has one type of nodes and edges.")
    if getattr(data, "edge_index", None) is None:
        raise DataError(
            f"Expected data to have edge_index, got {type(data).__name__} without it. "
            "Pass a Data or HeteroData (set edge_index from adj_t)."
        )
    used = ("edge_index", edge_weight, "x", "y", *_tensors.MASKS)
    tell_dropped((name for name in data.edge_attrs() if name not in used), "data", weighted=edge_weight is not None)
    edge_index = _tensors.dense(data.edge_index, "edge_index")
    if edge_index.ndim != 2 or edge_index.shape[0] != 2:
        raise DataError(f"Expected edge_index of shape [2, num_arcs], got {edge_index.shape}. Transpose it.")
    num_nodes = _tensors.count_nodes(data, edge_index.shape[1])
    x, y = _tensors.features(data.x), None if data.y is None else _tensors.dense(data.y, "y")
    several = target is None and y is not None and y.ndim == 2 and y.shape[1] > 1
    kind = MULTILABEL if several else target
    return Graph.from_arcs(
        edge_index[0],
        edge_index[1],
        num_nodes,
        directed=directed,
        self_loops=self_loops,
        x=x,
        y=None if kind else y[:, 0] if y is not None and y.ndim == 2 else y,
        targets=Targets(kind, y, limits=target_range) if kind else None,
        classes=classes,
        roles=_tensors.roles(data, num_nodes),
        name=name,
        assumed_public=() if x is None else ("num_features",),
        edge_weight=None if edge_weight is None else _torch_weights(data, edge_weight),
        max_weight=max_weight,
    )


def to_pyg(graph: Graph) -> Data:
    """Write a PyTorch Geometric ``Data`` with ``edge_index`` [2, num_arcs] and copies of ``x`` (dense), ``y``, masks.

    Weights become ``edge_weight`` [num_arcs], as they count: at most the public bound.

    >>> to_pyg(Graph.from_edges([0], [1], 2, directed=False)).edge_index.tolist()
    [[0, 1], [1, 0]]
    """
    check_kind(Graph, "Build one first.", graph=graph)
    torch, pyg = require("torch"), require("torch_geometric.data")
    source = np.repeat(np.arange(graph.num_nodes), np.diff(graph.indptr))
    data = pyg.Data(edge_index=torch.tensor(np.stack([source, graph.indices])), num_nodes=graph.num_nodes)
    if graph.weights is not None:
        data.edge_weight = torch.tensor(graph.weights.values)
    if graph.x is not None:
        data.x = torch.tensor(graph.x.toarray() if isinstance(graph.x, sp.csr_matrix) else graph.x)
    if graph.y is not None or graph.targets is not None:
        data.y = torch.tensor(graph.y if graph.targets is None else graph.targets.values)
    if graph.roles is not None:
        for mask in _tensors.MASKS:
            data[mask] = torch.tensor(getattr(graph, mask))
    return data


def from_networkx(
    g: nx.Graph,
    *,
    label: str | Sequence[str] | None = None,
    features: str | Sequence[str] | None = None,
    role: str | None = None,
    schema: Schema | Mapping[str, Any] | str | Path | None = None,
    self_loops: str = "remove",
    name: str = "graph",
    edge_weight: str | None = None,
    max_weight: float | None = None,
    drop: Sequence[str] = (),
    edge_type: str | None = None,
    edge_types: Sequence[str] | None = None,
    public_types: Sequence[str] = (),
) -> Graph:
    """Read a NetworkX ``Graph`` (undirected) or ``DiGraph`` (directed), or a multigraph whose edges have types.

    Nodes are ids, and attributes are columns, by the rules of :func:`~sfumato.tables._io.read_csv`: all attributes of nodes that
    mean nothing else are features, one that a node lacks is a missing cell, names and text are trimmed, and a schema may declare
    all that it declares of tables but ``id``. Nodes are numbers if all are whole, else text; a tuple of text and numbers is the
    text that Python prints of it, and booleans, sets and other objects are refused. An attribute that is called as ids are
    (``id``, ``node``, ``node_id``, ``nodeid``, or what the schema calls ``id``) is read only where ``features`` names it, and
    attributes of edges other than ``edge_weight`` are not read: a :class:`~sfumato.errors.DroppedWarning` names both.

    Args:
        g: the graph; its class declares the direction.
        label: attribute that holds one class for each node, or of several labels (0 or 1); None takes the schema's word.
        features: attributes that hold features, one value a node, or the name of one that holds a vector of numbers; None takes
            all that mean nothing else, and ``()`` none.
        role: attribute that holds train, val, test or none; None takes the schema's word.
        schema: declares what is public, see :class:`~sfumato.graph._schema.Schema`.
        self_loops: "remove" (and count), "keep" or "error".
        name: the name of the graph, in messages and certificates.
        edge_weight: attribute of edges that holds a weight >= 0, such as ``"weight"``; None takes the schema's word.
        max_weight: the public bound that weights are clipped to; None takes the schema's word.
        drop: attributes of nodes and edges that are left out.
        edge_type: attribute of edges that names their type, or ``"key"`` for the keys of a multigraph; None takes the word of
            the schema.
        edge_types: all types, known without this data; None takes the schema's word.
        public_types: those of them whose edges are no secret.

    Raises:
        InputError: ``g`` is no graph of NetworkX.
        DataError: ``g`` is a multigraph without types or empty, a node has no id, or an attribute does not fit.
        SchemaError: the schema declares another direction, or the values do not fit it.

    >>> import networkx as nx
    >>> from_networkx(nx.path_graph(4))
    Graph('graph', 4 nodes, 3 undirected edges, 0 features, 0 classes)
    """
    require("networkx")
    _check_networkx(g)
    public = Schema.read(schema)
    if public.directed not in (None, g.is_directed()):
        raise SchemaError(
            f"Expected one direction, got directed={g.is_directed()} in g beside directed={public.directed} in the "
            "schema. Correct one of them."
        )
    vectors = trimmed(features) if isinstance(features, str) else None
    how = Reading(
        label, replace(public, id=None, num_features=None if vectors else public.num_features), g.is_directed(), None, role,
        () if vectors is not None else features, self_loops=self_loops, name=name, edge_weight=edge_weight,
        max_weight=max_weight, drop=drop, edge_type=edge_type, edge_types=edge_types, public_types=public_types,
    )  # fmt: skip
    if g.is_multigraph() and how.types is None:
        raise DataError(
            f"Expected a simple graph, or types of edges, got {type(g).__name__}. Merge parallel edges: nx.Graph(g). Or name "
            "their types: edge_type='key' or an attribute, and all types in edge_types."
        )
    nodes, ids = _nodes(g, how, public, vectors, how.of_edges[:2])
    edges, (source, target) = _attributes.edge_table(g, nodes.column(ids), how.of_edges[:2])
    how = replace(how, id_column=ids, source=source, target=target)
    places = ("the nodes of g", "the edges of g")
    graph = build_graph(nodes.drop_columns([vectors]) if vectors else nodes, edges, how, places)
    if vectors:
        graph = _with_vectors(graph, nodes.column(vectors), vectors, public)
    tell_texts(graph.assumed_public, places[0])
    return graph


def to_networkx(graph: Graph) -> nx.Graph:
    """Write a NetworkX ``DiGraph`` or ``Graph`` with node attributes ``x`` (a list), ``label`` and ``role``.

    Nodes carry their original ids; a missing label is left out. Other targets are attributes by the names of their columns.
    Edges carry ``weight``, as it counts, if the graph has weights.

    >>> sorted(to_networkx(Graph.from_edges([0, 1], [1, 2], 3, directed=False)).edges)
    [(0, 1), (1, 2)]
    """
    check_kind(Graph, "Build one first.", graph=graph)
    nx = require("networkx")
    g = nx.DiGraph() if graph.directed else nx.Graph()
    ids = list(range(graph.num_nodes)) if graph.node_ids is None else graph.node_ids.tolist()
    g.add_nodes_from(ids)
    source = np.repeat(np.arange(graph.num_nodes), np.diff(graph.indptr))
    ends = [ids[u] for u in source.tolist()], [ids[v] for v in graph.indices.tolist()]
    if graph.weights is None:
        g.add_edges_from(zip(*ends, strict=True))
    else:
        g.add_weighted_edges_from(zip(*ends, graph.weights.values.tolist(), strict=True))
    if graph.x is not None:
        for row, node in enumerate(ids):
            values = graph.x[row]
            g.nodes[node]["x"] = (values.toarray()[0] if isinstance(values, sp.spmatrix) else values).tolist()
    if graph.y is not None:
        for node, value in zip(ids, graph.y.tolist(), strict=True):
            if value >= 0:
                g.nodes[node]["label"] = graph.classes[value]
    if graph.targets is not None:
        for node, values in zip(ids, graph.targets.values.tolist(), strict=True):
            known = zip(graph.targets.names, values, strict=True)
            g.nodes[node].update({name: value for name, value in known if value == value})  # NaN is missing
    if graph.roles is not None:
        for node, value in zip(ids, graph.roles.tolist(), strict=True):
            g.nodes[node]["role"] = ROLES[value]
    return g


def _torch_weights(data: Data, name: str) -> np.ndarray:
    if getattr(data, name, None) is None:
        raise DataError(f"Expected data to have {name!r}, one number for each arc, got none. Name another attribute.")
    values = _tensors.dense(data[name], name)
    return check_values(values[:, 0] if values.ndim == 2 and values.shape[1] == 1 else values, name, "data")


def _check_networkx(g: Any) -> None:
    import networkx as nx

    if not isinstance(g, nx.Graph):
        raise fail("g", type(g).__name__, "to be a Graph or DiGraph of NetworkX")


def _nodes(g: Any, how: Reading, public: Schema, vectors: str | None, read: Sequence[str | None]) -> tuple[Any, str]:
    """The table of nodes and its column of ids; what is not read of nodes and edges is named."""
    own = _attributes.names_of(facts for _, facts in g.nodes(data=True))
    unread = _attributes.names_of(facts for *_, facts in g.edges(data=True))
    places = ("the nodes of g", "the edges of g")
    check_drop(how.left_out, own, unread, places)
    if vectors in how.left_out:
        raise DataError(f"Expected an attribute in features or in drop, got {vectors!r} in both. Remove it from one.")
    unread = sorted(name for name in unread if name not in read and name not in how.left_out)
    tell_dropped(unread, places[1], 2, weighted=read[0] is not None)
    special = (*label_columns(how.label or public.label), how.role or public.role, public.degree_column)
    named = [name for name in (*(how.features or ()), *public.columns, *special, vectors) if name]
    rest = [] if how.features is not None else [name for name in left(own, how) if name not in named]
    called = [name for name in rest if name == public.id or usual_id([name])]
    tell_dropped(called, f"{places[0]}, whose ids are the nodes", 2, weighted=True)
    return _attributes.node_table(g, named, [name for name in rest if name not in called])


def _with_vectors(graph: Graph, column: Any, name: str, schema: Schema) -> Graph:
    ids = graph.node_ids
    assert ids is not None
    x = _vectors(name, column, ids)
    if schema.num_features not in (None, x.shape[1]):
        raise SchemaError(
            f"Expected vectors of num_features={schema.num_features} numbers in {name!r}, got another length. Correct one."
        )
    assumed = ("num_features",) if schema.num_features is None else ()
    return replace(graph, x=x, assumed_public=(*assumed, *graph.assumed_public))


def _vectors(attribute: str, column: Any, ids: np.ndarray) -> np.ndarray:
    rows = column.to_pylist()
    width = len(rows[0]) if isinstance(rows[0], list) else 0
    for node, row in zip(ids, rows, strict=True):
        if not isinstance(row, list) or len(row) != width or not all(isinstance(value, int | float) for value in row):
            raise DataError(
                f"Expected the attribute {attribute!r} to hold a list of {width or 'some'} numbers on every node, but "
                f"node {node.item()!r} has something else. Fill it, or pass a list of scalar attributes."
            )
    return np.array(rows, dtype=np.float32)
