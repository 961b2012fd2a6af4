"""Privacy loss distributions of plans, on a grid that is refined until stable.

"Connect the dots" (Doroshenko et al. 2022): the masses that P and Q put on a cell of losses are kept and moved to its
two ends, which dominates the pair and costs an error of the square of the interval. Cells are as wide as the interval near
no loss, where the bulk of a rarely sampled step lies, and widen by ``GROWTH`` of the loss far from it. Composition is one
product of Fourier transforms of the laws tilted by exp(order * loss), so that rounding and wrapping are relative to a Chernoff
bound on delta, however small delta is. A plan out of reach costs infinity here, never an overflow or a hang.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import NamedTuple

import numpy as np
from scipy.fft import irfft, next_fast_len, rfft

from sfumato.privacy._bounded_losses import Bounded
from sfumato.privacy._pairs import Pair

Array = np.ndarray
Plan = Mapping[Pair, int]  # how often each pair occurs
MAX_LOSS = 600.0  # larger losses of one step overflow exp() and count as infinite
EVEN_CELLS = 20_000  # of one step, on each side of no loss; farther out widths grow with the loss
GROWTH = 1e-3  # width of a far cell over its loss
MAX_COMPOSED_CELLS = 1 << 22  # widest grid of a plan
MIN_INTERVAL, MAX_INTERVAL = 1e-7, 1.0
MIN_DELTA = 1e-280
CELL_ROUNDING = 2.0**-51  # of the mass beyond a cell
WRAPPED = 1e-11  # share of the Chernoff bound given to wrapping around
ROUNDING = 2.0**-51  # share given to the rounding of the transforms, for each composed step
SPARED = 1e-5  # share given to wrapping and rounding where a smaller tilt makes the law narrower
TAIL = 1e-6  # share of delta given to infinite losses
STABLE = 1e-4  # relative change at which refinement stops; the error left is a third of it
COARSE, FINE = 2e-2, 1e-4  # accuracies asked of the first grids
_WIDTH = 20.0  # standard deviations that a composed grid spans, about
_EXPONENT = 700.0
_LESS, _LEAST = 0.8, 1e-3  # by how much an order is lowered at once, and how far
_SHIFTS = (1 / 256, 1 / 64, 1 / 16, 1 / 8, 1 / 4, 1 / 2, 1.0, 2.0)  # Chernoff orders, over what a normal law would want


class Law(NamedTuple):
    """The loss of each of ``repeats`` independent steps, in intervals: log masses of ``cells``; ``lost`` is at infinity."""

    repeats: int
    cells: Array
    logs: Array
    lost: float


def _law(repeats: int, cells: Array, upper: Array, lower: Array, interval: float) -> Law:
    inner, edges = upper[1:-1], cells * interval
    beyond = np.minimum(np.cumsum(inner) + upper[0], np.cumsum(inner[::-1])[::-1] + upper[-1])
    right = inner - np.exp(edges[:-1]) * lower[1:-1] + CELL_ROUNDING * beyond
    right = np.clip(right / -np.expm1(-np.diff(edges)), 0, inner)
    probs = np.zeros(len(edges))
    probs[0] = upper[0]
    probs[1:] += right
    probs[:-1] += inner - right
    with np.errstate(divide="ignore"):
        return Law(repeats, cells, np.log(probs), float(upper[-1]))


def _cells(low: int, high: int) -> Array:
    """Return multiples of the interval from ``low`` to ``high``, and two more: ever farther apart beyond ``EVEN_CELLS``."""
    growing = math.log(max(-low, high, EVEN_CELLS) / EVEN_CELLS) / math.log1p(GROWTH)
    far = np.rint(EVEN_CELLS * (1 + GROWTH) ** np.arange(math.ceil(growing) + 1)).astype(np.int64)
    cells = np.concatenate([-far[::-1], np.arange(1 - EVEN_CELLS, EVEN_CELLS), far])
    ends = [low - 2, low - 1, low, high, high + 1, high + 2]
    return np.unique(np.concatenate([ends, cells[(low < cells) & (cells < high)]]))


def laws(plan: Plan, delta: float, interval: float) -> list[list[Law]]:
    """Return the laws of each direction of a plan; only one direction where both are the same."""
    there: list[Law] = []
    back: list[Law] = []
    log_tail = _log_tail(plan, delta)
    for pair, count in plan.items():
        first, last = (round(bound / interval) for bound in _span(pair, log_tail))
        cells = _cells(first, last)
        upper, lower = pair.masses(cells * interval, log_tail)
        there.append(_law(count, cells, upper, lower, interval))
        back.append(there[-1] if pair.symmetric else _law(count, -cells[::-1], lower[::-1], upper[::-1], interval))
    return [there] if all(pair.symmetric for pair in plan) else [there, back]


def _log_tail(plan: Plan, delta: float) -> float:
    return math.log(delta) + math.log(TAIL / sum(plan.values()))


def _span(pair: Pair, log_tail: float) -> tuple[float, float]:
    low, high = pair.span(log_tail)
    return max(-MAX_LOSS, min(MAX_LOSS, low)), max(-MAX_LOSS, min(MAX_LOSS, high))


class Composition:
    """The loss of a plan in one direction, tilted by exp(order * loss)."""

    def __init__(self, parts: Sequence[Law], interval: float) -> None:
        self.parts, self.interval = parts, interval
        self.slack = WRAPPED + ROUNDING * (1000 + sum(part.repeats for part in parts))
        self.lost = min(1.0, math.fsum(part.repeats * part.lost for part in parts))

    def log_moment(self, order: float) -> float:
        """Return log E exp(order * loss) over finite losses."""
        return math.fsum(part.repeats * self._tilted(part, order)[1] for part in self.parts)

    def _log_bound(self, order: float) -> float:
        return self.log_moment(order) + order * math.log(order) - (1 + order) * math.log1p(order)

    def _tilted(self, part: Law, order: float) -> tuple[Array, float]:
        logs = part.logs + order * self.interval * part.cells
        top = float(logs.max())
        if top == -math.inf:
            raise ValueError("all mass lies off the grid")
        probs = np.exp(logs - top)
        total = float(probs.sum())
        return probs / total, top + math.log(total)

    def best_order(self, bound: Callable[[float, float], float], epsilon: float | None = None) -> float:
        """Return about the order that minimizes a bound on epsilon, or on log delta where ``epsilon`` is given.

        ``bound(order, c)`` says which: delta(e) <= exp(c - order e), c = log moment + order log order -
        (1 + order) log(1 + order) (Canonne, Kamath and Steinke 2020, Proposition 12).
        A little less where that costs a factor of at most 8 in the bound on delta: heavy-tailed laws get much narrower.
        """
        from scipy.optimize import minimize_scalar  # takes longer to import than most plans to account for

        scale = 1 / max(self._moments([np.exp(part.logs) for part in self.parts])[1], self.interval)
        found = minimize_scalar(
            lambda log_order: bound(math.exp(log_order), self._log_bound(math.exp(log_order))),
            bounds=(math.log(1e-3 * scale), math.log(1e3 * scale)),
            method="bounded",
            options={"xatol": 0.03},
        )
        order, at = math.exp(float(found.x)), float(found.fun) if epsilon is None else epsilon
        lower = max(order / 2, order - scale)
        cost = self.log_moment(lower) - lower * at - (self.log_moment(order) - order * at)
        return lower if cost <= 2 else order

    def _moments(self, tilted: Sequence[Array]) -> tuple[list[int], float]:
        """Return the rounded mean of each law, in intervals, and the deviation of the sum."""
        centers, variance = [], 0.0
        for part, probs in zip(self.parts, tilted, strict=True):
            mean = float(part.cells @ probs)
            centers.append(round(mean))
            variance += part.repeats * float((part.cells - mean) ** 2 @ probs)
        return centers, math.sqrt(variance) * self.interval

    def masses(self, order: float) -> tuple[int, Array] | None:
        """Return the tilted law of the sum from some cell on, all but ``WRAPPED`` of it; None if it is too wide."""
        pairs = [self._tilted(part, order) for part in self.parts]
        tilted = [probs for probs, _ in pairs]
        total = math.fsum(part.repeats * log for part, (_, log) in zip(self.parts, pairs, strict=True))
        centers, deviation = self._moments(tilted)
        low, high = (sum(part.repeats * int(part.cells[end]) for part in self.parts) for end in (0, -1))
        goal = -math.log(WRAPPED / 2)
        for factor in _SHIFTS:
            shift = factor * math.sqrt(2 * goal) / max(deviation, self.interval)
            above = (self.log_moment(order + shift) - total + goal) / shift / self.interval
            below = (self.log_moment(order - shift) - total + goal) / shift / self.interval
            low, high = max(low, math.floor(-below)), min(high, math.ceil(above))
        if high - low >= MAX_COMPOSED_CELLS:
            return None
        size = next_fast_len(high - low + 1, real=True)
        product: Array | None = None
        for part, probs, center in zip(self.parts, tilted, centers, strict=True):
            power = rfft(np.bincount((part.cells - center) % size, probs, size)) ** part.repeats
            product = power if product is None else product * power
        total_center = sum(part.repeats * center for part, center in zip(self.parts, centers, strict=True))
        sums = np.roll(irfft(product, size), (total_center - low) % size)
        return low, np.maximum(sums[: high - low + 1], 0)

    def _fitting(self, order: float, epsilon: float) -> tuple[float, tuple[int, Array] | None]:
        """Lower the order while the law of the sum is too wide and slack stays below ``SPARED`` of delta."""
        spare = self.log_moment(order) - order * epsilon + max(0.0, math.log(SPARED / self.slack))
        less = order
        while self.log_moment(less) - less * epsilon <= spare and less > _LEAST * order:
            if (found := self.masses(less)) is not None:
                return less, found
            less *= _LESS
        return order, None

    def delta(self, epsilon: float) -> float:
        """Return an upper bound on the hockey-stick divergence at ``epsilon``."""
        if self.lost >= 1:
            return 1.0
        best = self.best_order(lambda order, log_bound: log_bound - order * epsilon, epsilon)
        order, found = self._fitting(best, epsilon)
        bound = math.exp(min(_EXPONENT, self.log_moment(order) - order * epsilon))
        if found is None:
            return min(1.0, self.lost + bound)
        first, sums = found
        excess = np.arange(first, first + len(sums)) * self.interval - epsilon
        sums, excess = sums[excess > 0], excess[excess > 0]
        finite = float(sums @ (np.exp(-order * excess) * -np.expm1(-excess)))
        return min(1.0, self.lost + bound * min(1.0, finite + self.slack))

    def epsilon(self, delta: float) -> float:
        """Return an upper bound on the smallest epsilon whose divergence is at most ``delta``."""
        left = delta - self.lost
        if left <= 0:
            return math.inf
        best = self.best_order(lambda order, log_bound: (log_bound - math.log(left)) / order)
        order, found = self._fitting(best, (self.log_moment(best) - math.log(left)) / best)
        high = (self.log_moment(order) - math.log(left)) / order  # where the Chernoff bound is ``left``
        if found is None or high <= 0:
            return max(0.0, high)
        first, sums = found
        below = high - np.arange(first, first + len(sums)) * self.interval
        keep = (order + 1) * below < _EXPONENT
        sums, below = sums[keep][::-1], below[keep][::-1]  # from the largest loss down
        upper = np.cumsum(sums * np.exp(order * below))
        lower = np.cumsum(sums * np.exp((order + 1) * below))
        slack = self.slack * np.exp(order * below)
        if not len(sums) or slack[0] > 1:
            return high
        # For epsilon from the next cell down to this one, delta / left = upper - e^(epsilon - high) lower + slack.
        values = upper[:-1] - np.exp(np.minimum(-below[1:], _EXPONENT)) * lower[:-1] + slack[1:]
        above = np.flatnonzero(values > 1)
        if not len(above):
            return max(0.0, high - float(below[-1]))
        at = int(above[0])
        spare, cell = upper[at] + slack[at + 1] - 1, high - float(below[at])
        with np.errstate(over="ignore"):  # then the quotient is infinite, and the cell is the bound
            return max(0.0, min(cell, high + math.log(spare / lower[at])) if lower[at] > 0 else cell)


def _finest_interval(plan: Plan, delta: float) -> float:
    """Return about the smallest interval that time and memory allow."""
    log_tail = _log_tail(plan, delta)
    widest = max(high - low for low, high in (_span(pair, log_tail) for pair in plan))
    deviation = math.sqrt(sum(count * pair.spread() ** 2 for pair, count in plan.items()))
    return max(MIN_INTERVAL, max(2 * widest, _WIDTH * deviation) / MAX_COMPOSED_CELLS)


def grid_interval(plan: Plan, epsilon: float, delta: float, accuracy: float) -> float:
    """Return the interval whose relative error on ``epsilon`` is about ``accuracy``, or the finest in reach.

    An interval h adds about h^2 / 12 to the mean and h^2 / 6 to the variance of the loss of each of T steps; the
    composed loss is close to a normal law with epsilon = s^2 / 2 + r s, r = sqrt(2 log(1 / delta)). Where the
    losses of the largest bounded pair can be put on the grid exactly, they are.
    """
    reach = math.sqrt(2 * max(1.0, -math.log(delta)))
    deviation = 2 * epsilon / (math.sqrt(reach**2 + 2 * epsilon) + reach)
    finest, total = _finest_interval(plan, delta), 1 + sum(plan.values())
    wanted = math.sqrt(12 * accuracy * epsilon / (total * (1 + reach / max(deviation, 1e-300))))
    interval = max(finest, min(MAX_INTERVAL, wanted))
    atoms = [(count * pair.epsilon**2, pair.epsilon) for pair, count in plan.items() if isinstance(pair, Bounded)]
    exact = max(atoms)[1] / math.ceil(max(atoms)[1] / interval) if atoms else 0.0
    return exact if exact >= finest else interval


def in_reach(plan: Plan, delta: float) -> bool:
    """Say whether a grid can give a useful bound."""
    bounded = all(pair.epsilon <= MAX_LOSS for pair in plan if isinstance(pair, Bounded))
    return delta >= MIN_DELTA and bounded and _finest_interval(plan, delta) <= MAX_INTERVAL


def epsilon_at(plan: Plan, delta: float, interval: float) -> float:
    """Return an upper bound on epsilon from one grid, the worse direction."""
    return max(Composition(parts, interval).epsilon(delta) for parts in laws(plan, delta, interval))


def _improve(bounds: list[float], values: Sequence[Callable[[], float]]) -> float:
    """Lower the bound of each direction by its new value, where that can matter; return the larger bound."""
    worst = 0.0
    for i in sorted(range(len(values)), key=bounds.__getitem__, reverse=True):
        if bounds[i] > worst:
            bounds[i] = min(bounds[i], values[i]())
        worst = max(worst, bounds[i])
    return worst


def _refine(evaluate: Callable[[float], float], interval: float, finest: float, stable: float) -> float:
    """Halve the interval until the upper bound ``evaluate(interval)`` stops falling; return the smallest seen."""
    best = evaluate(interval)
    while 0 < best < math.inf and interval > 1.5 * finest:
        interval = max(interval / 2, finest)
        value = evaluate(interval)
        if best - value <= stable * value:
            return min(best, value)
        best = value
    return best


def epsilon(plan: Plan, delta: float, estimate: float) -> float:
    """Return an upper bound on epsilon, refined until stable; ``estimate`` chooses the first grid."""
    if not in_reach(plan, delta) or math.isinf(estimate):
        return math.inf
    bounds = [math.inf, math.inf]

    def at(interval: float) -> float:
        sums = [Composition(parts, interval) for parts in laws(plan, delta, interval)]
        return _improve(bounds, [partial(one.epsilon, delta) for one in sums])

    first = grid_interval(plan, estimate, delta, COARSE)
    coarse = at(first)
    if not 0 < coarse < math.inf:
        return coarse
    interval = grid_interval(plan, min(coarse, estimate), delta, FINE)
    best = _refine(at, interval, _finest_interval(plan, delta), STABLE)
    while best >= coarse and (interval := 2 * interval) < first:  # the law of the sum was too wide for the finer grids
        best = at(interval)
    return min(coarse, best)


def delta(plan: Plan, epsilon: float, estimate: float) -> float:
    """Return an upper bound on delta of at most ``estimate`` (itself an upper bound), refined until stable."""
    bounds = [math.inf, math.inf]

    def at(interval: float) -> float:
        sums = [Composition(parts, interval) for parts in laws(plan, estimate, interval)]
        return _improve(bounds, [partial(one.delta, epsilon) for one in sums])

    if in_reach(plan, estimate):
        estimate = min(estimate, at(grid_interval(plan, epsilon, estimate, COARSE)))
    if not in_reach(plan, estimate):
        return estimate
    stable = 2 * STABLE * max(1.0, -math.log(estimate))
    finest = _finest_interval(plan, estimate)
    return min(estimate, _refine(at, grid_interval(plan, epsilon, estimate, FINE), finest, stable))
