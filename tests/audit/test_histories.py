"""Audits of whole histories: honest ones stand close to their claim, and noise for less than an edge tells is refuted."""

import numpy as np
import pytest

import sfumato as sf
from sfumato.audit._histories import audit_history
from sfumato.bounded._encoder import Encoder
from sfumato.central import _daily
from sfumato.central._daily import DailyMessages
from sfumato.errors import InputError

BUDGET, KEY = sf.Budget(2.0, 1e-6), bytes(range(32))
FORMS = {
    "staggered": DailyMessages(days=24, refreshes=12),
    "deletions": DailyMessages(days=24, refreshes=12, deletions=True),
    "sums": DailyMessages(days=40, refreshes=40, noise="sums"),
    "sums, deletions": DailyMessages(days=60, refreshes=60, noise="sums", deletions=True),
}


@pytest.mark.parametrize("name", FORMS)
def test_the_bound_on_a_whole_history_is_at_least_half_of_the_claim(name):
    found = audit_history(FORMS[name], BUDGET, canaries=3000, key=KEY)
    assert 1.0 < found.epsilon_lower_bound <= 2.0
    assert not found.flagged


def test_noise_for_one_change_is_refuted_where_there_are_two(monkeypatch):
    monkeypatch.setattr(_daily, "increment_sensitivity", lambda deletions: 1)
    assert audit_history(FORMS["deletions"], BUDGET, canaries=3000, key=KEY).flagged


def test_noise_for_the_first_refresh_alone_is_refuted_where_all_tell(monkeypatch):
    monkeypatch.setattr(Encoder, "norm", lambda encoder, deletions: float(encoder.steps[0]))
    assert audit_history(FORMS["sums"], BUDGET, canaries=3000, key=KEY).flagged


def test_a_change_that_is_told_twice_is_refuted(monkeypatch):
    from sfumato.bounded._history import Increments

    monkeypatch.setattr(Increments, "weights", lambda form, ages: np.asarray(ages <= 1, np.int64))
    assert audit_history(FORMS["staggered"], BUDGET, canaries=3000, key=KEY).flagged


def test_too_few_canaries_are_refused():
    with pytest.raises(InputError, match="canaries"):
        audit_history(FORMS["sums"], BUDGET, canaries=3)
