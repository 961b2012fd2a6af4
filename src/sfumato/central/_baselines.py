"""Two plain networks: one without the graph (a floor), and GraphSAGE without privacy, once the ceiling."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import scipy.sparse as sp
import torch
from numpy.typing import NDArray

from sfumato._validate import (
    ABOVE_0,
    AT_LEAST_1,
    PRIVATE_LABELS,
    STEP_SIZE,
    check_fields,
    fail,
    flag,
    integer,
    one_of,
    optional,
    setting,
)
from sfumato.central._learning import Features, NetworkMethod, labeled, of_all, sgd_event, train, train_on
from sfumato.errors import UnsupportedUnitError
from sfumato.method.card import Audience, Card
from sfumato.method.contract import Arrays, Outcome, Planned, Session
from sfumato.method.curator import CuratorMethod
from sfumato.nn import _models as models
from sfumato.nn._sage import SumSAGE
from sfumato.nn._weights import load_weights, network_arrays, num_parameters, seeded
from sfumato.record.ledger import Release

if TYPE_CHECKING:
    from sfumato.graph._graph import Graph, PublicFacts
    from sfumato.privacy.units import Unit

_LEAST_BATCH, _BATCHES, _PASSES = 256, 8, 25


@dataclass(frozen=True)
class MLP(NetworkMethod):
    r"""The graph-free network reads the nodes' own features: plain training with public labels, DP-SGD with private ones.

    The scores of node v are :math:`f_\theta(x_v)`, float32 [num_nodes, num_classes], with :math:`f_\theta` a multilayer
    perceptron of hidden width ``width``. Further settings are those of :class:`~sfumato.central._learning.NetworkMethod`.

    **Formal guarantee.** Arcs are never read, so at edge level epsilon is 0. At node and record level there is one DP-SGD run
    (:mod:`~sfumato.bounded._gradients`), for any number of arcs: it also holds for ``NodeLevel(arcs="incident")``. Where a record
    is a person of several nodes, these are drawn together and count as their mean (:mod:`~sfumato.bounded._owners`).

    Args:
        num_layers: linear layers, at most 8; GAP and ProGAP compare with 3.
        batch_size: expected number of nodes in a Poisson sample (private labels only); None takes an eighth of the training
            nodes, at least 256, and 25 passes where ``epochs`` gives none. Steps are then few, so each has little noise.

    Raises:
        InputError: a setting is out of range. ``calibrate`` raises UnsupportedUnitError under units local and link.

    >>> from sfumato.graph._graph import PublicFacts
    >>> from sfumato.privacy.budget import Budget
    >>> from sfumato.privacy.units import EdgeLevel, RecordLevel
    >>> facts = PublicFacts(num_nodes=1000, num_train=750, num_features=10, num_classes=3, directed=False)
    >>> MLP().calibrate(Budget(1.0, 1e-6), EdgeLevel(directed=False), facts).epsilon
    0.0
    >>> round(MLP().calibrate(Budget(4.0, 1e-5), RecordLevel(), facts).epsilon, 2)
    4.0

    Source of DP-SGD: Abadi et al. (2016), Deep Learning with Differential Privacy, algorithm 1.
    """

    batch_size: int | None = setting(None, PRIVATE_LABELS)  # type: ignore[assignment]
    num_layers: int = 2
    card: ClassVar[Card] = Card(
        name="mlp",
        summary="graph-free network",
        units=("edge", "person", "node", "person-nodes", "record"),
        targets=("multilabel", "number"),
        candidates=({"learning_rate": 0.003}, {"learning_rate": 0.01}, {"learning_rate": 0.03}),
        audience=Audience(("weights",), predictions="predictions"),
        reads_links=False,
        explains=True,
    )

    def __post_init__(self) -> None:
        check_fields(self, width=AT_LEAST_1, learning_rate=STEP_SIZE, l2_clip_norm=ABOVE_0, num_layers=integer(1, 8))
        check_fields(self, batch_size=optional(AT_LEAST_1), epochs=optional(AT_LEAST_1))

    @property
    def settings(self) -> dict[str, Any]:
        """Return the public settings. Two layers are not named: it was the only number when kept runs were certified."""
        return {name: value for name, value in super().settings.items() if (name, value) != ("num_layers", 2)}

    def releases(self, unit: Unit, public: PublicFacts, noise_multiplier: float) -> tuple[Release, ...]:
        """List nothing where features and labels are public, and one DP-SGD run otherwise."""
        if {"features", "labels"} <= set(unit.public):
            return ()
        with torch.device("meta"):
            size = num_parameters(self._network(public, unit))
        batch, epochs = self.batch_size, self.epochs
        if batch is None:
            batch, epochs = max(_LEAST_BATCH, public.num_learned // _BATCHES), epochs or _PASSES
        event = sgd_event(unit, public, noise_multiplier, epochs=epochs, batch_size=batch, by_person=True)
        return (Release("network", event, (size,), size, arc_change=unit.no_arc_change),)

    def run(self, plan: Planned, graph: Graph, session: Session) -> Outcome:
        """Train on feature rows."""
        with seeded(session.seed):
            network = self._network(plan.public, plan.unit)
        train(self, plan, session, "network", network, graph, Features(graph).rows)
        return Outcome(network_arrays("network", network), {})

    def scores(self, plan: Planned, weights: Arrays, released: Arrays, graph: Graph) -> NDArray[np.float32]:
        """Apply the network to the nodes' own features."""
        network = self._network(plan.public, plan.unit)
        load_weights(network, weights, "network")
        return of_all(network, Features(graph).rows, graph.num_nodes)

    def _network(self, public: PublicFacts, unit: Unit) -> models.MLP:
        widths = (public.num_features, *[self.width] * (self.num_layers - 1), public.num_classes)
        return models.MLP(widths, batch_norm="labels" in unit.public)


