"""Gaussian noise, and what it costs in closed form (Balle and Wang 2018)."""

from __future__ import annotations

import math
from dataclasses import dataclass

from ._kind import Kind


@dataclass(frozen=True)
class Gaussian:
    """``steps`` plain Gaussians that a record moves by ``mu`` deviations."""

    mu: float
    steps: int


KIND = Kind({"noise_multiplier": "positive", "count": "count"}, lambda event: (Gaussian, 1 / event["noise_multiplier"]))


def gaussian_epsilon(mu: float, delta: float) -> tuple[float, float]:
    """Return a lower and an upper bound on epsilon at ``delta``, for the Gaussian parameter ``mu`` of all releases together.

    >>> [round(bound, 6) for bound in gaussian_epsilon(1.0, 1e-6)]
    [4.886554, 4.886554]
    """
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
