r"""Sensitivities of counts over a whole graph, in L1 norm, and noisy bounds for those that have none.

An edge here is an undirected edge, or one arc of a directed graph; d_v is the degree of node v.

*Of bounded change.* Let one record come or go.

=================  ==================================  ====================================================
count              one edge                            one node with all its arcs, degrees at most D
=================  ==================================  ====================================================
edges              1                                   D edges; of a directed graph 2 D arcs
pairs of groups    1                                   as edges: each edge is in one entry
degrees            2, one entry for each end; of a     D entries for the node's own degree, which becomes 0, and
                   direction of arcs 1                 one entry for each of its neighbors: 2 D, in each direction
one each node      2                                   -
nodes by group     - (public)                          2: the node leaves one entry and enters another
mutual pairs       1                                   D
weights            2^15 steps                          -
weights by range   2: one range is left, one entered   -
triangles          (below)                             D (D - 1) / 2 pairs of neighbors
wedges             (below)                             D (D - 1) / 2 at the node, D - 1 at each neighbor: 3 D (D - 1) / 2
stars              (below)                             C(D, 3) at the node, C(D - 1, 2) at each neighbor
=================  ==================================  ====================================================

*A person with k edges* moves each count by at most k times what one edge does, along the graphs between (triangle inequality);
where k edges at one node fall into entries of one kind this is reached. Counts whose change no number bounds have no proof there.

*Degrees* are held as the number of nodes of degree at most k, for public k. A node whose degree rises from d to d + 1 leaves
the entry k = d and no other; one whose degree falls from d to 0 enters the d entries below. If degrees are counted by public
groups, or triangles within groups, then a node, and a triangle, is in one group at most: the sums over groups are the same.
A record that is *replaced* goes and comes: twice as much, but for nodes by group. An emptied node is in the group of nodes
without a label, and one that is replaced in any group, so one entry falls and one rises either way.

*Without a bound.* Let G' be G and the edge uv. It closes a triangle with each common neighbor: at most min(d_u, d_v) of them,
so at most the second largest degree of G. It makes d_u + d_v wedges, and :math:`\binom{d_u}{2} + \binom{d_v}{2}` stars of three
edges. So with upper bounds :math:`t_1 \ge t_2` on the two largest degrees *of the smaller graph G* the counts have the L1
sensitivities of :func:`scaled`. The two largest degrees themselves change by at most 2 together, so they are released with
discrete Laplace noise of scale :math:`2 / \epsilon`, and a margin t is added with :math:`P(N < -t) \le \phi / 2` for one draw N.

*Proof.* Let B be the outcomes of the bounds that hold for the smaller graph G: both draws are above -t, so with probability at
least :math:`1 - \phi` under G; and under G', whose sorted degrees are no smaller. The release of the bounds is pure for all
outcomes. Every later release has an epsilon that is fixed before, and a scale that earlier releases decide: after an outcome of
B it is pure, whichever of them the bounds scale, and however many. Put a release that is constant in its place after all other
outcomes: the mechanisms that this gives are pure everywhere, so together they cost :math:`(\epsilon, \delta)` by the composition
of pure mechanisms, and they have the law of the real ones on B. So for every set S of outcomes

.. math:: P_G(S) \le P_G(S \cap B) + \phi \le e^\epsilon P_{G'}(S \cap B) + \delta + \phi

and the other way round: :math:`\phi` is paid once, by the bounds, however many counts rest on them. They are an
:class:`~sfumato.privacy.events.ApproximateEvent`, all other releases are pure. *With groups* one edge closes the triangles of one
group alone, so the same bound holds for the sum over groups.

Sources: Nissim, Raskhodnikova and Smith (2007), Smooth Sensitivity and Sampling, for what an edge changes; Karwa, Raskhodnikova,
Smith and Yaroslavtsev (2011), Private Analysis of Graph Structure, for noisy bounds on it; Hay, Li, Miklau and Jensen (2009),
Accurate Estimation of the Degree Distribution of Private Networks, for ordered counts of degrees.
"""

from __future__ import annotations

import math
from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from sfumato.errors import UnsupportedUnitError
from sfumato.graph._weights import FULL
from sfumato.noise._geometric import keyed_discrete_laplace
from sfumato.noise.keys import Key, derive_key, operand_mac
from sfumato.privacy.units import EdgeLevel, NodeLevel, PersonLevel, Unit, edges_in

if TYPE_CHECKING:
    from sfumato.graph._graph import PublicFacts

SCALED = ("triangles", "wedges", "stars")
"""Counts that no number bounds for all graphs at edge level: noisy bounds on degrees scale their noise."""
MOST_COUNT = 1 << 62
_OF_EDGES = {
    "edges": 1, "mixing": 1, "degrees": 2, "out-degrees": 1, "in-degrees": 1, "node-degrees": 2, "mutual": 1,
    "weight": FULL, "weights": 2, "bounds": 2,
}  # fmt: skip
Counts = NDArray[np.int64]


