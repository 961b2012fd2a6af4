"""Kept ledgers of data sets, of each format, are read as they were and go on."""

import shutil
from fractions import Fraction
from pathlib import Path

import pytest

from sfumato.errors import InputError, LedgerError
from sfumato.record._claims import FIRST_NOISE, Claim
from sfumato.record._dataset_ledger import DatasetLedger, read_account

KEPT = Path(__file__).parent / "dataset-ledgers"
UNIT = {"name": "edge", "relation": "add-remove", "directed": False}
DATASET = {"name": "campus", "ids_digest": "ab" * 32}
FIRST, SECOND = "0a" * 16, "0b" * 16
STATES = {1: ["unknown", "unknown"], 2: ["spent", "reserved"]}


@pytest.fixture(params=STATES)
def kept(request, tmp_path):
    for path in KEPT.glob(f"format-{request.param}.*"):
        shutil.copy(path, tmp_path)
    return request.param, tmp_path / f"format-{request.param}.jsonl"


def test_a_kept_ledger_is_read(kept):
    number, path = kept
    account = read_account(path)
    assert (account.problem, account.header["format"]) == (None, number)
    assert account.claims == (
        Claim(FIRST, "gap", 1.0, 1e-6, 0.25, 32, "0" * 64),
        Claim(SECOND, "tuned", 0.5, 1e-6, None, 64, "0" * 64),
    )
    assert [account.state(claim) for claim in account.claims] == STATES[number]
    assert account.spent() == {"epsilon": Fraction("1.5"), "delta": Fraction("2e-6")}


def test_a_kept_ledger_goes_on(kept):
    _, path = kept
    ledger, whole = DatasetLedger(path), path.read_bytes()
    ledger.reserve(Claim("0c" * 16, "gap", 1.0, 1e-6, 0.25, 32, "0" * 64), unit=UNIT, dataset=DATASET)
    for run in ("0c" * 16, SECOND):
        ledger.spend(run, "mark", FIRST_NOISE)
    assert path.read_bytes().startswith(whole)
    account = read_account(path)
    assert account.problem is None
    assert [account.state(claim) for claim in account.claims][1:] == ["spent", "spent"]


def test_a_kept_mark_stands():
    account = read_account(KEPT / "format-2.jsonl")
    assert account.marks == {FIRST: {FIRST_NOISE: "1c" * 32, "aggregate/1": "2d" * 32}, SECOND: {}}
    with pytest.raises(LedgerError, match="is spent"):
        account.marked(FIRST, FIRST_NOISE, "2d" * 32, KEPT)


def test_a_format_that_is_not_known_is_refused(kept):
    number, path = kept
    path.write_text(path.read_text().replace(f'"format":{number}', '"format":4'))
    with pytest.raises(InputError, match="to be the ledger of a data set"):
        read_account(path)
