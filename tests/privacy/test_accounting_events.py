"""Every kind of event against a computation of its own: closed forms, finite sums, brackets by rounding each way."""

import math
from fractions import Fraction

import numpy as np
import pytest
from scipy.fft import irfft, rfft
from scipy.integrate import quad
from scipy.optimize import brentq
from scipy.special import ndtr
from scipy.stats import binom, norm

from sfumato.errors import InputError
from sfumato.privacy._pairs import Mixture, Swapped
from sfumato.privacy.accounting import central_limit_epsilon, delta, epsilon, rough_epsilon
from sfumato.privacy.events import (
    ComposedEvent,
    ExponentialEvent,
    GaussianEvent,
    LaplaceEvent,
    PoissonGaussianEvent,
    PureEvent,
    RandomizedResponseEvent,
    RepeatedGaussianEvent,
    ZCDPEvent,
)

BUDGETS = (1e-320, 1e-40, 1e-5, 0.999999)


def finite_delta(losses, masses, eps):
    return float(np.sum(masses * -np.expm1(np.minimum(eps - losses, 0))))


def atoms(event):
    """Losses and masses of one randomized response, from its table of probabilities."""
    weights = np.ones(event.num_outcomes)
    weights[0] = math.exp(event.epsilon)
    p, q = weights / weights.sum(), np.roll(weights, 1) / weights.sum()
    return np.log(p / q), p


