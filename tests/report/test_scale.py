"""Numbers for one person: against the theorem in exact arithmetic, and never rounded to what is not true."""

import math
import re
from decimal import Decimal
from fractions import Fraction
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sfumato.report._scale import belief_after, factor, one_in, right_guesses, scale_figure

EPSILONS = st.floats(0, 30)
DELTAS = st.floats(1e-15, 0.5)


@given(EPSILONS, DELTAS)
def test_guesses_are_those_of_the_worst_mechanism_rounded_upward(epsilon, delta):
    odds = math.exp(epsilon)
    truth = 100 * (delta + (1 - delta) * odds / (1 + odds))
    shown = float(right_guesses(epsilon, delta))
    assert truth - 1e-9 <= shown <= min(100.0, truth + 0.1 + 1e-9)


def test_randomized_response_reaches_the_bound():
    """Epsilon ln 3: the true answer with probability 3/4, and so is the best guess right."""
    assert right_guesses(math.log(3), 0.0) in ("75", "75.1")
    assert Decimal(right_guesses(math.log(3) - 1e-9, 0.0)) == 75


@given(EPSILONS, st.integers(1, 99))
def test_beliefs_follow_the_odds(epsilon, percent):
    odds = math.exp(epsilon) * percent / (100 - percent)
    truth = 100 * odds / (1 + odds)
    assert truth - 1e-9 <= float(belief_after(epsilon, percent)) <= min(100.0, truth + 0.1 + 1e-9)


@given(DELTAS)
def test_one_in_so_many_is_never_too_rare(delta):
    exact = Fraction(Decimal(repr(delta)))
    text = one_in(delta).removeprefix("one in ")
    words = {"ten": 10, "a hundred": 100, "a thousand": 10**3, "ten thousand": 10**4, "a hundred thousand": 10**5,
             "a million": 10**6, "ten million": 10**7, "a hundred million": 10**8}  # fmt: skip
    power = text.partition("10^")[2]
    number = words.get(text) or (10 ** int(power) if power else int(text.replace(",", "")))
    assert exact <= Fraction(1, number)
    assert power or exact > Fraction(1, number + 1)


@pytest.mark.parametrize(
    ("delta", "words"),
    [(1e-5, "a hundred thousand"), (1e-6, "a million"), (1e-7, "ten million"), (0.3, "3"), (1e-9, "1,000,000,000")],
)
def test_round_deltas_have_round_words(delta, words):
    assert one_in(delta) == f"one in {words}"


@given(st.floats(0, 60))
def test_odds_are_rounded_upward(epsilon):
    shown = factor(epsilon)
    number = 10 ** int(shown[3:]) if shown.startswith("10^") else float(shown.replace(",", ""))
    assert number >= math.exp(epsilon) * (1 - 1e-12)


def test_the_scale_marks_the_claim_once():
    words = scale_figure({"epsilon": 0.99999999, "delta": 1e-7}).description
    assert "this model, epsilon 1: at most 73.2 of 100" in words
    assert words.count("epsilon 1:") == 1
    assert words.index("epsilon 0.5") < words.index("this model") < words.index("epsilon 2:")
    assert "this model, epsilon 12.5: at most 100" in scale_figure({"epsilon": 12.5, "delta": 0.0}).description


def test_the_table_of_the_documentation_holds_these_numbers():
    page = (Path(__file__).parents[2] / "docs" / "records.md").read_text()
    rows = re.findall(r"^\| ([\d.]+) \| ([\d.]+) \| ([\d.,]+) times? \|$", page, re.MULTILINE)
    assert len(rows) == 7
    for epsilon, right, grown in rows:
        assert right == right_guesses(float(epsilon), 0.0)
        assert float(grown.replace(",", "")) == float(factor(float(epsilon)).replace(",", ""))
