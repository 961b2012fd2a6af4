"""The verifier's own accountant against closed forms, reference tables and an independent accountant."""

import math

import numpy as np
import pytest
from scipy.stats import binom
from verify_written import claiming, gaussian, laplace, poisson, pure, response

from sfumato.privacy import accounting
from sfumato.privacy.events import GaussianEvent, event_from_dict
from sfumato.verify._claim import TOLERANCE, claim_faults
from sfumato.verify._compose import _compose
from sfumato.verify._epsilon import epsilon_bracket
from sfumato.verify._losses import Atoms, Slight
from sfumato.verify.events import KNOWN_EVENTS
from sfumato.verify.events._poisson_gaussian import Sampled


def composed(*events, count=1):
    return {"type": "composed", "events": list(events), "count": count}


# Closed form, Balle and Wang 2018, Theorem 8 (reference table 4.2: sigma, K, epsilon at delta 1e-6).
GAUSSIAN_ROWS = [(1, 1, 4.886554), (1, 5, 12.595247), (2, 1, 2.254085), (2, 3, 4.151817), (5, 2, 1.211967),
                 (5, 5, 1.994527), (0.5, 1, 10.997151), (2.5, 5, 4.305841)]  # fmt: skip
# Privacy loss distribution on a 1e-5 grid (reference table 4.1, delta 1e-5).
POISSON_ROWS = [
    (4, 100, 0.079514, "add-remove"), (4, 2500, 0.446003, "add-remove"), (4, 10000, 0.946868, "add-remove"),
    (4, 40000, 2.033070, "add-remove"), (2, 700, 0.515295, "add-remove"), (8, 10000, 0.437252, "add-remove"),
    (4, 10000, 1.993139, "replace"), (2, 700, 0.990870, "replace"), (4, 100, 0.160220, "replace"),
]  # fmt: skip


@pytest.mark.parametrize(("noise", "count", "expected"), GAUSSIAN_ROWS)
def test_gaussian_golden(noise, count, expected):
    low, high = epsilon_bracket([gaussian(noise, count)], 1e-6)
    assert low == pytest.approx(expected, abs=1e-6)
    assert low <= high <= low * (1 + 1e-8)


@pytest.mark.parametrize(("noise", "steps", "expected", "relation"), POISSON_ROWS)
def test_poisson_golden(noise, steps, expected, relation):
    low, high = epsilon_bracket([poisson(0.01, noise, steps, relation)], 1e-5)
    assert high <= 1.0005 * low
    assert low <= expected
    assert high == pytest.approx(expected, rel=1e-3)


@pytest.mark.parametrize(
    "event",
    [
        poisson(1e-5, 1.0, 10**6),
        poisson(1e-5, 1.0, 10**6, "replace"),
        pytest.param(poisson(1e-5, 0.75, 562_341), marks=pytest.mark.soak),
    ],
)
def test_rare_sampling_is_confirmed(event):
    """Reference table 4.6: at most 0.0592 in the first case, on the finest grid tried there."""
    claim = accounting.epsilon([event_from_dict(event)], 1e-8)
    low, high = epsilon_bracket([event], 1e-8)
    assert low <= claim
    assert high <= TOLERANCE * claim
    if event["noise_multiplier"] == 1 and event["relation"] == "add-remove":
        assert low > 0.04
        assert high <= 0.0592


@pytest.mark.parametrize("noise", [1e17, 1e200, 1.7e308])
def test_no_noise_is_enough_for_delta_0(noise):
    """1e200 squared is above every float, but no Gaussian noise gives pure privacy."""
    assert epsilon_bracket([gaussian(noise)], 0.0) == (0.0, math.inf)
    assert epsilon_bracket([pure(1.0), gaussian(noise)], 0.0) == (0.0, math.inf)


@pytest.mark.parametrize(("noise", "delta"), [(1e12, 1e-14), (1e17, 1e-30), (1e200, 1e-300), (1e300, 1e-310)])
def test_small_mu_costs_what_the_library_says(noise, delta):
    """Epsilon is 0 where delta >= 2 Phi(mu / 2) - 1, about 0.4 mu, and only there."""
    low, high = epsilon_bracket([gaussian(noise)], delta)
    claim = accounting.epsilon([GaussianEvent(noise)], delta)
    assert 0 < low <= claim <= high <= low * (1 + 1e-8)
    assert epsilon_bracket([gaussian(noise)], 0.4 / noise) == (0.0, 0.0)
    assert epsilon_bracket([gaussian(noise)], 0.39 / noise)[0] > 0


