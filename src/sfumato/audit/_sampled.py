r"""White box with sampling: all noisy sums of a run in which a secret coin decides at each step whether the record is read.

Data sets, settings and witness are those of :mod:`~sfumato.audit._transcripts`, but each step reads a quarter of the records.
Let :math:`E_k, E'_k` be what the record adds to sum k in either data set if its coin falls heads, with probability
:math:`q_k`. A run is scored by its log-likelihood ratio :math:`\sum_k \ell_k(E_k) - \ell_k(E'_k)`, with

.. math:: \ell_k(E) = \log\bigl(1 - q_k + q_k e^{\langle R_k, E \rangle / \sigma_k^2 - \|E\|^2 / (2 \sigma_k^2)}\bigr) .

No test of the sums is stronger (Neyman and Pearson). Such scores are not normal, so both error rates at the threshold
:math:`a = \epsilon / 16`, fixed before, are bounded by Clopper and Pearson: t from below, f from above. If all noise were s times
the claimed one, :math:`t - e^a f` could be :math:`\delta_s(a)` at most, which the accountant computes for the sampled steps. The
bound is the epsilon of the least s that the rates contradict.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from sfumato._validate import check_int
from sfumato.audit._bounds import clopper_pearson
from sfumato.audit._evidence import Evidence
from sfumato.audit._transcripts import seen, taught_of
from sfumato.audit._worst import chance_of, pairs
from sfumato.privacy.accounting import delta as delta_of
from sfumato.privacy.accounting import epsilon as epsilon_of

if TYPE_CHECKING:
    from sfumato.audit._transcripts import Seen
    from sfumato.method._plan import Plan
    from sfumato.method.contract import Listed
    from sfumato.privacy.budget import Budget
    from sfumato.privacy.events import Event
    from sfumato.privacy.units import Unit

_KNOWS = "both data sets, and all noisy sums of a run, but not who was drawn"
_LEAST, _MOST, _HALVINGS, _SLOPE, _MANY = 0.1, 10.0, 9, 1 / 16, 24
_ROUNDED = 0.998  # the accountant's epsilon is less than 0.1 % too large


def audit_sampled(
    method: Listed,
    unit: Unit,
    budget: Budget,
    *,
    runs: int,
    confidence: float,
    seed: int = 0,
    told: Callable[[int, int], None] | None = None,
) -> Evidence:
    """Return the epsilon that the noisy sums of runs with sampling rule out.

    **Formal guarantee.** If the noise of all releases is what the ledger states, or more, and records are drawn as it states, the
    bound exceeds the claimed epsilon with probability at most 1 - ``confidence``. Like other bounds that refute the claimed
    noise, it is none for a mechanism whose claim is (epsilon, delta) alone.

    Args:
        method: what is audited, with settings of :func:`~sfumato.audit._worst.still`.
        unit: one whose record is one example of a step.
        budget: that is claimed.
        runs: how often the method is run on each of two data sets; 3/8 as often if it has more than 24 noisy sums.
        confidence: of the bound.
        seed: of public parts of the runs.
        told: is told of progress.

    Source: Nasr et al. 2023, section 4, with one point in place of the whole trade-off curve.
    """
    check_int(low=2, runs=runs)
    plan, worlds = next(pairs(method, unit, budget, sampled=True))
    sides = taught_of(plan, worlds, seed)
    if len(sides[0]) > _MANY:
        runs = max(2, 3 * runs // 8)  # they take longer
    counts, slope = [0, 0], _SLOPE * (plan.epsilon or 0.0)
    for number in range(runs):
        for side, world in enumerate(worlds):
            counts[side] += log_ratio(plan, seen(plan, world, seed), sides) > slope
        if told is not None and number % 50 == 0:
            told(number, runs)
    events, delta = [release.event for release in plan.releases], plan.delta or 0.0
    found, reach = (
        _epsilon(events, delta, slope, (hits, alarms), runs, confidence)
        for hits, alarms in ((counts[0], counts[1]), (runs, 0))
    )
    estimator = "trade-off of sampled steps from both error rates (refutes the claimed noise), threshold fixed before"
    return Evidence("one record that is drawn or not", _KNOWS, found, confidence, 2 * runs, estimator, reach=reach)


def log_ratio(plan: Plan, run: Seen, sides: tuple[Seen, Seen]) -> float:
    """Return the log-likelihood ratio of a run: of its sums with the one record, against those with the other."""
    total = 0.0
    for place, (sums, stddev) in run.items():
        if place not in sides[0]:
            continue
        chance = chance_of(plan.event(place[0]))
        for sign, side in zip((1, -1), sides, strict=True):
            added = side[place][0] / stddev
            loss = float(sums @ added) / stddev - float(added @ added) / 2
            total += sign * float(np.logaddexp(np.log1p(-chance), np.log(chance) + loss) if chance < 1 else loss)
    return total


def _epsilon(
    events: list[Event], delta: float, slope: float, counts: tuple[int, int], runs: int, confidence: float
) -> float:
    """The epsilon of the largest noise that the counts leave possible, and a little less; 0 if they tell nothing."""
    low, _ = clopper_pearson(counts[0], runs, confidence)
    _, high = clopper_pearson(counts[1], runs, confidence)
    apart = low - math.exp(slope) * high
    if apart <= 0:
        return 0.0

    def refuted(scale: float) -> bool:
        return delta_of(_scaled(events, scale), slope) < apart

    if not refuted(_MOST):
        return 0.0
    below, above = _LEAST, _MOST
    for _ in range(_HALVINGS):
        middle = float(np.sqrt(below * above))
        below, above = (below, middle) if refuted(middle) else (middle, above)
    return epsilon_of(_scaled(events, above), delta) * _ROUNDED


def _scaled(events: list[Event], scale: float) -> list[Event]:
    named: list[Any] = [*events]
    return [replace(event, noise_multiplier=scale * event.noise_multiplier) for event in named]
