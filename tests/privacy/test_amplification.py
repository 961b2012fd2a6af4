"""Epsilon of a secret sample: against the exact divergence of small laws, and the published shortcut, which fails."""

from itertools import product

import numpy as np
import pytest

from sfumato.errors import InputError
from sfumato.privacy._amplification import inner_epsilon, sampled_epsilon
from sfumato.privacy.calibration import gaussian_noise_multiplier


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


def row_laws(rate, inner, *, named):
    """Laws of three noisy bits, one an id, of which a sample alone can be 1: with all records, and with the first one empty.

    A bit has randomized response of epsilon ``inner``. It is released for every id, or for those of the sample alone.
    """
    keep = np.exp(inner) / (1 + np.exp(inner))
    laws = []
    for present in ((1, 1, 1), (0, 1, 1)):
        law = {}
        for sample in product((0, 1), repeat=3):
            chance = np.prod([rate if drawn else 1 - rate for drawn in sample])
            for bits in product((0, 1), repeat=3):
                told = [i for i in range(3) if sample[i] or not named]
                seen = sample if named else (), tuple(bits[i] for i in told)
                fits = [keep if bits[i] == present[i] * sample[i] else 1 - keep for i in told]
                repeats = 2 ** (3 - len(told))  # bits that are not told are summed over
                law[seen] = law.get(seen, 0.0) + chance * np.prod(fits) / repeats
        laws.append(law)
    outcomes = sorted(laws[0])
    return [np.array([law[one] for one in outcomes]) for law in laws]


@pytest.mark.parametrize("rate", [0.09, 0.5])
def test_a_sample_amplifies_rows_of_all_ids_and_not_rows_that_name_it(rate):
    inner, epsilon = 4.0, sampled_epsilon(4.0, rate)
    hidden, emptied = row_laws(rate, inner, named=False)
    assert hidden.sum() == pytest.approx(1)
    assert max(divergence(hidden, emptied, epsilon), divergence(emptied, hidden, epsilon)) < 1e-12
    assert divergence(hidden, emptied, 0.95 * epsilon) > 1e-4
    named, emptied = row_laws(rate, inner, named=True)
    assert named.sum() == pytest.approx(1)
    assert divergence(named, emptied, epsilon) > 0.4 * rate  # of a delta of 0
    assert np.log(named / emptied).max() == pytest.approx(inner)  # as if nobody had drawn


@pytest.mark.parametrize("delta", [2e-3, 1e-6])
@pytest.mark.parametrize("rate", [0.01, 0.09, 0.5, 0.9])
def test_a_sample_loses_more_terms_than_noise(delta, rate):
    """Its terms are so many of all: what they sum to, over the noise that the amplified budget needs, is less than without it."""
    for epsilon in (0.1, 1.0, 8.0, 16.0):
        noise = gaussian_noise_multiplier(epsilon, delta)
        sampled = gaussian_noise_multiplier(inner_epsilon(epsilon, rate), delta / rate)
        assert rate / sampled < 0.999 / noise


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
