"""Bounds hold with the confidence they state, by enumeration of every outcome, and are no wider than they must be."""

import math
from functools import cache

import numpy as np
import pytest
from scipy import stats

from sfumato.audit._bounds import clopper_pearson, epsilon_lower_bound, one_run_epsilon, one_run_p_value
from sfumato.errors import InputError

TRUTHS = np.linspace(0.001, 0.999, 333)
MILLIONS = 10**7


def coverage(trials: int, interval) -> np.ndarray:
    """Probability that the interval holds the proportion, for every proportion of ``TRUTHS``, by enumeration."""
    ends = np.array([interval(k, trials) for k in range(trials + 1)])
    held = (ends[:, :1] <= TRUTHS) & (ends[:, 1:] >= TRUTHS)
    return (held * stats.binom.pmf(np.arange(trials + 1)[:, None], trials, TRUTHS)).sum(axis=0)


@pytest.mark.parametrize("trials", [1, 2, 5, 30])
@pytest.mark.parametrize("confidence", [0.5, 0.9, 0.95, 0.999])
def test_interval_covers_every_proportion(trials, confidence):
    assert coverage(trials, lambda k, n: clopper_pearson(k, n, confidence)).min() >= confidence


def test_narrower_interval_does_not_cover():
    def narrower(k, n):
        low, high = clopper_pearson(k, n, 0.95)
        return low + 0.05 * (high - low), high - 0.05 * (high - low)

    assert coverage(30, narrower).min() < 0.95
    assert coverage(30, lambda k, n: clopper_pearson(k, n, 0.93)).min() < 0.95


