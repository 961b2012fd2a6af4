"""The public tables that are read beside a closed collection, and the graph that they give with it."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from sfumato._files import write_json
from sfumato.collect._checks import roster_sha256
from sfumato.errors import DataError, InputError
from sfumato.graph._facts import by_ids
from sfumato.graph._graph import Graph
from sfumato.tables._io import read_alone, read_ends

if TYPE_CHECKING:
    from sfumato.collect._closed import Closed
    from sfumato.collect._schema import Schema

_TRAIN, _VAL, _NONE = 0, 1, 3
_STORED = "evaluation/collection.json"


@dataclass(frozen=True)
class Tables:
    """Tables are the public files that are read beside a collection.

    ``edges`` are None if links are what users report, ``nodes`` if nothing is public about them. ``label`` is a column of
    public labels, where users report none, and ``schema`` a public schema (TOML).

    >>> Tables("edges.csv").nodes is None
    True
    """

    edges: str | None = None
    nodes: str | None = None
    label: str | None = None
    schema: str | None = None

    def check(self, asked: Schema, *, labeled: bool = True) -> Tables:
        if asked.links and self.edges is not None:
            raise InputError("Expected no `edges` with this collection, whose users report their links. Drop it.")
        if not asked.links and self.edges is None:
            raise InputError("Expected `edges` with this collection, got none. Name the table of public links.")
        if asked.label and self.label is not None:
            raise InputError("Expected no `label` with this collection, whose users report their label. Drop it.")
        if not labeled and self.label is not None:
            raise InputError("Expected no `label` with `task` link, which reads none. Drop it.")
        if labeled and not asked.label and (self.nodes is None or self.label is None):
            raise InputError(
                "Expected `nodes` and `label` with this collection, whose users report no label: labels are public then. "
                "Name both."
            )
        return self

    def write(self, run: Path) -> None:
        """Record the tables under `evaluation/` of a ``run``, with absolute paths."""
        paths = {name: str(Path(path).resolve()) for name, path in asdict(self).items() if path and name != "label"}
        write_json(run / _STORED, {**asdict(self), **paths})

    @classmethod
    def of_run(cls, run: Path) -> Tables:
        try:
            return cls(**json.loads((run / _STORED).read_text()))
        except (OSError, ValueError, TypeError) as error:
            raise InputError(f"Expected {str(run / _STORED)!r} to name the tables of the run, got none.") from error


def graph_of(closed: Closed, tables: Tables, *, labeled: bool = True) -> Graph:
    """Build the public graph: a node for each id in the tables and in the collection, in the order of the ids.

    Where links are reported the nodes are the users of the roster, in its order, without links.

    Roles follow from the SHA-256 of the collection and the ids: of the nodes whose label is reported or public, two thirds are
    in training and one third in validation; there are no test nodes.
    """
    tables.check(closed.schema, labeled=labeled)
    if closed.schema.links:
        listed = read_alone(str(tables.nodes), label=tables.label, schema=tables.schema)
        _check_roster(closed.schema, ids_of(listed))
        return _with_roles(replace(listed, roles=None, name=closed.schema.collection), closed, _known(listed))
    reported = {report.user: report.answers for report in closed.reports}
    graph, alone = public_graph(tables, reported, closed.schema.collection)
    ids = ids_of(graph)
    places = {one: place for place, one in enumerate(ids)}
    classes, y = _labels(closed.schema, alone, places) if labeled else ((), None)
    known = y >= 0 if y is not None else np.array(["label" in reported.get(one, ()) for one in ids])
    names = tuple(closed.schema.features.columns) if closed.schema.features else ()
    x = sp.csr_matrix((len(ids), len(names)), dtype=np.float32) if names else None
    graph = replace(graph, x=x, y=y, classes=classes, feature_names=names)
    return _with_roles(graph, closed, known) if labeled else graph


def public_graph(tables: Tables, users: Iterable[str], name: str) -> tuple[Graph, Graph | None]:
    """Build the graph of public links: a node for each id in the tables and of ``users``, in the order of the ids.

    The table of nodes comes with it, if there is one.
    """
    alone = None
    if tables.nodes is not None:
        alone = read_alone(tables.nodes, label=tables.label, schema=tables.schema, features=False)
    sources, targets = read_ends(str(tables.edges))
    ids = sorted({*sources, *targets, *users, *(ids_of(alone) if alone else ())})
    places = {one: place for place, one in enumerate(ids)}
    first, second = ([places[one] for one in side] for side in (sources, targets))
    return Graph.from_edges(first, second, len(ids), directed=False, node_ids=np.array(ids), name=name), alone


def ids_of(graph: Graph) -> list[str]:
    ids = np.arange(graph.num_nodes) if graph.node_ids is None else graph.node_ids
    return [str(one) for one in ids.tolist()]


def _check_roster(asked: Schema, ids: Sequence[str]) -> None:
    assert asked.links is not None
    if (len(ids), roster_sha256(ids)) != (asked.links.users, asked.links.roster):
        raise DataError(
            f"Expected the node table to list the {asked.links.users} users of the roster in its order, got others. Reports "
            "of links tell of users by their place there."
        )


def _labels(asked: Schema, alone: Graph | None, places: Mapping[str, int]) -> tuple[tuple[str, ...], Any]:
    """Classes, and the public label of each node; None where users report theirs."""
    if asked.label:
        return tuple(asked.label.classes), None
    assert alone is not None
    assert alone.y is not None
    y = np.full(len(places), -1, np.int64)
    y[[places[one] for one in ids_of(alone)]] = alone.y
    return alone.classes, y


def _known(graph: Graph) -> NDArray[np.bool_]:
    assert graph.y is not None
    known: NDArray[np.bool_] = graph.y >= 0
    return known


def _with_roles(graph: Graph, closed: Closed, known: NDArray[np.bool_]) -> Graph:
    digest, roles = bytes.fromhex(closed.sha256), np.full(graph.num_nodes, _NONE, np.uint8)
    ids = ids_of(graph)
    for place in np.flatnonzero(known):
        drawn = int.from_bytes(hashlib.sha256(digest + ids[place].encode()).digest()[:8], "big")
        roles[place] = _TRAIN if 3 * drawn < 2**65 else _VAL
    if (roles == _TRAIN).sum() < 2 or not (roles == _VAL).any():
        raise DataError(
            f"Expected enough users with a label to train and to validate, got {int(known.sum())}. Collect more reports."
        )
    numbered: Graph = by_ids(graph, roles)
    return numbered
