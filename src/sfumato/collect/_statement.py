"""The words of the budget statement: what a device sends in place of values, and what its epsilon means to its user."""

from __future__ import annotations

import math
from collections.abc import Mapping
from decimal import ROUND_CEILING, Context, Decimal

WORDS: Mapping[str, str] = {
    "multi-bit": "noisy bits about some of the features, drawn at random",
    "one-bit": "a noisy bit about each feature",
    "pgc": "a noisy bit about each feature",
    "laplace": "each number with random noise on it",
    "gaussian": "each number with random noise on it",
    "piecewise": "noisy numbers for some of the features, drawn at random",
    "collision": "a random number, which hints at the features that are above 0",
    "direction": "a noisy bit about all features together",
    "subset": "a random set of classes, which holds yours more often than any other",
    "randomized-response": "a random class, which is yours more often than any other",
    "links": "a noisy number of links, and a noisy bit about each other user",
}
"""What a device sends by each mechanism."""
_SHOWN = 5
_NEVER_SURE = Decimal("99.9")


def rounded(number: float, digits: int = 6) -> str:
    """Print a number with so many digits, never below its value."""
    return f"{float(Context(prec=digits, rounding=ROUND_CEILING).create_decimal(repr(number))):.{digits}g}"


def sent(mechanism: str, bits: int) -> str:
    """Say what a device sends in place of values."""
    return f"Instead of your true answer, your device sends {WORDS[mechanism]} ({mechanism}, {bits:,} bit{'s' * (bits != 1)})."


def cost(epsilon: float, allowed: float) -> str:
    """Say what a part of a report costs, and that it is less than what was ``allowed`` if it is."""
    rest = "" if rounded(epsilon) == rounded(allowed) else (
        f" of the {rounded(allowed)} that the questions allow; this randomizer cannot spend more"
    )  # fmt: skip
    return f"Cost: epsilon {rounded(epsilon)}{rest}."


def ranges(columns: Mapping[str, tuple[float, float]]) -> str:
    """Name the first five features, each with its range."""
    shown = [f"{name} (from {low:.15g} to {high:.15g})" for name, (low, high) in list(columns.items())[:_SHOWN]]
    more = [f"and {len(columns) - _SHOWN:,} more"] * (len(columns) > _SHOWN)
    return f"{len(columns):,} feature{'s' * (len(columns) != 1)}: {', '.join([*shown, *more])}"


def meaning(epsilon: float, delta: float, links: bool) -> str:
    r"""Say what the cost of a report means: how often a guess between two answers is right.

    Whoever guesses which of two equally likely answers led to a report is right with probability
    :math:`(e^\epsilon + \delta) / (e^\epsilon + 1)` at most, where the report costs ``epsilon`` and ``delta``. With ``links`` the
    answers are a link and none.
    """
    if links:
        return (
            "Somebody who guesses whether you have a certain link is right 50 % of the time without your report, at most "
            f"{_right(epsilon, delta)} % with it, and at most {_right(2 * epsilon, delta)} % with the reports of both ends."
            f"{_weak(epsilon)}"
        )
    return (
        "Somebody who guesses which of two answers is yours is right 50 % of the time without your report, and at most "
        f"{_right(epsilon, delta)} % with it.{_weak(epsilon)}"
    )


def _right(epsilon: float, delta: float) -> str:
    wrong = (1 - delta) / (1 + math.exp(min(epsilon, 700.0)))
    percent = (100 - 100 * Decimal(wrong)).quantize(Decimal("0.1"), ROUND_CEILING)
    return "100" if percent > _NEVER_SURE else f"{percent.normalize():f}"


def _weak(epsilon: float) -> str:
    return " This is a weak promise." if epsilon > 5 else ""
