"""Groups of nodes that are looked at apart: by a column of the node table, or by a feature where the tables are not there."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from sfumato._validate import fail, nearest
from sfumato.scoring._groups import MISSING, Groups, many

if TYPE_CHECKING:
    from sfumato.evaluation._source import Source
    from sfumato.graph._graph import Graph


def groups_of(source: Source, graph: Graph, column: str) -> Groups:
    """Read the groups of the nodes of a graph, as :meth:`~sfumato.scoring._groups.Groups.of` makes them."""
    if graph.targets is not None:
        raise fail(
            "by", column, "to come with classes", "Targets that are no classes are not scored by group. Drop it."
        )
    if source.nodes is None:
        return _of_features(graph, column)
    from sfumato.tables._cells import numbers, words
    from sfumato.tables._io import read_column

    cells = read_column(source.nodes, column)
    values = numbers(cells)
    if values is not None and many(values):
        return Groups.of(column, values)
    return Groups.of(column, words(column, cells).to_pylist())


def _of_features(graph: Graph, column: str) -> Groups:
    names = [str(name) for name in graph.feature_names]
    parts = {name.removeprefix(f"{column}="): at for at, name in enumerate(names) if name.startswith(f"{column}=")}
    if column in names:
        return Groups.of(column, _dense(graph, [names.index(column)])[:, 0].astype(np.float64))
    if parts:
        rows = _dense(graph, list(parts.values()))
        told = np.array([*parts, MISSING], object)
        return Groups.of(column, told[np.where(rows.any(axis=1), rows.argmax(axis=1), len(parts))])
    known = sorted({name.partition("=")[0] for name in names})
    hint = nearest(column, known) or f"It has {', '.join(known[:8]) or 'no named features'}."
    raise fail("by", column, f"to be a feature of {graph.name!r}", hint)


def _dense(graph: Graph, columns: list[int]) -> NDArray[np.floating]:
    rows = graph.x[:, columns]  # type: ignore[index]
    return np.asarray(rows.todense() if hasattr(rows, "todense") else rows)
