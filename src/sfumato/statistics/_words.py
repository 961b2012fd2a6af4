"""Answers of a run of statistics in words, for screens and pages."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from sfumato.method._plan import Plan
    from sfumato.statistics._answer import Answer

_WIDE, _MOST_ROWS = 2.0, 40
COVERS = "An interval covers the noise that protects people, and nothing else."


def number_words(value: float | None) -> str:
    """Write a number for people.

    >>> number_words(12345.0), number_words(0.12345), number_words(41.94), number_words(None)
    ('12,345', '0.1235', '41.94', '-')
    """
    if value is None:
        return "-"
    return f"{value:,.0f}" if value == int(value) or abs(value) >= 1e3 else f"{value:.4g}"


def interval_words(one: Answer) -> str:
    """Write the interval of an answer; a tilde says that it is approximate.

    >>> from sfumato.statistics._answer import Answer
    >>> interval_words(Answer("edges", "", 20.0, 18.0, 22.0, 0.95)), interval_words(Answer("edges", "", 2.0, 0.0, 9.0, 0.95))
    ('[18, 22]', '[0, 9] mostly noise')
    """
    if one.value is None or one.low is None or one.high is None:
        return "not drawn: the noise would be wider than any count"
    told = f"[{number_words(one.low)}, {number_words(one.high)}]" + ("" if one.exact else " ~")
    return told + (" mostly noise" if is_noise(one) else "")


def is_noise(one: Answer) -> bool:
    """Whether an interval says little: it is wider than twice its number, or all that there may be."""
    if one.value is None or one.low is None or one.high is None:
        return True
    return one.high - one.low > _WIDE * abs(one.value) or (one.coverage == 1 and one.low < one.high)


def holds_words(answers: Sequence[Answer], confidence: float) -> str:
    """Say in how many runs an interval holds its number, and how many of these are wrong.

    >>> from sfumato.statistics._answer import Answer
    >>> holds_words([Answer("edges", "", 20.0, 18.0, 22.0, 0.95)] * 55, 0.95)
    'Each interval holds its number in at least 95 % of all runs. Of 55 intervals up to about 3 miss it; nothing says which.'
    """
    told, count = f"Each interval holds its number in at least {100 * confidence:g} % of all runs.", len(answers)
    wrong = round(count * (1 - confidence))
    return told if not wrong else f"{told} Of {count} intervals up to about {wrong} miss it; nothing says which."


def mark_words(answers: Sequence[Answer]) -> Iterator[str]:
    """Explain the marks that stand beside answers."""
    if any(not one.exact for one in answers):
        yield "~ marks an interval that is approximate: it comes from noise that was drawn again."
    if any(one.value is None for one in answers):
        yield "A dash marks a count that was not drawn: its noise would be wider than any count."
    if any(interval_words(one).endswith("noise") for one in answers):
        yield "Mostly noise: the interval is wider than twice the number, or as wide as can be. Ask for less, or spend more."
    if any(one.value in (one.low, one.high) and one.low != one.high and one.value for one in answers):
        yield "Where a number is an end of its interval, the interval was stretched to it: the other numbers speak for it."


def cost_words(plan: Plan) -> str:
    """Say what a plan costs, in one line."""
    if not plan.unit.private:
        return "No privacy: these numbers are exact, and must stay."
    return f"Cost: epsilon {plan.epsilon:.6g}, delta {plan.delta:g}, for {plan.unit.describe()}."


def answer_lines(answers: Sequence[Answer], confidence: float, plan: Plan) -> Iterator[str]:
    """Yield a table of answers: what intervals cover, one line for each answer, and what all of them cost."""
    if plan.unit.private:
        yield f"{COVERS} {holds_words(answers, confidence)}"
    words = max((len(one.what) for one in answers), default=0)
    numbers = max((len(number_words(one.value)) for one in answers), default=0)
    for name in dict.fromkeys(one.statistic for one in answers):
        some = [one for one in answers if one.statistic == name]
        yield ""
        yield name
        for one in some[:_MOST_ROWS]:
            interval = f"  {interval_words(one)}" if plan.unit.private else ""
            yield f"  {one.what:{words}}  {number_words(one.value):>{numbers}}{interval}"
        if len(some) > _MOST_ROWS:
            yield f"  and {len(some) - _MOST_ROWS} more, beside these"
    yield ""
    yield from mark_words(answers) if plan.unit.private else ()
    yield cost_words(plan)
