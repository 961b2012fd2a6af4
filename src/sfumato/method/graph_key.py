"""The identity of a graph: its ids, names and declared ranges, all of them public."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from sfumato.errors import InputError

if TYPE_CHECKING:
    from sfumato.graph.facts import Ranges
    from sfumato.graph.graph import Graph

_RANGE = ("name", "min", "max")


def id_lines(graph: Graph) -> str:
    r"""Return the node ids of a graph in the order of its rows, one a line.

    >>> from sfumato.graph.graph import Graph
    >>> id_lines(Graph.from_edges([0], [1], 2, directed=False))
    '0\n1'
    """
    ids = np.arange(graph.num_nodes) if graph.node_ids is None else graph.node_ids
    return "\n".join(map(str, ids.tolist()))


@dataclass(frozen=True)
class GraphKey:
    """A graph key identifies a graph by its ids. Aggregates are reused for a graph with the same ids alone; columns are compared.

    All of it is public: ids and names, no features, labels or arcs.

    ``name``, ``num_nodes``, ``classes``, ``feature_names`` and ``ranges`` are those of the graph; ``ids_digest`` is a hash of
    its node ids.
    """

    name: str
    num_nodes: int
    ids_digest: str
    classes: tuple[str, ...]
    feature_names: tuple[str, ...]
    ranges: Ranges = ()

    @classmethod
    def of(cls, graph: Graph) -> GraphKey:
        """Compute the key of a graph from its ids and names alone."""
        digest = hashlib.sha256(id_lines(graph).encode()).hexdigest()
        return cls(graph.name, graph.num_nodes, digest, graph.classes, graph.feature_names, graph.ranges)

    def to_dict(self) -> dict[str, Any]:
        """Return the form that spec.json keeps; ``ranges`` are there only if a column has one.

        >>> GraphKey("campus", 4, "0" * 64, ("a",), ("age",), (("age", 0, None),)).to_dict()["ranges"]
        [{'name': 'age', 'min': 0, 'max': None}]
        """
        found = asdict(self)
        ranges = [dict(zip(_RANGE, one, strict=True)) for one in found.pop("ranges")]
        return {**found, "ranges": ranges} if ranges else found

    @classmethod
    def from_dict(cls, stored: Mapping[str, Any]) -> GraphKey:
        """Read what :meth:`to_dict` wrote."""
        values: dict[str, Any] = {
            name: tuple(value) if isinstance(value, list) else value for name, value in stored.items()
        }
        values["ranges"] = tuple(tuple(one[end] for end in _RANGE) for one in stored.get("ranges", ()))
        return cls(**values)

    def check_columns(self, graph: Graph) -> None:
        """Refuse another graph whose feature columns (or classes, if labeled) are not those of training, in order.

        Raises:
            InputError: columns or classes differ, or stand in another order.
        """
        for what in ("feature_names", "ranges", "classes"):
            trained, found = getattr(self, what), getattr(graph, what)
            if trained != found and (found or what != "classes") and (trained or what != "ranges"):
                raise InputError(
                    f"Expected graph {graph.name!r} to have the {len(trained)} {what} of training in their order, got others. "
                    "Read both tables with one schema."
                )