def l1_sensitivity(name: str, unit: Unit, public: PublicFacts) -> int:
    """Return the L1 sensitivity of a count under a unit, in the whole numbers that it is held in.

    **Formal guarantee.** The top of this file has the proof.

    Args:
        name: of the count, as releases are called.
        unit: the unit of privacy.
        public: facts of the graph; ``max_degree`` bounds degrees at node level.

    Raises:
        UnsupportedUnitError: there is no proof under this unit, or no bound.

    >>> from sfumato.graph._graph import PublicFacts
    >>> facts = PublicFacts(100, 75, 0, 2, directed=False, max_degree=10)
    >>> l1_sensitivity("edges", EdgeLevel(directed=False), facts), l1_sensitivity("degrees", EdgeLevel(directed=False), facts)
    (1, 2)
    >>> l1_sensitivity("degrees", PersonLevel(5, directed=False), facts)
    10
    >>> l1_sensitivity("triangles", NodeLevel(arcs="incident"), facts)
    45
    """
    edges = edges_in(unit)
    if edges is not None:
        assert isinstance(unit, EdgeLevel | PersonLevel)
        if unit.directed != public.directed:
            raise UnsupportedUnitError(
                "Statistics have a proof for single edges of undirected graphs, and for single arcs of directed ones, got the "
                f"unit of {unit.describe()} on a graph that is declared {'' if public.directed else 'un'}directed. "
                "Use --unit edge, which means the one that fits."
            )
        if name in _OF_EDGES:
            return edges * _OF_EDGES[name]
        raise UnsupportedUnitError(
            f"No number bounds by how much {'one edge' if edges == 1 else 'the edges of one person'} may change {name}, and "
            "noisy bounds on degrees have a proof for single edges alone. Leave it out."
        )
    if type(unit) is NodeLevel and unit.arcs == "incident":
        return _of_nodes(name, unit, public)
    raise UnsupportedUnitError(
        f"Statistics have no proof when the unit is {unit.describe()}. Use --unit edge, or --unit node --arcs incident with a "
        "promised bound on degrees."
    )


def _of_nodes(name: str, unit: NodeLevel, public: PublicFacts) -> int:
    if public.max_degree is None:
        raise UnsupportedUnitError(
            f"No number bounds by how much one node with all its arcs changes {name}: one node may be in every edge. Promise a "
            "bound on degrees that holds without looking at this graph (--max-degree), or protect single edges (--unit edge)."
        )
    if name == "groups":
        return 2
    most = most_degree(unit, public)
    directions = 2 if public.directed else 1
    found = {
        "edges": directions * most,
        "mixing": directions * most,
        "degrees": 2 * most,
        "out-degrees": 2 * most,
        "in-degrees": 2 * most,
        "mutual": most,
        "triangles": most * (most - 1) // 2,
        "wedges": 3 * most * (most - 1) // 2,
        "stars": math.comb(most, 3) + most * math.comb(most - 1, 2),
    }
    if name not in found:
        raise UnsupportedUnitError(
            f"Statistic {name!r} has no proof when the unit is {unit.describe()}. Use --unit edge, or leave it out."
        )
    return max(1, found[name]) * (2 if unit.relation == "replace" else 1)


def by_bounds(name: str, unit: Unit) -> bool:
    """Return whether noisy bounds on degrees scale the noise of a count, since no number bounds it for all graphs.

    >>> by_bounds("triangles", EdgeLevel(directed=False)), by_bounds("edges", EdgeLevel(directed=False))
    (True, False)
    """
    return name in SCALED and type(unit) is EdgeLevel


def most_degree(unit: Unit, public: PublicFacts) -> int:
    """Return the largest degree that a node may have, as far as is public under a unit.

    >>> from sfumato.graph._graph import PublicFacts
    >>> most_degree(EdgeLevel(directed=False), PublicFacts(100, 75, 0, 2, directed=False, max_degree=10))
    99
    """
    most = max(1, public.num_nodes - 1)
    return most if edges_in(unit) is not None or public.max_degree is None else min(most, public.max_degree)


def scaled(name: str, first: int, second: int) -> int:
    """Return the L1 sensitivity at edge level of a count of :data:`SCALED` if the two largest degrees have these bounds.

    **Formal guarantee.** The top of this file has the proof. ``first`` and ``second`` are integers, the larger one first.

    >>> [scaled(name, 10, 8) for name in SCALED]
    [8, 18, 73]
    """
    found = {"triangles": second, "wedges": first + second, "stars": math.comb(first, 2) + math.comb(second, 2)}
    return max(1, found[name])


def margin(epsilon: float, failure: float) -> int:
    r"""Return the least t with :math:`P(N < -t) \le \phi / 2` for discrete Laplace noise of scale :math:`2 / \epsilon`.

    :math:`P(N < -t) = p^{t + 1} / (1 + p)` with :math:`p = e^{-\epsilon / 2}`; one is added for the rounding of logarithms.

    >>> margin(0.1, 1e-7)
    323
    """
    half = Fraction(epsilon) / 2
    exact = (math.log(2) - math.log(failure) - math.log1p(math.exp(-float(half)))) / float(half) - 1
    return max(0, math.ceil(exact * (1 + 1e-12))) + 1


def top_bounds(tops: NDArray[np.int64], epsilon: float, failure: float, num_nodes: int) -> tuple[int, int]:
    """Return upper bounds on the two largest degrees from their noisy values: post-processing.

    No degree is larger than the number of other nodes, which is public.

    >>> top_bounds(np.array([40, 35]), 1.0, 1e-6, 1000)
    (69, 64)
    """
    more = margin(epsilon, failure)
    first, second = (min(max(int(one) + more, 1), max(1, num_nodes - 1)) for one in tops)
    return max(first, second), min(first, second)


def noisy_totals(counts: Counts, scale: Fraction, key: Key) -> Counts:
    """Release counts with discrete Laplace noise of a scale.

    **Formal guarantee.** A :class:`~sfumato.privacy.events.PureEvent` of epsilon sensitivity / ``scale``. The noise is a
    function of ``key``, of a MAC of the exact counts, and of the place. A scale of 0 adds no noise and protects nothing.

    >>> noisy_totals(np.array([3, 4]), Fraction(0), bytes(32)).tolist()
    [3, 4]
    """
    if not scale:
        return counts
    drawn = keyed_discrete_laplace(derive_key(key, operand_mac(key, counts)), scale, 0, counts.size)
    return counts + drawn.reshape(counts.shape)