def test_a_slight_gaussian_may_be_the_larger_part():
    rare = poisson(0.1, 1e10, 1, "replace")
    together, alone = (epsilon_bracket([*parts, gaussian(1.1e10)], 1e-13) for parts in ([rare], []))
    assert 0 < alone[0] <= together[1]


@pytest.mark.parametrize("others", [[laplace(2.0, 3)], [poisson(0.01, 1.0, 100)]])
@pytest.mark.parametrize("noise", [1.1e10, 1e11, 1e200])
def test_a_slight_gaussian_is_counted_beside_other_parts(others, noise):
    """It adds mu sqrt(-2 log(1e-9 delta)) at most, and more than nothing."""
    delta, extra = 1e-6, 10 / noise
    low, high = epsilon_bracket([*others, gaussian(noise)], delta)
    plain = epsilon_bracket(others, delta)
    slight = Slight(1 / noise, delta).atoms(1e-3, False, 0.0, 0.0, upper=True)
    assert 8.3 / noise < slight.loss[0] < extra
    assert math.erfc(slight.loss[0] * noise / math.sqrt(2)) / 2 <= slight.infinite <= 1.001e-9 * delta
    assert low <= plain[1]
    assert high == pytest.approx(plain[1], rel=2e-5, abs=extra)


def test_gaussian_closed_form_keeps_its_digits():
    mpmath = pytest.importorskip("mpmath")
    with mpmath.workdps(60):
        for mu, delta in ((0.01, 1e-12), (0.3, 1e-30), (3, 1e-9), (40, 1e-6), (200, 1e-5)):
            low, high = epsilon_bracket([gaussian(1 / mu)], delta)

            def exact(epsilon, mu=mu):
                a, b = epsilon / mu - mpmath.mpf(mu) / 2, epsilon / mu + mpmath.mpf(mu) / 2
                return (mpmath.erfc(a / mpmath.sqrt(2)) - mpmath.exp(epsilon) * mpmath.erfc(b / mpmath.sqrt(2))) / 2

            assert exact(mpmath.mpf(low)) > delta > exact(mpmath.mpf(high))


def test_subsampling_everything_is_the_gaussian():
    assert epsilon_bracket([poisson(1, 5.0, 2)], 1e-6) == epsilon_bracket([gaussian(5.0, 2)], 1e-6)
    assert epsilon_bracket([poisson(1.0, 5.0, 2, "replace")], 1e-6) == epsilon_bracket([gaussian(2.5, 2)], 1e-6)
    low, high = epsilon_bracket([poisson(1 - 1e-12, 5.0, 2)], 1e-6)
    assert low <= 1.211967 <= high <= 1.0005 * low


def test_at_delta_0_pure_mechanisms_cost_their_exact_sum():
    assert epsilon_bracket([pure(1.0), pure(0.5, 2), composed(response(0.25, 4), count=4), laplace(2.0)], 0.0) == (
        3.5,
        3.5,
    )
    low, high = epsilon_bracket([pure(0.1, 3)], 0.0)
    assert low < high == math.nextafter(low, 1)
    assert low <= 0.30000000000000004 <= high


@pytest.mark.parametrize("event", [gaussian(1.0), poisson(0.1, 1.0, 3), poisson(1, 1.0, 1)])
def test_at_delta_0_noise_without_a_pure_bound_is_not_confirmed(event):
    assert epsilon_bracket([pure(1.0), event], 0.0) == (0.0, math.inf)


MIXED = [
    ([gaussian(1.0, 2), poisson(256 / 14235, 1.0, 1112)], 1e-5),
    ([gaussian(3.0, 2), poisson(0.01, 1.0, 1)], 1e-5),
    ([poisson(0.9, 1.0, 3)], 1e-5),
    ([poisson(0.05, 0.7, 30), poisson(0.2, 2.0, 20)], 1e-8),
]


