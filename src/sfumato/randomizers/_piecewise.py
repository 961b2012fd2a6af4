"""Piecewise: numbers near the value are more likely than numbers far from it, for m features drawn at random."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import TYPE_CHECKING, Literal

import numpy as np
from numpy.typing import NDArray

from sfumato._validate import check_choice, check_int
from sfumato.noise.exact import WORDS, hit_share, probabilities
from sfumato.randomizers._randomizer import Drawn, Estimate, Layout, Pmf, Ranged, Reports
from sfumato.randomizers._values import Floats, Values, check_values, dense, entries

if TYPE_CHECKING:
    from sfumato.noise.coins import SecretWords

_PAPER_BUDGET_A_FEATURE = 2.5
_POSITIONS = 4097


@dataclass(frozen=True)
class Window:
    """A window of W cells among N that slides with the value. Its cells are e^epsilon times as likely as the others.

    The mean of the reported cell is affine in the place of the window, so an affine rule decodes it without bias.

    Args:
        cells: the number N of cells.
        width: the number W of cells in the window.
        epsilon: the budget of all parts together.
        parts: number of such reports over which the budget is split evenly.
    """

    cells: int
    width: int
    epsilon: float
    parts: int

    @property
    def places(self) -> int:
        """The last place of the window; the first is 0."""
        return self.cells - self.width

    @cached_property
    def hit(self) -> int:
        """The share of 2^64 words that each cell in the window gets."""
        return hit_share(self.epsilon, self.width, self.places, self.parts)

    @cached_property
    def _chances(self) -> tuple[float, float]:
        inside, outside = probabilities(self.hit, self.width, self.places)
        return float(inside - outside), float(outside)

    def decode(self, cell: NDArray[np.integer]) -> Floats:
        """Return an unbiased estimate of the value in [0, 1]."""
        (excess, rest), n, w = self._chances, self.cells, self.width
        start = excess * w * (w - 1) / 2 + rest * n * (n - 1) / 2
        return np.asarray((cell - start) / (excess * w * self.places), np.float64)

    def second_moment(self, unit: Floats) -> Floats:
        """Return the mean square of the decoded value's distance from 1/2."""
        (excess, rest), n, w = self._chances, self.cells, self.width
        mean = unit * self.places
        part = mean - np.floor(mean)
        place_square = mean**2 + part * (1 - part)
        cell_mean = excess * (w * mean + w * (w - 1) / 2) + rest * n * (n - 1) / 2
        cell_square = excess * (w * place_square + mean * w * (w - 1) + (w - 1) * w * (2 * w - 1) / 6)
        cell_square = cell_square + rest * (n - 1) * n * (2 * n - 1) / 6
        variance = (cell_square - cell_mean**2) / (excess * w * self.places) ** 2
        return variance + (unit - 0.5) ** 2


