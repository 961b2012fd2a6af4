r"""EdgeRand perturbs the adjacency by randomized response and trains a network on what comes out.

Each pair of nodes keeps its bit with probability :math:`p = e^\epsilon / (1 + e^\epsilon)` and flips it otherwise
(:mod:`~sfumato.bounded._topology`). On sparse graphs nearly all released edges are false: with M pairs about
:math:`M / (1 + e^\epsilon)`. The asymmetric form, which SAGE-EDP uses, keeps a share of what came out, so that
about as many edges are released as there are.

**Formal guarantee.** Edge level, one arc or one undirected edge; pure epsilon, delta 0. The released pairs are one randomized
response with the part of epsilon that the number of edges leaves, which is one release with discrete Laplace noise; there is no
such release if ``mean_degree`` is public or the share is 1. All else is post-processing. (The published implementation flips the
two arcs of an undirected edge independently, which costs the edge 2 epsilon, and adds too little noise to its
estimate of the density. Here both arcs are one bit.)

Sources: Wu, Long, Zhang and Li (2022), LinkTeller, algorithm 2; Imola, Murakami and Chaudhuri (2022), section 4.1;
Sajadmanesh (2023), section 4.7.2 (SAGE-EDP).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, ClassVar

import numpy as np
from numpy.typing import NDArray

from sfumato._validate import PRIVATE, check_fields, fail, flag, setting
from sfumato.bounded._topology import Pairs, pairs_of, randomized_pairs, sampling_share
from sfumato.central._perturbed import COUNT, EDGES, PerturbedTopology, _adjacency
from sfumato.method.card import Audience, Card
from sfumato.noise.exact import hit_share, probabilities
from sfumato.privacy.events import RandomizedResponseEvent
from sfumato.record.ledger import Release

if TYPE_CHECKING:
    from sfumato.graph._graph import Graph
    from sfumato.method.contract import Arrays, Planned
    from sfumato.noise.coins import SecretWords


@dataclass(frozen=True)
class EdgeRand(PerturbedTopology):
    """EdgeRand trains on an adjacency that randomized response has perturbed: pure epsilon at edge level, as the module proves.

    The release ``edges`` is int64 [number that came out, 2]: arcs, or undirected edges with the smaller end first.

    Args:
        asymmetric: whether only a share of what comes out is kept, so that about as many pairs are released as have an edge.
    """

    asymmetric: bool = setting(True, PRIVATE)
    card: ClassVar[Card] = Card(
        name="edgerand",
        summary="graph network on an adjacency with randomized response",
        units=("edge",),
        candidates=({"learning_rate": 0.003}, {"learning_rate": 0.01}, {"learning_rate": 0.03}),
        citations=("wu2022linkteller", "imola2022communication"),
        audience=Audience(("the perturbed edges", "weights"), never=("true edges",)),
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        check_fields(self, asymmetric=flag("False releases every pair that comes out."))

    @property
    def counts_edges(self) -> bool:
        """Whether the number of edges is released: if a share is kept and no public number is given."""
        return self.asymmetric and super().counts_edges

    def pairs_release(self, noise_multiplier: float) -> Release:
        return Release(EDGES, RandomizedResponseEvent(1 / noise_multiplier), (None, 2), 0)

    def drawn(
        self, plan: Planned, pairs: Pairs, present: NDArray[np.int64], wanted: int, source: SecretWords
    ) -> NDArray[np.int64]:
        epsilon = plan.event_of(RandomizedResponseEvent, EDGES).epsilon
        return randomized_pairs(pairs, present, epsilon, self._share(epsilon, pairs, wanted), source)

    def own_scores(
        self, plan: Planned, released: Arrays, graph: Graph, node: int, neighbors: NDArray[np.integer]
    ) -> NDArray[np.float64]:
        """Return the score of every node for a viewer, ``node``, with these ``neighbors`` (:mod:`~sfumato.central._own_links`).

        ``plan``, ``released`` and ``graph`` are those of :meth:`scores`.

        Raises:
            InputError: links have a direction.
        """
        if graph.directed:
            raise fail(
                "graph", graph.name, "to be undirected for lists by the viewer's own links", "Friends are mutual here."
            )
        from sfumato.central._evidence import public_rows
        from sfumato.central._own_links import scores_for

        rows, without, with_edge = public_rows(graph), 0.0, 1.0
        if plan.unit.private:
            without = float(self.chance(plan, released))
            with_edge = without * math.exp(plan.event_of(RandomizedResponseEvent, EDGES).epsilon)
        likeness = np.asarray((rows @ rows[[node]].T).todense()).ravel()
        return scores_for(_adjacency(released[EDGES], plan, graph), neighbors, with_edge, without, likeness)

    def chance(self, plan: Planned, released: Arrays) -> Fraction:
        if not plan.unit.private:
            return Fraction(0)
        pairs = pairs_of(plan.unit, plan.public.num_nodes)
        wanted = int(released[COUNT][0]) if self.counts_edges else self._public_number(pairs)
        epsilon = plan.event_of(RandomizedResponseEvent, EDGES).epsilon
        flip = probabilities(hit_share(epsilon, 1, 1), 1, 1)[1]
        return flip * self._share(epsilon, pairs, wanted)

    def _share(self, epsilon: float, pairs: Pairs, wanted: int) -> Fraction:
        return sampling_share(pairs, epsilon, wanted) if self.asymmetric else Fraction(1)
