"""Epsilon of a secret sample: against the exact divergence of small laws, and the published shortcut, which fails."""

import numpy as np
import pytest

from sfumato.errors import InputError
from sfumato.privacy._amplification import inner_epsilon, sampled_epsilon


def divergence(p, q, epsilon):
    """The smallest delta for (p, q)."""
    return np.maximum(p - np.exp(epsilon) * q, 0).sum()


def pair(rng, outcomes=5):
    """Two random laws, those of an emptied record and of another one."""
    return rng.dirichlet(np.full(outcomes, 0.4), size=2)


@pytest.mark.parametrize("rate", [0.01, 0.09, 0.5, 1.0])
@pytest.mark.parametrize("inner", [0.0, 0.3, 1.5, 6.0])
def test_no_small_law_costs_more_and_one_direction_is_met(rate, inner):
    rng, epsilon = np.random.default_rng(0), sampled_epsilon(inner, rate)
    for _ in range(300):
        stays, empty = pair(rng)
        delta = max(divergence(stays, empty, inner), divergence(empty, stays, inner))
        mixed = rate * stays + (1 - rate) * empty
        assert divergence(mixed, empty, epsilon) == pytest.approx(rate * divergence(stays, empty, inner), abs=1e-12)
        assert divergence(empty, mixed, epsilon) <= rate * delta + 1e-12


def test_multiplying_epsilon_by_the_rate_is_caught():
    keep = np.exp(4.0) / (1 + np.exp(4.0))
    stays, empty = np.array([keep, 1 - keep]), np.array([1 - keep, keep])
    assert divergence(stays, empty, 4.0) < 1e-12
    mixed = 0.09 * stays + 0.91 * empty
    assert divergence(mixed, empty, 0.09 * 4.0) > 0.05
    assert divergence(mixed, empty, sampled_epsilon(4.0, 0.09)) < 1e-12


@pytest.mark.parametrize("rate", [1e-3, 0.09, 1.0])
@pytest.mark.parametrize("epsilon", [1e-9, 0.5, 1.0, 30.0, 2000.0])
def test_the_inverse_is_the_inverse(rate, epsilon):
    assert inner_epsilon(sampled_epsilon(epsilon, rate), rate) == pytest.approx(epsilon, rel=1e-9)
    assert sampled_epsilon(inner_epsilon(epsilon, rate), rate) == pytest.approx(epsilon, rel=1e-9)


@pytest.mark.parametrize("call", [sampled_epsilon, inner_epsilon])
@pytest.mark.parametrize(("epsilon", "rate"), [(-1.0, 0.5), (1.0, 0.0), (1.0, 1.5)])
def test_values_out_of_range_are_refused(call, epsilon, rate):
    with pytest.raises(InputError):
        call(epsilon, rate)
