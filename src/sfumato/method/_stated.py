"""What the certificate of a fit states, from its plan and from what ran."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING

from sfumato._version import __version__
from sfumato.privacy.calibration import accountant
from sfumato.privacy.promises import implausible
from sfumato.record._certificate import Statement

if TYPE_CHECKING:
    from sfumato.method.contract import Outcome, Planned
    from sfumato.record._collected import Collected
    from sfumato.record._deployment import Deployment
    from sfumato.record.ledger import Ledger


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
        who_may_see=ran.method.who_may_see(plan.unit),
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
