"""LapGraph releases the pairs of nodes whose bit is largest after Laplace noise, and trains a network on them.

1. The number of edges T is released with discrete Laplace noise and ``count_share`` of epsilon, unless it is public.
2. Every bit of the adjacency gets discrete Laplace noise with the rest; the T largest become edges, without an n x n array
   (:func:`~sfumato.bounded._topology.largest_pairs`).

**Formal guarantee.** Edge level, one arc or one undirected edge; pure epsilon, delta 0: one bit changes the number of edges by
1, and one entry by 1. All else is post-processing.

Source: Wu, Long, Zhang and Li (2022), LinkTeller, algorithm 3.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from numpy.typing import NDArray

from sfumato._validate import fail
from sfumato.bounded._topology import Pairs, largest_pairs
from sfumato.central._perturbed import EDGES, PerturbedTopology
from sfumato.method.card import Audience, Card
from sfumato.privacy.events import PureEvent
from sfumato.record.ledger import Release

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy as np

    from sfumato.method.contract import Planned
    from sfumato.noise.coins import SecretWords
    from sfumato.privacy.events import Event
    from sfumato.privacy.units import Unit

_MOST_EPSILON = 500


@dataclass(frozen=True)
class LapGraph(PerturbedTopology):
    """LapGraph trains on the largest entries of a noisy adjacency: pure epsilon at edge level, as the module proves.

    The release ``edges`` is int64 [at most T, 2]: arcs, or undirected edges with the smaller end first.
    """

    card: ClassVar[Card] = Card(
        name="lapgraph",
        summary="graph network on the largest cells of a noisy adjacency",
        units=("edge",),
        candidates=({"learning_rate": 0.003}, {"learning_rate": 0.01}, {"learning_rate": 0.03}),
        citations=("wu2022linkteller",),
        audience=Audience(("the perturbed edges", "weights"), never=("true edges",)),
    )

    def pairs_release(self, noise_multiplier: float) -> Release:
        return Release(EDGES, PureEvent(1 / noise_multiplier), (None, 2), 0)

    def check_noise(self, events: Sequence[Event], unit: Unit) -> None:
        """Refuse an epsilon above 500, where noise would be too small for the grid of bits."""
        epsilon = max((event.epsilon for event in events if isinstance(event, PureEvent)), default=0.0)
        if epsilon > _MOST_EPSILON:
            raise fail("epsilon", epsilon, f"to be at most {_MOST_EPSILON}", "Lower it, or take edgerand.")

    def drawn(
        self, plan: Planned, pairs: Pairs, present: NDArray[np.int64], wanted: int, source: SecretWords
    ) -> NDArray[np.int64]:
        return largest_pairs(pairs, present, plan.event_of(PureEvent, EDGES).epsilon, wanted, source)
