"""The verifier's own accountant: bounds on epsilon on both sides, from NumPy alone.

Part of the verifier: it needs NumPy, ``verify/losses.py``, ``verify/repeated.py`` and ``verify/compose.py``. Gaussian releases
use the closed form of Balle and Wang (2018). Mixtures with Poisson-subsampled and repeated Gaussians, Laplace, randomized
response and the exponential mechanism are bracketed by privacy loss distributions. Selections (Papernot and Steinke 2022,
theorems 2 and 6) are bounded from above, by Renyi divergences.

The lower bound is the cost of dominating pairs. Draws of the exponential mechanism may have a smaller Renyi bound (losses in an
interval of length epsilon have rho = epsilon^2 / 8). Then that counts: a claim below it is refused as not proved, though no
mechanism may be known that costs so much.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator
from fractions import Fraction
from typing import Any

import numpy as np

from .compose import ROUNDING, refine
from .losses import Part, Sampled, Slight, Symmetric
from .repeated import Repeated

KNOWN_EVENTS = (
    "gaussian", "poisson-gaussian", "repeated-gaussian", "laplace", "randomized-response", "exponential", "pure", "selection",
)  # fmt: skip
_OUTCOMES = {"exponential": 1, "pure": 2}  # a pure mechanism is dominated by binary randomized response
_ORDERS = 1 + np.geomspace(0.01, 1e6, 700)
SAMPLER_TAU = 2.0**-100
_MAX_PARTS, _MAX_STEPS = 32, 1e8
_SLIGHT = 1e-10  # a smaller mu is below every lattice
_RENYI_GRID = 0.999  # what a finer choice of orders may be lower by


def simple_events(events: Iterable[dict[str, Any]], times: int = 1) -> Iterator[tuple[dict[str, Any], int]]:
    """Yield each simple event of a tree, and how often it runs (its own count or steps included).

    >>> laplace = {"type": "laplace", "noise_multiplier": 2.0, "count": 3}
    >>> [n for _, n in simple_events([{"type": "composed", "events": [laplace], "count": 5}])]
    [15]
    """
    for event in events:
        rounds = times * math.ceil(event.get("steps") or event.get("count") or event["mean_trials"])
        if event["type"] == "composed":
            yield from simple_events(event["events"], rounds)
        else:
            yield event, rounds


def leaves(events: Iterable[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """Yield every simple event, a selection before the events of all its candidates.

    >>> [event["type"] for event in leaves([{"type": "pure", "epsilon": 0.1, "count": 3}])]
    ['pure']
    """
    for event, _ in simple_events(events):
        yield event
        for candidate in event.get("candidates", ()):
            yield from leaves(candidate)


@np.errstate(all="ignore")
def epsilon_bracket(events: list[dict[str, Any]], delta: float) -> tuple[float, float]:
    """Return a lower and an upper bound on the epsilon of all events together at ``delta``, each relation as stated.

    Realistic plans are bracketed within 0.05 %. With very rare sampling (1e-5) only the upper bound is tight, and only
    while the rounding of the steps, 4.4e-16 each, is below about a fiftieth of delta. The result is (0, inf) for what is beyond
    floating-point reach or 1e8 steps, or of a type not in ``KNOWN_EVENTS``.

    >>> low, high = epsilon_bracket([{"type": "gaussian", "noise_multiplier": 5.0, "count": 2}], 1e-6)
    >>> round(low, 6), round(high, 6)
    (1.211967, 1.211967)
    """
    if not events:
        return 0.0, 0.0
    try:
        if delta == 0:
            return _pure_epsilon(events)
        if any(event["type"] == "selection" for event in leaves(events)):
            return 0.0, min(_renyi_epsilon(events, delta), _pure_selections(events))
        mu, parts = _parts(events)
        if delta <= 0 or mu > 1e50 or len(parts) > _MAX_PARTS:
            return 0.0, math.inf
        alone = _gaussian_epsilon(mu, delta)
        if not parts:
            return alone
        if sum(part.steps for part in parts) > _MAX_STEPS:
            return 0.0, math.inf
        both: list[Part] = [*parts]
        if mu:
            both.append(Sampled(1.0, 1 / mu, False, 1) if mu > _SLIGHT else Slight(mu, delta))
        low, high = refine(both, delta, False, 0.0)
        if any(isinstance(part, (Sampled, Repeated)) and not part.replace for part in parts):
            low, high = map(max, (low, high), refine(both, delta, True, high))
    except (ValueError, OverflowError, ZeroDivisionError):
        return 0.0, math.inf
    pure = [part.steps * part.bound for part in parts if isinstance(part, Symmetric)]
    if len(pure) == len(parts):  # what pure mechanisms cost at most, on top of the Gaussians
        low, high = max(low, alone[0]), min(high, alone[1] + sum(pure))
    if any(
        isinstance(part, Symmetric) and part.outcomes == 1 for part in parts
    ):  # Renyi bounds may be the smaller ones
        high = min(high, _renyi_epsilon(events, delta))
        low = min(low, _RENYI_GRID * high)
    return (low, high) if low <= high else (0.0, math.inf)


def _pure_epsilon(events: list[dict[str, Any]]) -> tuple[float, float]:
    """At delta 0 pure mechanisms cost the sum of their epsilons, exactly; everything else has no bound."""
    mu, parts = _parts(events)
    if mu or not all(isinstance(part, Symmetric) for part in parts):
        return 0.0, math.inf
    total = sum((Fraction(part.bound) * part.steps for part in parts if isinstance(part, Symmetric)), Fraction())
    nearest = float(total)
    low = nearest if Fraction(nearest) <= total else math.nextafter(nearest, 0.0)
    return low, nearest if Fraction(nearest) >= total else math.nextafter(nearest, math.inf)


def _parts(events: list[dict[str, Any]]) -> tuple[float, list[Sampled | Repeated | Symmetric]]:
    """Return the mu of all plain Gaussians together, and everything else."""
    mu = 0.0
    steps: Counter[tuple[Any, ...]] = Counter()
    for event, times in simple_events(events):
        kind, replace = event["type"], event.get("relation") == "replace"
        if kind not in KNOWN_EVENTS or kind == "selection":
            raise ValueError(kind)
        terms = event.get("occurrences", 1)
        if kind == "gaussian" or event.get("sampling_prob") == 1:
            mu = math.hypot(mu, math.sqrt(times) * (1 + replace) * terms / event["noise_multiplier"])
        elif terms > 1:
            steps[Repeated, event["sampling_prob"], terms, event["noise_multiplier"], replace] += times
        elif "sampling_prob" in event:
            steps[Sampled, event["sampling_prob"], event["noise_multiplier"], replace] += times
        elif kind == "laplace":
            steps[Symmetric, 1 / event["noise_multiplier"], 0] += times
        else:
            steps[Symmetric, event["epsilon"], event.get("num_outcomes") or _OUTCOMES[kind]] += times
    return mu, [key[0](*key[1:], count) for key, count in steps.items()]


def _gaussian_epsilon(mu: float, delta: float) -> tuple[float, float]:
    if mu == 0:
        return 0.0, 0.0
    return _crossing(mu, math.log(delta) + 1e-9) * (1 - 1e-14), _crossing(mu, math.log(delta) - 1e-9) * (1 + 1e-14)


def _crossing(mu: float, goal: float) -> float:
    """Return where log delta falls to ``goal``, as a float above which it is lower; 0 only if it never was higher."""
    if gaussian_log_delta(mu, 0.0) <= goal:
        return 0.0
    low, high = 0.0, mu * (mu / 2 + 2 + math.sqrt(-2 * goal))
    while low < (middle := (low + high) / 2) < high:
        low, high = (middle, high) if gaussian_log_delta(mu, middle) > goal else (low, middle)
    return high


def gaussian_log_delta(mu: float, epsilon: float) -> float:
    """Return log delta of Gaussian releases by the formula of Balle and Wang, without overflow or lost digits.

    The formula is log phi(a) (R(a) - R(b)), with R the Mills ratio. For small mu the difference is the integral of
    -R'(t) = 1 - t R(t) from a to b, by Simpson's rule.
    """
    a, b = epsilon / mu - mu / 2, epsilon / mu + mu / 2
    log_density = -a * a / 2 - math.log(2 * math.pi) / 2
    if a > 1e4:
        return log_density  # more than the truth, and below every float
    if mu < 0.01:
        left, middle, right = (1 - t * _mills(t) for t in (a, a + mu / 2, b))
        return log_density + math.log(mu) + math.log((left + 4 * middle + right) / 6)
    if a < 6:
        return math.log(math.erfc(a / math.sqrt(2)) / 2 - math.exp(log_density) * _mills(b))
    return log_density + math.log(_mills(a) - _mills(b))


def _mills(x: float) -> float:
    """(1 - Phi(x)) / phi(x) for x > -1; a continued fraction where erfc loses digits."""
    if x < 6:
        return math.erfc(x / math.sqrt(2)) / 2 * math.exp(x * x / 2) * math.sqrt(2 * math.pi)
    value = x
    for k in range(60, 0, -1):
        value = x + k / value
    return 1 / value


def _renyi_epsilon(events: list[dict[str, Any]], delta: float) -> float:
    """An upper bound on epsilon by Renyi divergences (conversion of Canonne, Kamath and Steinke 2020)."""
    bounds = _renyi(events) + np.log1p(-1 / _ORDERS) - (math.log(delta) + np.log(_ORDERS)) / (_ORDERS - 1)
    return max(0.0, float(np.nanmin(bounds))) * (1 + ROUNDING)


def _renyi(events: list[dict[str, Any]]) -> np.ndarray:
    """Divergences of everything together at ``_ORDERS``."""
    mu, parts = _parts([event for event in events if event["type"] != "selection"])
    total = _ORDERS * mu * mu / 2
    for part in parts:
        total = total + part.steps * _curve(part)
    for event in events:
        if event["type"] == "selection":
            total = total + _selection(event)
    return np.asarray(total)


def _curve(part: Sampled | Repeated | Symmetric) -> np.ndarray:
    """Divergences of one step."""
    if isinstance(part, Repeated):
        return part.renyi(_ORDERS)
    return _sampled_renyi(part) if isinstance(part, Sampled) else _pure_renyi(part)


def _pure_renyi(part: Symmetric) -> np.ndarray:
    """Return divergences of Laplace noise (Mironov 2017, proposition 6), or a bound for every pure mechanism."""
    if part.outcomes:  # losses in an interval of length bound have a variance of at most bound^2 / 4: rho = bound^2 / 8
        return np.minimum(_ORDERS * part.bound**2 / (8 if part.outcomes == 1 else 2), part.bound)
    a, b = _ORDERS, 2 * _ORDERS - 1
    logs = np.logaddexp(np.log(a / b) + (a - 1) * part.bound, np.log((a - 1) / b) - a * part.bound)
    return np.asarray(np.maximum(logs, 0.0) / (a - 1))


def _pure_selections(events: list[dict[str, Any]]) -> float:
    """Return the cost of selections among pure trials, 2 + eta times that of the costliest; infinite for other events.

    Source: Papernot and Steinke (2022), Hyperparameter Tuning with Renyi Differential Privacy.
    """
    total = 0.0
    for event in events:
        if event["type"] != "selection":
            total += _pure_epsilon([event])[1]
        elif event["rule"] == "poisson":
            return math.inf
        else:
            most = max(_pure_epsilon(candidate)[1] for candidate in event["candidates"])
            total += (3 if event["rule"] == "geometric" else 2) * most
    return total * (1 + ROUNDING)


def _sampled_renyi(part: Sampled) -> np.ndarray:
    """Both directions by the trapezoidal rule, which converges geometrically for sums of Gaussians; else no sampling."""
    reach = 105 if part.replace else 60  # the integrand peaks at orders / s or, replacing, (2 orders - 1) / s
    result, x = _ORDERS * ((1 + part.replace) / part.s) ** 2 / 2, np.linspace(-reach, reach, 100 * reach + 1)
    moved, other = (np.logaddexp(math.log1p(-part.q), math.log(part.q) + d * x / part.s - 1 / (2 * part.s**2))
                    for d in (1, -1))  # fmt: skip
    other = other if part.replace else 0 * x
    for i in np.flatnonzero((_ORDERS / part.s < 45) & (part.s > 0.2)):
        moments = [np.exp(a * p + (1 - a) * q - x * x / 2).sum() * 0.02 / math.sqrt(2 * math.pi)
                   for a in _ORDERS[i : i + 1] for p, q in ((moved, other), (other, moved))]  # fmt: skip
        result[i] = min(result[i], (max(0.0, math.log(max(moments))) + 1e-14) / (_ORDERS[i] - 1))
    return np.asarray(result)


def _selection(event: dict[str, Any]) -> np.ndarray:
    """Divergences of the best of K trials; a trial has at most the largest ones of its candidates."""
    curves, mean = [_renyi(candidate) for candidate in event["candidates"]], event["mean_trials"]
    base = np.max(curves, axis=0)
    if event["rule"] == "poisson":
        epsilons = -np.log1p(-1 / _ORDERS)
        tails = (_ORDERS - 1) * (base - epsilons[:, None] + np.log1p(-1 / _ORDERS)) - np.log(_ORDERS)
        deltas = np.exp(np.minimum(tails.min(axis=1), 0))
        if all(one["type"] == "gaussian" for candidate in event["candidates"] for one in leaves(candidate)):
            mu = max(_parts(candidate)[0] for candidate in event["candidates"])
            deltas = np.array([math.exp(gaussian_log_delta(mu, epsilon)) for epsilon in epsilons])
        curve = np.logaddexp(-mean, (_ORDERS - 1) * (base + mean * deltas) + math.log(mean)) / (_ORDERS - 1)
        return np.asarray(curve)
    eta = {"geometric": 1, "logarithmic": 0}[event["rule"]]
    low, high = 0.0, 2 * math.log(mean) + 2  # log 1 / gamma, where the law has this mean
    for _ in range(200):
        middle = (low + high) / 2
        low, high = (low, middle) if math.exp(middle) - 1 > mean * middle else (middle, high)
    log_ratio = math.log(mean) if eta else high
    free = min(log_ratio, float(np.nanmin((1 - 1 / _ORDERS) * base + log_ratio / _ORDERS)))
    return np.asarray(base + (1 + eta) * free + math.log(mean) / (_ORDERS - 1))
