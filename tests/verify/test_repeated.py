"""Brackets of repeated Gaussians and of the exponential mechanism: closed forms, integrals, the library, planted faults."""

import itertools
import math
from types import SimpleNamespace

import numpy as np
import pytest
from verify_written import claiming, exponential, gaussian, laplace, poisson, repeated

from sfumato.privacy import accounting
from sfumato.privacy.events import event_from_dict
from sfumato.verify._claim import TOLERANCE, claim_faults
from sfumato.verify._epsilon import epsilon_bracket
from sfumato.verify._kinds import Replaced
from sfumato.verify._releases import release_faults
from sfumato.verify.events._repeated_gaussian import Repeated

PLANS = [
    ([repeated(0.01, 11, 4.0, 1000)], 1e-5),
    ([repeated(0.01, 11, 8.0, 1000, "replace")], 1e-5),
    ([repeated(0.8, 8, 30.0, 200)], 2e-3),
    ([repeated(0.86, 8, 60.0, 200, "replace")], 2e-3),
    ([repeated(0.02, 111, 40.0, 500)], 1e-5),
    ([repeated(0.01, 11, 8.0, 1000, "leave")], 1e-5),
    ([repeated(0.86, 8, 60.0, 200, "leave")], 2e-3),
    ([repeated(0.3, 2, 9.0, 50, "leave"), poisson(0.02, 2.0, 300)], 1e-5),
    ([repeated(0.3, 1, 9.0, 50, "leave")], 1e-5),
    ([repeated(1.0, 3, 60.0, 50, "leave")], 1e-5),
    ([repeated(0.1, 5, 2.0, 1)], 1e-5),
    ([repeated(0.01, 11, 4.0, 1000), gaussian(3.0), poisson(0.02, 2.0, 300)], 1e-5),
    ([repeated(0.05, 4, 4.0, 100, "replace"), poisson(0.02, 2.0, 300, "replace")], 1e-5),
    ([exponential(0.1, 10)], 1e-5),
    ([exponential(0.05, 1120)], 2e-3),
    ([exponential(1.0)], 1e-5),
    ([exponential(1e-4, 3)], 1e-9),
    ([exponential(0.02, 280), laplace(50.0, 70), gaussian(5.0), repeated(0.05, 10, 10.0, 200)], 2e-3),
]


@pytest.mark.parametrize(("events", "delta"), PLANS)
def test_what_the_library_claims_is_confirmed(events, delta):
    claim = accounting.epsilon([event_from_dict(event) for event in events], delta)
    low, high = epsilon_bracket(events, delta)
    assert 0.9985 * claim <= low <= claim
    assert high <= TOLERANCE * claim


def mixture_delta(q, terms, noise, epsilon):
    """The larger of both hockey-stick divergences of a hidden number of terms, by sums over a fine line."""
    x, step = np.linspace(-40 * noise, terms + 40 * noise, 400_001, retstep=True)
    weights = [math.comb(terms, k) * q**k * (1 - q) ** (terms - k) for k in range(terms + 1)]
    normal = [np.exp(-(((x - k) / noise) ** 2) / 2) / (noise * math.sqrt(2 * math.pi)) for k in range(terms + 1)]
    moved = sum(w * density for w, density in zip(weights, normal, strict=True))
    return max(float(np.maximum(p - math.exp(epsilon) * r, 0).sum() * step)
               for p, r in ((moved, normal[0]), (normal[0], moved)))  # fmt: skip


@pytest.mark.parametrize(("q", "terms", "noise"), [(0.1, 5, 2.0), (0.7, 3, 1.0), (0.02, 20, 3.0)])
@pytest.mark.parametrize("delta", [1e-2, 1e-5])
def test_one_step_with_hidden_terms_by_integration(q, terms, noise, delta):
    low, high = epsilon_bracket([repeated(q, terms, noise, 1)], delta)
    assert mixture_delta(q, terms, noise, low * 0.9995) > delta > mixture_delta(q, terms, noise, high * 1.0005)


