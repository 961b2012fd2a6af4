"""Epsilon of shuffled reports: against every output of small surveys, exact sums, published figures, and bounds that fail."""

import math
from collections import Counter
from fractions import Fraction
from itertools import combinations, combinations_with_replacement, product

import numpy as np
import pytest

from sfumato.errors import InputError
from sfumato.privacy._shuffling import MOST_USERS, closed_form, shuffled_delta, shuffled_epsilon

LOCAL = 1.2
GROWTH = math.exp(LOCAL)


def response(k):
    """The law of k-ary randomized response, a row a value."""
    return (np.ones((k, k)) + (GROWTH - 1) * np.eye(k)) / (GROWTH + k - 1)


def subsets(k, size):
    """The law of a random set of ``size`` of k classes, which favors those that hold the value."""
    sets = list(combinations(range(k), size))
    odds = np.array([[GROWTH if value in one else 1.0 for one in sets] for value in range(k)])
    return odds / odds.sum(axis=1, keepdims=True)


def drawn(rng, values=3, outputs=4):
    """A law of which no two rows differ by more than epsilon, and some do."""
    odds = np.exp(LOCAL / 2 * rng.uniform(-1, 1, (values, outputs)))
    law = odds / odds.sum(axis=1, keepdims=True)
    worst = np.log(law[:, None] / law[None]).max()
    flat = law.mean(axis=0)
    return law if worst <= LOCAL else flat + (law - flat) * 0.5


def neutral():
    """Outputs that others favor and that are as likely under both values of one user, where no clone is left over."""
    p = 0.4 / (GROWTH + 1)
    w = (1 - 1 / GROWTH - p * (GROWTH + 1 - 2 / GROWTH)) / (1 - GROWTH**-2)
    v = (1 - 2 * p - w / GROWTH) / GROWTH
    return np.array([[GROWTH * p, p, w, v], [p, GROWTH * p, w, v], [p, p, w / GROWTH, GROWTH * v]])


LAWS = {
    "a bit": response(2), "three": response(3), "five": response(5), "sets": subsets(4, 2), "neutral": neutral(),
    **{f"drawn {seed}": drawn(np.random.default_rng(seed)) for seed in range(3)},
}  # fmt: skip


def shuffled(law, inputs):
    """The exact law of the set of reports."""
    found = {(): 1.0}
    for value in inputs:
        after = Counter()
        for counts, chance in found.items():
            for output, own in enumerate(law[value]):
                after[tuple(sorted((*counts, output)))] += chance * own
        found = after
    return found


def true_delta(law, users, epsilon):
    """The largest divergence of two neighboring surveys, over all values of all users."""
    worst, values = 0.0, range(len(law))
    for others in combinations_with_replacement(values, users - 1):
        laws = [shuffled(law, (own, *others)) for own in values]
        for one, other in product(laws, repeat=2):
            worst = max(worst, sum(max(0.0, p - math.exp(epsilon) * other[key]) for key, p in one.items()))
    return worst


@pytest.mark.parametrize("name", LAWS)
def test_no_small_survey_tells_more(name):
    law = LAWS[name]
    assert np.log(law[:, None] / law[None]).max() <= LOCAL + 1e-12
    for users in (1, 2, 3, 4):
        for epsilon in (0.0, 0.1, 0.4, 0.8, 1.1):
            assert true_delta(law, users, epsilon) <= shuffled_delta(LOCAL, epsilon, users) * (1 + 1e-12)


def test_near_misses_are_contradicted():
    """Clones for certain, one user more than there are, and a smaller local epsilon: each is below what a survey tells."""
    true = {(users, epsilon): true_delta(LAWS["a bit"], users, epsilon) for users in (2, 4) for epsilon in (0.1, 0.8)}
    for miss in (
        lambda users, epsilon: pair_delta(LOCAL, epsilon, users, share=1.0),
        lambda users, epsilon: shuffled_delta(LOCAL, epsilon, 4 * users),
        lambda users, epsilon: shuffled_delta(LOCAL / 2, epsilon, users),
        lambda users, epsilon: shuffled_delta(LOCAL, epsilon * 1.3, users),
    ):
        assert any(miss(*where) < delta for where, delta in true.items())


