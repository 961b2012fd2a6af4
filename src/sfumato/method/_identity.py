"""What tells the fitted graph from another one with the same node ids: keyed digests of what is public under the unit.

Arcs are among it only where the unit says that they are public, and at node level ids are all there is: there another graph
with the same ids cannot be told apart. Roles tell no graph apart, since one may be split in many ways; their digest says
whether a split is that of the fit.

A saved run keeps its identity beside ``release/``, in ``identity.json``, and never in it: ids may be names, and digests of
features and labels, though these are public, tell whoever knows the key which values the data set holds.
"""

from __future__ import annotations

import secrets
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from hashlib import blake2b
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from sfumato._blocks import let_go
from sfumato.graph._subgraph import induced

if TYPE_CHECKING:
    from sfumato.graph._graph import Graph

_ENTRIES = 1 << 22
_NARROW = 64
"""Rows of so many columns are digested as they stand, wider ones by their entries: one rule for however they are held."""

OTHER_COLUMNS = (
    "Read both tables with one schema. A column that is no feature is named as it was in training: --label COLUMN, --id-column "
    "COLUMN or --drop COLUMN."
)
"""What to do about a feature column that was none in training."""


@dataclass(frozen=True, eq=False, repr=False)
class Identity:
    """An identity holds the node ids of the fitted graph (None: the numbers of rows), and keyed digests of its public values.

    What is not public, or not there, has no digest. That of ``roles`` is empty in runs that were saved without.
    """

    num_nodes: int
    ids: NDArray[Any] | None
    key: bytes
    digests: dict[str, str]
    roles: str = ""

    @classmethod
    def of(cls, graph: Graph, public: Collection[str]) -> Identity:
        """Compute the identity of a graph; ``public`` names what may be read of it."""
        key = secrets.token_bytes(32)
        roles = _role_digest(graph.roles, key) if graph.roles is not None and "roles" in public else ""
        return cls(graph.num_nodes, graph.node_ids, key, _digests(graph, public, key), roles)

    def to_dict(self) -> dict[str, Any]:
        return {
            "format": 1,
            "num_nodes": self.num_nodes,
            "key": self.key.hex(),
            "digests": self.digests,
            "roles": self.roles,
            "ids": self.ids,
        }

    @classmethod
    def from_dict(cls, stored: Mapping[str, Any]) -> Identity:
        ids = stored["ids"]
        ids = None if ids is None else np.array(ids)
        return cls(
            int(stored["num_nodes"]),
            ids,
            bytes.fromhex(stored["key"]),
            dict(stored["digests"]),
            stored.get("roles", ""),
        )

    def rows(self, graph: Graph) -> NDArray[np.int64] | None:
        """Return which row of ``graph`` each fitted row is, int64 [num_nodes]; None if it has other node ids."""
        if self.num_nodes != graph.num_nodes:
            return None
        mine, theirs = (np.arange(self.num_nodes) if ids is None else ids for ids in (self.ids, graph.node_ids))
        if mine.dtype.kind != theirs.dtype.kind:
            mine, theirs = mine.astype(str), theirs.astype(str)
        first, second = np.argsort(mine), np.argsort(theirs)
        if not np.array_equal(mine[first], theirs[second]):
            return None
        rows = np.empty(len(mine), np.int64)
        rows[first] = second
        return rows

    def ordered(self, graph: Graph) -> Graph:
        """Return ``graph``, which has the same node ids, with its nodes in the order of the fitted rows."""
        rows = self.rows(graph)
        if rows is None or np.array_equal(rows, np.arange(len(rows))):
            return graph
        return induced(graph, rows) or graph

    def has_roles(self, roles: NDArray[np.uint8]) -> bool:
        """Return whether these are the roles of the fit, in the order of the fitted rows."""
        return self.roles == _role_digest(roles, self.key)

    def difference(self, graph: Graph) -> str | None:
        """Return which public value of ``graph``, nodes in order, is another one. What either graph lacks is not compared."""
        found = _digests(graph, self.digests, self.key)
        return next((name for name, digest in found.items() if digest != self.digests[name]), None)


