"""Noisy sums over neighbors, hop after hop: each hop is planned as one Gaussian release, and charged before it is computed."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from sfumato._blocks import in_blocks
from sfumato.bounded._incoming import capped, incoming, incoming_of, owned, regrouped
from sfumato.bounded.aggregation import (
    affected_coordinates,
    hop_arc_change,
    hop_sensitivity,
    noisy_neighborhood_sum,
    normalize_rows,
)
from sfumato.method._gaussian import multiplier_of
from sfumato.noise.keys import derive_key, new_key
from sfumato.privacy.events import GaussianEvent
from sfumato.record.ledger import Release

if TYPE_CHECKING:
    from sfumato.graph._graph import Graph, PublicFacts
    from sfumato.method.contract import Arrays, Planned, Session
    from sfumato.privacy.units import Unit


def aggregation_releases(
    unit: Unit, public: PublicFacts, num_hops: int, width: int, noise_multiplier: float
) -> tuple[Release, ...]:
    """List one Gaussian release a hop, all with the same noise multiplier.

    Where edges have types, a release holds a block of so many columns for each; one edge changes one of them.

    Args:
        unit: the privacy unit.
        public: the public facts of the graph.
        num_hops: number of hops.
        width: columns of a message.
        noise_multiplier: standard deviation of the noise over the sensitivity of a hop.
    """
    hop_sensitivity(unit, released_messages=True)
    touched = affected_coordinates(unit, public.num_nodes, width)
    event, shape = GaussianEvent(noise_multiplier), (public.num_nodes, width * max(len(public.edge_types or ()), 1))
    return tuple(
        Release(
            f"aggregate/{hop}",
            event,
            shape,
            touched,
            arc_change=hop_arc_change(unit, released_messages=reads_released(unit, hop)),
        )
        for hop in range(1, num_hops + 1)
    )


def reads_released(unit: Unit, hop: int) -> bool:
    """Return whether the messages of a hop are post-processing of earlier releases, or of what is public.

    The messages of the first one read the senders' own features.

    >>> from sfumato.privacy.units import NodeLevel
    >>> reads_released(NodeLevel(max_out_degree=10), 1), reads_released(NodeLevel(max_out_degree=10), 2)
    (False, True)
    """
    return hop > 1 or "features" in unit.public


class Aggregation:
    """An aggregation makes the noisy neighborhood sums of one fit.

    Owners are capped once, and each hop is charged before it is computed. ``plan``, ``graph`` and ``session`` are those of the
    method's ``run``.

    Only hop 1 reads messages that depend on the sender's own record; later hops send what reads earlier releases.

    **Formal guarantee, types of edges** (edge level). A record is one edge of one type. A hop is a sum of the same messages over
    the arcs of each type, side by side, and messages read no arc but through earlier releases. So a record changes one block, by
    no more than it changes a hop of a graph without types, and no other block
    (:func:`~sfumato.bounded._incoming.incoming_of`): all blocks together have the sensitivity of one hop. Each has noise of its
    own.
    """

    def __init__(self, plan: Planned, graph: Graph, session: Session) -> None:
        self.plan, self.session, cap = plan, session, plan.unit.max_out_degree
        if plan.public.edge_types is not None:
            self.arcs = {name: incoming_of(graph, name) for name in plan.public.edge_types}
        else:
            self.arcs = {"": incoming(graph) if cap is None else regrouped(capped(owned(graph), cap, session.key))}

    def __call__(self, hop: int, rows: NDArray[np.float32]) -> NDArray[np.int64]:
        """Release one hop of these messages, from 1 on, int64 [num_nodes, K width] in steps, with a block for each type."""
        name, unit = f"aggregate/{hop}", self.plan.unit
        key, stddev = new_key(), 0.0
        if unit.private:
            key = self.session.charge(name)
            stddev = multiplier_of(self.plan, name) * hop_sensitivity(unit, released_messages=reads_released(unit, hop))
        found = []
        for kind, arcs in self.arcs.items():
            if unit.private:
                self.session.bind(f"{name}/{kind}" if kind else name, rows, *arcs.arrays)
            own = derive_key(key, "type", kind) if kind else key
            found.append(noisy_neighborhood_sum(arcs, rows, stddev, own))
        return found[0] if len(found) == 1 else side_by_side(*found)


def added_up(sums: NDArray[np.int64], width: int) -> NDArray[np.int64]:
    """Add up the blocks of a hop, so many columns each; one block is given back as it is.

    >>> import numpy as np
    >>> added_up(np.array([[1, 2, 10, 20]]), 2).tolist()
    [[11, 22]]
    """
    if sums.shape[1] == width:
        return sums
    total: NDArray[np.int64] = sums.reshape(len(sums), -1, width).sum(axis=1)
    return total


def side_by_side(*parts: NDArray[np.int64]) -> NDArray[np.int64]:
    """Put sums of the same nodes side by side, a block of rows at a time.

    >>> import numpy as np
    >>> side_by_side(np.array([[1], [2]]), np.array([[3], [4]])).tolist()
    [[1, 3], [2, 4]]
    """
    return in_blocks(lambda low, high: np.hstack([part[low:high] for part in parts]), len(parts[0]), read=parts)


def aggregate(plan: Planned, graph: Graph, session: Session, rows: NDArray[np.float32], num_hops: int) -> Arrays:
    """Release ``num_hops`` noisy sums, each of the normalized rows of the one before; charged as they are computed.

    Where edges have types, the blocks of a hop are added up before they are sent on.

    Args:
        plan: the plan of the fit, with a release for each hop.
        graph: the private arcs.
        session: ledger and secret key of the fit.
        rows: messages of the first hop, float32 [num_nodes, width], of norm at most 1.
    """
    released, aggregation = {}, Aggregation(plan, graph, session)
    for hop in range(1, num_hops + 1):
        released[f"aggregate/{hop}"] = aggregation(hop, rows)
        if hop < num_hops:
            rows = normalize_rows(added_up(released[f"aggregate/{hop}"], rows.shape[1]))
    return released
