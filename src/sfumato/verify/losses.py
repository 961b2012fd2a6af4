"""Privacy loss distributions of the verifier: bounds on epsilon from both sides.

Part of the verifier: it needs NumPy and nothing else of Sfumato. Mixtures of mechanisms are bracketed by two distributions
on a lattice: one that dominates the mechanism (each cell is split onto its ends, keeping both probabilities; Doroshenko et
al. 2022) and one that the mechanism dominates (each cell becomes one outcome, which is post-processing, and its loss is
rounded down). Both are composed by FFT under an exponential tilt; truncated and wrapped mass counts against the bound.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

_MAX_CELLS = 1 << 19
_EVEN, _GROWTH = 10_000, 1.002  # far losses of a sampled step: beyond so many cells their widths grow
_FFT_ERROR, _STEP_ERROR, ROUNDING = 1e-13, 2.0**-51, 1e-6  # of a transform; of each step of its power
_PUSHES = 2.0 ** np.arange(-2, 5)  # Chernoff orders, over the deviation
_SPARED, _OUTSIDE = 1e-5, 50.0  # share of delta that errors may take by a smaller tilt; -log of what windows leave out
_NOTHING = -50.0  # log of a frequency's share that cannot be told from 0


@dataclass(frozen=True)
class Sampled:
    """``steps`` draws of P = (1-q) N(0, s^2) + q N(1, s^2) against Q.

    Q is N(0, s^2), or (1-q) N(0, s^2) + q N(-1, s^2) if records are replaced.

    Args:
        q: the sampling probability, above 0.
        s: the noise multiplier of a step.
        replace: whether neighboring data sets differ in a replaced record.
        steps: the number of draws.
    """

    q: float
    s: float
    replace: bool
    steps: int

    def pilot(self, delta: float, flip: bool) -> tuple[_Atoms, float, float]:
        """Return a coarse sketch of the loss, without guarantee, and the range of losses that matters."""
        reach = self.s * math.sqrt(2 * math.log(1e6 * self.steps / delta))
        x = np.linspace(-reach - self.replace, 1 + reach, 4001)
        p, r = self.masses(x)
        loss, (low, high) = self.loss((x[1:] + x[:-1]) / 2), self.loss(x[[0, -1]])
        return _Atoms(-loss if flip else loss, r if flip else p, self.steps, np.zeros(0, int)), low, high

    def atoms(self, h: float, flip: bool, low: float, high: float, *, upper: bool) -> _Atoms:
        """Return the loss on a lattice, for a mechanism that dominates this mechanism or is dominated by it.

        Args:
            h: the step of the lattice.
            flip: exchange P and Q.
            low: the smallest loss that matters.
            high: the largest loss that matters.
            upper: True for a mechanism that dominates, False for a dominated one.
        """
        bound = _dominating if upper else _dominated
        return bound(self, flip, h, _lattice(math.floor(low / h), math.ceil(high / h)))

    def loss(self, x: np.ndarray) -> np.ndarray:
        """Return log P(x) / Q(x), which increases with x."""
        stay, move = np.log1p(-self.q), math.log(self.q)
        log_p = np.logaddexp(stay, move + (2 * x - 1) / (2 * self.s**2))
        return log_p - np.logaddexp(stay, move - (2 * x + 1) / (2 * self.s**2)) if self.replace else log_p

    def outcome(self, loss: np.ndarray) -> np.ndarray:
        """Return the inverse of :meth:`loss`; -inf below its range."""
        q, s = self.q, self.s
        if q == 1:
            return loss * s**2 + 0.5
        if self.replace:
            half = np.abs(loss) / 2
            log_z = half + np.log(-np.expm1(-2 * half) / 2) + math.log((1 - q) / q) + 1 / (2 * s**2)
            root = np.where(log_z > 20, log_z + math.log(2), np.arcsinh(np.exp(np.minimum(log_z, 20))))
            return np.asarray(np.sign(loss) * s**2 * (half + root))
        excess = np.maximum(loss - math.log1p(-q), 0)
        return np.asarray(s**2 * (math.log1p(-q) - math.log(q) + excess + np.log(-np.expm1(-excess))) + 0.5)

    def masses(self, x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return P and Q of each cell between neighboring points of ``x``."""
        center, moved = _normal_masses(x / self.s), _normal_masses((x - 1) / self.s)
        other = _normal_masses((x + 1) / self.s) if self.replace else center
        return (1 - self.q) * center + self.q * moved, (1 - self.q) * center + self.q * other


