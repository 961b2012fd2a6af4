r"""A forecast of what label messages would reach at less noise, from a noisy pilot; it reads releases alone.

The model: in C - 1 dimensions the row of a node of class y is :math:`H = \lambda (m + b\, (s_y - \bar s) + e) + \sigma Z`,
with :math:`s_y` the corner of a simplex, :math:`\bar s` the mean of the corners by the shares of the classes, e Gaussian, and
:math:`\lambda` log-normal, since nodes differ in degree. These determine it:

* the mean row gives m: where one class is frequent, all rows point to it, and the more neighbors, the farther;
* the mean square and the mean fourth power of the rows' norms give the energy of the signal and the spread of
  :math:`\lambda`; the part of the noise is known and taken off;
* the mean product of a row's direction with :math:`s_y - \bar s` gives b. This one reads labels, so it is a release of its own;
* features enter as an independent Gaussian channel of a given log-loss.

Then nodes are drawn from the model at the noise to come, and the log-loss of both channels together is taken. Where one class
is rare, accuracy would hardly move.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

_DRAWS, _HALVINGS, _MOST_SPREAD, MOST_STRENGTH = 4000, 25, 1.0, 8.0
MOST_LOSS = 5.0
"""Log-losses of single nodes count at most this much, so that their sum has a bounded sensitivity."""
Floats = NDArray[np.floating]


class Draws(NamedTuple):
    """Standard normal draws that all rows of a forecast share, so that it is a smooth function of its numbers."""

    classes: NDArray[np.int64]
    spread: Floats
    within: Floats
    noise: Floats
    features: Floats

    @classmethod
    def of(cls, shares: Floats, seed: int) -> Draws:
        """Draw from a public seed; every class has its share of the draws."""
        coins, classes, dims = np.random.default_rng(seed), len(shares), len(shares) - 1
        ends = np.round(_DRAWS * np.cumsum(shares))
        return cls(
            np.searchsorted(ends[:-1], np.arange(_DRAWS), side="right"),
            coins.normal(size=_DRAWS),
            coins.normal(size=(_DRAWS, dims)) / np.sqrt(dims),
            coins.normal(size=(_DRAWS, dims)),
            coins.normal(size=(_DRAWS, classes)),
        )


def forecast(
    rows: Floats, stddev: float, correlation: float, *, later_stddev: float, loss: float, shares: Floats
) -> float:
    """Estimate the log-loss that messages and features would reach together at another noise, from the rows of a pilot."""
    dims, draws, codes = rows.shape[1] - 1, Draws.of(shares, 0), centered_codes(shares)
    square = np.square(rows, dtype=np.float64).sum(axis=1)
    energy = max(float(square.mean()) - dims * stddev**2, 1e-12 * stddev**2)
    fourth = float(np.square(square).mean()) - stddev**2 * (2 * dims + 4) * energy - (dims**2 + 2 * dims) * stddev**4
    excess = max(fourth / ((1 + 2 / dims) * energy**2), 1.0)
    spread = min(np.sqrt(np.log(excess)) / 2, _MOST_SPREAD)
    weight = np.exp(spread * draws.spread - spread**2)[:, None]
    told = codes / np.sqrt(shares @ np.square(codes).sum(axis=1))
    common = rows.mean(axis=0) @ _plane(len(shares)) * np.exp(spread**2 / 2)

    def length_of(energy: float) -> float:
        return float(np.sqrt(max(energy - common @ common, 1e-3 * energy)))  # of what differs between nodes

    def drawn(share: float, energy: float, noise: float) -> Floats:
        signal = share * told[draws.classes] + np.sqrt(1 - share**2) * draws.within
        return weight * (common + length_of(energy) * signal) + noise * draws.noise

    def seen(share: float, energy: float) -> float:
        made = drawn(share, energy, stddev)
        return float((made * codes[draws.classes]).sum(axis=1) @ (1 / np.linalg.norm(made, axis=1))) / _DRAWS

    least = solve(lambda length: seen(1.0, length**2), correlation, MOST_STRENGTH * stddev)[0] ** 2
    energy = max(energy, least)  # noise can hide the energy of rows whose direction does tell the class
    share, _ = solve(lambda part: seen(part, energy), correlation, 1.0)
    later, means = drawn(share, energy, later_stddev), share * length_of(energy) * np.exp(-(spread**2) / 2) * told
    later -= later.mean(axis=0)
    within = later.T @ later / _DRAWS - means.T @ (shares[:, None] * means)
    axes = np.linalg.solve(within, means.T)
    says = later @ axes - (means * axes.T).sum(axis=1) / 2 + np.log(shares)

    def channel(strength: float) -> Floats:
        return strength * (draws.features + strength * (np.arange(len(shares)) == draws.classes[:, None]))

    strength, _ = solve(lambda at: -_loss(np.log(shares) + channel(at), draws.classes), -loss, MOST_STRENGTH)
    return _loss(says + channel(strength), draws.classes)


def centered_codes(shares: Floats) -> Floats:
    """Return the corners of a simplex in C - 1 dimensions, of norm 1, around their mean by the shares of the classes."""
    corners = _plane(len(shares)) / np.sqrt(1 - 1 / len(shares))
    return corners - shares @ corners


def _plane(classes: int) -> Floats:
    """Return orthonormal axes of the rows of mean 0, [C, C - 1]; two classes have one, toward the first.

    They are written down and not computed by a decomposition: all axes are alike to one, so rounding would choose them, and the
    draws along them with it.
    """
    axes = np.tril(np.ones((classes, classes - 1)), -1) - np.diag(np.arange(classes - 1.0, -1, -1))[:, :-1]
    axes /= np.linalg.norm(axes, axis=0)
    return axes if classes > 2 else -axes


def _loss(scores: Floats, classes: NDArray[np.int64]) -> float:
    """Mean log-loss of scores, cut at :data:`MOST_LOSS`."""
    scores = scores - scores.max(axis=1, keepdims=True)
    losses = np.log(np.exp(scores).sum(axis=1)) - scores[np.arange(len(classes)), classes]
    return float(np.minimum(losses, MOST_LOSS).mean())


def solve(rises: Callable[[float], float], wanted: float, high: float) -> tuple[float, float]:
    """Between which two numbers a rising function reaches a value, by bisection between 0 and ``high``."""
    low = 0.0
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        low, high = (middle, high) if rises(middle) < wanted else (low, middle)
    return low, high
