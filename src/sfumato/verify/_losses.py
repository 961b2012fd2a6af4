"""Privacy losses of single mechanisms, from both sides, for the verifier.

Part of the verifier: it needs NumPy and nothing else of Sfumato. A mechanism is bracketed by two distributions on a lattice:
one that dominates it (each cell is split onto its ends, keeping both probabilities; Doroshenko et al. 2022) and one that it
dominates (each cell becomes one outcome, which is post-processing, and its loss is rounded down). ``compose.py`` composes them.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Protocol

import numpy as np

_SLACK = 1e-15  # of a log moment: rounding of the sum that gives it
SKETCH, _SEEN = 4001, 1e-290  # outcomes of a sketch; masses whose ratio is a loss
_MOST_CELLS, _CAP = 1 << 52, 160.0  # of a lattice; a loss that counts as infinite
_EVEN, _GROWTH = 10_000, 1.002  # far losses of a sampled step: beyond so many cells their widths grow


class Part(Protocol):
    """Equal mechanisms, ``steps`` of them."""

    @property
    def steps(self) -> int: ...

    def pilot(self, delta: float, flip: bool) -> tuple[Atoms, float, float]:
        """Return a coarse sketch of the loss, without guarantee, and the range of losses that matters."""

    def atoms(self, h: float, flip: bool, low: float, high: float, *, upper: bool) -> Atoms:
        """Return the loss on a lattice of step ``h``, over the losses from ``low`` to ``high`` that matter.

        It is that of a mechanism that dominates (``upper``) or is dominated; ``flip`` exchanges both laws.
        """


class _Cells(Protocol):
    """A pair whose loss increases with the outcome."""

    @property
    def steps(self) -> int: ...

    def loss(self, x: np.ndarray) -> np.ndarray: ...

    def outcome(self, loss: np.ndarray) -> np.ndarray: ...

    def masses(self, x: np.ndarray) -> tuple[np.ndarray, np.ndarray]: ...


def normal_masses(z: np.ndarray) -> np.ndarray:
    """Return Phi(z[i+1]) - Phi(z[i]), from the tail that is small."""
    tail = np.fromiter(map(math.erfc, (np.abs(z) * math.sqrt(0.5)).tolist()), float, z.size) / 2
    return np.diff(np.where(z < 0, tail, -tail)) + np.diff((z >= 0).astype(float))


@dataclass(frozen=True)
class Symmetric:
    """``steps`` mechanisms with loss ``bound`` at one end and -``bound`` at the other, alike in both directions.

    Randomized response over ``outcomes`` values has all other mass at 0; Laplace (``outcomes`` 0) has density
    exp((loss - bound) / 2) / 4 between the ends, and 1/2 at the upper one.

    ``outcomes`` 1 stands for the exponential mechanism, whose losses lie in some [t - bound, t] with 0 <= t <= bound. Among
    laws with losses in that interval, two values at its ends have the largest hockey-stick divergence (it is convex in the
    loss, and E_P exp(-loss) = 1): at order exp(a) it is (1 - exp(t - bound)) (1 - exp(a - t)) / (1 - exp(-bound)). The
    largest over t is at t = (a + bound) / 2, (1 - exp((a - bound) / 2))^2 / (1 - exp(-bound)). That is the divergence of the
    law with density exp((loss - bound) / 2) / (2 (1 - exp(-bound))) between the ends, and none at them.
    """

    bound: float
    outcomes: float
    steps: int

    def pilot(self, delta: float, flip: bool) -> tuple[Atoms, float, float]:
        return self.atoms(self.bound / 8, flip, 0.0, 0.0, upper=True), -self.bound, self.bound

    def atoms(self, h: float, flip: bool, low: float, high: float, *, upper: bool) -> Atoms:
        """Return the loss on a lattice of step bound / k, moved to multiples of h less a shift that covers it."""
        k = round(self.bound / h)
        off = abs(self.bound - k * h)
        mass, least = np.zeros(2 * k + 1), math.exp(-self.bound)
        inner, top = self._ends()
        if self.outcomes > 1:
            mass[k] = (self.outcomes - 2) * top * least
        elif k == 0:
            mass[k] = inner * (1 - least)
        else:
            step = self.bound / k
            start = np.exp((step * np.arange(-k, k + 1) - self.bound) / 2) * inner
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
        return Atoms(h * index - shift, mass, self.steps, index, shift)

    def renyi(self, orders: np.ndarray) -> np.ndarray:
        """Return Renyi divergences: of the same law, or an upper bound where they are tiny.

        A law with losses in an interval of length r has rho = r^2 / 8 (its variance is at most r^2 / 4), whatever it is.
        """
        inner, top = self._ends()
        up = (orders - 1) * self.bound
        logs = [np.full(orders.shape, -math.inf)]
        if top:
            logs += [math.log(top) + up, math.log(top) - self.bound - up]
        if self.outcomes > 2:
            logs.append(np.full(orders.shape, math.log((self.outcomes - 2) * top) - self.bound))
        if inner:
            shares = inner / (2 * orders - 1) * -np.expm1(-(2 * orders - 1) * self.bound)
            logs.append(np.log(shares) + up)
        exact = (np.maximum(np.logaddexp.reduce(logs), 0) + _SLACK) / (orders - 1)
        reach = self.bound if self.outcomes == 1 else 2 * self.bound
        return np.asarray(np.minimum(np.minimum(exact, orders * reach**2 / 8), self.bound))

    def _ends(self) -> tuple[float, float]:
        """Return the factor of the density between both ends, and the mass at the upper one."""
        if self.outcomes > 1:
            return 0.0, 1 / (1 + (self.outcomes - 1) * math.exp(-self.bound))
        return (0.5, 0.5) if not self.outcomes else (1 / -math.expm1(-self.bound), 0.0)


@dataclass(frozen=True)
class Slight:
    """A single Gaussian of a mu so small that no lattice shows it: a loss of at most mu x + mu^2 / 2, except for exp(-x^2 / 2).

    So it is for n pure mechanisms of epsilon b each, mu = b sqrt(n): randomized response dominates each, with losses of -b and b,
    whose mean b tanh(b / 2) is below b^2 / 2, and by Hoeffding's inequality their sum exceeds its mean by b sqrt(n) x with a
    chance of at most exp(-x^2 / 2). For several b, mu^2 is the sum over them.
    """

    mu: float
    delta: float
    steps: int = 1

    def pilot(self, delta: float, flip: bool) -> tuple[Atoms, float, float]:
        return self.atoms(1.0, flip, 0.0, 0.0, upper=True), 0.0, 0.0

    def atoms(self, h: float, flip: bool, low: float, high: float, *, upper: bool) -> Atoms:
        """Return one loss: from above the largest, and an infinite one of mass 1e-9 delta >= exp(-x^2 / 2); from below none."""
        largest = self.mu * (math.sqrt(-2 * math.log(1e-9) - 2 * math.log(self.delta)) + self.mu / 2) if upper else 0.0
        index = np.zeros(1, int)
        return Atoms(index + largest, np.ones(1), 1, index, -largest, math.nextafter(1e-9 * self.delta, 1.0) * upper)


@dataclass(frozen=True)
class Atoms:
    """A discrete privacy loss of each of ``steps`` mechanisms.

    ``mass[i]`` is at ``loss[i]``, which is ``index[i]`` * h - ``shift``, and ``infinite`` at infinity.
    """

    loss: np.ndarray
    mass: np.ndarray
    steps: int
    index: np.ndarray
    shift: float = 0.0
    infinite: float = 0.0


def sketch(part: _Cells, flip: bool, x: np.ndarray, rare: float) -> tuple[Atoms, float, float]:
    """Return a coarse sketch of the loss, without guarantee, and the range of losses that matters.

    ``part`` and ``flip`` are those of :func:`dominating`. Each cell between neighboring outcomes ``x`` is one outcome, where its
    masses can be told from 0: so both laws keep their mass, and a loss that is mostly 0 stays so in many steps.

    Bounds from above count what lies above the range as infinite and what lies below it as its end: they hold wherever it ends.
    Nor does it cost much. Outcomes beyond an end have a mass of ``rare`` at most, or a loss beyond 160. Such a loss exceeds
    every epsilon below 80 by 40 whatever the other steps lose: their sum is below -40 with a chance of exp(-40) at most, since
    E_P exp(-loss) <= 1. And it counts nearly as an infinite one: 1 - exp(epsilon - loss) is above 1 - exp(-40).
    """
    ends = part.outcome(np.array([-_CAP, _CAP]))
    for _ in range(2):
        p, r = part.masses(x)
        above, below = np.cumsum(p[::-1])[::-1] > rare, np.cumsum(r) > rare
        first, last = np.argmax(below), SKETCH - 2 - np.argmax(above[::-1])
        low, high = max(x[min(first, last)], ends[0]), min(x[max(first, last) + 1], ends[1])
        x = np.linspace(low, high, SKETCH)
    p, r = part.masses(np.concatenate(([-np.inf], x, [np.inf])))
    infinite = float(r[0] if flip else p[-1])
    p, r = p[1:-1], r[1:-1]
    loss = np.where((p > _SEEN) & (r > _SEEN), np.log(p) - np.log(r), part.loss((x[1:] + x[:-1]) / 2))
    low, high = part.loss(x[[0, -1]])
    return Atoms(-loss if flip else loss, r if flip else p, part.steps, np.zeros(0, int), 0.0, infinite), low, high


def lattice(first: int, last: int) -> np.ndarray:
    """Return integers from ``first`` to ``last``, two at least: every one near 0, ever fewer far from it."""
    if max(-first, last) > _MOST_CELLS:
        raise OverflowError("the numbers are too large for exact arithmetic")
    last = max(last, first + 1)
    rounds = math.log(max(-first, last, _EVEN) / _EVEN) / math.log(_GROWTH)
    far = np.ceil(_EVEN * _GROWTH ** np.arange(rounds + 1)).astype(int)
    k = np.concatenate((-far[::-1], np.arange(1 - _EVEN, _EVEN), far))
    return np.concatenate(([first], k[(first < k) & (k < last)], [last]))


def dominating(part: _Cells, flip: bool, h: float, k: np.ndarray) -> Atoms:
    """Split each cell (l, l + w] onto l and l + w so that its P and Q stay: the hockey-stick curve's chords.

    Cells of the pair ``part`` lie between losses ``h`` times ``k``; ``flip`` exchanges both laws.
    """
    p, r = part.masses(np.concatenate(([-np.inf], part.outcome(h * k), [np.inf])))
    if flip:
        k, p, r = -k[::-1], r[::-1], p[::-1]
    width, at_left = h * np.diff(k), np.exp(h * k + np.log(r[1:]))
    left = np.append(
        np.clip((at_left[:-1] - p[1:-1] * np.exp(-width)) / -np.expm1(-width), 0, p[1:-1]), min(at_left[-1], p[-1])
    )
    mass = left + np.append(p[0], p[1:-1] - left[:-1])
    return Atoms(h * k, mass, part.steps, k, 0.0, p[-1] - left[-1])


def dominated(part: _Cells, flip: bool, h: float, k: np.ndarray) -> Atoms:
    """Merge each cell around k h - shift into one outcome; move the cells until their losses are there; round down."""
    middle = h * np.concatenate(([k[0] - 0.5], (k[1:] + k[:-1]) / 2, [k[-1] + 0.5]))
    most, bend, shift = 0.45 * h * np.diff(k), np.zeros(k.size + 1), 0.0
    k = -k[::-1] if flip else k
    for _ in range(5):
        p, r = part.masses(part.outcome(middle + bend - (-shift if flip else shift)))
        if flip:
            p, r = r[::-1], p[::-1]
        used = (p > _SEEN) & (r > _SEEN)
        miss = np.where(used, np.log(p) - np.log(r) - h * k, -shift)
        off = miss - h * np.rint(miss / h)
        order = np.argsort(off)
        below = np.cumsum(p[order]) - p[order]
        shift = -off[order[np.argmin(h * below - off[order])]]
        step = (off[1:] + off[:-1]) / 2 + shift
        bend[1:-1] = np.clip(bend[1:-1] - (-step[::-1] if flip else step), -most, most)
    index = (k + np.floor((miss + shift) / h).astype(int))[used]
    return Atoms(h * index - shift, p[used], part.steps, index, shift)
