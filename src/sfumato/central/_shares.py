r"""Sums of shared labels, released once: at node level an owner's label is divided among the arcs that carry it.

Training nodes send the code of their label along the arcs that they own, to public receivers. Class c has the code
:math:`s\,(e_c - 1/C)` of norm 1, a corner of a simplex. (A one-hot row of norm 1 spends part of its allowance on the number of
neighbors, which tells classes apart less well.) A code that goes along d arcs is divided by the root of d
(:func:`~sfumato.bounded._routing.share`). The release is :math:`H = A^\top M + \sigma N(0, I)`, of sensitivity 1 (2 if records
are replaced): :func:`~sfumato.bounded._routing.routed_sensitivity`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from sfumato.bounded._incoming import capped, owned, regrouped
from sfumato.bounded._routing import receiving, routed_sensitivity, share
from sfumato.bounded.aggregation import Arcs, noisy_neighborhood_sum
from sfumato.central._counts import NAME, directions, one_hot
from sfumato.central._rows import Matrix, beside
from sfumato.loops.kernels import INT16_ONE
from sfumato.method._gaussian import multiplier_of
from sfumato.noise.keys import new_key

if TYPE_CHECKING:
    from sfumato.graph._graph import Graph
    from sfumato.method.contract import Arrays, Planned, Session
    from sfumato.noise.keys import Key


def simplex(num_classes: int) -> NDArray[np.float32]:
    """Return the codes of the classes, [num_classes, num_classes]: corners of a regular simplex around 0, of norm 1."""
    codes = np.eye(num_classes) - 1 / num_classes
    return (codes / np.linalg.norm(codes[0])).astype(np.float32)


class Routed(NamedTuple):
    """What one hop sends: arcs by destination, messages [num_nodes, C], and which nodes receive, bool [num_nodes]."""

    arcs: Arcs
    messages: NDArray[np.float32]
    receives: NDArray[np.bool_]


def shared_labels(plan: Planned, graph: Graph, session: Session, receives: NDArray[np.bool_]) -> Routed:
    """Return what one hop sends: labels of training nodes along the arcs that they own, each with its share."""
    rows, _ = one_hot(graph, plan.public.num_classes)
    return route(plan, session, receiving(owned(graph), graph.train_mask, receives), rows, receives)


def route(
    plan: Planned, session: Session, lists: Arcs, rows: NDArray[np.float32], receives: NDArray[np.bool_]
) -> Routed:
    """Return the codes of one-hot ``rows`` along the arcs of ``lists``, of which each owner keeps no more than the unit's cap."""
    if plan.unit.max_out_degree is not None:
        lists = capped(lists, plan.unit.max_out_degree, session.key)
    codes = rows @ simplex(plan.public.num_classes)
    return Routed(regrouped(lists), share(codes, np.diff(lists.offsets)), receives)


def release_hop(plan: Planned, session: Session, routed: Routed) -> NDArray[np.int64]:
    """Charge the hop, then compute it; rows of nodes that do not receive are not released, and zero."""
    if not plan.unit.private:
        return sum_hop(routed, 0.0, new_key())
    key = session.charge(NAME)
    session.bind(NAME, routed.messages, *routed.arcs.arrays)
    return sum_hop(routed, _stddev(plan), key)


def sum_hop(routed: Routed, noise_stddev: float, key: Key) -> NDArray[np.int64]:
    """Compute a noisy hop that was charged, with noise in units of a full row; rows of nodes that do not receive are zero."""
    sums = noisy_neighborhood_sum(routed.arcs, routed.messages, noise_stddev, key)
    sums[~routed.receives] = 0
    return sums


def _stddev(plan: Planned) -> float:
    """Noise of one coordinate of one release; 0 without privacy."""
    if not plan.unit.private:
        return 0.0
    return multiplier_of(plan, NAME) * routed_sensitivity(plan.unit)


def share_inputs(plan: Planned, released: Arrays, own: Matrix) -> Matrix:
    """Return what the head reads of every node: twice the direction of released sums, and normalized features."""
    sums = released[NAME] / INT16_ONE
    sums -= sums.mean(axis=1, keepdims=True)
    return beside(2 * directions(sums, _stddev(plan)), own)
