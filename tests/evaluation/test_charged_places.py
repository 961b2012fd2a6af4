"""Where a history may be charged: in the ledger that it began with, whole, and nowhere else."""

import shutil
from dataclasses import replace

import numpy as np
import pytest
from edge_days import BUDGET, FORMS, kept, table

from sfumato.central._daily import MARKS, DailyMessages
from sfumato.errors import DataError, InputError, LedgerError, SfumatoError
from sfumato.evaluation._daily import Daily
from sfumato.record import _ledger_file
from sfumato.record._dataset_ledger import DatasetLedger
from sfumato.verify import verify, verify_ledger

ONE, TWO, OTHER = (np.array([[0, 1], [2, 3]]), np.array([[4], [6]]), np.array([[8, 9], [10, 11]]))


def begun(folder, out="history"):
    shared = DatasetLedger(folder / "town.jsonl", total_epsilon=4.0, population="town")
    return Daily.begin(folder / out, table(folder), DailyMessages(**FORMS["sums"]), BUDGET, ledger=shared)


def files(folder):
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file() and "lock" not in path.name}


def backup(folder):
    return {path: path.read_bytes() for path in folder.glob("town.jsonl*") if path.suffix != ".lock"}


def put_back(files_of_ledger, monkeypatch):
    for path, content in files_of_ledger.items():
        path.write_bytes(content)
    monkeypatch.setattr(_ledger_file, "_known", {})  # another process


def acts(daily, came=OTHER):
    return (lambda: daily.add(came), daily.told, daily.fit, lambda: daily.add(came, day=1))


@pytest.mark.parametrize("given", [0, 1])
def test_a_copy_in_another_folder_begins_no_ledger(given, tmp_path):
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    daily = begun(tmp_path / "a")
    for came in (ONE,)[:given]:
        daily.add(came)
    shutil.copytree(daily.folder, tmp_path / "b/history")
    before = files(tmp_path)
    for act in acts(Daily.open(tmp_path / "b/history")):
        with pytest.raises(InputError, match="Put it back there with"):
            act()
    assert files(tmp_path) == before
    (tmp_path / "c").mkdir()
    begun(tmp_path / "c")  # a ledger of the same totals and people, which holds another claim
    for path in backup(tmp_path / "c"):
        shutil.copy(path, tmp_path / "b")
    before = files(tmp_path)
    for act in acts(Daily.open(tmp_path / "b/history")):
        with pytest.raises(LedgerError, match="holds no claim of this history"):
            act()
    assert files(tmp_path) == before


@pytest.mark.parametrize("given", [0, 1])
def test_a_ledger_that_is_lost_is_not_begun_anew(given, tmp_path):
    daily = begun(tmp_path)
    for came in (ONE,)[:given]:
        daily.add(came)
    for path in backup(tmp_path):
        path.unlink()
    before = files(tmp_path)
    for act in acts(daily):
        with pytest.raises(InputError, match="what it held is still spent"):
            act()
    assert files(tmp_path) == before


@pytest.mark.parametrize("lost", [1, 2])
def test_an_older_ledger_is_noticed_by_every_folder_that_drew_more(lost, tmp_path, monkeypatch):
    daily = begun(tmp_path)
    shutil.copytree(daily.folder, tmp_path / "copy")
    older = [backup(tmp_path)]
    for came in (ONE, TWO):
        daily.add(came)
        older.append(backup(tmp_path))
    put_back(older[2 - lost], monkeypatch)
    before = files(tmp_path)
    for act in (*acts(daily), lambda: daily.add(TWO), lambda: daily.add(ONE, day=1)):
        with pytest.raises(LedgerError, match=f"no line for day {3 - lost} of this history"):
            act()
    assert files(tmp_path) == before
    put_back(older[2], monkeypatch)
    assert daily.add(OTHER) == 3


def test_days_that_a_copy_drew_after_an_older_ledger_stop_the_other_folder(tmp_path, monkeypatch):
    daily = begun(tmp_path)
    shutil.copytree(daily.folder, tmp_path / "copy")
    older = backup(tmp_path)
    daily.add(ONE)
    daily.add(TWO)
    put_back(older, monkeypatch)
    Daily.open(tmp_path / "copy").add(OTHER)
    before = files(tmp_path)
    for act in acts(daily, TWO):
        with pytest.raises(LedgerError, match="day 1 of this history was drawn with other edges"):
            act()
    assert files(tmp_path) == before


def test_a_mark_before_the_last_one_is_missed_without_what_was_released(tmp_path, monkeypatch):
    daily = begun(tmp_path)
    daily.add(ONE)
    daily.add(TWO)
    whole = kept(daily)[1]
    (daily.folder / "released.npz").unlink()
    daily.fit()
    assert np.array_equal(kept(daily)[1], whole), "made again from the days"
    (daily.folder / "released.npz").unlink()
    monkeypatch.setattr(_ledger_file, "_known", {})
    text = (tmp_path / "town.jsonl").read_text().replace('"what":"day 1"', '"what":"day 9"')
    (tmp_path / "town.jsonl").write_text(text)
    with pytest.raises(LedgerError):
        daily.fit()


def test_released_rows_that_cannot_be_read_stop_a_day_before_it_is_written(tmp_path):
    daily = begun(tmp_path)
    daily.add(ONE)
    path = daily.folder / "released.npz"
    whole = path.read_bytes()
    for content in (whole[:200], whole[:-30], b"", b"PK", b"{}"):
        path.write_bytes(content)
        before = files(tmp_path)
        with pytest.raises(DataError, match="Remove it: it is made again"):
            daily.add(TWO)
        assert files(tmp_path) == before
    path.unlink()
    daily.add(TWO)
    assert verify_ledger(tmp_path / "town.jsonl", [tmp_path]).valid


