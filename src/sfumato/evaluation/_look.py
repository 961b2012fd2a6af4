"""A look at a request before anything is spent: all that is wrong with it at once, and nothing is released or written.

Reading and planning stop at the first problem. A look goes on: it leaves out the column that the problem names, and tries again.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sfumato.errors import SfumatoError
from sfumato.evaluation._answered import kind_of
from sfumato.evaluation._request import prepare
from sfumato.graph._declared import check_declared

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sfumato.evaluation._request import Prepared, Request
    from sfumato.evaluation._source import Source
    from sfumato.graph._graph import Graph
    from sfumato.tables._cells import ReadColumn

_NAMED = re.compile(r"column '([^']+)'")


@dataclass
class Look:
    """What a look found. Problems hold no private value."""

    problems: list[str] = field(default_factory=list)  # what is wrong and what to do, each once
    left_out: list[str] = field(default_factory=list)  # columns that a problem named
    tables: list[tuple[str, Sequence[ReadColumn]]] = field(default_factory=list)  # what columns were taken for
    graph: Graph | None = None  # without what was left out; None if nothing could be read
    prepared: Prepared | None = None  # None if there is no plan

    @contextmanager
    def noting(self) -> Iterator[None]:
        """Keep what is refused in a block as a problem, in place of raising it.

        >>> found = Look()
        >>> with found.noting():
        ...     raise SfumatoError("Expected a table, got none. Name one.")
        >>> found.problems
        ['Expected a table, got none. Name one.']
        """
        try:
            yield
        except SfumatoError as error:
            self._keep(" ".join(str(error).split()))
        except OSError as error:
            self._keep(f"{error.strerror or error}: {error.filename}. Check the path, its rights and the disk.")

    def _keep(self, text: str) -> None:
        if text not in self.problems:
            self.problems.append(text)


def look(source: Source, request: Request | None, *, check: Callable[[Graph], None] | None = None) -> Look:
    """Read a source, plan a request, and find everything that is wrong with both."""
    found = Look()

    def load(source: Source) -> Graph:
        found.tables.clear()
        found.graph = source.load(told=lambda place, columns: found.tables.append((place, columns)))
        return found.graph

    droppable = _features(source)
    while True:
        before = len(found.problems)
        with found.noting():
            if request is None:
                load(source)
            else:
                asked = replace(request, source=source, assume_public=True)
                found.prepared = prepare(asked, load=load, look=check, kind=kind_of(asked))
        named = [name for text in found.problems[before:] for name in _NAMED.findall(text) if name in droppable]
        if not named:
            break
        droppable.remove(named[0])
        found.left_out.append(named[0])
        source = replace(source, drop=(*source.drop, named[0]))
    if request is not None and not request.assume_public:
        graph = found.graph or _nodes_alone(source)
        if graph is not None:
            with found.noting():
                check_declared(graph, request.unit_on(graph), source.tables)
    return found


def _features(source: Source) -> list[str]:
    """The columns of the node table that a look may leave out: features, and no others."""
    if source.nodes is None or source.edges is None:
        return []
    from sfumato.graph._schema import Schema
    from sfumato.tables._io import special_columns
    from sfumato.tables._tables import FileTable

    try:
        names, schema = FileTable(Path(source.nodes)).column_names, Schema.read(source.schema)
        own, *_ = special_columns(source.nodes, source.edges, schema=schema, drop=source.drop)
    except (SfumatoError, OSError):  # reading says it better
        return []
    labels = source.label or schema.label or ()
    special = {
        own,
        schema.role,
        schema.degree_column,
        *((labels,) if isinstance(labels, str) else labels),
        *source.text,
    }
    return [name for name in names if name not in special and name not in source.drop]


def _nodes_alone(source: Source) -> Graph | None:
    """The graph without edges, where these could not be read; None if the nodes cannot be read either."""
    if source.nodes is None:
        return None
    import pyarrow as pa

    from sfumato.tables._build import build_graph
    from sfumato.tables._reading import Reading
    from sfumato.tables._tables import FileTable

    ends: dict[str, Any] = {"source": "source", "target": "target"}
    how = Reading(source.label, source.schema, source.directed, drop=source.drop, **ends)
    none = pa.table({name: pa.array([], pa.large_string()) for name in ends})
    try:
        return build_graph(FileTable(Path(source.nodes)), none, how, (source.nodes, "no edges"))
    except (SfumatoError, OSError):
        return None
