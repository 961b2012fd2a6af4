"""A plan of many runs: every rule adds up to the total, hardly more does not, and the joint cost is that of the accountant."""

import itertools
import math
from fractions import Fraction
from pathlib import Path

import pytest

from sfumato.central._counts import least_noise
from sfumato.errors import InputError
from sfumato.privacy import accounting
from sfumato.privacy._filters import BasicFilter, Charge, GaussianFilter, gaussian_mu
from sfumato.privacy._joint import joint_delta, unequal_delta
from sfumato.privacy._pure_gdp import less_noise, pure_mu
from sfumato.privacy._schedules import SHAPES, planned, shares, told
from sfumato.privacy.budget import Budget
from sfumato.privacy.calibration import gaussian_noise_multiplier
from sfumato.privacy.events import GaussianEvent, PureEvent


def by_rule(*asked):
    return {one.rule: one for one in planned(*asked)}


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("runs", [1, 3, 12, 52])
def test_pure_runs_fit_into_each_rule_and_little_more_does_not(runs, shape):
    found = by_rule(runs, 4.0, 1e-6, "pure", shape)
    basic, gdp = BasicFilter(4.0, 1e-6), GaussianFilter(4.0, 1e-6)
    for epsilon in found["basic"].epsilons:
        basic.charge(Charge(epsilon, found["basic"].delta))
    for epsilon in found["gdp"].epsilons:
        gdp.charge(Charge(epsilon, 0.0, gaussian_mu([PureEvent(epsilon)])))
    assert basic.remaining["epsilon"] < 1e-6 * runs + 1e-12
    assert gdp.remaining["mu^2"] < 1e-4
    assert gdp.would_exceed(Charge(0.1, 0.0, 0.02))


@pytest.mark.parametrize("runs", [2, 12, 52, 365])
def test_the_joint_cost_is_that_of_the_accountant(runs):
    (epsilon, *_) = by_rule(runs, 4.0, 1e-6)["joint"].epsilons
    assert joint_delta(epsilon, runs, 4.0) <= 1e-6 < joint_delta(epsilon * 1.001 + 1e-6, runs, 4.0)
    assert accounting.delta([PureEvent(epsilon, runs)], 4.0) == pytest.approx(joint_delta(epsilon, runs, 4.0), rel=1e-2)
    assert accounting.epsilon([PureEvent(epsilon, runs)], 1e-6) <= 4.004


def enumerated(epsilons, total_epsilon):
    """The joint delta, from the losses of all outcomes of randomized responses."""
    found = 0.0
    for signs in itertools.product((1, -1), repeat=len(epsilons)):
        chance = math.prod(1 / (1 + math.exp(-sign * one)) for sign, one in zip(signs, epsilons, strict=True))
        loss = sum(sign * one for sign, one in zip(signs, epsilons, strict=True))
        found += chance * max(0.0, -math.expm1(total_epsilon - loss))
    return found


@pytest.mark.parametrize("total", [0.0, 0.4, 1.1, 2.0])
@pytest.mark.parametrize("epsilons", [(0.5,), (0.5, 0.5, 0.5), (0.1, 0.2, 0.7, 1.3), (0.05, 0.3, 0.31, 0.4, 0.9, 0.02)])
def test_the_joint_delta_is_that_of_all_outcomes_rounded_up(epsilons, total):
    exact, found = enumerated(epsilons, total), unequal_delta(epsilons, total)
    assert exact <= found <= exact + 1e-4
    if len(set(epsilons)) == 1:
        assert joint_delta(epsilons[0], len(epsilons), total) == pytest.approx(exact, rel=1e-12, abs=1e-15)
    if exact > 1e-3:  # a near miss: epsilons that are rounded down
        assert enumerated([0.99 * one for one in epsilons], total) < exact


@pytest.mark.parametrize("runs", [3, 9])
@pytest.mark.parametrize("shape", SHAPES)
def test_joint_epsilons_cost_the_totals_by_all_outcomes_and_little_more_does_not(shape, runs):
    found = by_rule(runs, 2.0, 1e-3, "pure", shape)["joint"].epsilons
    assert enumerated(found, 2.0) <= 1e-3 < enumerated([1.002 * one for one in found], 2.0)
    assert [one / sum(found) for one in found] == pytest.approx(list(map(float, shares(runs, shape))), rel=1e-4)


@pytest.mark.parametrize("shape", ["early", "late"])
def test_unequal_runs_of_a_year_cost_the_total_by_the_accountant(shape):
    found = by_rule(52, 4.0, 1e-6, "pure", shape)["joint"].epsilons
    assert 3.99 < accounting.epsilon([PureEvent(one) for one in found], 1e-6) <= 4.004
    assert "joint" not in by_rule(401, 4.0, 1e-6, "pure", shape)


@pytest.mark.parametrize("shape", SHAPES)
def test_gaussian_runs_cost_the_total_together(shape):
    found = by_rule(12, 4.0, 1e-6, "gaussian", shape)["gdp"]
    runs = [GaussianEvent(gaussian_noise_multiplier(epsilon, found.delta)) for epsilon in found.epsilons]
    assert 3.99 < accounting.epsilon(runs, 1e-6) <= 4.0


