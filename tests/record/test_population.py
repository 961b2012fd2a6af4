"""What a population claims, by enumeration: histories of one edge, releases that look at earlier ones, and groups of records."""

import itertools
import math

import pytest

from sfumato.errors import InputError
from sfumato.record._population import check_name, declared, group_price, stated, words

EPSILONS = {(): 0.3, (0,): 0.1, (1,): 0.5, (0, 0): 0.4, (0, 1): 0.2, (1, 0): 0.2, (1, 1): 0.1}
"""The epsilon of the next release, chosen after the earlier ones: at most 1 along every path, the total of a ledger."""
HISTORIES = list(itertools.product((0, 1), repeat=3))


def chance(history, told):
    """The probability that randomized response about an edge, month by month, tells this."""
    product = 1.0
    for month, (there, bit) in enumerate(zip(history, told, strict=True)):
        keep = 1 / (1 + math.exp(-EPSILONS[told[:month]]))
        product *= keep if there == bit else 1 - keep
    return product


def loss(left, right):
    return max(math.log(chance(left, told) / chance(right, told)) for told in HISTORIES)


def worst(left, right, counts=lambda left, right, month: left[month] != right[month]):
    return max(sum(EPSILONS[told[:month]] for month in range(3) if counts(left, right, month)) for told in HISTORIES)


@pytest.mark.parametrize(("left", "right"), [*itertools.product(HISTORIES, HISTORIES)])
def test_no_pair_of_histories_costs_more_than_its_charges_nor_than_the_total(left, right):
    assert loss(left, right) <= worst(left, right) + 1e-12
    assert worst(left, right) <= 1 + 1e-12


def test_the_total_is_reached():
    assert loss((1, 0, 1), (0, 1, 0)) == pytest.approx(1)  # along the dearest path, 0.3 + 0.5 + 0.2


@pytest.mark.parametrize(("left", "right"), [((0, 1, 1), (0, 0, 0)), ((0, 0, 1), (0, 0, 0)), ((0, 1, 1), (0, 0, 1))])
def test_who_joins_late_has_paid_nothing_before(left, right):
    joined = min(month for month in range(3) if left[month] or right[month])
    later = max(sum(EPSILONS[told[:month]] for month in range(joined, 3)) for told in HISTORIES)
    assert loss(left, right) <= later < worst((1, 1, 1), (0, 0, 0))


def test_charging_only_where_a_record_is_in_would_be_too_little():
    """A near miss: an edge that vanished is protected by the releases after it, which tell that it is gone."""
    left, right = (1, 0, 0), (1, 1, 1)
    in_left = worst(left, right, lambda left, right, month: left[month] and left[month] != right[month])
    assert in_left == 0 < loss(left, right)


@pytest.mark.parametrize("records", [1, 2, 3, 7])
@pytest.mark.parametrize("epsilon", [0.0, 0.1, 1.0])
def test_the_price_of_a_group_is_that_of_a_chain(epsilon, records):
    total, delta = group_price(epsilon, 1e-6, records)
    chain = 0.0
    for _ in range(records):
        chain = math.exp(epsilon) * chain + 1e-6
    assert total == pytest.approx(records * epsilon)
    assert chain * (1 - 1e-9) <= delta <= chain * (1 + 1e-9)
    if records > 1 and epsilon:
        assert records * 1e-6 < delta  # a near miss: delta grows faster than the group


def test_a_large_group_is_promised_nothing():
    assert group_price(1.0, 1e-6, 10**6) == (1e6, 1.0)
    assert group_price(0.1, 0.0, 3) == (0.3, 0.0)  # the decimal, not the float below or above


def test_names():
    assert check_name("town") == "town"
    for wrong in ("", " town", "town\n", "x" * 81, 3):
        with pytest.raises(InputError, match="to be a name of 1 to 80 printable characters"):
            check_name(wrong)
    assert declared("town", {"name": "a", "ids_digest": "b", "cells": "c"}) == {
        "name": "town",
        "population": True,
        "cells": "c",
    }
    header = {"dataset": {"name": "town", "population": True}, "total_epsilon": 4.0, "total_delta": 1e-5}
    assert stated(header) == {"name": "town", "total_epsilon": 4.0, "total_delta": 1e-5}
    assert stated({**header, "dataset": {"name": "town", "ids_digest": "ab"}}) is None
    assert words(stated(header)).endswith(
        "at most epsilon = 4, delta = 1e-05; who joined after a release has paid nothing for it."
    )