LOST = {
    "the key": ("private/key", None, "no day can be drawn or checked without it"),
    "half of the key": ("private/key", 16, "32 bytes, in .* got 16"),
    "what is charged": ("charge.json", None, "the first day is chained to it"),
    "the nodes": ("nodes.csv", None, "Put it back"),
}


@pytest.mark.parametrize("name", LOST)
def test_a_file_that_is_lost_is_named_with_what_to_do(name, tmp_path):
    file, size, words = LOST[name]
    daily = begun(tmp_path)
    daily.add(ONE)
    path = daily.folder / file
    content = path.read_bytes()
    moved = path.with_name("moved")
    path.rename(moved)
    if size is not None:
        path.touch(0o600)
        path.write_bytes(content[:size])
    before = files(tmp_path)
    for act in acts(Daily.open(daily.folder))[:3]:
        with pytest.raises(SfumatoError, match=words):
            act()
    assert files(tmp_path) == before
    moved.replace(path)
    assert Daily.open(daily.folder).add(TWO) == 2


def test_a_history_that_cannot_begin_leaves_no_folder_and_names_the_table_that_was_given(tmp_path):
    source = table(tmp_path)
    text = (tmp_path / "schema.toml").read_text()
    (tmp_path / "schema.toml").write_text(text.replace('"group"', '"colour"'))
    with pytest.raises(InputError) as found:
        Daily.begin(tmp_path / "q/r/h", source, DailyMessages(**FORMS["sums"]), BUDGET)
    assert str(tmp_path / "q") not in str(found.value)
    assert str(tmp_path / "people.csv") in str(found.value)
    assert not (tmp_path / "q").exists()


@pytest.fixture
def courses(tmp_path, monkeypatch):
    """Two courses of one history, which a ledger that was put back or copied let through, each with a model."""

    def drawn(older, *all_days, where="copy"):
        if older:
            put_back(older, monkeypatch)
        daily = Daily.open(tmp_path / where / "history")
        for came in all_days:
            daily.add(came)
        daily.save(tmp_path / where / "model")
        return daily

    (tmp_path / "first").mkdir()
    begun(tmp_path / "first")
    return drawn


@pytest.mark.parametrize("gone", [None, "history", "model"])
@pytest.mark.parametrize("counts", [(1, 1), (2, 1), (1, 2), (3, 2)])
def test_copies_of_folder_and_ledger_are_found_whatever_their_days(counts, gone, courses, tmp_path):
    shutil.copytree(tmp_path / "first", tmp_path / "copy")
    first, copy = counts
    courses(None, *(ONE, TWO, OTHER)[:first], where="first")
    courses(None, *(OTHER, TWO)[:copy])
    ledgers = [tmp_path / "first/town.jsonl", tmp_path / "copy/town.jsonl"]
    assert all(verify_ledger(path, [path.parent]).valid for path in ledgers), "alone, each looks sound"
    if gone is not None:
        shutil.rmtree(tmp_path / "first" / gone)
        shutil.rmtree(tmp_path / "copy" / gone)
    for path in ledgers:
        found = verify_ledger(path, [tmp_path / "first", tmp_path / "copy"])
        assert any("another mark of day 1 than the ledger" in text for text in found.problems), found.problems


def test_days_that_only_one_copy_has_are_found(courses, tmp_path):
    shutil.copytree(tmp_path / "first", tmp_path / "copy")
    courses(None, ONE, where="first")
    courses(None, ONE, OTHER)
    assert verify_ledger(tmp_path / "copy/town.jsonl", [tmp_path]).valid, "the first is its beginning"
    found = verify_ledger(tmp_path / "first/town.jsonl", [tmp_path])
    assert any("no line marks day 2" in text for text in found.problems), found.problems


def test_a_ledger_that_was_put_back_is_found_by_what_was_released_before(courses, tmp_path):
    shutil.copytree(tmp_path / "first", tmp_path / "copy")
    older = backup(tmp_path / "first")
    courses(None, ONE, TWO, where="first")
    link = tmp_path / "copy/town.jsonl"
    for path in backup(tmp_path / "copy"):
        path.unlink()
    link.symlink_to(tmp_path / "first/town.jsonl")
    courses(older, OTHER, TWO, ONE)
    found = verify_ledger(tmp_path / "first/town.jsonl", [tmp_path])
    assert any("another mark of day 1" in text for text in found.problems), found.problems
    shutil.rmtree(tmp_path / "first/history")
    found = verify_ledger(tmp_path / "first/town.jsonl", [tmp_path])
    assert any("another mark of day 1" in text for text in found.problems), "its model tells"


def test_marks_that_are_left_out_are_missed(courses, tmp_path):
    daily = courses(None, ONE, TWO, where="first")
    path = daily.folder / "released.npz"
    with np.load(path) as stored:
        values = dict(stored)
    for marks in (None, values["marks"][:1], values["marks"][:0], np.zeros(3)):
        np.savez(path, **({**values, "marks": marks} if marks is not None else {"day": 2, "kept": values["kept"]}))
        found = verify_ledger(tmp_path / "first/town.jsonl", [tmp_path])
        assert any("released.npz: cannot be read" in text for text in found.problems), found.problems
    path.unlink()
    fitted = daily.fit()
    assert fitted.weights[MARKS].shape == (2, 4)
    for weights in ({}, {MARKS: fitted.weights[MARKS][:1]}):
        shutil.rmtree(tmp_path / "first/model")
        kept_weights = {name: one for name, one in fitted.weights.items() if name != MARKS}
        replace(fitted, weights={**kept_weights, **weights}).save(tmp_path / "first/model")
        assert not verify(tmp_path / "first/model").valid
