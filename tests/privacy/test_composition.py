"""The textbook theorems, against exact enumeration of the mechanisms that are worst for them and the slides' figures."""

import math
from fractions import Fraction
from itertools import product

import pytest
from mpmath import binomial, exp, mp, mpf

from sfumato.errors import InputError
from sfumato.privacy import accounting
from sfumato.privacy.composition import (
    advanced_composition,
    basic_composition,
    group_privacy,
    optimal_composition,
    optimal_composition_delta,
    post_processing,
)
from sfumato.privacy.events import GaussianEvent, PoissonGaussianEvent

SLIDE = PoissonGaussianEvent(sampling_prob=0.01, noise_multiplier=4.0, steps=10_000)
SLIDE_DELTA = 1e-5


def worst(epsilon: float, delta: float) -> list[tuple[float, float]]:
    """(P, Q) of the outcomes of the mechanism that dominates every (epsilon, delta)-DP one."""
    right, wrong = (1 - delta) / (1 + math.exp(-epsilon)), (1 - delta) / (1 + math.exp(epsilon))
    return [(delta, 0.0), (right, wrong), (wrong, right), (0.0, delta)]


def hockey_stick(pairs, total_epsilon: float) -> float:
    """The exact delta of independent outcomes at ``total_epsilon``."""
    terms = []
    for outcome in product(*pairs):
        upper, lower = (math.prod(masses[i] for masses in outcome) for i in (0, 1))
        terms.append(max(0.0, upper - math.exp(total_epsilon) * lower))
    return math.fsum(terms)


def test_basic_composition_is_exact_in_decimals():
    assert basic_composition([(0.1, 1e-7)] * 10) == (1.0, 1e-6)
    assert basic_composition([]) == (0.0, 0.0)
    assert basic_composition([(1.0, 0.7), (1.0, 0.7)]) == (2.0, 1.0)


def test_basic_composition_never_rounds_down():
    """Claims far below the last digit of the sum: floating point would drop every one."""
    epsilon, delta = basic_composition([(1.0, 1e-6), *[(1e-17, 1e-23)] * 50])
    assert 1.0 + 50 * 1e-17 == 1.0 + 5e-16
    assert math.fsum([1.0, 1e-17]) == 1.0
    assert Fraction(repr(epsilon)) >= 1 + Fraction(50, 10**17)
    assert Fraction(repr(delta)) >= Fraction(1, 10**6) + Fraction(50, 10**23)
    assert basic_composition([(1.0, 0.0), (1e-17, 0.0)])[0] == math.nextafter(1.0, 2.0)


@pytest.mark.parametrize("guarantees", [[(0.5, 0.0)] * 3, [(0.3, 0.01), (1.0, 0.0)], [(0.7, 0.05)] * 4])
def test_basic_composition_bounds_the_worst_mechanisms(guarantees):
    epsilon, delta = basic_composition(guarantees)
    pairs = [worst(*guarantee) for guarantee in guarantees]
    assert hockey_stick(pairs, epsilon) <= delta * (1 + 1e-9) + 1e-15
    assert hockey_stick(pairs, 0.9 * epsilon) > delta + 1e-3


def published_advanced(epsilon, count, slack):
    return math.sqrt(2 * count * math.log(1 / slack)) * epsilon + count * epsilon * (math.exp(epsilon) - 1)


@pytest.mark.parametrize(
    ("epsilon", "count", "slack"), [(0.01, 1000, 1e-6), (0.5, 7, 0.01), (3.0, 2, 0.5), (0.0, 4, 0.1)]
)
def test_advanced_composition_is_the_printed_theorem(epsilon, count, slack):
    total, delta = advanced_composition(epsilon, count, slack, delta=1e-9)
    expected = published_advanced(epsilon, count, slack)
    assert total == pytest.approx(expected, rel=1e-12)
    assert total >= expected
    assert Fraction(repr(delta)) >= count * Fraction("1e-9") + Fraction(repr(slack))


@pytest.mark.parametrize("delta", [0.0, 0.02])
@pytest.mark.parametrize(("epsilon", "count"), [(0.2, 6), (0.05, 7), (1.0, 3)])
def test_advanced_composition_bounds_the_worst_mechanisms(epsilon, count, delta):
    total, joint = advanced_composition(epsilon, count, 0.05, delta)
    assert hockey_stick([worst(epsilon, delta)] * count, total) <= joint


