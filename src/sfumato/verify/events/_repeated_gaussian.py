"""Privacy losses of repeated Gaussians: a record reaches up to R terms, and each term is drawn by its own coin.

k ~ Bin(R, q) terms of the record are drawn. If they vanish, k
stays hidden, and the sum of noise and terms is compared with noise alone. If they are exchanged, the pair that reveals k
dominates: a Gaussian shifted by 2k against one that is not. If the record leaves, its own term vanishes and R - 1 are exchanged:
with k ~ Bin(R - 1, q) and a coin b for the own term, both seen, the shift is 2k + b, and k stands for k + b / 2 below.

More terms cost more, in both directions. If k stays hidden, the loss increases with the outcome, so the best test is whether it
is above a point: the more terms, the more often it is, but not with noise alone. If k is seen, each k costs by itself, the
more the larger. So a rare large k may count as R for an upper bound, and as the largest frequent one for a lower bound.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from .._losses import Atoms, dominated, dominating, lattice, normal_masses, sketch
from ._kind import Event, Kind
from ._poisson_gaussian import sampled

_CUT = 1e-24  # of the law of k, on each side
_MOST_COUNTS = 2000
_CHUNK = 1 << 13


@dataclass(frozen=True)
class Repeated:
    """``steps`` sums of noise of deviation s and k terms of norm 1, k ~ Bin(terms, q), against the sum without them.

    With ``leaves``, one term vanishes, and the ``terms`` beside it are exchanged.
    """

    q: float
    terms: int
    s: float
    replace: bool
    leaves: bool
    steps: int

    @property
    def most(self) -> float:
        """The largest shift, in norms of a term."""
        return self.terms * (1 + self.replace) + self.leaves

    def law(self, *, upper: bool) -> Hidden | Revealed:
        """Return the pair of one step, for a mechanism that dominates or is dominated."""
        k, weight = self.counts(upper=upper)
        if self.leaves:
            coin = [1 - self.q, self.q]
            k, weight = np.add.outer(k, [0, 0.5]).ravel(), np.multiply.outer(weight, coin).ravel()
        return (Revealed if self.replace else Hidden)(k, weight, self.s, self.steps)

    def counts(self, *, upper: bool) -> tuple[np.ndarray, np.ndarray]:
        """Return values of k, ascending, and their probabilities, rounded up or down where they are rare."""
        mean = self.terms * self.q
        reach = 40 * math.sqrt(mean * (1 - self.q)) + 60
        if reach > 5 * _MOST_COUNTS:
            raise ValueError("more values than are reasonable")
        k = np.arange(max(0, int(mean - reach)), min(self.terms, int(mean + reach)) + 1)
        ratios = np.log((self.terms - k[:-1]) / k[1:]) + math.log(self.q) - math.log1p(-self.q)
        logs = np.concatenate(([0.0], np.cumsum(ratios)))
        weight = np.exp(logs - logs.max())
        weight /= weight.sum()
        kept = (np.cumsum(weight) > _CUT) & (np.cumsum(weight[::-1])[::-1] > _CUT)
        first, last = np.flatnonzero(kept)[[0, -1]]
        if last - first > _MOST_COUNTS:
            raise ValueError("more values than are reasonable")
        below, above = weight[:first].sum(), weight[last + 1 :].sum()
        k, weight = k[first : last + 1].astype(float), weight[first : last + 1].copy()
        if upper:
            weight[0] += below
            return (
                (k, weight) if k[-1] == self.terms else (np.append(k, self.terms), np.append(weight, max(above, 1e-30)))
            )
        weight[-1] += above
        return (k, weight) if first == 0 else (np.insert(k, 0, 0.0), np.insert(weight, 0, below))

    def pilot(self, delta: float, flip: bool) -> tuple[Atoms, float, float]:
        law = self.law(upper=False)
        rare = 1e-6 * delta / self.steps
        most = law.k[np.cumsum(law.weight[::-1])[::-1] > rare].max()
        x = law.range(most, math.sqrt(-2 * math.log(rare)))
        return sketch(law, flip, x, rare)

    def atoms(self, h: float, flip: bool, low: float, high: float, *, upper: bool) -> Atoms:
        bound = dominating if upper else dominated
        return bound(self.law(upper=upper), flip, h, lattice(math.floor(low / h), math.ceil(high / h)))


@dataclass(frozen=True)
class Hidden:
    """sum_k weight_k N(k, s^2) against N(0, s^2), for each of ``steps``; outcomes are the points x of the line."""

    k: np.ndarray
    weight: np.ndarray
    s: float
    steps: int

    def range(self, most: float, reach: float) -> np.ndarray:
        """Return outcomes up to a ``reach`` of deviations around the means from 0 to ``most``."""
        return np.linspace(-self.s * reach, most + self.s * reach, 4001)

    def loss(self, x: np.ndarray) -> np.ndarray:
        return self._sum(x / self.s**2, self.k, np.log(self.weight) - (self.k / self.s) ** 2 / 2)[0]

    def outcome(self, loss: np.ndarray) -> np.ndarray:
        """Return the inverse of :meth:`loss`; -inf below its range.

        Newton's method on the logarithm of the terms with k > 0, which is convex in x and increases by at least x / s^2.
        """
        some = self.k > 0
        k, logs = self.k[some], np.log(self.weight[some]) - (self.k[some] / self.s) ** 2 / 2
        none = float(self.weight[~some].sum())
        goal = loss + np.log(np.maximum(-np.expm1(math.log(none) - loss), 0)) if none else loss
        v = np.full(loss.shape, -np.inf)
        finite = goal > -np.inf
        goal = goal[finite]
        if goal.size:
            least, most = (float(((one - logs) / k).min()) for one in (goal.min() - math.log(k.size), goal.max()))
            table = np.linspace(least, most, 4001)
            near = np.interp(goal, self._sum(table, k, logs)[0], table)
            for _ in range(30):
                height, slope = self._sum(near, k, logs)
                step = (height - goal) / slope
                near = near - step
                if np.abs(step).max() <= 1e-13 * (1 + np.abs(near).max()):
                    break
            v[finite] = near
        return v * self.s**2

    def masses(self, x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        parts = (w * normal_masses((x - k) / self.s) for k, w in zip(self.k, self.weight, strict=True))
        return np.sum(list(parts), axis=0), normal_masses(x / self.s)

    @staticmethod
    def _sum(v: np.ndarray, k: np.ndarray, logs: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return log sum_k exp(logs_k + k v), and its derivative."""
        height, slope = np.empty(v.shape), np.empty(v.shape)
        for start in range(0, v.size, _CHUNK):
            some = slice(start, start + _CHUNK)
            terms = logs[:, None] + np.multiply.outer(k, v[some])
            top = terms.max(axis=0)
            terms = np.exp(terms - top)
            total = terms.sum(axis=0)
            height[some], slope[some] = top + np.log(total), k @ terms / total
        return height, slope


