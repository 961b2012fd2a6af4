"""The ledger of a device: whole lines count, what was cut is dropped, and one process at a time writes."""

from fractions import Fraction

import pytest
from collect_fake import LABEL, schema_of

from sfumato.collect._journal import LEDGER, append_entry, found_entry, locked, read_entries, spent, synced_entries
from sfumato.errors import InputError, LedgerError
from sfumato.record.ledger import chained

ONE, OTHER = schema_of(), schema_of(label=LABEL)


def filled(folder):
    """A folder with two charges, and its entries."""
    entries = []
    append_entry(folder, entries, {"kind": "device"})
    for schema in (ONE, OTHER):
        append_entry(folder, entries, {"kind": "charge", "schema": schema.sha256, "epsilon": 0.1, "delta": 0.0})
    return entries


def test_what_was_appended_is_read(tmp_path):
    assert read_entries(tmp_path) == []
    entries = filled(tmp_path)
    assert read_entries(tmp_path) == synced_entries(tmp_path) == entries
    assert found_entry(entries, "charge", OTHER) == entries[2]
    assert found_entry(entries, "report", OTHER) is None
    assert spent(entries) == (2 * Fraction(0.1), 0)


def test_a_line_without_its_end_is_dropped_and_cut(tmp_path):
    entries, path = filled(tmp_path), tmp_path / LEDGER
    whole = path.read_bytes()
    path.write_bytes(whole[:-1])
    assert read_entries(tmp_path) == synced_entries(tmp_path) == entries[:2]
    assert path.read_bytes() == whole[: whole.rindex(b"\n", 0, -1) + 1]


def test_altered_lines_are_refused(tmp_path):
    filled(tmp_path)
    path = tmp_path / LEDGER
    path.write_bytes(path.read_bytes().replace(b'"epsilon":0.1', b'"epsilon":0.0', 1))
    with pytest.raises(LedgerError, match="line 2"):
        read_entries(tmp_path)


COST = {"kind": "charge", "schema": ONE.sha256, "epsilon": 0.1, "delta": 0.0}


@pytest.mark.parametrize(
    "body",
    [
        {"kind": "charge"},
        {**COST, "epsilon": "0.1"},
        {**COST, "epsilon": 10**400},
        {**COST, "delta": -1e-9},
        {**COST, "schema": []},
        {"kind": "report", "schema": ONE.sha256, "message": "0g"},
        {"kind": "report", "schema": ONE.sha256, "message": "0"},
        {"kind": "device"},
        {"kind": []},
        {},
    ],
)
def test_lines_that_no_device_writes_are_refused(tmp_path, body):
    append_entry(tmp_path, filled(tmp_path), body)
    with pytest.raises(LedgerError, match="line 4 is none that a device writes"):
        read_entries(tmp_path)


def test_a_folder_is_held_by_one_at_a_time(tmp_path, monkeypatch):
    monkeypatch.setattr("sfumato.collect._journal._WAIT_SECONDS", 0.05)
    with locked(tmp_path), pytest.raises(InputError, match="to be free"), locked(tmp_path):
        pass
    with locked(tmp_path):
        pass


def test_a_line_is_hashed_once_and_again_when_it_changed(tmp_path, monkeypatch):
    hashed = []
    monkeypatch.setattr("sfumato.record.ledger.chained", lambda *given: hashed.append(1) or chained(*given))
    entries = filled(tmp_path)
    for _ in range(20):
        append_entry(tmp_path, entries, {"kind": "charge", "schema": ONE.sha256, "epsilon": 0.1, "delta": 0.0})
        assert read_entries(tmp_path) == entries
    assert len(hashed) == 23
    path = tmp_path / LEDGER
    path.write_bytes(path.read_bytes().replace(b'"epsilon":0.1', b'"epsilon":0.0', 1))
    with pytest.raises(LedgerError, match="line 2"):
        read_entries(tmp_path)
