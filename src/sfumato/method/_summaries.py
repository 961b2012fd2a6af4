"""What a plan and a fitted model show of themselves, and what the certificate of a fit states; all of it is public."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import TYPE_CHECKING, cast

from sfumato._shown import Shown
from sfumato._version import __version__
from sfumato.errors import NotFittedError
from sfumato.privacy.calibration import accountant
from sfumato.privacy.promises import implausible
from sfumato.record._certificate import Statement
from sfumato.record._shown import claim_words, meaning
from sfumato.record._types import suffix

if TYPE_CHECKING:
    from sfumato.method._graph_key import GraphKey
    from sfumato.method.contract import Arrays, Outcome, Planned
    from sfumato.record._certificate import Certificate
    from sfumato.record._collected import Collected
    from sfumato.record._deployment import Deployment
    from sfumato.record.ledger import Ledger

_OF_A_FIT = {
    "predict",
    "predict_proba",
    "predictions",
    "evaluate",
    "explain",
    "classes_",
    "score_pairs",
    "best_pairs",
    "embeddings",
    "certificate",
    "save",
    "released",
    "weights",
}


def described(plan: Planned) -> str:
    """Say in plain words what a plan protects: the record of its unit and, where edges have types, of which of them."""
    return plan.unit.describe() + suffix(plan.unit, plan.public.edge_types, plan.public.public_types)


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
            "protects": described(plan),
            "cost": claim_words(plan.epsilon, plan.delta),
            "releases": ", ".join(f"{one.name} {list(one.shape)}" for one in plan.releases) or "nothing",
        }

    def more(self) -> Mapping[str, str]:
        """Return what the cost means, and what next."""
        plan = cast("Planned", self)
        spends = "" if plan.epsilon is None else ", which spends it"
        return {**meaning(plan.epsilon, plan.delta), "next": f"<code>fitted = plan.fit(graph)</code>{spends}"}


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
            "protects": described(self.plan),
            "cost": claim_words(self.certificate.epsilon, self.certificate.delta),
        }

    def more(self) -> Mapping[str, str]:
        """Return what the cost means, and what next; predictions and scores spend nothing more."""
        steps = ("fitted.predict(graph)", "fitted.evaluate(graph)", "fitted.save('runs/first')")
        told = meaning(self.certificate.epsilon, self.certificate.delta)
        return {**told, "next": ", ".join(f"<code>{step}</code>" for step in steps)}


def statement(
    plan: Planned, outcome: Outcome, ledger: Ledger, collected: Collected | None, deployment: Deployment | None
) -> Statement:
    ran, origin = outcome.chosen or plan, plan.method.origin
    return Statement(
        ledger,
        version=__version__,
        settings=ran.method.settings,
        unit=plan.unit,
        budget=asdict(plan.budget) if plan.budget else None,
        accounting="none" if plan.epsilon is None else accountant(plan.unit.trust, [r.event for r in plan.releases]),
        public_facts={k: v for k, v in plan.public.to_dict().items() if k != "assumed"},
        assumed_public=plan.public.assumed,
        who_may_see=ran.method.audience_of(plan),
        builds_on=() if origin is None else origin.builds_on,
        notes=(*ran.method.card.notes, *ran.method.unused(ran, outcome.weights, outcome.released)),
        limits=ran.method.limits,
        doubts=implausible(
            plan.unit,
            {"epsilon": plan.epsilon, "delta": plan.delta},
            plan.public.to_dict(),
            ran.method.settings,
            learns=origin is None or not origin.builds_on,
            reads_links=ran.method.card.reads_links,
        ),
        arrival=plan.method.arrival,
        candidates=[{"method": one.name, "settings": one.settings} for one in plan.method.choices if plan.releases],
        collection=None if collected is None else collected.facts,
        deployment=None if deployment is None else deployment.to_dict(),
    )
