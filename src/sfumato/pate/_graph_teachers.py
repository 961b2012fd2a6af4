"""PATE on graphs trains one graph network for each group of nodes, where the group is a hash of the node's id.

**Formal guarantee.** Let two graphs on the same public ids differ in one node's record: its features, its label and
*every* arc in or out, however many (:class:`~sfumato.privacy.units.NodeLevel` with ``arcs="incident"``, and with it
every weaker unit). Then one teacher changes, and one vote on each query moves. *Proof.* A node's group is decided by
its id. Arcs across groups are deleted before anything reads them, so that each remaining arc of the node lies in its
own group: the subgraphs of all other groups are the same. A teacher is a function of its subgraph and of random numbers
drawn for it alone. It predicts on a public graph, never on a private one.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp
import torch
from numpy.typing import NDArray

from sfumato._validate import ABOVE_0, AT_LEAST_1, check_fields, fail, integer, one_of
from sfumato.bounded._engine import engine, training_threads
from sfumato.errors import DroppedWarning
from sfumato.graph._dropped import UNWEIGHTED
from sfumato.graph._subgraph import adjacency, induced
from sfumato.nn._gnn import BACKBONES, GNN
from sfumato.nn._models import SparseRows
from sfumato.nn._topology import Topology
from sfumato.nn._training import Steps, train_full_batch
from sfumato.pate._teachers import Teachers, parts

if TYPE_CHECKING:
    from sfumato.graph._graph import Graph


@dataclass(frozen=True)
class GraphTeachers:
    """Graph teachers learn on disjoint groups of a private graph's nodes; these are their public settings.

    Args:
        num_teachers: how many groups. Few: a group keeps about one in ``num_teachers`` of its arcs.
        num_features: columns of features; public, not read off the graph.
        num_classes: public, not read off the labels.
        backbone: "sage", "gcn", "gat" or "mlp".
        width: units of the hidden layer.
        epochs: passes over a teacher's nodes.
        learning_rate: step size of Adam.
        seed: decides the groups and each teacher's first weights. Public.

    Raises:
        InputError: a setting out of range.

    >>> from sfumato.graph._graph import Graph
    >>> private = Graph.from_edges([0, 1, 2], [1, 2, 3], 4, directed=False, x=np.eye(4, 2), y=[0, 0, 1, 1])
    >>> GraphTeachers(2, 2, 2, epochs=1).fit(private).votes(private).sum(axis=1).tolist()
    [2, 2, 2, 2]
    """

    num_teachers: int
    num_features: int
    num_classes: int
    backbone: str = "sage"
    width: int = 32
    epochs: int = 100
    learning_rate: float = 0.01
    seed: int = 0

    def __post_init__(self) -> None:
        check_fields(self, backbone=one_of(*BACKBONES), num_teachers=AT_LEAST_1, num_features=AT_LEAST_1)
        check_fields(self, num_classes=integer(2), width=AT_LEAST_1, epochs=AT_LEAST_1, seed=integer(0))
        check_fields(self, learning_rate=ABOVE_0)

    def fit(self, graph: Graph, progress: Steps | None = None) -> TrainedGraphTeachers:
        """Train each teacher on its own nodes: the only call that touches private data.

        Every node of the graph is private; nodes to be queried belong in another graph, see
        :func:`~sfumato.graph._subgraph.induced`. Nodes without a label, and nodes of another role than train where there are
        roles, pass messages and have no loss.

        Raises:
            InputError: no features, or numbers of features or classes other than declared.
        """
        _check_features(graph, self.num_features)
        if graph.y is None or graph.num_classes > self.num_classes:
            found = None if graph.y is None else graph.num_classes
            expected = f"to be labels of at most num_classes={self.num_classes} classes"
            raise fail("the graph's classes", found, expected, "Give it labels, or raise num_classes.")
        if graph.weights is not None:
            warnings.warn(UNWEIGHTED.format("Graph teachers"), DroppedWarning, stacklevel=2)
        ids = np.arange(graph.num_nodes) if graph.node_ids is None else graph.node_ids
        groups = parts(ids, self.num_teachers, self.seed)
        models: dict[int, GNN | int] = {}
        tasks = ((induced(graph, nodes), teacher) for teacher, nodes in enumerate(groups))
        for teacher, model in engine().run(GraphTeachers._train, (self,), tasks, threads=training_threads()):
            models[teacher] = model
            if progress is not None:
                progress(len(models), len(groups))
        ordered = tuple(models[teacher] for teacher in range(len(groups)))
        return TrainedGraphTeachers(ordered, self.num_features, self.num_classes)

    def _train(self, own: Graph | None, teacher: int) -> GNN | int:
        """A network, or, where there is nothing to learn from, a class that the teacher's number decides."""
        if own is None or own.y is None:
            return teacher % self.num_classes
        labels = own.y.copy() if own.roles is None else np.where(own.train_mask, own.y, -1)
        if not (labels >= 0).any():
            return teacher % self.num_classes
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(int(np.random.default_rng([self.seed, teacher]).integers(2**63)))
            model = GNN(self.backbone, self.num_features, self.width, self.num_classes)
        rows, topology = _inputs(own)
        targets = torch.from_numpy(labels)
        train_full_batch(
            model,
            lambda: model(rows, topology),
            targets,
            num_classes=self.num_classes,
            epochs=self.epochs,
            learning_rate=self.learning_rate,
            validation_targets=targets,
        )
        return model


@dataclass(frozen=True, eq=False)
class TrainedGraphTeachers(Teachers):
    """Trained graph teachers come from :meth:`GraphTeachers.fit`."""

    models: tuple[GNN | int, ...]
    num_features: int
    num_classes: int

    def predict(self, queries: Graph) -> NDArray[np.int64]:
        """Predict classes [teachers, nodes] for the nodes of a public graph: public features and public arcs."""
        _check_features(queries, self.num_features)
        rows, topology = _inputs(queries)
        with torch.no_grad():
            found = [
                np.full(queries.num_nodes, model) if isinstance(model, int) else model(rows, topology).argmax(1).numpy()
                for model in self.models
            ]
        return np.stack(found).astype(np.int64)


def _inputs(graph: Graph) -> tuple[Any, Topology]:
    """Features and adjacency as a network takes them: arcs count in both directions, self-loops not."""
    x: Any = graph.x
    rows = SparseRows(x) if sp.issparse(x) else torch.from_numpy(np.array(x, np.float32))
    arcs = adjacency(graph)
    both = arcs.maximum(arcs.T).tocsr()
    both.setdiag(0)
    both.eliminate_zeros()
    return rows, Topology(both)


def _check_features(graph: Graph, num_features: int) -> None:
    if graph.x is None or graph.num_features != num_features:
        found = None if graph.x is None else graph.num_features
        raise fail(
            "the graph's features", found, f"to be num_features={num_features} columns", "Give every node the same."
        )
