"""Histories in a folder: what is released of them, what is refused, and what a stop at any write leaves."""

import json
import os
import shutil
import signal
import time
from contextlib import nullcontext
from pathlib import Path

import numpy as np
import pytest
from edge_days import BUDGET, FORMS, NODES, Killed, days, kept, table

from sfumato import verify
from sfumato.bounded import _history as histories
from sfumato.central._daily import DailyMessages
from sfumato.errors import InputError, LedgerError
from sfumato.evaluation._daily import Daily
from sfumato.record._dataset_ledger import DatasetLedger, read_account


def begun(folder, form="increments", ledger=None, **settings):
    return Daily.begin(
        folder / "history", table(folder), DailyMessages(**{**FORMS[form], **settings}), BUDGET, ledger=ledger
    )


@pytest.mark.parametrize("form", FORMS)
def test_a_model_of_any_day_is_certified_for_the_whole_history(form, tmp_path):
    daily = begun(tmp_path, form)
    for came, went in days():
        daily.add(came, went)
    fitted = daily.save(tmp_path / "run")
    found = verify.verify(tmp_path / "run")
    assert found.valid, found.problems
    assert fitted.certificate.epsilon <= 2.0
    assert fitted.certificate.values["settings"]["day"] == 4
    assert any("a whole history of edges" in one for one in fitted.certificate.values["caveats"])
    again = daily.save(tmp_path / "later")
    assert np.array_equal(fitted.released["aggregate/1"], again.released["aggregate/1"]), "nothing is drawn for a model"


def test_what_is_released_is_what_the_days_tell(tmp_path, monkeypatch):
    monkeypatch.setattr(
        histories, "keyed_discrete_laplace", lambda key, scale, start, stop: np.zeros(stop - start, np.int64)
    )
    daily, told = begun(tmp_path, refreshes=6), np.zeros((NODES, 2))
    assert daily.nodes.train_mask.any()
    for came, went in days():
        daily.add(came, went)
    counts = daily.told().told / 32767
    history = daily.history()
    short = history.gone == history.came
    np.add.at(told, (history.rows[~short], history.classes[~short]), 1)
    assert np.array_equal(counts, told)
    assert told.any()


def test_days_that_are_left_out_are_released_without_edges(tmp_path):
    one, other = (begun(tmp_path / name) for name in map(_made(tmp_path), ("one", "other")))
    shutil.copy(one.folder / "private" / "key", other.folder / "private" / "key")
    (came, _), empty = days(1)[0], np.zeros((2, 0), np.int64)
    one.add(came)
    one.add(empty)
    one.add(empty, day=4)
    other.add(came)
    other.add(empty, day=4)
    assert kept(one)[0] == kept(other)[0] == 4
    assert np.array_equal(kept(one)[1], kept(other)[1])


def _made(folder):
    def make(name):
        (folder / name).mkdir()
        return name

    return make


