"""Noisy sums over neighbors, hop after hop: each hop is planned as one Gaussian release, and charged before it is computed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from numpy.typing import NDArray

from sfumato.bounded._incoming import capped, incoming, owned, regrouped
from sfumato.bounded.aggregation import (
    affected_coordinates,
    hop_arc_change,
    hop_sensitivity,
    noisy_neighborhood_sum,
    normalize_rows,
)
from sfumato.method._gaussian import multiplier_of
from sfumato.noise.keys import new_key
from sfumato.privacy.events import GaussianEvent
from sfumato.record.ledger import Release

if TYPE_CHECKING:
    import numpy as np

    from sfumato.graph._graph import Graph, PublicFacts
    from sfumato.method.contract import Arrays, Planned, Session
    from sfumato.privacy.units import Unit


def aggregation_releases(
    unit: Unit, public: PublicFacts, num_hops: int, width: int, noise_multiplier: float
) -> tuple[Release, ...]:
    """List one Gaussian release a hop, all with the same noise multiplier.

    Args:
        unit: the privacy unit.
        public: the public facts of the graph.
        num_hops: number of hops.
        width: columns of a message.
        noise_multiplier: standard deviation of the noise over the sensitivity of a hop.
    """
    hop_sensitivity(unit, released_messages=True)
    touched = affected_coordinates(unit, public.num_nodes, width)
    event, shape = GaussianEvent(noise_multiplier), (public.num_nodes, width)
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
    """

    def __init__(self, plan: Planned, graph: Graph, session: Session) -> None:
        self.plan, self.session, cap = plan, session, plan.unit.max_out_degree
        self.arcs = incoming(graph) if cap is None else regrouped(capped(owned(graph), cap, session.key))

    def __call__(self, hop: int, rows: NDArray[np.float32]) -> NDArray[np.int64]:
        """Release one hop of these messages, from 1 on, int64 [num_nodes, width] in steps."""
        name, unit = f"aggregate/{hop}", self.plan.unit
        if not unit.private:
            return noisy_neighborhood_sum(self.arcs, rows, 0.0, new_key())
        key = self.session.charge(name)
        stddev = multiplier_of(self.plan, name) * hop_sensitivity(unit, released_messages=reads_released(unit, hop))
        self.session.bind(name, rows, *self.arcs.arrays)
        return noisy_neighborhood_sum(self.arcs, rows, stddev, key)


def aggregate(plan: Planned, graph: Graph, session: Session, rows: NDArray[np.float32], num_hops: int) -> Arrays:
    """Release ``num_hops`` noisy sums, each of the normalized rows of the one before; charged as they are computed.

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
            rows = normalize_rows(released[f"aggregate/{hop}"])
    return released
