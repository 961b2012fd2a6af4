"""Bounds on one answer hold against every neighbor, by exact laws, and a slightly smaller one would not."""

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sfumato.errors import InputError
from sfumato.pate._data_dependent import (
    GRID,
    charged,
    confident_renyi,
    gaussian_log_q,
    gaussian_renyi,
    laplace_log_q,
    laplace_renyi,
    log_answer_probability,
    log_tilted_weights,
    to_epsilon,
)

ORDERS = np.array([1.25, 2.0, 5.0, 10.0, 20.0])
LOG_Q = {"gaussian": gaussian_log_q, "laplace": laplace_log_q}
MEASURABLE = 1e-6  # divergences below it drown in the quadrature's rounding


def bound(law, log_q, noise):
    return gaussian_renyi(log_q, noise, ORDERS) if law == "gaussian" else laplace_renyi(log_q, 2 / noise, ORDERS)


def cases(exact):
    small = exact.histograms(7, 3)
    ordered = small[(np.diff(small) <= 0).all(axis=1)]
    return [*ordered, *np.array([[20, 0, 0], [20, 3, 1], [30, 10, 0], [0, 2, 18]])]


def largest_ratio(exact, law, noise, log_q_of):
    """Largest exact divergence over its bound."""
    worst = 0.0
    for counts in cases(exact):
        limits = bound(law, log_q_of(counts[None]), noise)[0]
        here = exact.plurality(counts, noise, law)
        for other in exact.neighbors(counts):
            there = exact.plurality(other, noise, law)
            values = np.array([exact.divergence(here, there, order) for order in ORDERS])
            seen = values > MEASURABLE
            worst = max(worst, (values[seen] / limits[seen]).max(initial=0.0))
    return worst


@pytest.mark.parametrize("law", ["gaussian", "laplace"])
@pytest.mark.parametrize("noise", [1.0, 2.0, 5.0])
def test_no_neighbor_exceeds_the_bound(exact, law, noise):
    assert largest_ratio(exact, law, noise, lambda votes: LOG_Q[law](votes, noise)) <= 1
    quarter = largest_ratio(exact, law, noise, lambda votes: LOG_Q[law](votes, noise) - np.log(4))
    assert quarter > 1, "a q four times smaller would pass as well: the test sees nothing"


@pytest.mark.parametrize("law", ["gaussian", "laplace"])
def test_inverted_noise_is_noticed(exact, law):
    assert largest_ratio(exact, law, 2.0, lambda votes: LOG_Q[law](votes, 1 / 2.0)) > 1


@pytest.mark.parametrize(("law", "noise"), [("gaussian", 2.0), ("laplace", 2.0)])
def test_q_bounds_the_other_answers(exact, law, noise):
    for counts in cases(exact):
        wrong = -np.expm1(exact.plurality(counts, noise, law)[counts.argmax()])
        assert wrong <= np.exp(LOG_Q[law](counts[None], noise)[0]) * (1 + 1e-5)


def test_bounds_never_exceed_the_data_independent_ones():
    votes = np.random.default_rng(0).multinomial(50, np.full(4, 0.25), 200)
    for noise in (1.0, 10.0, 100.0):
        assert (gaussian_renyi(gaussian_log_q(votes, noise), noise, ORDERS) <= ORDERS / noise**2).all()
        epsilon = 2 / noise
        limits = np.minimum(epsilon, ORDERS * epsilon**2 / 2)
        assert (laplace_renyi(laplace_log_q(votes, noise), epsilon, ORDERS) <= limits).all()


def test_order_of_classes_does_not_matter():
    votes = np.array([[180, 30, 20, 10, 10], [10, 20, 180, 10, 30]])
    for law, noise in (("gaussian", 40.0), ("laplace", 20.0)):
        first, second = LOG_Q[law](votes, noise)
        assert first == pytest.approx(second, rel=1e-14)


def confident_truth(exact, counts, other, threshold, threshold_stddev, noise):
    """Exact divergences of (refused, each class) for two neighboring counts."""
    laws = []
    for votes in (counts, other):
        answered, refused = log_answer_probability(np.array([votes.max()]), threshold, threshold_stddev)
        laws.append(np.concatenate([answered + exact.plurality(votes, noise, "gaussian"), refused]))
    return np.array([exact.divergence(*laws, order) for order in ORDERS])


