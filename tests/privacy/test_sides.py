"""On which side bounds are rounded: each term that covers rounding, truncation or lost mass is made to decide."""

import math
import sys
from fractions import Fraction

import mpmath
import numpy as np
import pytest
from scipy.stats import binom, norm

from sfumato.noise._rectangles import SAMPLER_TAU
from sfumato.privacy import _filters as filters
from sfumato.privacy import _pairs, _pld, _renyi, accounting
from sfumato.privacy import _selection as selection
from sfumato.privacy._pairs import Revealed, binomial
from sfumato.privacy.calibration import pure_cost
from sfumato.privacy.events import (
    ComposedEvent,
    ExponentialEvent,
    LaplaceEvent,
    PoissonGaussianEvent,
    PureEvent,
    RandomizedResponseEvent,
    RepeatedGaussianEvent,
)

RARE, STEPS, FATAL = 1e-4, 100, 0.02


@pytest.mark.parametrize(
    ("event", "at_a_step"),
    [
        (PoissonGaussianEvent(RARE, FATAL, STEPS), RARE),
        (PoissonGaussianEvent(RARE, FATAL, STEPS, "replace"), RARE),
        (RepeatedGaussianEvent(RARE / 2, 2, FATAL, STEPS), 1 - (1 - RARE / 2) ** 2),
        (RepeatedGaussianEvent(RARE / 2, 2, FATAL, STEPS, "replace"), 1 - (1 - RARE / 2) ** 2),
        (ComposedEvent((PoissonGaussianEvent(RARE, FATAL, 20), PureEvent(0.01)), count=5), RARE),
    ],
    ids=lambda value: getattr(value, "type", ""),
)
def test_mass_that_is_lost_in_rare_steps_is_lost_in_each_of_them(event, at_a_step):
    """A draw gives the record away: noise is 1/50 of what it adds. Some step draws it with more than delta."""
    seen = 1 - (1 - at_a_step) ** STEPS  # about 0.00995
    assert accounting.epsilon([event], 0.005) > 300
    assert accounting.delta([event], 100.0) >= seen * (1 - 1e-9)


def test_both_directions_lose_what_every_repetition_loses(monkeypatch):
    monkeypatch.setattr(_pld, "MAX_LOSS", 3.0)
    pair = _pairs.Mixture(0.3, 1, 0.2)  # an exchange of P and Q moves the mass that is lost
    there, back = _pld.laws({pair: 7, Revealed(2.0): 5}, 1e-3, 0.01)
    assert {law.repeats for law in there} == {law.repeats for law in back} == {5, 7}
    for parts in (there, back):
        lost = _pld.Composition(parts, 0.01).lost
        assert lost == pytest.approx(min(1.0, sum(part.repeats * part.lost for part in parts)))
        exact = 1 - math.prod((1 - part.lost) ** part.repeats for part in parts)
        assert lost >= exact > max(part.lost for part in parts)


@pytest.mark.parametrize("epsilon", [0.05, 0.2])
def test_each_direction_has_its_own_law(epsilon):
    q, z = 0.3, 1.0
    there, back = (_pld.Composition(parts, 1e-3) for parts in _pld.laws({_pairs.Mixture(q, 1, z): 1}, 1e-6, 1e-3))
    above, below = (z * z * math.log((math.exp(side * epsilon) - 1 + q) / q) + 0.5 for side in (1, -1))
    exact_there = (1 - q - math.exp(epsilon)) * norm.sf(above / z) + q * norm.sf((above - 1) / z)
    exact_back = norm.cdf(below / z) * (1 - math.exp(epsilon) * (1 - q)) - math.exp(epsilon) * q * norm.cdf(
        (below - 1) / z
    )
    assert exact_there <= there.delta(epsilon) <= 1.001 * exact_there
    assert exact_back <= back.delta(epsilon) <= 1.001 * exact_back
    assert exact_there > 1.02 * exact_back


