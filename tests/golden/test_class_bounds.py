"""Theorem 5 of class-level privacy, and the strong composition of 2016, beside the exact sampled Gaussian mechanism."""

import math

import pytest

from sfumato.errors import InputError
from sfumato.privacy import accounting
from sfumato.privacy._class_bounds import strong_composition_epsilon, theorem_5_applies, theorem_5_epsilon
from sfumato.privacy.events import GaussianEvent, PoissonGaussianEvent


def exact(q, sigma, steps, delta, relation="replace"):
    return accounting.epsilon([PoissonGaussianEvent(q, sigma, steps, relation)], delta)


@pytest.mark.parametrize(
    ("q", "sigma", "delta", "published", "steps", "truth"),
    [
        (0.2, 1.6, 1e-3, 18.6, 200, 15.91),
        (0.2, 3.0, 1e-3, 8.2, 137, 5.44),
        (0.2, 3.65, 1e-3, 7.0, 148, 4.47),
        (0.33, 0.8, 1e-2, 62.0, 307, 112.5),
        (0.33, 1.2, 1e-2, 45.5, 371, 71.8),
        (0.33, 1.6, 1e-2, 40.5, 523, 61.4),
    ],
)
def test_published_epsilons_the_steps_they_imply_and_the_truth(q, sigma, delta, published, steps, truth):
    """Section 4.5: those of digits are above the truth, those of faces far below it."""
    assert (published * sigma / (4 * q)) ** 2 / math.log(1 / delta) == pytest.approx(steps, abs=0.8)
    assert theorem_5_epsilon(q, sigma, steps, delta) == pytest.approx(published, rel=2e-3)
    assert exact(q, sigma, steps, delta) == pytest.approx(truth, rel=3e-3)
    assert not theorem_5_applies(q, sigma, steps, delta)
    assert (published < truth) == (q == 0.33)


@pytest.mark.parametrize(
    ("q", "sigma", "steps", "delta", "stated", "truth"),
    [(0.05, 1.0, 10_000, 1e-3, 52.57, 83.68), (0.01, 0.5, 10_000, 1e-5, 27.14, 57.75), (0.05, 0.5, 1000, 1e-3, 33.25, 63.13)],
)  # fmt: skip
def test_theorem_5_is_false_where_its_conditions_hold(q, sigma, steps, delta, stated, truth):
    assert theorem_5_applies(q, sigma, steps, delta)
    assert theorem_5_epsilon(q, sigma, steps, delta) == pytest.approx(stated, rel=1e-3)
    assert exact(q, sigma, steps, delta) == pytest.approx(truth, rel=1e-3)


def test_remark_1_halves_the_number_and_is_no_bound_either():
    assert theorem_5_epsilon(0.2, 1.6, 200, 1e-3, "add-remove") == theorem_5_epsilon(0.2, 1.6, 200, 1e-3) / 2
    stated, truth = theorem_5_epsilon(0.33, 0.8, 307, 1e-2, "add-remove"), exact(0.33, 0.8, 307, 1e-2, "add-remove")
    assert stated == pytest.approx(31.02, abs=0.01)
    assert truth == pytest.approx(56.4, abs=0.1)


@pytest.mark.parametrize("relation", ["replace", "add-remove"])
@pytest.mark.parametrize(("q", "sigma", "steps", "delta"), [(0.2, 1.6, 200, 1e-3), (0.33, 0.8, 307, 1e-2)])
def test_moments_of_the_right_pair_are_never_below_the_truth(q, sigma, steps, delta, relation):
    bound = accounting.epsilon([PoissonGaussianEvent(q, sigma, steps, relation)], delta, method="moments")
    assert bound >= exact(q, sigma, steps, delta, relation)


@pytest.mark.parametrize(
    ("wrong", "named"),
    [((0.0, 1.0, 1, 0.1), "sampling_prob"), ((0.1, 0.0, 1, 0.1), "noise_multiplier"), ((0.1, 1.0, 0, 0.1), "steps"),
     ((0.1, 1.0, 1, 1.0), "delta"), ((0.1, 1.0, 1, 0.1, "remove"), "relation")],
)  # fmt: skip
def test_errors_name_the_argument(wrong, named):
    for formula in (theorem_5_epsilon, theorem_5_applies):
        with pytest.raises(InputError, match=f"Expected {named} to be"):
            formula(*wrong)


def test_strong_composition_is_the_number_of_the_slides_and_its_steps_have_no_proof():
    """Abadi et al. (2016), section 3.1: 9.34 beside 1.26. Steps with a proof, amplified as sampling does, give 17.2."""
    q, sigma, steps, delta = 0.01, 4.0, 10_000, 1e-5
    assert strong_composition_epsilon(q, sigma, steps, delta) == pytest.approx(9.34, abs=0.005)
    step_delta = delta / (2 * q * steps)
    assert math.sqrt(2 * math.log(1.25 / step_delta)) / sigma == pytest.approx(1.459, abs=1e-3)  # above 1: no proof
    proved = math.log1p(q * math.expm1(accounting.epsilon([GaussianEvent(sigma)], step_delta)))
    total = math.sqrt(2 * steps * math.log(2 / delta)) * proved + steps * proved * math.expm1(proved)
    assert (proved, total) == (pytest.approx(0.0235, abs=1e-4), pytest.approx(17.2, abs=0.05))
    with pytest.raises(InputError, match="steps"):
        strong_composition_epsilon(q, sigma, 0, delta)
