"""Dominating pairs: the two worst output laws of a release, described by the law of their privacy loss.

A pair (P, Q) has the loss L = log dP/dQ. Each class knows how much mass P and Q put on intervals of losses
(:mod:`sfumato.privacy._pld` turns these into grids) and the Renyi divergences (:mod:`sfumato.privacy._renyi`).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import ClassVar, NamedTuple, Protocol

import numpy as np
from scipy.special import logsumexp, ndtr

from sfumato.privacy import _renyi

Array = np.ndarray
MAX_COMPONENTS = 400  # a binomial law with more values is rounded up to a coarser lattice
_NO_MASS = 750.0  # exp(-750) is 0
_REACHED = _renyi.REST - 10  # log mass still told from 0
_TABLE = 4096  # starting points of the inversion of a mixture's loss
_CHUNK = 1 << 14


class Pair(Protocol):
    """Two laws. ``symmetric``: (Q, P) has the same loss as (P, Q)."""

    @property
    def symmetric(self) -> bool:
        """Say whether both directions have the same loss."""

    def span(self, log_tail: float) -> tuple[float, float]:
        """Return losses outside of which P, and Q for the reverse pair, have at most ``exp(log_tail)`` on each side."""

    def masses(self, edges: Array, log_tail: float) -> tuple[Array, Array]:
        """Return the masses of P and Q on (-inf, edges[0]], (edges[0], edges[1]], ..., (edges[-1], inf)."""

    def renyi(self, orders: Array) -> Array:
        """Return Renyi divergences, the larger of both directions."""

    def spread(self) -> float:
        """Return about the standard deviation of the loss."""

    def all_drawn(self) -> tuple[float, float]:
        """Return (mu, epsilon): the pair is dominated by that of N(mu, 1) and N(0, 1) joined with an epsilon-DP one."""


class Weights(NamedTuple):
    """A law on ``values`` (k >= 0) and the mass left out."""

    values: Array
    probs: Array
    dropped: float


@lru_cache(maxsize=64)
def binomial(count: int, prob: float, log_tail: float) -> Weights:
    """Return Binomial(count, prob) up to ``exp(log_tail)`` of mass on each side; values only ever rounded up."""
    mode, reach = int((count + 1) * prob), math.sqrt(2 * _NO_MASS * count * prob) + _NO_MASS
    k = np.arange(max(0, int(mode - reach)), min(count, int(mode + reach)) + 1, dtype=float)
    steps = np.log((count - k[:-1]) / (k[:-1] + 1)) + (math.log(prob) - math.log1p(-prob))
    logs = np.concatenate([[0.0], np.cumsum(steps)])
    logs = logs - logs.max()
    probs = np.exp(logs)
    probs /= probs.sum()
    keep = slice(
        int(np.searchsorted(np.cumsum(probs), math.exp(log_tail))),
        len(k) - int(np.searchsorted(np.cumsum(probs[::-1]), math.exp(log_tail))),
    )
    dropped = float(probs[: keep.start].sum() + probs[keep.stop :].sum())
    k, probs = k[keep], probs[keep]
    if len(k) > MAX_COMPONENTS:
        coarse = -(-len(k) // MAX_COMPONENTS)
        probs = np.add.reduceat(probs, np.arange(0, len(k), coarse))
        k = np.append(k[coarse - 1 :: coarse], k[-1])[: len(probs)]
    return Weights(k, probs, dropped)


def _normal_cells(points: Array) -> Array:
    """Masses of N(0, 1) between increasing points (last axis), from the nearer tail; the outer cells included."""
    tail = ndtr(-np.abs(points))
    below, above = np.where(points < 0, tail, 1 - tail), np.where(points < 0, 1 - tail, tail)
    inner = np.where(points[..., 1:] < 0, np.diff(below), -np.diff(above))
    return np.concatenate([below[..., :1], np.maximum(inner, 0), above[..., -1:]], axis=-1)


def _reach(log_tail: float) -> float:
    return math.sqrt(-2 * log_tail)


def _quantile(shifts: Array, probs: Array, log_tail: float) -> float:
    """Return a point beyond which a mixture of N(shift, 1) has at most ``exp(log_tail)``."""
    low, high = -_reach(log_tail), float(shifts[-1]) + _reach(log_tail)
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (low, middle) if float(probs @ ndtr(shifts - middle)) <= math.exp(log_tail) else (middle, high)
    return high


@dataclass(frozen=True)
class Mixture:
    """sum_k P(k) N(k, z^2) against N(0, z^2), k ~ Binomial(occurrences, q): terms that vanish (P is "remove")."""

    sampling_prob: float
    occurrences: int
    noise_multiplier: float
    symmetric: ClassVar[bool] = False

    def _log_terms(self, weights: Weights) -> tuple[Array, Array]:
        """Return k and log(P(k) exp(-k^2 / (2 z^2))) for k > 0."""
        positive = weights.values > 0
        k = weights.values[positive]
        with np.errstate(divide="ignore"):
            return k, np.log(weights.probs[positive]) - (k / self.noise_multiplier) ** 2 / 2

    def _some(self) -> float:
        return -math.expm1(self.occurrences * math.log1p(-self.sampling_prob))

    def span(self, log_tail: float) -> tuple[float, float]:
        weights = binomial(self.occurrences, self.sampling_prob, log_tail)
        z, reach = self.noise_multiplier, _reach(log_tail)
        high = max(reach, _quantile(weights.values / z, weights.probs, log_tail))
        with np.errstate(divide="ignore"):
            logs = np.log(weights.probs) - (weights.values / z) ** 2 / 2
        low_loss, high_loss = (float(logsumexp(logs + weights.values * t / z)) for t in (-reach, high))
        return low_loss, high_loss

    def masses(self, edges: Array, log_tail: float) -> tuple[Array, Array]:
        weights = binomial(self.occurrences, self.sampling_prob, log_tail)
        z = self.noise_multiplier
        points = z * self._invert(edges, weights)
        upper = np.zeros(len(edges) + 1)
        for value, prob in zip(weights.values, weights.probs, strict=True):
            upper += prob * _normal_cells(points - value / z)
        upper[-1] += weights.dropped
        return upper, _normal_cells(points)

    def _invert(self, edges: Array, weights: Weights) -> Array:
        """Return v = x / z^2 with loss(v) = edge: Newton on log sum_(k > 0) exp(a_k + k v), of slope 1 or more."""
        k, logs = self._log_terms(weights)
        goal = edges
        if weights.values[0] == 0:
            with np.errstate(divide="ignore"):
                goal = np.log(np.maximum(np.expm1(edges) + self._some(), 0))
        if len(k) <= 1:
            return (goal - logs[0]) / k[0] if len(k) else np.where(np.isfinite(goal), np.inf, -np.inf)
        v = np.full(len(edges), -np.inf)
        finite = np.isfinite(goal)
        low, high = goal[finite].min(initial=0.0) - math.log(len(k)), goal[finite].max(initial=0.0)
        table = np.linspace(low, float(((high - logs) / k).min()), _TABLE)
        v[finite] = np.interp(goal[finite], _log_sum(k, logs, table)[0], table)
        for _ in range(50):
            height, slope = _log_sum(k, logs, v[finite])
            step = (height - goal[finite]) / slope
            v[finite] -= step
            if np.all(np.abs(step) <= 1e-8):
                break
        return np.maximum.accumulate(v)

    def renyi(self, orders: Array) -> Array:
        z, (values, probs, _) = self.noise_multiplier, binomial(self.occurrences, self.sampling_prob, _REACHED)
        scale = z / float(np.diff(values).max(initial=1.0))
        hidden = _renyi.mixtures((values / z, probs), (np.zeros(1), np.ones(1)), scale, orders)
        result = np.minimum(hidden, _renyi.revealed(values / z, probs, orders))
        return result if values[-1] == self.occurrences else _renyi.add_rest(result, self.occurrences / z, orders)

    def spread(self) -> float:
        z, mean = self.noise_multiplier, self.occurrences * self.sampling_prob
        second = mean * (1 - self.sampling_prob) + mean**2
        return min(mean * math.sqrt(math.expm1(min(z**-2, 99.0))), math.sqrt(second) / z, self.occurrences / z)

    def all_drawn(self) -> tuple[float, float]:
        return self.occurrences / self.noise_multiplier, 0.0


def _log_sum(k: Array, logs: Array, v: Array) -> tuple[Array, Array]:
    """Return log sum_k exp(logs_k + k v) and its derivative."""
    height, slope = np.empty(len(v)), np.empty(len(v))
    for start in range(0, len(v), _CHUNK):
        part = slice(start, start + _CHUNK)
        terms = logs[:, None] + k[:, None] * v[part]
        top = terms.max(axis=0)
        terms = np.exp(terms - top)
        total = terms.sum(axis=0)
        height[part], slope[part] = top + np.log(total), (k @ terms) / total
    return height, slope


@dataclass(frozen=True)
class Swapped:
    """(1 - q) N(0, z^2) + q N(1, z^2) against (1 - q) N(0, z^2) + q N(-1, z^2): one sampled term is exchanged."""

    sampling_prob: float
    noise_multiplier: float
    symmetric: ClassVar[bool] = True

    def span(self, log_tail: float) -> tuple[float, float]:
        q, z = self.sampling_prob, self.noise_multiplier
        farthest = _quantile(np.array([0, 1 / z]), np.array([1 - q, q]), log_tail)
        high, low = (np.logaddexp(math.log1p(-q), math.log(q) + (x - 0.5 / z) / z) for x in (farthest, -farthest))
        return float(low - high), float(high - low)

    def masses(self, edges: Array, log_tail: float) -> tuple[Array, Array]:
        q, z = self.sampling_prob, self.noise_multiplier
        half = np.abs(edges) / 2
        with np.errstate(divide="ignore"):
            log_s = math.log1p(-q) - math.log(q) + z**-2 / 2 + np.log(-np.expm1(-2 * half) / 2) + half
        arsinh = np.where(log_s < 20, np.arcsinh(np.exp(np.minimum(log_s, 20))), log_s + math.log(2))
        points = z * (edges / 2 + np.sign(edges) * arsinh)
        still, moved = _normal_cells(points), _normal_cells(points - 1 / z)
        upper = (1 - q) * still + q * moved
        return upper, (1 - q) * still + q * _normal_cells(points + 1 / z)

    def renyi(self, orders: Array) -> Array:
        q, z = self.sampling_prob, self.noise_multiplier
        probs = np.array([1 - q, q])
        exact = _renyi.mixtures((np.array([0, 1 / z]), probs), (np.array([0, -1 / z]), probs), z, orders)
        least: Array = np.minimum(exact, _renyi.revealed(np.array([0, 2 / z]), probs, orders))
        return least

    def spread(self) -> float:
        return 2 * Mixture(self.sampling_prob, 1, self.noise_multiplier).spread()

    def all_drawn(self) -> tuple[float, float]:
        return 2 / self.noise_multiplier, 0.0


@dataclass(frozen=True)
class Revealed:
    """(k, N(k mu, 1)) against (k, N(0, 1)), k ~ Binomial(occurrences, q): how many terms moved is seen.

    If one term ``leaves``, it counts half: k is then half a coin of probability q, and Binomial(occurrences - 1, q). With
    ``sampling_prob=1`` and one occurrence, a Gaussian release.
    """

    mu: float
    sampling_prob: float = 1.0
    occurrences: int = 1
    leaves: bool = False
    symmetric: ClassVar[bool] = True

    @property
    def _most(self) -> float:
        return self.occurrences - self.leaves / 2

    def _weights(self, log_tail: float) -> Weights:
        q = self.sampling_prob
        if q == 1:
            return Weights(np.array([self._most]), np.ones(1), 0.0)
        values, probs, dropped = binomial(self.occurrences - self.leaves, q, log_tail)
        if self.leaves:
            values, probs = np.add.outer(values, [0, 0.5]).ravel(), np.multiply.outer(probs, [1 - q, q]).ravel()
        return Weights(values, probs, dropped)

    def span(self, log_tail: float) -> tuple[float, float]:
        weights = self._weights(log_tail)
        low, high = 0.0, 0.0
        for value, prob in zip(weights.values, weights.probs, strict=True):
            shift = value * self.mu
            reach = _reach(min(0.0, log_tail - math.log(len(weights.probs)) - math.log(max(prob, 1e-300))))
            low, high = min(low, shift**2 / 2 - shift * reach), max(high, shift**2 / 2 + shift * reach)
        return low, high

    def masses(self, edges: Array, log_tail: float) -> tuple[Array, Array]:
        weights = self._weights(log_tail)
        upper, lower = np.zeros(len(edges) + 1), np.zeros(len(edges) + 1)
        for value, prob in zip(weights.values, weights.probs, strict=True):
            shift = value * self.mu
            if shift == 0:
                at = int(np.searchsorted(edges, 0.0))
                upper[at], lower[at] = upper[at] + prob, lower[at] + prob
            else:
                upper += prob * _normal_cells(edges / shift - shift / 2)
                lower += prob * _normal_cells(edges / shift + shift / 2)
        upper[-1] += weights.dropped
        return upper, lower

    def renyi(self, orders: Array) -> Array:
        values, probs, _ = self._weights(_REACHED)
        result = _renyi.revealed(values * self.mu, probs, orders)
        return result if values[-1] == self._most else _renyi.add_rest(result, self._most * self.mu, orders)

    def spread(self) -> float:
        mean = self._most * self.sampling_prob
        return self.mu * math.sqrt(mean * (1 - self.sampling_prob) + mean**2)

    def all_drawn(self) -> tuple[float, float]:
        return self._most * self.mu, 0.0