def test_the_law_on_a_grid_is_not_below_exact_arithmetic():
    """Differences of distribution functions lose digits, and narrow cells have little else."""
    mu, interval = 0.02, 1e-7
    cells = np.arange(3_000, 3_060)
    law = _pld._law(1, cells, *Revealed(mu).masses(cells * interval, -700.0), interval)
    with mpmath.workdps(40):
        half = mpmath.mpf(mu) / 2
        edges = [mpmath.mpf(float(edge)) for edge in cells * interval]
        masses = [mpmath.exp(mpmath.mpf(float(one))) for one in law.logs]
        beyond = [[mpmath.ncdf(side * half - edge / mu) for edge in edges] for side in (1, -1)]
        for j, edge in enumerate(edges[:-1]):
            exact = beyond[0][j] - beyond[0][-1] - mpmath.exp(edge) * (beyond[1][j] - beyond[1][-1])
            assert mpmath.fsum((1 - mpmath.exp(edge - edges[i])) * masses[i] for i in range(j + 1, len(edges))) >= exact


def test_values_of_many_terms_are_only_rounded_up(monkeypatch):
    whole = binomial(5000, 0.1, -40.0)
    monkeypatch.setattr(_pairs, "MAX_COMPONENTS", 16)
    binomial.cache_clear()
    values, probs, dropped = binomial(5000, 0.1, -40.0)
    binomial.cache_clear()
    assert len(values) <= 16 < len(whole.values)
    assert probs.sum() + dropped == pytest.approx(1, abs=1e-12)
    assert values[-1] == whole.values[-1]
    for value in whole.values:  # in every tail there is at least the mass of the exact law
        assert probs[values >= value].sum() + dropped >= binom.sf(value - 1, 5000, 0.1) - 1e-12


@pytest.mark.parametrize("chance", [1e-20, 1e-18, 1e-3])
def test_tiny_divergences_never_round_to_nothing(chance):
    orders = np.array([1.5, 2.0, 32.0])
    found = _renyi.revealed(np.array([0.0, 0.1]), np.array([1 - chance, chance]), orders)
    for order, value in zip(orders, found, strict=True):
        with mpmath.workdps(50):
            moment = 1 + chance * mpmath.expm1(mpmath.mpf(order) * (order - 1) / 2 * mpmath.mpf(0.1) ** 2)
            assert value >= mpmath.log(moment) / (order - 1)


def test_large_divergences_are_not_rounded_down():
    rng = np.random.default_rng(0)
    for _ in range(200):
        shift, order, chance = rng.uniform(1, 50), float(rng.uniform(1.5, 60)), float(rng.uniform(0.01, 0.99))
        (value,) = _renyi.revealed(np.array([0.0, shift]), np.array([1 - chance, chance]), np.array([order]))
        with mpmath.workdps(50):
            moment = (1 - chance) + chance * mpmath.exp(mpmath.mpf(order) * (order - 1) / 2 * mpmath.mpf(shift) ** 2)
            assert value >= mpmath.log(moment) / (mpmath.mpf(order) - 1)


def test_the_closed_form_is_not_below_exact_arithmetic_far_out():
    """There the rounding of epsilon / mu - mu / 2 moves log delta by more than all else."""
    rng = np.random.default_rng(0)
    for _ in range(200):
        mu, x = float(rng.uniform(0.2, 3)), float(rng.uniform(2e4, 9e4))
        epsilon = mu * (x + mu / 2)
        with mpmath.workdps(60):
            at = mpmath.mpf(epsilon) / mu - mpmath.mpf(mu) / 2
            exact = mpmath.log(mpmath.ncdf(-at) - mpmath.exp(epsilon) * mpmath.ncdf(-(at + mu)))
        assert accounting.gaussian_log_delta(mu, epsilon) >= exact


