"""Upper bounds must be above the truth and close to it, everywhere."""

import math

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sfumato.errors import InputError
from sfumato.privacy.accounting import delta, epsilon, gaussian_log_delta
from sfumato.privacy.events import GaussianEvent, PoissonGaussianEvent

MUS = st.floats(math.log(1e-3), math.log(50)).map(math.exp)
DELTAS = st.floats(-300, math.log10(0.5)).map(lambda power: 10.0**power)


def exact_log_delta(mu: float, eps: float) -> mpmath.mpf:
    """Balle and Wang 2018, Theorem 8, at 60 digits (and enough guard digits for the cancellation)."""
    with mpmath.workdps(120):
        m, e = mpmath.mpf(mu), mpmath.mpf(eps)

        def upper(x):
            return mpmath.erfc(x / mpmath.sqrt(2)) / 2

        return mpmath.log(upper(e / m - m / 2) - mpmath.exp(e) * upper(e / m + m / 2))


@settings(deadline=None, max_examples=80)
@given(MUS, DELTAS)
def test_closed_form_against_sixty_digits(mu, target):
    value = epsilon([GaussianEvent(1 / mu)], target)
    mu = 1 / mpmath.mpf(1 / mu)
    if value == 0:
        assert exact_log_delta(mu, 0.0) <= mpmath.log(target)
    else:
        excess = exact_log_delta(mu, value) - mpmath.log(mpmath.mpf(target))
        assert -2e-9 <= excess <= 0


@settings(deadline=None, max_examples=60)
@given(st.floats(-8, 2).map(lambda power: 10.0**power), st.floats(-3, 38))
def test_log_delta_against_sixty_digits(mu, x):
    eps = mu * (x + mu / 2)
    if eps > 0:
        assert gaussian_log_delta(mu, eps) == pytest.approx(float(exact_log_delta(mu, eps)), rel=1e-10, abs=4e-10)


@settings(deadline=None, max_examples=60)
@given(MUS, DELTAS)
def test_delta_and_epsilon_are_inverse(mu, target):
    value = epsilon([GaussianEvent(1 / mu)], target)
    back = delta([GaussianEvent(1 / mu)], value)
    assert back <= target * (1 + 1e-9)
    if value > 0:
        assert back >= target * (1 - 2e-9)


@settings(deadline=None)
@given(MUS, st.floats(1.0001, 100), DELTAS)
def test_more_noise_costs_less(mu, factor, target):
    noisier, plain = epsilon([GaussianEvent(factor / mu)], target), epsilon([GaussianEvent(1 / mu)], target)
    assert noisier < plain or noisier == plain == 0


@settings(deadline=None)
@given(st.lists(st.tuples(st.floats(0.1, 100), st.integers(1, 50)), min_size=2, max_size=5), DELTAS)
def test_composition_adds_variances_and_ignores_order(parts, target):
    events = [GaussianEvent(z, count) for z, count in parts]
    merged = GaussianEvent(1 / math.sqrt(math.fsum(count / z**2 for z, count in parts)))
    assert epsilon(events, target) == pytest.approx(epsilon([merged], target), rel=1e-9, abs=1e-300)
    assert epsilon(events[::-1], target) == pytest.approx(epsilon(events, target), rel=1e-12)
    assert epsilon(events, target) >= epsilon(events[1:], target)


def test_nothing_costs_nothing():
    assert epsilon([], 1e-7) == 0
    assert epsilon([], 1e-7, method="rdp") == 0
    assert delta([], 0.0) == 0


@pytest.mark.parametrize("relation", ["add-remove", "replace"])
def test_one_subsampled_step_against_its_integral(relation):
    """For one step the hockey-stick divergence is an integral over the line; take the worse direction."""
    q, z, eps = 0.2, 0.8, 0.7
    x = np.linspace(-12, 12, 400_001)

    def density(mean):
        return np.exp(-((x - mean) ** 2) / (2 * z * z)) / (z * math.sqrt(2 * math.pi))

    with_record = (1 - q) * density(0) + q * density(1)
    without = density(0) if relation == "add-remove" else (1 - q) * density(0) + q * density(-1)
    pairs = [(with_record, without), (without, with_record)]
    exact = max(np.maximum(p - math.exp(eps) * r, 0).sum() * (x[1] - x[0]) for p, r in pairs)
    event = PoissonGaussianEvent(q, z, 1, relation)
    assert exact * (1 - 1e-7) <= delta([event], eps) <= exact * 1.005
    assert eps * (1 - 1e-7) <= epsilon([event], exact) <= eps * 1.001


