"""The verifier's own accountant: bounds on epsilon on both sides, from NumPy alone; uses nothing else of Sfumato.

Gaussian releases use the closed form of Balle and Wang (2018). Mixtures with Poisson-subsampled Gaussians are bracketed
by two privacy loss distributions on a lattice: one that dominates the mechanism (each cell is split onto its ends,
keeping both probabilities; Doroshenko et al. 2022) and one that the mechanism dominates (each cell becomes one outcome,
which is post-processing, and its loss is rounded down). Both are composed by FFT under an exponential tilt; truncated
and wrapped mass counts against the bound.
"""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass
from typing import Any

import numpy as np

_MAX_CELLS, _MAX_PARTS = 1 << 19, 32
_FFT_ERROR, _ROUNDING = 1e-13, 1e-6


@np.errstate(all="ignore")
def epsilon_bracket(events: list[dict[str, Any]], delta: float) -> tuple[float, float]:
    """Return a lower and an upper bound on the epsilon of all events together at ``delta``, each relation as stated.

    Realistic plans are bracketed within 0.03 %; with very rare sampling (1e-5) the lower one stays loose, and what is
    beyond floating-point reach gives (0, inf).

    >>> low, high = epsilon_bracket([{"type": "gaussian", "noise_multiplier": 5.0, "count": 2}], 1e-6)
    >>> round(low, 6), round(high, 6)
    (1.211967, 1.211967)
    """
    mu_squared, steps = 0.0, Counter[tuple[float, float, bool]]()
    for event in events:
        replace, q, noise = event.get("relation") == "replace", event.get("sampling_prob", 1), event["noise_multiplier"]
        if q == 1:
            ratio = (1 + replace) / noise
            mu_squared += draws(event) * ratio * ratio
        else:
            steps[q, noise, replace] += event["steps"]
    if not events:
        return 0.0, 0.0
    if delta <= 0 or mu_squared > 1e100 or len(steps) > _MAX_PARTS:
        return 0.0, math.inf
    if not steps:
        return _gaussian_epsilon(math.sqrt(mu_squared), delta)
    parts = [_Part(*key, count) for key, count in steps.items()]
    parts += [_Part(1.0, 1 / math.sqrt(mu_squared), False, 1)] if mu_squared > 1e-20 else []
    try:
        low, high = _refine(parts, delta, False, 0.0)
        if any(not part.replace for part in parts):
            low, high = map(max, (low, high), _refine(parts, delta, True, low))
    except (ValueError, OverflowError, ZeroDivisionError):
        return 0.0, math.inf
    return (low, high) if low <= high else (0.0, math.inf)


def draws(event: dict[str, Any]) -> int:
    """How many draws a release makes."""
    return int(event["count"] if event["type"] == "gaussian" else event["steps"])


def _gaussian_epsilon(mu: float, delta: float) -> tuple[float, float]:
    low, high = 0.0, 1.0
    while _gaussian_delta(mu, high) > delta:
        low, high = high, 2 * high
    if _gaussian_delta(mu, 0.0) <= delta:
        return 0.0, 0.0
    for _ in range(100):
        middle = (low + high) / 2
        low, high = (middle, high) if _gaussian_delta(mu, middle) > delta else (low, middle)
    return low * (1 - 1e-9), high * (1 + 1e-9)


def _gaussian_delta(mu: float, epsilon: float) -> float:
    """Balle and Wang's formula as phi(a) (R(a) - R(b)), with R the Mills ratio: no overflow, no lost digits."""
    if mu == 0:
        return 0.0
    a, b = epsilon / mu - mu / 2, epsilon / mu + mu / 2
    density = math.exp(-a * a / 2) / math.sqrt(2 * math.pi)
    upper = math.erfc(a / math.sqrt(2)) / 2 if a < 6 else density * _mills(a)
    return upper - density * _mills(b)


def _mills(x: float) -> float:
    """(1 - Phi(x)) / phi(x) for x > 0; a continued fraction where erfc loses digits."""
    if x < 6:
        return math.erfc(x / math.sqrt(2)) / 2 * math.exp(x * x / 2) * math.sqrt(2 * math.pi)
    value = x
    for k in range(60, 0, -1):
        value = x + k / value
    return 1 / value