@pytest.mark.parametrize(("threshold", "spread", "noise"), [(4.0, 2.0, 2.0), (6.0, 1.0, 3.0), (1.0, 5.0, 1.0)])
def test_confident_bound_holds_and_the_mean_cost_does_not(exact, threshold, spread, noise):
    worst, worst_mean = 0.0, 0.0
    for counts in cases(exact):
        peaks = np.array([float(counts.max())])
        here = exact.plurality(counts, noise, "gaussian")
        for other in exact.neighbors(counts):
            answers = np.array([exact.divergence(here, exact.plurality(other, noise, "gaussian"), a) for a in ORDERS])
            truth = confident_truth(exact, counts, other, threshold, spread, noise)
            limits = confident_renyi(answers[None], peaks, threshold, spread, ORDERS)[0]
            nothing = confident_renyi(np.zeros((1, 5)), peaks, threshold, spread, ORDERS)[0]
            mean = nothing + np.exp(log_answer_probability(peaks, threshold, spread)[0]) * answers
            seen = truth > MEASURABLE
            worst = max(worst, (truth[seen] / limits[seen]).max(initial=0.0))
            worst_mean = max(worst_mean, (truth[seen] / mean[seen]).max(initial=0.0))
    assert worst <= 1 + 1e-9
    assert worst_mean > 1.0001


def test_threshold_probability_counts_the_rounding():
    answered, refused = log_answer_probability(np.array([200.0]), 200.0, GRID)
    assert np.exp(answered)[0] == pytest.approx(0.69146, abs=1e-5)  # half a grid step is half a deviation here
    assert np.exp(answered) + np.exp(refused) == pytest.approx(1)


def test_huge_values_stay_finite():
    votes = np.array([[100_000, 0], [50_000, 50_000]])
    with np.errstate(over="raise", invalid="raise"):
        gaussian = gaussian_renyi(gaussian_log_q(votes, 1.0), 1.0, np.array([1.01, 1e5]))
    assert np.isfinite(gaussian).all()
    assert gaussian[0, 0] < 1e-300
    assert np.isfinite(laplace_renyi(laplace_log_q(votes, 0.01), 200.0, np.array([1.01, 1e5]))).all()
    assert np.isfinite(confident_renyi(gaussian, votes.max(axis=1), 200.0, 1.0, np.array([1.01, 1e5]))).all()


def test_conversion_knows_its_words():
    with pytest.raises(InputError, match="tight, classic"):
        to_epsilon(np.zeros(1), np.array([2.0]), 1e-5, "loose")
    assert to_epsilon(np.zeros(1), np.array([2.0]), 0.9) == 0


@settings(deadline=None, max_examples=200)
@given(
    st.floats(0, 6).map(lambda power: 1 + 10.0**power),
    st.floats(-12, 10).map(lambda power: 10.0**power),
    st.floats(-1e4, 1e4),
)
def test_cost_of_an_answer_at_extreme_orders_and_gaps(order, answer, distance):
    """Against 60 digits: neither infinite where e^((a - 1) D) is, nor free where the weight is below every float."""
    (log_weight,) = log_tilted_weights(np.array([distance]), order - 1, 1.0, order)
    with np.errstate(over="raise", invalid="raise"):
        (found,) = charged(np.array([answer]), np.array([log_weight]), order)
    with mpmath.workdps(60):
        gain = mpmath.mpf(order - 1) * mpmath.mpf(answer)
        exact = mpmath.log1p(mpmath.exp(mpmath.mpf(log_weight)) * mpmath.expm1(gain)) / mpmath.mpf(order - 1)
    assert found == pytest.approx(float(exact), rel=1e-9, abs=1e-300)
    assert found <= answer * (1 + 1e-12)


def test_weights_below_every_float_still_cost():
    weight = log_tilted_weights(np.array([0.0]), 200.0, 2.0, 50.0)
    assert weight < -2000
    assert charged(np.array([100.0]), weight, 50.0) == pytest.approx(100 + weight / 49, rel=1e-12)
