"""Filters hold against analysts who choose the next price from the last answer: exact on small adaptive trees."""

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import ndtr

from sfumato.errors import BudgetExceededError, InputError
from sfumato.noise._rectangles import SAMPLER_TAU
from sfumato.privacy import accounting
from sfumato.privacy._filters import BasicFilter, Charge, GaussianFilter, gaussian_mu
from sfumato.privacy.calibration import effective_delta, gaussian_noise_multiplier
from sfumato.privacy.events import (
    ComposedEvent,
    GaussianEvent,
    LaplaceEvent,
    PoissonGaussianEvent,
)

NODES = np.linspace(-12, 12, 40_001)


def worst(epsilon: float, delta: float) -> list[tuple[float, float]]:
    """(P, Q) of the outcomes of the mechanism that dominates every (epsilon, delta)-DP one."""
    right, wrong = (1 - delta) / (1 + math.exp(-epsilon)), (1 - delta) / (1 + math.exp(epsilon))
    return [(delta, 0.0), (right, wrong), (wrong, right), (0.0, delta)]


def adaptive_delta(choose, epsilon: float, history=(), upper=1.0, lower=1.0) -> float:
    """The exact delta at ``epsilon`` of an analyst who calls ``choose(history)`` for the next charge or None."""
    charge = choose(history)
    if charge is None:
        return max(0.0, upper - math.exp(epsilon) * lower)
    return math.fsum(
        adaptive_delta(choose, epsilon, (*history, (charge, outcome)), upper * p, lower * q)
        for outcome, (p, q) in enumerate(worst(charge.epsilon, charge.delta))
    )


def admitted(history, charge, epsilon, delta):
    """Whether a fresh filter that replays the history has room for the charge."""
    return not BasicFilter(epsilon, delta, [past for past, _ in history]).would_exceed(charge)


@settings(deadline=None, max_examples=60)
@given(st.randoms(use_true_random=False))
def test_basic_filter_holds_for_random_analysts(random):
    epsilon, delta, plans = random.uniform(0.2, 2), random.choice([0.0, 0.05, 0.2]), {}

    def choose(history):
        path = tuple(outcome for _, outcome in history)
        if path not in plans:
            spent = BasicFilter(epsilon, delta, [past for past, _ in history]).remaining
            share = random.choice([0.3, 0.6, 1.0])
            plans[path] = Charge(share * spent["epsilon"], random.choice([0.0, share]) * spent["delta"])
        charge = plans[path]
        return charge if len(path) < 3 and admitted(history, charge, epsilon, delta) else None

    assert adaptive_delta(choose, epsilon) <= delta + 1e-12


def test_overspending_on_some_answers_only_is_overspending():
    """An analyst who goes over the total after one answer only: refused, and rightly."""

    def choose(history):
        if not history:
            return Charge(0.5, 0.0)
        return Charge(0.7, 0.0) if len(history) == 1 and history[0][1] == 1 else None

    past = [(Charge(0.5, 0.0), 1)]
    assert adaptive_delta(choose, 1.0) > 0.05
    assert adaptive_delta(choose, 1.2) < 1e-12
    assert not admitted(past, Charge(0.7, 0.0), 1.0, 0.0)
    assert admitted(past, Charge(0.7, 0.0), 1.2, 0.0)


def hockey_stick(mu: np.ndarray, threshold: np.ndarray) -> np.ndarray:
    """E max(0, 1 - exp(threshold - L)) for the loss L of N(mu, 1) against N(0, 1)."""
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        value = ndtr(mu / 2 - threshold / mu) - np.exp(threshold) * ndtr(-mu / 2 - threshold / mu)
    return np.where(mu > 0, value, np.maximum(0, -np.expm1(np.minimum(threshold, 0))))


def pure_hockey_stick(epsilon: float, threshold: np.ndarray) -> np.ndarray:
    """The same for randomized response."""
    terms = [(1 / (1 + math.exp(-epsilon)), epsilon), (1 / (1 + math.exp(epsilon)), -epsilon)]
    return sum(p * np.maximum(0, -np.expm1(np.minimum(threshold - loss, 0))) for p, loss in terms)


def two_step_delta(mu: float, rest, epsilon: float) -> float:
    """Delta of a Gaussian release and then whatever ``rest(loss, threshold)`` costs after each of its answers."""
    answers = NODES + mu
    losses = mu * answers - mu**2 / 2
    density = np.exp(-(NODES**2) / 2) / math.sqrt(2 * math.pi)
    return float((density * rest(losses, epsilon - losses)).sum() * (NODES[1] - NODES[0]))


