"""Private selection: published figures, exact laws of tiny mechanisms, the law of the number of trials."""

import math
from itertools import product

import numpy as np
import pytest
from scipy.special import logsumexp

from sfumato.errors import InputError
from sfumato.privacy._filters import gaussian_mu
from sfumato.privacy._selection import _law, draw_trials, log_ratio, negative_binomial_renyi, poisson_renyi
from sfumato.privacy.accounting import delta, epsilon
from sfumato.privacy.calibration import calibrate, gaussian_noise_multiplier
from sfumato.privacy.events import (
    RULES,
    ComposedEvent,
    ExponentialEvent,
    GaussianEvent,
    LaplaceEvent,
    PoissonGaussianEvent,
    PureEvent,
    RandomizedResponseEvent,
    RepeatedGaussianEvent,
    SelectionEvent,
    event_from_dict,
)
from sfumato.verify._epsilon import epsilon_bracket

ORDERS = 1 + np.geomspace(0.05, 300, 60)


def selected(rule, mean, *events):
    return SelectionEvent((events,), rule, mean)


# Base epsilon at delta 1e-6, then geometric, logarithmic and Poisson at 10 and at 100 expected trials.
@pytest.mark.parametrize(
    ("base", "ten", "hundred"),
    [
        (1, (2.15, 1.80, 1.93), (2.67, 2.12, 6.54)),
        (4, (7.55, 6.56, 7.40), (9.39, 7.67, 29.1)),
        (8, (13.4, 12.2, 14.2), (16.8, 14.2, 58)),
    ],
)
def test_costs_of_tuning_one_gaussian_mechanism(base, ten, hundred):
    noise = gaussian_noise_multiplier(base, 1e-6)
    for mean, published in ((10, ten), (100, hundred)):
        for rule, value in zip(("geometric", "logarithmic", "poisson"), published, strict=True):
            found = epsilon([selected(rule, mean, GaussianEvent(noise))], 1e-6)
            assert abs(found - value) <= 0.006 * value


def test_ten_poisson_trials_need_1_87_times_the_noise():
    noise = calibrate(lambda z: [selected("poisson", 10, GaussianEvent(z))], 1.0, 1e-6)
    assert round(noise / gaussian_noise_multiplier(1.0, 1e-6), 2) == 1.87


def generating(rule, mean, x):
    """E x^K in closed form."""
    if rule == "poisson":
        return np.exp(mean * (x - 1))
    gamma = math.exp(-log_ratio(rule, mean))
    return gamma * x / (1 - (1 - gamma) * x) if rule == "geometric" else np.log(1 - (1 - gamma) * x) / math.log(gamma)


def divergence(p, q, orders):
    """Exact Renyi divergence, the larger direction."""
    logs = np.log(p), np.log(q)
    return np.max(
        [
            logsumexp(np.multiply.outer(orders, a) + np.multiply.outer(1 - orders, b), axis=1) / (orders - 1)
            for a, b in (logs, logs[::-1])
        ],
        axis=0,
    )


def selection_law(rule, mean, p):
    """Exact law of the best of K draws from p on 0 < 1 < ...; "no trial" last, if it can happen."""
    law = np.diff(generating(rule, mean, np.concatenate([[0.0], np.cumsum(p)])))
    return np.append(law, math.exp(-mean)) if rule == "poisson" else law


def hockey_stick(p, q, epsilons):
    return np.array([max(np.maximum(a - math.exp(e) * b, 0).sum() for a, b in ((p, q), (q, p))) for e in epsilons])


def neighbors(count):
    """Pairs of laws, from near to far apart: random ones, and ones where the two best outcomes are rare and move apart."""
    rng = np.random.default_rng(0)
    for number in range(count):
        p, moves = rng.dirichlet(np.full(4, 0.5)) + 1e-6, rng.uniform(-1, 1, 4) * (0.01, 0.3, 1.5)[number % 3]
        p[-1] *= 10.0 ** -rng.integers(0, 5)
        if number % 2:
            rare, shift = 10 ** rng.uniform(-4.5, -1.5), rng.uniform(0.2, 4.5)
            p, moves = np.array([1.0, rare, rng.uniform(0.5, 4) * rare]), np.array([0, -shift, shift])
        q = p * np.exp(moves)
        yield p / p.sum(), q / q.sum()


def bound(rule, mean, p, q):
    base = divergence(p, q, ORDERS)
    if rule == "poisson":
        return poisson_renyi(mean, ORDERS, base, hockey_stick(p, q, -np.log1p(-1 / ORDERS)))
    return negative_binomial_renyi(rule, mean, ORDERS, base, ORDERS, base)


@pytest.mark.parametrize(
    ("rule", "mean"),
    [*product(RULES, (1.2, 4.0, 40.0)), ("geometric", 1e4), ("logarithmic", 1e4)],
)
def test_no_tiny_mechanism_costs_more_than_the_bound(rule, mean):
    for p, q in neighbors(150):
        exact = divergence(selection_law(rule, mean, p), selection_law(rule, mean, q), ORDERS)
        assert np.all(exact <= bound(rule, mean, p, q) + 1e-12)