@pytest.mark.parametrize(("epsilon", "delta"), [(0.1, 1e-9), (1.0, 1e-6), (8.0, 1e-3)])
def test_a_filter_leaves_room_for_samplers_and_rounding(epsilon, delta, monkeypatch):
    def room(mu):
        return math.log(delta) - accounting.gaussian_log_delta(mu, epsilon)

    mu = filters._largest_mu(epsilon, delta)
    needed = filters._MARGIN - math.log1p(-float(filters._SAMPLER_SHARE))
    assert filters._MARGIN > 0
    assert needed * (1 - 1e-3) <= room(mu) <= 2 * needed + 1e-11
    monkeypatch.setattr(filters, "_MARGIN", 0.1)
    assert room(filters._largest_mu(epsilon, delta)) == pytest.approx(0.1, rel=1e-6)
    monkeypatch.setattr(filters, "_SAMPLER_SHARE", Fraction(1, 2))
    assert room(filters._largest_mu(epsilon, delta)) == pytest.approx(0.1 + math.log(2), rel=1e-6)


@pytest.mark.parametrize("rule", ["logarithmic", "geometric", "poisson"])
def test_a_selection_rounds_its_divergences_up(rule):
    orders, base, margin = np.array([2.0, 8.0]), np.array([0.04, 0.16]), selection._MARGIN
    if rule == "poisson":
        found = selection.poisson_renyi(10, orders, base, np.array([0.01, 0.02]))
        whole = np.logaddexp(-10, (orders - 1) * (base + 10 * np.array([0.01, 0.02])) + math.log(10)) / (orders - 1)
    else:
        found = selection.negative_binomial_renyi(rule, 10, orders, base, orders, base)
        ratio = selection.log_ratio(rule, 10)
        free = min(ratio, *((1 - 1 / orders) * base + ratio / orders))
        whole = base + (1 + (rule == "geometric")) * free + math.log(10) / (orders - 1)
    assert (found > whole * (1 + margin / 2)).all()
    assert (found < whole * (1 + 2 * margin)).all()
    assert margin >= 1e-12


@pytest.mark.parametrize(
    ("one", "cost"),
    [
        (LaplaceEvent(4.0, count=3), Fraction(3, 4)),
        (PureEvent(0.25, count=3), Fraction(3, 4)),
        (ExponentialEvent(0.25, count=3), Fraction(3, 4)),
        (RandomizedResponseEvent(0.25, 5, count=3), Fraction(3, 4)),
    ],
    ids=lambda value: getattr(value, "type", ""),
)
def test_every_pure_release_is_paid_for_each_time(one, cost):
    assert pure_cost([one]) == cost
    assert pure_cost([ComposedEvent((one, one), count=5), one]) == 11 * cost


def test_a_plan_pays_for_every_draw_of_its_samplers(monkeypatch):
    """With a sampler so poor that its draws decide how much noise there has to be."""
    import sfumato as sf
    from sfumato.graph._graph import PublicFacts
    from sfumato.record import _certificate as certificate

    poor = 2.0**-34
    for module in (sys.modules["sfumato.privacy.calibration"], certificate):
        monkeypatch.setattr(module, "SAMPLER_TAU", poor)
    facts = PublicFacts(num_nodes=40, num_train=30, num_features=10, num_classes=3, directed=False)
    for method, unit in ((sf.GAP(num_hops=2), sf.EdgeLevel(directed=False)), (sf.MLP(), sf.RecordLevel())):
        plan = method.calibrate(sf.Budget(2.0, 1e-5), unit, facts)
        draws = sum(release.affected_coordinates * getattr(release.event, "steps", 1) for release in plan.releases)
        left = 1e-5 - (1 + math.exp(2.0)) * poor * draws
        assert left < 0.999e-5
        assert accounting.epsilon([release.event for release in plan.releases], left) <= 2.0 * (1 + 1e-12)
    assert SAMPLER_TAU == 2.0**-100