def in_columns(graph: Graph, names: tuple[str, ...]) -> Graph:
    """Return the graph with its named columns in this order; as it is, if it has others."""
    mine = graph.feature_names
    if mine == names or len(set(names)) < len(names) or sorted(mine) != sorted(names):
        return graph
    assert graph.x is not None
    place = {name: at for at, name in enumerate(mine)}
    ranges = {one[0]: one for one in graph.ranges}
    x = graph.x[:, [place[name] for name in names]]
    return graph.changed(x=x, feature_names=names, ranges=tuple(ranges[name] for name in names if name in ranges))


def in_classes(graph: Graph, names: tuple[str, ...]) -> Graph:
    """Return the graph with its classes, or the columns of its targets, in this order; as it is, if it has others."""
    mine = graph.classes
    if mine == names or len(mine) != len(names) or {*mine} != {*names}:
        return graph
    if graph.targets is not None:
        columns = [mine.index(name) for name in names]
        targets = replace(graph.targets, values=graph.targets.values[:, columns], names=names)
        return graph.changed(targets=targets, classes=names)
    numbers = np.array([*(names.index(name) for name in mine), -1])  # the last one is for missing labels, -1
    return graph.changed(y=None if graph.y is None else numbers[graph.y], classes=names)


def _digests(graph: Graph, public: Collection[str], key: bytes) -> dict[str, str]:
    found = {}
    for name, parts in _PARTS.items():
        mac, empty = blake2b(key=key, person=name.encode()), True
        for part in parts(graph) if name in public else ():
            empty = False
            mac.update(f"{part.dtype.str}{part.shape}".encode())
            mac.update(np.ascontiguousarray(part).reshape(-1).view(np.uint8).data)
        if not empty:
            found[name] = mac.hexdigest()
    return found


def _role_digest(roles: NDArray[np.uint8], key: bytes) -> str:
    return blake2b(np.ascontiguousarray(roles, np.uint8).data, key=key, person=b"roles").hexdigest()


def _features(graph: Graph) -> Iterator[NDArray[Any]]:
    """The features, the same for dense, sparse and packed rows."""
    x = graph.stored_x
    if x is None:
        return
    num_rows, width = x.shape
    step = max(1, _ENTRIES // max(1, width))
    for start in range(0, num_rows, step):
        block = x[start : start + step]
        let_go(x)
        if width <= _NARROW:
            yield (block.toarray() if sp.issparse(block) else np.asarray(block)) + np.float32(0)  # no -0
            continue
        entries = sp.csr_matrix(block, copy=True)
        entries.sum_duplicates()
        entries.eliminate_zeros()
        yield from (entries.indptr.astype(np.int64), entries.indices.astype(np.int32), entries.data)


def _labels(graph: Graph) -> Iterator[NDArray[Any]]:
    """The labels by their names, whatever the order of the classes; or the other targets."""
    if graph.targets is not None:
        yield _text(graph.targets.names)
        yield graph.targets.values
    if graph.y is None:
        return
    used = np.flatnonzero(np.bincount(graph.y[graph.y >= 0]))
    names = sorted(graph.classes[label] for label in used)
    place = {name: at for at, name in enumerate(names)}
    numbers = np.full(len(graph.classes) + 1, -1, np.int64)  # the last one is for missing labels, -1
    numbers[used] = [place[graph.classes[label]] for label in used]
    yield _text(names)
    yield numbers[graph.y]


def _arcs(graph: Graph) -> Iterator[NDArray[Any]]:
    yield graph.indptr
    yield graph.indices


def _text(names: Sequence[str]) -> NDArray[np.uint8]:
    return np.frombuffer("\0".join(names).encode(), np.uint8)


_PARTS = {"features": _features, "labels": _labels, "arcs": _arcs}