@pytest.mark.parametrize(
    ("events", "delta", "relation"),
    [(*MIXED[0], "add-remove"), (*MIXED[0], "replace"), (*MIXED[1], "add-remove"), (*MIXED[2], "add-remove"),
     (*MIXED[3], "replace")],
)  # fmt: skip
def test_brackets_the_oracle(events, delta, relation):
    dp_accounting = pytest.importorskip("dp_accounting")
    from dp_accounting.pld import PLDAccountant

    replace = relation == "replace"
    relations = dp_accounting.NeighboringRelation
    oracle = PLDAccountant(relations.REPLACE_ONE if replace else relations.ADD_OR_REMOVE_ONE, 1e-4)
    for event in events:
        if event["type"] == "gaussian":  # its multiplier already holds the relation; the oracle doubles under replace
            one = dp_accounting.GaussianDpEvent(event["noise_multiplier"] * (2 if replace else 1))
        else:
            one = dp_accounting.GaussianDpEvent(event["noise_multiplier"])
            one = dp_accounting.PoissonSampledDpEvent(event["sampling_prob"], one)
        oracle.compose(dp_accounting.SelfComposedDpEvent(one, event.get("count") or event["steps"]))
    stated = [{**event, "relation": relation} if "steps" in event else event for event in events]
    low, high = epsilon_bracket(stated, delta)
    assert low <= oracle.get_epsilon(delta) <= 1.0005 * high
    assert high <= 1.0005 * min(low, oracle.get_epsilon(delta))


def exact_responses(epsilon, outcomes, count, delta):
    """The cost of ``count`` randomized responses, from their trinomial law."""
    top = 1 / (1 + (outcomes - 1) * math.exp(-epsilon))
    chances = (top, top * math.exp(-epsilon), (outcomes - 2) * top * math.exp(-epsilon))
    law = {}
    for up in range(count + 1):
        for down in range(count + 1 - up):
            rest = count - up - down
            ways = math.comb(count, up) * math.comb(count - up, down)
            mass = ways * math.prod(p**k for p, k in zip(chances, (up, down, rest), strict=True))
            law[up - down] = law.get(up - down, 0.0) + mass
    low, high = 0.0, count * epsilon
    for _ in range(60):
        middle = (low + high) / 2
        cost = sum(mass * max(0.0, -math.expm1(middle - epsilon * k)) for k, mass in law.items() if k > 0)
        low, high = (middle, high) if cost > delta else (low, middle)
    return high


RESPONSES = [(1.0, 2, 1, 1e-6), (1.0, 4, 1, 1e-6), (0.5, 2, 5, 1e-6), (0.1, 2, 100, 1e-6), (0.1, 3, 60, 1e-9),
             (8.0, 2, 3, 1e-6), (3.0, 6, 4, 1e-12), (1e-3, 2, 1, 1e-6)]  # fmt: skip


@pytest.mark.parametrize(("epsilon", "outcomes", "count", "delta"), RESPONSES)
def test_brackets_exact_randomized_response(epsilon, outcomes, count, delta):
    exact = exact_responses(epsilon, outcomes, count, delta)
    low, high = epsilon_bracket([response(epsilon, outcomes, count)], delta)
    assert low <= exact * (1 + 1e-9)
    assert exact * (1 - 1e-9) <= high <= 1.0005 * low
    if outcomes == 2:
        assert epsilon_bracket([pure(epsilon, count)], delta) == (low, high)


@pytest.mark.parametrize("noise", [0.5, 1.0, 3.0, 10.0])
def test_brackets_one_laplace(noise):
    """delta(epsilon) = 1 - exp((epsilon - 1 / b) / 2), in closed form."""
    exact = 1 / noise + 2 * math.log1p(-1e-6)
    low, high = epsilon_bracket([laplace(noise)], 1e-6)
    assert low <= exact <= high <= 1.0001 * low


SYMMETRIC = [
    ([laplace(2.0, 10)], 1e-6), ([laplace(10.0, 100)], 1e-6), ([gaussian(2.0), laplace(2.0)], 1e-6),
    ([gaussian(2.0), response(1.0)], 1e-6), ([gaussian(2.0), response(0.5, 4, 3), laplace(3.0, 2)], 1e-6),
    ([gaussian(1.0), laplace(1.0), laplace(1.7), response(0.3)], 1e-6), ([gaussian(5.0, 2), pure(0.01)], 1e-6),
    ([gaussian(3.0, 2), poisson(0.01, 1.0, 700), laplace(10.0)], 1e-5), ([gaussian(2.0), response(8.0)], 1e-6),
    ([poisson(0.01, 2.0, 700, "replace"), laplace(4.0, 2)], 1e-5),
]  # fmt: skip


