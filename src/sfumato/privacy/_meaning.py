"""How often a guess can be right: what epsilon and delta mean for one record, rounded so that it stays true."""

from __future__ import annotations

from decimal import ROUND_CEILING, Context, Decimal

EXACT = Context(prec=60)
_LARGEST = 1000.0


def right_guesses(epsilon: float, delta: float) -> str:
    r"""Return how many of 100 guesses between two equally likely cases can be right at most, rounded upward to one decimal.

    **Formal guarantee.** Whoever sees an (epsilon, delta)-private release guesses right with probability at most
    :math:`(e^\epsilon + \delta) / (1 + e^\epsilon)` (Kairouz, Oh, Viswanath 2015).

    >>> right_guesses(1.0, 1e-6)
    '73.2'
    """
    return tenths(100 * (odds(epsilon) + Decimal(repr(delta))) / (1 + odds(epsilon)))


def odds(epsilon: float) -> Decimal:
    """Return e^epsilon, by which odds can be multiplied at most."""
    return EXACT.exp(Decimal(min(epsilon, _LARGEST)))


def tenths(value: Decimal) -> str:
    """Return a share of 100, rounded upward to one decimal."""
    return f"{min(value, Decimal(100)).quantize(Decimal('0.1'), ROUND_CEILING, EXACT).normalize():f}"
