"""Answers of a run of statistics in words, for screens and pages."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sfumato.method._plan import Plan
    from sfumato.statistics._answers import Answer

COVERS = "An interval covers the noise that protects people, and nothing else."


def number_words(value: float | None) -> str:
    """Write a number for people.

    >>> number_words(12345.0), number_words(0.12345), number_words(41.94), number_words(None)
    ('12,345', '0.1235', '41.94', '-')
    """
    if value is None:
        return "-"
    return f"{value:,.0f}" if value == int(value) or abs(value) >= 1e4 else f"{value:.4g}"


def interval_words(one: Answer) -> str:
    """Write the interval of an answer; a tilde says that it is approximate."""
    if one.low is None or one.high is None:
        return "not drawn: the noise would be wider than any count"
    return f"[{number_words(one.low)}, {number_words(one.high)}]" + ("" if one.exact else " ~")


def cost_words(plan: Plan) -> str:
    """Say what a plan costs, in one line."""
    if not plan.unit.private:
        return "No privacy: these numbers are exact, and must stay."
    return f"Cost: epsilon {plan.epsilon:.6g}, delta {plan.delta:g}, for {plan.unit.describe()}."