@pytest.mark.parametrize(("events", "delta"), SYMMETRIC)
def test_brackets_the_oracle_with_laplace_and_randomized_response(events, delta):
    pld = pytest.importorskip("dp_accounting.pld.privacy_loss_distribution")
    from dp_accounting.pld.common import DifferentialPrivacyParameters

    grid, total = {"value_discretization_interval": 1e-4}, None
    for event in events:
        if event["type"] == "laplace":
            one = pld.from_laplace_mechanism(event["noise_multiplier"], **grid)
        elif event["type"] == "randomized-response":
            k = event["num_outcomes"]
            noise = k / (k - 1) * (1 - 1 / (1 + (k - 1) * math.exp(-event["epsilon"])))
            one = pld.from_randomized_response(noise, k, **grid)
        elif event["type"] == "pure":
            one = pld.from_privacy_parameters(DifferentialPrivacyParameters(event["epsilon"], 0), **grid)
        else:
            replace = pld.NeighborRel.REPLACE_ONE if event.get("relation") == "replace" else None
            how = {} if replace is None else {"neighboring_relation": replace}
            one = pld.from_gaussian_mechanism(
                event["noise_multiplier"], sampling_prob=event.get("sampling_prob", 1.0), **grid, **how
            )
        one = one.self_compose(event.get("count") or event["steps"])
        total = one if total is None else total.compose(one)
    low, high = epsilon_bracket(events, delta)
    oracle = total.get_epsilon_for_delta(delta)
    assert low <= oracle
    assert high <= 1.0005 * low
    assert oracle <= 1.002 * high  # pessimistic on its grid


def test_laplace_composes_below_randomized_response_of_the_same_epsilon():
    _, below = epsilon_bracket([laplace(5.0, 30)], 1e-6)
    low, high = epsilon_bracket([response(0.2, 2, 30)], 1e-6)
    assert below < low
    assert high < 30 * 0.2
    assert epsilon_bracket([response(0.2, 9, 30)], 1e-6)[1] < low


def test_composed_events_are_their_parts():
    tree = [composed(gaussian(5.0), composed(laplace(2.0, 2), count=3), count=2)]
    assert epsilon_bracket(tree, 1e-6) == epsilon_bracket([gaussian(5.0, 2), laplace(2.0, 12)], 1e-6)
    assert epsilon_bracket([composed(gaussian(5.0, 2))], 1e-6) == epsilon_bracket([gaussian(5.0, 2)], 1e-6)


def test_claims_over_laplace_and_randomized_response_are_held():
    events = [gaussian(2.0), laplace(3.0, 2), response(0.5, 4)]
    truth = epsilon_bracket(events, 1e-6)[1]
    assert claim_faults(claiming(events, truth))[0] == []
    for share in (0.5, 0.998):
        (problem,), (low, high) = claim_faults(claiming(events, share * truth))
        assert problem.startswith("certificate.json: claim.epsilon: ")
        assert share * truth < low <= high


@pytest.mark.parametrize("kind", ["zcdp"])
def test_other_events_are_said_to_be_beyond_this_verifier(kind):
    assert kind not in KNOWN_EVENTS
    event = {"type": kind, "epsilon": 0.1, "count": 1}
    expected = f"certificate.json: releases[1].event.type: {kind} cannot be verified here"
    for nested in (event, composed(gaussian(9.0), event)):
        found, bracket = claim_faults(claiming([gaussian(5.0), nested], 50.0))
        assert (found, bracket) == ([expected], (None, None))
        assert epsilon_bracket([gaussian(5.0), nested], 1e-6) == (0.0, math.inf)


def test_the_worse_direction_counts():
    """One step with q = 0.01: removal costs 0.1994, addition at most -log(0.99) = 0.01005."""
    low, _ = epsilon_bracket([poisson(0.01, 1.0, 1)], 1e-5)
    assert low > 0.19


@pytest.mark.parametrize(
    "events",
    [
        [gaussian(1e-300)], [gaussian(1.0, 2**53), poisson(0.5, 1e-300, 2**53)], [poisson(1e-300, 1.0, 1)],
        [poisson(0.5, 1e-4, 10)], [pure(1e300)], [laplace(1e-300)], [laplace(1e300)], [response(1e-300, 2**53, 2**53)],
        [composed(composed(pure(1e-3, 2**53), count=2**53), count=2**53)], [poisson(q / 100, 1.0, 1) for q in range(1, 60)],
    ],
)  # fmt: skip
def test_what_is_out_of_reach_is_never_confirmed(events):
    low, high = epsilon_bracket(events, 1e-5)
    assert 0 <= low <= high
    assert high == math.inf or high > 0


def test_no_events_cost_nothing_and_no_delta_buys_nothing():
    assert epsilon_bracket([], 1e-5) == (0.0, 0.0)
    assert epsilon_bracket([gaussian(1.0)], 0.0) == (0.0, math.inf)
    assert epsilon_bracket([gaussian(1e300)], 1e-5) == (0.0, 0.0)


