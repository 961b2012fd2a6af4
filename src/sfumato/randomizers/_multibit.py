"""Multi-bit: a private bit about each of m features drawn at random, or about every feature."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from itertools import combinations, product
from typing import TYPE_CHECKING, Literal

import numpy as np
from numpy.typing import NDArray

from sfumato._validate import check_choice, check_int, fail
from sfumato.noise.exact import WORDS, realized
from sfumato.randomizers._randomizer import Drawn, Estimate, Layout, Pmf, Ranged, Reports, bit_thresholds, shares
from sfumato.randomizers._values import Floats, Values, check_values, dense, entries

if TYPE_CHECKING:
    from sfumato.noise.coins import SecretWords

_PAPER_BUDGET_A_BIT = 2.18
_BLOCK = 1 << 21
_MOST_REPORTS = 1 << 20


@dataclass(frozen=True)
class Bits(Drawn, Ranged):
    """The common part of randomizers whose users answer one private bit about each of m features. It is not used alone.

    ``m`` features are drawn (all, if m = d), and each bit says whether one of 2^64 words is below an affine threshold.
    """

    def __post_init__(self) -> None:
        super().__post_init__()
        _ = self.realized_epsilon

    @property
    @abstractmethod
    def m(self) -> int:
        """The number of features that a report is about."""

    @property
    def _odds(self) -> tuple[int, ...]:
        return 1, 1, self.m

    @property
    def layout(self) -> Layout:
        """Bits about m features, which are implied if all are sampled."""
        return Layout(self.m, 0, 1, 0 if self.m == self.num_features else self.num_features)

    @cached_property
    def _step(self) -> Floats:
        """Distance from the middle to a decoded bit, [d]."""
        return self.num_features * self.width / (2 * self.m * float(Fraction(2 * self._hit - WORDS, WORDS)))

    def encode(self, values: Values, source: SecretWords, users: NDArray[np.integer] | None = None) -> Reports:
        """Draw m features for each user and send one private bit about each; ``users`` is not needed."""
        values = check_values(values, self.num_features)
        if self.m == self.num_features:
            return Reports(self._all_bits(values, source))
        indices = source.subsets(values.shape[0], self.num_features, self.m)
        unit = self.to_unit(entries(values, indices), indices)
        bits = source.words(unit.shape) < bit_thresholds(unit, self._hit)
        small = next(kind for kind in (np.uint16, np.uint32) if self.num_features - 1 <= np.iinfo(kind).max)
        return Reports(bits.view(np.uint8), indices.astype(small))

    def _all_bits(self, values: Values, source: SecretWords) -> NDArray[np.uint8]:
        bits = np.empty(values.shape, np.uint8)
        step = max(1, _BLOCK // self.num_features)
        for start in range(0, values.shape[0], step):
            block = values[start : start + step]
            unit = self.to_unit(dense(block))
            bits[start : start + step] = source.words(unit.shape) < bit_thresholds(unit, self._hit)
        return bits

    def estimate(self, reports: Reports) -> Estimate:
        """Return an unbiased estimate: n m entries around the middle of the range."""
        return self.around_middle(reports, 2.0 * reports.values - 1.0, self._step)

    def variance(self, values: Values | None = None) -> Floats:
        """Return the variance of each coordinate: [n, d], or the largest (in the middle of the range), [d]."""
        largest = self.m / self.num_features * self._step**2
        return largest if values is None else largest - (self.clipped(values) - self.middle) ** 2

    def pmf(self, value: NDArray[np.generic], user: int = 0) -> Pmf:
        """Return the exact probability of every report (indices, bits) on one value of d features."""
        d, m = self.num_features, self.m
        if math.comb(d, m) << m > _MOST_REPORTS:
            raise fail("num_features", d, f"to give at most {_MOST_REPORTS} reports for an exact pmf")
        ones = [Fraction(int(t), WORDS) for t in bit_thresholds(self.to_unit(dense(np.asarray(value))), self._hit)]
        return dict(self._reports(ones))

    def _reports(self, ones: list[Fraction]) -> Iterator[tuple[tuple[int, ...], Fraction]]:
        d, m = self.num_features, self.m
        for chosen in combinations(range(d), m):
            for bits in product((0, 1), repeat=m):
                chance = Fraction(1, math.comb(d, m))
                for column, bit in zip(chosen, bits, strict=True):
                    chance *= ones[column] if bit else 1 - ones[column]
                yield ((*chosen, *bits) if m < d else bits), chance


@dataclass(frozen=True)
class MultiBit(Bits):
    r"""Multi-bit mechanism: m of d features, drawn without replacement, answer one bit each at :math:`\epsilon / m`.

    Let u in [0, 1] be the scaled feature and :math:`p = e^{\epsilon/m} / (e^{\epsilon/m} + 1)`. A sampled feature sends 1
    with probability :math:`1 - p + u (2p - 1)`. A bit b decodes to
    :math:`\mathrm{middle} + (2b - 1) \, d w / (2 m (2p - 1))`, where w is the width of the range. Features that are not
    sampled decode to the middle. The variance of a coordinate is
    :math:`d w^2 / (4 m (2p - 1)^2) - (x - \mathrm{middle})^2`.

    The number m minimizes this variance: it is the integer of least :math:`\coth^2(\epsilon / 2m) / m`. ``rule="paper"`` takes
    :math:`\lfloor \epsilon / 2.18 \rfloor` clamped to [1, d], which has up to a third more variance (at epsilon 4.3). At epsilon
    10 it takes 4, where 5 is best.

    **Formal guarantee.** ``realized_epsilon``-LDP for all features of a user together, delta 0. Proof: the sampled set does
    not depend on x and has exactly m members. Given the set, the m bits are independent, and each has, for any two u, a
    probability ratio of at most H / (2^64 - H) <= e^(epsilon/m) (``noise/exact.py``), reached at the ends of the range.

    Args:
        num_features: number of features d.
        epsilon: budget of the whole report, > 0.
        low: the lower end of the public range, a number or a tuple of d; values outside are clipped.
        high: its upper end, likewise.
        rule: how m is chosen, "best" or "paper".
        sampled: the number m itself; None follows the rule.

    Shapes: reports hold bits uint8 [n, m] and indices [n, m] ascending; the estimate has n m entries. O(n m) time.

    Raises:
        InputError: a setting is out of range.

    >>> MultiBit(1433, epsilon=4.0).m, MultiBit(1433, epsilon=4.0, rule="paper").m
    (2, 1)
    >>> round(float(MultiBit(1433, epsilon=1.0).variance()[0]), 2)
    1677.58

    Source: Sajadmanesh and Gatica-Perez (2021), Locally Private Graph Neural Networks, algorithm 1 and section 3.1.
    """

    rule: Literal["best", "paper"] = "best"
    sampled: int | None = None

    def __post_init__(self) -> None:
        check_choice(("best", "paper"), rule=self.rule)
        if self.sampled is not None:
            check_int(low=1, high=self.num_features, sampled=self.sampled)
        super().__post_init__()

    @cached_property
    def m(self) -> int:
        """The number of features that a report is about."""
        if self.sampled is not None:
            return self.sampled
        if self.rule == "paper":
            return min(max(1, math.floor(self.epsilon / _PAPER_BUDGET_A_BIT)), self.num_features)
        candidates = range(1, min(self.num_features, math.ceil(self.epsilon) + 1) + 1)
        return min(candidates, key=lambda m: 1 / (m * math.tanh(self.epsilon / (2 * m)) ** 2))


@dataclass(frozen=True)
class OneBit(Bits):
    r"""1-bit mechanism: one private bit about every feature, at :math:`\epsilon / d` each.

    :class:`MultiBit` with m = d; a baseline whose variance grows as :math:`d^2`. Of a single feature in [-1, 1] it is
    **Duchi's mechanism**, which :data:`Duchi` names too: the estimate is :math:`\pm (e^\epsilon + 1) / (e^\epsilon - 1)`, and +
    has probability :math:`1/2 + x (e^\epsilon - 1) / (2 e^\epsilon + 2)`.

    **Formal guarantee.** ``realized_epsilon``-LDP for all features together, by composition of d bits.

    Shapes: reports hold bits uint8 [n, d].

    Raises:
        InputError: a setting is out of range.

    >>> round(float(OneBit(1433, epsilon=1.0).variance()[0] / MultiBit(1433, epsilon=1.0).variance()[0]))
    1224

    Source: Ding, Kulkarni and Yekhanin (2017), Collecting Telemetry Data Privately, section 3; Duchi, Jordan and Wainwright
    (2018), Minimax Optimal Procedures for Locally Private Estimation.
    """

    @cached_property
    def m(self) -> int:
        """The number of features: all of them report."""
        return self.num_features


Duchi = OneBit
"""Another name of :class:`OneBit`, which is Duchi's mechanism where there is one feature."""


