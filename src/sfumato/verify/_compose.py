"""Compositions of privacy losses on lattices: bounds on epsilon from both sides.

Lattices are composed by FFT under an exponential tilt; truncated and wrapped mass counts against the bound.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

import numpy as np

from ._losses import Symmetric

if TYPE_CHECKING:
    from ._losses import Atoms, Part

_MAX_CELLS = 1 << 19
_FFT_ERROR, _STEP_ERROR, ROUNDING = 1e-13, 2.0**-51, 1e-6  # of a transform; of each step of its power
_PUSHES = 2.0 ** np.arange(-2, 5)  # Chernoff orders, over the deviation
_SPARED = 1e-4  # share of epsilon that errors may take by a smaller tilt
_OUTSIDE = 50.0  # -log of what windows leave out
_FAR, _MOVES = 0.9, 5  # a window is placed again if epsilon is below this share of what it was placed for; how often
_LESS, _TILTS = 0.9, 60  # each tilt over the one before, and their number
_LEAST_SPREAD = 1e-9  # of losses that are all alike
_LEAST_REST = 1e-3  # share of delta that a sketch leaves to finite losses
_NOTHING = -50.0  # log of a frequency's share that cannot be told from 0


def _tilted(part: Atoms, theta: float) -> tuple[np.ndarray, float]:
    """The distribution under the tilt exp(theta * loss), and the logarithm of what normalizes it."""
    exponent = theta * part.loss + np.log(part.mass)
    weight = np.exp(exponent - exponent.max())
    return weight / weight.sum(), float(exponent.max() + math.log(weight.sum()))


def _cumulant(atoms: Iterable[Atoms], theta: float) -> float:
    """Sum of steps * log E_P exp(theta * loss)."""
    return float(sum(part.steps * _tilted(part, theta)[1] for part in atoms))


def refine(parts: list[Part], delta: float, flip: bool, floor: float) -> tuple[float, float]:
    """Bound epsilon in one direction from both sides on finer and finer lattices, or until it is below ``floor``."""
    pilots, lows, highs = zip(*(part.pilot(delta, flip) for part in parts), strict=True)
    if _lost(pilots) >= delta:
        return 0.0, math.inf
    bounds = [(part.bound, part.steps) for part in parts if isinstance(part, Symmetric)]
    most = min([1e7, *(2 / bound for bound, _ in bounds)])
    steps, width = sum(part.steps for part in parts), 2 * sum(bound for bound, _ in bounds)
    reach = sum(bound * count for bound, count in bounds) / 4  # few symmetric losses: a window that holds them all

    def bounded(h: float, window: tuple[float, float, float], *, upper: bool) -> float:
        spans = zip(parts, lows, highs, strict=True)
        atoms = [part.atoms(h, flip, first, last, upper=upper) for part, first, last in spans]
        return _compose(atoms, h, *window, delta, upper=upper)

    def placed(epsilon: float) -> tuple[float, tuple[float, float, float]]:
        theta, center, spread = _window(pilots, delta, epsilon, most)
        h = max(0.05 * spread / math.sqrt(steps), width / _MAX_CELLS, 20 * spread / _MAX_CELLS)
        return h, (theta, center, max(spread, 4 * h, reach if 20 * reach < _MAX_CELLS * h else 0))

    low, high, near, moves = 0.0, math.inf, _chernoff(pilots, delta, most), 0
    h, window = placed(near)
    while True:
        h = _common_step(h, bounds)
        cells, before = max(width, 5 * window[2]) / h, high
        if cells > 8 * _MAX_CELLS:  # a bound far below the window's own step
            raise OverflowError("the losses need more cells than are reasonable")
        high = min(high, bounded(h, window, upper=True))
        if floor <= high < _FAR * near and moves < _MOVES:  # at first only a bound is known, which may be far above
            near, moves = high, moves + 1
            h, window = placed(near)
            continue
        if cells <= _MAX_CELLS:
            low = max(low, bounded(h, window, upper=False))
        close = high - low <= 3e-4 * min(high, 1e9)
        settled = cells > _MAX_CELLS / 2.5 and before - high <= (1e-4 if bounds else 5e-4) * min(high, 1e9)
        if close or settled or high < floor or cells > 2 * _MAX_CELLS:
            slack = 1e-12 * steps
            return max(0.0, low * (1 - ROUNDING) - slack), high * (1 + ROUNDING) + slack
        h /= 2.5


def _common_step(h: float, bounds: list[tuple[float, int]]) -> float:
    """A step of at most h, and not much less, of which the bounds of symmetric losses are nearly multiples."""
    if not bounds:
        return h
    largest = max(bound for bound, _ in bounds)
    first = math.ceil(largest / h)
    steps = largest / np.arange(first, first + min(2 * first, 2000) + 1)
    miss = np.sum([count * np.abs(bound - steps * np.rint(bound / steps)) for bound, count in bounds], axis=0)
    return float(steps[np.argmax(miss <= miss.min() + 1e-9 * h)])


def _chernoff(atoms: Iterable[Atoms], delta: float, most: float) -> float:
    """Return about the least bound on epsilon that a tilt up to ``most`` gives: the least (K(theta) + log 1/delta) / theta."""

    def bound(theta: float) -> float:
        return (_cumulant(atoms, theta) - math.log(rest)) / theta

    rest = max(delta - _lost(atoms), _LEAST_REST * delta)
    return bound(_best_tilt(bound, most))


def _best_tilt(cost: Callable[[float], float], most: float) -> float:
    """Return the theta of least ``cost``, by golden section on its logarithm up to ``most``."""
    low, high, golden = math.log(1e-4), math.log(max(most, 2e-4)), (math.sqrt(5) - 1) / 2
    for _ in range(45):
        left, right = high - golden * (high - low), low + golden * (high - low)
        low, high = (low, right) if cost(math.exp(left)) < cost(math.exp(right)) else (left, high)
    return math.exp((low + high) / 2)


def _window(atoms: Iterable[Atoms], delta: float, epsilon: float, most: float) -> tuple[float, float, float]:
    """Return the tilt, up to ``most``, whose law needs the shortest window, its middle and a twentieth of its length.

    The best tilt centers the law at ``epsilon``. A smaller one makes rare large losses rarer. It is taken while the errors of
    the FFT stay below ``_SPARED`` of ``epsilon``: a share x of delta moves epsilon by x / theta.
    """
    found: list[tuple[float, float, float]] = []
    theta = _best_tilt(lambda one: _cumulant(atoms, one) - one * epsilon, most)
    spared = math.log(delta) + math.log(max(_SPARED * theta * epsilon, 1e-300) / _error(atoms))
    for tilt in theta * _LESS ** np.arange(_TILTS):
        scale = _cumulant(atoms, tilt)
        if found and scale - tilt * epsilon > spared:
            break
        one = _deviation(atoms, tilt)
        ends = [
            min((_cumulant(atoms, tilt + sign * push) - scale + _OUTSIDE) / push for push in _PUSHES / 4 / one)
            for sign in (-1, 1)
        ]
        found.append((float(tilt), (ends[1] - ends[0]) / 2, (ends[0] + ends[1]) / 20))
    return min(found, key=lambda window: window[2])


def _lost(atoms: Iterable[Atoms]) -> float:
    """Return the chance of an infinite loss: that not all steps, which are independent, have a finite one."""
    return -math.expm1(sum(part.steps * math.log1p(-min(part.infinite, 1 - 2.0**-50)) for part in atoms))


def _error(atoms: Iterable[Atoms]) -> float:
    return _FFT_ERROR + _STEP_ERROR * sum(part.steps for part in atoms)


def _deviation(atoms: Iterable[Atoms], theta: float) -> float:
    """Standard deviation of the composed loss under the tilt, above 0."""
    variance = 0.0
    for part in atoms:
        weight, _ = _tilted(part, theta)
        variance += part.steps * np.average((part.loss - np.average(part.loss, weights=weight)) ** 2, weights=weight)
    return max(math.sqrt(variance), _LEAST_SPREAD)


def _fft_size(least: float) -> int:
    """At most an eighth more cells than wanted, in a number whose transform is fast."""
    step = 1 << max(1, math.ceil(math.log2(least)) - 4)
    return math.ceil(least / step) * step


def _compose(
    atoms: list[Atoms], h: float, theta: float, center: float, spread: float, delta: float, *, upper: bool
) -> float:
    """Compose by FFT under the tilt exp(theta * loss); return where delta(epsilon) crosses ``delta``.

    The tilted sum is kept on a window around ``center``; Chernoff bounds what the FFT wraps into it from outside.
    """
    size = _fft_size(20 * spread / h)
    spectrum = np.ones(size // 2 + 1, complex)
    for part in atoms:
        weight, _ = _tilted(part, theta)
        one = np.fft.rfft(np.bincount(part.index % size, weight, size))
        seen = np.abs(one) > math.exp(_NOTHING / part.steps)
        spectrum[seen] *= one[seen] ** part.steps
        spectrum[~seen] = 0
    shift = sum(part.steps * part.shift for part in atoms)
    start = round((center + shift) / h) - size // 2
    loss = h * np.arange(start, start + size) - shift
    tilted = np.maximum(np.roll(np.fft.irfft(spectrum, size), -(start % size)), 0)
    scale = _cumulant(atoms, theta)
    log_weight = scale - theta * loss
    outside = [
        min(math.exp(min(0.0, _cumulant(atoms, theta + push) - scale - push * end)) for push in sign * _PUSHES / spread)
        for end, sign in ((loss[0], -1), (loss[-1], 1))
    ]
    mass = np.exp(np.minimum(log_weight + np.log(tilted), 0))
    middle = loss[size // 2]
    tail, discounted = (np.cumsum(m[::-1])[::-1] for m in (mass, mass * np.exp(middle - loss)))
    slack = np.exp(np.minimum(log_weight, 700))
    if upper:
        goal = delta - _lost(atoms) - outside[1] * slack[-1] - _error(atoms) * slack
    else:
        goal = delta + (sum(outside) + _error(atoms)) * slack
    excess = tail - np.exp(loss - middle) * discounted - goal
    above = np.flatnonzero(~(excess < 0))
    last = above[-1] if above.size else -1
    if last == size - 1 or not math.isfinite(excess[last + 1 :].sum()):
        return math.inf if upper else 0.0
    if last < 0:
        if not upper or loss[0] <= 0:
            return 0.0
        # Is it 0? Losses from 0 on, in the window or outside, weigh exp(scale) at most, and so does every error.
        weight_at_0 = (sum(outside) + _error(atoms)) * math.exp(min(scale, 700.0))
        at_0 = tail[0] - math.exp(-middle) * discounted[0] + weight_at_0 + _lost(atoms)
        return 0.0 if at_0 < delta else float(loss[0])
    if not math.isfinite(excess[last]):
        return float(max(0.0, loss[last + 1])) if upper else 0.0
    crossing = middle + math.log((tail[last + 1] - goal[last]) / discounted[last + 1])
    return float(max(0.0, min(max(crossing, loss[last]), loss[last + 1])))
