"""Splitting one budget: GAP at node level on Facebook-size data (19,800 training rows, batch 256, 10 + 10 epochs)."""

import math

import pytest

from sfumato.errors import InputError
from sfumato.privacy import accounting
from sfumato.privacy._splitting import SGD_WEIGHT, Part, balance, split_noise
from sfumato.privacy.calibration import calibrate, gaussian_noise_multiplier
from sfumato.privacy.events import GaussianEvent, LaplaceEvent, PoissonGaussianEvent

DELTA, HOPS, RATE, STEPS = 1e-5, 2, 256 / 19800, 773


def parts(weight, relation="add-remove"):
    sgd = Part(PoissonGaussianEvent(RATE, 1.0, STEPS, relation), weight)
    return (Part(GaussianEvent(1.0, HOPS)), sgd, sgd)


def tied(noise):
    return [GaussianEvent(noise, HOPS), PoissonGaussianEvent(RATE, noise, 2 * STEPS)]


def tied_under_rdp(epsilon):
    low, high = 0.5, 20.0
    for _ in range(40):
        middle = math.sqrt(low * high)
        over = accounting.epsilon(tied(middle), DELTA, method="rdp") > epsilon
        low, high = (middle, high) if over else (low, middle)
    return high


@pytest.mark.parametrize(("epsilon", "weight"), [(8.0, SGD_WEIGHT), (1.0, SGD_WEIGHT), (8.0, 0.003)])
def test_the_split_stays_within_the_budget(epsilon, weight):
    events = split_noise(parts(weight), epsilon, DELTA)
    assert 0.999 * epsilon <= accounting.epsilon(events, DELTA) <= epsilon
    assert events[1] == events[2]


def test_saving_against_the_tied_choice_under_rdp():
    """Default 12 %; 15 % needs four times the DP-SGD noise, and no split can pass 15.4 %."""
    reference = tied_under_rdp(8.0)
    assert reference == pytest.approx(1.0027, abs=5e-4)
    saving = {w: 1 - split_noise(parts(w), 8.0, DELTA)[0].noise_multiplier / reference for w in (SGD_WEIGHT, 0.003)}
    assert saving[SGD_WEIGHT] >= 0.12
    assert saving[0.003] >= 0.15
    assert 1 - gaussian_noise_multiplier(8.0, DELTA, HOPS) / reference < 0.154


@pytest.mark.parametrize("epsilon", [2.0, 8.0])
def test_the_rule_is_near_the_best_split_under_exact_accounting(epsilon):
    """Moving the DP-SGD noise away from the rule, at equal exact cost, never lowers the weighted noise by 1 %."""

    def objective(aggregation, sgd):
        return math.log(aggregation) + 2 * SGD_WEIGHT * math.log(sgd)

    def at_ratio(ratio):
        def events(noise):
            return [GaussianEvent(noise, HOPS), PoissonGaussianEvent(RATE, ratio * noise, 2 * STEPS)]

        noise = calibrate(events, epsilon, DELTA)
        return objective(noise, ratio * noise)

    aggregation, sgd, _ = (event.noise_multiplier for event in split_noise(parts(SGD_WEIGHT), epsilon, DELTA))
    chosen = objective(aggregation, sgd)
    others = [at_ratio(factor * sgd / aggregation) for factor in (0.5, 0.7, 1.4, 2.0)]
    assert chosen <= min(others) + 0.01
    assert max(others) > chosen + 0.02


def test_balance_equalizes_weighted_elasticities():
    chosen = parts(0.05, "replace")
    noises = balance(chosen, 1.7)
    levels = [part.elasticity(noise) / part.weight for part, noise in zip(chosen, noises, strict=True)]
    assert levels == pytest.approx([levels[0]] * 3, rel=1e-9)
    assert balance(parts(0.05), 1.7)[1] < noises[1]


def test_elasticity_is_the_derivative_of_the_central_limit_cost():
    z, h = 1.3, 1e-6
    part = Part(PoissonGaussianEvent(RATE, 1.0, STEPS))
    cost = [STEPS * RATE**2 * math.expm1((z * math.exp(s)) ** -2) for s in (-h, h)]
    assert part.elasticity(z) == pytest.approx((cost[0] - cost[1]) / (2 * h), rel=1e-6)
    full = Part(PoissonGaussianEvent(1.0, 1.0, STEPS))
    assert full.elasticity(z) == pytest.approx(Part(GaussianEvent(1.0, STEPS)).elasticity(z))


@pytest.mark.parametrize(
    ("make", "name"),
    [
        (lambda: balance([], 1.0), "parts"),
        (lambda: balance(parts(0.1), 0.0), "noise_multiplier"),
        (lambda: Part(GaussianEvent(1.0), 0.0), "weight"),
        (lambda: Part(LaplaceEvent(1.0)), "event"),
        (lambda: split_noise(parts(0.1), 0.0, DELTA), "epsilon"),
    ],
)
def test_errors_name_the_argument(make, name):
    with pytest.raises(InputError, match=name):
        make()
