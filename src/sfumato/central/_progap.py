r"""ProGAP trains graph networks progressively, with aggregation perturbation (Sajadmanesh and Gatica-Perez, 2024, WSDM).

Stage s of 0 to K trains base MLPs 0 to s on cached inputs, concatenated under a head of its own (equations 5.10, 5.11,
algorithms 9 and 10). Input 0 is the features; input s + 1 is made once, after stage s: the output of base s, rows
normalized, summed over neighbors, perturbed (equations 5.8, 5.9), and cached as it was released. Stage K predicts.

**Formal guarantee.** With x_k for input k, a message of stage s is :math:`m_u = b_s(x_{s,u}) / \|b_s(x_{s,u})\|`, a
function of row u of input s and of weights, so its norm is at most 1.

* *Edge level.* Features and labels are public and every weight is post-processing of earlier aggregates: K Gaussian
  releases, each with noise multiplier z and the sensitivity of :func:`~sfumato.bounded.aggregation.hop_sensitivity`: 1
  for an arc, sqrt 2 for an undirected edge. (Theorem 4 of the paper states 1 "for an edge"; that is one arc.)
* *Node level, owned arcs.* Each owner keeps at most D arcs. Given all earlier releases (adaptive composition fixes them
  in both neighbouring graphs), the weights of stage s are fixed. At s = 0 a message reads the sender's own features: in
  the next aggregate an emptied record silences at most D arcs, sqrt D; a replaced one may turn m into -m on kept targets:
  2 sqrt D. At s >= 1 input s *is* an earlier release, so messages are equal in both graphs, though all K + 1 stages
  train on features: sqrt D if emptied, and sqrt(2 D) if replaced, when only targets change. Stages are trained by
  DP-SGD, one release each. :mod:`~sfumato.privacy._splitting` gives each part its noise.
* *Types of edges* (edge level, if asked for). Each aggregate holds the sums over the arcs of each type side by side, with the
  noise of one hop (:class:`~sfumato.method.hops.Aggregation`); the base of the next stage reads them all.
* *Prediction* reads released rows, weights, and the node's own features: nothing is spent.

Theorem 5 of the paper holds for this unit; for all incident arcs its degree bound is not stable and no claim is made.
Without private labels each stage keeps its epoch with the best validation accuracy; with private labels, its last.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from sfumato._validate import check_fields, flag, integer, optional
from sfumato.bounded.aggregation import normalize_rows
from sfumato.central._learning import Features, Input, NetworkMethod, of_all, sgd_event, train
from sfumato.loops.kernels import INT16_ONE
from sfumato.method._inference import Inference
from sfumato.method.card import Audience, Card
from sfumato.method.contract import Arrays, Origin, Outcome, Planned, Session
from sfumato.method.hops import Aggregation, aggregation_releases
from sfumato.nn._progressive import StageNetwork
from sfumato.nn._weights import load_weights, network_arrays, num_parameters, seeded
from sfumato.privacy._splitting import SGD_WEIGHT, Part, balance
from sfumato.privacy.events import GaussianEvent
from sfumato.record.ledger import Release

if TYPE_CHECKING:
    from sfumato.graph._graph import Graph, PublicFacts
    from sfumato.privacy.units import Unit

_PRIVATE_EPOCHS = 5
Inputs = tuple[Input, ...]


@dataclass(frozen=True)
class ProGAP(NetworkMethod):
    r"""ProGAP trains graph networks stage by stage, each on noisy sums over neighbors of what the stage before learned.

    With :math:`b_s` the base MLP of stage s and :math:`x_s` its input, stage s = 0, ..., K - 1 ends with the release

    .. math:: x_{s+1, v} = \sum_{u \to v} \frac{b_s(x_{s,u})}{\|b_s(x_{s,u})\|} + N(0, \sigma^2 I),

    where :math:`\sigma` is the noise multiplier times the L2 sensitivity of that hop (that of the first is larger if a record
    is replaced). Stage K predicts. None takes the public default for the unit: 100 epochs full-batch, 5 by DP-SGD.

    **Formal guarantee.** At edge level K Gaussian releases. At node level with owned arcs the same, and K + 1 DP-SGD runs,
    one for each stage. The module says under which conditions, with the sensitivities. Other units are refused.

    Shapes: each aggregate is int64 [num_nodes, width]; one message of norm 1 is :data:`~sfumato.loops.kernels.INT16_ONE` in
    these steps. Predictions are float32 [num_nodes, num_classes].

    Args:
        depth: K, number of aggregations, at most 100; default 4 at node level, else 5.
        base_layers: layers of each base MLP, at most 10; default 2 at node level, else 1.
        layerwise: keep base MLPs as their own stage left them (remark 1 of the paper); this is cheaper.
        by_type: True sums over the arcs of each type of edges by itself (edge level). That pays where noise is small beside the
            rows; where it is not, one sum over all edges, whatever their types, has less noise.

    Raises:
        InputError: a setting is out of range. ``calibrate`` raises UnsupportedUnitError under a unit without a proof.

    >>> from sfumato.graph._graph import PublicFacts
    >>> from sfumato.privacy.budget import Budget
    >>> from sfumato.privacy.units import EdgeLevel
    >>> facts = PublicFacts(num_nodes=1000, num_train=750, num_features=10, num_classes=3, directed=False)
    >>> plan = ProGAP(depth=3).calibrate(Budget(1.0, 1e-6), EdgeLevel(directed=False), facts)
    >>> len(plan.releases), round(plan.releases[0].event.noise_multiplier, 2)
    (3, 7.32)

    Source: Sajadmanesh and Gatica-Perez (2024), equations 5.8 to 5.11, algorithms 9 and 10.
    """

    depth: int | None = None
    base_layers: int | None = None
    layerwise: bool = False
    by_type: bool = False
    card: ClassVar[Card] = Card(
        name="progap",
        summary="graph networks stacked stage by stage on noisy sums",
        options={"hops": "depth"},
        defaults={"hops": "5, node level 4"},
        units=("edge", "person", "node"),
        targets=("multilabel", "number"),
        reads_weights=True,
        candidates=({"depth": 1}, {"depth": 2}, {"depth": 4}),
        citations=("sajadmanesh2024progap",),
        explains=True,
        audience=Audience(
            ("noisy aggregates", "weights"),
            never=("sums before noise",),
            never_of_nodes=("embeddings of single nodes that read their features",),
        ),
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        check_fields(self, depth=optional(integer(1, 100)), base_layers=optional(integer(1, 10)))
        check_fields(self, layerwise=flag("True trains each base once."))
        check_fields(self, by_type=flag("True tells types of edges apart."))

    @property
    def settings(self) -> dict[str, Any]:
        """Return the public settings. That types of edges are not told apart is not named: it was the only way at first."""
        return {name: value for name, value in super().settings.items() if (name, value) != ("by_type", False)}

    @property
    def reads_types(self) -> tuple[str, ...] | None:
        """Return that labels have to be public, if types of edges are told apart at all."""
        return ("labels",) if self.by_type else None

    def hops(self, unit: Unit) -> int:
        """Return K, the number of aggregations under a unit."""
        return self.depth or (5 if "labels" in unit.public else 4)

    def releases(self, unit: Unit, public: PublicFacts, noise_multiplier: float) -> tuple[Release, ...]:
        """List K aggregations; at node level each follows its stage, and the last stage ends the list."""
        hops = aggregation_releases(unit, public, self.hops(unit), self.width, noise_multiplier)
        if "labels" in unit.public:
            return hops
        with torch.device("meta"):
            sizes = [num_parameters(self._network(stage, unit, public)) for stage in range(len(hops) + 1)]
        sgd = sgd_event(
            unit, public, noise_multiplier, epochs=self.epochs or _PRIVATE_EPOCHS, batch_size=self.batch_size
        )
        parts = (Part(GaussianEvent(noise_multiplier, len(hops))), *(Part(sgd, SGD_WEIGHT) for _ in sizes))
        event = parts[1].at(balance(parts, noise_multiplier)[1])
        first, *later = (
            Release(f"stage/{stage}", event, (size,), size, arc_change=unit.no_arc_change)
            for stage, size in enumerate(sizes)
        )
        return (first, *(release for pair in zip(hops, later, strict=True) for release in pair))

    def run(self, plan: Planned, graph: Graph, session: Session) -> Outcome:
        """Run algorithm 10: train a stage, aggregate what it learned, and so on."""
        cache, aggregation = Cache(self, graph), Aggregation(plan, graph, session)
        private = "labels" not in plan.unit.public
        settings = replace(self, epochs=self.epochs or _PRIVATE_EPOCHS) if private else self
        with seeded(session.seed):
            networks = [self._network(stage, plan.unit, plan.public) for stage in range(self.hops(plan.unit) + 1)]
        weights: Arrays = {}
        released: Arrays = {}
        for stage, network in enumerate(networks):
            if stage:
                released[f"aggregate/{stage}"] = aggregation(stage, cache.messages(networks[stage - 1]))
                cache.add(released[f"aggregate/{stage}"])
                if not self.layerwise:
                    network.continue_from(networks[stage - 1])
            train(settings, plan, session, f"stage/{stage}", network, graph, cache.rows)
            weights |= network_arrays(f"stage/{stage}", network)
        return Outcome(weights, released)

    def scores(self, plan: Planned, weights: Arrays, released: Arrays, graph: Graph) -> NDArray[np.float32]:
        """Run algorithm 9 on stored aggregates: the last stage predicts."""
        cache, networks = Cache(self, graph), self.trained(weights, plan.unit, plan.public)
        for stage, network in enumerate(networks):
            if stage:
                cache.add(released[f"aggregate/{stage}"])
            if self.layerwise and network is not networks[-1]:
                cache.messages(network)
        return of_all(networks[-1], cache.rows, graph.num_nodes)

    def inductive(self, origin: Origin) -> ProGAPInference:
        """Return algorithm 9 on another graph, for trained stages; ``origin`` is the trained model."""
        return ProGAPInference(self, origin)

    def trained(self, weights: Arrays, unit: Unit, public: PublicFacts) -> list[StageNetwork]:
        """Build the networks of all stages with stored weights.

        Args:
            weights: arrays by name, as :meth:`run` left them.
            unit: the unit of training; it decides how many stages there are.
            public: facts of the graph.
        """
        networks = [self._network(stage, unit, public) for stage in range(self.hops(unit) + 1)]
        for stage, network in enumerate(networks):
            load_weights(network, weights, f"stage/{stage}")
        return networks

    def _network(self, stage: int, unit: Unit, public: PublicFacts) -> StageNetwork:
        widths = [public.num_features, *[self.width * max(len(public.edge_types or ()), 1)] * stage]
        return StageNetwork(
            widths[-1:] if self.layerwise else widths,
            self.width,
            public.num_classes,
            num_layers=self.base_layers or (1 if "labels" in unit.public else 2),
            frozen=self.width * stage * self.layerwise,
            batch_norm="labels" in unit.public,
        )


class Cache:
    """The cache holds features, each aggregate as it was released, and in layer-wise training the outputs of the frozen bases."""

    def __init__(self, method: ProGAP, graph: Graph) -> None:
        self.method, self.features = method, Features(graph)
        self.aggregates: list[Tensor] = []
        self.frozen: list[Tensor] = []

    def add(self, released: NDArray[np.int64]) -> None:
        """Add the next aggregate, in units of a message."""
        self.aggregates.append(torch.from_numpy((released / INT16_ONE).astype(np.float32)))

    def messages(self, network: StageNetwork) -> NDArray[np.float32]:
        """Compute the newest base's outputs for all nodes, rows of norm 1, [num_nodes, width]."""
        network.eval()
        newest = of_all(
            lambda *inputs: network.embed(*inputs[: len(network.base)])[:, -self.method.width :],
            self.rows,
            self.features.x.shape[0],
        )
        # A row beyond float32 is not a number, and no clip norm bounds what it would do to a sum of gradients.
        newest = np.nan_to_num(newest, copy=False, nan=0.0, posinf=0.0, neginf=0.0)
        if self.method.layerwise:
            self.frozen.append(torch.from_numpy(newest))
        return normalize_rows(newest)

    def rows(self, ids: NDArray[np.integer]) -> Inputs:
        """Return the inputs of the newest stage for these nodes."""
        own, chosen = self.features.rows(ids), torch.from_numpy(ids)
        inputs = (own, *(hop[chosen] for hop in self.aggregates))
        if not self.method.layerwise:
            return inputs
        return (inputs[-1], torch.cat(self.frozen, dim=1)[chosen]) if self.frozen else (own,)


@dataclass(frozen=True)
class ProGAPInference(Inference):
    """A trained ProGAP aggregates another private graph, with K Gaussian releases about the *new* graph; no weight changes."""

    base: ProGAP

    def releases(self, unit: Unit, public: PublicFacts, noise_multiplier: float) -> tuple[Release, ...]:
        return aggregation_releases(unit, public, self.base.hops(unit), self.base.width, noise_multiplier)

    def aggregate(self, plan: Planned, graph: Graph, session: Session) -> Arrays:
        cache, aggregation, released = Cache(self.base, graph), Aggregation(plan, graph, session), {}
        for hop, network in enumerate(self.base.trained(self.model.weights, plan.unit, plan.public)[:-1], start=1):
            released[f"aggregate/{hop}"] = aggregation(hop, cache.messages(network))
            cache.add(released[f"aggregate/{hop}"])
        return released
