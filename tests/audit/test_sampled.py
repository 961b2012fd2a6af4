"""Steps that draw their records: no honest run is refuted, and too little noise or too frequent coins are found."""

from itertools import count
from unittest.mock import patch

import pytest

import sfumato as sf
from sfumato.audit import _sampled as sampled
from sfumato.audit import _transcripts as transcripts
from sfumato.audit._auditor import audit
from sfumato.audit._sampled import audit_sampled
from sfumato.audit._worst import pairs
from sfumato.catalog import method_named
from sfumato.central import _learning
from sfumato.errors import InputError

BUDGET, RECORD = sf.Budget(8.0, 1e-6), sf.RecordLevel()


@pytest.fixture(autouse=True)
def fixed_keys(monkeypatch):
    numbers = count(1)
    monkeypatch.setattr(transcripts, "new_key", lambda: next(numbers).to_bytes(32, "big"))


def bound(runs):
    return audit_sampled(method_named("mlp"), RECORD, BUDGET, runs=runs, confidence=0.999).epsilon_lower_bound


def steps_with(change):
    real = _learning.PrivateSGD
    return patch.object(_learning, "PrivateSGD", lambda *settings: real(*change(*settings)))


def test_an_honest_run_is_not_refuted():
    assert bound(100) < 8


@pytest.mark.audit
def test_much_of_an_honest_claim_is_certified():
    assert 0.45 * 8 < bound(6000) < 8


@pytest.mark.parametrize(
    "change",
    [
        lambda q, steps, clip, noise, rate: (q, steps, clip, 0.4 * noise, rate),
        lambda q, steps, clip, noise, rate: (1.0, steps, clip, noise, rate),
    ],
    ids=["noise", "coins"],
)
def test_too_little_noise_and_coins_that_always_fall_heads_are_found(change):
    with steps_with(change):
        assert bound(200) > 8


def test_counts_say_how_much_noise_there_can_be():
    plan, _ = next(pairs(method_named("mlp"), RECORD, BUDGET, sampled=True))
    events = [release.event for release in plan.releases]
    assert events[0].sampling_prob < 1
    found = [sampled._epsilon(events, 1e-6, 0.5, (hits, 200), 1000, 0.99) for hits in (300, 500, 800)]
    assert found[0] == 0 < found[1] < found[2]


def test_attacks_are_chosen_by_name():
    found = audit(method_named("mlp"), RECORD, BUDGET, size=0.003, attacks=("transcripts",))
    assert [one.name for one in found.evidence] == ["one record, all noisy sums"]
    with pytest.raises(InputError, match="attacks"):
        audit(method_named("mlp"), RECORD, BUDGET, attacks=("guesses",))
