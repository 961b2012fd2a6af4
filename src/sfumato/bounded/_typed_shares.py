r"""Shared messages by type of edges: an owner's message goes along arcs of several types, and all copies have joint norm 1.

Two ways to share a message m of norm at most 1, for an owner u with :math:`d_k` arcs of type k to receivers:

* *Apart* (:func:`apart`): sums of each type side by side. Each of the :math:`K_u` types that u has gets as much:
  :math:`m / \sqrt{K_u d_k}` along each of its arcs. So a type with few arcs is heard as well as one with many.
* *Weighed* (:func:`weighed`): one sum over all types, with weights :math:`w_k` of whole eighths up to 1 that public facts or
  earlier releases give. A pair that edges of the types T link has the weight :math:`W = \min(1, \sum_{k \in T} w_k)`, and carries
  :math:`W q` with :math:`q = m / \sqrt{\max(1, \sum W^2)}`, the sum over all pairs of u. Unless all weights are 1, entries of q
  are rounded toward zero to multiples of eight steps, so that W q is exact. If they are, this is the sum over the graph without
  its types, bit for bit.

**Formal guarantee** (owned arcs; Frobenius norm of the change of all sums together, in units of a full row). A record is one
node with the arcs of *all* types that it owns.

*Record emptied: 1.* Apart: the copies of u stand in different rows or blocks, and their squares add up to at most
:math:`\sum_k d_k \cdot 1 / (K_u d_k) = 1`, the sum over its :math:`K_u` types. Weighed: one copy for each pair, together
:math:`\sum W^2 \|q\|^2 \le \sum W^2 / \max(1, \sum W^2) \le 1`. Divisors read
u's own list alone. So no other copy changes.

*Record replaced: 2.* Joint norm at most 1 before and after.

So the bounds are those of :func:`~sfumato.bounded._routing.routed_sensitivity`, however many types there are, and no budget is
divided among types. A bound D on arcs keeps at most D *pairs* of a node, over all types, which loses less than a bound for each.
Near misses: sharing within each type alone, :math:`m / \sqrt{d_k}`, has sensitivity :math:`\sqrt K`; weighed copies divided by
the root of :math:`\sum_k w_k^2 d_k` have up to :math:`\sqrt K` where pairs are linked by several types.

*Arcs of other owners.* If the list of another owner changes in any way, its copies before and after have the signs of m in every
entry. So their inner product is at least 0, and the square of the change is at most 1 + 1: :math:`\sqrt 2`.

*The same, weighed and without a bound on arcs: 1* if the pair (u, v) loses any or all of its types. Let B and B' be the square of
its weight before and after, A the sum of the squares of all others, q and q' the messages; entries of q' have the sign of those
of q and are no shorter (:math:`B' \le B`, and rounding keeps order). For an entry with sizes :math:`a \le a'`, the others add
:math:`A (a' - a)^2 \le A (a'^2 - a^2)`, and row v adds :math:`(W a - W' a')^2`, at most :math:`B a^2`, or at most
:math:`B' a'^2 - B a^2` if :math:`W' a' \ge W a`. In the second case both are at most :math:`(A + B') a'^2`. In the first they are
:math:`A a'^2 + (B - A) a^2`, at most :math:`A a'^2` if :math:`A \ge B`, and else :math:`B a'^2`, where :math:`A < B \le 1`.
Over all entries that is at most :math:`\max(A + B', B) \|q'\|^2 \le 1`, since :math:`\|q'\|^2 \le 1 / \max(1, A + B')` and
:math:`B \le 1`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from sfumato.bounded._degree import kept_by_cap
from sfumato.bounded._incoming import owned, regrouped
from sfumato.bounded._routing import kept, routed_sensitivity, share
from sfumato.bounded.aggregation import Arcs, to_steps
from sfumato.graph._weights import FULL
from sfumato.loops.kernels import INT16_ONE

if TYPE_CHECKING:
    from sfumato.graph._graph import Graph
    from sfumato.noise.keys import Key
    from sfumato.privacy.units import Unit

_PARTS = 8
_INSIDE = 2.0**-6
"""Where in its step a message stands, so that rounding to float32 and toward zero gives the step back."""


class TypedLists(NamedTuple):
    """Arcs in groups by owner, with the types of each: bit k of ``marks``, uint16 [num_arcs], stands for type k of ``kinds``."""

    arcs: Arcs
    marks: NDArray[np.uint16]
    kinds: int

    def of(self, kind: int) -> Arcs:
        """Return the arcs of one type, by its number."""
        return kept(self.arcs, (self.marks & np.uint16(1 << kind)) != 0)

    def degrees(self) -> NDArray[np.int64]:
        """Return how many arcs of each type each owner has, int64 [num_nodes, kinds]."""
        found = np.empty((self.arcs.num_nodes, self.kinds), np.int64)
        for kind in range(self.kinds):
            before = np.concatenate(([0], np.cumsum((self.marks >> np.uint16(kind)) & 1, dtype=np.int64)))
            found[:, kind] = np.diff(before[self.arcs.offsets])
        return found


def typed_lists(
    graph: Graph, sends: NDArray[np.bool_], receives: NDArray[np.bool_], cap: int | None, key: Key
) -> TypedLists:
    """Return the arcs of senders to receivers other than themselves, of which each owner keeps at most ``cap``, with their types.

    **Formal guarantee.** What is left of a list depends on ``key`` and that list alone, if both sets are public.

    >>> from sfumato.graph._graph import Graph
    >>> kinds = {"edge_type": ["friend", "call", "call"], "edge_types": ("friend", "call")}
    >>> known, all_nodes = Graph.from_edges([0, 0, 0], [1, 1, 2], 3, directed=True, **kinds), np.ones(3, bool)
    >>> typed_lists(known, all_nodes, all_nodes, None, bytes(32)).degrees().tolist()
    [[1, 2], [0, 0], [0, 0]]
    """
    assert graph.types is not None
    lists = owned(graph)
    owners = np.repeat(np.arange(lists.num_nodes, dtype=np.int32), np.diff(lists.offsets))
    keep = receives[lists.sources] & sends[owners] & (lists.sources != owners)
    lists, marks = kept(lists, keep), graph.types.marks[keep]
    fits = None if cap is None else kept_by_cap(lists.offsets, lists.sources, cap, key)
    if fits is not None:
        lists, marks = kept(lists, fits), marks[fits]
    return TypedLists(lists, marks, len(graph.types.names))


def apart(lists: TypedLists, rows: NDArray[np.float32]) -> list[tuple[Arcs, NDArray[np.float32]]]:
    """Return, for each type, its arcs by destination and the messages along them; ``rows`` are of norm at most 1.

    >>> from sfumato.graph._graph import Graph
    >>> kinds = {"edge_type": ["friend", "call", "call"], "edge_types": ("friend", "call")}
    >>> known, all_nodes = Graph.from_edges([0, 0, 0], [1, 1, 2], 3, directed=True, **kinds), np.ones(3, bool)
    >>> lists = typed_lists(known, all_nodes, all_nodes, None, bytes(32))
    >>> [round(float(messages[0, 0]), 3) for _, messages in apart(lists, np.ones((3, 1), np.float32))]
    [0.707, 0.5]
    """
    degrees = lists.degrees()
    there = np.count_nonzero(degrees, axis=1)
    return [(regrouped(lists.of(kind)), share(rows, there * degrees[:, kind])) for kind in range(lists.kinds)]


def weighed(lists: TypedLists, rows: NDArray[np.float32], weights: Sequence[float]) -> tuple[Arcs, NDArray[np.float32]]:
    """Return arcs by destination with a weight for each type in [0, 1], rounded to eighths, and the messages along them.

    >>> from sfumato.graph._graph import Graph
    >>> kinds = {"edge_type": ["friend", "call", "call"], "edge_types": ("friend", "call")}
    >>> known, all_nodes = Graph.from_edges([0, 0, 0], [1, 1, 2], 3, directed=True, **kinds), np.ones(3, bool)
    >>> lists = typed_lists(known, all_nodes, all_nodes, None, bytes(32))
    >>> arcs, messages = weighed(lists, np.ones((3, 1), np.float32), [1.0, 0.5])
    >>> arcs.weights.tolist(), round(float(messages[0, 0]), 3)
    ([32768, 16384], 0.894)
    """
    eighths = np.rint(np.clip(np.asarray(weights, np.float64), 0, 1) * _PARTS).astype(np.int64)
    steps = eighths * (FULL // _PARTS)
    table = np.zeros(1 << lists.kinds, np.int64)
    for kind, step in enumerate(steps.tolist()):
        table[1 << kind : 2 << kind] = table[: 1 << kind] + step  # all sets of types whose last one is this
    each = np.minimum(table, FULL).astype(np.uint16)[lists.marks]
    squares = np.concatenate(([0], np.cumsum(each.astype(np.int64) ** 2)))
    load = np.diff(squares[lists.arcs.offsets]) / float(FULL) ** 2
    if (steps == FULL).all():  # of a public table, and not of the arcs that are there
        return regrouped(lists.arcs), share(rows, load)
    whole = to_steps(share(rows, load)).astype(np.int64)
    whole = np.sign(whole) * (np.abs(whole) // _PARTS * _PARTS)
    messages = ((whole + np.sign(whole) * _INSIDE) / INT16_ONE).astype(np.float32)
    return regrouped(Arcs(lists.arcs.offsets, lists.arcs.sources, each)), messages


def typed_arc_change(unit: Unit, *, weighed: bool) -> float | None:
    r"""Return how far one arc of another owner, with all its types, moves sums over their sensitivity; None without owned arcs.

    **Formal guarantee** (proofs: the module). :math:`\sqrt 2` for sums of types apart, and with a bound on arcs, where another
    arc may come in; 1 for a ``weighed`` sum without one.

    >>> from sfumato.privacy.units import EdgeLevel, NodeLevel
    >>> round(typed_arc_change(NodeLevel(), weighed=False), 6), typed_arc_change(NodeLevel(), weighed=True)
    (1.414214, 1.0)
    """
    if unit.no_arc_change is None:
        return None
    return (1.0 if weighed and unit.max_out_degree is None else math.sqrt(2)) / routed_sensitivity(unit)
