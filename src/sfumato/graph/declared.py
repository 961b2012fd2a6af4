"""Facts of a graph that its owner declares public, although they are read from the data."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sfumato.graph.bounds import most_arcs

if TYPE_CHECKING:
    from sfumato.graph.graph import Graph

DEGREES = "degrees"
"""How the fact is listed that degrees were read from the data and may be known."""


def with_public_degrees(graph: Graph) -> Graph:
    """Return the same graph with its own degrees declared public, and listed as read from the data.

    >>> from sfumato.graph.graph import Graph
    >>> with_public_degrees(Graph.from_edges([0, 0], [1, 2], 3, directed=False)).degree_bounds.tolist()
    [2, 1, 1]
    """
    listed = tuple(dict.fromkeys((*graph.assumed_public, DEGREES)))
    return graph.changed(degree_bounds=most_arcs(graph.indptr, graph.indices), assumed_public=listed)