@dataclass(frozen=True)
class _Part:
    """``steps`` draws of P = (1-q) N(0, s^2) + q N(1, s^2) against Q = N(0, s^2), or (1-q) N(0, s^2) + q N(-1, s^2)."""

    q: float
    s: float
    replace: bool
    steps: int

    def loss(self, x: np.ndarray) -> np.ndarray:
        """log P(x) / Q(x); increases with x."""
        stay, move = np.log1p(-self.q), math.log(self.q)
        log_p = np.logaddexp(stay, move + (2 * x - 1) / (2 * self.s**2))
        return log_p - np.logaddexp(stay, move - (2 * x + 1) / (2 * self.s**2)) if self.replace else log_p

    def outcome(self, loss: np.ndarray) -> np.ndarray:
        """The inverse of :meth:`loss`; -inf below its range."""
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
        """P and Q of each cell between neighbouring points of ``x``."""
        center, moved = _normal_masses(x / self.s), _normal_masses((x - 1) / self.s)
        other = _normal_masses((x + 1) / self.s) if self.replace else center
        return (1 - self.q) * center + self.q * moved, (1 - self.q) * center + self.q * other


def _normal_masses(z: np.ndarray) -> np.ndarray:
    """Phi(z[i+1]) - Phi(z[i]), from whichever tail is small."""
    tail = np.fromiter(map(math.erfc, (np.abs(z) * math.sqrt(0.5)).tolist()), float, z.size) / 2
    return np.diff(np.where(z < 0, tail, -tail)) + np.diff((z >= 0).astype(float))


@dataclass(frozen=True)
class _Atoms:
    """A discrete privacy loss: ``mass[i]`` at (``first`` + i) * h - ``shift``, and ``infinite`` at infinity."""

    loss: np.ndarray
    mass: np.ndarray
    steps: int
    first: int = 0
    shift: float = 0.0
    infinite: float = 0.0


def _dominating(part: _Part, flip: bool, h: float, first: int, last: int) -> _Atoms:
    """Split each cell (l, l + h] onto l and l + h so that its P and Q stay: the hockey-stick curve's chords."""
    loss = h * np.arange(first, last + 1)
    p, r = part.masses(np.concatenate(([-np.inf], part.outcome(loss), [np.inf])))
    if flip:
        loss, p, r = -loss[::-1], r[::-1], p[::-1]
    at_left = np.exp(loss + np.log(r[1:]))
    left = np.append(
        np.clip((at_left[:-1] - p[1:-1] * math.exp(-h)) / -math.expm1(-h), 0, p[1:-1]), min(at_left[-1], p[-1])
    )
    mass = left + np.append(p[0], p[1:-1] - left[:-1])
    return _Atoms(loss, mass, part.steps, round(loss[0] / h), 0.0, p[-1] - left[-1])


def _dominated(part: _Part, flip: bool, h: float, first: int, last: int) -> _Atoms:
    """Merge each cell around k h - shift into one outcome; move the cells until their losses are there; round down."""
    k = np.arange(first, last + 1)[:: -1 if flip else 1] * (-1 if flip else 1)
    middle, bend, shift = h * np.arange(first, last + 2) - h / 2, np.zeros(last - first + 2), 0.0
    for _ in range(5):
        p, r = part.masses(part.outcome(middle + bend - (-shift if flip else shift)))
        if flip:
            p, r = r[::-1], p[::-1]
        used = (p > 1e-290) & (r > 1e-290)
        miss = np.where(used, np.log(p) - np.log(r) - h * k, -shift)
        order = np.argsort(miss)
        below = np.cumsum(p[order]) - p[order]
        shift = -miss[order[np.argmin(h * below - miss[order])]]
        step = (miss[1:] + miss[:-1]) / 2 + shift
        bend[1:-1] = np.clip(bend[1:-1] - (-step[::-1] if flip else step), -0.45 * h, 0.45 * h)
    index = (k + np.floor((miss + shift) / h).astype(int))[used]
    mass, first = np.bincount(index - index.min(), p[used]), int(index.min())
    return _Atoms(h * np.arange(first, first + mass.size) - shift, mass, part.steps, first, shift)


def _cumulant(atoms: list[_Atoms], theta: float) -> float:
    """Sum of steps * log E_P exp(theta * loss)."""
    total = 0.0
    for part in atoms:
        exponent = theta * part.loss + np.log(part.mass)
        top = exponent.max()
        total += part.steps * (top + math.log(np.exp(exponent - top).sum()))
    return total


