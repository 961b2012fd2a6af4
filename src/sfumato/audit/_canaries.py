r"""Neighboring graphs with many canaries: records as bad as the unit allows, each in or out by a fair coin of its own.

A canary is one record of the unit. :meth:`Canaries.world` builds the graph for given coins; two worlds that differ in one
coin are neighbors under the unit, so every canary is a trial of its own. Canaries never meet: no node receives arcs of two of
them. In a release of the form *sum of messages plus noise* they then touch disjoint rows, and what the release says of one is
independent of what it says of another, given earlier releases (:mod:`~sfumato.audit._likelihood`). Weights that were trained on
all of them mix them; such scores need an estimator that allows any dependence (:mod:`~sfumato.audit._records`).

Edges join nodes of the graph itself, in a perfect matching. If edges have weights, all arcs of canaries have the largest. Nodes
are added beside the graph, with targets of their own:

* ``full``: D arcs to targets that D other nodes already fill with the opposite message. A cap that gives freed room to others
  moves these rows twice as far.
* ``looped``: an arc to itself, and D more. A cap that forgets arcs to oneself moves D + 1 rows.
* ``crowded``: 4 D arcs. Without a cap all these rows move.
* ``moved`` (replaced records only): other targets in the other world; there ``full`` turns its message round.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from sfumato._validate import check_int
from sfumato.graph._graph import Graph
from sfumato.graph._subgraph import dense_rows
from sfumato.graph._weights import FULL

if TYPE_CHECKING:
    from sfumato.privacy.units import Unit

_FREE_ARCS = 4  # of a canary node where the unit has no cap
_LONGER = 10
_TRAIN, _TEST = 0, 2


@dataclass(frozen=True, eq=False)
class Canaries:
    """Canaries are records that are in a graph or out of it.

    In ``graph`` every canary is in, and in ``without`` every one is out; both have the same nodes. ``arcs_in`` [any, 3] holds
    owner, target and canary of the arcs that only ``graph`` has, and ``arcs_out`` those that only ``without`` has. ``nodes`` is
    empty if canaries are edges.
    """

    graph: Graph
    without: Graph
    arcs_in: NDArray[np.int64]
    arcs_out: NDArray[np.int64]
    nodes: NDArray[np.int64]
    kinds: NDArray[np.str_]

    def __len__(self) -> int:
        return len(self.kinds)

    def world(self, coins: NDArray[np.bool_]) -> Graph:
        """Build the graph in which canary i is in where ``coins[i]`` is True, bool [m]."""
        gone = np.concatenate([self.arcs_in[~coins[self.arcs_in[:, 2]]], self.arcs_out[coins[self.arcs_out[:, 2]]]])
        owner = np.repeat(np.arange(self.graph.num_nodes), np.diff(self.graph.indptr))
        here = np.concatenate([np.stack([owner, self.graph.indices], axis=1), self.arcs_out[:, :2]])
        lost = gone[:, :2]
        if not self.graph.directed:
            lost = np.concatenate([lost, lost[:, ::-1]])
        n = self.graph.num_nodes
        stays = ~np.isin(here[:, 0] * n + here[:, 1], lost[:, 0] * n + lost[:, 1])
        left, fields = here[stays], _fields(self.graph) | _weights(self.graph, stays)
        if len(self.nodes):
            out = self.nodes[~coins]
            assert self.graph.y is not None
            assert self.without.y is not None
            y = self.graph.y.copy()
            y[out] = self.without.y[out]
            fields |= {"x": _put(self.graph.x, self.without.x, out), "y": y}
        return Graph.from_arcs(left[:, 0], left[:, 1], n, directed=self.graph.directed, self_loops="keep", **fields)


def owned_by(persons: NDArray[np.integer], most: int) -> dict[str, Any]:
    """Return the fields of a graph whose nodes these persons own, at most so many each.

    >>> owned_by(np.array([0, 0, 1]), 2)["nodes_per_person"]
    2
    """
    return {"cells": persons.astype(np.int64), "nodes_per_person": most}


def flip(count: int, generator: np.random.Generator) -> NDArray[np.bool_]:
    """Toss a fair coin for each canary, bool [count]."""
    return generator.random(count) < 0.5


def edge_canaries(graph: Graph, *, seed: int, most: int | None = None) -> Canaries:
    """Join pairs of nodes that are not joined yet, each node at most once.

    **Formal guarantee.** Two worlds that differ in one coin differ in one arc of a directed graph, or in one undirected edge. No
    node is an end of two canaries.
    """
    graph = replace(graph, max_degree=None, degree_bounds=None)
    order = np.random.default_rng(check_int(low=0, seed=seed)).permutation(graph.num_nodes)
    half = graph.num_nodes // 2
    pairs = np.stack([order[:half], order[half : 2 * half]], axis=1)
    owner = np.repeat(np.arange(graph.num_nodes), np.diff(graph.indptr))
    taken = owner * graph.num_nodes + graph.indices
    free = ~np.isin(pairs @ [graph.num_nodes, 1], taken) & ~np.isin(pairs[:, ::-1] @ [graph.num_nodes, 1], taken)
    pairs = pairs[free][:most]
    both = pairs if graph.directed else np.concatenate([pairs, pairs[:, ::-1]])
    here = np.concatenate([np.stack([owner, graph.indices], axis=1), both])
    fields = _fields(graph) | _weights(graph, np.ones(len(here), np.bool_))
    full = Graph.from_arcs(
        here[:, 0], here[:, 1], graph.num_nodes, directed=graph.directed, self_loops="keep", **fields
    )
    numbered = np.column_stack([pairs, np.arange(len(pairs))])
    none = np.empty((0, 3), np.int64)
    return Canaries(full, graph, numbered, none, np.empty(0, np.int64), np.full(len(pairs), "edge"))


def node_canaries(graph: Graph, unit: Unit, count: int, *, seed: int) -> Canaries:
    """Add canary nodes that own arcs to targets of their own, in equal numbers of each kind.

    **Formal guarantee.** Two worlds that differ in one coin differ in the record of one node with owned arcs, emptied or
    replaced as the unit's relation says. No node receives arcs of two canaries.
    """
    cap = unit.max_out_degree or _FREE_ARCS
    kinds = ["full", "looped"] if unit.max_out_degree is None else ["full", "looped", "crowded"]
    replaced = unit.relation == "replace"
    kinds += ["moved"] * replaced
    generator = np.random.default_rng(check_int(low=0, seed=seed))
    builder = _Builder(graph, generator)
    for number in range(count):
        builder.add(kinds[number % len(kinds)], cap, number, replaced=replaced)
    return builder.built()


def record_canaries(graph: Graph, unit: Unit, count: int, *, seed: int) -> Canaries:
    """Add training records with a feature of their own, which no other record has, and a random label.

    What is learned of a canary's label from that column can come from the canary alone. Its features are that
    column alone. Images have no room for a column: there a canary is an image of random black and white pixels.

    **Formal guarantee.** Two worlds that differ in one coin differ in the features and the label of one node without arcs,
    emptied; if the unit's relation is replace, the label is another one.
    """
    generator = np.random.default_rng(check_int(low=0, seed=seed))
    x = dense_rows(graph)
    longest = float(np.linalg.norm(x, axis=1).max(initial=1.0)) or 1.0
    nodes = np.arange(graph.num_nodes, graph.num_nodes + count)
    images = graph.image_shape is not None
    wide = np.zeros((graph.num_nodes + count, x.shape[1] + (0 if images else count)), np.float32)
    wide[: graph.num_nodes, : x.shape[1]] = x
    labels = generator.integers(graph.num_classes, size=count)
    empty = wide.copy()
    if images:
        wide[nodes] = generator.integers(2, size=(count, x.shape[1]))
    else:
        wide[nodes, x.shape[1] + np.arange(count)] = _LONGER * longest
    assert graph.y is not None
    y = np.concatenate([graph.y, labels])
    y_out = np.concatenate([graph.y, np.full(count, -1)])
    if unit.relation == "replace":
        empty = wide
        y_out[nodes] = (labels + 1 + generator.integers(graph.num_classes - 1, size=count)) % graph.num_classes
    roles = np.concatenate([graph.roles, np.full(count, _TRAIN)]).astype(np.uint8)
    indptr = np.concatenate([graph.indptr, np.full(count, graph.indptr[-1])])
    owned = {}
    if graph.nodes_per_person is not None and graph.cells is not None:  # each canary is a person of one node
        persons = np.concatenate([graph.cells, graph.cells.max() + 1 + np.arange(count)])
        owned = owned_by(persons, graph.nodes_per_person)
    both = [
        replace(
            graph, indptr=indptr, x=part if images else sp.csr_matrix(part), y=known, roles=roles, node_ids=None,
            feature_names=(), degree_bounds=None, **owned,
        )
        for part, known in ((wide, y), (empty, y_out))
    ]  # fmt: skip
    none = np.empty((0, 3), np.int64)
    return Canaries(both[0], both[1], none, none, nodes, np.full(count, "record"))


class _Builder:
    """Collects the nodes and arcs that canary nodes need, beside those of a graph."""

    def __init__(self, graph: Graph, generator: np.random.Generator) -> None:
        self.graph, self.generator, self.next = replace(graph, max_degree=None), generator, graph.num_nodes
        owner = np.repeat(np.arange(graph.num_nodes), np.diff(graph.indptr))
        self.arcs = [np.stack([owner, graph.indices], axis=1)]
        self.arcs_in: list[NDArray[np.int64]] = []
        self.arcs_out: list[NDArray[np.int64]] = []
        self.x: list[NDArray[np.float32]] = [dense_rows(graph)]
        self.y, self.roles = [graph.y], [graph.roles]
        self.nodes: list[int] = []
        self.kinds: list[str] = []
        self.other: list[tuple[NDArray[np.float32], int]] = []

    def add(self, kind: str, cap: int, number: int, *, replaced: bool) -> None:
        row = np.asarray(100 * self.generator.standard_normal((self.x[0].shape[1],)), np.float32)
        label = number % self.graph.num_classes
        opposite = (label + 1) % self.graph.num_classes
        (node,) = self._nodes(row[None], [label], _TRAIN)
        arcs = 4 * cap if kind == "crowded" else cap
        targets = self._targets(arcs)
        self.arcs_in.append(_from(node, targets, number))
        if kind == "looped":
            self.arcs_in.append(_from(node, np.array([node]), number))
        if kind == "full":
            fillers = self._nodes(np.repeat(-row[None], cap, axis=0), [opposite] * cap, _TRAIN)
            self.arcs.append(np.stack([np.repeat(fillers, cap), np.tile(targets, cap)], axis=1))
        if replaced:
            others = self._targets(cap) if kind == "moved" else targets
            self.arcs_out.append(_from(node, others, number))
            if kind == "looped":
                self.arcs_out.append(_from(node, np.array([node]), number))
        self.nodes.append(int(node))
        self.kinds.append(kind)
        self.other.append((-row, opposite) if replaced else (0 * row, -1))

    def built(self) -> Canaries:
        """Both graphs, with every canary in and out."""
        x, y = np.concatenate(self.x), np.concatenate([np.asarray(part) for part in self.y])
        nodes = np.array(self.nodes)
        x_out, y_out = x.copy(), y.copy()
        x_out[nodes] = np.stack([row for row, _ in self.other])
        y_out[nodes] = [label for _, label in self.other]
        roles = np.concatenate([np.asarray(part) for part in self.roles]).astype(np.uint8)
        fields = _fields(self.graph) | {"node_ids": None, "roles": roles, "image_shape": None, "degree_bounds": None}
        arcs_in = _joined(self.arcs_in)
        arcs_out = _joined(self.arcs_out)
        same = {tuple(arc) for arc in arcs_in.tolist()} & {tuple(arc) for arc in arcs_out.tolist()}
        worlds = []
        for own, rows, labels in ((arcs_in, x, y), (arcs_out, x_out, y_out)):
            arcs = np.concatenate([*self.arcs, own[:, :2]])
            worlds.append(
                Graph.from_arcs(
                    arcs[:, 0],
                    arcs[:, 1],
                    len(y),
                    directed=True,
                    self_loops="keep",
                    **fields | {"x": rows, "y": labels} | _weights(self.graph, np.ones(len(arcs), np.bool_)),
                )
            )
        arcs_in, arcs_out = (np.array([a for a in part.tolist() if tuple(a) not in same], np.int64).reshape(-1, 3)
                             for part in (arcs_in, arcs_out))  # fmt: skip
        return Canaries(worlds[0], worlds[1], arcs_in, arcs_out, nodes, np.array(self.kinds))

    def _targets(self, count: int) -> NDArray[np.int64]:
        empty = np.zeros((count, self.x[0].shape[1]), np.float32)
        return self._nodes(empty, [-1] * count, _TEST)

    def _nodes(self, rows: NDArray[np.float32], labels: Sequence[int], role: int) -> NDArray[np.int64]:
        numbers = np.arange(self.next, self.next + len(rows))
        self.next += len(rows)
        self.x.append(rows)
        self.y.append(np.array(labels, np.int64))
        self.roles.append(np.full(len(rows), role, np.uint8))
        return numbers


def _from(owner: int, targets: NDArray[np.int64], canary: int) -> NDArray[np.int64]:
    return np.column_stack([np.full(len(targets), owner), targets, np.full(len(targets), canary)]).astype(np.int64)


def _joined(parts: list[NDArray[np.int64]]) -> NDArray[np.int64]:
    return np.concatenate(parts) if parts else np.empty((0, 3), np.int64)


def _put(x: Any, other: Any, nodes: NDArray[np.int64]) -> Any:
    """Rows of ``other`` at some nodes, and of ``x`` elsewhere."""
    if not sp.issparse(x):
        mixed = x.copy()
        mixed[nodes] = other[nodes]
        return mixed
    keep = np.ones(x.shape[0], np.float32)
    keep[nodes] = 0
    mixed = sp.csr_matrix(sp.diags_array(keep) @ x + sp.diags_array(1 - keep) @ other, dtype=np.float32)
    mixed.eliminate_zeros()
    return mixed


def _weights(graph: Graph, kept: NDArray[np.bool_]) -> dict[str, Any]:
    """The weights of the kept ones of some arcs: those of the graph come first, and all others weigh as much as an arc can."""
    if graph.weights is None:
        return {}
    weights = np.full(len(kept), graph.weights.bound)
    weights[: graph.num_arcs] = graph.weights.steps * (graph.weights.bound / FULL)
    return {"edge_weight": weights[kept], "max_weight": graph.weights.bound}


def _fields(graph: Graph) -> dict[str, Any]:
    names = "x y classes node_ids feature_names roles name mean_degree max_degree image_shape cells nodes_per_person"
    return {name: getattr(graph, name) for name in names.split()}
