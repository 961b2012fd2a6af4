"""Exhaustive: over all reports and all pairs of values, exact probabilities bear out the claim, and no more than it."""

from decimal import Context, Decimal
from fractions import Fraction
from math import exp, nextafter

import numpy as np
import pytest
from mpmath import mp
from scipy.stats import chisquare

from sfumato import randomizers
from sfumato.errors import InputError
from sfumato.noise.coins import SecretWords
from sfumato.noise.exact import hit_share, realized
from sfumato.randomizers import Collision, Direction, MultiBit, RandomizedResponse, SubsetSelection, UnaryEncoding

LN = Context(prec=50)


def log(ratio: Fraction) -> Decimal:
    return LN.ln(LN.divide(Decimal(ratio.numerator), Decimal(ratio.denominator)))


def worst_ratio(randomizer, values, user=0) -> Fraction:
    """Largest ratio of the probability of a report under two values."""
    pmfs = [randomizer.pmf(value, user) for value in values]
    support = set(pmfs[0])
    for pmf in pmfs:
        assert set(pmf) == support
        assert sum(pmf.values()) == 1
        assert min(pmf.values()) > 0
    return max(max(pmf[report] for pmf in pmfs) / min(pmf[report] for pmf in pmfs) for report in support)


def test_worst_ratio_is_the_realized_epsilon(budgeted_case):
    randomizer, values = budgeted_case
    worst = max(log(worst_ratio(randomizer, values, user)) for user in range(3))
    assert worst <= Decimal(randomizer.total_epsilon)
    assert randomizer.realized_epsilon <= randomizer.epsilon
    assert randomizer.epsilon - randomizer.realized_epsilon < 1e-9 * randomizer.epsilon
    assert float(worst) == pytest.approx(randomizer.total_epsilon, rel=1e-9)


@pytest.mark.parametrize(("favored", "others", "parts"), [(1, 1, 1), (1, 1, 5), (1, 6, 1), (30, 119, 1), (4, 60, 3)])
@pytest.mark.parametrize("epsilon", [1e-3, 0.1, 1.0, 3.7, 17.0])
def test_share_is_the_largest_that_keeps_the_ratio(epsilon, favored, others, parts):
    hit = hit_share(epsilon, favored, others, parts)
    with mp.workprec(600):
        power = mp.exp(mp.mpf(epsilon) / parts)
        assert hit * others <= power * (2**64 - favored * hit)
        assert (hit + 1) * others > power * (2**64 - favored * (hit + 1))
        true = parts * mp.log(mp.mpf(hit * others) / (2**64 - favored * hit))
        stated = realized(hit, favored, others, parts)
        assert nextafter(stated, 0) < true <= stated <= epsilon


def test_every_randomizer_has_a_case(finite, infinite):
    concrete = {
        found
        for found in (getattr(randomizers, public) for public in randomizers.__all__)
        if isinstance(found, type) and issubclass(found, randomizers.Randomizer) and found is not randomizers.Randomizer
    }
    assert {type(randomizer) for randomizer, _ in finite(1.0) + infinite(1.0)} == concrete


@pytest.mark.parametrize("epsilon", [1e-6, 0.3, 2.5, 9.0, 20.0, 60.0])
def test_realized_never_exceeds_requested(epsilon, finite):
    for randomizer, _ in finite(epsilon):
        assert 0 < randomizer.realized_epsilon <= randomizer.epsilon
        assert randomizer.delta == 0


def test_samples_follow_the_pmf(finite_case, many):
    randomizer, values = finite_case
    value, count = values[-2], 20000
    reports = many(randomizer, value, count, SecretWords(bytes(32)), user=1)
    seen = dict.fromkeys(pmf := randomizer.pmf(value, 1), 0)
    for row in range(count):
        seen[reports.key(row)] += 1
    reports_by_chance = list(seen)
    observed = np.array([seen[key] for key in reports_by_chance])
    expected = np.array([float(pmf[key]) for key in reports_by_chance]) * count
    rare = expected < 5
    if rare.any():
        observed = np.append(observed[~rare], observed[rare].sum())
        expected = np.append(expected[~rare], expected[rare].sum())
    assert chisquare(observed, expected).pvalue > 1e-4
    shifted = expected * np.where(np.arange(len(expected)) % 2, 1.15, 1)
    assert chisquare(observed, shifted / shifted.sum() * count).pvalue < 1e-4