@pytest.mark.parametrize("delta", [0.0, 0.02])
@pytest.mark.parametrize(("epsilon", "count"), [(0.2, 6), (1.5, 1), (1.0, 5), (3.0, 4)])
def test_optimal_composition_is_attained_by_the_worst_mechanisms(epsilon, count, delta):
    pairs = [worst(epsilon, delta)] * count
    for total in (0.0, 0.37 * epsilon, epsilon * (count - 0.5), epsilon * count, 9.0):
        exact = hockey_stick(pairs, total)
        assert exact - 1e-14 <= optimal_composition_delta(total, epsilon, count, delta) <= exact * (1 + 2e-9) + 1e-14
    total, joint = optimal_composition(epsilon, count, 0.03, delta)
    assert joint == pytest.approx(1 - (1 - delta) ** count * 0.97, rel=1e-12)
    assert hockey_stick(pairs, total) <= joint * (1 + 1e-12)
    assert hockey_stick(pairs, 0.999 * total) > joint


@pytest.mark.parametrize(("epsilon", "count"), [(0.5, 4), (0.01, 1000), (0.3, 51), (2.0, 7), (20.0, 3)])
@pytest.mark.parametrize("delta", [0.0, 1e-4])
def test_optimal_composition_is_the_printed_theorem(epsilon, count, delta):
    """Kairouz, Oh and Viswanath 2015, theorem 3.3, at every i that gives a delta above 1e-250, at 60 digits."""
    with mp.workdps(60):
        step = mpf(epsilon)
        for i in range(1, count // 2 + 1, max(1, count // 20)):
            terms = (binomial(count, j) * (exp((count - j) * step) - exp((count - 2 * i + j) * step)) for j in range(i))
            delta_i = sum(terms) / (1 + exp(step)) ** count
            if delta_i < 1e-250:
                continue
            total = (count - 2 * i) * epsilon
            value = optimal_composition_delta(total, epsilon, count, delta)
            assert value == pytest.approx(float(1 - (1 - mpf(delta)) ** count * (1 - delta_i)), rel=3e-9)
            if epsilon <= 2:  # above, delta is flat between the steps: many epsilons within its last digits
                found, _ = optimal_composition(epsilon, count, float(delta_i), delta)
                assert found == pytest.approx(total, rel=1e-6, abs=1e-6)


def test_optimal_composition_of_many_small_steps_tends_to_the_gaussian():
    """k steps of epsilon / sqrt(k) tend to mu = epsilon (central limit), and the rates agree to the next order."""
    total, _ = optimal_composition(1e-3, 10**6, 1e-6)
    assert total == pytest.approx(accounting.epsilon([GaussianEvent(1.0)], 1e-6), rel=1e-3)


@pytest.mark.parametrize(("epsilon", "count", "slack"), [(0.01, 1000, 1e-6), (0.1, 100, 1e-9), (1.0, 20, 1e-5)])
def test_optimal_is_below_advanced_and_basic(epsilon, count, slack):
    best, _ = optimal_composition(epsilon, count, slack)
    assert 0 < best < min(advanced_composition(epsilon, count, slack)[0], count * epsilon)


def test_optimal_composition_without_slack_is_the_sum():
    assert optimal_composition(0.1, 10, 0.0) == (1.0, 0.0)
    assert optimal_composition(0.5, 3, 0.9)[0] == 0.0
    assert optimal_composition_delta(1.0, 0.1, 10) == 0.0 < optimal_composition_delta(0.999, 0.1, 10)


@pytest.mark.parametrize("size", [1, 2, 3])
@pytest.mark.parametrize(("epsilon", "delta"), [(0.4, 0.0), (0.4, 0.03), (0.0, 0.1)])
def test_group_privacy_is_attained(epsilon, delta, size):
    """One output whose probability grows by p -> e^epsilon p + delta at each step attains the bound."""
    total, joint = group_privacy(epsilon, delta, size)
    start = chance = 1e-3
    for _ in range(size):
        chance = math.exp(epsilon) * chance + delta
    assert chance == pytest.approx(math.exp(total) * start + joint, rel=1e-9)
    assert chance <= math.exp(total) * start + joint + 1e-15


def test_group_privacy_with_small_delta_only_once_would_be_wrong():
    total, joint = group_privacy(1.0, 0.01, 3)
    assert (total, joint) == (3.0, pytest.approx(0.01 * (1 + math.e + math.e**2)))
    assert joint > 3 * 0.01


def test_post_processing_keeps_the_guarantee():
    assert post_processing(1.0, 1e-6) == (1.0, 1e-6)
    pairs = worst(1.0, 0.05)
    for merged in ([0, 1], [1, 3], [0, 2, 3]):
        kept = [pair for i, pair in enumerate(pairs) if i not in merged]
        joined = [*kept, tuple(sum(pairs[i][side] for i in merged) for side in (0, 1))]
        assert hockey_stick([joined], 1.0) <= 0.05 + 1e-12


def test_slides_moments_accountant():
    assert accounting.epsilon([SLIDE], SLIDE_DELTA, method="moments") == pytest.approx(1.26, abs=0.005)


def slide_step(multiplier_constant: float = 1.25, share: float = 0.5) -> tuple[float, float]:
    """(epsilon, delta) of one step by the classical Gaussian calibration and linear amplification."""
    q, steps = SLIDE.sampling_prob, SLIDE.steps
    step_delta = (1 - share) * SLIDE_DELTA / (q * steps)
    return q * math.sqrt(2 * math.log(multiplier_constant / step_delta)) / SLIDE.noise_multiplier, q * step_delta


def test_slides_strong_composition():
    """9.34 is the theorem with e^epsilon - 1 cut to epsilon; as printed it gives 9.355."""
    epsilon, delta = slide_step()
    total, joint = advanced_composition(epsilon, SLIDE.steps, SLIDE_DELTA / 2, delta)
    first_order = total - SLIDE.steps * epsilon * (math.expm1(epsilon) - epsilon)
    assert f"{first_order:.2f}" == "9.34"
    assert f"{total:.3f}" == "9.355"
    assert joint == pytest.approx(SLIDE_DELTA)


def test_slides_figure_tells_the_constants_apart():
    """Other readings of the slide miss 9.34: the constant 2 or 1, all of delta on one side, the leading term alone."""
    for constant, share in ((2.0, 0.5), (1.0, 0.5), (1.25, 0.1), (1.25, 0.9)):
        epsilon, _ = slide_step(constant, share)
        leading = math.sqrt(2 * SLIDE.steps * math.log(1 / (share * SLIDE_DELTA))) * epsilon
        assert f"{leading + SLIDE.steps * epsilon**2:.2f}" != "9.34"
    epsilon, _ = slide_step()
    assert math.sqrt(2 * SLIDE.steps * math.log(2 / SLIDE_DELTA)) * epsilon == pytest.approx(7.21, abs=0.005)


def test_slides_strong_composition_with_proved_steps_is_larger():
    q = SLIDE.sampling_prob
    step_delta = SLIDE_DELTA / 2 / (q * SLIDE.steps)
    one = accounting.epsilon([GaussianEvent(SLIDE.noise_multiplier)], step_delta)
    proved = math.log1p(q * math.expm1(one))
    assert proved > slide_step()[0]
    assert advanced_composition(proved, SLIDE.steps, SLIDE_DELTA / 2, q * step_delta)[0] == pytest.approx(
        17.16, abs=0.01
    )


@pytest.mark.parametrize(
    ("call", "word"),
    [
        (lambda: basic_composition([(1.0, 0.0), (-0.1, 0.0)]), "epsilon"),
        (lambda: basic_composition([(1.0, 1.5)]), "delta"),
        (lambda: advanced_composition(0.1, 0, 1e-6), "count"),
        (lambda: advanced_composition(0.1, 10, 0.0), "slack"),
        (lambda: advanced_composition(701.0, 10, 0.1), "epsilon"),
        (lambda: optimal_composition(0.1, 10, 1.0), "slack"),
        (lambda: optimal_composition_delta(-1.0, 0.1, 10), "total_epsilon"),
        (lambda: group_privacy(100.0, 0.0, 8), "size"),
        (lambda: post_processing(1.0, math.nan), "delta"),
    ],
)
def test_wrong_arguments_are_named(call, word):
    with pytest.raises(InputError, match=word):
        call()