def _refine(parts: list[_Part], delta: float, flip: bool, floor: float) -> tuple[float, float]:
    """Bound epsilon in one direction on finer and finer lattices."""
    pilot, ranges = [], []
    for part in parts:
        reach = part.s * math.sqrt(2 * math.log(1e6 * part.steps / delta))
        x = np.linspace(-reach - part.replace, 1 + reach, 4001)
        p, r = part.masses(x)
        loss = part.loss((x[1:] + x[:-1]) / 2)
        pilot.append(_Atoms(-loss if flip else loss, r if flip else p, part.steps))
        ranges.append(part.loss(x[[0, -1]]))
    theta = _best_tilt(pilot, delta)
    center, spread = _moments(pilot, theta)
    h = 0.05 * spread / math.sqrt(sum(part.steps for part in parts))
    h = max(h, sum(b - a for a, b in ranges) / _MAX_CELLS, 20 * spread / _MAX_CELLS)
    low, high = 0.0, math.inf
    while True:
        cells, before = max(sum(b - a for a, b in ranges), 5 * spread) / h, high
        spans = [
            (part, flip, h, math.floor(a / h), math.ceil(b / h)) for part, (a, b) in zip(parts, ranges, strict=True)
        ]
        lattice = (h, theta, center, spread, delta)
        high = min(high, _compose([_dominating(*span) for span in spans], *lattice, upper=True))
        if cells <= _MAX_CELLS:
            low = max(low, _compose([_dominated(*span) for span in spans], *lattice, upper=False))
        close = high - low <= 3e-4 * min(high, 1e9)
        settled = cells > _MAX_CELLS / 2.5 and before - high <= 1e-4 * min(high, 1e9)
        if close or settled or high < floor or cells > 2 * _MAX_CELLS:
            slack = 1e-12 * sum(part.steps for part in parts)
            return max(0.0, low * (1 - _ROUNDING) - slack), high * (1 + _ROUNDING) + slack
        h /= 2.5


def _best_tilt(atoms: list[_Atoms], delta: float) -> float:
    """The theta that minimizes (K(theta) + log 1/delta) / theta, by golden section on its logarithm."""
    low, high, golden = math.log(1e-4), math.log(1e7), (math.sqrt(5) - 1) / 2
    for _ in range(45):
        left, right = high - golden * (high - low), low + golden * (high - low)
        values = [(_cumulant(atoms, math.exp(t)) - math.log(delta)) / math.exp(t) for t in (left, right)]
        low, high = (low, right) if values[0] < values[1] else (left, high)
    return math.exp((low + high) / 2)


def _moments(atoms: list[_Atoms], theta: float) -> tuple[float, float]:
    """Mean and standard deviation of the composed loss under the tilt."""
    mean = variance = 0.0
    for part in atoms:
        exponent = theta * part.loss + np.log(part.mass)
        weight = np.exp(exponent - exponent.max())
        one = np.average(part.loss, weights=weight)
        mean += part.steps * one
        variance += part.steps * np.average((part.loss - one) ** 2, weights=weight)
    return mean, math.sqrt(variance)


def _compose(
    atoms: list[_Atoms], h: float, theta: float, center: float, spread: float, delta: float, *, upper: bool
) -> float:
    """Compose by FFT under the tilt exp(theta * loss); return where delta(epsilon) crosses ``delta``.

    The tilted sum is kept on a window around ``center``; Chernoff bounds what the FFT wraps into it from outside.
    """
    size = 1 << math.ceil(math.log2(20 * spread / h))
    spectrum = np.ones(size // 2 + 1, complex)
    for part in atoms:
        exponent = theta * part.loss + np.log(part.mass)
        weight = np.exp(exponent - exponent.max())
        folded = np.bincount((part.first + np.arange(weight.size)) % size, weight / weight.sum(), size)
        spectrum *= np.fft.rfft(folded) ** part.steps
    shift = sum(part.steps * part.shift for part in atoms)
    start = round((center + shift) / h) - size // 2
    loss = h * np.arange(start, start + size) - shift
    tilted = np.maximum(np.roll(np.fft.irfft(spectrum, size), -(start % size)), 0)
    scale = _cumulant(atoms, theta)
    log_weight = scale - theta * loss
    outside = [
        min(math.exp(min(0.0, _cumulant(atoms, theta + push) - scale - push * end)) for push in pushes)
        for end, pushes in ((loss[0], (-2 / spread, -8 / spread)), (loss[-1], (2 / spread, 8 / spread)))
    ]
    mass = np.exp(np.minimum(log_weight + np.log(tilted), 0))
    middle = loss[size // 2]
    tail, discounted = (np.cumsum(m[::-1])[::-1] for m in (mass, mass * np.exp(middle - loss)))
    slack = np.exp(np.minimum(log_weight, 700))
    if upper:
        goal = delta - sum(part.steps * part.infinite for part in atoms) - outside[1] * slack[-1] - _FFT_ERROR * slack
    else:
        goal = delta + (sum(outside) + _FFT_ERROR) * slack
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
