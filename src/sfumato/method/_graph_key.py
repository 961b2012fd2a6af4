"""The identity of a graph: its ids, names and declared ranges, all of them public."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from sfumato._blocks import spans
from sfumato.errors import InputError
from sfumato.method._identity import OTHER_COLUMNS, Identity, in_classes, in_columns

if TYPE_CHECKING:
    from sfumato.graph._facts import Ranges
    from sfumato.graph._graph import Graph

_RANGE = ("name", "min", "max")
_AT_ONCE, _LEAST = 1 << 18, 1 << 10


def id_lines(graph: Graph) -> str:
    r"""Return the node ids of a graph in the order of its rows, one a line."""
    return "".join(_parts(graph.node_ids, graph.num_nodes))


@dataclass(frozen=True)
class GraphKey:
    """A graph key identifies a graph by its ids. Aggregates are reused for a graph with the same ids alone; columns are compared.

    All of it is public: ids and names, no features, labels or arcs. ``identity`` tells the fitted graph from others with these
    ids, and knows the order of its rows; no release holds it, and a run that was loaded from its release alone has none.
    """

    name: str
    num_nodes: int
    ids_digest: str
    classes: tuple[str, ...]
    feature_names: tuple[str, ...]
    ranges: Ranges = ()
    identity: Identity | None = field(default=None, compare=False, repr=False)

    @classmethod
    def of(cls, graph: Graph) -> GraphKey:
        """Compute the key of a graph from its ids and names alone."""
        digest = _digest(graph.node_ids, graph.num_nodes)
        return cls(graph.name, graph.num_nodes, digest, graph.classes, graph.feature_names, graph.ranges)

    def to_dict(self) -> dict[str, Any]:
        """Return the form that spec.json keeps; ``ranges`` are there only if a column has one."""
        found = {one.name: getattr(self, one.name) for one in fields(self) if one.compare and one.name != "ranges"}
        ranges = [dict(zip(_RANGE, one, strict=True)) for one in self.ranges]
        return {**found, "ranges": ranges} if ranges else found

    @classmethod
    def from_dict(cls, stored: Mapping[str, Any], identity: Mapping[str, Any] | None = None) -> GraphKey:
        """Read what :meth:`to_dict` wrote, with the identity that stands beside a release."""
        values: dict[str, Any] = {
            name: tuple(value) if isinstance(value, list) else value for name, value in stored.items()
        }
        values["ranges"] = tuple(tuple(one[end] for end in _RANGE) for one in stored.get("ranges", ()))
        known = None if identity is None else Identity.from_dict(identity)
        if known is not None and _digest(known.ids, stored["num_nodes"]) != stored["ids_digest"]:
            raise ValueError("identity.json has other node ids than the release")
        return cls(**values, identity=known)

    def has_ids_of(self, graph: Graph) -> bool:
        """Say whether a graph has these node ids, in any order if the identity is known."""
        if self.of(graph).ids_digest == self.ids_digest:
            return True
        return self.identity is not None and self.identity.rows(graph) is not None

    def in_columns(self, graph: Graph) -> Graph:
        """Return the graph with its named feature columns and its classes in the order of training; others stay as they are."""
        return in_classes(in_columns(graph, self.feature_names), self.classes)

    def check_columns(self, graph: Graph) -> None:
        """Refuse another graph whose feature columns (or classes, if labeled) are not those of training, in order."""
        for what in ("feature_names", "ranges", "classes"):
            trained, found = getattr(self, what), getattr(graph, what)
            if trained != found and (found or what != "classes") and (trained or what != "ranges"):
                more = sorted({*found} - {*trained}) if what == "feature_names" else []
                raise InputError(
                    f"Expected graph {graph.name!r} to have the {len(trained)} {what} of training in their order, got "
                    + (
                        f"{more[0].partition('=')[0]!r} beside them. {OTHER_COLUMNS}"
                        if more
                        else "others. Read both tables with one schema."
                    )
                )


def _parts(ids: NDArray[Any] | None, num_nodes: int) -> Iterator[str]:
    """The lines of ids, many at a time; each part but the last ends with a newline."""
    for first, last in spans(num_nodes, _AT_ONCE):
        some = np.arange(first, last) if ids is None else ids[first:last]
        yield _text(some) + "\n" * (last < num_nodes)


def _text(ids: NDArray[Any]) -> str:
    """The lines of some ids. Many numbers of equal length, as rows that are counted have, are written digit by digit."""
    low, high = (0, 0) if ids.dtype.kind == "U" or len(ids) < _LEAST else (int(ids.min()), int(ids.max()))
    if not 0 < low <= high < 2**32 or len(str(low)) < len(str(high)):
        return "\n".join(map(str, ids.tolist()))
    rest, lines = ids.astype(np.uint32), np.full((len(ids), len(str(low)) + 1), ord("\n"), np.uint8)
    for column in range(len(str(low)) - 1, -1, -1):
        tens = rest // np.uint32(10)
        lines[:, column] = rest - tens * np.uint32(10) + np.uint32(ord("0"))
        rest = tens
    return lines.tobytes()[:-1].decode("ascii")


def _digest(ids: NDArray[Any] | None, num_nodes: int) -> str:
    found = hashlib.sha256()
    for part in _parts(ids, num_nodes):
        found.update(part.encode())
    return found.hexdigest()
