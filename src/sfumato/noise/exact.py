r"""The primitive behind every finite randomizer: k of N outcomes are favored, each :math:`e^\epsilon` times as likely as another.

A favored outcome gets H of the 2^64 words, H the largest integer with :math:`H (N - k) \le e^\epsilon (2^{64} - k H)`;
the rest is shared evenly, by an exactly uniform draw, among the N - k other outcomes. So probabilities are the rationals
H / 2^64 and (1 - k H / 2^64) / (N - k), and their log-ratio is at most epsilon.
"""

from __future__ import annotations

import math
import sys
from decimal import ROUND_FLOOR, Context, Decimal
from fractions import Fraction

from sfumato._validate import check_real, fail

WORDS = 1 << 64
_CONTEXT = Context(prec=120, rounding=ROUND_FLOOR, Emin=-(10**6), Emax=10**6)
_SHRINK = _CONTEXT.subtract(1, Decimal("1e-60"))  # outweighs the roundings, relative 1e-118, before the floor
_STRETCH = _CONTEXT.add(1, Decimal("1e-80"))  # of a logarithm above 1e-20, off by 1e-118; the shrinking outweighs it
_LARGEST = 500.0


def check_epsilon(epsilon: float) -> float:
    """Check that integer thresholds can express a budget: it must be positive and at most 10^6.

    Raises:
        InputError: the budget is outside this range.

    >>> check_epsilon(0.5)
    0.5
    """
    return check_real(low=0, high=1e6, open_low=True, epsilon=epsilon)


def hit_share(epsilon: float, favored: int, others: int, parts: int = 1) -> int:
    """Return H, the share of 2^64 words that each favored outcome gets.

    Args:
        epsilon: the budget of all parts together.
        favored: the number k of favored outcomes.
        others: the number N - k of other outcomes.
        parts: number of such draws over which the budget is split evenly.

    Raises:
        InputError: the budget is so small that a favored outcome would get no more than the others.

    >>> hit_share(1.0, 1, 1) / 2**64
    0.7310585786300049
    """
    each = _CONTEXT.divide(Decimal(epsilon), parts)
    power = _CONTEXT.exp(min(each, Decimal(_LARGEST)))
    total = _CONTEXT.add(others, _CONTEXT.multiply(power, favored))
    share = _CONTEXT.divide(_CONTEXT.multiply(power, WORDS), total)
    hit = int(_CONTEXT.multiply(share, _SHRINK))
    if hit * (favored + others) <= WORDS:
        raise fail("epsilon", epsilon, f"to be large enough for {parts} parts on a grid of 2^-64")
    return min(hit, (WORDS - others) // favored)


def realized(hit: int, favored: int, others: int, parts: int = 1) -> float:
    """Return the epsilon that H really gives over all ``parts``: the log-ratio times ``parts``, rounded upward.

    ``hit`` is H, ``favored`` the number k of favored outcomes and ``others`` the number N - k of others.

    >>> realized(hit_share(1.0, 1, 1), 1, 1) <= 1.0
    True
    """
    ratio = _CONTEXT.divide(hit * others, WORDS - favored * hit)
    return round_up(_CONTEXT.multiply(_CONTEXT.multiply(_CONTEXT.ln(ratio), parts), _STRETCH))


def round_up(number: Decimal | Fraction) -> float:
    """Return the least float that is not below ``number``, or infinity.

    >>> round_up(Fraction(1, 10)) >= Fraction(1, 10)
    True
    """
    if number > Fraction(sys.float_info.max):
        return math.inf
    value = float(number)
    return value if Fraction(value) >= Fraction(number) else math.nextafter(value, math.inf)


def probabilities(hit: int, favored: int, others: int) -> tuple[Fraction, Fraction]:
    """Return the exact probabilities of one favored outcome and of one other outcome.

    ``hit`` is H, ``favored`` the number k of favored outcomes and ``others`` the number N - k of others.

    >>> probabilities(2**63, 1, 2)
    (Fraction(1, 2), Fraction(1, 4))
    """
    return Fraction(hit, WORDS), Fraction(WORDS - favored * hit, WORDS * others)
