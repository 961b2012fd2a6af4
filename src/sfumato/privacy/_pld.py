"""Privacy loss distributions of Gaussian and Poisson-subsampled Gaussian plans, on a grid that is refined until stable.

The distributions come from dp-accounting ("connect the dots": every value is an upper bound whose error shrinks with
the square of the grid interval). This module chooses grids, truncations and stopping; it never lets an overflow, an
infinite value with a finite alternative, or a hang through: where a plan is out of reach it answers infinity.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np

MAX_LOSS = 600.0  # privacy losses beyond this overflow exp() in a one-step distribution
MAX_CELLS = 300_000  # widest grid of one step
MAX_COMPOSED_CELLS = 4e6  # widest grid of a plan
SMALLEST_MU = 1e-9  # a smaller one is rounded up to it
MIN_INTERVAL = 1.25e-6  # below it the rounding of a one-step distribution outgrows the discretization error
ROUNDING = 2.0**-54  # error in delta per composed step from the Fourier transforms; 5 times what was measured
TAIL = 1e-6  # share of delta given to each truncation
STABLE = 3e-4  # relative change at which refinement stops; the error left is a third of it
COARSE, FINE = 2e-2, 4e-4  # accuracies asked of the first grids; they achieve them with a factor 1 to 2 to spare
DENSE = 1000  # dp-accounting stores smaller grids sparsely, and composing those many times does not end


class Sampled(NamedTuple):
    """One kind of Poisson-subsampled Gaussian step."""

    sampling_prob: float
    noise_multiplier: float
    relation: str


Steps = Mapping[Sampled, int]


def _span(kind: Sampled, tail: float) -> tuple[float, float]:
    """Return the smallest and largest privacy loss of one step outside tails of mass ``tail``."""
    q, z, relation = kind
    apart = 2.0 if relation == "replace" else 1.0
    reach = math.sqrt(-2 * math.log(tail)) * apart / z + apart**2 / 2 / z**2
    top = float(np.logaddexp(math.log1p(-q), math.log(q) + reach))
    return (-top if relation == "replace" else max(math.log1p(-q), -reach)), top


def _tail(delta: float, steps: Steps) -> float:
    return TAIL * delta / (1 + sum(steps.values()))


def _usable_delta(delta: float, steps: Steps) -> float:
    """Return delta less the rounding of the transforms, or 0 if too little is left."""
    slack = ROUNDING * (64 + sum(steps.values()))
    return delta - slack if delta > 20 * slack else 0.0


def spread(kind: Sampled) -> float:
    """Return about the standard deviation of the privacy loss of one step."""
    q, z, relation = kind
    return (2 if relation == "replace" else 1) * min(q * math.sqrt(math.expm1(min(z**-2, 99.0))), 1 / z)


def _finest_interval(mu: float, steps: Steps, delta: float) -> float:
    """Return the smallest interval that time and rounding allow; infinity where none can serve.

    dp-accounting truncates T composed steps by Chernoff bounds of orders k / width, k = 1 to 20.
    """
    if not _usable_delta(delta, steps):
        return math.inf
    tail = _tail(delta, steps)
    alone = (0.0, mu**2 / 2 + mu * math.sqrt(-2 * math.log(tail)))
    spans = {kind: _span(kind, tail) for kind in steps}
    if max(high for _, high in (alone, *spans.values())) > MAX_LOSS:
        return math.inf
    widest = max(high - low for low, high in (alone, *spans.values()))
    interval = max(MIN_INTERVAL, widest / MAX_CELLS)
    for kind, (low, high) in spans.items():
        width, variance = high - low, steps[kind] * spread(kind) ** 2
        k = min(20.0, max(1.0, 8 * width / math.sqrt(variance))) if variance else 20.0
        composed = (variance * k / width + 70 * width / k) / MAX_COMPOSED_CELLS
        if composed > max(width / DENSE, MIN_INTERVAL):
            return math.inf
        interval = max(interval, composed)
    return interval


def grid_interval(mu: float, steps: Steps, epsilon: float, delta: float, accuracy: float) -> float:
    """Return the interval whose relative error on ``epsilon`` is about ``accuracy``; infinity where none can serve.

    An interval h adds about h^2 / 12 to the mean and h^2 / 6 to the variance of the loss of each of T steps; the
    composed loss is close to a normal law with epsilon = s^2 / 2 + r s, r = sqrt(2 log(1 / delta)).
    """
    reach = math.sqrt(2 * max(1.0, -math.log(delta)))
    deviation = 2 * epsilon / (math.sqrt(reach**2 + 2 * epsilon) + reach)
    total = 1 + sum(steps.values())
    wanted = math.sqrt(12 * accuracy * epsilon / (total * (1 + reach / deviation))) if epsilon > 0 else MIN_INTERVAL
    return max(wanted, _finest_interval(mu, steps, delta))


def compose(mu: float, steps: Steps, delta: float, interval: float, *, pessimistic: bool = True) -> Any:
    """Return the privacy loss distribution of a plan, both directions composed, on a grid of ``interval``."""
    from dp_accounting import NeighboringRelation
    from dp_accounting.pld import privacy_loss_distribution as pld

    tail = _tail(delta, steps)

    def single(noise_multiplier: float, sampling_prob: float, relation: str) -> Any:
        relations = {"add-remove": NeighboringRelation.ADD_OR_REMOVE_ONE, "replace": NeighboringRelation.REPLACE_ONE}
        return pld.from_gaussian_mechanism(
            noise_multiplier,
            sensitivity=1.0,
            sampling_prob=sampling_prob,
            neighboring_relation=relations[relation],
            value_discretization_interval=interval,
            log_mass_truncation_bound=math.log(tail),
            pessimistic_estimate=pessimistic,
            use_connect_dots=pessimistic,
        )

    def power(one: Any, count: int, dense: bool) -> Any:
        if dense or count <= 16:
            return one.self_compose(count, TAIL * delta)
        many, rest = divmod(count, 16)
        result = one.self_compose(16, tail).self_compose(many, TAIL * delta)
        return result.compose(one.self_compose(rest, tail), 0) if rest else result

    total = None
    for kind, count in steps.items():
        low, high = _span(kind, tail)
        one = single(kind.noise_multiplier, kind.sampling_prob, kind.relation)
        part = power(one, count, high - low > 1.1 * DENSE * interval)
        total = part if total is None else total.compose(part, 0)
    if mu > 0:
        part = single(1 / max(mu, SMALLEST_MU), 1.0, "add-remove")
        total = part if total is None else total.compose(part, 0)
    return total


def epsilon_at(mu: float, steps: Steps, delta: float, interval: float) -> float:
    """Return an upper bound on epsilon from one grid; infinity where the grid cannot serve."""
    if math.isinf(interval):
        return math.inf
    return float(compose(mu, steps, delta, interval).get_epsilon_for_delta(_usable_delta(delta, steps)))


def _refine(evaluate: Callable[[float], float], interval: float, finest: float, stable: float) -> float:
    """Halve the interval until the upper bound ``evaluate(interval)`` stops falling; return the smallest seen."""
    best = evaluate(interval)
    while math.isfinite(best) and interval > 1.5 * finest:
        interval = max(interval / 2, finest)
        value = evaluate(interval)
        if best - value <= stable * value:
            return min(best, value)
        best = value
    return best


def epsilon(mu: float, steps: Steps, delta: float, estimate: float) -> float:
    """Return an upper bound on epsilon of at most ``estimate`` (itself an upper bound), refined until stable."""
    finest = _finest_interval(mu, steps, delta)
    estimate = min(estimate, epsilon_at(mu, steps, delta, grid_interval(mu, steps, estimate, delta, COARSE)))
    if estimate == 0:
        return 0.0
    interval = grid_interval(mu, steps, estimate, delta, FINE)
    return min(estimate, _refine(lambda h: epsilon_at(mu, steps, delta, h), interval, finest, STABLE))


def delta(mu: float, steps: Steps, epsilon: float, estimate: float) -> float:
    """Return an upper bound on delta of at most ``estimate`` (itself an upper bound), refined until stable."""
    coarse = grid_interval(mu, steps, epsilon, estimate, COARSE)
    estimate = min(estimate, _delta_at(mu, steps, epsilon, estimate, coarse))
    interval, finest = grid_interval(mu, steps, epsilon, estimate, FINE), _finest_interval(mu, steps, estimate)
    stable = 2 * STABLE * max(1.0, -math.log(estimate))
    return min(estimate, _refine(lambda h: _delta_at(mu, steps, epsilon, estimate, h), interval, finest, stable))


def _delta_at(mu: float, steps: Steps, epsilon: float, estimate: float, interval: float) -> float:
    if math.isinf(interval):
        return math.inf
    slack = estimate - _usable_delta(estimate, steps)
    return float(compose(mu, steps, estimate, interval).get_delta_for_epsilon(epsilon)) + slack
