r"""Laplace noise on every feature, exact on a public grid. Reports are integers, so no float can reveal a value."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from math import ceil, sinh
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from sfumato.noise._geometric import discrete_laplace
from sfumato.noise.exact import round_up
from sfumato.randomizers._randomizer import Layout, OnGrid, Reports
from sfumato.randomizers._values import Floats, Values, check_values, row_blocks

if TYPE_CHECKING:
    from sfumato.noise.coins import SecretWords

_FINEST = 20
_LARGEST_SCALE = 2**31
_CUT = 60


@dataclass(frozen=True)
class Laplace(OnGrid):
    r"""Laplace mechanism: every feature plus noise of scale :math:`b = d w / \epsilon`, w the width of its range.

    Values are rounded to a public grid of K = 2^k steps a range and sent as integers x + Z. The noise Z has the discrete Laplace
    law :math:`P(Z = z) = \tanh(1 / 2t) \, e^{-|z| / t}` of scale :math:`t = \lceil d K / \epsilon \rceil` steps. Its variance is
    :math:`1 / (2 \sinh^2(1 / 2t))`, which tends to 2 t^2. Results are cut at 60 t beyond the range, so that reports have a fixed
    size.

    To give each single feature its own budget (as in the tables of :class:`~sfumato.randomizers._multibit.PGC`), ask for d times
    as much.

    **Formal guarantee.** ``realized_epsilon`` = d K / t, delta 0. Proof: two users differ by at most K steps in each of d
    integers, and P(z) / P(z + a) <= e^(|a| / t); cutting is post-processing. The sampler is exact: it uses only uniform integers
    and coins of probability 1 / j and u / t, no floating point (Canonne, Kamath and Steinke, algorithms 1 and 2).

    Args:
        num_features: number of features d.
        epsilon: budget of all features together, > 0.
        low: the lower end of the public range, a number or a tuple of d; values outside are clipped.
        high: its upper end, likewise.

    Shapes: reports hold steps int64 [n, d].

    Error bound: the estimate aims at the value on the grid, at most w / 2K away (``grid_error``); cutting moves a mean by
    less than t e^-59 steps.

    Raises:
        InputError: a setting is out of range.

    >>> laplace = Laplace(10, epsilon=1.0)
    >>> round(float(laplace.variance()[0]), 3), float(laplace.grid_error[0])
    (200.0, 4.76837158203125e-07)

    Source: Dwork, McSherry, Nissim and Smith (2006); Ghosh, Roughgarden and Sundararajan (2009) for the grid.
    """

    def __post_init__(self) -> None:
        super().__post_init__()
        _ = self._grid

    @cached_property
    def _grid(self) -> tuple[int, int]:
        """Steps K a range, and scale t in steps."""
        spread, steps = Fraction(self.num_features) / Fraction(self.epsilon), 2**_FINEST
        while steps > 1 and spread * steps > _LARGEST_SCALE:
            steps //= 2
        return steps, ceil(spread * steps)

    @cached_property
    def realized_epsilon(self) -> float:
        """The guarantee of the scale in use, rounded upward."""
        steps, scale = self._grid
        return round_up(Fraction(self.num_features * steps, scale))

    @property
    def layout(self) -> Layout:
        """A step within the cut, for every feature."""
        steps, scale = self._grid
        return Layout(self.num_features, -_CUT * scale, steps + _CUT * scale)

    @property
    def thresholds(self) -> dict[str, int | float]:
        """Steps of a range, and the scale of the noise in steps."""
        steps, scale = self._grid
        return {"steps": steps, "scale": scale, "parts": self.num_features}

    def encode(self, values: Values, source: SecretWords, users: NDArray[np.integer] | None = None) -> Reports:
        """Send every feature with noise; ``users`` is not needed."""
        values = check_values(values, self.num_features)
        (steps, scale), reports = self._grid, np.empty(values.shape, np.int64)
        for rows, block in row_blocks(values, self.num_features):
            exact = np.rint(self.to_unit(block) * steps).astype(np.int64)
            noise = discrete_laplace(source, Fraction(scale), exact.size).reshape(exact.shape)
            reports[rows] = np.clip(exact + noise, -_CUT * scale, steps + _CUT * scale)
        return Reports(reports)

    def variance(self, values: Values | None = None) -> Floats:
        """Return the variance of each coordinate: [d], the same for all values, or [n, d]."""
        steps, scale = self._grid
        same = (self.width / steps) ** 2 / (2 * sinh(1 / (2 * scale)) ** 2)
        return same if values is None else np.broadcast_to(same, values.shape)
