r"""Edges from a day on, which a split by time kept out of a graph: what its links are scored against, and nothing else.

A split by time reads the rows of a table whose time is before a public day as the graph. **Formal guarantee.** Whether a row is
in the past follows from this row and the day alone. So two tables that differ in one edge, with all rows that link its two nodes,
give graphs of the past that differ in at most this edge; if all these rows are later, the graphs are equal. A mechanism that is
(epsilon, delta)-DP for one edge of a graph is so for one edge of the table, *later edges included*, as long as it reads the graph
and not :attr:`Graph.later`. So it is for all rows that one person owns: which of them are kept is chosen among those of the past.

A pair that is linked before the day is no later link: it would be found by who only remembers. A method never sees later links.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sfumato.errors import DataError
from sfumato.graph._arcs import owners


@dataclass(frozen=True, eq=False)
class Later:
    """The pairs of nodes that are first linked from a day on; private, for evaluation alone.

    Shapes: ``pairs`` int64 [2, m], row numbers in the order of the graph, sorted and unique, without loops; of an undirected
    graph the smaller number first. ``split`` is the public COLUMN:DATE.
    """

    split: str
    pairs: NDArray[np.int64]

    def __repr__(self) -> str:
        return f"Later({self.split})"


def with_later(
    graph: Any, split: str, batches: Iterable[tuple[NDArray[np.integer], NDArray[np.integer]]], place: str
) -> Any:
    """Return a graph of the past with its later links, from the ends of rows from the day of a ``split`` COLUMN:DATE on.

    Raises:
        DataError: all edges of the table are in the past, or none is, or no later one links two nodes for the first time.

    >>> from sfumato.graph._graph import Graph
    >>> past = Graph.from_edges([0, 1], [1, 2], 4, directed=False)
    >>> rows = np.array([1, 3, 3, 3]), np.array([0, 2, 2, 3])
    >>> with_later(past, "date:2026", [rows], "the edges").later.pairs.tolist()
    [[2], [3]]
    """
    day = split.rpartition(":")[2]
    keys, read = [np.zeros(0, np.int64)], 0
    for source, target in batches:
        read += len(source)
        one, other = source.astype(np.int64), target.astype(np.int64)
        first, last = (one, other) if graph.directed else (np.minimum(one, other), np.maximum(one, other))
        keys.append(np.unique((first * graph.num_nodes + last)[first != last]))
    problem = None
    if not graph.num_arcs:
        problem = f"none is before {day}, so that there is nothing to learn from"
    elif not read:
        problem = f"none is from {day} on, so that there is nothing to score"
    known = owners(graph.indptr) * graph.num_nodes + graph.indices
    links = np.setdiff1d(np.concatenate(keys), known)
    if problem is None and not len(links):
        problem = f"those from {day} on link no two nodes that were not linked before"
    if problem is not None:
        raise DataError(
            f"Expected edges of {place} on both sides of `split_by_time` {split!r}, but {problem}. Take another day."
        )
    return graph.changed(later=Later(split, np.stack((links // graph.num_nodes, links % graph.num_nodes))))
