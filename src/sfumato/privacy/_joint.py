r"""The joint cost of pure runs whose epsilons are all fixed before the first: the exact law of the sum of their losses.

A pure run of epsilon e is dominated by randomized response of e, whose loss is e or -e with odds :math:`e^e` to 1. So runs of
:math:`e_1, \dots, e_k` cost (E, delta) with :math:`\delta = \sum_{l > E} P(l) (1 - e^{E - l})`, P the law of the sum of their
losses, and no less, since randomized responses reach it; mechanisms may be chosen after earlier outcomes, epsilons may not.

Sources: Kairouz, Oh and Viswanath 2015, theorem 3.3 (equal ones); Murtagh and Vadhan 2016, theorem 1.5 (others).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np

MOST_UNEQUAL = 400
"""How many unequal runs are composed: their law is computed run by run."""
_CELLS, _ROUNDING = 1 << 16, 1e-9


def joint_delta(epsilon: float, runs: int, total_epsilon: float) -> float:
    """Return the delta at which so many pure runs of one epsilon cost a total epsilon.

    >>> round(joint_delta(0.5, 4, 1.5), 6)
    0.059068
    """
    up, down = -math.log1p(math.exp(-epsilon)), -math.log1p(math.exp(epsilon))
    total = 0.0
    for ups in range(runs + 1):
        loss = (2 * ups - runs) * epsilon
        if loss > total_epsilon:
            ways = math.lgamma(runs + 1) - math.lgamma(ups + 1) - math.lgamma(runs - ups + 1)
            total += math.exp(ways + ups * up + (runs - ups) * down) * -math.expm1(total_epsilon - loss)
    return total


def unequal_delta(epsilons: Sequence[float], total_epsilon: float) -> float:
    """Return a delta at which pure runs of these epsilons cost a total epsilon, rounded up.

    Epsilons are rounded up to multiples of one step, and randomized response of more dominates that of less.

    >>> 0.059068 < unequal_delta([0.5] * 4, 1.5) < 0.0592
    True
    """
    step = sum(epsilons) / _CELLS
    sizes = [math.ceil(one / step) for one in epsilons]
    law, reach = np.ones(1), 0
    for size in sizes:  # law[i] is the chance of a loss of (2 i - reach) steps, of which i count the upward ones
        up = 1 / (1 + math.exp(-size * step))
        longer = np.zeros(len(law) + size)
        longer[size:] += up * law
        longer[: len(law)] += (1 - up) * law
        law, reach = longer, reach + size
    loss = step * (2 * np.arange(len(law)) - reach)
    over = loss > total_epsilon
    return float(-(law[over] @ np.expm1(total_epsilon - loss[over]))) * (1 + _ROUNDING)


def joint_epsilons(parts: Sequence[float], total_epsilon: float, total_delta: float) -> list[float]:
    """Return the largest epsilons, in these proportions, of pure runs that cost the totals together.

    >>> [round(one, 3) for one in joint_epsilons([0.5, 0.25, 0.25], 1.0, 0.01)]
    [0.526, 0.263, 0.263]
    """
    equal, runs = len(set(parts)) == 1, len(parts)

    def fits(scale: float) -> bool:
        if equal:
            return joint_delta(scale / runs, runs, total_epsilon) <= total_delta
        return unequal_delta([scale * part for part in parts], total_epsilon) <= total_delta

    scale = _largest(fits, total_epsilon, total_epsilon * runs, 50 if equal else 22)
    return [scale * part for part in parts]


def _largest(fits: Callable[[float], bool], low: float, high: float, steps: int) -> float:
    """The largest number that fits, from below; ``low`` fits."""
    for _ in range(steps):
        middle = (low + high) / 2
        low, high = (middle, high) if fits(middle) else (low, middle)
    return low