def pair_delta(local, epsilon, users, share=None):
    """The divergence of the pair, term by term, of n users of whom each other one is a clone with a probability."""
    share = Fraction(math.exp(-local) if share is None else share)
    growth, ratio = Fraction(math.exp(local)), Fraction(math.exp(epsilon))
    total = Fraction(0)
    for c in range(users):
        weight, m = math.comb(users - 1, c) * share**c * (1 - share) ** (users - 1 - c), c + 1
        for x in range(m + 1):
            chance = Fraction(math.comb(m, x), 2**m) * 2 / (m * (growth + 1))
            total += weight * chance * max(0, growth * x + m - x - ratio * (x + growth * (m - x)))
    return float(total)


@pytest.mark.parametrize("local", [0.01, 1.0, 3.0])
@pytest.mark.parametrize("users", [1, 2, 7, 60])
def test_sums_are_exact_and_from_above(local, users):
    for part in (0.0, 0.1, 0.5, 0.9):
        exact = pair_delta(local, part * local, users)
        assert exact <= shuffled_delta(local, part * local, users) <= exact * (1 + 1e-8) + 1e-15


def test_ranges_of_clones_cost_little_and_never_less(monkeypatch):
    coarse = [shuffled_delta(1.0, epsilon, 20_000) for epsilon in (0.0, 0.02, 0.035)]
    monkeypatch.setattr("sfumato.privacy._shuffling._RANGES", 1 << 20)
    from sfumato.privacy import _shuffling

    _shuffling._clones.cache_clear()
    for one, fine in zip(coarse, [shuffled_delta(1.0, epsilon, 20_000) for epsilon in (0.0, 0.02, 0.035)], strict=True):
        assert fine <= one <= 1.05 * fine
    _shuffling._clones.cache_clear()


def test_published_figures_and_the_sum_below_them():
    assert round(closed_form(1.0, 10_000, 1e-6), 3) == 0.214
    assert round(closed_form(1.0, 100_000, 1e-6), 3) == 0.073
    least = 16 * math.log(2e6) * math.e
    assert closed_form(1.0, math.floor(least), 1e-6) is None
    assert closed_form(1.0, math.ceil(least), 1e-6) is not None
    for local, users in product((0.2, 1.0, 3.0), (10_000, 100_000)):
        assert shuffled_epsilon(local, users, 1e-6) < closed_form(local, users, 1e-6) < local


def test_more_users_and_less_local_epsilon_cost_less():
    found = [[shuffled_epsilon(local, users, 1e-6) for users in (1, 30, 1000, 30_000)] for local in (0.5, 1.0, 2.0)]
    assert all(sorted(row, reverse=True) == row for row in found)
    assert all(sorted(column) == list(column) for column in zip(*found, strict=True))
    assert found[1][0] == 1.0
    deltas = [shuffled_delta(1.0, epsilon, 1000) for epsilon in np.linspace(0, 1, 11)]
    assert sorted(deltas, reverse=True) == deltas
    assert deltas[-1] == 0.0
    assert shuffled_epsilon(1.0, 1000, 1e-9) > shuffled_epsilon(1.0, 1000, 1e-6)
    assert shuffled_delta(1.0, shuffled_epsilon(1.0, 1000, 1e-6), 1000) <= 1e-6


def test_more_than_ten_million_users_count_as_so_many():
    assert shuffled_delta(1.0, 0.001, 10 * MOST_USERS) == shuffled_delta(1.0, 0.001, MOST_USERS)


@pytest.mark.parametrize("given", [(0.0, 10, 1e-6), (21.0, 10, 1e-6), (1.0, 0, 1e-6), (1.0, 1.5, 1e-6), (1.0, 10, 0.0)])
def test_odd_arguments_are_refused(given):
    with pytest.raises(InputError):
        shuffled_epsilon(*given)
