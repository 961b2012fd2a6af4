"""A plan of many runs: every rule adds up to the total, hardly more does not, and the joint cost is that of the accountant."""

import math
from fractions import Fraction
from pathlib import Path

import pytest

from sfumato.errors import InputError
from sfumato.privacy import accounting
from sfumato.privacy._filters import BasicFilter, Charge, GaussianFilter, gaussian_mu
from sfumato.privacy._schedules import SHAPES, joint_delta, planned, shares
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


@pytest.mark.parametrize("shape", SHAPES)
def test_gaussian_runs_cost_the_total_together(shape):
    found = by_rule(12, 4.0, 1e-6, "gaussian", shape)["gdp"]
    runs = [GaussianEvent(gaussian_noise_multiplier(epsilon, found.delta)) for epsilon in found.epsilons]
    assert 3.99 < accounting.epsilon(runs, 1e-6) <= 4.0


def test_what_pays():
    """Months: sums of epsilons; weeks: squares of mu. The joint rule is never worse than either."""
    for runs, better in ((12, "basic"), (26, "basic"), (52, "gdp"), (365, "gdp")):
        found = by_rule(runs, 4.0, 1e-6)
        ledgers = {rule: found[rule].noise[0] for rule in ("basic", "gdp")}
        assert min(ledgers, key=ledgers.get) == better
        assert found["joint"].noise[0] <= min(ledgers.values()) * (1 + 1e-5)


def test_the_table_of_the_page_is_what_is_planned():
    page = (Path(__file__).parents[2] / "docs" / "guarantees.md").read_text()
    for runs in (12, 26, 52, 365):
        cells = " | ".join(f"{one.epsilons[0]:.6f}" for one in planned(runs, 4.0, 1e-6))
        assert f"| {runs} | {cells} |" in page


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