def _normal_masses(z: np.ndarray) -> np.ndarray:
    """Return Phi(z[i+1]) - Phi(z[i]), from the tail that is small."""
    tail = np.fromiter(map(math.erfc, (np.abs(z) * math.sqrt(0.5)).tolist()), float, z.size) / 2
    return np.diff(np.where(z < 0, tail, -tail)) + np.diff((z >= 0).astype(float))


@dataclass(frozen=True)
class Symmetric:
    """``steps`` mechanisms with loss ``bound`` at one end and -``bound`` at the other, alike in both directions.

    Randomized response over ``outcomes`` values has all other mass at 0; Laplace (``outcomes`` 0) has density
    exp((loss - bound) / 2) / 4 between the ends, and 1/2 at the upper one.
    """

    bound: float
    outcomes: int
    steps: int

    def pilot(self, delta: float, flip: bool) -> tuple[_Atoms, float, float]:
        """Return a coarse sketch of the loss, and its range."""
        return self.atoms(self.bound / 8, flip, 0.0, 0.0, upper=True), -self.bound, self.bound

    def atoms(self, h: float, flip: bool, low: float, high: float, *, upper: bool) -> _Atoms:
        """Return the loss on a lattice, for a mechanism that dominates or is dominated, as :meth:`Sampled.atoms` does.

        ``h``, ``flip``, ``low``, ``high`` and ``upper`` are explained there. The loss is computed on its own lattice, of step
        bound / k, and then moved to multiples of h less a shift that covers it.
        """
        k = round(self.bound / h)
        off = abs(self.bound - k * h)
        mass, least = np.zeros(2 * k + 1), math.exp(-self.bound)
        top = 0.5 if self.outcomes == 0 else 1 / (1 + (self.outcomes - 1) * least)
        if self.outcomes:
            mass[k] = (self.outcomes - 2) * top * least
        elif k == 0:
            mass[k] = (1 - least) / 2
        else:
            step = self.bound / k
            start = np.exp((step * np.arange(-k, k + 1) - self.bound) / 2) / 2
            if upper:  # each cell split onto its ends: P and Q stay
                cell = start[:-1] * math.expm1(step / 2)
                mass[:-1] += cell / (1 + math.exp(step / 2))
                mass[1:] += cell / (1 + math.exp(-step / 2))
            else:  # cells around the lattice points have exactly their loss; the two half cells are rounded down
                mass[1:-1] = start[1:-1] * 2 * math.sinh(step / 4)
                mass[0] = start[0] * math.expm1(step / 4)
                mass[-2] += start[-1] * -math.expm1(-step / 4)
        mass[-1] += top
        mass[0] += top * least
        shift = -off if upper else off
        index = np.arange(-k, k + 1)
        return _Atoms(h * index - shift, mass, self.steps, index, shift)


@dataclass(frozen=True)
class Slight:
    """A single Gaussian whose mu is so small that no lattice shows it: a loss of at most mu x + mu^2 / 2, except for Phi(-x).

    Args:
        mu: its Gaussian parameter, above 0.
        delta: the delta at which epsilon is asked.
        steps: the number of releases, always 1.
    """

    mu: float
    delta: float
    steps: int = 1

    def pilot(self, delta: float, flip: bool) -> tuple[_Atoms, float, float]:
        """Return a loss of 0 and an empty range."""
        return self.atoms(1.0, flip, 0.0, 0.0, upper=False), 0.0, 0.0

    def atoms(self, h: float, flip: bool, low: float, high: float, *, upper: bool) -> _Atoms:
        """Return a single loss, for a mechanism that dominates or is dominated, as :meth:`Sampled.atoms` does.

        ``h``, ``flip``, ``low``, ``high`` and ``upper`` are explained there. From above, this is the largest loss, and an
        infinite loss of mass 1e-9 delta >= exp(-x^2 / 2); from below, it is no loss.
        """
        largest = self.mu * (math.sqrt(-2 * math.log(1e-9) - 2 * math.log(self.delta)) + self.mu / 2) if upper else 0.0
        index = np.zeros(1, int)
        return _Atoms(index + largest, np.ones(1), 1, index, -largest, math.nextafter(1e-9 * self.delta, 1.0) * upper)


@dataclass(frozen=True)
class _Atoms:
    """A discrete privacy loss: ``mass[i]`` at ``index[i]`` * h - ``shift``, and ``infinite`` at infinity."""

    loss: np.ndarray
    mass: np.ndarray
    steps: int
    index: np.ndarray
    shift: float = 0.0
    infinite: float = 0.0