@pytest.mark.parametrize("shape", SHAPES)
def test_counts_of_squares_cost_the_total_together_and_have_the_noise_that_is_told(shape):
    found = by_rule(12, 4.0, 1e-6, "counts", shape)["gdp"]
    laws = [least_noise(Budget(epsilon, found.delta)) for epsilon in found.epsilons]
    assert {law for law, _ in laws} == {found.law} == {"gaussian"}
    runs = [GaussianEvent(gaussian_noise_multiplier(budget.epsilon, budget.delta)) for _, budget in laws]
    assert [run.noise_multiplier for run in runs] == pytest.approx(found.noise, rel=1e-4)
    gdp = GaussianFilter(4.0, 1e-6)
    for run, epsilon in zip(runs, found.epsilons, strict=True):
        gdp.charge(Charge(epsilon, found.delta, gaussian_mu([run])))
    assert gdp.remaining["mu^2"] < 1e-4


def test_laplace_noise_wins_at_a_mu_of_no_use_and_never_costs_more_than_asked():
    assert [less_noise(mu)[0] for mu in (0.01, 1.0, 9.0, 9.3, 30.0)] == ["gaussian"] * 3 + ["laplace"] * 2
    law, budget = least_noise(Budget(100.0, 1e-6))
    mu = 1 / gaussian_noise_multiplier(100.0, 1e-6)
    assert law == "laplace"
    assert pure_mu(budget.epsilon) <= mu < pure_mu(budget.epsilon * 1.001)
    assert math.sqrt(2) / budget.epsilon < 1 / mu
    assert by_rule(1, 100.0, 1e-6, "counts")["gdp"].law == "laplace"


def test_early_releases_pay_where_they_are_read_again_and_equal_ones_where_they_are_not():
    for kind, rule in (("counts", "basic"), ("counts", "gdp")):
        found = told(12, 4.0, 1e-6, kind, rule)
        own, last, pooled, whole = zip(*(found[shape] for shape in SHAPES), strict=True)
        assert min(own) == own[0]
        assert min(last) == last[2]
        assert min(pooled) == pooled[1]
        if rule == "gdp":
            assert whole == pytest.approx([whole[0]] * 3)
            assert whole[0] == pytest.approx(by_rule(1, 4.0, 1e-6, "gaussian")["gdp"].noise[0])


def test_the_page_has_what_is_told():
    page = (Path(__file__).parents[2] / "docs" / "guarantees.md").read_text()
    for epsilon, runs in ((4.0, 12), (4.0, 365), (2.0, 12), (2.0, 365)):
        plans = by_rule(runs, epsilon, 1e-6), by_rule(runs, epsilon, 1e-6, "counts")
        noise = plans[0]["basic"].noise[0], plans[0]["gdp"].noise[0], plans[1]["gdp"].noise[0]
        cells = " | ".join(f"{one:.3g}" for one in noise)
        assert f"| {runs} | {epsilon:g} | {cells} |" in page
    for epsilon, first in ((4.0, 12), (2.0, 10)):
        for runs in (first - 1, first):
            by_squares = by_rule(runs, epsilon, 1e-6, "counts")["gdp"].noise[0]
            assert (by_squares < by_rule(runs, epsilon, 1e-6)["basic"].noise[0]) == (runs == first)
    for shape, numbers in told(12, 4.0, 1e-6, "counts", "gdp").items():
        assert f"| {shape} | {' | '.join(f'{one:.3g}' for one in numbers)} |" in page


def test_what_pays():
    """Months: sums of epsilons; weeks: squares of mu. The joint rule is never worse than either."""
    for runs, better in ((12, "basic"), (26, "basic"), (52, "gdp"), (365, "gdp")):
        found = by_rule(runs, 4.0, 1e-6)
        ledgers = {rule: found[rule].noise[0] for rule in ("basic", "gdp")}
        assert min(ledgers, key=ledgers.get) == better
        assert found["joint"].noise[0] <= min(ledgers.values()) * (1 + 1e-5)


def test_shapes_share_the_whole():
    for shape in SHAPES:
        parts = shares(7, shape)
        assert sum(parts) == 1
        assert all(isinstance(part, Fraction) for part in parts)
    early, late = shares(7, "early"), shares(7, "late")
    assert early == late[::-1]
    assert float(early[0] / early[-1]) == pytest.approx(4)


def test_the_mean_of_a_concave_gain_is_largest_for_equal_runs():
    means = {
        shape: sum(math.log1p(e) for e in by_rule(12, 4.0, 1e-6, "pure", shape)["basic"].epsilons) for shape in SHAPES
    }
    assert max(means, key=means.get) == "equal"


@pytest.mark.parametrize(
    "wrong", [(0, 1.0, 1e-6), (3, 0.0, 1e-6), (3, 1.0, 0.0), (3, 1.0, 1e-6, "sampled"), (3, 1.0, 1e-6, "pure", "odd")]
)
def test_wrong_plans_are_refused(wrong):
    with pytest.raises(InputError):
        planned(*wrong)
