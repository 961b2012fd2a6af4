"""Users read true numbers: no cost below its value, every range, and what epsilon means for a guess."""

from math import exp

import pytest
from wire_messages import ASKED, label, schema_of

from sfumato.collect._statement import WORDS, cost, meaning, rounded
from sfumato.randomizers._questions import LABEL_MECHANISMS, MECHANISMS

SAID = {
    "multi-bit": ("epsilon 4 in total,", "7 features: a (from 0 to 1), b (from 0 to 1),", "and 2 more.",
                  "drawn at random (multi-bit, 8 bits). Cost: epsilon 4.", "at most 98.3 % with it."),
    "gaussian": ("epsilon 1 and delta 1e-06 in total,", "2 features: a (from 0 to 1), b (from 0 to 1).",
                 "at most 73.2 % with it."),
    "pgc": ("epsilon 3 in total,", "(pgc, 3 bits). Cost: epsilon 3.", "at most 95.3 % with it."),
    "subset": ("epsilon 1 in total,", "label, one of 7 classes.", "(subset, 5 bits). Cost: epsilon 1."),
    "features and label": ("epsilon 5 in total,", "label, one of 3 classes.", "at most 99.4 % with it."),
    "links": ("epsilon 4 in total,", "your links to 5 other users.", "Cost: epsilon 4. That is for one link in one list; a link "
              "that both ends report costs epsilon 8.", "at most 98.3 % with it, and at most 100 % with the reports of both"),
}  # fmt: skip


@pytest.mark.parametrize("name", SAID)
def test_statement_says_the_numbers(name):
    text = schema_of(ASKED[name]).statement()
    assert f"This report costs you {SAID[name][0]} once" in text
    for words in (*SAID[name][1:], "reading-2026", "2026-12-01T00:00:00Z to 2027-01-01T00:00:00Z"):
        assert words in text


def test_ranges_where_values_are_clipped_are_shown():
    columns = {"columns": [{"name": "age", "min": 18, "max": 120.5}], "epsilon": 1.0}
    text = schema_of({"features": columns}).statement()
    assert "You are asked for 1 feature: age (from 18 to 120.5). A number outside its range counts as" in text


def test_every_mechanism_has_words():
    assert set(WORDS) == {*MECHANISMS, *LABEL_MECHANISMS, "links"}


@pytest.mark.parametrize(
    "number", [2.0000049, 1 / 3, 0.1, 49.99999999362559, 88.72283911167301, 1e-6, 1e-10, 12345.678]
)
@pytest.mark.parametrize("digits", [3, 6])
def test_no_number_is_shown_below_its_value(number, digits):
    shown = float(rounded(number, digits))
    assert number <= shown <= number * (1 + 10.0 ** (1 - digits))
    assert len(rounded(number, digits).replace(".", "").strip("0").split("e")[0]) <= digits


def test_a_budget_that_cannot_be_spent_is_said():
    assert "epsilon 44.3615 of the 50 that the questions allow" in schema_of(label(3, epsilon=50.0)).statement()
    assert cost(49.99999999362559, 50.0) == "Cost: epsilon 50."
    assert " allow" not in schema_of(ASKED["laplace a feature"]).statement()


@pytest.mark.parametrize("epsilon", [1e-6, 0.1, 1.0, 1.5, 4.9, 5.1, 20.0, 49.9, 1e4])
@pytest.mark.parametrize("delta", [0.0, 1e-6, 0.5])
def test_chance_of_a_right_guess_is_rounded_upward(epsilon, delta):
    true = 1 - (1 - delta) / (1 + exp(min(epsilon, 700)))
    shown = float(meaning(epsilon, delta, links=False).split("at most ")[1].split(" %")[0]) / 100
    assert true <= shown <= true + 0.001 + 1e-9
    both = float(meaning(epsilon, delta, links=True).split("at most ")[2].split(" %")[0]) / 100
    assert 1 - (1 - delta) / (1 + exp(min(2 * epsilon, 700))) <= both
    assert ("weak promise" in meaning(epsilon, delta, links=False)) == (epsilon > 5)


def test_chance_of_a_right_guess_is_the_best_of_any_guess():
    """For a bit that is flipped by randomized response the bound is met."""
    schema = schema_of(label(2, "randomized-response", epsilon=2.0))
    right = float(schema.label.randomizer.transition[0, 0])
    assert 0 <= float(schema.statement().split("at most ")[1].split(" %")[0]) - 100 * right < 0.1
