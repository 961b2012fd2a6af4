"""What a finished run predicts for each node of its graph, and where the answer comes from."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from sfumato.graph.targets import MULTILABEL, NUMBER

if TYPE_CHECKING:
    from sfumato.graph.graph import Graph
    from sfumato.method.plan import Fitted


@dataclass(frozen=True)
class Predictions:
    """Predictions hold one answer for each node. They are post-processing of what was released.

    Args:
        nodes: the ids of the nodes, in the order of the rows.
        classes: the names of the classes.
        probabilities: the model's probabilities, float32 [n, C].
        roles: the role of each node in the run; empty where none is known.
        known: the label of each node where labels are public, else empty.
        returned: whether a node is answered by its known label, bool [n].
        told: what each node is told, where that is not the most probable class.

    >>> found = Predictions(("ann",), ("a", "b"), np.array([[0.25, 0.75]]), ("test",), ("",), np.array([False]))
    >>> found.answer(0)
    ('b', 'model')
    """

    nodes: tuple[Any, ...]
    classes: tuple[str, ...]
    probabilities: NDArray[np.floating]
    roles: tuple[str, ...]
    known: tuple[str, ...]
    returned: NDArray[np.bool_]
    told: tuple[str, ...] = ()

    def answer(self, row: int) -> tuple[str, str]:
        """Return the class that a node is told, and its source: ``model``, or ``known`` for a known label."""
        if self.returned[row]:
            return self.known[row], "known"
        if self.told:
            return self.told[row], "model"
        return self.classes[int(self.probabilities[row].argmax())], "model"


def predictions_of(fitted: Fitted, graph: Graph, probabilities: NDArray[np.float32] | None = None) -> Predictions:
    """Predict every node of a graph.

    Args:
        fitted: a run, as it was loaded.
        graph: the graph of the run, with roles if the run has them.
        probabilities: of another predictor; None takes the model's.
    """
    from sfumato.graph.checks import ROLES

    classes, kind = tuple(fitted.graph_key.classes), fitted.plan.public.target
    told: tuple[str, ...] = ()
    if kind == NUMBER:
        classes, table = (), np.empty((graph.num_nodes, 0), np.float32)
        told = tuple(f"{value:.6g}" for value in fitted.predict(graph).tolist())
    else:
        table = fitted.predict_proba(graph) if probabilities is None else probabilities
    if kind == MULTILABEL:
        told = tuple(_joined(classes, row) for row in table > 0.5)
    elsewhere = fitted.plan.method.origin is not None or fitted.certificate.values["composition"]["builds_on"]
    roles = known = ("",) * graph.num_nodes
    if not elsewhere and graph.roles is not None and graph.train_mask.sum() == fitted.plan.public.num_train:
        roles = tuple(ROLES[role] for role in graph.roles)
    if "labels" in fitted.plan.unit.public and graph.y is not None:
        known = tuple(graph.classes[label] if label >= 0 else "" for label in graph.y)
    if "labels" in fitted.plan.unit.public and graph.targets is not None:
        values = graph.targets.values
        known = tuple(_joined(classes, row == 1) if classes else f"{row[0]:.6g}" for row in values)
        known = tuple(text if there else "" for text, there in zip(known, graph.targets.known, strict=True))
    answered = fitted.plan.method.card.returns_known
    returned = np.array(
        [answered and role == "train" and label != "" for role, label in zip(roles, known, strict=True)]
    )
    nodes = tuple(range(graph.num_nodes)) if graph.node_ids is None else tuple(graph.node_ids.tolist())
    return Predictions(nodes, classes, table, roles, known, returned, told)


def _joined(labels: tuple[str, ...], there: NDArray[np.bool_]) -> str:
    """The labels that a node has, in one cell of a table."""
    return "; ".join(name for name, one in zip(labels, there.tolist(), strict=True) if one) or "none"