def normal_delta(mu, epsilon):
    upper, lower = (math.erfc(-(mu / 2 + sign * epsilon / mu) / math.sqrt(2)) / 2 for sign in (-1, 1))
    return upper - math.exp(epsilon) * (1 - lower)


@pytest.mark.parametrize(("q", "terms", "noise"), [(0.1, 5, 4.0), (0.7, 3, 3.0)])
@pytest.mark.parametrize("leaves", [0, 1])
def test_one_step_with_exchanged_terms_by_its_mixture(q, terms, noise, leaves):
    def delta(epsilon):
        found = 0.0
        for drawn in itertools.product([0, 1], repeat=terms):  # every coin by itself
            weight = math.prod(q if coin else 1 - q for coin in drawn)
            moved = 2 * sum(drawn) - leaves * drawn[0]
            found += weight * normal_delta(moved / noise, epsilon) if moved else 0.0
        return found

    low, high = epsilon_bracket([repeated(q, terms, noise, 1, "leave" if leaves else "replace")], 1e-4)
    assert delta(low * 0.9995) > 1e-4 > delta(high * 1.0005)


@pytest.mark.parametrize(("epsilon", "delta"), [(1.0, 1e-3), (0.3, 1e-2), (4.0, 1e-6)])
def test_one_draw_of_the_exponential_mechanism_has_its_closed_form(epsilon, delta):
    exact = epsilon + 2 * math.log1p(-math.sqrt(delta * -math.expm1(-epsilon)))
    low, high = epsilon_bracket([exponential(epsilon)], delta)
    assert low <= exact <= high <= 1.0005 * exact


@pytest.mark.parametrize("shift", [0.0, 0.2, 0.5, 0.9, 1.0])
def test_no_mechanism_of_bounded_range_costs_more(shift):
    """Thirty draws with two outcomes, of losses t and t - epsilon: exact, by the binomial law."""
    epsilon, count, delta = 0.4, 30, 1e-4
    t = shift * epsilon
    upper = math.expm1(t - epsilon) / math.expm1(-epsilon)
    losses = [(j * t + (count - j) * (t - epsilon), math.comb(count, j) * upper**j * (1 - upper) ** (count - j))
              for j in range(count + 1)]  # fmt: skip
    high = epsilon_bracket([exponential(epsilon, count)], delta)[1]
    for sign in (1, -1):
        spent = sum(p * (1 if sign > 0 else math.exp(-x)) * max(0.0, 1 - math.exp(high - sign * x)) for x, p in losses)
        assert spent <= delta


def test_a_single_term_and_certain_terms_are_simpler_events():
    for relation, most in (("add-remove", 5), ("replace", 10), ("leave", 9)):
        one = epsilon_bracket([repeated(0.02, 1, 2.0, 300, relation)], 1e-5)
        assert one == epsilon_bracket(
            [poisson(0.02, 2.0, 300, "replace" if relation == "replace" else "add-remove")], 1e-5
        )
        drawn = epsilon_bracket([repeated(1.0, 5, 20.0, 4, relation)], 1e-5)
        assert drawn == pytest.approx(epsilon_bracket([gaussian(20 / most, 4)], 1e-5), rel=1e-12)


@pytest.mark.parametrize(("q", "terms"), [(0.01, 3), (0.3, 40), (1e-6, 10**6), (0.999, 100), (1e-9, 10**9)])
def test_counts_are_rounded_the_way_that_is_said(q, terms):
    """Tails of the rounded laws lie on their side of the exact mean; both have all their mass."""
    below, above = (Repeated(q, terms, 1.0, False, False, 1).counts(upper=upper) for upper in (False, True))
    for k, weight in (below, above):
        assert weight.sum() == pytest.approx(1, abs=1e-12)
        assert np.all(np.diff(k) > 0)
        assert k @ weight == pytest.approx(terms * q, rel=1e-6)
    assert above[0][-1] == terms
    assert below[0][0] <= above[0][0]


