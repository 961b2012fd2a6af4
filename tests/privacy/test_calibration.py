import math
from dataclasses import dataclass
from fractions import Fraction

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from sfumato.errors import InputError
from sfumato.noise._rectangles import SAMPLER_TAU
from sfumato.privacy.accounting import epsilon as epsilon_of
from sfumato.privacy.calibration import (
    calibrate,
    effective_delta,
    gaussian_noise_multiplier,
    pure_cost,
)
from sfumato.privacy.events import (
    ComposedEvent,
    Event,
    ExponentialEvent,
    GaussianEvent,
    LaplaceEvent,
    PoissonGaussianEvent,
    PureEvent,
    RandomizedResponseEvent,
    RepeatedGaussianEvent,
    ZCDPEvent,
)

EPSILONS = st.floats(-4, 3).map(lambda power: 10.0**power)
DELTAS = st.floats(-100, -1).map(lambda power: 10.0**power)


@settings(deadline=None)
@given(EPSILONS, DELTAS, st.integers(1, 1000))
def test_gaussian_noise_is_enough_and_no_more(epsilon, delta, count):
    z = gaussian_noise_multiplier(epsilon, delta, count)
    assert epsilon_of([GaussianEvent(z, count)], delta) <= epsilon
    assert epsilon_of([GaussianEvent(z * (1 - 1e-6), count)], delta) > epsilon


@settings(deadline=None)
@given(EPSILONS, DELTAS, st.floats(1.001, 10))
def test_a_larger_budget_needs_less_noise(epsilon, delta, factor):
    z = gaussian_noise_multiplier(epsilon, delta)
    assert gaussian_noise_multiplier(epsilon * factor, delta) < z
    assert gaussian_noise_multiplier(epsilon, min(0.5, delta * factor)) < z


@dataclass(frozen=True)
class ApproximateEvent(Event):
    """A mechanism that needs a delta for its epsilon."""

    epsilon: float
    delta: float


def test_an_epsilon_is_pure_only_where_a_kind_of_event_says_so():
    assert pure_cost([ApproximateEvent(0.5, 1e-6)]) is None
    assert pure_cost([PureEvent(0.5), ApproximateEvent(0.5, 1e-6)]) is None


def test_pure_cost_is_an_exact_sum_and_none_where_a_delta_is_needed():
    pure = [PureEvent(0.1, 3), LaplaceEvent(4.0), RandomizedResponseEvent(0.5), ExponentialEvent(0.25, 2)]
    assert pure_cost(pure) == 3 * Fraction(0.1) + Fraction(1.25)
    assert pure_cost([ComposedEvent((PureEvent(0.5), LaplaceEvent(2.0)), 3)]) == 3
    assert pure_cost([]) == 0
    for other in (GaussianEvent(1.0), ZCDPEvent(0.1), PoissonGaussianEvent(0.1, 1.0, 3)):
        assert pure_cost([*pure, other]) is None
    assert float(pure_cost(pure)) >= epsilon_of(pure, 1e-200) * (1 - 1e-12)


@settings(deadline=None)
@given(EPSILONS, DELTAS)
@example(0.0005615727697377854, 0.027476513871381378)
def test_search_is_one_sided_for_gaussian_plans(epsilon, delta):
    def plan(z):
        return [GaussianEvent(z, 2), GaussianEvent(3 * z)]

    assert 0.999 * epsilon <= epsilon_of(plan(calibrate(plan, epsilon, delta)), delta) <= epsilon


def joint_plan(z):
    training = PoissonGaussianEvent(256 / 14235, z, 556)
    return [GaussianEvent(z, 2), training, training]


def replace_plan(z):
    return [GaussianEvent(z), PoissonGaussianEvent(0.01, z, 300, "replace")]


def repeated_plan(z):
    return [RepeatedGaussianEvent(0.01, 11, z, 100), RepeatedGaussianEvent(0.01, 3, z, 100, "replace")]


def pure_plan(z):
    return [LaplaceEvent(z, 10), ExponentialEvent(1 / z, 5), PureEvent(0.01)]


def concentrated_plan(z):
    return [ZCDPEvent(0.5 / z**2, 4), LaplaceEvent(20 * z), PoissonGaussianEvent(0.01, z, 100)]


@pytest.mark.parametrize("plan", [joint_plan, replace_plan, repeated_plan, pure_plan, concentrated_plan])
@pytest.mark.parametrize("epsilon", [1.0, 8.0, 16.0])
def test_search_is_one_sided_for_other_plans(plan, epsilon):
    assert 0.999 * epsilon <= epsilon_of(plan(calibrate(plan, epsilon, 1e-5)), 1e-5) <= epsilon


def test_subsampled_noise_against_another_accountant():
    # dp_accounting.calibrate_dp_mechanism with its PLD accountant: 0.959103 (epsilon 2, q 0.01, 1000 steps).
    assert calibrate(lambda z: [PoissonGaussianEvent(0.01, z, 1000)], 2.0, 1e-5) == pytest.approx(0.959103, rel=5e-4)


def test_few_costly_evaluations():
    calls = []

    def plan(z):
        calls.append(z)
        return joint_plan(z)

    calibrate(plan, 8.0, 1e-5)
    assert len(set(calls)) < 20


def test_a_floor_above_the_budget_is_an_error():
    with pytest.raises(InputError, match="Expected epsilon to be within reach"):
        calibrate(lambda z: [GaussianEvent(z), GaussianEvent(1.0)], 1.0, 1e-6)


def test_a_plan_that_never_costs_the_budget_is_an_error():
    with pytest.raises(InputError, match="Expected epsilon to be within reach"):
        calibrate(lambda z: [GaussianEvent(100.0)], 1.0, 1e-6)


@pytest.mark.parametrize(("epsilon", "affected"), [(0.1, 1), (1.0, 10**6), (20.0, 10**9)])
def test_sampler_correction(epsilon, affected):
    cost = (1 + math.exp(epsilon)) * SAMPLER_TAU * affected
    assert SAMPLER_TAU == 2.0**-100
    left = effective_delta(4 * cost, epsilon, affected)
    assert left == pytest.approx(3 * cost, rel=1e-12)
    assert left + cost <= 4 * cost * (1 + 1e-15)
    with pytest.raises(InputError, match="Expected delta >"):
        effective_delta(0.999 * cost, epsilon, affected)


def test_sampler_correction_of_nothing_and_of_too_much():
    assert effective_delta(1e-7, 1.0, 0) == 1e-7
    with pytest.raises(InputError, match="Expected epsilon to be smaller"):
        effective_delta(1e-7, 1e6, 1)


@pytest.mark.parametrize("call", [gaussian_noise_multiplier, lambda e, d: calibrate(joint_plan, e, d)])
def test_bad_budgets(call):
    for epsilon, delta in [(0.0, 1e-5), (-1.0, 1e-5), (math.inf, 1e-5)]:
        with pytest.raises(InputError, match="Expected epsilon"):
            call(epsilon, delta)
    for delta in (0.0, 1.0):
        with pytest.raises(InputError, match="Expected delta"):
            call(1.0, delta)