ANALYSTS = {
    "goes on": lambda losses, epsilon: np.ones_like(losses),
    "goes on when it hurts": lambda losses, epsilon: losses > epsilon / 2,
    "goes on near the limit": lambda losses, epsilon: abs(losses - epsilon) < 1,
    "stops when it hurts": lambda losses, epsilon: losses < epsilon,
    "asks less when it hurts": lambda losses, epsilon: 1 / (1 + np.exp(losses)),
}


@pytest.mark.parametrize("first", [0.2, 0.7, 0.95])
@pytest.mark.parametrize("analyst", ANALYSTS, ids=str)
@pytest.mark.parametrize(("epsilon", "delta"), [(1.0, 1e-5), (0.3, 0.05), (4.0, 1e-3)])
def test_gaussian_filter_holds_for_analysts_who_look(first, analyst, epsilon, delta):
    total = GaussianFilter(epsilon, delta).remaining["mu^2"]
    mu = math.sqrt(first * total)

    def rest(losses, threshold, excess=1.0):
        left = GaussianFilter(epsilon, delta, [Charge(9.0, 0.0, mu=mu)]).remaining["mu^2"]
        return hockey_stick(np.sqrt(excess * left * ANALYSTS[analyst](losses, epsilon)), threshold)

    assert two_step_delta(mu, rest, epsilon) <= delta * (1 + 1e-9)
    if analyst == "goes on":
        assert two_step_delta(mu, rest, epsilon) >= delta * (1 - 1e-6)
        assert two_step_delta(mu, lambda *at: rest(*at, excess=1.2), epsilon) > delta * (1 + 1e-3)


def test_the_roomier_of_two_filters_is_no_filter():
    """Each continuation alone keeps delta; choosing after the first answer whichever hurts more costs 1.8 times it."""
    epsilon, delta, pure = 3.0, 1e-6, 2.4
    first = math.sqrt(GaussianFilter(epsilon - pure, 0.9 * delta).remaining["mu^2"])
    left = GaussianFilter(epsilon, delta, [Charge(epsilon - pure, 0.9 * delta, mu=first)]).remaining["mu^2"]

    def gaussian(losses, threshold):
        return hockey_stick(np.full_like(losses, math.sqrt(left)), threshold)

    def claimed(losses, threshold):
        return 0.1 * delta + (1 - 0.1 * delta) * pure_hockey_stick(pure, threshold)

    assert not BasicFilter(epsilon, delta, [Charge(0.6, 0.9 * delta)]).would_exceed(Charge(pure, 0.1 * delta))
    assert two_step_delta(first, gaussian, epsilon) <= delta * (1 + 1e-9)
    assert two_step_delta(first, claimed, epsilon) <= delta
    assert two_step_delta(first, lambda *at: np.maximum(gaussian(*at), claimed(*at)), epsilon) > 1.8 * delta


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 8.0])
@pytest.mark.parametrize("delta", [1e-10, 1e-5, 0.01])
def test_gaussian_filter_admits_the_plan_calibrated_to_its_whole_budget(epsilon, delta):
    draws = 10**6
    noise_multiplier = gaussian_noise_multiplier(epsilon, effective_delta(delta, epsilon, draws), count=3)
    plan = Charge(epsilon, delta, mu=gaussian_mu([GaussianEvent(noise_multiplier, 3)]), draws=draws)
    louder = Charge(epsilon, delta, mu=plan.mu * (1 + 1e-9), draws=draws)
    budget = GaussianFilter(epsilon, delta)
    assert budget.would_exceed(louder)
    budget.charge(plan)
    assert accounting.epsilon([GaussianEvent(noise_multiplier, 3)], delta) <= epsilon
    assert budget.would_exceed(Charge(0.0, 0.0, mu=1e-4))


def test_gaussian_filter_counts_the_sampler():
    budget = GaussianFilter(1.0, 1e-6)
    room = budget.remaining["sampler delta"]
    most = int(room / ((1 + math.e) * SAMPLER_TAU))
    assert room == pytest.approx(1e-6 * 2**-32)
    assert not budget.would_exceed(Charge(0.1, 1e-6, mu=0.01, draws=int(most * 0.999)))
    with pytest.raises(BudgetExceededError, match="sampler delta"):
        budget.charge(Charge(0.1, 1e-6, mu=0.01, draws=int(most * 1.001)))


