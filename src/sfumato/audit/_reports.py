"""Audits of locally private methods: each randomizer that users run, by the frequencies of its outputs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sfumato._validate import fail
from sfumato.audit._evidence import Audit
from sfumato.audit._frequencies import audit_counts, audit_randomizer
from sfumato.graph._graph import PublicFacts
from sfumato.local._blink import Blink
from sfumato.local._shared_counts import SharedCounts
from sfumato.randomizers._questions import Questions

if TYPE_CHECKING:
    from sfumato.method.contract import Listed, Progress

_FACTS = PublicFacts(1000, 500, 16, 4, directed=False)


def audit_reports(
    method: Listed,
    *,
    public: PublicFacts = _FACTS,
    confidence: float = 0.999,
    runs: int = 20_000,
    progress: Progress | None = None,
) -> Audit:
    """Return the audit of a local method: a bound for each of its randomizers, beside the budget of this one.

    **Formal guarantee.** If every randomizer keeps its own budget, the audit is flagged with probability at most
    1 - ``confidence``, which is divided equally among the randomizers.
    """
    randomizers: list[tuple[Any, float]]
    if isinstance(method, Blink):
        randomizers = [(method.lists, method.lists.realized_epsilon)]
    elif isinstance(method, Questions):
        asked = (method.features(public), method.labels(public))
        randomizers = [(one, one.total_epsilon) for one in asked if one is not None]
    elif isinstance(method, SharedCounts):
        randomizers = []
    else:
        raise fail("method", method.name, "to be one that asks users", "Audit it with sfumato.audit._auditor.audit.")
    unit = method.unit
    if unit is None or not unit.private or not (randomizers or isinstance(method, SharedCounts)):
        raise fail("method", method.name, "to randomize something", "Give it a budget, such as --epsilon-y 1.")
    found, broken = [], []
    if isinstance(method, SharedCounts):
        found = [audit_counts(method.epsilon_y, public.num_classes, runs=runs, confidence=confidence)]
        if found[0].epsilon_lower_bound > method.epsilon_y:
            broken = [
                f"{found[0].name}: counts prove epsilon {found[0].epsilon_lower_bound:.4g}, above {method.epsilon_y:g}."
            ]
    one = 1 - (1 - confidence) / max(len(randomizers), 1)
    for number, (randomizer, budget) in enumerate(randomizers):
        found.append(audit_randomizer(randomizer, runs=runs, confidence=one))
        bound = found[-1].epsilon_lower_bound
        if bound > budget:
            broken.append(f"{found[-1].name}: reports prove epsilon {bound:.4g}, above their budget {budget:.4g}.")
        if progress is not None:
            progress("reports", number + 1, len(randomizers))
    plan = method.calibrate(None, unit, public)
    return Audit(method.name, unit.describe(), plan.epsilon, plan.delta or 0.0, confidence, tuple(found), tuple(broken))
