"""The verifier's own sum for shuffled reports, from above: against the library's, exact sums, and sums of logarithms."""

import math
from fractions import Fraction

import numpy as np
import pytest

from sfumato.privacy import _shuffling as library
from sfumato.verify._shuffled import shuffled_delta


def exact(local, epsilon, users):
    """The divergence of the pair of clones, outcome by outcome."""
    share, growth, ratio = Fraction(math.exp(-local)), Fraction(math.exp(local)), Fraction(math.exp(epsilon))
    total = Fraction(0)
    for c in range(users):
        weight = math.comb(users - 1, c) * share**c * (1 - share) ** (users - 1 - c)
        for heads in range(c + 2):
            stays, comes = (math.comb(c, one) if 0 <= one <= c else 0 for one in (heads, heads - 1))
            one, other = growth * comes + stays, comes + growth * stays
            total += weight * max(0, one - ratio * other) / (2**c * (growth + 1))
    return float(total)


@pytest.mark.parametrize("local", [0.01, 1.0, 4.0])
def test_small_sums_are_exact_and_from_above(local):
    for users in (1, 2, 9, 50):
        for part in (0.0, 0.2, 0.7, 0.95):
            wanted = exact(local, part * local, users)
            found = shuffled_delta(local, part * local, users)
            assert wanted - 1e-15 <= found <= wanted * (1 + 1.2e-6) + 1e-14


def log_delta(local, epsilon, users):
    """The logarithm of the divergence of the pair, over every number of clones, however small it is."""
    growth, ratio, logs = math.exp(local), math.exp(epsilon), []
    factorial = np.concatenate(([0.0], np.cumsum(np.log(np.arange(1, users + 1)))))
    for c in range(users):
        x = np.arange(c + 2)
        excess = growth * x + c + 1 - x - ratio * (x + growth * (c + 1 - x))
        x, excess = x[excess > 0], excess[excess > 0]
        chance = factorial[c] - factorial[x] - factorial[c + 1 - x] - c * math.log(2) - math.log(growth + 1)
        clones = factorial[users - 1] - factorial[c] - factorial[users - 1 - c]
        clones += -c * local + (users - 1 - c) * math.log(-math.expm1(-local))
        logs.append(clones + chance + np.log(excess))
    logs = np.concatenate(logs)
    return float(logs.max() + np.log(np.exp(logs - logs.max()).sum()))


def test_a_delta_that_is_very_small_is_not_cut_off():
    """Most of such a delta is from numbers of clones far below nine deviations: a sum that leaves them out is too small."""
    for local, users, part in ((0.5, 2000, 0.9), (1.0, 2000, 0.99), (2.0, 6000, 0.99), (1.0, 2000, 0.1)):
        wanted = log_delta(local, part * local, users)
        assert math.log(shuffled_delta(local, part * local, users)) >= wanted - 1e-9
    assert wanted == pytest.approx(math.log(shuffled_delta(1.0, 0.1, 2000)), abs=2e-6)


def test_every_claim_of_the_library_is_accepted():
    rng = np.random.default_rng(0)
    for _ in range(60):
        local, users = math.exp(rng.uniform(-4, 2.9)), int(math.exp(rng.uniform(0, 14)))
        delta = 10 ** rng.uniform(-25, -2)
        assert shuffled_delta(local, library.shuffled_epsilon(local, users, delta), users) <= delta


@pytest.mark.parametrize("users", [1, 10, 1000, 30_000, 1_000_000])
def test_it_accepts_what_the_library_states_and_nothing_smaller(users):
    for local in (0.1, 1.0, 3.0):
        stated = library.shuffled_epsilon(local, users, 1e-6)
        assert shuffled_delta(local, stated, users) <= 1e-6
        assert stated == local or shuffled_delta(local, 0.97 * stated, users) > 1e-6
