"""From a budget to a noise multiplier: never above the requested epsilon, at most 0.1 % below it."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import TYPE_CHECKING

from sfumato._validate import check_int, check_real, fail
from sfumato.noise._rectangles import SAMPLER_TAU
from sfumato.privacy.accounting import central_limit_epsilon, gaussian_log_delta, rough_epsilon
from sfumato.privacy.accounting import epsilon as epsilon_of
from sfumato.privacy.events import flatten

if TYPE_CHECKING:
    from sfumato.privacy.events import Event

_BELOW = 1e-3  # how far below the requested epsilon the answer may fall
_RANGE = (1e-6, 1e12)  # noise multipliers that are searched
_MAX_TRIALS = 200
_NEWTON_TRIALS = 30
LEAST_PURE_EPSILON = 1e-9
"""The least epsilon of a planned pure release: the sampler of discrete noise reaches it for counts in steps of 1 / 32767."""


def gaussian_noise_multiplier(epsilon: float, delta: float, count: int = 1) -> float:
    """Return the smallest noise multiplier (standard deviation / L2 sensitivity) of ``count`` Gaussian releases.

    **Formal guarantee.** ``accounting.epsilon([GaussianEvent(result, count)], delta) <= epsilon``, with equality to
    about 1e-9 relative in delta (Balle and Wang 2018, Theorem 8, inverted).

    Args:
        epsilon: the most the releases together may cost, > 0.
        delta: failure probability, in (0, 1).
        count: number of releases, at least 1.

    Raises:
        InputError: a value is outside its range.

    >>> round(gaussian_noise_multiplier(epsilon=4.0, delta=1e-7, count=2), 4)
    1.8354
    """
    epsilon, delta = _check_budget(epsilon, delta)
    count = check_int(low=1, count=count)
    goal = math.log(delta) - 1e-9
    low, high = 0.0, 1.0
    while gaussian_log_delta(high, epsilon) <= goal:
        high *= 2
    while low < (middle := (low + high) / 2) < high:
        low, high = (middle, high) if gaussian_log_delta(middle, epsilon) <= goal else (low, middle)
    return math.sqrt(count) / low


def pure_cost(events: Sequence[Event]) -> Fraction | None:
    """Return what events cost without any delta: the exact sum of their epsilons; None if one of them needs a delta.

    >>> from sfumato.privacy.events import GaussianEvent, LaplaceEvent, PureEvent
    >>> pure_cost([PureEvent(0.25, count=3), LaplaceEvent(4.0)]), pure_cost([GaussianEvent(1.0)])
    (Fraction(1, 1), None)
    """
    total = Fraction(0)
    for event, times in flatten(events):
        if (cost := event.pure()) is None:
            return None
        total += times * event.repeats() * cost
    return total


def accountant(trust: str, events: Sequence[Event]) -> str:
    """Name how epsilon follows from events: ``sum``, ``renyi``, ``gaussian`` or ``pld``.

    ``trust`` is that of the unit: reports of users who trust nobody are added up.

    >>> from sfumato.privacy.events import LaplaceEvent
    >>> accountant("curator", [LaplaceEvent(4.0)]), accountant("curator", [])
    ('sum', 'gaussian')
    """
    if trust != "curator" or (events and pure_cost(events) is not None):
        return "sum"
    kinds = {event.type for event in events}
    return "renyi" if "selection" in kinds else "gaussian" if kinds <= {"gaussian"} else "pld"


def calibrate(make_events: Callable[[float], Sequence[Event]], epsilon: float, delta: float) -> float:
    """Return a noise multiplier at which ``make_events(noise_multiplier)`` costs at most ``epsilon``.

    The search runs on logarithms in three stages: it takes the cost from the central limit, then from a single grid, and
    at last from :func:`sfumato.privacy.accounting.epsilon`.

    **Formal guarantee.** ``0.999 * epsilon <= accounting.epsilon(make_events(result), delta) <= epsilon``.

    Args:
        make_events: gives the events of the plan at a noise multiplier; more noise must not cost more.
        epsilon: the most the plan may cost, > 0.
        delta: failure probability, in (0, 1).

    Raises:
        InputError: a value is outside its range, or no noise multiplier from 1e-6 to 1e12 meets the budget.

    >>> from sfumato.privacy.events import GaussianEvent
    >>> round(calibrate(lambda z: [GaussianEvent(z, 2)], epsilon=4.0, delta=1e-7), 2)
    1.84
    """
    epsilon, delta = _check_budget(epsilon, delta)
    start, slope = _search(lambda z: central_limit_epsilon(make_events(z), delta), epsilon, 1.0, -1.0, 0.01)
    start, slope = _search(
        lambda z: rough_epsilon(make_events(z), delta, epsilon), (1 + _BELOW / 5) * epsilon, start, slope, _BELOW / 2
    )
    return _search(lambda z: epsilon_of(make_events(z), delta), epsilon, start, slope, _BELOW)[0]


def effective_delta(delta: float, epsilon: float, affected: int) -> float:
    """Return the part of ``delta`` that is left for the events after the noise sampler has taken its share.

    The sampler draws from a law within total variation tau = ``SAMPLER_TAU`` of the exact one. Its share is
    (1 + exp(epsilon)) tau A, with A = ``affected``.

    **Formal guarantee.** Events that are (epsilon, result)-DP under exact noise are (epsilon, delta)-DP under this
    sampler, if neighboring data change at most A drawn coordinates.

    Args:
        delta: of the whole plan, in (0, 1).
        epsilon: of the whole plan, > 0.
        affected: number of noise draws that a record can affect, >= 0.

    Raises:
        InputError: a value is outside its range, or nothing is left.

    >>> effective_delta(1e-7, epsilon=1.0, affected=10**6) < 1e-7
    True
    >>> f"{1e-18 - effective_delta(1e-18, epsilon=1.0, affected=10**6):.3e}"
    '2.933e-24'
    """
    epsilon, delta = _check_budget(epsilon, delta)
    affected = check_int(low=0, affected=affected)
    log_cost = math.log1p(math.exp(-epsilon)) + epsilon + math.log(SAMPLER_TAU * affected) if affected else -math.inf
    left = math.nextafter(delta - math.exp(min(log_cost, 0.0)), 0.0) if affected else delta
    if log_cost >= 0:
        raise fail("epsilon", epsilon, "to be smaller: the noise sampler's share would take all of delta", "Lower it.")
    if left <= 0:
        raise fail(
            "delta",
            delta,
            f"> {math.exp(log_cost):.3g}, the share of the noise sampler",
            f"Raise delta, or lower epsilon (now {epsilon:g}) or the {affected} affected coordinates.",
        )
    return left


def _check_budget(epsilon: float, delta: float) -> tuple[float, float]:
    remedy = "Choose a public number well below 1 / (number of records), such as 1e-7."
    return (
        check_real(low=0, open_low=True, epsilon=epsilon),
        check_real(remedy, low=0, high=1, open_low=True, open_high=True, delta=delta),
    )


def _search(
    cost: Callable[[float], float], epsilon: float, start: float, slope: float, below: float
) -> tuple[float, float]:
    """Find z with ``(1 - below) epsilon <= cost(z) <= epsilon``; return it and d log cost / d log z there.

    Newton steps on (log z, log cost) with the slope of the last two trials, halving the bracket where they leave it, and
    halving it alone after ``_NEWTON_TRIALS``: where epsilon falls to 0 the steps can go round in circles.
    """
    goal = math.log(epsilon) - 0.3 * below
    low, high = (math.log(bound) for bound in _RANGE)
    at, last = math.log(start), (0.0, 0.0)
    for trial in range(_MAX_TRIALS):
        value = cost(math.exp(at))
        if (1 - below) * epsilon <= value <= epsilon:
            return math.exp(at), slope
        log_value = math.log(value) if 0 < value < math.inf else math.copysign(math.inf, value - epsilon)
        if trial and math.isfinite(log_value) and math.isfinite(last[1]) and at != last[0]:
            slope = min(-0.2, max(-50.0, (log_value - last[1]) / (at - last[0])))
        low, high = (at, high) if value > epsilon else (low, at)
        last = (at, log_value)
        step = max(-3.0, min(3.0, (goal - log_value) / slope))
        at = at + step if trial < _NEWTON_TRIALS and low < at + step < high else (low + high) / 2
        if high - low < 1e-12:
            break
    raise fail(
        "epsilon",
        epsilon,
        f"to be within reach of a noise multiplier from {_RANGE[0]:g} to {_RANGE[1]:g}",
        "Raise epsilon, or lower the cost of the events that do not depend on the noise multiplier.",
    )
