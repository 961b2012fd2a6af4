"""Private inference: a trained model aggregates another graph, which is a release of its own."""

from __future__ import annotations

import warnings
from abc import abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from numpy.typing import NDArray

from sfumato.errors import SfumatoWarning
from sfumato.method.contract import Arrays, Method, Origin, Outcome, Planned, Session
from sfumato.method.curator import CuratorMethod

SAME_IDS = (
    "This graph has the node ids of the one that was trained on, and is read and charged as another one. If it is the same, "
    "predict it from the run that was trained, which is free."
)

if TYPE_CHECKING:
    import numpy as np

    from sfumato.graph._graph import Graph


@dataclass(frozen=True)
class Inference(CuratorMethod):
    """Private inference runs a trained method on another graph and changes no weight.

    A subclass says what is released about that graph, and computes it (:meth:`aggregate`). The rest is that of the method:
    its name, its settings, who may see what, and how it predicts.
    """

    base: Method
    model: Origin

    def __post_init__(self) -> None:
        object.__setattr__(self, "card", self.base.card)

    @property
    def settings(self) -> dict[str, Any]:
        return self.base.settings

    @property
    def reads_types(self) -> tuple[str, ...] | None:
        return self.base.reads_types

    @property
    def origin(self) -> Origin:
        return self.model

    @abstractmethod
    def aggregate(self, plan: Planned, graph: Graph, session: Session) -> Arrays:
        """Release the aggregates of a graph that has the columns of training."""

    def view(self, graph: Graph) -> Graph:
        return self.model.graph.in_columns(super().view(graph))

    def check(self, graph: Graph) -> None:
        """Refuse a graph that has other columns; warn of one with the node ids of training, which is taken for another one."""
        self.model.graph.check_columns(graph)
        if self.model.graph.has_ids_of(graph):
            warnings.warn(SAME_IDS, SfumatoWarning, stacklevel=4)

    def run(self, plan: Planned, graph: Graph, session: Session) -> Outcome:
        return Outcome(self.model.weights, self.aggregate(plan, graph, session))

    def inductive(self, origin: Origin) -> Method:
        return self.base.inductive(origin)

    def drops_messages(self, plan: Planned, weights: Arrays) -> bool:
        return self.base.drops_messages(plan, weights)

    def scores(self, plan: Planned, weights: Arrays, released: Arrays, graph: Graph) -> NDArray[np.float32]:
        return self.base.scores(plan, weights, released, graph)
