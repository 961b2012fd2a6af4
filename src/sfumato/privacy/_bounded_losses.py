"""Dominating pairs of pure differential privacy: their privacy loss never leaves [-epsilon, epsilon]."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from scipy.special import logsumexp

Array = np.ndarray


@dataclass(frozen=True)
class Bounded:
    """A pair whose loss never leaves [-epsilon, epsilon]: atoms (loss, mass under P) and a part that grows as e^(l/2).

    P has the density ``slope`` e^((l - epsilon) / 2) / 2 between the ends. ``rho``: Renyi divergences are also at most
    rho times the order.
    """

    epsilon: float
    atoms: tuple[tuple[float, float], ...] = ()
    slope: float = 0.0
    rho: float = math.inf
    symmetric: ClassVar[bool] = True

    def span(self, log_tail: float) -> tuple[float, float]:
        return -self.epsilon, self.epsilon

    def masses(self, edges: Array, log_tail: float) -> tuple[Array, Array]:
        ends = np.concatenate([[-self.epsilon], np.clip(edges, -self.epsilon, self.epsilon), [self.epsilon]])
        width = -np.expm1(-np.diff(ends) / 2)
        upper = self.slope * np.exp((ends[1:] - self.epsilon) / 2) * width
        lower = self.slope * np.exp(-(ends[:-1] + self.epsilon) / 2) * width
        for loss, mass in self.atoms:
            at = int(np.searchsorted(edges, loss))
            upper[at], lower[at] = upper[at] + mass, lower[at] + mass * math.exp(-loss)
        return upper, lower

    def renyi(self, orders: Array) -> Array:
        logs = [math.log(mass) + (orders - 1) * loss for loss, mass in self.atoms if mass > 0]
        if self.slope > 0:
            rate = orders - 0.5
            scale = math.log(self.slope / 2) - np.log(rate) + np.log(-np.expm1(-2 * rate * self.epsilon))
            logs.append(scale + (orders - 1) * self.epsilon)
        exact: Array = logsumexp(np.array(logs), axis=0) / (orders - 1)
        least: Array = np.minimum(np.minimum(exact, self.rho * orders), self.epsilon)
        return least

    def spread(self) -> float:
        atoms = sum(mass * loss * loss for loss, mass in self.atoms)
        sloping = self.slope * -math.expm1(-self.epsilon) * self.epsilon * self.epsilon / 3
        return math.sqrt(min(atoms + sloping, 2 * self.rho))

    def all_drawn(self) -> tuple[float, float]:
        return 0.0, self.epsilon


def randomized_response(epsilon: float, num_outcomes: float = 2) -> Bounded:
    """Truth against another true value: e^epsilon for the first, e^-epsilon for the second, 1 for the rest."""
    other = math.exp(-epsilon) / (1 + (num_outcomes - 1) * math.exp(-epsilon))
    truth = 1 / (1 + (num_outcomes - 1) * math.exp(-epsilon))
    return Bounded(epsilon, ((epsilon, truth), (-epsilon, other), (0.0, (num_outcomes - 2) * other)))