@pytest.mark.parametrize("terms", [50_000, 10**7, 2**53])
def test_too_many_different_counts_are_not_confirmed(terms):
    assert epsilon_bracket([repeated(0.5, terms, 1e4, 10)], 1e-5) == (0.0, math.inf)


def test_at_delta_0_picks_cost_their_exact_sum_and_terms_have_no_bound():
    assert epsilon_bracket([exponential(0.25, 4)], 0.0) == (1.0, 1.0)
    assert epsilon_bracket([repeated(0.1, 2, 1.0, 3)], 0.0) == (0.0, math.inf)


HONEST = [exponential(0.02, 280), repeated(0.05, 10, 10.0, 200)]


@pytest.fixture(scope="module")
def claim():
    """What the honest plan costs, which is confirmed."""
    found = accounting.epsilon([event_from_dict(event) for event in HONEST], 1e-5)
    assert claim_faults(claiming(HONEST, found, 1e-5, 0))[0] == []
    return found


@pytest.mark.parametrize(
    ("index", "field", "value"),
    [
        (0, "epsilon", 0.021), (0, "count", 300), (1, "sampling_prob", 0.052), (1, "occurrences", 11),
        (1, "relation", "replace"), (1, "relation", "leave"), (1, "steps", 220), (1, "noise_multiplier", 9.7),
    ],
)  # fmt: skip
def test_a_plan_that_costs_more_than_it_claims_is_refused(claim, index, field, value):
    changed = [dict(event) for event in HONEST]
    changed[index][field] = value
    (problem,) = claim_faults(claiming(changed, claim, 1e-5, 0))[0]
    assert problem.startswith("certificate.json: claim.epsilon: ")


@pytest.mark.parametrize("events", [HONEST, HONEST[:1], HONEST[1:], [repeated(0.05, 10, 20.0, 200, "replace")],
                                    [repeated(0.05, 10, 20.0, 200, "leave")]])  # fmt: skip
def test_a_claim_that_is_too_small_is_refused(events):
    claim = accounting.epsilon([event_from_dict(event) for event in events], 1e-5)
    (problem,) = claim_faults(claiming(events, 0.98 * claim, 1e-5, 0))[0]
    assert "is too small: the cost is at least" in problem


def test_pure_picks_may_be_summed():
    certificate = claiming([exponential(0.25, 4)], 1.0, 0.0, 0)
    certificate["accounting"]["method"] = "sum"
    assert claim_faults(certificate)[0] == []


def test_selections_among_repeated_trials_have_an_upper_bound():
    trials = [[repeated(0.05, 10, noise, 200), exponential(0.01, 5)] for noise in (10.0, 12.0)]
    event = {"type": "selection", "candidates": trials, "rule": "logarithmic", "mean_trials": 5}
    claim = accounting.epsilon([event_from_dict(event)], 1e-5)
    low, high = epsilon_bracket([event], 1e-5)
    assert low == 0
    assert 0.999 * claim <= high <= TOLERANCE * claim


@pytest.mark.parametrize(
    ("of_unit", "relation", "fragment"),
    [
        ("remove", "leave", ""), ("remove", "replace", ""), ("replace", "replace", ""),
        ("remove", "add-remove", "expected leave or replace"), ("replace", "leave", "expected replace, the unit's, got leave"),
    ],
)  # fmt: skip
def test_terms_of_others_are_never_charged_as_vanishing_and_a_replaced_record_never_as_leaving(
    of_unit, relation, fragment
):
    rules, release = SimpleNamespace(releases=lambda _: [Replaced("network", [9], 9, 0.5, 4, 3)]), {"name": "network"}
    release |= {"event": repeated(0.5, 3, 2.0, 4, relation), "shape": [9], "num_draws": 9}
    found = list(release_faults({"unit": {"relation": of_unit}, "releases": [release]}, rules))
    assert len(found) == bool(fragment)
    assert all(fragment in text for text in found)
