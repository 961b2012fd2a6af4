"""Two plain networks: one without the graph (a floor), and GraphSAGE without privacy, once the ceiling."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import numpy as np
import scipy.sparse as sp
import torch
from numpy.typing import NDArray

from sfumato._validate import AT_LEAST_1, STEP_SIZE, check_fields
from sfumato.central._learning import Features, NetworkMethod, labeled, of_all, sgd_event, train, train_on
from sfumato.errors import UnsupportedUnitError
from sfumato.method.card import Audience, Card
from sfumato.method.contract import Arrays, Outcome, Planned, Session
from sfumato.method.curator import CuratorMethod
from sfumato.nn import _models as models
from sfumato.nn._weights import load_weights, network_arrays, num_parameters, seeded
from sfumato.record.ledger import Release

if TYPE_CHECKING:
    from sfumato.graph._graph import Graph, PublicFacts
    from sfumato.privacy.units import Unit


@dataclass(frozen=True)
class MLP(NetworkMethod):
    r"""The graph-free network reads the nodes' own features: plain training with public labels, DP-SGD with private ones.

    The scores of node v are :math:`f_\theta(x_v)`, float32 [num_nodes, num_classes], with :math:`f_\theta` a multilayer
    perceptron of hidden width ``width``. Settings are those of :class:`~sfumato.central._learning.NetworkMethod`.

    **Formal guarantee.** Arcs are never read, so at edge level epsilon is 0. At node and record level there is one DP-SGD run
    (:mod:`~sfumato.bounded._gradients`), for any number of arcs: it also holds for ``NodeLevel(arcs="incident")``.

    Errors: ``calibrate`` raises UnsupportedUnitError under units local and link.

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

    card: ClassVar[Card] = Card(
        name="mlp",
        summary="graph-free network",
        units=("edge", "node", "record"),
        targets=("multilabel", "number"),
        candidates=({"learning_rate": 0.003}, {"learning_rate": 0.01}, {"learning_rate": 0.03}),
        audience=Audience(("weights",), predictions="predictions"),
        reads_links=False,
    )

    def releases(self, unit: Unit, public: PublicFacts, noise_multiplier: float) -> tuple[Release, ...]:
        """List nothing where features and labels are public, and one DP-SGD run otherwise."""
        if {"features", "labels"} <= set(unit.public):
            return ()
        with torch.device("meta"):
            size = num_parameters(self._network(public, unit))
        event = sgd_event(unit, public, noise_multiplier, epochs=self.epochs, batch_size=self.batch_size)
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
        widths = (public.num_features, self.width, public.num_classes)
        return models.MLP(widths, batch_norm="labels" in unit.public)


@dataclass(frozen=True)
class SAGE(CuratorMethod):
    """GraphSAGE without privacy refuses every privacy unit. The ceiling is now :class:`~sfumato.central._reference.Reference`.

    Two layers of means over neighbors give scores float32 [num_nodes, num_classes].

    **Formal guarantee.** None: training reads every arc, feature and label in the clear.

    Args:
        width: number of units in the hidden layer.
        epochs: number of full-batch steps.
        learning_rate: step size of Adam, in (0, 10].

    Errors: ``calibrate`` raises UnsupportedUnitError under every unit but none.

    Raises:
        InputError: a setting is out of range.

    >>> SAGE().name
    'sage'

    Source: Hamilton, Ying and Leskovec (2017), Inductive Representation Learning on Large Graphs, algorithm 1.
    """

    width: int = 32
    epochs: int = 100
    learning_rate: float = 0.01
    card: ClassVar[Card] = Card(
        name="sage",
        summary="GraphSAGE without privacy",
        targets=("multilabel", "number"),
        citations=("hamilton2017inductive",),
    )

    def __post_init__(self) -> None:
        check_fields(self, width=AT_LEAST_1, epochs=AT_LEAST_1, learning_rate=STEP_SIZE)

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
            network = models.GraphSAGE(plan.public.num_features, self.width, plan.public.num_classes)
        x, adjacency = Features(graph).rows(None), mean_adjacency(graph)
        _, ids, val = labeled(graph)
        session.watch.curves["network"] = train_on(
            network, graph, ids, lambda: network(x, adjacency)[ids], val, lambda: network(x, adjacency)[val],
            epochs=self.epochs, learning_rate=self.learning_rate, progress=session.watch.stage("network"),
        )  # fmt: skip
        return Outcome(network_arrays("network", network), {})

    def scores(self, plan: Planned, weights: Arrays, released: Arrays, graph: Graph) -> NDArray[np.float32]:
        """Apply the network to features and arcs."""
        network = models.GraphSAGE(plan.public.num_features, self.width, plan.public.num_classes)
        load_weights(network, weights, "network")
        with torch.no_grad():
            return network(Features(graph).rows(None), mean_adjacency(graph)).numpy()


def mean_adjacency(graph: Graph) -> models.SparseRows:
    """Return the matrix whose row v averages over the nodes that send to v, [num_nodes, num_nodes]."""
    offsets, sources = graph.transpose()
    weight = np.repeat(1 / np.maximum(np.diff(offsets), 1), np.diff(offsets)).astype(np.float32)
    return models.SparseRows(sp.csr_matrix((weight, sources, offsets), shape=(graph.num_nodes, graph.num_nodes)))
