"""Bounds from scores hold whatever threshold looked best, and published shortcuts do not."""

import math

import numpy as np
import pytest

from sfumato.audit._bounds import epsilon_lower_bound
from sfumato.audit._thresholds import Bonferroni, Explicit, Split, audit_runs
from sfumato.errors import InputError

POLICIES = [Explicit(0.5), Bonferroni(), Bonferroni(None), Split()]


def audited(members, others, **options):
    options = {"name": "shift", "knowledge": "all", "delta": 0.0, "confidence": 0.95} | options
    return audit_runs(members, others, **options).epsilon_lower_bound


def responses(generator, epsilon, runs):
    """Scores of binary randomized response, hidden below noise that says nothing: no threshold is known to be good."""
    right = 1 / (1 + math.exp(-epsilon))
    told = np.stack([generator.random(runs) < right, generator.random(runs) >= right])
    return np.where(told, 1.0, 0.0) + 0.9 * generator.random(told.shape)


def laplace(generator, epsilon, runs):
    """Scores of the Laplace mechanism: its ratio is that of epsilon at every threshold outside 0 to 1."""
    return generator.laplace(0, 1 / epsilon, (2, runs)) + np.array([[1.0], [0.0]])


def chance_above(law, epsilon, policy, *, draws=200, runs=60, confidence=0.9):
    """Share of simulated audits of an honest mechanism whose bound is above its epsilon."""
    generator = np.random.default_rng(20)
    found = [audited(*law(generator, epsilon, runs), policy=policy, confidence=confidence) for _ in range(draws)]
    return np.mean(np.array(found) > epsilon)


@pytest.mark.parametrize("policy", POLICIES, ids=str)
@pytest.mark.parametrize("law", [responses, laplace])
def test_honest_mechanism_is_contradicted_at_most_at_the_stated_rate(law, policy):
    assert chance_above(law, 1.0, policy) <= 0.1


def best_of_all(members, others, confidence, comparisons=1):
    """The best of all thresholds; without the correction this is a published fault."""
    thresholds = np.union1d(members, others)
    hits, alarms = ((side[:, None] >= thresholds).sum(axis=0) for side in (members, others))
    bounds = epsilon_lower_bound(
        hits, len(members), alarms, len(others), confidence=confidence, comparisons=comparisons
    )
    return bounds.max()


def test_best_of_several_thresholds_without_correction_is_above_the_truth():
    generator = np.random.default_rng(20)
    found = np.array([best_of_all(*laplace(generator, 0.5, 300), 0.9) for _ in range(100)])
    assert np.mean(found > 0.5) > 0.15
    assert chance_above(laplace, 0.5, Bonferroni(), draws=100, runs=300) <= 0.1


@pytest.mark.parametrize("policy", [Bonferroni(), Bonferroni(None), Split()], ids=str)
def test_doubled_epsilon_is_caught(policy):
    members, others = laplace(np.random.default_rng(1), 4.0, 1000)
    assert 2.0 < audited(members, others, policy=policy, confidence=0.999) <= 4.0


@pytest.mark.parametrize("policy", POLICIES, ids=str)
def test_random_scores_give_nothing(policy):
    members, others = np.random.default_rng(2).random((2, 300))
    assert audited(members, others, policy=policy, confidence=0.999) == 0


@pytest.mark.parametrize("policy", POLICIES, ids=str)
def test_reversed_scores_are_not_turned_around(policy):
    members, others = np.random.default_rng(3).normal(size=(2, 300)) + np.array([[3.0], [0.0]])
    assert audited(members, others, policy=policy) > 1
    assert audited(others, members, policy=policy) == 0


@pytest.mark.parametrize(("hits", "alarms", "bound"), [(500, 0, 4.8462), (100, 5, 1.9545), (900, 50, 2.5992)])
def test_counts_of_many_runs(hits, alarms, bound):
    """Published values at two-sided 95 %, 1,000 runs each way; the first is ours in its other direction as well."""
    members, others = (np.arange(1000) < count for count in (hits, alarms))
    assert audited(members, others, policy=Explicit(0.5)) == pytest.approx(bound, abs=5e-5)


def test_threshold_is_just_above_a_rank_of_the_others():
    """By hand: 40 others 0 ... 39 and 40 members above them; all are above rank 1, none of the others is."""
    members, others = np.arange(40) + 100.0, np.arange(40.0)
    assert audited(members, others, policy=Bonferroni(1)) == audited(members, others, policy=Explicit(39.5))
    expected = epsilon_lower_bound(40, 40, 0, 40, comparisons=40)
    assert audited(members, others, policy=Bonferroni(None)) == pytest.approx(expected)


def test_ties_of_others_count_as_alarms_of_their_rank():
    members, others = np.ones(100), np.zeros(100)
    assert audited(members, others, policy=Bonferroni(None)) > 0
    assert audited(np.zeros(100), others, policy=Bonferroni(None)) == 0


@pytest.mark.parametrize("total", [1, 2, 10, 1000, 100_000])
@pytest.mark.parametrize("ranks", [None, 1, 2, 32])
def test_ranks_are_distinct_and_within_the_scores(total, ranks):
    found = Bonferroni(ranks).of(total)
    assert found.min() >= 1
    assert found.max() <= total
    assert (np.diff(found) > 0).all()
    assert len(found) <= (total if ranks is None else ranks)


def test_delta_is_allowed_for():
    """One run in ten betrays the canary: at most (1, 0.1)-DP, and far above epsilon 1 at delta 0."""
    generator = np.random.default_rng(4)
    members, others = laplace(generator, 1.0, 5000)
    members[generator.random(5000) < 0.1] = 1e6
    assert audited(members, others) > 2
    assert audited(members, others, delta=0.1) <= 1


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: audited([1.0, np.nan], [0.0, 1.0]), "members to be a vector of finite scores"),
        (lambda: audited([1.0], [-np.inf]), "others to be a vector of finite scores"),
        (lambda: audited([], [1.0]), "at least one"),
        (lambda: audited([1.0], [0.0], policy=Split()), "two scores each"),
        (lambda: audited([1.0], [0.0], confidence=1.0), "confidence"),
        (lambda: Explicit(math.nan), "threshold"),
        (lambda: Bonferroni(0), "ranks"),
    ],
)
def test_wrong_arguments_are_named(call, words):
    with pytest.raises(InputError, match=words):
        call()
