"""Costs of whole runs: what is summed, what is weighed, and what may be told."""

import numpy as np
import pytest

from sfumato.errors import InputError
from sfumato.pate._aggregation import ConfidentGNMax, GNMax, InteractiveGNMax, LNMax
from sfumato.pate._analysis import analyze
from sfumato.pate._data_dependent import PUBLISHED_ORDERS, gaussian_log_q, gaussian_renyi, log_answer_probability
from sfumato.privacy import accounting

CONFIDENT = ConfidentGNMax(20.0, 8.0, 6.0)
VOTES = np.random.default_rng(5).multinomial(40, [0.9, 0.06, 0.04], 300)
SPLIT = np.random.default_rng(6).multinomial(40, [0.35, 0.35, 0.3], 300)


@pytest.mark.parametrize("mechanism", [LNMax(6.0), GNMax(6.0), CONFIDENT])
def test_costs_add_up_over_queries(mechanism):
    both = np.concatenate([VOTES, SPLIT])
    for as_published in (True, False):
        one, other, together = (
            analyze(votes, mechanism, 1e-5, as_published=as_published) for votes in (VOTES, SPLIT, both)
        )
        assert together.answered == pytest.approx(one.answered + other.answered)
        assert together.epsilon > max(one.epsilon, other.epsilon)
        assert not as_published or together.epsilon <= one.epsilon + other.epsilon
        assert together.threshold + together.answers + together.conversion == pytest.approx(together.epsilon)


def test_many_queries_are_summed_as_few_are(monkeypatch):
    whole = analyze(VOTES, CONFIDENT, 1e-5)
    monkeypatch.setattr("sfumato.pate._data_dependent._CHUNK", 1000)
    assert analyze(VOTES, CONFIDENT, 1e-5).epsilon == pytest.approx(whole.epsilon, rel=1e-12)


@pytest.mark.parametrize("mechanism", [LNMax(6.0), GNMax(6.0), CONFIDENT])
def test_never_above_the_data_independent_value(mechanism):
    result = analyze(SPLIT, mechanism, 1e-5)
    assert result.epsilon <= result.data_independent == accounting.epsilon(mechanism.events(len(SPLIT)), 1e-5)
    agreed = analyze(np.tile([40, 0, 0], (300, 1)), mechanism, 1e-5)
    assert agreed.epsilon < 0.8 * agreed.data_independent
    assert not agreed.releasable


def test_undecided_votes_cost_the_data_independent_value():
    result = analyze(np.tile([14, 13, 13], (20, 1)), GNMax(6.0), 1e-5)
    assert result.order is None
    assert result.epsilon == result.data_independent
    assert not result.releasable


def test_published_confident_cost_by_hand():
    result = analyze(VOTES, CONFIDENT, 1e-5, as_published=True)
    answered, refused = log_answer_probability(VOTES.max(axis=1), 20.0, 8.0)
    threshold = gaussian_renyi(np.minimum(answered, refused), 8 * np.sqrt(2), PUBLISHED_ORDERS).sum(axis=0)
    answers = np.exp(answered) @ gaussian_renyi(gaussian_log_q(VOTES, 6.0), 6.0, PUBLISHED_ORDERS)
    by_order = threshold + answers + np.log(1e5) / (PUBLISHED_ORDERS - 1)
    assert result.epsilon == pytest.approx(by_order.min(), rel=1e-12)
    assert result.order == PUBLISHED_ORDERS[by_order.argmin()]


def test_every_query_is_charged_not_only_answered_ones():
    refused = np.tile([14, 13, 13], (300, 1))
    mechanism = ConfidentGNMax(1000.0, 8.0, 6.0)
    result = analyze(refused, mechanism, 1e-5, as_published=True)
    assert result.answered < 1e-9
    assert result.epsilon > analyze(refused[:1], mechanism, 1e-5, as_published=True).epsilon


def test_student_lowers_what_passes():
    plain = analyze(VOTES, CONFIDENT, 1e-5)
    mechanism = InteractiveGNMax(20.0, 8.0, 6.0)
    nothing = analyze(VOTES, mechanism, 1e-5, student=np.zeros(VOTES.shape))
    assert nothing.epsilon == plain.epsilon
    knows = analyze(VOTES, mechanism, 1e-5, student=VOTES / 40)
    assert knows.answered < 0.1 * plain.answered
    assert knows.epsilon < plain.epsilon
    with pytest.raises(InputError, match="student"):
        analyze(VOTES, mechanism, 1e-5)


def test_ten_times_a_delta_is_seen():
    """Known fault elsewhere: 10e-5 written for 1e-5."""
    assert analyze(VOTES, GNMax(6.0), 10e-5).to_dict()["delta"] == 1e-4
    assert analyze(VOTES, GNMax(6.0), 10e-5).epsilon < analyze(VOTES, GNMax(6.0), 1e-5).epsilon
    for delta in (0.0, 1.0, -1e-5, float("nan"), None):
        with pytest.raises(InputError, match="delta"):
            analyze(VOTES, GNMax(6.0), delta)
