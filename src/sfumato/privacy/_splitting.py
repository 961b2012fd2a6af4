r"""How a budget is split between the parts of a plan: by a fixed public rule that does not look at the data.

Part i makes Gaussian releases with noise multiplier :math:`z_i`, and a weight :math:`w_i` says what noise in this part
costs in utility: 1 % more of it hurts as much as :math:`w_i / w_j` % more in part j. The rule minimizes
:math:`\sum_i w_i \log z_i` at a fixed cost. By the central limit a plan costs :math:`\mu^2 = \sum_i \mu_i(z_i)^2`, with
:math:`\mu_i^2 = T / z^2` for T full releases and :math:`\mu_i^2 = T q^2 (e^{1 / z^2} - 1)` for T subsampled releases. So at
the optimum

.. math:: -\frac{d \mu_i^2}{d \log z_i} = \lambda w_i \quad\text{for all } i.

The central limit only *chooses* the noise; what the chosen noise costs is accounted exactly
(:func:`~sfumato.privacy.accounting.epsilon`), so an imperfect choice costs utility, never privacy.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from sfumato._validate import check_real, fail
from sfumato.privacy.calibration import calibrate
from sfumato.privacy.events import GaussianEvent, PoissonGaussianEvent

SGD_WEIGHT = 0.05
"""Weight of one DP-SGD run beside an aggregation of weight 1: DP-SGD averages its noise over a batch and over steps."""
MOST_SGD_NOISE = 2.0**11
"""Largest noise multiplier of a DP-SGD step: beyond it the grid of clipped sums would leave 64-bit integers."""
_RANGE = (1e-6, 1e12)


@dataclass(frozen=True)
class Part:
    """A part of a plan: an event (the split replaces its noise multiplier) and a weight.

    >>> Part(GaussianEvent(1.0, count=2)).weight
    1.0
    """

    event: GaussianEvent | PoissonGaussianEvent
    weight: float = 1.0

    def __post_init__(self) -> None:
        if not isinstance(self.event, (GaussianEvent, PoissonGaussianEvent)):
            raise fail("event", self.event, "to be a GaussianEvent or PoissonGaussianEvent")
        check_real(low=0, open_low=True, weight=self.weight)

    def at(self, noise_multiplier: float) -> GaussianEvent | PoissonGaussianEvent:
        """Return the event at another noise multiplier."""
        return replace(self.event, noise_multiplier=noise_multiplier)

    def elasticity(self, noise_multiplier: float) -> float:
        """Return -d mu^2 / d log z at a noise multiplier z. It falls as the noise grows."""
        event = self.event
        if isinstance(event, GaussianEvent):
            return 2 * event.count / noise_multiplier**2
        apart = 2 if event.relation == "replace" else 1
        square = (apart / noise_multiplier) ** 2
        return 2 * event.steps * square * min(1.0, event.sampling_prob**2 * math.exp(min(square, 700.0)))


def balance(parts: Sequence[Part], noise_multiplier: float) -> tuple[float, ...]:
    """Return the noise multipliers of all parts that are optimal when the first part has ``noise_multiplier``.

    >>> sgd = Part(PoissonGaussianEvent(256 / 19800, 1.0, 773), SGD_WEIGHT)
    >>> [round(z, 3) for z in balance([Part(GaussianEvent(1.0, 2)), sgd, sgd], 0.88)]
    [0.88, 1.328, 1.328]
    """
    if not parts:
        raise fail("parts", parts, "to hold at least one part")
    check_real(low=0, open_low=True, noise_multiplier=noise_multiplier)
    level = parts[0].elasticity(noise_multiplier) / parts[0].weight
    return (noise_multiplier, *(_where(part, level * part.weight) for part in parts[1:]))


def split_noise(
    parts: Sequence[Part], epsilon: float, delta: float
) -> tuple[GaussianEvent | PoissonGaussianEvent, ...]:
    """Split a joint budget between the parts of a plan, by the rule of this module.

    **Formal guarantee.** The events of the result together cost at most ``epsilon`` at ``delta``, and at least
    0.999 of it.

    >>> sgd = Part(PoissonGaussianEvent(256 / 19800, 1.0, 773), SGD_WEIGHT)
    >>> [round(event.noise_multiplier, 1) for event in split_noise([Part(GaussianEvent(1.0, 2)), sgd], 8.0, 1e-5)]
    [0.9, 1.3]
    """

    def events(noise_multiplier: float) -> tuple[GaussianEvent | PoissonGaussianEvent, ...]:
        noises = balance(parts, noise_multiplier)
        return tuple(part.at(noise) for part, noise in zip(parts, noises, strict=True))

    return events(calibrate(events, epsilon, delta))


def _where(part: Part, elasticity: float) -> float:
    """Return the noise multiplier at which a part has this elasticity, by bisection on its logarithm."""
    low, high = _RANGE
    while low < (middle := math.sqrt(low * high)) < high and high / low > 1 + 1e-14:
        low, high = (middle, high) if part.elasticity(middle) > elasticity else (low, middle)
    return high
