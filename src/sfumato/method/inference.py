"""Private inference: a trained model aggregates another graph, which is a release of its own."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from numpy.typing import NDArray

from sfumato.errors import InputError
from sfumato.method.contract import Arrays, GraphKey, Method, Origin, Outcome, Planned, Session
from sfumato.method.curator import CuratorMethod

if TYPE_CHECKING:
    import numpy as np

    from sfumato.graph.graph import Graph


@dataclass(frozen=True)
class Inference(CuratorMethod):
    """A trained method on another graph; no weight changes.

    A subclass says what is released about that graph, and computes it (:meth:`aggregate`). The rest is that of the method:
    its name, its settings, who may see what, and how it predicts.

    Args:
        base: the method that was trained.
        model: what training left.
    """

    base: Method
    model: Origin

    def __post_init__(self) -> None:
        object.__setattr__(self, "card", self.base.card)

    @property
    def settings(self) -> dict[str, Any]:
        """Those of the trained method."""
        return self.base.settings

    @property
    def origin(self) -> Origin:
        """The trained model."""
        return self.model

    @abstractmethod
    def aggregate(self, plan: Planned, graph: Graph, session: Session) -> Arrays:
        """Release the aggregates of a graph that has the columns of training."""

    def run(self, plan: Planned, graph: Graph, session: Session) -> Outcome:
        """Aggregate another graph than that of training.

        Raises:
            InputError: the graph has other columns, or the node ids of training.
        """
        self.model.graph.check_columns(graph)
        if GraphKey.of(graph).ids_digest == self.model.graph.ids_digest:
            raise InputError(
                "Expected a graph with other node ids than training: that one is answered from its cached releases, free."
            )
        return Outcome(self.model.weights, self.aggregate(plan, graph, session))

    def scores(self, plan: Planned, weights: Arrays, released: Arrays, graph: Graph) -> NDArray[np.float32]:
        """Those of the trained method, on the aggregates of this graph."""
        return self.base.scores(plan, weights, released, graph)
