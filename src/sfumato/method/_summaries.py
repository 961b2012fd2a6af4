"""What a plan and a fitted model show of themselves; all of it is public."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, cast

from sfumato._shown import Shown
from sfumato.errors import NotFittedError
from sfumato.record._shown import claim_words

if TYPE_CHECKING:
    from sfumato.method._graph_key import GraphKey
    from sfumato.method.contract import Arrays, Planned
    from sfumato.record._certificate import Certificate

_OF_A_FIT = {
    "predict",
    "predict_proba",
    "predictions",
    "evaluate",
    "classes_",
    "score_pairs",
    "best_pairs",
    "embeddings",
    "certificate",
    "save",
    "released",
    "weights",
}
_LEARNED = {"multilabel": "labels", "number": "numbers"}


class ShownPlan(Shown):
    """A plan shows its method, what it protects, its cost and what it releases."""

    if not TYPE_CHECKING:  # a type checker must still find names that nothing has

        def __getattr__(self, name: str) -> None:
            if name in _OF_A_FIT:
                raise NotFittedError(
                    f"Expected a fitted model for {name}, got a plan. Call fitted = plan.fit(graph) first."
                )
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}", name=name, obj=self)

    def facts(self) -> Mapping[str, str]:
        """Return method, protection, cost and releases."""
        plan = cast("Planned", self)
        return {
            "method": plan.method.name,
            "protects": plan.unit.describe(),
            "cost": claim_words(plan.epsilon, plan.delta),
            "releases": ", ".join(f"{one.name} {list(one.shape)}" for one in plan.releases) or "nothing",
        }


class ShownFit(Shown):
    """A fitted model shows its method, its graph, what it protects and its cost."""

    plan: Planned
    ran: Planned
    weights: Arrays
    released: Arrays
    certificate: Certificate
    graph_key: GraphKey

    @property
    def unused(self) -> tuple[str, ...]:
        """What this model does not use, though it was read or released: such as messages that were paid for and dropped."""
        return self.ran.method.unused(self.ran, self.weights, self.released)

    def facts(self) -> Mapping[str, str]:
        """Return method, graph, protection and cost."""
        return {
            "method": self.plan.method.name,
            "graph": f"{self.graph_key.name}, {self.graph_key.num_nodes:,} nodes",
            _LEARNED.get(self.plan.public.target or "", "classes"): f"{len(self.graph_key.classes)}",
            "protects": self.plan.unit.describe(),
            "cost": claim_words(self.certificate.epsilon, self.certificate.delta),
        }