@dataclass(frozen=True)
class Revealed:
    """(k, N(2k, s^2)) against (k, N(0, s^2)), for each of ``steps``; an outcome is its loss."""

    k: np.ndarray
    weight: np.ndarray
    s: float
    steps: int

    def range(self, most: float, reach: float) -> np.ndarray:
        """Return losses up to a ``reach`` of deviations around those of all k up to ``most``."""
        shift = 2 * most / self.s
        return np.linspace(-shift * reach, shift * (shift / 2 + reach), 4001)

    def loss(self, x: np.ndarray) -> np.ndarray:
        return x

    outcome = loss

    def masses(self, x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        masses = np.zeros((2, x.size - 1))
        for k, weight in zip(self.k, self.weight, strict=True):
            shift = 2 * k / self.s
            if shift == 0:
                masses[:, max(0, int(np.searchsorted(x, 0.0)) - 1)] += weight
            else:
                masses += weight * np.stack([normal_masses(x / shift + sign * shift / 2) for sign in (-1, 1)])
        return masses[0], masses[1]


def _repeated(event: Event) -> tuple[Any, ...]:
    """Return a simpler event if all terms are drawn, or if there is one."""
    terms, leaves = event["occurrences"], event["relation"] == "leave"
    if terms == 1 or event["sampling_prob"] == 1:
        return sampled(event)
    exchanged = event["relation"] != "add-remove"
    return Repeated, event["sampling_prob"], terms - leaves, event["noise_multiplier"], exchanged, leaves


KIND = Kind(
    {
        "sampling_prob": "rate",
        "occurrences": "count",
        "noise_multiplier": "positive",
        "steps": "count",
        "relation": {"enum": ["add-remove", "replace", "leave"]},
    },
    _repeated,
)
