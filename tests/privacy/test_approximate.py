"""Mechanisms that may fail: failures add to delta, and the rest is composed as pure mechanisms."""

import math
from fractions import Fraction
from itertools import product

import pytest

from sfumato.errors import BudgetExceededError, InputError
from sfumato.graph._graph import PublicFacts
from sfumato.privacy import accounting
from sfumato.privacy._filters import BasicFilter, Charge, gaussian_mu
from sfumato.privacy.budget import Budget
from sfumato.privacy.calibration import accountant, pure_cost
from sfumato.privacy.events import (
    ApproximateEvent,
    ComposedEvent,
    GaussianEvent,
    PureEvent,
    SelectionEvent,
    event_from_dict,
    failures,
)
from sfumato.privacy.units import EdgeLevel
from sfumato.record._claims import Claim
from sfumato.statistics._statistics import Statistics
from sfumato.verify._charges import mu_of
from sfumato.verify._epsilon import epsilon_bracket

EVENTS = [ApproximateEvent(0.3, 1e-3), PureEvent(0.5), PureEvent(0.2, 2)]


def exact_delta(epsilons, failed, at):
    """Delta of binary randomized responses together, all outcomes in turn, and of the failures beside."""
    total = 0.0
    for bits in product((0, 1), repeat=len(epsilons)):
        one = math.prod(math.exp(e * b) / (1 + math.exp(e)) for e, b in zip(epsilons, bits, strict=True))
        other = math.prod(math.exp(e * (1 - b)) / (1 + math.exp(e)) for e, b in zip(epsilons, bits, strict=True))
        total += max(one - math.exp(at) * other, 0.0)
    return total + failed


@pytest.mark.parametrize("at", [0.0, 0.4, 0.9, 1.3])
def test_delta_is_that_of_what_is_pure_and_the_failures(at):
    exact = exact_delta([0.3, 0.5, 0.2, 0.2], 1e-3, at)
    assert exact <= accounting.delta(EVENTS, at) <= exact * 1.001 + 1e-12


@pytest.mark.parametrize("delta", [0.0011, 0.01, 0.1])
def test_epsilon_pays_for_failures_first(delta):
    found = accounting.epsilon(EVENTS, delta)
    assert exact_delta([0.3, 0.5, 0.2, 0.2], 1e-3, found) <= delta * (1 + 1e-9)
    without = accounting.epsilon([PureEvent(0.3), *EVENTS[1:]], delta - 1e-3)
    assert found == pytest.approx(without, rel=1e-9)
    assert found > accounting.epsilon([PureEvent(0.3), *EVENTS[1:]], delta)


@pytest.mark.parametrize("method", ["best", "rdp", "moments"])
@pytest.mark.parametrize("delta", [1e-3, 5e-4])
def test_nothing_is_promised_where_failures_take_all_of_delta(method, delta):
    assert accounting.epsilon(EVENTS, delta, method=method) == math.inf
    assert accounting.rough_epsilon(EVENTS, delta, 1.0) == math.inf
    assert accounting.central_limit_epsilon(EVENTS, delta) == math.inf
    assert accounting.delta(EVENTS, 50.0) >= 1e-3


def test_failures_are_counted_as_often_as_they_may_happen():
    tree = [ComposedEvent((ApproximateEvent(0.1, 1e-6, count=2), PureEvent(0.1)), count=3)]
    assert float(failures(tree)) == pytest.approx(6e-6)
    assert accounting.delta(tree, 10.0) == pytest.approx(6e-6)
    assert float(failures([PureEvent(1.0)])) == 0


def test_the_verifier_brackets_what_is_claimed():
    for delta in (0.0011, 0.01, 0.1):
        low, high = epsilon_bracket([one.to_dict() for one in EVENTS], delta)
        found = accounting.epsilon(EVENTS, delta)
        assert low <= found <= 1.001 * found
        assert high <= 1.001 * found
    assert epsilon_bracket([one.to_dict() for one in EVENTS], 1e-3) == (0.0, math.inf)
    assert epsilon_bracket([one.to_dict() for one in EVENTS], 0.0) == (0.0, math.inf)


def test_with_gaussian_noise_both_are_paid():
    joint = [ApproximateEvent(0.3, 1e-7), GaussianEvent(5.0)]
    found = accounting.epsilon(joint, 1e-6)
    assert found == pytest.approx(accounting.epsilon([PureEvent(0.3), GaussianEvent(5.0)], 9e-7), rel=1e-6)
    low, high = epsilon_bracket([one.to_dict() for one in joint], 1e-6)
    assert low <= found
    assert high <= 1.001 * found


def test_no_rule_for_pure_mechanisms_takes_one_that_may_fail():
    assert pure_cost(EVENTS) is None
    assert gaussian_mu(EVENTS) is None
    assert accountant("curator", EVENTS) == "pld"
    with pytest.raises(InputError, match="no event that may fail"):
        SelectionEvent(((ApproximateEvent(0.1, 1e-9),),), "poisson", 10)


@pytest.mark.parametrize(
    "values",
    [{"epsilon": 0.0}, {"epsilon": -1.0}, {"failure": 0.0}, {"failure": 1.0}, {"failure": -1e-9}, {"count": 0}],
)
def test_fields_are_checked(values):
    with pytest.raises(InputError):
        ApproximateEvent(**{"epsilon": 0.1, "failure": 1e-9, **values})
    event = ApproximateEvent(0.1, 1e-9, 3)
    assert event_from_dict(event.to_dict()) == event


@pytest.mark.parametrize("failure", [1e-6, 1e-3])
def test_statistics_refuse_a_failure_that_delta_does_not_pay_for(failure):
    unit, public = EdgeLevel(directed=False), PublicFacts(100, 75, 0, 0, directed=False)
    with pytest.raises(InputError, match="failure to be below delta, 1e-06"):
        Statistics("triangles", failure=failure).calibrate(Budget(1.0, 1e-6), unit, public)
    assert (
        type(Statistics("triangles").releases(unit, public, 1.0)[0].event) is ApproximateEvent
    )  # without a budget, too
    for given in (0.0, 9e-7):
        plan = Statistics("triangles", failure=given).calibrate(Budget(1.0, 1e-6), unit, public)
        assert plan.releases[0].event.failure == (given or 5e-7)
        assert accounting.delta([one.event for one in plan.releases], plan.epsilon) <= 1e-6 * (1 + 1e-9)
    pure = Statistics("edges", failure=failure).calibrate(Budget(1.0, 0.0), unit, public)
    assert {type(one.event) for one in pure.releases} == {PureEvent}


def test_ledgers_charge_the_whole_delta_or_have_no_mu():
    releases = Statistics("triangles", failure=1e-7).releases(
        EdgeLevel(directed=False), PublicFacts(9, 9, 0, 0, directed=False), 1.0
    )
    claim = Claim.of("a" * 32, "statistics", 1.0, 1e-6, releases, "b" * 64)
    assert claim.mu is None
    assert BasicFilter(4.0, 1e-5).price(claim.charge)["delta"] == Fraction("1e-6")
    stated = [one.to_dict() for one in releases]
    assert mu_of(0.5, stated) == (0.5, None)  # stated, and implied: the verifier names what differs


def test_a_gaussian_filter_refuses_what_has_no_mu():
    from sfumato.privacy._filters import GaussianFilter

    charge = Charge(1.0, 1e-6, gaussian_mu(EVENTS))
    with pytest.raises((InputError, BudgetExceededError)):
        GaussianFilter(4.0, 1e-5).charge(charge)