@pytest.mark.parametrize(("bound", "noise"), [(1e-7, 0.05), (1e-12, 1.0), (1e-12, 5e-4)])
def test_a_bound_far_below_what_stands_beside_it_adds_up(bound, noise):
    """A lattice as fine as the bound would not fit into memory: what stands alone and the bound add up."""
    alone = epsilon_bracket([gaussian(noise)], 1e-6)
    assert epsilon_bracket([pure(bound), gaussian(noise)], 1e-6) == (alone[0], alone[1] + bound)


@pytest.mark.parametrize(
    ("share", "said"), [(1.0, ""), (1 / 1.0005, ""), (1 / 1.002, "is not confirmed"), (1 / 1.09, "is not")]
)
def test_a_claim_may_be_a_thousandth_below_a_bound_from_above_alone(share, said):
    """Of a selection no lower bound is known, so that the tolerance alone decides."""
    event = {"type": "selection", "candidates": [[pure(0.5)]], "rule": "logarithmic", "mean_trials": 3, "count": 3}
    stated = claiming([event], share * epsilon_bracket([event], 1e-6)[1])
    stated["accounting"]["method"] = "renyi"
    found = claim_faults(stated)[0]
    assert [said in text for text in found] == [True] * bool(said)


def losses(mass, infinite=0.0, steps=1):
    """A loss of 1 with a given mass, of 0 with the rest, and an infinite one."""
    return Atoms(np.array([0.0, 1.0]), np.array([1 - mass, mass]), steps, np.array([0, 1]), 0.0, infinite)


def composed_epsilon(*atoms):
    with np.errstate(all="ignore"):
        return _compose([*atoms], 1.0, 1.0, 0.5, 8.0, 1e-3, upper=True)


def test_infinite_losses_spend_delta():
    """Epsilon of a loss of 1 with mass 0.01 is 1 + log(1 - delta / 0.01); what is lost to infinity is no longer there."""
    assert composed_epsilon(losses(0.01)) == pytest.approx(1 + math.log(1 - 1e-3 / 0.01), rel=1e-6)
    assert composed_epsilon(losses(0.01, 4e-4)) == pytest.approx(1 + math.log(1 - 6e-4 / 0.01), rel=1e-6)
    assert composed_epsilon(losses(0.01, 1.1e-3)) == math.inf
    assert composed_epsilon(losses(0.01), losses(0.0, 2e-4, steps=6)) == math.inf


def test_independent_losses_are_lost_together_less_often_than_in_sum():
    """Two steps of 60 % lose 84 %, not 120 %: at delta 0.9 nothing else is left."""
    with np.errstate(all="ignore"):
        assert _compose([losses(0.0, 0.6, steps=2)], 1.0, 1e-4, 0.0, 8.0, 0.85, upper=True) == 0
        assert _compose([losses(0.0, 0.6, steps=2)], 1.0, 1e-4, 0.0, 8.0, 0.83, upper=True) == math.inf


def test_pure_mechanisms_below_the_lattice_of_others_have_one_bound():
    """Beside a step whose rare losses need a wide lattice. Randomized response dominates them, and its law is binomial."""
    rare, slight = poisson(1e-5, 0.4, 10), [laplace(1e7, 1000), response(1e-7, 2, 2000)]
    low, high = epsilon_bracket([rare], 1e-9)
    both = epsilon_bracket([rare, *slight], 1e-9)
    assert both[0] <= high
    assert low < both[1] <= high + 6e-5
    steps, one = 3000, 1e-7
    (loss,) = Slight(one * math.sqrt(steps), 1e-9).atoms(1.0, False, 0.0, 0.0, upper=True).loss
    assert binom.sf((loss / one + steps) // 2, steps, 1 / (1 + math.exp(-one))) <= 1e-18


def test_a_window_above_0_still_finds_that_epsilon_is_0():
    """A certain loss of 5 costs delta 1 - exp(-5) = 0.99326 at 0."""
    certain = Atoms(np.array([5.0]), np.array([1.0]), 1, np.array([5]))
    with np.errstate(all="ignore"):
        assert _compose([certain], 1.0, 1e-4, 52.0, 5.0, 0.9934, upper=True) == 0
        assert _compose([certain], 1.0, 1e-4, 52.0, 5.0, 0.9932, upper=True) > 0


def test_what_lies_beyond_the_lattice_is_an_infinite_loss():
    """A lattice that ends early must not make anything cheaper: all masses stay."""
    for flip in (False, True):
        found = Sampled(0.3, 0.8, False, 1).atoms(0.05, flip, -0.3, 0.5, upper=True)
        assert found.infinite > 1e-3
        assert found.mass.sum() + found.infinite == pytest.approx(1, abs=1e-12)
