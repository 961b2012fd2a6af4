r"""LPGNet stacks networks that read features, and noisy counts of the neighbors' predicted classes.

1. A network on features predicts a class for every node.
2. Stage k counts, for every node, the neighbors by predicted class, :math:`S_v = \sum_{u \to v} e_{\hat y_u}`, releases
   the counts with discrete Laplace noise, and trains a network on what all earlier networks said beside all released counts.

Counts are read cut at 0 and divided by their sums, which is post-processing.

**Formal guarantee.** Edge level, pure epsilon, delta 0. Features and labels are public, and predictions of earlier stages
come from them and from earlier releases, so they do not move with an arc. One arc changes one entry of S by 1; one undirected
edge changes two rows, each in one entry: L1 sensitivity 2 (:func:`~sfumato.bounded._counting.unrouted_sensitivity`). The K
releases share epsilon evenly and add up. (The published prototype draws the noise of different parts of a graph from copies of
one random generator, so differences of rows have none; a later copy of the method takes sensitivity 1 for undirected edges.)

Source: Kolluri, Baluta, Hooi and Saxena (2022), LPGNet: Link Private Graph Networks for Node Classification, algorithm 1.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from sfumato._validate import check_int
from sfumato.bounded._counting import noisy_counts, unrouted_sensitivity
from sfumato.bounded.aggregation import Arcs
from sfumato.central._counts import laplace_scale
from sfumato.central._learning import Features, NetworkMethod, train
from sfumato.loops.kernels import INT16_ONE
from sfumato.method.card import Audience, Card
from sfumato.method.contract import Arrays, Outcome, Planned, Session
from sfumato.nn._models import MLP
from sfumato.nn._weights import load_weights, network_arrays, seeded
from sfumato.noise.keys import new_key
from sfumato.privacy.events import PureEvent
from sfumato.record.ledger import Release

if TYPE_CHECKING:
    from collections.abc import Callable

    from sfumato.graph._graph import Graph, PublicFacts
    from sfumato.privacy.units import Unit


@dataclass(frozen=True)
class LPGNet(NetworkMethod):
    """LPGNet reads counts of the neighbors' predicted classes, released once a stage.

    Each release is int64 [num_nodes, num_classes]; one neighbor is :data:`~sfumato.loops.kernels.INT16_ONE` in these steps.

    Args:
        num_hops: K, how many stages follow the network on features.
    """

    num_hops: int = 2
    card: ClassVar[Card] = Card(
        name="lpgnet",
        summary="stacked networks on noisy counts of the neighbors' predicted classes",
        options={"hops": "num_hops"},
        defaults={"hops": "2"},
        units=("edge",),
        candidates=({"num_hops": 1}, {"num_hops": 2}),
        citations=("kolluri2022lpgnet",),
        audience=Audience(("noisy aggregates", "weights"), never=("sums before noise",)),
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        check_int(low=1, high=1000, num_hops=self.num_hops)

    def releases(self, unit: Unit, public: PublicFacts, noise_multiplier: float) -> tuple[Release, ...]:
        unrouted_sensitivity(unit)
        event, shape = PureEvent(1 / (self.num_hops * noise_multiplier)), (public.num_nodes, public.num_classes)
        return tuple(Release(f"aggregate/{k}", event, shape, 0) for k in range(1, self.num_hops + 1))

    def run(self, plan: Planned, graph: Graph, session: Session) -> Outcome:
        arcs, weights, released = Arcs(*graph.transpose()), {}, {}

        def stage(k: int, network: MLP, inputs: Tensor) -> None:
            rows = Features(graph).rows if k == 0 else lambda ids: inputs[torch.from_numpy(np.asarray(ids))]
            train(self, plan, session, f"network/{k}", network, graph, rows)
            weights.update(network_arrays(f"network.{k}", network))

        def counts(k: int, rows: NDArray[np.float32]) -> NDArray[np.int64]:
            released[f"aggregate/{k}"] = self._counted(plan, session, f"aggregate/{k}", arcs, rows)
            return released[f"aggregate/{k}"]

        with seeded(session.seed):
            networks = self._networks(plan.public)
        self._through(networks, graph, counts, stage)
        return Outcome(weights, released)

    def scores(self, plan: Planned, weights: Arrays, released: Arrays, graph: Graph) -> NDArray[np.float32]:
        return self.replay(plan, weights, graph, lambda k, _: released[f"aggregate/{k}"])

    def replay(
        self,
        plan: Planned,
        weights: Arrays,
        graph: Graph,
        counts: Callable[[int, NDArray[np.float32]], NDArray[np.int64]],
    ) -> NDArray[np.float32]:
        """Apply all networks to public features and to counts; return the scores of the last one."""
        networks = self._networks(plan.public)
        for k, network in enumerate(networks):
            load_weights(network, weights, f"network.{k}")
        return self._through(networks, graph, counts)

    def _networks(self, public: PublicFacts) -> list[MLP]:
        widths = [public.num_features, *(2 * k * public.num_classes for k in range(1, self.num_hops + 1))]
        return [MLP((width, self.width, public.num_classes), batch_norm=True) for width in widths]

    def _through(
        self,
        networks: list[MLP],
        graph: Graph,
        counts: Callable[[int, NDArray[np.float32]], NDArray[np.int64]],
        before: Callable[[int, MLP, Tensor], None] | None = None,
    ) -> NDArray[np.float32]:
        """Scores of the last network; ``before`` trains each one, and ``counts`` gives what is released of its predictions."""
        said: list[Tensor] = []
        inputs: Tensor = torch.zeros(graph.num_nodes, 0)
        for k, network in enumerate(networks):
            if k:
                rows = np.eye(said[-1].shape[1], dtype=np.float32)[said[-1].argmax(dim=1).numpy()]
                inputs = torch.cat([inputs, said[-1].softmax(dim=1), _shares(counts(k, rows))], dim=1)
            if before is not None:
                before(k, network, inputs)
            network.eval()
            with torch.no_grad():
                said.append(network(inputs if k else Features(graph).rows(None)))
        return said[-1].numpy()

    @staticmethod
    def _counted(
        plan: Planned, session: Session, name: str, arcs: Arcs, rows: NDArray[np.float32]
    ) -> NDArray[np.int64]:
        if not plan.unit.private:
            return noisy_counts(arcs, rows, 0.0, new_key())
        key = session.charge(name)
        session.bind(name, rows, arcs.offsets, arcs.sources)
        return noisy_counts(arcs, rows, laplace_scale(plan, name, unrouted_sensitivity), key)


def _shares(counts: NDArray[np.int64]) -> Tensor:
    """Counts cut at 0 and divided by their sums."""
    rows = np.maximum(counts, 0) / INT16_ONE
    sums = rows.sum(axis=1, keepdims=True)
    shares = np.divide(rows, sums, out=np.zeros_like(rows), where=sums > 0)
    return torch.from_numpy(shares.astype(np.float32))
