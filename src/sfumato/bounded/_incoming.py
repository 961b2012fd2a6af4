"""The arcs of a graph, by owner or by destination, each with its weight if the graph has weights."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from sfumato.bounded._degree import by_destination, kept_by_cap
from sfumato.bounded._routing import kept
from sfumato.bounded.aggregation import Arcs

if TYPE_CHECKING:
    from sfumato.graph._graph import Graph
    from sfumato.noise.keys import Key


def incoming(graph: Graph) -> Arcs:
    """Return all arcs of a graph by destination, with their weights.

    >>> from sfumato.graph._graph import Graph
    >>> payments = Graph.from_edges([0, 1], [1, 2], 3, directed=True, edge_weight=[50.0, 100.0], max_weight=100.0)
    >>> incoming(payments).weights.tolist()
    [16384, 32768]
    """
    if graph.weights is None:
        return Arcs(*graph.transpose())
    return regrouped(owned(graph)) if graph.directed else owned(graph)  # both arcs of an edge have one weight


def owned(graph: Graph) -> Arcs:
    """Return all arcs of a graph in groups by owner: ``sources`` then holds the targets of each node, with their weights.

    >>> from sfumato.graph._graph import Graph
    >>> owned(Graph.from_edges([0, 1], [1, 2], 3, directed=True)).offsets.tolist()
    [0, 1, 2, 2]
    """
    return Arcs(graph.indptr, graph.indices, None if graph.weights is None else graph.weights.steps)


def incoming_of(graph: Graph, name: str) -> Arcs:
    r"""Return the arcs of one type of edges by destination; the graph has types and so no weights.

    **Formal guarantee.** A record is one edge of one type, and types are public. So the sets of arcs of different types are
    disjoint as records, and together hold every record once: adding or removing a record changes the arcs of one type alone.
    *Joint sensitivity.* Of sums over the arcs of each type, released side by side, a record changes those of one type: in L1 and
    in L2 norm, all of them together move by no more than a single hop does (parallel composition), however many types there are.
    So they are one release with the noise of one hop, and no budget is divided among types. Two nodes that are linked by k types
    are k records. It would be unsound to count an edge in the sums of two types, such as of a type and of all types together:
    that record would move both, by twice as much in L1 norm.

    >>> from sfumato.graph._graph import Graph
    >>> kinds = {"edge_type": ["friend", "call", "call"], "edge_types": ("friend", "call")}
    >>> known = Graph.from_edges([0, 0, 1], [1, 1, 2], 3, directed=False, **kinds)
    >>> incoming_of(known, "friend").sources.tolist(), incoming_of(known, "call").sources.tolist()
    ([1, 0], [1, 0, 2, 1])

    Source: McSherry (2009), Privacy Integrated Queries, theorem 4 (parallel composition).
    """
    assert graph.types is not None
    lists = kept(owned(graph), graph.types.of(name))
    return regrouped(lists) if graph.directed else lists


def capped(lists: Arcs, max_out_degree: int, key: Key) -> Arcs:
    """Keep at most ``max_out_degree`` arcs of each owner, as :func:`~sfumato.bounded._degree.cap_out_degree` does with ``key``.

    **Formal guarantee.** What an owner keeps, and with which weights, depends on the key and on the owner's own list alone;
    ``lists`` are grouped by owner.

    >>> capped(Arcs(np.array([0, 3]), np.array([0, 1, 2], np.int32), np.array([1, 2, 3], np.uint16)), 2, bytes(32)).num_nodes
    1
    """
    keep = kept_by_cap(lists.offsets, lists.sources, max_out_degree, key)
    return lists if keep is None else kept(lists, keep)


def regrouped(lists: Arcs) -> Arcs:
    """Regroup arcs from groups by owner to groups by destination, each with its weight.

    >>> regrouped(Arcs(np.array([0, 2, 2]), np.array([0, 1], np.int32), np.array([7, 9], np.uint16))).weights.tolist()
    [7, 9]
    """
    arcs = by_destination(lists.offsets, lists.sources)
    if lists.weights is None:
        return Arcs(*arcs)
    return Arcs(*arcs, lists.weights[np.argsort(lists.sources, kind="stable")])