@pytest.mark.parametrize(
    ("less", "more"),
    [
        ([PoissonGaussianEvent(0.01, 2.2, 500)], [PoissonGaussianEvent(0.01, 2, 500)]),
        ([PoissonGaussianEvent(0.01, 2, 450)], [PoissonGaussianEvent(0.01, 2, 500)]),
        ([PoissonGaussianEvent(0.009, 2, 500)], [PoissonGaussianEvent(0.01, 2, 500)]),
        ([PoissonGaussianEvent(0.01, 2, 500)], [PoissonGaussianEvent(0.01, 2, 500, "replace")]),
        ([PoissonGaussianEvent(0.01, 2, 500)], [PoissonGaussianEvent(0.01, 2, 500), GaussianEvent(9.0)]),
        ([GaussianEvent(2.0)], [GaussianEvent(2.0), PoissonGaussianEvent(0.01, 2, 500)]),
        ([PoissonGaussianEvent(0.01, 2, 500)], [GaussianEvent(2.0, 500)]),
    ],
)
def test_order_of_costs(less, more):
    assert 0 < epsilon(less, 1e-6) < epsilon(more, 1e-6)
    assert delta(less, 0.5) < delta(more, 0.5)


def test_equal_events_merge():
    half = PoissonGaussianEvent(0.02, 1.5, 300)
    assert epsilon([half, half], 1e-6) == epsilon([PoissonGaussianEvent(0.02, 1.5, 600)], 1e-6)


def test_replace_keeps_the_multiplier_of_gaussian_events():
    """Next to a negligible replace step a Gaussian event costs what it costs alone, not twice the sensitivity."""
    negligible = PoissonGaussianEvent(1e-9, 5.0, 1, "replace")
    assert epsilon([GaussianEvent(2.0, 3), negligible], 1e-6) == pytest.approx(4.151817, rel=1e-3)


def test_delta_is_the_inverse_of_epsilon_for_subsampled_plans():
    events = [GaussianEvent(4.0), PoissonGaussianEvent(0.05, 1.0, 100, "replace")]
    assert delta(events, epsilon(events, 1e-6)) == pytest.approx(1e-6, rel=5e-3)


def test_tables_by_name_are_looser():
    events = [GaussianEvent(5.0, 2), PoissonGaussianEvent(0.01, 4, 1000)]
    best, rdp, moments = (epsilon(events, 1e-5, method=method) for method in ("best", "rdp", "moments"))
    assert best < rdp < moments


@pytest.mark.parametrize("target", [1e-320, 1e-300, 1e-40, 1e-14, 1e-5, 0.5, 0.999999])
@pytest.mark.parametrize(
    "event",
    [
        PoissonGaussianEvent(1e-12, 1.0, 10**12),
        PoissonGaussianEvent(1e-300, 1.0, 1, "replace"),
        PoissonGaussianEvent(0.999999999, 1e-140, 10),
        PoissonGaussianEvent(0.5, 0.01, 1000, "replace"),
        PoissonGaussianEvent(0.02, 1e-3, 10),
        PoissonGaussianEvent(0.02, 1e200, 10**6, "replace"),
        PoissonGaussianEvent(1e-6, 30.0, 3),
        GaussianEvent(1e-140),
        GaussianEvent(1e300, 10**9),
    ],
)
def test_extreme_events_stay_finite(event, target):
    for method in ("best", "rdp", "moments"):
        assert 0 <= epsilon([event], target, method=method) < math.inf
    for spent in (0.0, 1.0, 1e3, 1e300):
        assert 0 < delta([event], spent) <= 1


def test_vanishing_sampling_probabilities_are_not_free():
    """A Renyi divergence that rounds to zero must not make 1e12 steps free: their bound holds the rounding."""
    assert epsilon([PoissonGaussianEvent(1e-12, 1.0, 10**12)], 1e-30, method="rdp") > 1e-3


@pytest.mark.parametrize(
    ("call", "named"),
    [
        (lambda: epsilon([GaussianEvent(1.0)], 0.0), "delta"),
        (lambda: epsilon([GaussianEvent(1.0)], 1.0), "delta"),
        (lambda: epsilon([GaussianEvent(1.0)], 1e-5, method="gdp"), "method"),
        (lambda: epsilon([1.0], 1e-5), "events"),
        (lambda: delta([GaussianEvent(1.0)], -1.0), "epsilon"),
    ],
)
def test_errors_name_the_argument(call, named):
    with pytest.raises(InputError, match=f"Expected {named} to"):
        call()
