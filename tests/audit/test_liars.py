"""The auditor flags every planted fault, and none of the configurations that the faults were planted in."""

from dataclasses import replace

import pytest
from audit_faults import FAULTS, REPEATED, UNSEEN, OpenPredictions, nothing
from audit_white import WHITE

QUICK = (
    "one draw for all steps",
    "bias without noise",
    "known key",
    "noise on a coarse grid",
    "two draws released",
    "one draw for all hops",
    "public predictions",
)
EVERY = (*FAULTS, *WHITE)
HONEST = {
    (fault.method, fault.unit, fault.size, fault.fits, fault.attacks): fault
    for fault in EVERY
    if fault.plant is not nothing
}


@pytest.mark.audit
@pytest.mark.parametrize("fault", EVERY, ids=lambda fault: fault.name)
def test_a_planted_fault_is_flagged(fault):
    result = fault.audit()
    assert result.flagged
    if fault.proof == "promise":
        assert result.broken
    else:
        above = result.epsilon_lower_bound > result.claimed
        assert above or any("than the ledger states" in sentence for sentence in result.broken)


@pytest.mark.audit
@pytest.mark.parametrize("fault", HONEST.values(), ids=lambda fault: fault.name)
def test_the_same_configuration_without_the_fault_is_not(fault):
    result = fault.audit(nothing)
    assert not result.flagged, (result.broken, result.evidence)


@pytest.mark.parametrize("name", QUICK)
def test_faults_that_need_no_statistics_are_flagged_at_a_small_size(name):
    fault = next(one for one in EVERY if one.name == name)
    assert fault.audit().broken


class OpenProbabilities(OpenPredictions):
    def who_may_see(self, unit):
        return {"anyone": ["weights", "class probabilities"]}


def test_predictions_under_another_name_are_flagged():
    fault = next(one for one in FAULTS if one.name == "public predictions")
    assert any(
        "'class probabilities'" in one for one in replace(fault, method=OpenProbabilities(epochs=1)).audit().broken
    )


@pytest.mark.parametrize("fault", REPEATED, ids=lambda fault: fault.name)
def test_noise_that_comes_again_is_flagged_at_a_small_size(fault):
    assert any("noise of" in sentence.lower() or "more than once" in sentence for sentence in fault.audit().broken)


def test_there_are_enough_faults_and_those_that_are_not_seen_are_named():
    every = [fault.name for fault in (*EVERY, *REPEATED)]
    assert len(every) >= 60
    assert len(set(every)) == len(every)
    assert all(len(reason) > 20 for reason in UNSEEN.values())
