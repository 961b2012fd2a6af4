"""What a reader leaves out is said: names of columns and attributes that no method reads. Names are public, values are not."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Sequence
from typing import Any

from sfumato.errors import DataError, DroppedWarning

UNWEIGHTED = "Not read: the weights of edges. {}: every edge counts the same."
"""What is said of a learner that leaves out the weights of a graph; the braces stand for its name."""


UNTYPED = "Not read: the types of edges. {}: nodes are linked if an edge of any type links them."
"""What is said of a learner that sees one kind of links; the braces stand for its name."""


def tell_dropped(names: Iterable[str], place: str, above: int = 1, *, weighted: bool = False) -> None:
    """Tell in a warning which columns or attributes are not read."""
    listed = ", ".join(names)
    if listed:
        counts = "" if weighted else " Every edge counts the same."
        warnings.warn(f"Not read: {listed} of {place}.{counts}", DroppedWarning, stacklevel=above + 2)


def tell_beyond(count: int, total: int, most: int, place: str, above: int = 1) -> None:
    """Tell in a warning how many nodes are left out because their persons own more than a bound; ids and owners are public."""
    if count:
        told = f"Left out: {count} of {total} nodes of {place}, with their edges, beyond {most} of each person."
        warnings.warn(told, DroppedWarning, stacklevel=above + 2)


def tell_outside(graph: Any, public: Iterable[str]) -> None:
    """Tell in a warning of which columns nearly all cells are none of what a schema declares, where the cells are public."""
    for name, count in graph.outside.items() if {"features", "labels"} <= {*public} else ():
        if nearly_all(count, graph.num_nodes):
            warnings.warn(
                f"Nearly all cells of the column {name} of graph {graph.name!r} are none of what the schema declares. They "
                "count as missing, or as the nearest number of its range. Compare the words and the range of the schema with "
                "the table.",
                DroppedWarning,
                stacklevel=2,
            )


def nearly_all(count: int, present: int) -> bool:
    """Say whether these are more than nine of ten cells."""
    return 10 * count > 9 * present


def check_drop(drop: Iterable[str], nodes: Sequence[str], edges: Sequence[str], places: tuple[str, str]) -> None:
    """Refuse columns to be left out that neither table has: a name that is not there is mistyped."""
    for name in sorted(drop):
        if name not in (*nodes, *edges):
            raise DataError(
                f"Expected drop to name columns of {places[0]} or {places[1]}, got {name!r}. They have "
                f"{', '.join(map(repr, dict.fromkeys((*nodes, *edges))))}."
            )
