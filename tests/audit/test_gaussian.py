"""Bounds on mu hold at their confidence, are near the truth, and refute what they say that they refute."""

import math
from functools import partial

import numpy as np
import pytest
from scipy.special import ndtr

from sfumato.audit._gaussian import audit_means, epsilon_of_mu, mean_shift_lower_bound, mu_lower_bound
from sfumato.audit._thresholds import Explicit, Split, audit_runs
from sfumato.errors import InputError
from sfumato.privacy.accounting import gaussian_log_delta

ABOUT = {"name": "likelihood ratio", "knowledge": "all but the canary", "delta": 1e-6}
audit_rates = partial(audit_runs, gaussian=True)


def normal(generator, mu, runs, stddev=1.0):
    return stddev * (generator.normal(size=(2, runs)) + np.array([[mu], [0.0]]))


@pytest.mark.parametrize("mu", [1e-3, 0.1, 1.0, 4.0, 30.0])
@pytest.mark.parametrize("delta", [1e-12, 1e-6, 0.01])
def test_epsilon_of_mu_is_rounded_down_and_close(mu, delta):
    found = epsilon_of_mu(mu, delta)
    if found:
        assert gaussian_log_delta(mu, found) > math.log(delta)
        assert gaussian_log_delta(mu, found * (1 + 1e-7)) < math.log(delta)
    else:
        assert gaussian_log_delta(mu, 1e-12) < math.log(delta)
    assert epsilon_of_mu(0.0, delta) == 0


@pytest.mark.parametrize("mu", [0.0, 0.5, 3.0])
def test_honest_gaussian_is_contradicted_at_most_at_the_stated_rate(mu):
    generator, above = np.random.default_rng(9), np.zeros(4)
    for _ in range(200):
        members, others = normal(generator, mu, 100, stddev=2.0)
        rates = [audit_rates(members, others, **ABOUT, confidence=0.9, policy=p) for p in (None, Split())]
        means = [audit_means(members, others, **ABOUT, confidence=0.9, stddev=s) for s in (None, 2.0)]
        above += [one.epsilon_lower_bound > epsilon_of_mu(mu, 1e-6) for one in rates + means]
    assert (above <= 0.14 * 200).all()  # a rate of 0.1, and two of its standard deviations


def test_near_miss_of_the_means_does_not_hold():
    """The difference of means without its error is above the truth every other time."""
    generator = np.random.default_rng(10)
    shifts = [np.subtract(*normal(generator, 1.0, 100).mean(axis=1)) for _ in range(200)]
    assert np.mean(np.array(shifts) > 1.0) > 0.3


def test_noise_of_another_size_than_claimed_is_found():
    """Half of the noise doubles mu; a deviation that is taken from the claim does not see it."""
    members, others = normal(np.random.default_rng(11), 2.0, 2000, stddev=0.5)
    assert audit_means(members, others, **ABOUT).epsilon_lower_bound > epsilon_of_mu(1.7, 1e-6)
    assert audit_means(members, others, **ABOUT, stddev=1.0).epsilon_lower_bound < epsilon_of_mu(1.0, 1e-6)


def test_missing_root_of_two_is_caught_at_999():
    """mu 1.41 where 1 is claimed: a thousand runs each way are enough for the means, and not for (epsilon, delta)."""
    members, others = normal(np.random.default_rng(12), math.sqrt(2), 1000)
    assert audit_means(members, others, **ABOUT).epsilon_lower_bound > epsilon_of_mu(1.0, 1e-6)
    assert audit_rates(members, others, **ABOUT).epsilon_lower_bound > epsilon_of_mu(1.0, 1e-6)


def test_rates_refute_the_noise_and_not_epsilon_and_delta():
    """Randomized response at epsilon 1 is (1, 0)-DP; what the rates say of its epsilon is beyond 1."""
    generator = np.random.default_rng(13)
    right = 1 / (1 + math.exp(-1))
    members, others = (generator.random((2, 20_000)) < np.array([[right], [1 - right]])).astype(float)
    found = audit_rates(members, others, **ABOUT, policy=Explicit(0.5))
    assert found.epsilon_lower_bound > 1
    assert "refutes the claimed noise" in found.estimator


def test_counts_give_the_mu_of_their_bounds():
    low = mu_lower_bound(8413, 10_000, 5000, 10_000)
    assert 0.9 < low < 1.0  # Phi(1) = 0.8413 and Phi(0) = 0.5
    assert ndtr(1.0) == pytest.approx(0.8413, abs=1e-4)
    assert mu_lower_bound(0, 10, 0, 10) == mu_lower_bound(10, 10, 10, 10) == mu_lower_bound(1, 10, 9, 10) == 0


@pytest.mark.parametrize("audit", [audit_rates, audit_means])
def test_random_and_reversed_scores_give_nothing(audit):
    members, others = np.random.default_rng(14).normal(size=(2, 1000))
    assert audit(members, others, **ABOUT).epsilon_lower_bound == 0
    assert audit(members - 3, others, **ABOUT).epsilon_lower_bound == 0
    assert audit(members + 3, others, **ABOUT).epsilon_lower_bound > 1


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: audit_rates([np.nan], [0.0], **ABOUT), "members to be a vector of finite scores"),
        (lambda: audit_means([1.0], [np.inf], **ABOUT), "others to be a vector of finite scores"),
        (lambda: audit_means([1.0], [0.0], **ABOUT), "scores to be an integer"),
        (lambda: mean_shift_lower_bound([1.0] * 5, [0.0] * 5), "without spread"),
        (lambda: mean_shift_lower_bound([1.0], [0.0], stddev=0.0), "stddev"),
        (lambda: audit_rates([1.0], [0.0], **ABOUT, confidence=2.0), "confidence"),
        (lambda: epsilon_of_mu(1.0, 0.0), "delta"),
        (lambda: epsilon_of_mu(-1.0, 0.1), "mu"),
    ],
)
def test_wrong_arguments_are_named(call, words):
    with pytest.raises(InputError, match=words):
        call()