REFUSED = {
    "came before": ([[0], [1]], None, "came before"),
    "came before, the other way": ([[1], [0]], None, "came before"),
    "twice in a table": ([[4, 4], [5, 5]], None, "twice"),
    "a loop": ([[4], [4]], None, "itself"),
    "another node": ([[4], [NODES]], None, "rows of the"),
    "goes without having come": (None, [[4], [5]], "is not there"),
    "goes a second time": (None, [[2], [3]], "is not there"),
    "goes twice in a table": (None, [[0, 1], [1, 0]], "is not there"),
    "comes again after it went": ([[2], [3]], None, "came before"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_edges_that_do_not_follow_are_refused_and_nothing_is_released(name, tmp_path):
    daily = begun(tmp_path)
    daily.add(np.array([[0, 2], [1, 3]]))
    daily.add(np.zeros((2, 0), int), np.array([[2], [3]]))
    before = {path: path.read_bytes() for path in daily.folder.rglob("*") if path.is_file()}
    came, went, words = REFUSED[name]
    with pytest.raises(InputError, match=words):
        daily.add(np.array([[], []] if came is None else came, int), None if went is None else np.array(went), day=3)
    assert before == {path: path.read_bytes() for path in daily.folder.rglob("*") if path.is_file()}


def test_a_day_is_given_once_and_the_same_again_changes_nothing(tmp_path):
    daily = begun(tmp_path)
    daily.add(np.array([[0], [1]]))
    before = kept(daily)[1]
    assert daily.add(np.array([[1], [0]]), day=1) == 1
    assert np.array_equal(kept(daily)[1], before)
    with pytest.raises(InputError, match="day"):
        daily.add(np.array([[0], [2]]), day=1)
    assert daily.add(np.array([[0], [1]])) == 1, "after a stop the command is repeated, and it need not name the day"
    assert daily.add() == 2, "a day without edges is a new one"


@pytest.mark.parametrize("day", [8, 20_261_127, 10**12])
def test_a_day_far_away_is_a_mistake_and_no_day_is_lost(day, tmp_path):
    daily = begun(tmp_path)
    daily.add(np.array([[0], [1]]))
    with pytest.raises(InputError, match="at most 7"):
        daily.add(np.array([[0], [2]]), day=day)
    assert daily.day == 1


def test_the_horizon_of_sums_is_the_end_and_increments_have_none(tmp_path):
    (tmp_path / "sums").mkdir()
    sums, increments = begun(tmp_path / "sums", "sums"), begun(tmp_path)
    nothing = np.zeros((2, 0), int)
    sums.add(nothing, day=6)
    with pytest.raises(InputError, match="increments have no horizon"):
        sums.add(nothing)
    assert [increments.add(nothing, day=day) for day in range(6, 42, 6)][-1] == 36
    run = increments.save(tmp_path / "run")
    assert run.certificate.epsilon <= 2.0
    assert verify.verify(tmp_path / "run").valid


def test_a_day_that_was_changed_or_lost_stops_everything(tmp_path):
    daily = begun(tmp_path)
    for came, went in days():
        daily.add(came, went)
    path = daily.folder / "private" / "days" / "000002.json"
    whole, nothing = path.read_text(), np.zeros((2, 0), int)
    path.write_text(whole.replace("came", "came "))
    with pytest.raises(LedgerError, match="changed"):
        daily.add(nothing)
    path.write_text(json.dumps({**json.loads(whole), "came": []}))
    with pytest.raises(LedgerError, match=r"Day 2 .* changed"):
        daily.add(nothing)
    path.unlink()
    with pytest.raises(LedgerError, match="Day 2"):
        daily.add(nothing)
    path.write_text(whole)
    last = path.with_name("000004.json")
    kept_last = last.read_text()
    last.write_text(json.dumps({**json.loads(kept_last), "came": [[0, 23]]}))
    for after in (lambda: daily.add(nothing), daily.told, (daily.folder / "released.npz").unlink, daily.told):
        with pytest.raises(LedgerError, match="Day 4") if after.__name__ != "unlink" else nullcontext():
            after()
    last.write_text(kept_last)
    path.with_name("notes.json").write_text("{}")
    assert daily.add(nothing) == 5


EDITED = {
    "less noise": lambda values: values["budget"].update(epsilon=200.0),
    "a smaller claim": lambda values: values["budget"].update(epsilon=0.1),
    "more refreshes": lambda values: values["method"].update(refreshes=6),
    "more days": lambda values: values["method"].update(days=600),
    "other phases": lambda values: values["method"].update(start=9),
    "deletions": lambda values: values["method"].update(deletions=True),
    "the other form": lambda values: values["method"].update(noise="sums"),
}


@pytest.mark.parametrize("name", EDITED)
def test_a_plan_that_was_changed_between_days_releases_and_claims_nothing(name, tmp_path):
    daily = begun(tmp_path)
    came, went = days()[0]
    daily.add(came, went)
    values = json.loads((daily.folder / "plan.json").read_text())
    EDITED[name](values)
    (daily.folder / "plan.json").write_text(json.dumps(values))
    other, before = Daily.open(daily.folder), kept(daily)[1]
    for act in (other.add, other.told, other.fit, lambda: other.save(tmp_path / "run")):
        with pytest.raises(LedgerError, match=r"plan\.json or a table"):
            act()
    assert np.array_equal(kept(daily)[1], before)
    assert not (tmp_path / "run").exists()


def test_labels_that_were_changed_between_days_release_nothing(tmp_path):
    daily = begun(tmp_path)
    daily.add(np.array([[0], [1]]))
    path = daily.folder / "nodes.csv"
    path.write_text(path.read_text().replace("n0,a", "n0,b"))
    (daily.folder / "released.npz").unlink()
    with pytest.raises(LedgerError, match="table"):
        Daily.open(daily.folder).told()
    assert not (daily.folder / "released.npz").exists()


def test_a_folder_is_begun_once_and_its_key_is_for_its_owner(tmp_path):
    daily = begun(tmp_path)
    assert (daily.folder / "private" / "key").stat().st_mode & 0o077 == 0
    with pytest.raises(InputError, match="empty folder"):
        begun(tmp_path)
    with pytest.raises(InputError, match="to hold a history"):
        Daily.open(tmp_path / "nowhere")
    with pytest.raises(InputError, match="Expected a day"):
        daily.fit()


def stopped(daily, given, monkeypatch, stop, after):
    """Give days until the write of this number, before or after it is on disk; return whether that was reached."""
    replace, count = Path.replace, iter(range(10**6))

    def counted(self, target):
        if next(count) == stop:
            if after:
                replace(self, target)
            raise Killed
        return replace(self, target)

    with monkeypatch.context() as patch:
        patch.setattr(Path, "replace", counted)
        try:
            for number, (came, went) in enumerate(given, 1):
                daily.add(came, went, number)
        except Killed:
            return True
    return False


@pytest.mark.parametrize("after", [False, True], ids=["before it is written", "after it is written"])
@pytest.mark.parametrize("form", FORMS)
def test_a_stop_at_any_write_loses_no_day_and_repeats_no_noise(form, after, tmp_path, monkeypatch):
    drawn, derive = {}, histories.derive_key

    def noted(key, purpose, day, form, mac):
        found = derive(key, purpose, day, form, mac)
        assert drawn.setdefault((key, found), (day, mac)) == (day, mac)
        return found

    monkeypatch.setattr(histories, "derive_key", noted)
    daily, given = begun(tmp_path, form), days(3)
    copy = tmp_path / "before"
    shutil.copytree(daily.folder, copy)
    assert not stopped(daily, given, monkeypatch, 10**6, after)
    whole, keys, stop = kept(daily)[1], dict(drawn), 0
    while True:
        shutil.rmtree(daily.folder)
        shutil.copytree(copy, daily.folder)
        reached = stopped(daily, given, monkeypatch, stop, after)
        if reached:
            assert not stopped(daily, given, monkeypatch, 10**6, after)
        assert np.array_equal(kept(daily)[1], whole)
        assert drawn == keys, "the same noise for the same rows, and no other"
        if not reached:
            break
        stop += 1
    assert stop == 2 * len(given)


def test_noise_of_other_edges_on_a_day_is_independent(tmp_path):
    """An old copy of a folder that is put back costs again, but no noise is on two different rows."""
    daily, copy = begun(tmp_path, refreshes=6), tmp_path / "before"
    shutil.copytree(daily.folder, copy)
    daily.add(np.array([[0, 1, 4], [2, 3, 5]]))
    one = kept(daily)[1]
    shutil.rmtree(daily.folder)
    shutil.copytree(copy, daily.folder)
    daily.add(np.array([[0, 1], [2, 3]]))
    assert (kept(daily)[1] != one).sum() > 4


KILLS = int(os.environ.get("SFUMATO_DAILY_KILLS", "12"))


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.parametrize("charged", [False, True], ids=["alone", "in a ledger"])
def test_kills_at_random_moments_lose_nothing(charged, tmp_path):
    """`SFUMATO_DAILY_KILLS=200` makes that many kills."""
    ledger = DatasetLedger(tmp_path / "town.jsonl", 4.0, population="town") if charged else None
    daily = begun(tmp_path, days=5000, refreshes=4000, noise="increments", ledger=ledger)
    moments, undisturbed = np.random.default_rng(0), tmp_path / "undisturbed" / "history"
    shutil.copytree(daily.folder, undisturbed)
    for path in tmp_path.glob("town.jsonl*"):
        shutil.copy(path, undisturbed.parent)
    alone, nothing, killed, day = Daily.open(undisturbed), np.zeros((2, 0), int), 0, 0
    pairs = iter([(i, j) for j in range(NODES) for i in range(j)] * 10)
    came = nothing
    while killed < KILLS:
        day += 1
        came = np.array([[one] for one in next(pairs)]) if day < NODES * (NODES - 1) // 2 else nothing
        began = time.perf_counter()
        alone.add(came, day=day)
        takes = time.perf_counter() - began
        child = os.fork()
        if not child:
            try:
                daily.add(came, day=day)
            finally:
                os._exit(0)
        time.sleep(moments.random() * takes)
        os.kill(child, signal.SIGKILL)
        killed += os.WIFSIGNALED(os.waitpid(child, 0)[1])
        daily.add(came, day=day)
    assert kept(daily)[0] == day
    assert np.array_equal(kept(daily)[1], kept(alone)[1])
    if charged:
        account = read_account(tmp_path / "town.jsonl")
        assert [account.drawn_through(claim) for claim in account.claims] == [day]
        assert verify.verify_ledger(tmp_path / "town.jsonl").valid
