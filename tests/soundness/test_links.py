"""Neighbor lists: over all reports on all lists that differ in one bit, exact probabilities bear out the claim."""

from decimal import Context, Decimal
from fractions import Fraction
from itertools import product

import pytest

from sfumato.randomizers._links import NeighborLists

EXACT = Context(prec=60)
USERS = 4
LISTS = list(product((0, 1), repeat=USERS - 1))
REACH = range(-3, 2 * USERS)


def degree_chance(report, degree, epsilon):
    """Discrete Laplace law, up to the factor that all reports share."""
    return EXACT.exp(-abs(report - degree) * EXACT.divide(epsilon.numerator, epsilon.denominator))


def bits_chance(report, bits, flip):
    chance = Fraction(1)
    for said, true in zip(report, bits, strict=True):
        chance *= 1 - flip if said == true else flip
    return EXACT.divide(chance.numerator, chance.denominator)


def report_chance(report, bits, degree_epsilon, flip):
    return degree_chance(report[0], sum(bits), degree_epsilon) * bits_chance(report[1], bits, flip)


def worst_log_ratio(law, first, second):
    """Over all reports on two values, of a law that gives a report's chance on a value."""
    reports = product(REACH, product((0, 1), repeat=USERS - 1))
    return max(EXACT.ln(EXACT.divide(law(report, first), law(report, second))) for report in reports)


def neighbors():
    for bits in LISTS:
        for place in range(USERS - 1):
            yield bits, (*bits[:place], 1 - bits[place], *bits[place + 1 :])


def law_of(lists, degree_epsilon=None):
    flip, degree = lists.bit_law[1], degree_epsilon or lists.degree_epsilon
    return lambda report, bits: report_chance(report, bits, degree, flip)


def check_claim(law, claim):
    """The worst ratio is at most the claim, and no more than a millionth below it."""
    worst = max(worst_log_ratio(law, *pair) for pair in neighbors())
    slack = Decimal(claim) - worst
    assert slack > -Decimal("1e-50"), "a report tells more than is claimed"
    assert slack < Decimal("1e-6") * Decimal(claim), "more is claimed than a report tells"


@pytest.mark.parametrize(("epsilon", "share"), [(0.3, 0.1), (1.0, 0.1), (4.0, 0.5), (8.0, 0.02)])
def test_one_bit_of_one_list_costs_epsilon(epsilon, share):
    lists = NeighborLists(epsilon, share)
    assert lists.realized_epsilon <= epsilon
    check_claim(law_of(lists), lists.realized_epsilon)


def test_a_link_that_both_ends_report_costs_twice():
    lists = NeighborLists(2.0)
    law = law_of(lists)
    first, second = (0, 1, 0), (1, 1, 0)
    other, another = (0, 0, 0), (0, 0, 1)
    both = worst_log_ratio(law, first, second) + worst_log_ratio(law, other, another)
    assert both <= Decimal(lists.relationship_epsilon) + Decimal("1e-50")
    assert float(both) == pytest.approx(lists.relationship_epsilon, rel=1e-6)
    assert both > Decimal("1.9") * Decimal(lists.realized_epsilon)


def test_several_bits_of_a_list_cost_as_many():
    lists = NeighborLists(1.0)
    worst = worst_log_ratio(law_of(lists), (0, 0, 0), (1, 1, 1))
    assert float(worst) == pytest.approx(3 * lists.realized_epsilon, rel=1e-6)


LISTS_OF_2 = NeighborLists(2.0)
FREE_BITS = NeighborLists(2.0, degree_share=1e-6).bit_law[1]
MISSES = {
    "bits spend everything beside the degree": (
        lambda report, bits: report_chance(report, bits, LISTS_OF_2.degree_epsilon, FREE_BITS), None, "tells more",
    ),
    "a degree of half the noise": (law_of(LISTS_OF_2, 2 * LISTS_OF_2.degree_epsilon), None, "tells more"),
    "one step of the degree too many": (
        law_of(LISTS_OF_2, LISTS_OF_2.degree_epsilon + Fraction(1, 2**20)), None, "tells more",
    ),
    "a claim too loose": (law_of(LISTS_OF_2), 2.001, "more is claimed"),
}  # fmt: skip


@pytest.mark.parametrize(("law", "claim", "message"), MISSES.values(), ids=MISSES)
def test_planted_faults_and_near_misses_are_caught(law, claim, message):
    with pytest.raises(AssertionError, match=message):
        check_claim(law, claim or LISTS_OF_2.realized_epsilon)
