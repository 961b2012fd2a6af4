"""DP-SGD in which a record is one example. Part of the verifier: it needs NumPy and the standard library."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from .._losses import SKETCH, Atoms, dominated, dominating, lattice, normal_masses, sketch
from ._gaussian import Gaussian
from ._kind import Event, Kind


@dataclass(frozen=True)
class Sampled:
    """``steps`` draws of P = (1-q) N(0, s^2) + q N(1, s^2) against Q.

    Q is N(0, s^2), or (1-q) N(0, s^2) + q N(-1, s^2) if records are replaced.
    """

    q: float
    s: float
    replace: bool
    steps: int

    def pilot(self, delta: float, flip: bool) -> tuple[Atoms, float, float]:
        reach = self.s * math.sqrt(2 * math.log(1e6 * self.steps / delta))
        x = np.linspace(-reach - self.replace, 1 + reach, SKETCH)
        return sketch(self, flip, x, 1e-6 * delta / self.steps)

    def atoms(self, h: float, flip: bool, low: float, high: float, *, upper: bool) -> Atoms:
        bound = dominating if upper else dominated
        return bound(self, flip, h, lattice(math.floor(low / h), math.ceil(high / h)))

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
        center, moved = normal_masses(x / self.s), normal_masses((x - 1) / self.s)
        other = normal_masses((x + 1) / self.s) if self.replace else center
        return (1 - self.q) * center + self.q * moved, (1 - self.q) * center + self.q * other


def sampled(event: Event) -> tuple[Any, ...]:
    """Return a Gaussian if every record is drawn, else a sampled one."""
    q, noise, replace = event["sampling_prob"], event["noise_multiplier"], event["relation"] == "replace"
    if q == 1:
        terms = event.get("occurrences", 1)
        return Gaussian, {"add-remove": terms, "replace": 2 * terms, "leave": 2 * terms - 1}[event["relation"]] / noise
    return Sampled, q, noise, replace


KIND = Kind(
    {"sampling_prob": "rate", "noise_multiplier": "positive", "steps": "count", "relation": "relation"}, sampled
)