def bracket(masses, below, above, steps, target, grid):
    """Epsilons of a composition whose losses are rounded down, then up: no connecting of dots, no tilting."""
    found = []
    for losses, rounding in ((below, np.floor), (above, np.ceil)):
        cells = rounding(losses / grid).astype(int)
        center = round(float(masses @ cells))
        size = 1 << 21
        sums = irfft(rfft(np.bincount((cells - center) % size, masses, size)) ** steps, size)
        total = ((np.arange(size) + size // 2) % size - size // 2 + steps * center) * grid
        found.append(brentq(lambda e, t=total, s=sums: finite_delta(t, s, e) - target, 0, 1e3, xtol=1e-9))
    return found


def normal_cells(points, means, probs):
    return sum(p * np.diff(ndtr(points - m)) for m, p in zip(means, probs, strict=True))


@pytest.mark.parametrize("z", [0.3, 1.0, 7.0])
def test_one_laplace_release(z):
    for eps in np.linspace(0, 0.98 / z, 7):
        exact = 1 - math.exp((eps - 1 / z) / 2)
        assert exact * (1 - 1e-12) <= delta([LaplaceEvent(z)], eps) <= exact * 1.001
        value = epsilon([LaplaceEvent(z)], exact)
        assert eps * (1 - 1e-12) - 1e-12 <= value <= eps * 1.001 + 1e-9
    assert delta([LaplaceEvent(z)], math.nextafter(1 / z, math.inf)) == 0


@pytest.mark.parametrize("steps", [2, 30])
def test_laplace_releases_against_rounded_sums(steps):
    z, target = 2.0, 1e-6
    x = np.concatenate([[-60], np.linspace(0, 1, 100_001), [60]])
    cdf = np.where(x < 0, np.exp(np.minimum(x, 0) / z) / 2, 1 - np.exp(-np.maximum(x, 0) / z) / 2)
    losses = (np.abs(x - 1) - np.abs(x)) / z
    low, high = bracket(np.diff(cdf), losses[1:], losses[:-1], steps, target, 2e-5)
    value = epsilon([LaplaceEvent(z, steps)], target)
    assert 0.995 * value < low <= value <= 1.0002 * high


@pytest.mark.parametrize(
    ("eps", "outcomes", "steps"), [(1.0, 2, 1), (0.7, 2, 9), (0.4, 5, 6), (2.0, 3, 4), (1.5, 100, 3)]
)
def test_randomized_response_against_all_outcomes(eps, outcomes, steps):
    event = RandomizedResponseEvent(eps, outcomes, steps)
    losses, masses = np.zeros(1), np.ones(1)
    one, probs = atoms(event)
    kinds = {round(loss, 9): loss for loss in one}
    one, probs = (
        np.array(list(kinds.values())),
        np.array([probs[np.isclose(one, loss)].sum() for loss in kinds.values()]),
    )
    for _ in range(steps):
        losses, masses = np.add.outer(losses, one).ravel(), np.multiply.outer(masses, probs).ravel()
    for at in (0.0, 0.3 * eps, 0.9 * eps, 0.7 * steps * eps):
        exact = finite_delta(losses, masses, at)
        assert exact * (1 - 1e-9) <= delta([event], at) <= exact * 1.001 + 1e-15
        if exact > 1e-9:
            value = epsilon([event], exact)
            assert at * (1 - 1e-9) - 1e-12 <= value <= at * 1.0005 + 1e-9
            assert at == 0 or finite_delta(losses, masses, 0.995 * value) > exact


def test_a_million_tiny_responses_against_the_binomial_law():
    eps, steps, target = 1e-3, 10**6, 1e-6
    truths = np.arange(steps + 1)
    masses = binom.pmf(truths, steps, 1 / (1 + math.exp(-eps)))
    exact = brentq(lambda e: finite_delta((2 * truths - steps) * eps, masses, e) - target, 1, 10)
    assert exact * (1 - 1e-8) <= epsilon([PureEvent(eps, steps)], target) <= exact * 1.0005


def test_pure_releases_never_cost_more_than_their_sum():
    events = [PureEvent(0.1, 2), LaplaceEvent(4.0), ExponentialEvent(0.25, 3), RandomizedResponseEvent(0.5, 3)]
    assert epsilon(events, 1e-200) == pytest.approx(1.7, rel=1e-12)
    assert delta(events, 1.7 * (1 + 1e-12)) == 0
    assert delta(events, 1.6) > 0
    # Joined with Gaussian releases: the sum of both.
    gaussian = [GaussianEvent(0.02), PureEvent(900.0)]
    assert epsilon(gaussian, 1e-6) == pytest.approx(epsilon(gaussian[:1], 1e-6) + 900, rel=1e-3)


def test_known_structure_is_cheaper_than_epsilon_alone():
    pure = epsilon([PureEvent(0.2, 40)], 1e-6)
    assert pure == pytest.approx(epsilon([RandomizedResponseEvent(0.2, 2, 40)], 1e-6), rel=1e-9)
    for event in (LaplaceEvent(5.0, 40), RandomizedResponseEvent(0.2, 10, 40), ExponentialEvent(0.2, 40)):
        assert epsilon([event], 1e-6) < 0.98 * pure


@pytest.mark.parametrize("eps", [0.1, 1.0, 4.0])
def test_one_exponential_draw_is_the_worst_two_point_pair(eps):
    shifts = np.linspace(0, eps, 20_001)[1:-1]
    for at in (0.0, eps / 3, 0.9 * eps):
        high = np.expm1(eps - shifts) / (np.exp(eps - shifts) - np.exp(-shifts))
        exact = float((high * np.maximum(0, -np.expm1(at - shifts))).max())
        assert exact * (1 - 1e-7) <= delta([ExponentialEvent(eps)], at) <= exact * 1.002


@pytest.mark.parametrize("share", [0.2, 0.5, 0.8])
def test_exponential_draws_dominate_every_two_point_composition(share):
    eps, steps, target = 0.5, 20, 1e-6
    top = share * eps
    high = math.expm1(eps - top) / (math.exp(eps - top) - math.exp(-top))
    hits = np.arange(steps + 1)
    losses, masses = hits * top + (steps - hits) * (top - eps), binom.pmf(hits, steps, high)
    value = epsilon([ExponentialEvent(eps, steps)], target)
    exact = brentq(lambda e: finite_delta(losses, masses, e) - target, 0, 20)
    assert 0.3 * value < exact < value
    assert share != 0.5 or 0.8 * value < exact
    # With one t throughout, a Gaussian release of mu = sqrt(steps) eps / 2 is the limit: the RDP bound is its own.
    assert value <= epsilon([ZCDPEvent(eps**2 / 8, steps)], target) * (1 + 1e-6)


@pytest.mark.parametrize(
    ("q", "terms", "z", "steps", "grid"),
    [(0.01, 11, 4.0, 100, 5e-6), (0.3, 3, 2.0, 40, 5e-5)],
)
def test_repeated_terms_that_vanish_against_rounded_sums(q, terms, z, steps, grid):
    k = np.arange(terms + 1)
    probs = binom.pmf(k, terms, q)
    x = np.linspace(-9, 9 + terms / z, 500_001)
    losses = np.logaddexp.reduce([np.log(p) + j / z * x - (j / z) ** 2 / 2 for j, p in zip(k, probs, strict=True)])
    remove = bracket(normal_cells(x, k / z, probs), losses[:-1], losses[1:], steps, 1e-6, grid)
    add = bracket(normal_cells(x, [0], [1]), -losses[1:], -losses[:-1], steps, 1e-6, grid)
    value = epsilon([RepeatedGaussianEvent(q, terms, z, steps)], 1e-6)
    assert 0.995 * value < max(remove[0], add[0]) <= value <= 1.0003 * max(remove[1], add[1])


@pytest.mark.parametrize(("q", "terms", "z", "steps", "grid"), [(0.01, 11, 8.0, 50, 1e-5), (0.2, 3, 2.0, 10, 2e-4)])
@pytest.mark.parametrize("relation", ["replace", "leave"])
def test_repeated_terms_that_are_exchanged_against_rounded_sums(q, terms, z, steps, grid, relation):
    x = np.linspace(-9, 9, 200_001)
    if relation == "replace":
        parts = [(binom.pmf(k, terms, q), 2 * k / z) for k in range(terms + 1)]
    else:
        coins = {0: 1 - q, 1: q}
        parts = [(binom.pmf(k, terms - 1, q) * coins[b], (2 * k + b) / z) for k in range(terms) for b in coins]
    masses = np.concatenate([p * np.diff(ndtr(x)) for p, _ in parts])
    below, above = (np.concatenate([m * m / 2 + m * edge for _, m in parts]) for edge in (x[:-1], x[1:]))
    low, high = bracket(masses, below, above, steps, 1e-6, grid)
    value = epsilon([RepeatedGaussianEvent(q, terms, z, steps, relation)], 1e-6)
    assert 0.995 * value < low <= value <= 1.0003 * high


@pytest.mark.parametrize("relation", ["add-remove", "replace"])
def test_one_occurrence_is_the_subsampled_release(relation):
    """Under replace the pair of the sampled release is tighter than the one that reveals the draw."""
    single, repeated = (
        PoissonGaussianEvent(0.01, 2.0, 500, relation),
        RepeatedGaussianEvent(0.01, 1, 2.0, 500, relation),
    )
    assert epsilon([single], 1e-6) == epsilon([repeated], 1e-6)
    assert epsilon([single, repeated], 1e-6) == epsilon([PoissonGaussianEvent(0.01, 2.0, 1000, relation)], 1e-6)
    both = RepeatedGaussianEvent(0.005, 2, 2.0, 500, relation)
    assert epsilon([both], 1e-6) > epsilon([single], 1e-6)


def test_terms_that_are_all_drawn():
    for relation, most in (("add-remove", 5), ("replace", 10), ("leave", 9)):
        event = RepeatedGaussianEvent(1.0, 5, 20.0, 3, relation)
        assert event.apart == most
        assert epsilon([event], 1e-6) == pytest.approx(epsilon([GaussianEvent(20 / most, 3)], 1e-6), rel=1e-12)


@pytest.mark.parametrize("q", [1e-4, 0.03, 0.9])
@pytest.mark.parametrize("terms", [2, 7, 2000])
def test_a_record_that_leaves_costs_more_than_vanishing_terms_and_less_than_replaced_ones(q, terms):
    vanish, leave, exchanged = (
        epsilon([RepeatedGaussianEvent(q, terms, 20.0 * terms * q + 2, 50, one)], 1e-6)
        for one in ("add-remove", "leave", "replace")
    )
    assert vanish < leave < exchanged


def test_a_single_term_that_leaves_vanishes_and_one_example_has_no_others():
    left = RepeatedGaussianEvent(0.01, 1, 2.0, 500, "leave")
    assert epsilon([left], 1e-6) == epsilon([PoissonGaussianEvent(0.01, 2.0, 500)], 1e-6)
    with pytest.raises(InputError, match="relation"):
        PoissonGaussianEvent(0.01, 2.0, 500, "leave")


def test_zero_concentrated_releases():
    """A Gaussian release has rho = 1 / (2 z^2): composed by rho alone it costs what Renyi composition says."""
    assert epsilon([ZCDPEvent(0.125, 3)], 1e-6) == pytest.approx(
        epsilon([GaussianEvent(2.0, 3)], 1e-6, method="rdp"), rel=1e-3
    )
    assert epsilon([ZCDPEvent(0.125, 3)], 1e-6) > 1.05 * epsilon([GaussianEvent(2.0, 3)], 1e-6)
    assert delta([ZCDPEvent(0.125, 3)], 4.0) > delta([GaussianEvent(2.0, 3)], 4.0)
    joined = [ZCDPEvent(0.05), GaussianEvent(3.0), LaplaceEvent(5.0), PoissonGaussianEvent(0.01, 1.0, 50)]
    assert epsilon([ZCDPEvent(0.05)], 1e-6) < epsilon(joined, 1e-6) <= epsilon(joined, 1e-6, method="rdp")


@pytest.mark.parametrize("order", [1.3, 2.0, 7.5])
def test_renyi_divergences_against_integrals(order):
    def integral(p, q, low, high):
        value, _ = quad(lambda x: (p(x) / q(x)) ** order * q(x), low, high, limit=500, epsrel=1e-12, epsabs=0)
        return math.log(value) / (order - 1)

    def mixture(probs, means):
        return lambda x: float(np.sum(np.array(probs) * norm.pdf(x, means, z)))

    def sided(mean):
        return lambda x: math.exp(-abs(x - mean) / z) / (2 * z)

    q, z, far = 0.1, 1.5, 3 * order + 15
    repeated, still = mixture(binom.pmf(range(4), 3, q), np.arange(4.0)), mixture([1.0], np.zeros(1))
    exact = max(integral(repeated, still, -far, far), integral(still, repeated, -far, far))
    assert Mixture(q, 3, z).renyi(np.array([order]))[0] == pytest.approx(exact, rel=1e-8)
    there, back = (mixture([1 - q, q], np.array([0.0, mean])) for mean in (1.0, -1.0))
    assert Swapped(q, z).renyi(np.array([order]))[0] == pytest.approx(integral(there, back, -far, far), rel=1e-8)
    pieces = [integral(sided(0), sided(1), *ends) * (order - 1) for ends in ((-60, 0), (0, 1), (1, 60))]
    exact = math.log(sum(map(math.exp, pieces))) / (order - 1)
    assert LaplaceEvent(z).pair().renyi(np.array([order]))[0] == pytest.approx(exact, rel=1e-8)
    losses, masses = atoms(RandomizedResponseEvent(0.8, 4))
    exact = math.log(float(np.sum(masses * np.exp((order - 1) * losses)))) / (order - 1)
    assert RandomizedResponseEvent(0.8, 4).pair().renyi(np.array([order]))[0] == pytest.approx(exact, rel=1e-9)


def test_trees_cost_what_their_leaves_cost():
    leaf = LaplaceEvent(30.0)
    tree = [ComposedEvent((GaussianEvent(10.0), ComposedEvent((leaf, PureEvent(0.01, 2)), 5)), 20)]
    flat = [GaussianEvent(10.0, 20), LaplaceEvent(30.0, 100), PureEvent(0.01, 200)]
    assert epsilon(tree, 1e-6) == epsilon(flat, 1e-6)
    assert delta(tree, 1.0) == delta(flat, 1.0)
    assert epsilon(tree, 1e-6, method="rdp") == epsilon(flat, 1e-6, method="rdp")


MIXED = [
    GaussianEvent(4.0, 3),
    PoissonGaussianEvent(0.01, 1.0, 500),
    RepeatedGaussianEvent(0.01, 5, 3.0, 100),
    LaplaceEvent(10.0, 5),
    RandomizedResponseEvent(0.1, 3, 4),
    ExponentialEvent(0.1, 10),
    PureEvent(0.05, 2),
]


def test_every_kind_together():
    value = epsilon(MIXED, 1e-6)
    assert delta(MIXED, value) == pytest.approx(1e-6, rel=5e-3)
    for i in range(len(MIXED)):
        assert epsilon(MIXED[:i] + MIXED[i + 1 :], 1e-6) < value
    assert value < epsilon(MIXED, 1e-6, method="rdp") < epsilon(MIXED, 1e-6, method="moments")
    assert value <= rough_epsilon(MIXED, 1e-6, value) <= 1.002 * value
    assert central_limit_epsilon(MIXED, 1e-6) == pytest.approx(value, rel=0.25)


@pytest.mark.parametrize(
    "event",
    [
        LaplaceEvent(1e-300),
        LaplaceEvent(1e-3, 5),
        LaplaceEvent(1e300, 10**12),
        RandomizedResponseEvent(1e-300, 2, 3),
        RandomizedResponseEvent(1e3, 10**9, 10),
        PureEvent(700.0),
        ExponentialEvent(800.0, 3),
        ExponentialEvent(1e-200),
        ZCDPEvent(1e-300),
        ZCDPEvent(1e300),
        RepeatedGaussianEvent(1e-300, 5, 1.0, 10),
        RepeatedGaussianEvent(0.5, 10**12, 1.0, 10, "replace"),
        RepeatedGaussianEvent(0.999999, 1000, 0.01, 10**6),
        RepeatedGaussianEvent(1e-6, 1000, 1e-3, 10, "replace"),
    ],
)
def test_extreme_events_stay_finite(event):
    for events, targets in (([event], BUDGETS), ([event, PoissonGaussianEvent(0.1, 1.0, 10)], (1e-300, 1e-6))):
        for target in targets:
            assert 0 <= epsilon(events, target) < math.inf
            assert 0 <= rough_epsilon(events, target, 1.0) < math.inf
        for spent in (0.0, 1.0, 1e300):
            assert 0 <= delta(events, spent) <= 1


@pytest.mark.parametrize("target", [1e-250, 1e-60, 1e-18])
def test_no_delta_is_too_small(target):
    """Gaussian releases have a closed form at every delta; one that is sampled almost surely is next to it."""
    events = [PoissonGaussianEvent(1 - 1e-12, 3.0, 7)]
    exact = epsilon([GaussianEvent(3.0, 7)], target)
    assert exact * (1 - 1e-6) <= epsilon(events, target) <= 1.0005 * exact


@pytest.mark.parametrize(("q", "z", "order"), [(1 - 1e-9, 5.0, 256.0), (0.9999, 4.0, 64.0), (0.999, 8.0, 256.0)])
def test_renyi_of_replaced_samples_reaches_its_far_peak(q, z, order):
    """P^a Q^(1 - a) peaks near (2 a - 1) / z: an integral that stops at a / z misses it."""
    x = np.linspace(-40, (2 * order - 1) / z + 40, 400_001)
    p, r = (np.logaddexp(np.log1p(-q) - x**2 / 2, np.log(q) - (x - s / z) ** 2 / 2) for s in (1, -1))
    logs = order * p + (1 - order) * r - math.log(2 * math.pi) / 2
    exact = (logs.max() + math.log(np.exp(logs - logs.max()).sum() * (x[1] - x[0]))) / (order - 1)
    found = Swapped(q, z).renyi(np.array([order]))[0]
    assert exact * (1 - 1e-9) <= found <= exact * (1 + 1e-9)


def test_pure_losses_never_round_down():
    for z in (100.68662663163411, 1e-300, 3.0, 0.1):
        assert Fraction(LaplaceEvent(z).pair().epsilon) >= 1 / Fraction(z)
    assert epsilon([PureEvent(0.5, 2)], 1e-12) == 1.0
    assert delta([LaplaceEvent(3.0)], 0.25) > 0
    assert delta([LaplaceEvent(2.0)], 0.5) == 0.0


def test_rounding_of_many_steps_leaves_renyi_bounds():
    event = PoissonGaussianEvent(1e-6, 1.0, 10**12)
    assert epsilon([event], 1e-6) <= epsilon([event], 1e-6, method="rdp") < 8
    assert epsilon([event], 1e-6) > 6.6


@pytest.mark.parametrize(
    ("event", "at"),
    [
        (RepeatedGaussianEvent(0.8837255626896912, 16, 0.0640091382798646, 1, "replace"), 59294.49033391187),
        (PoissonGaussianEvent(1e-6, 1.0, 2**53), 1.0),
    ],
)
def test_delta_out_of_reach_of_a_grid_still_has_a_bound(event, at):
    assert 0 < delta([event], at) <= 1


def test_counts_beyond_exact_numbers_are_refused():
    with pytest.raises(InputError, match="count"):
        PureEvent(1.0, 10**400)