@pytest.mark.parametrize(
    ("successes", "trials"),
    [
        *[(0, 1), (1, 1), (3, 10), (17, 17), (15, 16), (5000, 12345), (123456, MILLIONS), (MILLIONS // 2, MILLIONS)],
        *[(1, MILLIONS), (MILLIONS - 1, MILLIONS), (0, MILLIONS), (MILLIONS, MILLIONS)],
    ],
)
@pytest.mark.parametrize("confidence", [0.6, 0.95, 1 - 1e-9])
def test_interval_is_exact_and_rounded_outward(successes, trials, confidence):
    low, high = clopper_pearson(successes, trials, confidence)
    risk = (1 - confidence) / 2
    expected_low = stats.beta.ppf(risk, successes, trials - successes + 1) if successes else 0.0
    expected_high = stats.beta.isf(risk, successes + 1, trials - successes) if successes < trials else 1.0
    assert expected_low - 1e-10 <= low <= expected_low + 1e-15
    assert expected_high - 1e-15 <= high <= expected_high + 1e-10


def test_first_success_in_ten_million_has_a_closed_form():
    low, _ = clopper_pearson(1, MILLIONS, 0.95)
    assert -2e-10 < low / -math.expm1(math.log1p(-0.025) / MILLIONS) - 1 <= 0


def randomized_response(epsilon: float, runs: int) -> tuple[np.ndarray, np.ndarray]:
    """Probabilities of true and of false positives for binary randomized response, which is epsilon-DP exactly."""
    right = 1 / (1 + math.exp(-epsilon))
    counts = np.arange(runs + 1)
    return stats.binom.pmf(counts, runs, right), stats.binom.pmf(counts, runs, 1 - right)


@cache
def bound_table(runs: int, **options) -> np.ndarray:
    """The bound for every pair of counts."""
    counts = np.arange(runs + 1)
    return epsilon_lower_bound(counts[:, None], runs, counts, runs, **options)


def chance_above(level: float, epsilon: float, runs: int, **options) -> float:
    """Probability that the bound is above ``level`` for randomized response, over every pair of counts."""
    hits, alarms = randomized_response(epsilon, runs)
    return float((np.outer(hits, alarms) * (bound_table(runs, **options) > level)).sum())


@pytest.mark.parametrize("epsilon", [0.0, 0.1, 1.0, 3.0])
@pytest.mark.parametrize("runs", [3, 30, 200])
def test_honest_mechanism_is_not_contradicted(epsilon, runs):
    assert chance_above(epsilon, epsilon, runs) <= 0.05
    assert chance_above(epsilon, epsilon, runs, confidence=0.5) <= 0.5


@pytest.mark.parametrize("epsilon", [0.5, 1.0, 2.0])
def test_doubled_epsilon_is_caught(epsilon):
    assert chance_above(epsilon, 2 * epsilon, 200) > 0.9


@pytest.mark.parametrize("delta", [0.01, 0.2])
def test_delta_is_allowed_for(delta):
    """With probability delta the first data set is betrayed: (1, delta)-DP, and it cheats at delta = 0."""
    right, runs = 1 / (1 + math.exp(-1)), 60
    counts = np.arange(runs + 1)
    chances = np.outer(
        stats.binom.pmf(counts, runs, delta + (1 - delta) * right),
        stats.binom.pmf(counts, runs, (1 - delta) * (1 - right)),
    )
    for comparisons in (1, 5):
        bound = bound_table(runs, delta=delta, comparisons=comparisons)
        assert (chances * (bound > 1)).sum() <= 0.05 / comparisons


def test_delta_zero_contradicts_the_leaky_mechanism():
    tpr, fpr = round(5000 * (0.2 + 0.8 * 0.731)), round(5000 * 0.8 * 0.269)
    assert epsilon_lower_bound(tpr, 5000, fpr, 5000) > 1 > epsilon_lower_bound(tpr, 5000, fpr, 5000, delta=0.2)


def test_rare_negatives_are_the_second_direction():
    """All of the evidence is in TNR / FNR: an attack that accuses nearly always, and never misses."""
    value = epsilon_lower_bound(10**6, 10**6, 900_000, 10**6)
    low, _ = clopper_pearson(10**6, 10**6)
    _, high = clopper_pearson(900_000, 10**6)
    assert value == pytest.approx(math.log((1 - high) / (1 - low)), rel=1e-9)
    assert value > 10 > math.log(low / high)


def test_best_of_many_thresholds_needs_the_correction():
    """The best of 40 independent attacks on an honest mechanism: its level without and with the correction."""
    assert 1 - (1 - chance_above(1.0, 1.0, 60)) ** 40 > 0.05
    assert 1 - (1 - chance_above(1.0, 1.0, 60, comparisons=40)) ** 40 <= 0.05


def test_bound_of_arrays_is_the_bound_of_each():
    hits, alarms = np.array([[30], [90]]), np.array([0, 40, 100])
    table = epsilon_lower_bound(hits, 100, alarms, 100)
    assert table.shape == (2, 3)
    assert table[1, 0] == epsilon_lower_bound(90, 100, 0, 100) > table[1, 1] > table[1, 2] == 0


def published_p_value(correct, guesses, canaries, epsilon, delta):
    """Steinke, Nasr and Jagielski 2023, theorem 5.2, term by term."""

    def f(v):
        return stats.binom.sf(v - 1, guesses, 1 / (1 + math.exp(-epsilon)))

    worst = max((f(correct - i) - f(correct)) / i for i in range(1, canaries + 1))
    return min(1.0, f(correct) + 2 * canaries * delta * worst)


@pytest.mark.parametrize("delta", [0.0, 1e-6, 0.01, 1.0])
@pytest.mark.parametrize("epsilon", [0.0, 0.7, 4.0])
@pytest.mark.parametrize(
    ("correct", "guesses", "canaries"), [(0, 0, 5), (1, 1, 1), (9, 10, 40), (55, 60, 60), (3, 9, 9)]
)
def test_one_run_agrees_with_the_theorem(correct, guesses, canaries, epsilon, delta):
    value = one_run_p_value(correct, guesses, canaries, epsilon, delta)
    assert value == pytest.approx(published_p_value(correct, guesses, canaries, epsilon, delta), rel=1e-9)


def one_run_level(
    tested: float, spent: float, guesses: int, canaries: int, *, delta=0.0, betrayed=0, tested_delta=None
):
    """Chance that one_run_epsilon exceeds ``tested`` for randomized response at ``spent`` that leaks with ``delta``.

    With probability canaries * delta / betrayed, a random subset of that many canaries is told outright, and the
    auditor guesses those among its own: each canary is told with probability delta, so the mechanism is
    (spent, delta)-DP for each.
    """
    counts = np.arange(guesses + 1)
    right = 1 / (1 + math.exp(-spent))
    chances = stats.binom.pmf(counts, guesses, right)
    if betrayed:
        leak = canaries * delta / betrayed
        told = stats.binom.pmf(counts - betrayed, guesses - betrayed, right)
        chances = (1 - leak) * chances + leak * told
    tested_delta = delta if tested_delta is None else tested_delta
    found = [one_run_epsilon(int(v), guesses, canaries, delta=tested_delta) for v in counts]
    return float(chances[np.array(found) > tested].sum())


@pytest.mark.parametrize("epsilon", [0.0, 0.5, 2.0])
@pytest.mark.parametrize("guesses", [5, 60, 200])
def test_honest_mechanism_is_not_contradicted_in_one_run(epsilon, guesses):
    assert one_run_level(epsilon, epsilon, guesses, 200) <= 0.05


@pytest.mark.parametrize("epsilon", [0.5, 1.0, 2.0])
def test_doubled_epsilon_is_caught_in_one_run(epsilon):
    assert one_run_level(epsilon, 2 * epsilon, 300, 300) > 0.95


@pytest.mark.parametrize("betrayed", [3, 10, 20])
def test_leaking_within_delta_is_not_contradicted_in_one_run(betrayed):
    assert one_run_level(0.5, 0.5, 60, 60, delta=betrayed / 600, betrayed=betrayed) <= 0.05


def test_the_same_leak_contradicts_delta_zero():
    assert one_run_level(0.5, 0.5, 60, 60, delta=20 / 600, betrayed=20, tested_delta=0.0) > 0.05


@pytest.mark.parametrize(("canaries", "guesses", "correct"), [(10, 10, 9), (100, 60, 50), (50, 50, 26), (30, 8, 8)])
@pytest.mark.parametrize("delta", [0.0, 1e-3, 0.1, 1.0])
def test_p_value_grows_with_epsilon_where_it_decides(canaries, guesses, correct, delta):
    """Up to one half it grows, and it never returns below: so the largest rejected epsilon is where bisection ends."""
    values = np.array([one_run_p_value(correct, guesses, canaries, e, delta) for e in np.linspace(0, 9, 200)])
    above = np.flatnonzero(values >= 0.5)
    assert above.size
    assert (np.diff(values[: above[0]]) >= 0).all()
    assert (values[above[0] :] >= 0.5).all()


def test_one_run_epsilon_is_where_the_p_value_crosses():
    found = one_run_epsilon(95, 100, 1000, delta=1e-5)
    assert one_run_p_value(95, 100, 1000, found, 1e-5) <= 1 - 0.95 < one_run_p_value(95, 100, 1000, found + 1e-9, 1e-5)
    assert one_run_epsilon(50, 100, 1000) == 0.0


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: clopper_pearson(11, 10), "successes to be an integer >= 0 and <= 10, got 11"),
        (lambda: clopper_pearson(1, 10, 1.0), "confidence"),
        (lambda: epsilon_lower_bound(5, 4, 0, 4), "true_positives to be integers from 0 to 4"),
        (lambda: epsilon_lower_bound(0.5, 4, 0, 4), "true_positives"),
        (lambda: epsilon_lower_bound(1, 4, 0, 4, comparisons=0), "comparisons"),
        (lambda: one_run_p_value(3, 2, 9, 1.0), "correct to be an integer >= 0 and <= 2, got 3"),
        (lambda: one_run_p_value(1, 10, 9, 1.0), "guesses"),
        (lambda: one_run_epsilon(1, 2, 9, confidence=0.4), "confidence"),
    ],
)
def test_wrong_arguments_are_named(call, words):
    with pytest.raises(InputError, match=words):
        call()
