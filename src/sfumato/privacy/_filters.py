r"""Privacy filters: stop in time when each plan's price is chosen after seeing what earlier plans released.

Inside one plan every event is fixed before data, and :mod:`sfumato.privacy.accounting` composes their privacy loss
distributions. *Across* plans that is not valid: convolution adds up losses of pairs (P_i, Q_i) that do not depend on
outcomes, whereas here an analyst may look at an answer and then choose the pair that hurts most at the loss reached so
far. Of two pairs whose trade-off functions cross, neither is the worst at every loss, and the expectation of the larger is
larger than both. Two sums survive, because one curve dominates whatever is chosen:

* :class:`BasicFilter`: (epsilon, delta) add up. By induction on the number of releases: if the rest costs at most
  (e - epsilon_1, d - delta_1) after every answer y, P(S | y) <= min(1, e^(e - epsilon_1) Q(S | y)) + d - delta_1, and the first
  release turns the expectation of the min into at most e^epsilon_1 that under Q, plus delta_1.
* :class:`GaussianFilter`: squares of mu add up (Smith and Thakurta 2022; Koskela, Tobaben and Honkela 2022). Pure events have a
  mu too (:mod:`~sfumato.privacy._pure_gdp`).

Plans that run at the same time are covered: every filter of these two kinds stays valid when interactive mechanisms are
interleaved (Haney, Shoemate, Tian, Vadhan, Vyrros, Xu and Zhang 2023). Which filter guards a data set must be fixed before
the first release: "whichever of two still has room" is no filter (a test shows 1.8 times its delta).

**Arithmetic.** Prices are exact fractions of the decimals that numbers print as, so that ten times 0.1 is 1 and no claim
is too small to count.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from decimal import ROUND_CEILING, ROUND_FLOOR, Context, Decimal
from fractions import Fraction

from sfumato._validate import check_int, check_real, fail
from sfumato.errors import BudgetExceededError
from sfumato.noise._rectangles import SAMPLER_TAU
from sfumato.noise.exact import round_up
from sfumato.privacy._pure_gdp import pure_mu
from sfumato.privacy.events import Event, GaussianEvent, flatten

_SAMPLER_SHARE = Fraction(1, 2**32)  # of a Gaussian filter's delta
_MARGIN = 1e-10  # on log delta; covers its rounding
Prices = dict[str, Fraction]


@dataclass(frozen=True)
class Charge:
    """What a plan costs: the claim that it makes, and what a Gaussian filter needs besides.

    ``delta`` holds the share of the noise sampler. ``mu`` is that of all events together (:func:`gaussian_mu`), None unless
    all are Gaussian or pure; ``draws`` are the noise draws that a record can touch, each within ``SAMPLER_TAU`` of its exact law.

    >>> Charge(epsilon=1.0, delta=1e-7).mu is None
    True
    """

    epsilon: float
    delta: float
    mu: float | None = None
    draws: int = 0

    def __post_init__(self) -> None:
        check_real(low=0, epsilon=self.epsilon)
        check_real(low=0, high=1, open_high=True, delta=self.delta)
        check_int(low=0, draws=self.draws)
        if self.mu is not None:
            check_real(low=0, mu=self.mu)


def gaussian_mu(events: Sequence[Event]) -> float | None:
    """Return the mu of all events together, rounded up; None if an event is neither a Gaussian release nor pure.

    **Formal guarantee.** The events together are mu-GDP under their relation: telling neighboring data sets apart is at least
    as hard as telling N(mu, 1) from N(0, 1). Squares add up: of a Gaussian release count / noise_multiplier^2, of a pure event
    that of :func:`~sfumato.privacy._pure_gdp.pure_mu`.

    >>> round(gaussian_mu([GaussianEvent(noise_multiplier=2.0, count=3), GaussianEvent(noise_multiplier=1.0)]), 6)
    1.322876

    Source: Dong, Roth and Su 2019, corollary 3.3.
    """
    square = Fraction(0)
    for event, times in flatten(events):
        if isinstance(event, GaussianEvent):
            square += times * event.count / _exact(event.noise_multiplier) ** 2
            continue
        pure = event.pure()
        if pure is None:
            return None
        square += times * event.repeats() * _exact(pure_mu(round_up(pure))) ** 2
    mu = math.sqrt(square)
    while _exact(mu) ** 2 < square:
        mu = math.nextafter(mu, math.inf)
    return mu


class Filter(ABC):
    """What the filters share: totals fixed at construction, prices that add up, refusal before overspending.

    Charges ``spent`` already count even where they exceed the ``totals``, and so does what ``sums`` says of others.

    >>> issubclass(BasicFilter, Filter)
    True
    """

    def __init__(
        self, totals: Prices, spent: Iterable[Charge] = (), sums: Mapping[str, Fraction] | None = None
    ) -> None:
        self._totals = totals
        self._spent = dict.fromkeys(totals, Fraction(0)) | dict(sums or {})
        for item in spent:
            self._add(self.price(item))

    @abstractmethod
    def price(self, item: Charge) -> Prices:
        """Return what an item adds to each sum, as exact fractions."""

    @property
    def spent(self) -> Prices:
        """What all charges cost together, as exact fractions."""
        return dict(self._spent)

    @property
    def remaining(self) -> dict[str, float]:
        """What is left of each sum, rounded down; 0 where nothing is left."""
        return {name: max(0.0, _below(total - self._spent[name])) for name, total in self._totals.items()}

    def would_exceed(self, item: Charge) -> bool:
        """Return whether :meth:`charge` would refuse the item."""
        return bool(self._shortfalls(self.price(item)))

    def charge(self, item: Charge) -> None:
        """Count an item before it is released, or raise and count nothing."""
        price = self.price(item)
        short = self._shortfalls(price)
        if short:
            raise BudgetExceededError(
                f"Expected a charge within what is left, got {'; '.join(self._excess(price, name) for name in short)}. "
                "Nothing was charged. Ask for less, or stop: the total was fixed before the first release."
            )
        self._add(price)

    def _shortfalls(self, price: Prices) -> list[str]:
        return [name for name, total in self._totals.items() if self._spent[name] + price[name] > total]

    def _excess(self, price: Prices, name: str) -> str:
        left = self._totals[name] - self._spent[name]
        return (
            f"{name} {show(price[name])} with {show(max(left, Fraction(0)), up=False)} of "
            f"{show(self._totals[name], up=False)} left, short by {show(price[name] - left)}"
        )

    def _add(self, price: Prices) -> None:
        for name, amount in price.items():
            self._spent[name] += amount


class BasicFilter(Filter):
    """A filter that adds up the epsilons and the deltas of all charges.

    **Formal guarantee.** However charges are chosen from earlier answers, all releases together are
    (epsilon, delta)-DP, if each is what its charge claims, given all answers before it, under one relation.

    >>> budget = BasicFilter(epsilon=1.0, delta=1e-6, spent=[Charge(0.7, 1e-7)])
    >>> budget.remaining
    {'epsilon': 0.3, 'delta': 9e-07}
    >>> budget.charge(Charge(0.4, 1e-7))  # doctest: +IGNORE_EXCEPTION_DETAIL
    Traceback (most recent call last):
    BudgetExceededError: Expected a charge within what is left, got epsilon 0.4 with 0.3 of 1 left, short by 0.1.

    Source: Rogers, Roth, Ullman and Vadhan 2016, basic composition; proof above.
    """

    def __init__(
        self,
        epsilon: float,
        delta: float = 0.0,
        spent: Iterable[Charge] = (),
        sums: Mapping[str, Fraction] | None = None,
    ) -> None:
        epsilon = check_real(low=0, open_low=True, epsilon=epsilon)
        delta = check_real(low=0, high=1, open_high=True, delta=delta)
        super().__init__({"epsilon": _exact(epsilon), "delta": _exact(delta)}, spent, sums)

    def price(self, item: Charge) -> Prices:
        """Return the epsilon and the delta that the charge claims."""
        return {"epsilon": _exact(item.epsilon), "delta": _exact(item.delta)}


class GaussianFilter(Filter):
    r"""A filter that adds up mu^2, for plans of Gaussian and pure releases only.

    It allows as much as if all plans had been fixed in advance. The total is the largest :math:`\mu^2` with
    :math:`\delta_\mu(\epsilon) \le \delta (1 - 2^{-32})`. The distances of noise samplers from the exact laws,
    (1 + e^epsilon) tau a draw, must fit into the rest of delta.

    **Formal guarantee.** However charges are chosen from earlier answers, all releases together are (epsilon, delta)-DP,
    if each is mu-GDP, given all answers before it, under one relation.

    >>> budget = GaussianFilter(epsilon=1.0, delta=1e-6)
    >>> plan = Charge(epsilon=0.5, delta=1e-6, mu=gaussian_mu([GaussianEvent(noise_multiplier=8.5)]))
    >>> plans = 0
    >>> while not budget.would_exceed(plan):
    ...     budget.charge(plan)
    ...     plans += 1
    >>> plans
    4

    Source: Smith and Thakurta 2022; Koskela, Tobaben and Honkela 2022, section 4.
    """

    def __init__(
        self, epsilon: float, delta: float, spent: Iterable[Charge] = (), sums: Mapping[str, Fraction] | None = None
    ) -> None:
        epsilon = check_real(low=0, high=700, open_low=True, epsilon=epsilon)
        delta = check_real(low=0, high=1, open_low=True, open_high=True, delta=delta)
        self._draw = (1 + Fraction(math.exp(epsilon) * (1 + _MARGIN))) * Fraction(SAMPLER_TAU)
        samplers = _exact(delta) * _SAMPLER_SHARE
        super().__init__({"mu^2": _exact(_largest_mu(epsilon, delta)) ** 2, "sampler delta": samplers}, spent, sums)

    def price(self, item: Charge) -> Prices:
        """Return mu^2 of the charge, and what its noise draws add to delta."""
        if item.mu is None:
            raise fail(
                "mu", None, "of a plan of Gaussian and pure releases only", "Guard this data set with a BasicFilter."
            )
        return {"mu^2": _exact(item.mu) ** 2, "sampler delta": item.draws * self._draw}


def show(amount: Fraction, *, up: bool = True) -> str:
    """Print an amount with at most 9 digits. What is spent is rounded up, so that it is never below the truth, what is left down.

    >>> show(Fraction(7, 20)), show(Fraction("1e-7")), show(Fraction(1, 3)), show(Fraction(1, 3), up=False)
    ('0.35', '1e-7', '0.333333334', '0.333333333')
    >>> show(Fraction("3.9999999999999856")), show(Fraction("3.9999999999999856"), up=False)
    ('4', '3.99999999')
    """
    rounding = ROUND_CEILING if up else ROUND_FLOOR
    value = Context(prec=9, rounding=rounding).divide(Decimal(amount.numerator), Decimal(amount.denominator))
    value = value.normalize()
    return f"{value:f}" if value == 0 or -5 < value.adjusted() < 16 else f"{value:e}"


def _exact(value: float) -> Fraction:
    """Return the decimal that a float prints as."""
    return Fraction(repr(float(value)))


def _below(exact: Fraction) -> float:
    """Return the nearest float that prints as no more."""
    nearest = float(exact)
    return nearest if _exact(nearest) <= exact else math.nextafter(nearest, -math.inf)


def _largest_mu(epsilon: float, delta: float) -> float:
    """Return the largest mu whose releases cost at most epsilon at delta, less the samplers' share and a margin."""
    from sfumato.privacy.accounting import gaussian_log_delta

    goal = math.log(delta) + math.log1p(-float(_SAMPLER_SHARE)) - _MARGIN
    low, high = 0.0, 1.0
    while gaussian_log_delta(high, epsilon) <= goal:
        low, high = high, 2 * high
    while low < (middle := (low + high) / 2) < high:
        low, high = (middle, high) if gaussian_log_delta(middle, epsilon) <= goal else (low, middle)
    return low