@dataclass(frozen=True)
class Piecewise(Drawn, Ranged):
    r"""Piecewise mechanism on a grid: m of d features, each reported as one of N cells, a window around the value favored.

    A sampled feature u in [0, 1] places a window of W cells at u (N - W), rounded to an integer at random without bias. Each
    cell of the window is reported with probability :math:`h = e^{\epsilon/m} / (W e^{\epsilon/m} + N - W)`, any other cell with
    :math:`l = h / e^{\epsilon/m}`. The mean cell is affine in u, with slope (h - l) W (N - W), so decoding is exactly unbiased.
    Sampled features are scaled by d / m about the middle of the range, and the other features decode to the middle. W and m
    minimize the largest variance; ``rule="paper"`` takes m = floor(epsilon / 2.5) clamped to [1, d]. As N tends to infinity, this
    becomes the continuous mechanism, with W / N = (C - 1) / 2C, :math:`C = \coth(\epsilon / 4m)`.

    To give each single feature its own budget (as in the tables of :class:`~sfumato.randomizers._multibit.PGC`), ask for d times
    as much with ``sampled=d``.

    **Formal guarantee.** ``realized_epsilon``-LDP for all features together, delta 0. Proof: exactly m features are drawn
    without looking at x. Given them, the reported cells are independent, and each cell has probability h or l wherever
    the window is. So its probability is in [l, h] also on average over the random rounding, with h / l <= e^(epsilon/m).
    Cells in the window get exactly H of 2^64 words; the rest is shared evenly by an exactly uniform draw. The grid costs
    no error: there is no float in a report.

    Args:
        num_features: number of features d.
        epsilon: budget of the whole report, > 0.
        low: the lower end of the public range, a number or a tuple of d; values outside are clipped.
        high: its upper end, likewise.
        rule: how m is chosen, "best" or "paper".
        sampled: the number m itself; None follows the rule.
        cells: number of cells N.

    Shapes: reports hold cells int32 [n, m] and indices [n, m] ascending (none where m = d). O(n m) time.

    Raises:
        InputError: a setting is out of range.

    >>> round(float(Piecewise(1, epsilon=1.0, low=-1.0).variance()[0]), 2)
    5.21

    Source: N. Wang et al. (2019), Collecting and Analyzing Multidimensional Data with LDP, algorithms 2 and 4.
    """

    rule: Literal["best", "paper"] = "best"
    sampled: int | None = None
    cells: int = 1024

    def __post_init__(self) -> None:
        check_choice(("best", "paper"), rule=self.rule)
        check_int(low=2, high=2**24, cells=self.cells)
        if self.sampled is not None:
            check_int(low=1, high=self.num_features, sampled=self.sampled)
        super().__post_init__()
        _ = self.realized_epsilon

    @cached_property
    def m(self) -> int:
        """The number of features that a report is about."""
        if self.sampled is not None:
            return self.sampled
        if self.rule == "paper":
            return min(max(1, math.floor(self.epsilon / _PAPER_BUDGET_A_FEATURE)), self.num_features)
        candidates = range(1, min(self.num_features, math.ceil(self.epsilon / 2) + 1) + 1)
        return min(candidates, key=lambda m: self._largest(self._best_window(m)) / m)

    def _largest(self, window: Window) -> float:
        return float(window.second_moment(np.linspace(0, 1, _POSITIONS)).max())

    def _best_window(self, m: int) -> Window:
        """Return the best window of width about W / N = (C - 1) / 2C: that width or one near it."""
        coth = 1 / math.tanh(self.epsilon / (4 * m))
        near = round(self.cells * (coth - 1) / (2 * coth))
        widths = sorted({min(max(1, near + step), self.cells - 1) for step in (-2, -1, 0, 1, 2)})
        return min((Window(self.cells, width, self.epsilon, m) for width in widths), key=self._largest)

    @cached_property
    def window(self) -> Window:
        """The cells, the window and its probability."""
        return self._best_window(self.m)

    @property
    def _odds(self) -> tuple[int, ...]:
        return self.window.width, self.window.places, self.m

    @property
    def layout(self) -> Layout:
        """Cells of m features, which are implied if all report."""
        return Layout(self.m, 0, self.cells - 1, 0 if self.m == self.num_features else self.num_features)

    def encode(self, values: Values, source: SecretWords, users: NDArray[np.integer] | None = None) -> Reports:
        """Draw m features for each user and send one cell for each; ``users`` is not needed."""
        values = check_values(values, self.num_features)
        n, window, m = values.shape[0], self.window, self.m
        every = m == self.num_features
        indices = np.tile(np.arange(m), (n, 1)) if every else source.subsets(n, self.num_features, m)
        place, raised = self._place(self.to_unit(entries(values, indices), indices))
        place += source.words(place.shape) < raised
        word, hit = source.words(place.shape), np.uint64(window.hit)
        outside = source.below(window.places, place.shape)
        outside += window.width * (outside >= place)
        inside = place + (word // hit).astype(np.int64)
        cells = np.where(word < hit * np.uint64(window.width), inside, outside).astype(np.int32)
        return Reports(cells, None if every else indices.astype(np.int32))

    def _place(self, unit: Floats) -> tuple[NDArray[np.int64], NDArray[np.uint64]]:
        """Return the place of the window rounded down, and how many of 2^64 words raise it by 1."""
        mean = unit * self.window.places
        place = np.floor(mean)
        return place.astype(np.int64), ((mean - place) * 2.0**64).astype(np.uint64)

    def estimate(self, reports: Reports) -> Estimate:
        """Return an unbiased estimate: n m entries around the middle of the range."""
        return self.around_middle(
            reports, self.window.decode(reports.values) - 0.5, self.num_features / self.m * self.width
        )

    def variance(self, values: Values | None = None) -> Floats:
        """Return the variance of each coordinate: [n, d], or the largest possible, [d]."""
        scale = self.num_features / self.m * self.width**2
        unit = np.linspace(0, 1, _POSITIONS)[:, None] if values is None else self.to_unit(dense(values))
        each = scale * self.window.second_moment(unit) - (self.width * (unit - 0.5)) ** 2
        return each.max(axis=0) if values is None else each

    def pmf(self, value: NDArray[np.generic], user: int = 0) -> Pmf:
        """Return the exact probability of every report on one value, if a single feature reports (m = 1).

        Raises:
            InputError: more than one feature reports.
        """
        check_int("Exact probabilities are for reports of one cell.", low=1, high=1, sampled=self.m)
        place, raised = self._place(self.to_unit(dense(np.asarray(value))))
        window, d = self.window, self.num_features
        near, far = probabilities(window.hit, window.width, window.places)
        result: Pmf = {}
        for column in range(d):
            up, first = Fraction(int(raised[column]), WORDS), int(place[column])
            for cell in range(self.cells):
                inside = (1 - up) * (0 <= cell - first < window.width) + up * (0 < cell - first <= window.width)
                result[(column, cell) if d > 1 else (cell,)] = (far + (near - far) * inside) / d
        return result
