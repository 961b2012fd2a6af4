r"""Which arcs carry a message, and how much of it, so that no noise is paid for sums that nobody reads.

A hop that sends every message along every arc (:func:`~sfumato.bounded.aggregation.hop_sensitivity`) also pays for sums
that nobody needs. If public facts say who sends and who receives, less noise gives the same guarantee:

* **One way.** An undirected edge is two arcs, and changes two rows. If messages flow only from the node that comes
  earlier in a public order to the node that comes later, the edge changes only one row (:func:`one_way`).
* **Shares.** If an owner's message is divided by the root of the number of arcs that carry it, all copies together
  have norm at most 1, however many there are (:func:`share`): no cap is needed, and no arc is dropped.

The order is a fixed function of roles and of a public seed (:func:`public_order`).
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from sfumato._blocks import let_go, room
from sfumato._validate import fail
from sfumato.bounded.aggregation import Arcs
from sfumato.errors import UnsupportedUnitError
from sfumato.graph._arcs import row_blocks
from sfumato.privacy.units import EdgeLevel, NodeLevel, PersonLevel, Unit, edges_in

_MARGIN = 1 - 2.0**-20
Keeps = Callable[[NDArray[np.int32], NDArray[np.int32]], NDArray[np.bool_]]


def public_order(train: NDArray[np.bool_], seed: int) -> NDArray[np.int64]:
    """Return the rank of every node: training nodes first, then all others, each shuffled by a public seed.

    >>> public_order(np.array([False, True, True]), seed=0).tolist()
    [2, 1, 0]
    """
    shuffled = np.random.default_rng(seed).permutation(len(train))
    first, rank, count = train[shuffled], np.empty(len(train), np.int64), np.count_nonzero(train)
    rank[shuffled[first]] = np.arange(count)
    rank[shuffled[~first]] = np.arange(count, len(train))
    return rank


def one_way(arcs: Arcs, rank: NDArray[np.int64]) -> Arcs:
    """Keep only the arcs that lead from a lower to a higher rank.

    **Formal guarantee.** Of the two arcs of an undirected edge at most one is kept. So if messages of norm at most 1 do
    not depend on arcs, adding or removing the edge changes one row of their sums by norm at most 1.

    >>> both = Arcs(np.array([0, 1, 2]), np.array([1, 0], np.int32))
    >>> one_way(both, np.array([0, 1])).sources.tolist()
    [0]
    """
    ranks = rank.astype(np.int32)  # which nodes are fewer than, and half as much memory to look them up in
    return kept(arcs, lambda sources, targets: ranks[sources] < ranks[targets])


def outward(arcs: Arcs, train: NDArray[np.bool_]) -> Arcs:
    """Drop the arcs along which a label could come back to its own node.

    These are the arcs from other nodes to training nodes, and the arcs from a node to itself.

    >>> both = Arcs(np.array([0, 1, 2]), np.array([1, 0], np.int32))
    >>> outward(both, np.array([True, False])).sources.tolist()
    [0]
    """
    return kept(arcs, lambda sources, targets: (train[sources] | ~train[targets]) & (sources != targets))


def receiving(lists: Arcs, sends: NDArray[np.bool_], receives: NDArray[np.bool_]) -> Arcs:
    """Keep, in each owner's list, the arcs of senders that lead to receivers other than themselves, with their weights.

    **Formal guarantee.** What is left of a list depends on that list alone, if both sets are public.

    >>> both = np.array([True, True, False])
    >>> receiving(Arcs(np.array([0, 2, 3, 3]), np.array([1, 2, 0], np.int32)), both, ~both).sources.tolist()
    [2]
    """
    return kept(lists, lambda targets, owners: receives[targets] & sends[owners] & (targets != owners))


def kept(arcs: Arcs, keep: NDArray[np.bool_] | Keeps) -> Arcs:
    """Return the arcs that a mask keeps, in their groups and with their weights.

    ``keep`` is the mask, or a function that gives it for some arcs, from the node that each lists and the node in whose group it
    is. It must decide about each arc alone: how many are asked for at a time changes nothing.

    >>> both = Arcs(np.array([0, 1, 2]), np.array([1, 0], np.int32))
    >>> kept(both, np.array([False, True])).offsets.tolist()
    [0, 0, 1]
    >>> kept(both, lambda listed, groups: listed < groups).offsets.tolist()
    [0, 0, 1]
    """
    offsets, parts = np.zeros(arcs.num_nodes + 1, np.int64), arcs.arrays[1:]
    found = [room(len(part), part.dtype) for part in parts]
    for first, last in row_blocks(arcs.offsets):
        ends = arcs.offsets[first : last + 1]
        low, high, stop = ends[0], ends[-1], offsets[first]
        if isinstance(keep, np.ndarray):
            mask = keep[low:high]
        else:
            mask = keep(arcs.sources[low:high], np.repeat(np.arange(first, last, dtype=np.int32), np.diff(ends)))
        before = np.concatenate(([0], np.cumsum(mask, dtype=np.int64)))
        offsets[first : last + 1] = stop + before[ends - low]
        for part, own in zip(parts, found, strict=True):
            own[stop : offsets[last]] = part[low:high][mask]
            let_go(part)
            let_go(own)
    return Arcs(offsets, *(own[: offsets[-1]] for own in found))


def share(rows: NDArray[np.float32], out_degree: NDArray[np.number]) -> NDArray[np.float32]:
    r"""Divide each owner's message among the arcs that carry it: :math:`m_u / \sqrt{d_u}`, for owned out-lists.

    **Formal guarantee.** Messages longer than 1 are scaled to norm 1; then the copies along all :math:`d_u` arcs of owner
    u have joint norm :math:`\sqrt{d_u \cdot \|m_u\|^2 / d_u} \le 1`. (They are made smaller by 2^-20, more than their
    rounding to float32 can add.) Dividing by :math:`d_u` would be sound too, but weaker; not dividing needs a cap D and has
    sensitivity :math:`\sqrt D`.

    >>> share(np.array([[1.0]], np.float32), np.array([4])).round(3).tolist()
    [[0.5]]
    """
    if len(rows) != len(out_degree):
        raise fail("out_degree", f"{len(out_degree)} numbers", f"to be one for each of {len(rows)} rows")
    square = np.square(rows, dtype=np.float64).sum(axis=1)
    weight: NDArray[np.float64] = _MARGIN / np.sqrt(np.maximum(square, 1) * np.maximum(out_degree, 1))
    return (rows * weight[:, None]).astype(np.float32)


def needs_one_way(unit: Unit) -> bool:
    """Return whether messages must flow as :func:`one_way` says. They must if both arcs of an undirected edge are one record.

    >>> needs_one_way(EdgeLevel(directed=False)), needs_one_way(EdgeLevel(directed=True))
    (True, False)
    """
    return isinstance(unit, EdgeLevel | PersonLevel) and edges_in(unit) is not None and not unit.directed


def can_route(unit: Unit) -> bool:
    """Return whether a hop that is routed by the rules of this module has a bounded sensitivity.

    >>> can_route(NodeLevel()), can_route(NodeLevel(arcs="incident"))
    (True, False)
    """
    return edges_in(unit) is not None or (type(unit) is NodeLevel and unit.arcs == "owned")


def routed_sensitivity(unit: Unit) -> float:
    """Return the L2 sensitivity of one hop that is routed by the rules of this module, in units of a full row.

    **Formal guarantee** (Frobenius norm of the change of all sums; messages have norm at most 1):

    * one arc, along which a message flows or not: 1;
    * one undirected edge, by :func:`one_way`: one row changes by one message: 1;
    * one person, of at most k edges: each moves one row by at most one message, so together at most k (triangle inequality),
      which edges that all send the same message to one node reach: k;
    * node, owned arcs, by :func:`share`, record emptied: the copies of its message vanish, of joint norm 1; no other owner's
      list, message or divisor reads this record: 1;
    * the same, record replaced: the copies have joint norm 1 before and after, and may be opposite: 2.

    With weights of arcs in [0, 1] these bounds stay: an arc carries a share of its message, rounded toward zero, which is no
    longer in any coordinate (:func:`~sfumato.bounded.aggregation.hop_sensitivity`). So are all copies together, before and after.

    >>> routed_sensitivity(EdgeLevel(directed=False)), routed_sensitivity(NodeLevel(relation="replace"))
    (1.0, 2.0)
    >>> routed_sensitivity(PersonLevel(5, directed=False))
    5.0
    """
    edges = edges_in(unit)
    if edges is not None:
        return float(edges)
    if can_route(unit):
        return 1.0 if unit.relation == "remove" else 2.0
    raise UnsupportedUnitError(
        f"One hop has no bounded sensitivity when the unit is {unit.describe()}: one record could change every row. "
        "Use EdgeLevel, or NodeLevel(arcs='owned')."
    )


def routed_arc_change(unit: Unit) -> float | None:
    r"""Return how far one arc of another owner moves a routed hop, over :func:`routed_sensitivity`; None without owned arcs.

    **Formal guarantee** (Frobenius norm of the change of all sums when the arc u -> v of another owner u vanishes, or
    appears; nobody's record changes). Let :math:`q_d` be u's message in steps if d arcs carry it. It is rounded toward
    zero, so entries of :math:`q_{d-1}` and :math:`q_d` have the same sign, those of :math:`q_d` are no longer, and
    :math:`\|q_{d-1} - q_d\|^2 \le \|q_{d-1}\|^2 - \|q_d\|^2`.

    * d = 1: row v loses :math:`q_1`, of norm at most 1.
    * d >= 2: row v loses :math:`q_d`, and d - 1 other rows get :math:`q_{d-1}` in its place: together at most
      :math:`\|q_d\|^2 + (d - 1) (\|q_{d-1}\|^2 - \|q_d\|^2) \le (d - 1) \|q_{d-1}\|^2 \le 1`, since d >= 2.
    * more arcs than a cap D keeps (:mod:`~sfumato.bounded._degree`): another arc may come in, with the same share: two rows
      move by a message of norm at most :math:`1 / \sqrt D`: :math:`\sqrt{2 / D}`.

    With weights row t gets :math:`f_w(q)` for q, with w the weight of its arc: every coordinate of :math:`w q`, rounded toward
    zero. For integers :math:`0 \le b \le a` with images A and B, :math:`A - B \le \lceil w (a - b) \rceil \le a - b` and
    :math:`A + B \le a + b`, so :math:`(A - B)^2 \le A^2 - B^2 \le a^2 - b^2`: no bound grows. An arc that only changes its weight
    moves row v by at most :math:`\|q_d\| \le 1`.

    So one arc moves the sums by at most 1, or by :math:`\sqrt 2` with a cap of 1. The k arcs of k owners move them by at most
    k times as much (triangle inequality), which they reach: all may land on row v.

    >>> routed_arc_change(NodeLevel()), routed_arc_change(NodeLevel(relation="replace")), routed_arc_change(EdgeLevel(False))
    (1.0, 0.5, None)
    """
    if unit.no_arc_change is None:
        return None
    longest = 1.0 if unit.max_out_degree is None else max(1.0, math.sqrt(2 / unit.max_out_degree))
    return longest / routed_sensitivity(unit)


def routed_coordinates(unit: Unit, num_nodes: int, width: int) -> int:
    """Return how many coordinates of a routed ``[num_nodes, width]`` release can differ between neighboring graphs.

    Under a node ``unit``, ``max_out_degree`` bounds the rows that change; without this bound all rows may change.

    >>> routed_coordinates(NodeLevel(max_out_degree=100), 1000, 6)
    600
    """
    edges = edges_in(unit)
    if edges is not None:
        return min(edges, num_nodes) * width
    cap = unit.max_out_degree
    rows = num_nodes if cap is None else cap * (1 + (unit.relation == "replace"))
    return min(rows, num_nodes) * width