def _lattice(first: int, last: int) -> np.ndarray:
    """Whole numbers from ``first`` to ``last``: every one near 0, ever fewer far from it."""
    rounds = math.log(max(-first, last, _EVEN) / _EVEN) / math.log(_GROWTH)
    far = np.ceil(_EVEN * _GROWTH ** np.arange(rounds + 1)).astype(int)
    k = np.concatenate((-far[::-1], np.arange(1 - _EVEN, _EVEN), far))
    return np.concatenate(([first], k[(first < k) & (k < last)], [last]))


def _dominating(part: Sampled, flip: bool, h: float, k: np.ndarray) -> _Atoms:
    """Split each cell (l, l + w] onto l and l + w so that its P and Q stay: the hockey-stick curve's chords."""
    p, r = part.masses(np.concatenate(([-np.inf], part.outcome(h * k), [np.inf])))
    if flip:
        k, p, r = -k[::-1], r[::-1], p[::-1]
    width, at_left = h * np.diff(k), np.exp(h * k + np.log(r[1:]))
    left = np.append(
        np.clip((at_left[:-1] - p[1:-1] * np.exp(-width)) / -np.expm1(-width), 0, p[1:-1]), min(at_left[-1], p[-1])
    )
    mass = left + np.append(p[0], p[1:-1] - left[:-1])
    return _Atoms(h * k, mass, part.steps, k, 0.0, p[-1] - left[-1])


def _dominated(part: Sampled, flip: bool, h: float, k: np.ndarray) -> _Atoms:
    """Merge each cell around k h - shift into one outcome; move the cells until their losses are there; round down."""
    middle = h * np.concatenate(([k[0] - 0.5], (k[1:] + k[:-1]) / 2, [k[-1] + 0.5]))
    most, bend, shift = 0.45 * h * np.diff(k), np.zeros(k.size + 1), 0.0
    k = -k[::-1] if flip else k
    for _ in range(5):
        p, r = part.masses(part.outcome(middle + bend - (-shift if flip else shift)))
        if flip:
            p, r = r[::-1], p[::-1]
        used = (p > 1e-290) & (r > 1e-290)
        miss = np.where(used, np.log(p) - np.log(r) - h * k, -shift)
        off = miss - h * np.rint(miss / h)
        order = np.argsort(off)
        below = np.cumsum(p[order]) - p[order]
        shift = -off[order[np.argmin(h * below - off[order])]]
        step = (off[1:] + off[:-1]) / 2 + shift
        bend[1:-1] = np.clip(bend[1:-1] - (-step[::-1] if flip else step), -most, most)
    index = (k + np.floor((miss + shift) / h).astype(int))[used]
    return _Atoms(h * index - shift, p[used], part.steps, index, shift)


def _tilted(part: _Atoms, theta: float) -> tuple[np.ndarray, float]:
    """The distribution under the tilt exp(theta * loss), and the logarithm of what normalizes it."""
    exponent = theta * part.loss + np.log(part.mass)
    weight = np.exp(exponent - exponent.max())
    return weight / weight.sum(), float(exponent.max() + math.log(weight.sum()))


def _cumulant(atoms: Iterable[_Atoms], theta: float) -> float:
    """Sum of steps * log E_P exp(theta * loss)."""
    return float(sum(part.steps * _tilted(part, theta)[1] for part in atoms))


def refine(parts: list[Sampled | Symmetric | Slight], delta: float, flip: bool, floor: float) -> tuple[float, float]:
    """Bound epsilon in one direction from both sides on finer and finer lattices, or until it is below ``floor``.

    Args:
        parts: the mechanisms that are composed.
        delta: the delta at which epsilon is asked, above 0.
        flip: exchange P and Q.
        floor: the search stops once the upper bound is below this.

    Raises:
        OverflowError: the losses need more cells than are reasonable.
    """
    pilots, lows, highs = zip(*(part.pilot(delta, flip) for part in parts), strict=True)
    bounds = [(part.bound, part.steps) for part in parts if isinstance(part, Symmetric)]
    theta = _best_tilt(pilots, delta, min([1e7, *(2 / bound for bound, _ in bounds)]))
    theta, center, spread = _window(pilots, theta, delta)
    steps, width = sum(part.steps for part in parts), 2 * sum(bound for bound, _ in bounds)
    h = max(0.05 * spread / math.sqrt(steps), width / _MAX_CELLS, 20 * spread / _MAX_CELLS)
    reach = sum(bound * count for bound, count in bounds) / 4  # few symmetric losses: a window that holds them all
    spread = max(spread, 4 * h, reach if 20 * reach < _MAX_CELLS * h else 0)
    low, high = 0.0, math.inf
    while True:
        h = _common_step(h, bounds)
        cells, before = max(width, 5 * spread) / h, high
        if cells > 8 * _MAX_CELLS:  # a bound far below the window's own step
            raise OverflowError("the losses need more cells than are reasonable")
        for upper in (True, False)[: 1 + (cells <= _MAX_CELLS)]:
            spans = zip(parts, lows, highs, strict=True)
            atoms = [part.atoms(h, flip, first, last, upper=upper) for part, first, last in spans]
            epsilon = _compose(atoms, h, theta, center, spread, delta, upper=upper)
            low, high = (low, min(high, epsilon)) if upper else (max(low, epsilon), high)
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


