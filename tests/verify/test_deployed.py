"""A deployment record is checked for its form, its day and its flavor; the rest is the word of its author."""

import pytest

from sfumato.verify._words import deployment_faults

RECORD = {"product": "Friends", "publication_date": "2026-12-01", "flavor": "Approximate DP"}


def faults(delta, **changed):
    return list(deployment_faults({"claim": {"delta": delta}, "deployment": {**RECORD, **changed}}))


def test_a_record_that_fits_its_claim_has_no_fault():
    assert faults(1e-6) == faults(0.0) == faults(0.0, flavor="Pure DP") == []
    assert list(deployment_faults({"claim": {"delta": None}})) == []


def test_a_run_that_claims_nothing_has_no_record():
    assert "not expected" in faults(None)[0]


def test_a_flavor_is_no_stronger_than_the_claim():
    assert "expected Approximate DP" in faults(1e-6, flavor="Pure DP")[0]


@pytest.mark.parametrize("text", [" ", "\t \n", "\u3000"])
def test_a_text_has_words(text):
    said = "certificate.json: deployment.product: expected words, got spaces alone"
    assert faults(1e-6, product=text) == [said]


@pytest.mark.parametrize("day", ["2026-02-31", "2026-13-01", "0000-01-01"])
def test_the_day_is_one_that_there_is(day):
    assert "publication_date" in faults(1e-6, publication_date=day)[0]