@dataclass(frozen=True)
class PGC(Bits):
    r"""PGC mechanism: every feature sends one bit at **its own** :math:`\epsilon`, so that a user spends :math:`d \epsilon`.

    With :math:`\alpha` = ``low``, :math:`\beta` = ``high`` and :math:`\Delta = \beta - \alpha`, a feature x sends 1 with
    probability :math:`\frac{1}{e^\epsilon + 1} + \frac{x - \alpha}{\Delta} \cdot \frac{e^\epsilon - 1}{e^\epsilon + 1}`. A bit b
    decodes to :math:`\frac{(e^\epsilon + 1) b - 1}{e^\epsilon - 1} \Delta + \alpha`, of variance
    :math:`\Delta^2 \frac{e^\epsilon}{(e^\epsilon - 1)^2} + (x - \alpha)(\beta - x)`.

    **Formal guarantee.** ``total_epsilon``-LDP, ``total_epsilon`` <= d * epsilon, for all features of a user together;
    ``realized_epsilon`` <= epsilon for one feature with the others fixed. Proof: d independent bits, each of
    probability ratio at most e^epsilon, and composition. The published tables print the budget of one feature.

    Args:
        num_features: number of features d.
        epsilon: budget of each single feature, > 0.
        low: the lower end of the public range, a number or a tuple of d; values outside are clipped.
        high: its upper end, likewise.

    Shapes: reports hold bits uint8 [n, d].

    Raises:
        InputError: a setting is out of range.

    >>> PGC(1433, epsilon=1.0).describe()
    'PGC: epsilon 1433 a user, 1433 bits a report (epsilon 1 for each of 1433 features)'

    Source: Sajadmanesh and Gatica-Perez (2020), When Differential Privacy Meets Graph Neural Networks, equations 2.3 to 2.5.
    """

    _odds = (1, 1)

    @property
    def m(self) -> int:
        """The number of features: all of them report."""
        return self.num_features

    @cached_property
    def total_epsilon(self) -> float:
        """The total that a user spends over its d features, rounded upward."""
        return realized(self._hit, 1, 1, self.num_features)

    @property
    def thresholds(self) -> dict[str, int | float]:
        """The share of words that gives the likelier answer, for each of d bits."""
        return shares(self._hit, 1, 1, self.num_features)

    def describe(self) -> str:
        """Return a line that names first what a user spends in total."""
        return f"{super().describe()} (epsilon {self.epsilon:g} for each of {self.num_features} features)"
