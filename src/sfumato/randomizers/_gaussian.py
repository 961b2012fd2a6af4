"""Analytic Gaussian noise on every feature, rounded to a public grid."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from math import nextafter, sqrt
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from sfumato._validate import check_real
from sfumato.privacy.accounting import epsilon as epsilon_of
from sfumato.privacy.calibration import effective_delta, gaussian_noise_multiplier
from sfumato.privacy.events import GaussianEvent
from sfumato.randomizers._randomizer import Layout, OnGrid, Reports
from sfumato.randomizers._values import Floats, Values, check_values, row_blocks

if TYPE_CHECKING:
    from sfumato.noise.coins import SecretWords

_FINEST = 2**20
_LARGEST_STDDEV = 2.0**36


@dataclass(frozen=True)
class Gaussian(OnGrid):
    r"""Analytic Gaussian mechanism: every feature plus noise of standard deviation :math:`z \sqrt d \, w`.

    Here w is the width of the feature's range. Values are rounded to a public grid of K = 2^k steps a range and sent as
    integers :math:`x + \mathrm{round}(\sigma Z)`, :math:`\sigma = z K \sqrt d`, where z is the least multiplier with
    :math:`\Phi(1/2z - \epsilon z) - e^\epsilon \Phi(-1/2z - \epsilon z) \le \delta`. Each coordinate has the variance
    :math:`z^2 d w^2 + w^2 / 12 K^2`.

    **Formal guarantee.** (``realized_epsilon``, ``delta``)-LDP. Proof: two users differ by at most K sqrt(d) steps in L2. As x is
    an integer, x + round(sigma Z) = round(x + sigma Z) is post-processing of the Gaussian mechanism. The sampler's total
    variation, 2^-100 a coordinate, is subtracted from delta first (``privacy.calibration.effective_delta``).

    Args:
        num_features: number of features d.
        epsilon: budget of all features together, > 0.
        delta: failure probability of the whole report, in (0, 1).
        low: the lower end of the public range, a number or a tuple of d; values outside are clipped.
        high: its upper end, likewise.

    Shapes: reports hold steps int64 [n, d]. Encoding needs numba (``pip install 'sfumato[train]'``); nothing else here does.

    Error bound: the estimate aims at the value on the grid, at most w / 2K away (``grid_error``).

    Raises:
        InputError: a setting is out of range, or delta does not cover the sampler.

    >>> gaussian = Gaussian(1433, epsilon=1.0, delta=1e-10)
    >>> round(float(gaussian.variance()[0] / 1433), 2)
    34.43

    Source: Balle and Wang (2018), Improving the Gaussian Mechanism for Differential Privacy, theorem 8.
    """

    delta: float = 1e-10

    def __post_init__(self) -> None:
        super().__post_init__()
        check_real(low=0, high=1, open_low=True, open_high=True, delta=self.delta)
        _ = self.noise_multiplier

    @cached_property
    def _delta_of_noise(self) -> float:
        return effective_delta(self.delta, self.epsilon, self.num_features)

    @cached_property
    def noise_multiplier(self) -> float:
        """Standard deviation over L2 sensitivity: the single number on which the guarantee rests."""
        return gaussian_noise_multiplier(self.epsilon, self._delta_of_noise)

    @cached_property
    def realized_epsilon(self) -> float:
        """The guarantee of the noise in use at ``delta``, rounded upward by the accountant."""
        return epsilon_of([GaussianEvent(self.noise_multiplier)], self._delta_of_noise)

    @cached_property
    def _grid(self) -> tuple[int, float]:
        """Steps K a range, and standard deviation in steps, rounded up."""
        spread, steps = self.noise_multiplier * sqrt(self.num_features), _FINEST
        while steps > 1 and spread * steps >= _LARGEST_STDDEV / 2:
            steps //= 2
        return steps, nextafter(nextafter(spread * steps, np.inf), np.inf)

    @property
    def layout(self) -> Layout:
        """A step within 13 standard deviations, the reach of the sampler, for every feature."""
        steps, stddev = self._grid
        reach = int(13 * stddev) + 1
        return Layout(self.num_features, -reach, steps + reach)

    @property
    def thresholds(self) -> dict[str, int | float]:
        """Steps of a range, standard deviation of the noise in steps, and this over the L2 sensitivity."""
        steps, stddev = self._grid
        multiplier = self.noise_multiplier
        return {"steps": steps, "stddev": stddev, "parts": self.num_features, "noise_multiplier": multiplier}

    def encode(self, values: Values, source: SecretWords, users: NDArray[np.integer] | None = None) -> Reports:
        """Send every feature with noise; ``users`` is not needed."""
        from sfumato.noise.gaussian import rounded_gaussian

        values = check_values(values, self.num_features)
        (steps, stddev), reports = self._grid, np.empty(values.shape, np.int64)
        key, d = source.bytes(32), self.num_features
        for rows, block in row_blocks(values, d):
            noise = rounded_gaussian(key, stddev, rows.start * d, rows.stop * d)
            reports[rows] = np.rint(self.to_unit(block) * steps).astype(np.int64) + noise.reshape(block.shape)
        return Reports(reports)

    def variance(self, values: Values | None = None) -> Floats:
        """Return the variance of each coordinate: [d], the same for all values, or [n, d]."""
        steps, stddev = self._grid
        same = (self.width / steps) ** 2 * (stddev**2 + 1 / 12)
        return same if values is None else np.broadcast_to(same, values.shape)