def violations(rule, mean, wrong):
    """On how many pairs the exact cost is above a bound less what ``wrong`` forgets."""
    return sum(
        np.any(
            divergence(selection_law(rule, mean, p), selection_law(rule, mean, q), ORDERS)
            > bound(rule, mean, p, q) - wrong(p, q)
        )
        for p, q in neighbors(150)
    )


@pytest.mark.parametrize(("rule", "mean"), [("geometric", 1e4), ("logarithmic", 1e4), ("poisson", 40.0)])
def test_forgetting_the_number_of_trials_is_caught(rule, mean):
    assert violations(rule, mean, lambda p, q: math.log(mean) / (ORDERS - 1)) > 0


@pytest.mark.parametrize("rule", ["geometric", "logarithmic"])
def test_forgetting_the_free_term_is_caught(rule):
    def free(p, q):
        base, t = divergence(p, q, ORDERS), log_ratio(rule, 40.0)
        return (2 if rule == "geometric" else 1) * min(t, float(((1 - 1 / ORDERS) * base + t / ORDERS).min()))

    assert violations(rule, 40.0, free) > 0


def test_forgetting_the_delta_of_poisson_is_caught():
    assert violations("poisson", 40.0, lambda p, q: 40 * hockey_stick(p, q, -np.log1p(-1 / ORDERS))) > 0


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("mean", [1.5, 10.0])
def test_the_law_of_the_number_of_trials(rule, mean):
    values = [(k, float(p)) for k, (_, p) in zip(range(3000), _law(rule, mean), strict=False)]
    counts = np.array([k + (rule != "poisson") for k, _ in values])
    probs = np.array([p for _, p in values])
    assert math.isclose(probs.sum(), 1, rel_tol=1e-12)
    assert math.isclose(probs @ counts, mean, rel_tol=1e-9)
    for x in (0.1, 0.7, 0.95):
        assert math.isclose(probs @ x**counts, generating(rule, mean, x), rel_tol=1e-10)


@pytest.mark.parametrize("rule", RULES)
def test_draws_follow_the_law(rule):
    drawn = np.array([draw_trials(rule, 3, i.to_bytes(32, "big")) for i in range(4000)])
    assert drawn.min() == (rule != "poisson") * 1
    for count, probability in list(zip(range(6), _law(rule, 3), strict=False)):
        k, p = probability
        assert abs((drawn == k).mean() - float(p)) < 4.5 * math.sqrt(float(p) / 4000), (count, k)


def test_candidates_cost_as_much_as_the_dearest_and_no_more():
    cheap, dear = (GaussianEvent(9.0, 2),), (GaussianEvent(4.0),)
    for rule in RULES:
        alone = epsilon([SelectionEvent((dear,), rule, 10)], 1e-6)
        assert epsilon([SelectionEvent((cheap, dear, dear), rule, 10)], 1e-6) == alone
        assert epsilon([SelectionEvent((cheap,), rule, 10)], 1e-6) < alone


def test_selections_compose_with_everything_and_each_other():
    one = selected("logarithmic", 5, GaussianEvent(5.0))
    alone = epsilon([one], 1e-6)
    both = epsilon([one, GaussianEvent(5.0)], 1e-6)
    assert alone < both < epsilon([one, one], 1e-6) < 2 * alone
    assert epsilon([ComposedEvent((one,), 2)], 1e-6) == epsilon([one, one], 1e-6)
    assert delta([one], alone) == pytest.approx(1e-6, rel=1e-6)
    assert epsilon([selected("logarithmic", 3, one)], 1e-6) > alone
    assert gaussian_mu([one]) is None


@pytest.mark.parametrize("rule", RULES)
def test_more_trials_and_less_noise_cost_more(rule):
    costs = [epsilon([selected(rule, mean, LaplaceEvent(4.0))], 1e-6) for mean in (2, 8, 32)]
    assert costs == sorted(costs)
    assert epsilon([LaplaceEvent(4.0)], 1e-6) < costs[0]


TRIALS = {
    "Gaussian": (GaussianEvent(5.0), GaussianEvent(9.0, 2)),
    "all drawn": (GaussianEvent(9.0), PoissonGaussianEvent(1.0, 50.0, 100)),
    "sampled": (GaussianEvent(9.0), PoissonGaussianEvent(0.02, 1.1, 500)),
    "rarely sampled": (GaussianEvent(9.0), PoissonGaussianEvent(0.001, 1.0, 2000)),
    "exchanged": (GaussianEvent(9.0), PoissonGaussianEvent(0.02, 2.5, 500, "replace")),
    "mostly exchanged": (PoissonGaussianEvent(0.99, 20.0, 20, "replace"),),
    "repeated": (GaussianEvent(9.0), RepeatedGaussianEvent(0.01, 111, 20.0, 50)),
    "exchanged terms": (GaussianEvent(9.0), RepeatedGaussianEvent(0.02, 11, 20.0, 100, "replace")),
    "pure": (PureEvent(0.3),),
    "strong and pure": (PureEvent(0.1, 3), PureEvent(2.0)),
    "four answers": (RandomizedResponseEvent(1.0, 4), PureEvent(0.05)),
    "Laplace": (LaplaceEvent(4.0, 3),),
    "exponential": (ExponentialEvent(0.2, 5), GaussianEvent(8.0)),
    "pure and Gaussian": (PureEvent(0.2), GaussianEvent(6.0)),
}


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("events", TRIALS.values(), ids=TRIALS)
def test_the_verifier_derives_the_same_bound(rule, events):
    """With many trials too, where the bound of poisson depends most on the order."""
    for mean, delta_ in ((2.5, 1e-9), (200, 1e-5)):
        event = selected(rule, mean, *events)
        claimed = epsilon([event], delta_)
        low, high = epsilon_bracket([event.to_dict()], delta_)
        assert low == 0
        assert 0.95 * claimed < high <= 1.0005 * claimed


