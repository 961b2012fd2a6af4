"""The two sides of a bipartite graph, such as users and items: a public column of the node table says who is on which.

Features and labels are public at edge level, so sides are too: who may be linked with whom at all is known to everybody. A pair
within a side is never a link. Nothing may count such pairs as if they might have been links.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from sfumato._validate import fail, nearest
from sfumato.errors import DataError, InputError
from sfumato.graph._arcs import owners

if TYPE_CHECKING:
    from sfumato.graph._graph import Graph

LABEL = "label"
"""The word for sides that are the two classes of the label."""


@dataclass(frozen=True, eq=False)
class Sides:
    """Sides say for each node whether it is on the first or on the second side, bool [num_nodes].

    ``asks`` marks the nodes for whom suggestions are made: those of one side if the declaration names it, else all.
    """

    second: NDArray[np.bool_]
    asks: NDArray[np.bool_]

    def apart(self, pairs: NDArray[np.integer]) -> NDArray[np.bool_]:
        """Mark the pairs [2, m] of which each node is on another side."""
        found: NDArray[np.bool_] = self.second[pairs[0]] != self.second[pairs[1]]
        return found


def sides_of(graph: Graph, declared: str | None) -> Sides | None:
    """Return the sides that ``COLUMN`` or ``COLUMN=VALUE`` declares, the second of which asks for suggestions; None without.

    The column is one of 0 and 1, one of two words, or the label, which is called ``label`` here.

    Raises:
        DataError: the column has other values than two, or none for some node.
        InputError: the graph has no such column.

    >>> from sfumato.graph._graph import Graph
    >>> shop = Graph.from_edges([0, 1], [2, 2], 3, directed=False, y=[0, 0, 1], classes=("user", "item"))
    >>> sides_of(shop, "label=user").asks.tolist()
    [True, True, False]
    """
    if declared is None:
        return None
    column, _, value = declared.partition("=")
    values = _values(graph, column)
    if len(values) != 2 or not (np.sum(list(values.values()), axis=0) == 1).all():
        raise DataError(
            f"Expected column {column!r} to say of every node which of two sides it is on, got another number of values, or "
            f"nodes without one. Write one of two words in each row, such as user and item, or drop --sides."
        )
    if value and value not in values:
        raise fail("sides", declared, f"to name a value of {column!r}, {' or '.join(values)}", nearest(value, values))
    second = list(values.values())[1]
    return Sides(second, values[value] if value else np.ones(graph.num_nodes, bool))


def check_sides(graph: Graph, declared: str | None) -> Sides | None:
    """Return the declared sides of a graph, of which every edge joins both.

    Raises:
        DataError: some edge joins two nodes of one side.
    """
    found = sides_of(graph, declared)
    if found is not None:
        check_apart(found, np.stack((owners(graph.indptr), graph.indices)))
    return found


def check_apart(sides: Sides, pairs: NDArray[np.integer]) -> None:
    """Refuse linked pairs [2, m] of which some are on one side."""
    if not sides.apart(pairs).all():
        raise DataError(
            "Expected every edge to join the two sides that are declared, but some edge joins two nodes of one side. Remove such "
            "rows from the edge table, or drop --sides: then the graph is not bipartite."
        )


def values_of(graph: Graph, column: str) -> NDArray[np.int64]:
    """Return a number for each value of a public column of words or numbers, or of ``label``, int64 [num_nodes]; 0 if missing.

    >>> from sfumato.graph._graph import Graph
    >>> values_of(Graph.from_edges([0], [1], 3, directed=False, y=[1, 0, -1]), "label").tolist()
    [2, 1, 0]
    """
    if column == LABEL and graph.y is not None:
        return graph.y + 1
    places = [at for at, name in enumerate(graph.feature_names) if name.startswith(f"{column}=")]
    if not places and column in graph.feature_names:
        return np.unique(_columns(graph, [graph.feature_names.index(column)])[:, 0], return_inverse=True)[1] + 1
    if not places:
        raise _no_column(graph, column, "column")
    return np.asarray((_columns(graph, places) == 1) @ np.arange(1, len(places) + 1), np.int64)


def _values(graph: Graph, column: str) -> dict[str, NDArray[np.bool_]]:
    """The nodes with each value of a column."""
    if column == LABEL and graph.y is not None:
        return {name: graph.y == code for code, name in enumerate(graph.classes)}
    names = graph.feature_names
    coded = {name.partition("=")[2]: at for at, name in enumerate(names) if name.startswith(f"{column}=")}
    if coded:
        return dict(zip(coded, (_columns(graph, [*coded.values()]) == 1).T, strict=True))
    if column not in names:
        raise _no_column(graph, column, "sides")
    found = _columns(graph, [names.index(column)])[:, 0]
    return {str(one): found == one for one in (0, 1)}


def _no_column(graph: Graph, column: str, option: str) -> InputError:
    known = {name.partition("=")[0] for name in graph.feature_names}
    hint = nearest(column, known) or "It is a feature column of the node table, or label for the classes."
    return fail(option, column, "to be a column of the graph", hint)


def _columns(graph: Graph, places: list[int]) -> NDArray[np.float32]:
    x: Any = graph.x
    found = x[:, places].toarray() if sp.issparse(x) else np.asarray(x)[:, places]
    return np.asarray(found, np.float32)