def test_gaussian_filter_admits_more_than_sums_of_claims():
    event = GaussianEvent(noise_multiplier=20.0)
    claim = Charge(accounting.epsilon([event], 1e-7), 1e-7, mu=gaussian_mu([event]))
    counts = []
    for budget in (BasicFilter(1.0, 1e-6), GaussianFilter(1.0, 1e-6)):
        counts.append(0)
        while not budget.would_exceed(claim):
            budget.charge(claim)
            counts[-1] += 1
    assert counts == [4, 22]
    assert (
        accounting.epsilon([GaussianEvent(20.0, 22)], 1e-6) <= 1.0 < accounting.epsilon([GaussianEvent(20.0, 23)], 1e-6)
    )


def test_gaussian_filter_refuses_other_plans():
    with pytest.raises(InputError, match="BasicFilter"):
        GaussianFilter(1.0, 1e-6).would_exceed(Charge(0.1, 1e-7))


def test_gaussian_mu_is_rounded_up():
    events = [GaussianEvent(3.0, 7), ComposedEvent((GaussianEvent(0.7),), count=2)]
    exact = Fraction(7, 9) + 2 / Fraction("0.7") ** 2
    mu = gaussian_mu(events)
    assert Fraction(repr(mu)) ** 2 >= exact > Fraction(repr(mu)) ** 2 * (1 - Fraction(1, 10**15))
    assert gaussian_mu([*events, LaplaceEvent(1.0)]) > mu
    assert gaussian_mu([*events, PoissonGaussianEvent(0.5, 1.0, 1)]) is None
    assert gaussian_mu([]) == 0.0


def test_sums_are_exact_decimals():
    budget = BasicFilter(1.0, 1e-6)
    for _ in range(10):
        budget.charge(Charge(0.1, 1e-7))
    assert budget.remaining == {"epsilon": 0.0, "delta": 0.0}
    assert sum([0.1] * 10) != 1.0
    with pytest.raises(BudgetExceededError, match=r"got epsilon 1e-17 with 0 of 1 left, short by 1e-17\."):
        budget.charge(Charge(1e-17, 0.0))


def test_tiny_charges_add_up():
    """In floating point 1 + 1e-17 + 1e-17 ... never grows."""
    budget = BasicFilter(1.0, 0.5, [Charge(0.9999999999999999, 0.0), *[Charge(1e-17, 0.0)] * 9])
    assert 1.0 + 1e-17 == 1.0
    assert budget.remaining["epsilon"] == 1e-17
    budget.charge(Charge(1e-17, 0.0))
    with pytest.raises(BudgetExceededError):
        budget.charge(Charge(1e-300, 0.0))


def test_refusal_spends_nothing_and_names_every_shortfall():
    budget = BasicFilter(1.0, 1e-6)
    budget.charge(Charge(0.75, 2e-7))
    with pytest.raises(BudgetExceededError) as refusal:
        budget.charge(Charge(0.5, 9e-7))
    assert "epsilon 0.5 with 0.25 of 1 left, short by 0.25" in str(refusal.value)
    assert "delta 9e-7 with 8e-7 of 1e-6 left, short by 1e-7" in str(refusal.value)
    assert "\n" not in str(refusal.value)
    assert budget.remaining == {"epsilon": 0.25, "delta": 8e-7}
    budget.charge(Charge(0.25, 8e-7))
    assert budget.would_exceed(Charge(0.0, 1e-300))
    assert not budget.would_exceed(Charge(0.0, 0.0))


def test_what_remains_can_be_spent():
    budget = BasicFilter(1.0, 1e-5, [Charge(0.3, 1e-6), Charge(1 / 3, 1e-7)])
    left = budget.remaining
    assert not budget.would_exceed(Charge(left["epsilon"], left["delta"]))
    assert budget.would_exceed(Charge(math.nextafter(left["epsilon"], 1.0), 0.0))


def test_overspent_history_counts():
    budget = BasicFilter(1.0, 1e-6, [Charge(3.0, 0.0)])
    assert budget.remaining["epsilon"] == 0.0
    with pytest.raises(BudgetExceededError, match=r"with 0 of 1 left, short by 2\.1"):
        budget.charge(Charge(0.1, 0.0))


@pytest.mark.parametrize(
    ("call", "word"),
    [
        (lambda: BasicFilter(0.0), "epsilon"),
        (lambda: BasicFilter(1.0, 1.0), "delta"),
        (lambda: GaussianFilter(1.0, 0.0), "delta"),
        (lambda: GaussianFilter(1000.0, 0.1), "epsilon"),
        (lambda: Charge(-1.0, 0.0), "epsilon"),
        (lambda: Charge(1.0, 0.0, mu=-1.0), "mu"),
        (lambda: Charge(1.0, 0.0, draws=-1), "draws"),
    ],
)
def test_wrong_arguments_are_named(call, word):
    with pytest.raises(InputError, match=word):
        call()