def test_faulty_pmfs_are_caught():
    """Near-misses by hand: each breaks the bound that the sound form meets."""
    q = 1 / (exp(1) + 1)
    true_bit_twice = 0.5 + 0.5 * q
    assert true_bit_twice * (1 - q) / (q * (1 - true_bit_twice)) > exp(1) * 1.5
    two_features_at_full_epsilon = MultiBit(3, epsilon=2.0, sampled=2)
    assert log(worst_ratio(two_features_at_full_epsilon, [np.zeros(3), np.ones(3)])) > Decimal("1.99")


def test_transition_matrix_is_the_pmf():
    response = RandomizedResponse(5, epsilon=1.3)
    rows = [[float(response.pmf(label)[(j,)]) for j in range(5)] for label in range(5)]
    np.testing.assert_allclose(response.transition, rows, rtol=1e-15)
    np.testing.assert_allclose(response.transition.sum(axis=1), 1, rtol=1e-14)
    sets = SubsetSelection(6, epsilon=0.5)
    rows = [[float(chance) for _, chance in sorted(sets.pmf(label).items())] for label in range(6)]
    np.testing.assert_allclose(sets.transition, rows, rtol=1e-15)


@pytest.mark.parametrize(("num_classes", "epsilon"), [(7, 0.5), (7, 1.0), (7, 2.0), (4, 0.5), (10, 1.0), (18, 3.0)])
def test_chosen_subsets_tell_most(num_classes, epsilon):
    def information(labels):
        joint = labels.transition / num_classes
        return (joint * np.log(labels.transition / joint.sum(axis=0))).sum()

    best = SubsetSelection(num_classes, epsilon)
    np.testing.assert_allclose(best.information, information(best), rtol=1e-9)
    others = [information(SubsetSelection(num_classes, epsilon, size=k)) for k in range(1, min(num_classes, 6))]
    assert max(others) <= best.information * (1 + 1e-9)
    response = RandomizedResponse(num_classes, epsilon)
    assert information(response) <= best.information * (1 + 1e-9)


def test_subsets_of_one_are_randomized_response():
    one, response = SubsetSelection(5, 1.2, size=1), RandomizedResponse(5, epsilon=1.2)
    np.testing.assert_allclose(one.transition, response.transition, rtol=1e-15)


def test_large_outputs_are_refused(infinite):
    for randomizer, value in ((MultiBit(5000, 9.0), np.zeros(5000)), (UnaryEncoding(40, 1.0), 3)):
        with pytest.raises(InputError, match="exact pmf"):
            randomizer.pmf(value)
    for randomizer, values in infinite(1.0):
        with pytest.raises(InputError, match="finitely many"):
            randomizer.pmf(values[0])


def test_no_two_lengths_look_alike_less_than_directions():
    """A vector of length 0 has the same report probabilities as any other, up to which bit is likely."""
    direction = Direction(4, 1.0, norm=2.0)
    for value in (np.zeros(4), np.full(4, 1e-300), np.full(4, 1e9)):
        assert sorted(direction.pmf(value, 3).values()) == sorted(direction.pmf(np.ones(4), 3).values())


def test_sets_above_the_cap_keep_exactly_the_cap():
    collision = Collision(50, 1.0, cap=7)
    members = collision.members(np.ones((20, 50)))
    assert (np.diff(members.indptr) == 7).all()
    assert members.sum(axis=0).max() < 15
    kept = np.array([[0, 1, 0, 2.5, -1] + [0] * 45])
    assert collision.members(kept).indices.tolist() == [1, 3]
