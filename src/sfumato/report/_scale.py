"""What epsilon and delta mean for one person: guesses, odds and chances, each rounded so that it stays true.

An (epsilon, delta)-private release about two equally likely cases is a random function of this one (Kairouz, Oh, Viswanath
2015): with probability delta it shows the case, otherwise the true case with probability e^epsilon / (1 + e^epsilon).
"""

from __future__ import annotations

from collections.abc import Mapping
from decimal import ROUND_CEILING, Decimal
from typing import Any

from sfumato.privacy._meaning import EXACT, odds, tenths
from sfumato.privacy._meaning import right_guesses as right_guesses
from sfumato.record._certificate import round_up
from sfumato.report._drawing import PALETTE, Figure, canvas, finish, style

_STEPS = (0.0, 0.1, 0.5, 1.0, 2.0, 4.0, 8.0)
_TENS = {
    10: "ten",
    100: "a hundred",
    1000: "a thousand",
    10**4: "ten thousand",
    10**5: "a hundred thousand",
    10**6: "a million",
    10**7: "ten million",
    10**8: "a hundred million",
}


def belief_after(epsilon: float, percent: int) -> str:
    r"""Return what a belief of so many percent can become at most, rounded upward to one decimal.

    **Formal guarantee.** Outside an event of probability delta a belief p becomes at most
    :math:`e^\epsilon p / (1 - p + e^\epsilon p)`.
    """
    grown = odds(epsilon) * percent
    return tenths(100 * grown / (100 - percent + grown))


def factor(epsilon: float) -> str:
    """Return by how much odds can be multiplied at most: e^epsilon, rounded upward."""
    grown = odds(epsilon)
    if grown >= 10**9:
        return f"10^{grown.adjusted() + 1}"
    places = Decimal("0.01") if grown < 100 else Decimal(1)
    return f"{grown.quantize(places, ROUND_CEILING, EXACT):,f}"


def one_in(delta: float) -> str:
    """Return a probability as "one in so many", with the largest integer for which "at most one in" is true."""
    number = int(EXACT.divide(Decimal(1), Decimal(repr(delta))))
    if number >= 10**12:
        return f"one in 10^{len(str(number)) - 1}"
    return f"one in {_TENS.get(number, f'{number:,}')}"


def drawn(epsilon: float) -> str:
    """Return in how many of 100 cases a conclusion is drawn at most that is drawn in one of 100 without the protected part.

    >>> drawn(1.0), drawn(9.0)
    ('2.8', '100')
    """
    return tenths(min(odds(epsilon), Decimal(100)))


def strength(right: str) -> str:
    """Say in plain words how weak a limit is that allows so many right guesses of 100; nothing below 75.

    >>> strength("98.2")[:20], strength("73.2")
    ('This limit is weak: ', '')
    """
    if float(right) > 99.9:
        return "This limit is weak: at this size, the number by itself promises almost nothing."
    if float(right) >= 90:
        return f"This limit is weak: it allows that {right} of 100 guesses are right, and a guess that is always right has 100."
    if float(right) >= 75:
        return f"This limit is moderate: it allows that {right} of 100 guesses are right, and a coin has 50."
    return ""


def size_words(claim: Mapping[str, float]) -> str:
    """Return epsilon and delta in the form of the page for data protection officers, neither rounded down.

    >>> size_words({"epsilon": 1.0, "delta": 1e-6}), size_words({"epsilon": 0.5, "delta": 0.0})
    ('epsilon = 1, delta = one in a million', 'epsilon = 0.5, delta = 0')
    """
    delta = claim["delta"]
    return f"epsilon = {round_up(claim['epsilon'])}, delta = {one_in(delta) if 0 < delta < 1 else f'{delta:g}'}"


def scale_rows(claim: Mapping[str, Any], name: str = "this model") -> list[tuple[str, str, bool]]:
    """Return how often a guess is right at most, at some epsilons and a claim's: words, right of 100, whether it is its."""
    mine = (claim["epsilon"], f"{name}, epsilon {round_up(claim['epsilon'])}", right_guesses(**claim), True)
    others = [
        (step, f"epsilon {step:g}", right_guesses(step, 0.0), False)
        for step in _STEPS
        if round_up(step) != round_up(claim["epsilon"])
    ]
    return [row[1:] for row in sorted([mine, *others])]


def scale_figure(claim: Mapping[str, Any], name: str = "this model") -> Figure:
    """Draw how often a guess can be right, for some epsilons and for that of a ``claim``, which is marked and called ``name``."""
    rows = scale_rows(claim, name)
    with style():
        figure, axes = canvas(0.9 + 0.5 * len(rows))
        for at, (name, right, mine) in enumerate(reversed(rows)):
            axes.barh(at, float(right) - 50, 0.34, left=50, color=PALETTE[0] if mine else PALETTE[6], alpha=0.9)
            weight = "bold" if mine else "normal"
            axes.text(50, at + 0.24, f"{name}: at most {right}", va="bottom", fontweight=weight)
        axes.set_yticks([])
        axes.set_xlim(50, 100)
        axes.set_ylim(-0.4, len(rows) - 0.25)
        axes.set_xlabel("right guesses of 100 (50: a coin)")
        axes.grid(False, axis="y")
        axes.spines["left"].set_visible(False)
        words = "; ".join(f"{name}: at most {right} of 100" for name, right, _ in rows)
        title = "How often a guess can be right. Gray bars: other epsilons, at delta 0"
        return finish(figure, "figure-scale", title, f"{title}. {words}.")
