"""A PyTorch Geometric ``TemporalData`` becomes a graph: its events are edges, and their times are types of edges or a split."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

from sfumato._validate import fail
from sfumato.errors import DataError
from sfumato.graph._arcs import check_node_ids_in_range
from sfumato.graph._dropped import tell_dropped
from sfumato.graph._graph import Graph
from sfumato.graph._later import with_later
from sfumato.tables import _tensors

if TYPE_CHECKING:
    from torch_geometric.data import Data, TemporalData


def from_temporal(
    data: TemporalData,
    directed: bool,
    nodes: Data | None,
    *,
    boundaries: Sequence[float] = (),
    split_by_time: float | None = None,
    public_types: Sequence[str] = (),
    **fields: Any,
) -> Graph:
    """Read the events of a ``TemporalData`` as edges between the nodes of a ``Data``.

    Events are rows of an edge list (``src``, ``dst``, ``t``): events of one pair are one edge. ``boundaries`` are public times in
    increasing order, in the unit of ``t``: the types of edges are the windows between them, called ``before 5``, ``5 to 9`` and
    ``from 9``. ``split_by_time`` is a public time: events before it are the graph, and pairs that are new from it on are
    ``Graph.later`` (:mod:`sfumato.graph._later`). ``msg`` and what else events hold is not read, and a warning names it.

    Args:
        data: the events.
        directed: whether events have a direction.
        nodes: the nodes: ``x``, ``y``, masks, and ``num_nodes`` if nothing else says how many there are.
        boundaries: ends of windows.
        split_by_time: the end of the past.
        public_types: windows whose edges are no secret.
        **fields: ``classes``, ``self_loops`` and ``name`` of the graph.

    Raises:
        DataError: nodes are missing, an event has no time, or ends at no node.
        InputError: a boundary is no number, or they do not increase.
    """
    if nodes is None:
        raise DataError(
            "Expected `nodes` beside TemporalData, whose events have no nodes of their own, got none. Pass nodes=Data(x=x, y=y), "
            "or Data(num_nodes=...): how many there are is not read off private events."
        )
    if type(nodes).__name__ != "Data":
        raise fail("nodes", type(nodes).__name__, "to be a Data of PyTorch Geometric")
    if not any(name in nodes for name in ("num_nodes", "x", "y", *_tensors.MASKS)):
        raise DataError("Expected nodes to say how many there are, got no x, y, mask or num_nodes. Set num_nodes.")
    num_nodes = _tensors.count_nodes(nodes, 0)
    tell_dropped((name for name in data.keys() if name not in ("src", "dst", "t")), "events", 2)  # noqa: SIM118
    source, target = (
        check_node_ids_in_range(name, _tensors.dense(data[name], name).ravel(), num_nodes) for name in ("src", "dst")
    )
    times = _tensors.dense(data.t, "t").ravel().astype(np.float64)
    if not len(source) == len(target) == len(times):
        raise DataError(
            f"Expected one src, dst and t for each event, got {len(source)}, {len(target)} and {len(times)}."
        )
    if not np.isfinite(times).all():
        row = int(np.argmin(np.isfinite(times)))
        raise DataError(
            f"Expected a finite time of every event, but event {row} has none in t. Correct it, or take it out."
        )
    ends = _numbers("boundaries", boundaries)
    if ends:
        names = (
            f"before {_exact(ends[0])}",
            *(f"{_exact(one)} to {_exact(other)}" for one, other in pairwise(ends)),
            f"from {_exact(ends[-1])}",
        )
        codes = np.searchsorted(np.array(ends), times, side="right")
        fields |= {"edge_type": codes, "edge_types": names, "public_types": public_types}
    elif public_types:
        raise fail(
            "public_types", list(public_types), "to name windows between `boundaries`", "Pass boundaries as well."
        )
    y = None if nodes.y is None else _tensors.dense(nodes.y, "y")
    x, split = _tensors.features(nodes.x), _numbers("split_by_time", () if split_by_time is None else (split_by_time,))
    past = times < split[0] if split else np.ones(len(times), bool)
    if ends:
        fields["edge_type"] = fields["edge_type"][past]
    graph = Graph.from_edges(
        source[past], target[past], num_nodes, directed=directed, x=x, y=y[:, 0] if y is not None and y.ndim == 2 else y,
        roles=_tensors.roles(nodes, num_nodes), assumed_public=() if x is None else ("num_features",), **fields,
    )  # fmt: skip
    if not split:
        return graph
    found: Graph = with_later(graph, f"t:{_exact(split[0])}", [(source[~past], target[~past])], "the events")
    return found


def _exact(number: float) -> str:
    """Write a number with all its digits, so that two times never have one name.

    >>> _exact(1339200.0), _exact(0.5), _exact(1e22)
    ('1339200', '0.5', '10000000000000000000000')
    """
    return str(int(number)) if number == int(number) else repr(number)


def _numbers(name: str, given: Sequence[float]) -> tuple[float, ...]:
    """Public times as numbers, in increasing order."""
    try:
        found = tuple(float(one) for one in given)
    except (TypeError, ValueError):
        raise fail(name, type(given).__name__, "to be numbers in the unit of t") from None
    if not np.isfinite(found).all() or any(one >= other for one, other in pairwise(found)):
        raise fail(name, list(found), "to be finite numbers in increasing order", "They are in the unit of t.")
    return found
