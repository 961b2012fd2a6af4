"""Methods that release a perturbed topology share this: the network on top of it, and training on public features and labels.

Features and labels are public under every unit with a proof, and arcs enter through the released pairs alone, so training,
the choice of the epoch and predictions are post-processing.
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from sfumato._validate import (
    ABOVE_0,
    AT_LEAST_1,
    PRIVATE,
    SHARE,
    STEP_SIZE,
    check_fields,
    flag,
    integer,
    one_of,
    optional,
    setting,
)
from sfumato.bounded._topology import Pairs, edge_numbers, noisy_edge_count, pairs_of
from sfumato.central._counts import one_hot
from sfumato.central._learning import Features, labeled, train_on
from sfumato.method.contract import Arrays, Outcome, Planned, Session
from sfumato.method.curator import CuratorMethod
from sfumato.nn._models import SparseRows
from sfumato.nn._sage import BesideCounts, SumSAGE
from sfumato.nn._weights import load_weights, network_arrays, seeded
from sfumato.noise.coins import SecretWords
from sfumato.noise.keys import Key, derive_key, operand_mac
from sfumato.privacy.events import PureEvent
from sfumato.record.ledger import Release

if TYPE_CHECKING:
    from sfumato.graph._graph import Graph, PublicFacts
    from sfumato.privacy.units import Unit

BACKBONES = ("sage", "mlp")
COUNT, EDGES = "edge-count", "edges"


@dataclass(frozen=True)
class PerturbedTopology(CuratorMethod):
    """A perturbed topology is released once, and a network is trained on it.

    Args:
        backbone: "sage", sums over the released neighbors (:class:`~sfumato.nn._sage.SumSAGE`); or "mlp", the node's own features
            beside the number of released neighbors with each known label.
        num_layers: message-passing layers of "sage", at most 8: batch norm multiplies gradients where rows are alike.
        jumping: whether the last layer of "sage" reads all of them.
        mean_degree: public average number of arcs at a node, from which the number of released edges follows; None asks for it
            with ``count_share`` of epsilon.
        count_share: the part of epsilon that is spent on the number of edges.
        width: units of the hidden layers.
        epochs: full-batch steps.
        learning_rate: step size of Adam, in (0, 10].
    """

    backbone: str = "sage"
    num_layers: int = setting(1, {"backbone": ("sage",)})
    jumping: bool = setting(True, {"backbone": ("sage",)}, unless={"num_layers": (1,)})
    mean_degree: float | None = setting(None, PRIVATE, unless={"asymmetric": (False,)})
    count_share: float = setting(0.01, {"mean_degree": (None,), **PRIVATE}, unless={"asymmetric": (False,)})
    width: int = 16
    epochs: int = 100
    learning_rate: float = 0.01

    def __post_init__(self) -> None:
        check_fields(self, backbone=one_of(*BACKBONES), num_layers=integer(1, 8), width=AT_LEAST_1, epochs=AT_LEAST_1)
        check_fields(self, learning_rate=STEP_SIZE, count_share=SHARE)
        check_fields(self, jumping=flag("True reads all message-passing layers."), mean_degree=optional(ABOVE_0))

    @property
    def counts_edges(self) -> bool:
        """Whether the number of edges is released, since it is needed and no public one is given."""
        return self.mean_degree is None

    @abstractmethod
    def pairs_release(self, noise_multiplier: float) -> Release:
        """Describe the release of pairs, whose number chance decides; ``noise_multiplier`` is 1 / epsilon."""

    @abstractmethod
    def drawn(
        self, plan: Planned, pairs: Pairs, present: NDArray[np.int64], wanted: int, source: SecretWords
    ) -> NDArray[np.int64]:
        """Draw the released pairs."""

    def releases(self, unit: Unit, public: PublicFacts, noise_multiplier: float) -> tuple[Release, ...]:
        """List the number of edges, if it is not public, and the released pairs; their epsilons add up to 1 / z."""
        pairs_of(unit, public.num_nodes)
        if not self.counts_edges:
            return (self.pairs_release(noise_multiplier),)
        count = Release(COUNT, PureEvent(self.count_share / noise_multiplier), (1,), 0)
        return count, self.pairs_release(noise_multiplier / (1 - self.count_share))

    def run(self, plan: Planned, graph: Graph, session: Session) -> Outcome:
        released = self._released(plan, graph, session)
        with seeded(session.seed):
            network = self._network(plan.public)
        inputs = self._inputs(plan, released, graph)
        _, ids, val = labeled(graph)
        session.watch.curves["network"] = train_on(
            network, graph, ids, lambda: _rows(network, inputs, ids), val, lambda: _rows(network, inputs, val),
            epochs=self.epochs, learning_rate=self.learning_rate, progress=session.watch.stage("network"),
        )  # fmt: skip
        return Outcome(network_arrays("network", network), released)

    def scores(self, plan: Planned, weights: Arrays, released: Arrays, graph: Graph) -> NDArray[np.float32]:
        network = self._network(plan.public)
        load_weights(network, weights, "network")
        with torch.no_grad():
            return _rows(network, self._inputs(plan, released, graph), None).numpy()

    def _released(self, plan: Planned, graph: Graph, session: Session) -> Arrays:
        """The number of edges and the pairs, each charged before it is computed; the true pairs without privacy."""
        pairs = _pairs(plan, graph)
        present, found, wanted = edge_numbers(pairs, graph), {}, self._public_number(pairs)
        if not plan.unit.private:
            return {EDGES: pairs.ends(present)}
        if self.counts_edges:
            epsilon = plan.event_of(PureEvent, COUNT).epsilon
            wanted = noisy_edge_count(pairs, present, epsilon, self._coins(session, COUNT, present))
            found[COUNT] = np.array([wanted], np.int64)
        drawn = self.drawn(plan, pairs, present, wanted, self._coins(session, EDGES, present))
        return {**found, EDGES: pairs.ends(drawn)}

    @staticmethod
    def _coins(session: Session, name: str, present: NDArray[np.int64]) -> SecretWords:
        """Charge a release; its coins are new for other edges, and the same again for the same ones."""
        key: Key = session.charge(name)
        session.bind(name, present)
        return SecretWords(derive_key(key, operand_mac(key, present)))

    def _public_number(self, pairs: Pairs) -> int:
        arcs = (self.mean_degree or 0.0) * pairs.num_nodes
        return int(np.clip(arcs if pairs.directed else arcs / 2, 1, max(pairs.total, 1)))

    def chance(self, plan: Planned, released: Arrays) -> Fraction:
        """Return the probability with which a pair without an edge comes out; 0 where it is not known."""
        return Fraction(0)

    def _network(self, public: PublicFacts) -> nn.Module:
        if self.backbone == "mlp":
            return BesideCounts(public.num_features, public.num_classes, self.width, public.num_classes)
        return SumSAGE(
            public.num_features, self.width, public.num_classes, num_layers=self.num_layers, jumping=self.jumping
        )

    def _inputs(self, plan: Planned, released: Arrays, graph: Graph) -> tuple[Any, Any]:
        """Features, and the released adjacency or what it says of the neighbors' known labels."""
        features, adjacency = Features(graph).rows(None), _adjacency(released[EDGES], plan, graph)
        if self.backbone == "sage":
            return features, SparseRows(adjacency)
        rows, _ = one_hot(graph, plan.public.num_classes)
        counts = np.asarray(adjacency @ rows, np.float64)
        absent = float(self.chance(plan, released))
        expected = absent * (rows.sum(axis=0) - rows)
        noise = np.sqrt(np.maximum(expected * (1 - absent), 1))
        return features, torch.from_numpy(((counts - expected) / noise).astype(np.float32))


def _rows(network: nn.Module, inputs: tuple[Any, Any], ids: NDArray[np.integer] | None) -> Tensor:
    """Scores of some nodes; a network without message passing reads their rows alone."""
    out: Tensor = network(*inputs)
    return out if ids is None else out[torch.from_numpy(np.asarray(ids))]


def _pairs(plan: Planned, graph: Graph) -> Pairs:
    """Those of the unit; without privacy those of the graph."""
    return pairs_of(plan.unit, graph.num_nodes) if plan.unit.private else Pairs(graph.num_nodes, graph.directed)


def _adjacency(edges: NDArray[np.int64], plan: Planned, graph: Graph) -> sp.csr_matrix:
    """Who sends to each node: the released arcs, or the released edges both ways."""
    sources, targets = edges.T
    if not _pairs(plan, graph).directed:
        sources, targets = np.concatenate([sources, targets]), np.concatenate([targets, sources])
    ones = np.ones(len(sources), np.float32)
    return sp.csr_matrix((ones, (targets, sources)), shape=(graph.num_nodes, graph.num_nodes))