@pytest.mark.parametrize("rule", RULES)
def test_the_verifier_counts_few_weak_trials_and_the_dearest_candidate(rule):
    """Where no trial at all is likely, and where a cheap candidate stands beside a dear one."""
    few, cheap, dear = (
        selected(rule, 1.2, PureEvent(0.05)),
        (GaussianEvent(40.0),),
        (GaussianEvent(3.0), PureEvent(0.1)),
    )
    claimed = epsilon([few], 0.01)
    assert 0.995 * claimed < epsilon_bracket([few.to_dict()], 0.01)[1] <= 1.0005 * claimed
    alone, both = (SelectionEvent(one, rule, 10).to_dict() for one in ((dear,), (cheap, dear, cheap)))
    assert epsilon_bracket([alone], 1e-6) == epsilon_bracket([both], 1e-6)


def cost_at(p, q, delta_):
    """The exact epsilon of two laws, the larger direction."""
    low, high = 0.0, 50.0
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if hockey_stick(p, q, [middle])[0] > delta_ else (low, middle)
    return high


@pytest.mark.parametrize("rule", RULES)
def test_the_best_of_randomized_responses_costs_no_more_than_is_claimed_and_confirmed(rule):
    """A trial answers 0 or 1, and 1 is the better one: exactly the pair that dominates pure trials."""
    for bound, mean, delta_ in product((0.1, 0.7, 3.0), (1.2, 10, 500), (1e-3, 1e-6)):
        law = np.array([1.0, math.exp(bound)]) / (1 + math.exp(bound))
        exact = cost_at(selection_law(rule, mean, law), selection_law(rule, mean, law[::-1]), delta_)
        event = selected(rule, mean, PureEvent(bound))
        assert exact <= epsilon([event], delta_)
        assert exact <= epsilon_bracket([event.to_dict()], delta_)[1]


@pytest.mark.parametrize(("rule", "times"), [("geometric", 3), ("logarithmic", 2)])
def test_pure_trials_cost_a_multiple_of_one_at_most(rule, times):
    """At large orders: 2 + eta, where eta is 1 or 0."""
    for noise in (0.3, 4.0, 50.0):
        event = selected(rule, 10, LaplaceEvent(noise)).to_dict()
        assert epsilon_bracket([event], 1e-6)[1] <= times / noise * 1.00001
    both = [one.to_dict() for one in (selected(rule, 10, LaplaceEvent(4.0)), PureEvent(0.5))]
    assert epsilon_bracket(both, 1e-6)[1] == pytest.approx(times / 4 + 0.5, rel=1e-5)


def test_the_verifier_has_no_bound_for_other_bases():
    event = selected("geometric", 10, LaplaceEvent(4.0)).to_dict()
    inside = ComposedEvent((selected("geometric", 10, GaussianEvent(4.0)),))
    assert epsilon_bracket([inside.to_dict()], 1e-6) == (0.0, math.inf)
    assert epsilon_bracket([{**event, "candidates": []}], 1e-6) == (0.0, math.inf)


def test_events_keep_their_form():
    event = SelectionEvent([[GaussianEvent(2.0)], [selected("poisson", 2.5, LaplaceEvent(1.0))]], "geometric", 10.5)
    assert event_from_dict(event.to_dict()) == event
    assert event.repeats() == 11
    assert hash(event) == hash(event_from_dict(event.to_dict()))


@pytest.mark.parametrize(
    ("make", "named"),
    [
        (lambda: SelectionEvent((), "poisson", 10), "candidates"),
        (lambda: SelectionEvent((("gaussian",),), "poisson", 10), "candidates"),
        (lambda: selected("uniform", 10, GaussianEvent(1.0)), "rule"),
        (lambda: selected("poisson", 1, GaussianEvent(1.0)), "mean_trials"),
        (lambda: selected("poisson", 10_001, GaussianEvent(1.0)), "mean_trials"),
        (lambda: draw_trials("poisson", math.nan, bytes(32)), "mean_trials"),
    ],
)
def test_errors_name_the_argument(make, named):
    with pytest.raises(InputError, match=f"Expected {named} to be|Expected {named} to hold"):
        make()
