"""The file of a data set's ledger: which lines are checked again, and where one begins."""

import json
from fractions import Fraction
from hashlib import sha256

import pytest
from claimed import claim, files, reserve

from sfumato._files import append_line
from sfumato.errors import BudgetExceededError, InputError, LedgerError
from sfumato.record import _ledger_file as ledger_file
from sfumato.record._claims import FIRST_NOISE
from sfumato.record._dataset_ledger import DatasetLedger, read_account
from sfumato.record._ledger_file import read_chain, read_tail
from sfumato.record.ledger import GENESIS, canonical_json


def test_no_line_is_read_again_however_many_charges_follow(ledger, path, monkeypatch):
    reserve(ledger, claim(0.01, 0.0))
    monkeypatch.setattr("sfumato.record._ledger_file.read_chain", None)
    for number in range(30):
        in_a_new_process(monkeypatch)
        one = claim(0.01, 0.0)
        reserve(ledger, one)
        ledger.spend(one.run, f"mark {number}", FIRST_NOISE)
        with pytest.raises(LedgerError, match="is spent"):
            ledger.spend(one.run, "another", FIRST_NOISE)
    monkeypatch.undo()
    account = read_account(path)
    assert (account.problem, len(account.claims), account.spent()["epsilon"]) == (None, 31, Fraction("0.31"))


@pytest.mark.parametrize(("total", "rule"), [(0.05, "basic"), (1.0, "gdp")])
def test_the_noted_sums_refuse_what_all_claims_refuse(path, monkeypatch, total, rule):
    ledger, one = DatasetLedger(path, total, 1e-6, rule), lambda: claim(0.01, 1e-9, mu=0.1, draws=4)
    for _ in range(5):
        in_a_new_process(monkeypatch)
        reserve(ledger, one())
    in_a_new_process(monkeypatch)
    with pytest.raises(BudgetExceededError) as caught:
        reserve(ledger, one())
    account = read_account(path)
    assert len(account.claims) == 5
    with pytest.raises(BudgetExceededError) as again:
        account.check(one(), path)
    assert str(again.value) == str(caught.value)


def test_a_changed_byte_is_found_although_sums_are_noted(ledger, path, monkeypatch):
    reserve(ledger, claim(), claim())
    whole = path.read_bytes()
    for at in range(0, len(whole), 97):
        in_a_new_process(monkeypatch)
        path.write_bytes(whole[:at] + bytes([whole[at] ^ 1]) + whole[at + 1 :])
        with pytest.raises((LedgerError, InputError)):
            reserve(ledger, claim())
    path.write_bytes(whole)
    in_a_new_process(monkeypatch)
    reserve(ledger, claim())


def test_sums_that_were_lowered_are_not_taken_and_are_found_if_their_hash_is_new(ledger, path, monkeypatch):
    reserve(ledger, *(claim() for _ in range(10)))
    head = path.with_name(path.name + ".head")
    values = json.loads(head.read_text())
    for sums in ({**values["checked"]["sums"], "epsilon": "0"}, float("nan"), None):
        head.write_text(json.dumps({**values, "checked": {**values["checked"], "sums": sums}}))
        in_a_new_process(monkeypatch)
        with pytest.raises(BudgetExceededError):
            reserve(ledger, claim())
    sums = {**values["checked"]["sums"], "epsilon": "0"}
    digest = sha256(path.read_bytes() + canonical_json(sums).encode()).hexdigest()
    head.write_text(json.dumps({**values, "checked": {"sha256": digest, "sums": sums}}))
    in_a_new_process(monkeypatch)
    assert "notes other sums than the claims have" in read_account(path).problem


def test_a_head_of_an_earlier_version_is_read_line_by_line(ledger, path, monkeypatch):
    reserve(ledger, claim())
    head = path.with_name(path.name + ".head")
    values = json.loads(head.read_text())
    head.write_text(canonical_json({name: values[name] for name in ("entries", "hash")}))
    in_a_new_process(monkeypatch)
    assert read_tail(path) is None
    reserve(ledger, claim())
    assert read_tail(path).sums["epsilon"] == Fraction("0.2")


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


def in_a_new_process(monkeypatch):
    monkeypatch.setattr(ledger_file, "_known", {})


def put_back(path, lines, head):
    """Cut the file to so many lines, and let its head count so many."""
    entries = read_chain(path).entries
    path.write_bytes(b"".join(path.read_bytes().splitlines(keepends=True)[:lines]))
    last = entries[head - 1]["hash"] if head else GENESIS
    path.with_name(path.name + ".head").write_text(json.dumps({"entries": head, "hash": last}))


@pytest.mark.parametrize(("lines", "head"), [(0, 0), (1, 0), (1, 1), (2, 2)])
def test_a_process_that_read_a_ledger_takes_no_older_copy_of_it(ledger, path, lines, head):
    reserve(ledger, claim(), claim())
    put_back(path, lines, head)
    before = files(path)
    with pytest.raises((LedgerError, InputError), match="estore"):
        reserve(ledger, claim())
    assert files(path) == before


@pytest.mark.parametrize(("head", "sound"), [(0, False), (1, False), (2, True), (3, True)])
def test_a_head_is_at_most_one_line_behind(ledger, path, monkeypatch, head, sound):
    reserve(ledger, claim(), claim())
    put_back(path, 3, head)
    in_a_new_process(monkeypatch)
    problem = read_account(path).problem
    assert (problem is None) == sound
    if not sound:
        assert f"counts {head} of 3 lines" in problem


def test_a_process_that_dies_again_after_one_that_died_leaves_the_head_one_line_behind(ledger, path, monkeypatch):
    reserve(ledger, claim())
    for epsilon in (0.2, 0.3):
        with monkeypatch.context() as dying:
            dying.setattr(ledger_file, "append_line", lambda *given, **how: (append_line(*given, **how), 1 / 0))
            with pytest.raises(ZeroDivisionError):
                reserve(ledger, claim(epsilon))
        in_a_new_process(monkeypatch)
        assert read_account(path).problem is None
    assert len(read_account(path).claims) == 3


@pytest.mark.parametrize("strange", ["3.0", "3.9", "true", "Infinity", "1e999", '"3"', "null", "[" * 200_000])
def test_a_head_counts_in_whole_numbers(ledger, path, strange):
    reserve(ledger, claim(), claim())
    head = path.with_name(path.name + ".head")
    head.write_text(head.read_text().replace(":3", f":{strange}"))
    with pytest.raises(LedgerError, match=r"head is damaged; restore"):
        reserve(ledger, claim())


@pytest.mark.parametrize("which", ["", ".head"])
def test_a_folder_in_its_place_is_no_ledger(ledger, path, which):
    reserve(ledger, claim())
    place = path.with_name(path.name + which)
    place.unlink()
    place.mkdir()
    with pytest.raises((LedgerError, InputError), match=r"head is damaged|got a folder"):
        reserve(ledger, claim())
    ledger_file.begin(path.with_name("new"))
    path.with_name("new").mkdir()
    with pytest.raises(InputError, match="got a folder"):
        reserve(DatasetLedger(path.with_name("new"), 1.0), claim())
