r"""Laws of sums of discrete Laplace noise of public scale, and the intervals that they give.

An interval covers the noise of the mechanism and nothing else: it says where the count of *this* graph is, not what another graph
of its kind would have.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import brentq
from scipy.signal import fftconvolve

_TAIL, _MOST = 1e-13, 1 << 20
_COARSE = 4000.0  # from this scale on, the grid of whole numbers is finer than any interval needs


@dataclass(frozen=True)
class Law:
    """The law of a sum of independent noises on whole multiples of ``step``: the chance of each, from ``low`` on.

    >>> law = Law.of([2.0])
    >>> bool(abs(law.chances.sum() - 1) < 1e-9), law.low
    (True, -60)
    """

    low: int
    chances: NDArray[np.float64]
    step: int = 1

    @classmethod
    def of(cls, scales: Sequence[float]) -> Law:
        """Return the law of a sum of discrete Laplace noises with these scales; 0 stands for none.

        Above a scale of 4,000 the noise is rounded to steps, which moves the ends of an interval by less than 1 in 4,000 of it.
        """
        return _law(tuple(scales))

    def interval(self, confidence: float) -> tuple[int, int, float]:
        """Return the ends a <= 0 <= b of the shortest interval that holds the noise with at least this chance, and the chance.

        Both sides are equally long, or the lower one is longer by one step: so the chance is near the asked one.

        >>> low, high, chance = Law.of([2.0]).interval(0.95)
        >>> low, high, round(chance, 4)
        (-6, 5, 0.9502)
        """
        middle, below = -self.low, np.concatenate([[0.0], np.cumsum(self.chances)])
        size = np.arange(2 * min(middle, len(self.chances) - 1 - middle) + 1)
        first, last = middle - (size + 1) // 2, middle + size // 2
        inside = below[last + 1] - below[first]
        at = min(int(np.searchsorted(inside, confidence)), len(size) - 1)
        return int(-((at + 1) // 2)) * self.step, int(at // 2) * self.step, float(min(1.0, inside[at]))


@lru_cache(maxsize=16)
def _law(scales: tuple[float, ...]) -> Law:
    step = max(1, math.ceil(max(scales, default=0.0) / _COARSE))
    low, chances = 0, np.ones(1)
    for scale in scales:
        if not scale:
            continue
        rate = step / scale
        reach = min(_MOST, math.ceil(-math.log(_TAIL) / rate))
        at = np.arange(-reach, reach + 1)
        one = np.exp(-np.abs(at) * rate)
        low, chances = low - reach, np.maximum(fftconvolve(chances, one / one.sum()), 0)
    return Law(low, chances / chances.sum(), step)


def sum_bound(scale: float, count: int, failure: float) -> float:
    r"""Return a t that the sum of so many independent discrete Laplace noises exceeds with a probability of at most ``failure``.

    The moment generating function of one of them is :math:`(\cosh a - 1) / (\cosh a - \cosh s)` with :math:`a = 1 / b` of its
    scale b. It is at most :math:`1 / (1 - s^2 b^2)`, since :math:`(\cosh x - 1) / x^2` grows with x > 0. So :math:`P(\sum N > t)
    \le e^{-s t} (1 - s^2 b^2)^{-n}` for every s < a (Chernoff). The best s has t = 2 n b sqrt(u) / (1 - u) with u = s^2 b^2.

    >>> round(sum_bound(2.0, 100, 0.025), 1)
    77.5
    """
    if not scale:
        return 0.0

    def excess(u: float) -> float:
        return count * (2 * u / (1 - u) + math.log1p(-u)) + math.log(failure)

    best = float(brentq(excess, 0.0, 1 - 1e-12))
    return 2 * count * scale * math.sqrt(best) / (1 - best)


def share_interval(
    above: float, below: float, scale_above: float, scale_below: float, confidence: float
) -> tuple[float, float]:
    """Return the interval of the ratio of two counts with independent Laplace noise, by inversion of tests.

    For the true ratio r the noise of ``above - r below`` has a known law, so r is kept unless the observed difference is beyond
    its quantiles. Where the lower count may be 0 nothing is known: (0, inf).

    >>> low, high = share_interval(3000.0, 10000.0, 20.0, 50.0, 0.95)
    >>> round(low, 3), round(high, 3)
    (0.293, 0.307)
    """
    if below <= -math.log(1 - confidence) * scale_below:
        return 0.0, math.inf
    ratio = above / below

    def beyond(value: float) -> float:
        return abs(above - value * below) - _quantile(scale_above, abs(value) * scale_below, confidence)

    wide = 1.0
    while beyond(ratio + wide) < 0 or beyond(ratio - wide) < 0:
        wide *= 2
        if wide > 1e9:
            return 0.0, math.inf
    return float(brentq(beyond, ratio - wide, ratio)), float(brentq(beyond, ratio, ratio + wide))


def _quantile(one: float, other: float, confidence: float) -> float:
    """Return the value that the sum of two Laplace noises exceeds in size with probability 1 - confidence."""
    one, other = max(one, other), min(one, other)
    if one == 0:
        return 0.0
    if other < 1e-9 * one:
        return -math.log(1 - confidence) * one
    if one / other < 1 + 1e-6:
        other = one / (1 + 1e-6)

    def excess(value: float) -> float:
        first, second = one * one * math.exp(-value / one), other * other * math.exp(-value / other)
        return (first - second) / (one * one - other * other) - (1 - confidence)

    return float(brentq(excess, 0.0, 60 * one))
