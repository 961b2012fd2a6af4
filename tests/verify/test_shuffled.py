"""The verifier's own sum for shuffled reports: against the library's, which is rounded upward, and exact sums."""

import math
from fractions import Fraction

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
def test_small_sums_are_exact(local):
    for users in (1, 2, 9, 50):
        for part in (0.0, 0.2, 0.7, 0.95):
            wanted = exact(local, part * local, users)
            assert shuffled_delta(local, part * local, users) == pytest.approx(wanted, rel=1e-7, abs=1e-14)


@pytest.mark.parametrize("users", [1, 10, 1000, 30_000, 1_000_000])
def test_it_accepts_what_the_library_states_and_nothing_smaller(users):
    for local in (0.1, 1.0, 3.0):
        stated = library.shuffled_epsilon(local, users, 1e-6)
        assert shuffled_delta(local, stated, users) <= 1e-6
        assert stated == local or shuffled_delta(local, 0.97 * stated, users) > 1e-6