@dataclass(frozen=True)
class SAGE(CuratorMethod):
    """GraphSAGE without privacy refuses every privacy unit. The ceiling is now :class:`~sfumato.central._reference.Reference`.

    By default two layers of means over neighbors give scores float32 [num_nodes, num_classes]. The network that GAP and ProGAP
    compare with has sums, 1 to 5 message-passing layers and 16 units; GAP's has two layers before them, ProGAP's has one, and
    jumping knowledge.

    **Formal guarantee.** None: training reads every arc, feature and label in the clear.

    Args:
        width: number of units in the hidden layers.
        epochs: number of full-batch steps.
        learning_rate: step size of Adam, in (0, 10].
        aggregator: how a node takes its neighbors together: mean or sum.
        num_layers: message-passing layers, at most 8.
        layers_before: linear layers before message passing, at most 8. With any, one linear layer follows message passing, whose
            rows are scaled to norm 1; with 0 its first layer reads the features and its last one answers.
        jumping: whether the layer after message passing reads all of its layers side by side; it needs ``layers_before``.

    Errors: ``calibrate`` raises UnsupportedUnitError under every unit but none.

    Raises:
        InputError: a setting is out of range, or ``jumping`` is asked for without ``layers_before``.

    >>> SAGE(aggregator="sum", num_layers=3, layers_before=2, width=16).num_layers
    3

    Source: Hamilton, Ying and Leskovec (2017), Inductive Representation Learning on Large Graphs, algorithm 1; Sajadmanesh
    (2023), sections 4.7.3 and 5.5.2.
    """

    width: int = 32
    epochs: int = 100
    learning_rate: float = 0.01
    aggregator: str = "mean"
    num_layers: int = 2
    layers_before: int = 0
    jumping: bool = False
    card: ClassVar[Card] = Card(
        name="sage",
        summary="GraphSAGE without privacy",
        targets=("multilabel", "number"),
        citations=("hamilton2017inductive",),
    )

    def __post_init__(self) -> None:
        check_fields(self, aggregator=one_of("mean", "sum"), num_layers=integer(1, 8), layers_before=integer(0, 8))
        check_fields(self, width=AT_LEAST_1, epochs=AT_LEAST_1, learning_rate=STEP_SIZE)
        check_fields(self, jumping=flag("True reads all message-passing layers."))
        if self.jumping and not self.layers_before:
            raise fail("jumping", True, "to be False without layers before", "Set layers_before to 1 or more.")

    @property
    def settings(self) -> dict[str, Any]:
        """Return the public settings. What was not there when kept runs were certified is named only where it is set."""
        later = {"aggregator": "mean", "num_layers": 2, "layers_before": 0, "jumping": False}
        return {name: value for name, value in super().settings.items() if value != later.get(name, ...)}

    def releases(self, unit: Unit, public: PublicFacts, noise_multiplier: float) -> tuple[Release, ...]:
        """List no release, since there is none under privacy: training reads every arc at every step.

        Raises:
            UnsupportedUnitError: always. Nothing is asked for under unit none.
        """
        where = "arcs" if "labels" in unit.public else "records"
        raise UnsupportedUnitError(
            f"Method 'sage' reads {where} in the clear and has no proof under unit {unit.name!r}. "
            "Use unit none (no guarantee), or a private method such as gap."
        )

    def run(self, plan: Planned, graph: Graph, session: Session) -> Outcome:
        """Train full-batch on all nodes."""
        with seeded(session.seed):
            network = self.network(plan.public)
        x, adjacency = Features(graph).rows(None), models.SparseRows(self.adjacency(graph))
        _, ids, val = labeled(graph)
        session.watch.curves["network"] = train_on(
            network, graph, ids, lambda: network(x, adjacency)[ids], val, lambda: network(x, adjacency)[val],
            epochs=self.epochs, learning_rate=self.learning_rate, progress=session.watch.stage("network"),
        )  # fmt: skip
        return Outcome(network_arrays("network", network), {})

    def scores(self, plan: Planned, weights: Arrays, released: Arrays, graph: Graph) -> NDArray[np.float32]:
        """Apply the network to features and arcs."""
        network = self.network(plan.public)
        load_weights(network, weights, "network")
        with torch.no_grad():
            return network(Features(graph).rows(None), models.SparseRows(self.adjacency(graph))).numpy()

    def network(self, public: PublicFacts) -> models.GraphSAGE | SumSAGE:
        """Build the network as it is before training."""
        size = public.num_features, self.width, public.num_classes
        if not self.layers_before:
            return models.GraphSAGE(*size, num_layers=self.num_layers)
        return SumSAGE(*size, num_layers=self.num_layers, jumping=self.jumping, layers_before=self.layers_before)

    def adjacency(self, graph: Graph) -> sp.csr_matrix:
        """Return the matrix whose row v averages or adds over the nodes that send to v, float64 [num_nodes, num_nodes]."""
        offsets, sources = graph.transpose()
        degrees = np.diff(offsets)
        weight = np.repeat(1 / np.maximum(degrees, 1) if self.aggregator == "mean" else np.ones(len(degrees)), degrees)
        return sp.csr_matrix((weight, sources, offsets), shape=(graph.num_nodes, graph.num_nodes))
