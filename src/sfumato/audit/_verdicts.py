"""From the scores of one attack to a bound with its confidence, and to whether it refutes what the ledger states.

The ledger states an event for every release. A bound on what one release says refutes that event even if the claim of the whole
run, which also pays for other releases, still stands.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from sfumato.audit._evidence import Evidence
from sfumato.audit._gaussian import audit_means, mean_shift_lower_bound
from sfumato.audit._likelihood import ALL, HopScores
from sfumato.audit._one_run import audit_one_run
from sfumato.audit._thresholds import Explicit, audit_runs
from sfumato.privacy.events import GaussianEvent, PoissonGaussianEvent, PureEvent

if TYPE_CHECKING:
    from sfumato.audit._records import RecordScores
    from sfumato.method._plan import Plan

_WITH = "every record but the canary, public facts, weights and releases"
_SPREAD = 1e-9  # deviation below which scores count as a few values
_LARGE = 30.0  # an epsilon that no number of canaries proves
_SATURATED = 1 - 1e-6
_GUESSED, _MOST_GUESSED = 8, 3  # one canary in so many is guessed to be in, and at most

Attack = Callable[[float], tuple[Evidence, str]]
"""Is given the confidence that its bound must have; returns it, and a sentence if it refutes the event of one release."""


def hop_verdict(plan: Plan, scores: HopScores, key: tuple[str, str], confidence: float) -> tuple[Evidence, str]:
    """Bound epsilon from the scores of one hop, or of all hops together.

    Scores of Gaussian releases are normal, so their means are compared. For Laplace noise, and where scores have hardly any
    spread, both error rates are bounded.
    """
    name, kind = key
    members, others = (np.concatenate(part.get(key, [np.empty(0)])) for part in (scores.members, scores.others))
    title = f"{name}, canary {kind}, likelihood ratio"
    if min(len(members), len(others)) < 2:
        return Evidence(title, _WITH, 0.0, confidence, 0, "no scores", reach=0.0), ""
    delta = plan.delta or 0.0
    event = None if name == ALL else plan.event(name)
    if scores.pure:
        found = audit_runs(
            members, others, name=title, knowledge=_WITH, delta=0.0, confidence=confidence, policy=Explicit(_SATURATED)
        )
        worse = isinstance(event, PureEvent) and found.epsilon_lower_bound > event.epsilon
    elif max(float(members.std()), float(others.std())) < _SPREAD:
        found = audit_runs(members, others, name=title, knowledge=_WITH, delta=delta, confidence=confidence)
        worse = False
    else:
        found = audit_means(members, others, name=title, knowledge=_WITH, delta=delta, confidence=confidence)
        mu = mean_shift_lower_bound(members, others, confidence=confidence)
        worse = isinstance(event, GaussianEvent) and mu * event.noise_multiplier > 1
    return found, f"Release {name!r} says more of one record than the ledger states ({event})." if worse else ""


def record_verdicts(plan: Plan, scores: RecordScores) -> list[Attack]:
    """List the attacks on what was trained, one for each kind of score.

    One canary in eight is guessed to be in, and up to one in three if so few could not prove an epsilon as large as the claimed
    one: g guesses that are all right prove about log(g / log(1 / risk)). The number follows from the plan and the number of
    canaries, so it is fixed before. If all releases are Gaussian, sampled never, the claim
    is one of Gaussian differential privacy, and the sharper estimator for it is used.
    """
    return [partial(_record_verdict, plan, scores, name) for name in scores.members]


def _record_verdict(plan: Plan, scores: RecordScores, name: str, confidence: float) -> tuple[Evidence, str]:
    members, others = np.concatenate(scores.members[name]), np.concatenate(scores.others[name])
    canaries = len(members) + len(others)
    needed = 2 * math.log(1 / (1 - confidence)) * math.exp(min(plan.epsilon or 0.0, _LARGE))
    found = audit_one_run(
        members,
        others,
        name=f"canary, {name}",
        knowledge=_WITH,
        delta=plan.delta or 0.0,
        confidence=confidence,
        guesses=max(1, min(max(canaries // _GUESSED, math.ceil(needed)), canaries // _MOST_GUESSED)),
        gaussian=bool(plan.delta) and _is_gaussian(plan),
    )
    return found, ""


def _is_gaussian(plan: Plan) -> bool:
    events = [release.event for release in plan.releases]
    sampled = [event.sampling_prob for event in events if isinstance(event, PoissonGaussianEvent)]
    return (
        all(isinstance(event, GaussianEvent | PoissonGaussianEvent) for event in events)
        and min(sampled, default=1) == 1
    )
