"""The verifier's own accountant: bounds on epsilon on both sides, from NumPy alone.

The lower bound is the cost of dominating pairs. Draws of the exponential mechanism may have a smaller Renyi bound (losses in an
interval of length epsilon have rho = epsilon^2 / 8). Then that counts: a claim below it is refused as not proved, though no
mechanism may be known that costs so much.
"""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np

from ._compose import refine
from ._losses import Part, Slight, Symmetric
from ._renyi import renyi_epsilon
from .events import failures, leaves, parts_of
from .events._gaussian import gaussian_epsilon
from .events._poisson_gaussian import Sampled
from .events._repeated_gaussian import Repeated

SAMPLER_TAU = 2.0**-100
_MAX_PARTS, _MAX_STEPS = 32, 1e8
_MOST_LOSS = 280.0  # a larger loss of one release has a chance that rounding hides
_SLIGHT = 1e-10  # a smaller mu is below every lattice
_SLIGHT_PURE = 1e-3  # deviation of the losses of pure mechanisms that one bound may stand for
_RENYI_GRID = 0.999  # what a finer choice of orders may be lower by


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
    if failed := failures(events):
        left = Fraction(delta) - failed
        delta = math.nextafter(float(left), 0.0) if left > 0 else -1.0
    try:
        if delta == 0:
            return _pure_epsilon(events)
        if any(event["type"] == "selection" for event in leaves(events)):
            return 0.0, renyi_epsilon(events, delta)
        mu, parts = parts_of(events)
        if delta <= 0 or mu > 1e50 or len(parts) > _MAX_PARTS:
            return 0.0, math.inf
        alone = gaussian_epsilon(mu, delta)
        if not parts:
            return alone
        if sum(part.steps for part in parts) > _MAX_STEPS:
            return 0.0, math.inf
        low, high = _refined([*parts], mu, delta)
    except (ValueError, OverflowError, ZeroDivisionError):
        return 0.0, math.inf
    pure = [part.steps * part.bound for part in parts if isinstance(part, Symmetric)]
    if len(pure) == len(parts):  # what pure mechanisms cost at most, on top of the Gaussians
        low, high = max(low, alone[0]), min(high, alone[1] + sum(pure))
    if any(
        isinstance(part, Symmetric) and part.outcomes == 1 for part in parts
    ):  # Renyi bounds may be the smaller ones
        high = min(high, renyi_epsilon(events, delta))
        low = min(low, _RENYI_GRID * high)
    return (low, high) if low <= high else (0.0, math.inf)


def _refined(parts: list[Part], mu: float, delta: float) -> tuple[float, float]:
    """Return a bracket by privacy loss distributions; (0, inf) beyond the reach of their lattices."""
    if max((part.bound for part in parts if isinstance(part, Symmetric)), default=0.0) > _MOST_LOSS:
        return 0.0, math.inf
    fewer = _without_slight(parts, delta)
    for both in (parts, fewer)[: 1 + (fewer is not parts)]:
        try:
            if mu:
                both = [*both, Sampled(1.0, 1 / mu, False, 1) if mu > _SLIGHT else Slight(mu, delta)]
            low, high = refine(both, delta, False, 0.0)
            if any(isinstance(part, (Sampled, Repeated)) and not part.replace for part in parts):
                low, high = map(max, (low, high), refine(both, delta, True, high))
        except (ValueError, OverflowError, ZeroDivisionError):
            continue
        return low, high
    return 0.0, math.inf


def _without_slight(parts: list[Part], delta: float) -> list[Part]:
    """Put one bound in the place of all pure mechanisms that together are below every lattice that holds the others."""
    slight = [
        part for part in parts if isinstance(part, Symmetric) and part.bound * math.sqrt(part.steps) < _SLIGHT_PURE
    ]
    if not slight or len(slight) == len(parts):
        return parts
    mu = math.hypot(*(part.bound * math.sqrt(part.steps) for part in slight))
    return [*(part for part in parts if part not in slight), Slight(mu, delta)]


def _pure_epsilon(events: list[dict[str, Any]]) -> tuple[float, float]:
    """At delta 0 pure mechanisms cost the sum of their epsilons, exactly; everything else has no bound."""
    mu, parts = parts_of(events)
    if mu or not all(isinstance(part, Symmetric) for part in parts):
        return 0.0, math.inf
    total = sum((Fraction(part.bound) * part.steps for part in parts if isinstance(part, Symmetric)), Fraction())
    nearest = float(total)
    low = nearest if Fraction(nearest) <= total else math.nextafter(nearest, 0.0)
    return low, nearest if Fraction(nearest) >= total else math.nextafter(nearest, math.inf)
