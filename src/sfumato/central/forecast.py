r"""A forecast of what label messages would reach at less noise, from a noisy pilot; it reads releases alone.

The model: in C - 1 dimensions the row of a node of class y is :math:`H = \lambda (b\, s_y + e) + \sigma Z`, with
:math:`s_y` the corner of a simplex, e Gaussian, and :math:`\lambda` log-normal, since nodes differ in degree. Four numbers
determine it:

* the mean square and the mean fourth power of the rows' norms give the energy of the signal and the spread of
  :math:`\lambda`; the part of the noise is known and taken off;
* the mean product of a row's direction with :math:`s_y` gives b. This one reads labels, so it is a release of its own;
* features enter as an independent Gaussian channel of a given accuracy.

Then nodes are drawn from the model at the noise to come, and classified by both channels. Classes are taken as equally
frequent.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

_DRAWS, _HALVINGS, _MOST_SPREAD, _MOST_STRENGTH = 4000, 25, 1.0, 8.0
Floats = NDArray[np.floating]


class Draws(NamedTuple):
    """Standard normal draws that all rows of a forecast share, so that it is a smooth function of its numbers."""

    classes: NDArray[np.int64]
    spread: Floats
    within: Floats
    noise: Floats
    features: Floats

    @classmethod
    def of(cls, num_classes: int, seed: int) -> Draws:
        """Draw for a number of classes, from a public seed."""
        coins, dims = np.random.default_rng(seed), num_classes - 1
        return cls(
            coins.integers(0, num_classes, _DRAWS),
            coins.normal(size=_DRAWS),
            coins.normal(size=(_DRAWS, dims)) / np.sqrt(dims),
            coins.normal(size=(_DRAWS, dims)),
            coins.normal(size=(_DRAWS, num_classes)),
        )


def forecast(rows: Floats, stddev: float, correlation: float, *, later_stddev: float, accuracy: float) -> float:
    """Estimate the accuracy that messages and features would reach together at another noise.

    Args:
        rows: released rows of a pilot, each with mean 0, [n, C] for C >= 2 classes.
        stddev: standard deviation of their noise.
        correlation: mean product of a row's direction with the code of the node's class.
        later_stddev: standard deviation of the noise to come.
        accuracy: accuracy of features alone.

    >>> coins = np.random.default_rng(0)
    >>> y, codes = coins.integers(0, 3, 4000), (np.eye(3) - 1 / 3) / np.sqrt(2 / 3)
    >>> rows = 4 * codes[y] + 5 * coins.normal(size=(4000, 3))
    >>> rows -= rows.mean(axis=1, keepdims=True)
    >>> seen = float((rows * codes[y]).sum(axis=1) @ (1 / np.linalg.norm(rows, axis=1))) / 4000
    >>> round(forecast(rows, 5.0, seen, later_stddev=2.0, accuracy=1 / 3), 2)
    0.93
    """
    classes = rows.shape[1]
    codes, dims, draws = _codes(classes), classes - 1, Draws.of(classes, 0)
    square = np.square(rows, dtype=np.float64).sum(axis=1)
    energy = max(float(square.mean()) - dims * stddev**2, 1e-12 * stddev**2)
    fourth = float(np.square(square).mean()) - stddev**2 * (2 * dims + 4) * energy - (dims**2 + 2 * dims) * stddev**4
    excess = max(fourth / ((1 + 2 / dims) * energy**2), 1.0)
    spread = min(np.sqrt(np.log(excess)) / 2, _MOST_SPREAD)
    weight = np.exp(spread * draws.spread - spread**2)[:, None]

    def drawn(share: float, energy: float, noise: float) -> Floats:
        signal = share * codes[draws.classes] + np.sqrt(1 - share**2) * draws.within
        return weight * np.sqrt(energy) * signal + noise * draws.noise

    def seen(share: float, energy: float) -> float:
        made = drawn(share, energy, stddev)
        return float((made * codes[draws.classes]).sum(axis=1) @ (1 / np.linalg.norm(made, axis=1))) / _DRAWS

    least = _solve(lambda length: seen(1.0, length**2), correlation, _MOST_STRENGTH * stddev) ** 2
    energy = max(energy, least)  # noise can hide the energy of rows whose direction does tell the class
    share = _solve(lambda part: seen(part, energy), correlation, 1.0)
    later, mean = drawn(share, energy, later_stddev), share * np.sqrt(energy) * np.exp(-(spread**2) / 2)
    within = later.T @ later / _DRAWS - mean**2 * codes.T @ codes / classes
    says = mean * later @ np.linalg.solve(within, codes.T)

    def channel(strength: float) -> Floats:
        return draws.features + strength * (np.arange(classes) == draws.classes[:, None])

    def right(scores: Floats) -> float:
        return float((scores.argmax(axis=1) == draws.classes).mean())

    strength = _solve(lambda at: right(channel(at)), accuracy, _MOST_STRENGTH)
    return right(says + strength * channel(strength))


def _codes(classes: int) -> Floats:
    """Corners of a simplex in C - 1 dimensions, of norm 1."""
    centered = np.eye(classes) - 1 / classes
    plane: Floats = np.linalg.svd(centered)[0][:, : classes - 1] / np.linalg.norm(centered[0])
    return plane


def _solve(rises: Callable[[float], float], wanted: float, high: float) -> float:
    """Where a rising function has a value, by bisection between 0 and ``high``."""
    low = 0.0
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        low, high = (middle, high) if rises(middle) < wanted else (low, middle)
    return low
