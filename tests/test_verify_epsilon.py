"""The verifier's own accountant against closed forms, reference tables and an independent accountant."""

import math

import pytest

from sfumato._verify_epsilon import epsilon_bracket


def poisson(q, noise, steps, relation="add-remove"):
    return {
        "type": "poisson-gaussian", "sampling_prob": q, "noise_multiplier": noise, "steps": steps, "relation": relation,
    }  # fmt: skip


def gaussian(noise, count=1):
    return {"type": "gaussian", "noise_multiplier": noise, "count": count}


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


@pytest.mark.soak
def test_rare_sampling_is_confirmed():
    """Reference table 4.6: at most 0.0592 on the finest grid tried there."""
    low, high = epsilon_bracket([poisson(1e-5, 1.0, 10**6)], 1e-8)
    assert 0.04 < low <= high <= 0.0592


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


MIXED = [
    ([gaussian(1.0, 2), poisson(256 / 14235, 1.0, 1112)], 1e-5),
    ([gaussian(3.0, 2), poisson(0.01, 1.0, 1)], 1e-5),
    ([poisson(0.9, 1.0, 3)], 1e-5),
    ([poisson(0.05, 0.7, 30), poisson(0.2, 2.0, 20)], 1e-8),
]


@pytest.mark.parametrize(("events", "delta"), MIXED)
@pytest.mark.parametrize("relation", ["add-remove", "replace"])
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


def test_the_worse_direction_counts():
    """One step with q = 0.01: removal costs 0.1994, addition at most -log(0.99) = 0.01005."""
    low, _ = epsilon_bracket([poisson(0.01, 1.0, 1)], 1e-5)
    assert low > 0.19


@pytest.mark.parametrize(
    "events",
    [
        [gaussian(1e-300)], [gaussian(1.0, 2**53), poisson(0.5, 1e-300, 2**53)], [poisson(1e-300, 1.0, 1)],
        [poisson(0.5, 1e-4, 10)], [poisson(q / 100, 1.0, 1) for q in range(1, 60)],
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