def _best_tilt(atoms: Iterable[_Atoms], delta: float, most: float) -> float:
    """Return the theta that minimizes (K(theta) + log 1/delta) / theta, by golden section on its logarithm up to ``most``."""
    low, high, golden = math.log(1e-4), math.log(max(most, 2e-4)), (math.sqrt(5) - 1) / 2
    for _ in range(45):
        left, right = high - golden * (high - low), low + golden * (high - low)
        values = [(_cumulant(atoms, math.exp(t)) - math.log(delta)) / math.exp(t) for t in (left, right)]
        low, high = (low, right) if values[0] < values[1] else (left, high)
    return math.exp((low + high) / 2)


def _window(atoms: Iterable[_Atoms], theta: float, delta: float) -> tuple[float, float, float]:
    """Return the tilt, at most ``theta``, whose law needs the shortest window, its middle and a twentieth of its length.

    A smaller tilt makes rare large losses rarer. It is taken while the errors of the FFT stay below ``_SPARED`` of delta.
    """
    found: list[tuple[float, float, float]] = []
    epsilon = (_cumulant(atoms, theta) - math.log(delta)) / theta
    for tilt in theta * 0.8 ** np.arange(30):
        scale = _cumulant(atoms, tilt)
        if found and scale - tilt * epsilon > math.log(delta * _SPARED / _error(atoms)):
            break
        one = _deviation(atoms, tilt)
        ends = [
            min((_cumulant(atoms, tilt + sign * push) - scale + _OUTSIDE) / push for push in _PUSHES / 4 / one)
            for sign in (-1, 1)
        ]
        found.append((float(tilt), (ends[1] - ends[0]) / 2, (ends[0] + ends[1]) / 20))
    return min(found, key=lambda window: window[2])


def _error(atoms: Iterable[_Atoms]) -> float:
    """Return the largest error of the FFT in a tilted law."""
    return _FFT_ERROR + _STEP_ERROR * sum(part.steps for part in atoms)


def _deviation(atoms: Iterable[_Atoms], theta: float) -> float:
    """Standard deviation of the composed loss under the tilt."""
    variance = 0.0
    for part in atoms:
        weight, _ = _tilted(part, theta)
        variance += part.steps * np.average((part.loss - np.average(part.loss, weights=weight)) ** 2, weights=weight)
    return math.sqrt(variance)


def _fft_size(least: float) -> int:
    """At most an eighth more cells than wanted, in a number whose transform is fast."""
    step = 1 << max(1, math.ceil(math.log2(least)) - 4)
    return math.ceil(least / step) * step


def _compose(
    atoms: list[_Atoms], h: float, theta: float, center: float, spread: float, delta: float, *, upper: bool
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
        goal = (
            delta - sum(part.steps * part.infinite for part in atoms) - outside[1] * slack[-1] - _error(atoms) * slack
        )
    else:
        goal = delta + (sum(outside) + _error(atoms)) * slack
    excess = tail - np.exp(loss - middle) * discounted - goal
    above = np.flatnonzero(~(excess < 0))
    last = above[-1] if above.size else -1
    if last == size - 1 or not math.isfinite(excess[last + 1 :].sum()):
        return math.inf if upper else 0.0
    if last < 0:
        return max(0.0, float(loss[0])) if upper else 0.0
    if not math.isfinite(excess[last]):
        return float(max(0.0, loss[last + 1])) if upper else 0.0
    crossing = middle + math.log((tail[last + 1] - goal[last]) / discounted[last + 1])
    return float(max(0.0, min(max(crossing, loss[last]), loss[last + 1])))
