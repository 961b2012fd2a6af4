"""What a plan of releases costs: epsilon for a delta, and the reverse.

Every answer is an upper bound. Compositions of Gaussian releases alone are exact: with mu^2 = sum of
count / noise_multiplier^2 (Balle and Wang 2018, Theorem 8; Dong, Roth and Su 2019, Corollary 3.3)

    delta(epsilon) = Phi(mu / 2 - epsilon / mu) - exp(epsilon) Phi(-mu / 2 - epsilon / mu).

Everything else is composed as privacy loss distributions of dominating pairs, separately in each direction, on a grid that
is refined until stable. The reported value is the smallest of three valid bounds: this composition, Renyi composition, and
the full privacy loss (pure epsilons added to the Gaussian closed form without sampling). If a release is known by its
zero-concentrated rho alone, or is a selection, the whole plan is composed by Renyi divergences.
``method="rdp"`` and ``method="moments"`` reproduce published tables only.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from fractions import Fraction
from typing import NamedTuple

import numpy as np
from scipy.special import erfcx, ndtr

from sfumato._validate import check_choice, check_real
from sfumato.noise.exact import round_up
from sfumato.privacy import _pld
from sfumato.privacy._bounded_losses import Bounded
from sfumato.privacy._pairs import Pair, Revealed
from sfumato.privacy._selection import negative_binomial_renyi, poisson_renyi
from sfumato.privacy.events import Event, GaussianEvent, SelectionEvent, ZCDPEvent, failures, flatten

BOUNDS = ("best", "rdp", "moments")
_DELTA_SLACK = 5e-10  # relative; covers the rounding of the closed form
_SERIES_BELOW = 0.1  # mu
_FAR = 1e6  # x, where delta is zero in floating point and phi(x) a bound on it
_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(10)
_INTEGER_ORDERS = np.array([*range(2, 65), 128, 256, 512, 1024], dtype=float)
_RENYI_ORDERS = np.array([*(1 + np.arange(1, 100) / 10), *range(11, 64), 128, 256, 512, 1024])
_ALL_ORDERS = np.union1d(_RENYI_ORDERS, 1 + np.geomspace(1e-2, 1e7, 400))
_SMALLEST_MU = 1e-9  # a smaller one next to other releases is rounded up to it
_OUT_OF_REACH = (ValueError, OverflowError, ZeroDivisionError)  # of a grid; other bounds remain
_SMALLEST = 5e-324  # what is positive is not reported as 0
_ROUNDED = 0.1  # of delta: more of it lost to rounding lets Renyi bounds be the smaller ones
_ROUND_DOWN = 1 - 2.0**-50  # on epsilon: covers the rounding of mu and of epsilon / mu - mu / 2


def epsilon(events: Sequence[Event], delta: float, *, method: str = "best") -> float:
    """Return an epsilon such that the events together are (epsilon, delta)-differentially private.

    **Formal guarantee.** Relation: that of the events (a Gaussian event's multiplier holds it; sampled events name
    it). The value is never below the exact epsilon. It holds for events that are fixed before the data is seen.

    * Gaussian events alone: exact to 1e-9 relative in delta.
    * Other events: at most 0.1 % above the limit of the privacy loss distribution of the dominating pairs, if delta is
      above 1e-280 and above 1e-12 times the steps (their rounding counts against the bound).
    * A release that loses more than 600 with probability above delta: the Renyi bounds and the full privacy loss.

    The value is infinite only beyond the largest float.

    Args:
        events: what the plan releases, in any order.
        delta: failure probability, in (0, 1).
        method: "best"; "rdp" (Mironov 2017, conversion of Canonne, Kamath and Steinke 2020, Proposition 12); or
            "moments" (Abadi et al. 2016, Theorem 2, integer orders): looser, for comparison with published tables.

    Raises:
        InputError: delta outside (0, 1), an unknown method, something that is not an event.

    >>> round(epsilon([GaussianEvent(noise_multiplier=5.0, count=2)], delta=1e-6), 6)
    1.211967
    >>> from sfumato.privacy.events import PoissonGaussianEvent
    >>> abadi = PoissonGaussianEvent(sampling_prob=0.01, noise_multiplier=4.0, steps=10000)
    >>> round(epsilon([abadi], 1e-5), 3), round(epsilon([abadi], 1e-5, method="moments"), 4)
    (0.947, 1.2586)
    """
    delta = check_real(low=0, high=1, open_low=True, open_high=True, delta=delta)
    method = check_choice(BOUNDS, method=method)
    delta = _left(events, delta)
    if not delta:
        return math.inf
    plan = _gather(events)
    if method != "best":
        return _renyi_epsilon(plan, delta, _RENYI_ORDERS if method == "rdp" else _INTEGER_ORDERS, method)
    full = _full_epsilon(plan, delta)
    if not plan.steps and plan.paired:
        return full
    value = math.inf
    if plan.paired:
        with suppress(*_OUT_OF_REACH):
            value = _pld.epsilon(_pairs(plan), delta, min(full, _central_limit(plan, delta)))
    return _smallest(plan, delta, full, value)


def delta(events: Sequence[Event], epsilon: float) -> float:
    """Return a delta such that the events together are (epsilon, delta)-differentially private.

    **Formal guarantee.** As for :func:`epsilon`: the value is never below the exact delta.

    Args:
        events: what the plan releases, in any order.
        epsilon: the epsilon at which delta is asked, >= 0.

    Raises:
        InputError: a negative epsilon, something that is not an event.

    >>> round(delta([GaussianEvent(noise_multiplier=1.0)], epsilon=1.0), 6)
    0.126937
    """
    epsilon = check_real(low=0, epsilon=epsilon)
    failed = round_up(failures(events))
    return min(1.0, math.nextafter(_delta(events, epsilon) + failed, 1.0)) if failed else _delta(events, epsilon)


def _delta(events: Sequence[Event], epsilon: float) -> float:
    plan = _gather(events)
    if not plan.steps and plan.paired:
        return _full_delta(plan, epsilon)
    bound = min(_full_delta(plan, epsilon), _renyi_delta(_renyi(plan, _ALL_ORDERS), epsilon))
    if plan.paired:
        with suppress(*_OUT_OF_REACH):
            bound = _pld.delta(_pairs(plan), epsilon, bound)
    mu, pure = _all_drawn(plan)
    return bound if plan.paired and mu == 0 and epsilon >= pure else max(bound, _SMALLEST)


def rough_epsilon(events: Sequence[Event], delta: float, near: float) -> float:
    """Return an upper bound on epsilon from a single grid; searches use it because it is fast.

    The bound is good to about 0.1 % where the true epsilon is close to ``near``.

    Args:
        events: what the plan releases, in any order.
        delta: failure probability, in (0, 1).
        near: the epsilon around which the grid is fine.

    >>> from sfumato.privacy.events import PoissonGaussianEvent
    >>> run = [PoissonGaussianEvent(sampling_prob=0.01, noise_multiplier=4.0, steps=10000)]
    >>> round(rough_epsilon(run, 1e-5, near=1.0), 2)
    0.95
    """
    plan, delta = _gather(events), _left(events, delta)
    if not delta:
        return math.inf
    full = _full_epsilon(plan, delta)
    if not plan.steps and plan.paired:
        return full
    value, pairs = math.inf, _pairs(plan)
    if plan.paired and _pld.in_reach(pairs, delta):
        value = _pld.epsilon_at(pairs, delta, _pld.grid_interval(pairs, near, delta, accuracy=1e-3))
    return _smallest(plan, delta, full, value)


def central_limit_mu(events: Sequence[Event]) -> float:
    """Return the mu of the Gaussian law that the privacy loss tends to. This is *not* a bound: it serves to choose noise.

    The events must not hold a selection.

    >>> central_limit_mu([GaussianEvent(noise_multiplier=2.0, count=4)])
    1.0
    """
    return _limit_mu(_gather(events))


def central_limit_epsilon(events: Sequence[Event], delta: float) -> float:
    """Return the epsilon of the Gaussian law that the privacy loss tends to. This is *not* a bound: a search starts there.

    >>> from sfumato.privacy.events import PoissonGaussianEvent
    >>> run = [PoissonGaussianEvent(sampling_prob=0.01, noise_multiplier=4.0, steps=10000)]
    >>> round(central_limit_epsilon(run, 1e-5), 2)
    0.94
    """
    plan, delta = _gather(events), _left(events, delta)
    return min(_full_epsilon(plan, delta), _central_limit(plan, delta)) if delta else math.inf


def _left(events: Sequence[Event], delta: float) -> float:
    """Return what is left of delta beside the failures of events, rounded down; 0 if nothing is."""
    failed = failures(events)
    if not failed:
        return delta
    left = Fraction(delta) - failed
    return math.nextafter(float(left), 0.0) if left > 0 else 0.0


def gaussian_log_delta(mu: float, epsilon: float) -> float:
    """Return log delta(epsilon) of a composition of Gaussian releases, accurate to about 1e-11 however small delta is.

    Here ``mu`` is the Gaussian DP parameter of the composition. With x = epsilon / mu - mu / 2, y = x + mu and the Mills
    ratio R, delta = phi(x) (R(x) - R(y)). For small mu the difference is the integral of 1 - t R(t) from x to y.

    >>> round(gaussian_log_delta(mu=0.1, epsilon=5.0), 3)
    -1258.548
    """
    epsilon *= _ROUND_DOWN
    x, y = epsilon / mu - mu / 2, epsilon / mu + mu / 2
    log_density = -x * x / 2 - math.log(2 * math.pi) / 2
    if x > _FAR:
        return log_density
    if mu < _SERIES_BELOW:
        t = x + mu * (_NODES + 1) / 2
        difference = mu / 2 * float(_WEIGHTS @ (1 - t * _mills(t)))
    elif x < 0:
        return math.log(float(ndtr(-x)) - math.exp(log_density) * float(_mills(np.float64(y))))
    else:
        difference = float(_mills(np.float64(x)) - _mills(np.float64(y)))
    return log_density + math.log(difference) if difference > 0 else -math.inf


def _mills(x: np.ndarray | np.float64) -> np.ndarray:
    """Return (1 - Phi(x)) / phi(x)."""
    return np.asarray(math.sqrt(math.pi / 2) * erfcx(x / math.sqrt(2)))


def _gaussian_delta(mu: float, epsilon: float) -> float:
    if mu == 0 or math.isinf(mu):
        return min(mu, 1.0)
    return min(1.0, math.nextafter(math.exp(gaussian_log_delta(mu, epsilon)) * (1 + _DELTA_SLACK), 1.0))


def _gaussian_epsilon(mu: float, delta: float) -> float:
    """Return the smallest float whose delta, rounding included, is at most ``delta``."""
    goal = math.log(delta) - _DELTA_SLACK
    if mu == 0 or gaussian_log_delta(mu, 0.0) <= goal:
        return 0.0
    low, high = 0.0, mu * (mu / 2 + math.sqrt(-2 * math.log(delta)) + 1) * (1 + 1e-14)
    if math.isinf(high):
        return math.inf
    while low < (middle := (low + high) / 2) < high:
        low, high = (low, middle) if gaussian_log_delta(mu, middle) <= goal else (middle, high)
    return high


class _Gathered(NamedTuple):
    """mu of all Gaussian releases, how often each other pair occurs, and what only has Renyi divergences."""

    mu: float
    steps: Counter[Pair]
    rho: float
    selected: Counter[SelectionEvent]

    @property
    def paired(self) -> bool:
        """Whether everything has a dominating pair."""
        return not self.rho and not self.selected


def _gather(events: Sequence[Event]) -> _Gathered:
    """Merge equal events."""
    ratios: list[float] = []
    rhos: list[float] = []
    steps: Counter[Pair] = Counter()
    selected: Counter[SelectionEvent] = Counter()
    for event, times in flatten(events):
        if isinstance(event, SelectionEvent):
            selected[event] += times
            continue
        count = times * event.repeats()
        if isinstance(event, ZCDPEvent):
            rhos.append(count * event.rho)
            continue
        pair = event.pair()
        assert pair is not None, f"an event of type {event.type} has neither a pair nor Renyi divergences"
        if isinstance(pair, Revealed) and pair.sampling_prob == 1:
            ratios.append(math.sqrt(count) * pair.mu)
        else:
            steps[pair] += count
    return _Gathered(math.hypot(*ratios), steps, math.fsum(rhos), selected)


def _pairs(plan: _Gathered) -> Counter[Pair]:
    return plan.steps + Counter({Revealed(max(plan.mu, _SMALLEST_MU)): 1}) if plan.mu else plan.steps


def _all_drawn(plan: _Gathered) -> tuple[float, float]:
    """Return mu and epsilon of the plan without sampling, its pure releases at their full loss: a plan that dominates."""
    drawn = [(count, *pair.all_drawn()) for pair, count in plan.steps.items()]
    mu = math.hypot(plan.mu, *(math.sqrt(count) * mu for count, mu, _ in drawn))
    return mu, round_up(sum((count * Fraction(pure) for count, _, pure in drawn), Fraction(0)))


def _full_epsilon(plan: _Gathered, delta: float) -> float:
    mu, pure = _all_drawn(plan)
    return _gaussian_epsilon(mu, delta) + pure if plan.paired else math.inf


def _full_delta(plan: _Gathered, epsilon: float) -> float:
    mu, pure = _all_drawn(plan)
    return _gaussian_delta(mu, epsilon - pure) if epsilon >= pure and plan.paired else 1.0


def _central_limit(plan: _Gathered, delta: float) -> float:
    mu = _limit_mu(plan)
    if not plan.selected:
        return _gaussian_epsilon(mu, delta)
    limits: Counter[SelectionEvent] = Counter()
    for event, count in plan.selected.items():
        noises = (1 / max(_limit_mu(_gather(events)), _SMALLEST_MU) for events in set(event.candidates))
        limits[replace(event, candidates=tuple((GaussianEvent(noise),) for noise in noises))] += count
    return _renyi_epsilon(_Gathered(mu, Counter(), 0.0, limits), delta, _ALL_ORDERS, "rdp")


def _limit_mu(plan: _Gathered) -> float:
    spreads = (math.sqrt(count) * pair.spread() for pair, count in plan.steps.items())
    return math.hypot(plan.mu, math.sqrt(2 * plan.rho), *spreads)


def _smallest(plan: _Gathered, delta: float, full: float, value: float) -> float:
    """Return the smallest bound; Renyi's only where it may be that: next to the transforms' rounding of many steps."""
    concentrated = any(isinstance(pair, Bounded) and math.isfinite(pair.rho) for pair in plan.steps)
    rounded = _pld.ROUNDING * sum(plan.steps.values()) > _ROUNDED * delta
    if math.isfinite(value) and not concentrated and not rounded:
        return min(full, value)
    return min(full, value, _renyi_epsilon(plan, delta, _ALL_ORDERS, "rdp"))


def _renyi_epsilon(plan: _Gathered, delta: float, orders: np.ndarray, method: str) -> float:
    if plan == (0, Counter(), 0, Counter()):
        return 0.0
    values = _renyi(plan, orders) - math.log(delta) / (orders - 1)
    if method == "rdp":
        values += np.log1p(-1 / orders) - np.log(orders) / (orders - 1)
    return max(0.0, float(values.min()))


def _renyi(plan: _Gathered, orders: np.ndarray) -> np.ndarray:
    """Return Renyi divergences of the composed plan at ``orders``."""
    with np.errstate(over="ignore"):
        total = orders * (plan.mu * plan.mu / 2) + orders * plan.rho
        for pair, count in plan.steps.items():
            total = total + count * pair.renyi(orders)
        for event, count in plan.selected.items():
            total = total + count * _selected(event, orders)
    return np.asarray(total)


def _renyi_delta(divergences: np.ndarray, epsilon: float) -> float:
    """Return the smallest delta that divergences at ``_ALL_ORDERS`` give."""
    with np.errstate(over="ignore"):
        logs = (_ALL_ORDERS - 1) * (divergences - epsilon + np.log1p(-1 / _ALL_ORDERS)) - np.log(_ALL_ORDERS)
    return math.nextafter(math.exp(min(0.0, float(logs.min()))), 1.0)


def _selected(event: SelectionEvent, orders: np.ndarray) -> np.ndarray:
    """Return Renyi divergences of a selection; its trial has at most the largest of its candidates'."""
    every = np.union1d(orders, _ALL_ORDERS)
    at, free = np.searchsorted(every, orders), np.searchsorted(every, _ALL_ORDERS)
    plans = [_gather(events) for events in set(event.candidates)]
    curves = [_renyi(plan, every) for plan in plans]
    base = np.max(curves, axis=0)
    if event.rule != "poisson":
        return negative_binomial_renyi(event.rule, event.mean_trials, orders, base[at], every[free], base[free])
    deltas = [
        max(min(_full_delta(p, e), _renyi_delta(curve[free], e)) for p, curve in zip(plans, curves, strict=True))
        for e in -np.log1p(-1 / orders) * (1 - 1e-15)
    ]
    return poisson_renyi(event.mean_trials, orders, base[at], np.array(deltas))
