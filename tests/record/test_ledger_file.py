"""The file of a data set's ledger: which lines are checked again, and where one begins."""

import pytest

from sfumato.errors import InputError
from sfumato.record import ledger_file
from sfumato.record.claims import FIRST_NOISE, Claim, new_run
from sfumato.record.dataset_ledger import DatasetLedger, read_account

UNIT = {"name": "edge", "relation": "add-remove", "directed": False}
DATASET = {"name": "campus", "ids_digest": "ab" * 32}


def claim(epsilon=0.1, delta=1e-7, mu=None, draws=32):
    return Claim(new_run(), "gap", epsilon, delta, mu, draws, "0" * 64)


def reserve(ledger, *claims):
    for one in claims:
        ledger.reserve(one, unit=UNIT, dataset=DATASET)


@pytest.fixture
def path(tmp_path):
    return tmp_path / "ledger.jsonl"


@pytest.fixture
def ledger(path):
    return DatasetLedger(path, total_epsilon=1.0, total_delta=1e-6)


def files(path):
    return {p.name: p.read_bytes() for p in path.parent.iterdir() if not p.name.endswith(".lock")}


def test_a_line_is_hashed_once_however_many_charges_follow(ledger, path, monkeypatch):
    hashed = []
    real = ledger_file.chained
    monkeypatch.setattr("sfumato.record.ledger.chained", lambda *given: hashed.append(1) or real(*given))
    for number in range(30):
        one = claim(0.01, 0.0)
        reserve(ledger, one)
        ledger.spend(one.run, f"mark {number}", FIRST_NOISE)
    assert len(hashed) == 60


def test_a_process_that_dies_while_it_makes_the_ledger_leaves_none(ledger, path):
    reserve(ledger, claim())
    header = path.read_bytes().split(b"\n")[0]
    begun = path.parent / "begun.jsonl"
    for left in (None, b"", header[:40]):
        ledger_file.begin(begun)
        if left is not None:
            begun.write_bytes(left)
        with pytest.raises(InputError, match="--total-epsilon"):
            DatasetLedger(begun)
        reserve(DatasetLedger(begun, 1.0), claim())
        assert len(read_account(begun).claims) == 1
        for file in files(begun):
            if file.startswith("begun"):
                (path.parent / file).unlink()
