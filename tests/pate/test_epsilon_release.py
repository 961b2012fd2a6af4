"""The released epsilon covers the true one as often as it says, and nothing else leaves with it."""

import numpy as np
import pytest

from sfumato.errors import InputError
from sfumato.pate import _epsilon_release as epsilon_release
from sfumato.pate._aggregation import ConfidentGNMax, GNMax, InteractiveGNMax, LNMax
from sfumato.pate._analysis import analyze
from sfumato.pate._data_dependent import to_epsilon
from sfumato.pate._epsilon_release import published_release, release_epsilon
from sfumato.pate._smooth import gnss_renyi, smooth_sensitivity

VOTES = np.random.default_rng(5).multinomial(40, [0.9, 0.06, 0.04], 100)
PUBLIC = {"order": 8.0, "beta": 0.025, "noise": 4.0}
MECHANISMS = [LNMax(4.0), GNMax(12.0), ConfidentGNMax(20.0, 8.0, 12.0)]


def truth(mechanism, cost):
    by_query, _ = epsilon_release._cost_and_sensitivities(VOTES, mechanism, 8.0)
    return float(to_epsilon(np.array([by_query.sum() + cost]), np.array([8.0]), 1e-5)[0])


@pytest.mark.parametrize("mechanism", MECHANISMS)
@pytest.mark.parametrize("confidence", [0.5, 0.95])
def test_covers_the_truth_with_the_stated_confidence(mechanism, confidence, monkeypatch):
    fixed = epsilon_release._cost_and_sensitivities(VOTES, mechanism, 8.0)
    monkeypatch.setattr(epsilon_release, "_cost_and_sensitivities", lambda *_: fixed)
    draws = [release_epsilon(VOTES, mechanism, 1e-5, confidence=confidence, **PUBLIC) for _ in range(400)]
    told = np.array([draw.epsilon for draw in draws])
    true = truth(mechanism, draws[0].cost)
    assert (told >= true).mean() > confidence - 3 * np.sqrt(confidence * (1 - confidence) / 400)
    margin = np.median(told) - true
    assert ((told - margin) >= true).mean() < 0.6, "without its margin the value would cover the truth half of the time"


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_released_cost_is_above_the_tighter_analysis(mechanism):
    assert truth(mechanism, 0.0) >= analyze(VOTES, mechanism, 1e-5).epsilon


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_noise_has_the_deviation_that_the_cost_assumes(mechanism, monkeypatch):
    by_query, by_distance = fixed = epsilon_release._cost_and_sensitivities(VOTES, mechanism, 8.0)
    monkeypatch.setattr(epsilon_release, "_cost_and_sensitivities", lambda *_: fixed)
    drawn = []
    noisy = epsilon_release._noisy
    monkeypatch.setattr(epsilon_release, "_noisy", lambda *a: drawn.append(noisy(*a)) or drawn[-1])
    for _ in range(400):
        release_epsilon(VOTES, mechanism, 1e-5, **PUBLIC)
    sensitivity = smooth_sensitivity(by_distance, 0.025)
    logs, totals = np.array(drawn[::2]) - np.log(sensitivity), np.array(drawn[1::2]) - by_query.sum()
    for values, stddev in ((logs, 5 * 0.025), (totals, 4 * sensitivity)):
        assert abs(values.mean()) < 4 * stddev / 20
        assert abs(values.std() / stddev - 1) < 0.15
    cost = release_epsilon(VOTES, mechanism, 1e-5, **PUBLIC).cost
    assert cost == pytest.approx(gnss_renyi(0.025, 4.0, 8.0) + 8.0 / (2 * 5**2))


def test_same_key_and_votes_repeat_the_release():
    values = [release_epsilon(VOTES, GNMax(12.0), 1e-5, key=bytes(32), **PUBLIC).epsilon for _ in range(2)]
    assert values[0] == values[1]
    other = release_epsilon(VOTES[1:], GNMax(12.0), 1e-5, key=bytes(32), **PUBLIC).epsilon
    assert other != values[0]
    assert release_epsilon(VOTES, GNMax(12.0), 1e-5, **PUBLIC).epsilon != values[0]


@pytest.mark.parametrize(
    ("mechanism", "changes", "fragment"),
    [
        (InteractiveGNMax(20.0, 8.0, 6.0), {}, "lnmax, gnmax or confident-gnmax"),
        (GNMax(12.0), {"beta": 0.1}, "smaller beta"),
        (GNMax(12.0), {"beta": 0.0}, "beta"),
        (GNMax(12.0), {"order": 1.0}, "order"),
        (GNMax(12.0), {"noise": 0.0}, "noise"),
        (GNMax(12.0), {"confidence": 1.0}, "confidence"),
        (GNMax(3.0), {"order": 10.0}, "C5 and C6"),
    ],
)
def test_what_has_no_proof_is_refused(mechanism, changes, fragment):
    with pytest.raises(InputError, match=fragment):
        release_epsilon(VOTES, mechanism, 1e-5, **{**PUBLIC, **changes})


@pytest.mark.parametrize("mechanism", [LNMax(6.0), InteractiveGNMax(20.0, 8.0, 6.0)])
def test_other_releases_were_not_published(mechanism):
    with pytest.raises(InputError, match="No other release was published"):
        published_release(VOTES, mechanism, 1e-5)


def test_published_release_is_marked_by_its_analysis():
    before, chosen, after = published_release(VOTES, GNMax(12.0), 1e-5)
    assert before.as_published
    assert not before.releasable
    assert after == before.epsilon + chosen.cost
