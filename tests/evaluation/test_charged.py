"""Histories that a ledger is charged for: once, whatever stops them, and never for two courses of one day."""

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
from edge_days import BUDGET, FORMS, NODES, Killed, days, kept, table
from rewritten import rewrite

import sfumato as sf
from sfumato.bounded import _history as releases
from sfumato.central._daily import DailyMessages, deviations
from sfumato.errors import BudgetExceededError, InputError, LedgerError
from sfumato.evaluation import _daily
from sfumato.evaluation._charged import Charged
from sfumato.evaluation._daily import Daily
from sfumato.privacy._pure_gdp import pure_epsilon
from sfumato.privacy.calibration import gaussian_noise_multiplier
from sfumato.record import _ledger_file
from sfumato.record._claims import Claim
from sfumato.record._dataset_ledger import DatasetLedger, read_account
from sfumato.record.ledger import canonical_json
from sfumato.verify import verify, verify_ledger

EDGE = {"name": "edge", "relation": "add-remove", "directed": False}
NOTHING = np.zeros((2, 0), int)


def ledger(folder, **more):
    return DatasetLedger(folder / "town.jsonl", **{"total_epsilon": 4.0, "population": "town", **more})


def begun(folder, form="increments", shared=None, **settings):
    method = DailyMessages(**{**FORMS[form], **settings})
    return Daily.begin(folder / "history", table(folder), method, BUDGET, ledger=shared or ledger(folder))


def lines(folder, kind):
    found = map(json.loads, (folder / "town.jsonl").read_text().splitlines())
    return [entry for entry in found if entry["kind"] == kind]


def files(folder):
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file() and path.suffix != ".lock"}


@pytest.mark.parametrize(("form", "composition"), [("increments", "basic"), ("sums", "gdp")])
def test_a_history_and_its_models_cost_its_claim_once(form, composition, tmp_path):
    daily = begun(tmp_path, form, ledger(tmp_path, composition=composition, total_epsilon=20.0))
    assert read_account(tmp_path / "town.jsonl").state(read_account(tmp_path / "town.jsonl").claims[0]) == "reserved"
    spent = read_account(tmp_path / "town.jsonl").spent()
    for came, went in days(3):
        daily.add(came, went)
    run = daily.save(tmp_path / "runs/3")
    account = read_account(tmp_path / "town.jsonl")
    assert account.spent() == spent
    assert (len(account.claims), account.drawn_through(account.claims[0])) == (1, 3)
    assert [entry["what"] for entry in lines(tmp_path, "spent")] == ["day 1", "day 2", "day 3"]
    values = run.certificate.values
    assert values["population"]["name"] == "town"
    assert values["composition"]["covers"].startswith("All releases of one history of edges")
    assert verify(tmp_path / "runs/3").valid
    found = verify_ledger(tmp_path / "town.jsonl", [tmp_path])
    assert found.valid, found.problems
    assert [line.state for line in found.lines] == ["verified"]
    assert verify_ledger(tmp_path / "town.jsonl").valid, "the folder of the history says enough"
    again = Daily.open(daily.folder).fit()
    assert verify_ledger(tmp_path / "town.jsonl").valid
    assert again.certificate.values["history"] == account.claims[0].run


@pytest.mark.parametrize("deletions", [False, True])
@pytest.mark.parametrize("refreshes", [1, 2, 12, 365])
def test_where_squares_of_mu_add_up_sums_leave_less_noise(refreshes, deletions):
    method = DailyMessages(days=365, refreshes=refreshes, deletions=deletions)
    for epsilon in (0.5, 2.0, 8.0):
        mu = 1 / gaussian_noise_multiplier(epsilon, 1e-6)
        sums = deviations(method, sf.Budget(epsilon, 1e-6))["sums"]
        assert sums < deviations(method, sf.Budget(pure_epsilon(mu), 1e-6))["increments"]


def test_a_ledger_of_squares_takes_sums_unless_the_noise_is_chosen(tmp_path):
    for name, given, form in (
        ("gdp", "auto", "sums"),
        ("basic", "auto", "increments"),
        ("gdp", "increments", "increments"),
    ):
        folder = tmp_path / f"{name}-{given}"
        folder.mkdir()
        daily = begun(folder, shared=ledger(folder, composition=name, total_epsilon=20.0), noise=given)
        assert daily.method.noise == form


def reserved(folder, unit=EDGE, window=None, **more):
    """A ledger with one claim of another run."""
    shared, dataset = ledger(folder, **more), {"name": "town", "ids_digest": "0" * 64}
    dataset |= {} if window is None else {"window": window}
    claim = Claim("0" * 32, "gap", 3.0, 1e-6, 0.5, 1, "0" * 64)
    shared.reserve(claim, unit=unit, dataset=dataset, stated=shared.stated(1e-6, unit, window))


REFUSED = {
    "another unit": ({"unit": {**EDGE, "directed": True}}, {}, InputError, "takes labels and features for public"),
    "a list of ids": ({"population": None}, {"population": None}, InputError, "sfumato ledger declare"),
    "windows of time": ({"window": "date=2026-03"}, {}, InputError, "no window covers"),
    "no population": (None, {"population": None}, InputError, "Expected --population NAME"),
    "too little left": ({}, {}, BudgetExceededError, "short by"),
    "too little in all": (None, {"total_epsilon": 1.0}, BudgetExceededError, "short by"),
    "another population": ({}, {"population": "village"}, InputError, "Expected --population to be that"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_a_ledger_that_does_not_fit_is_refused_and_nothing_is_left(name, tmp_path):
    before, given, error, words = REFUSED[name]
    if before is not None:
        reserved(tmp_path, **before)
    table(tmp_path)
    there = files(tmp_path)
    with pytest.raises(error, match=words):
        begun(tmp_path, shared=ledger(tmp_path, **given))
    assert files(tmp_path) == there
    assert not (tmp_path / "history").exists()


def killing(monkeypatch, stop):
    """Kill the process before the write of this number, of a file or of a line, which is after the one before."""
    replace, append, count = Path.replace, _ledger_file.append_line, iter(range(10**6))

    def counted(write):
        def writes(*given, **more):
            if next(count) == stop:
                raise Killed
            return write(*given, **more)

        return writes

    monkeypatch.setattr(Path, "replace", counted(replace))
    monkeypatch.setattr(_ledger_file, "append_line", counted(append))
    monkeypatch.setattr(_daily, "emptied", lambda *_: None)  # a process that is killed clears nothing up


def test_a_stop_while_a_history_begins_charges_it_once_or_not_at_all(tmp_path, monkeypatch):
    found = set()
    for stop in range(100):
        folder = tmp_path / str(stop)
        folder.mkdir()
        with monkeypatch.context() as patch:
            killing(patch, stop)
            try:
                begun(folder)
            except Killed:
                reached = True
            else:
                reached = False
        whole = (folder / "history" / "plan.json").exists()
        charged = len(lines(folder, "run")) if (folder / "town.jsonl").exists() else 0
        found.add((whole, charged))
        if whole and not charged:
            with pytest.raises((InputError, LedgerError), match="remove the folder, and run init again"):
                Daily.open(folder / "history").add(np.array([[0], [1]]))
        if not charged:
            shutil.rmtree(folder / "history")
            begun(folder)
        daily = Daily.open(folder / "history")
        daily.add(np.array([[0], [1]]))
        assert len(lines(folder, "run")) == 1
        assert verify_ledger(folder / "town.jsonl").valid
        if not reached:
            break
    assert not reached
    assert found == {(False, 0), (True, 0), (True, 1)}, "nothing is charged without a history"


def given(daily, all_days):
    for number, (came, went) in enumerate(all_days, 1):
        daily.add(came, went, number)


@pytest.mark.parametrize("form", FORMS)
def test_a_stop_at_any_write_of_a_day_repeats_no_noise(form, tmp_path, monkeypatch):
    drawn, derive, now = {}, releases.derive_key, [tmp_path]

    def noted(key, purpose, day, form, mac):
        found = derive(key, purpose, day, form, mac)
        marks = {entry["what"] for entry in lines(now[-1], "spent")}
        assert f"day {day}" in marks, "a day is marked before it is drawn"
        assert drawn.setdefault((key, found), (day, mac)) == (day, mac)
        return found

    monkeypatch.setattr(releases, "derive_key", noted)
    (tmp_path / "first").mkdir()
    begun(tmp_path / "first", form)
    whole = None
    for stop in range(100):
        now.append(tmp_path / str(stop))
        shutil.copytree(tmp_path / "first", now[-1])
        daily, reached = Daily.open(now[-1] / "history"), False
        with monkeypatch.context() as patch:
            killing(patch, stop)
            try:
                given(daily, days(2))
            except Killed:
                reached = True
        given(Daily.open(daily.folder), days(2))
        whole = kept(daily)[1] if whole is None else whole
        assert np.array_equal(kept(daily)[1], whole)
        assert [entry["what"] for entry in lines(now[-1], "spent")] == ["day 1", "day 2"]
        assert verify_ledger(now[-1] / "town.jsonl").valid
        if not reached:
            break
    assert len(drawn) == 2
    assert stop == 8, "of each day the file, the mark, the head of the ledger, and what was released"


@pytest.fixture
def copied(tmp_path):
    """A history of two days, and a copy of its folder as it was after the first."""
    daily = begun(tmp_path, refreshes=6)
    daily.add(np.array([[0, 1], [2, 3]]))
    shutil.copytree(daily.folder, tmp_path / "copy")
    daily.add(np.array([[4, 5], [6, 7]]))
    return daily, Daily.open(tmp_path / "copy")


def test_a_copy_cannot_go_on_with_other_edges(copied, tmp_path):
    _, copy = copied
    before = files(tmp_path)
    for came, day in ((np.array([[4], [6]]), 2), (np.array([[4], [6]]), 4), (NOTHING, 3)):
        with pytest.raises(LedgerError, match="day 2 of this history was drawn with other edges"):
            copy.add(came, day=day)
    assert files(tmp_path) == before


def test_a_copy_goes_on_with_the_same_edges(copied, tmp_path):
    daily, copy = copied
    copy.add(np.array([[4, 5], [6, 7]]))
    assert np.array_equal(kept(copy)[1], kept(daily)[1])
    assert verify_ledger(tmp_path / "town.jsonl", [tmp_path]).valid
    copy.add(NOTHING)
    with pytest.raises(LedgerError, match="day 3 of this history"):
        daily.add(np.array([[8], [9]]))


def test_two_copies_at_the_same_moment_draw_once(copied, monkeypatch):
    _, copy = copied
    monkeypatch.setattr(Charged, "check", lambda *_: None)
    before = kept(copy)
    with pytest.raises(LedgerError, match="its day 2 was drawn already"):
        copy.add(np.array([[4], [6]]))
    assert kept(copy)[0] == before[0] == 1


def test_a_ledger_that_is_gone_or_lost_the_history_stops_it(tmp_path, monkeypatch):
    reserved(tmp_path, total_epsilon=6.0)
    before = {path: path.read_bytes() for path in tmp_path.glob("town*")}
    daily = begun(tmp_path, shared=DatasetLedger(tmp_path / "town.jsonl"))
    daily.add(np.array([[0], [1]]))
    there = files(daily.folder)
    for path, content in before.items():
        path.write_bytes(content)
    for act in (daily.told, daily.fit, lambda: daily.add(np.array([[2], [3]]))):
        with pytest.raises(LedgerError, match="another one when this process read it before"):
            act()
    monkeypatch.setattr(_ledger_file, "_known", {})  # another process
    for act in (daily.told, daily.fit, lambda: daily.add(np.array([[2], [3]]))):
        with pytest.raises(LedgerError, match="holds no claim of this history"):
            act()
    for path in before:
        path.unlink()
    with pytest.raises(InputError, match="Put it back there"):
        daily.add(np.array([[2], [3]]))
    assert files(daily.folder) == there


def test_a_plan_that_was_changed_before_the_first_day_is_not_charged(tmp_path):
    daily = begun(tmp_path)
    values = json.loads((daily.folder / "plan.json").read_text())
    values["budget"]["epsilon"] = 0.1
    (daily.folder / "plan.json").write_text(json.dumps(values))
    with pytest.raises(LedgerError, match="not the one with which this history was begun"):
        Daily.open(daily.folder).add(np.array([[0], [1]]))
    assert len(lines(tmp_path, "run")) == 1


def test_other_runs_share_the_ledger(tmp_path):
    daily = begun(tmp_path, shared=ledger(tmp_path, total_epsilon=2.5))
    graph = daily.nodes
    (tmp_path / "more").mkdir()
    with pytest.raises(BudgetExceededError):
        begun(tmp_path / "more", shared=DatasetLedger(tmp_path / "town.jsonl"))
    assert graph.num_nodes == NODES
    method = sf.LabelMessages(epochs=2)
    plan = method.calibrate(sf.Budget(0.4, 1e-7), daily.unit, graph.public_facts(daily.unit, assume_public=True))
    plan.fit(graph, dataset_ledger=DatasetLedger(tmp_path / "town.jsonl"))
    assert len(read_account(tmp_path / "town.jsonl").claims) == 2


@pytest.fixture(scope="module")
def year(tmp_path_factory):
    """A history of two days with two models, and their ledger. Tests must not write into it."""
    folder = tmp_path_factory.mktemp("year")
    daily = begun(folder)
    for number, (came, went) in enumerate(days(2), 1):
        daily.add(came, went)
        daily.save(folder / f"runs/{number}")
    return folder


def forged(folder, change):
    """Change the lines of the ledger."""
    rewrite(folder / "town.jsonl", change)


def line(bodies, **changes):
    """The claim of the history, changed."""
    bodies[1]["claim"] |= changes
    return bodies


def second_line(bodies, **changes):
    again = json.loads(json.dumps(bodies[1]))
    again["claim"] |= changes
    return [*bodies, again]


FORGERIES = {
    "no line": (lambda bodies: bodies[:1], "this history has no line in this ledger, whose population it names"),
    "no line for its models": (lambda bodies: bodies[:1], "this release is not charged in this ledger"),
    "a smaller claim": (lambda bodies: line(bodies, epsilon=0.5), "claim.epsilon: 0.5 differs from"),
    "a smaller mu": (lambda bodies: line(bodies, mu=0.1), "mu: 0.1 differs from"),
    "another plan": (lambda bodies: line(bodies, plan="0" * 64), "claim.plan: "),
    "two lines": (second_line, "is charged twice"),
    "a second line under another name": (
        lambda bodies: [*second_line(bodies, run="0" * 32), {**bodies[2], "run": "0" * 32}],
        "the release of this run was not found",
    ),
    "a second mark": (lambda bodies: [*bodies, {**bodies[2], "mark": "0" * 64}], "noise was drawn twice"),
    "a day without a mark": (lambda bodies: [*bodies[:2], bodies[3]], "no line marks day 1"),
    "the last day without a mark": (lambda bodies: bodies[:3], "no line marks day 2"),
}


@pytest.mark.parametrize("name", FORGERIES)
def test_lines_that_do_not_fit_a_history_are_found(name, year, tmp_path):
    change, problem = FORGERIES[name]
    shutil.copytree(year, tmp_path / "year")
    forged(tmp_path / "year", change)
    found = verify_ledger(tmp_path / "year" / "town.jsonl", [tmp_path / "year"])
    assert found.valid == (problem is None)
    assert problem is None or any(problem in text for text in found.problems), found.problems


def charge(folder, change):
    path = folder / "history" / "charge.json"
    values = json.loads(path.read_text())
    change(values)
    path.write_text(canonical_json(values) + "\n")


def less(values):
    for one in (values["plan"]["claim"], values["budget"]):
        one["epsilon"] = 0.5


CHARGES = {
    "a claim below its noise": (less, "is too small"),
    "another claim of other noise": (
        lambda values: (less(values), values["plan"]["releases"][0]["event"].update(epsilon=0.49)),
        "claim.plan: ",
    ),
    "deletions that were not counted": (lambda values: values["settings"].update(deletions=True), "settings.deletions"),
    "a setting of no method": (lambda values: values["settings"].update(width=3), "settings"),
    "another method": (lambda values: values["plan"].update(method="label-messages"), "charge.json"),
    "no name": (lambda values: values["plan"].pop("history"), "plan.history: is missing"),
    "no population": (lambda values: values["plan"].pop("population"), "history: expected none but"),
    "another field": (lambda values: values.update(more=1), "more"),
    "fewer coordinates": (
        lambda values: values["plan"]["releases"][0].update(affected_coordinates=7),
        "affected_coordinates",
    ),
}


@pytest.mark.parametrize("name", CHARGES)
def test_a_history_that_says_something_else_is_found(name, year, tmp_path):
    change, problem = CHARGES[name]
    shutil.copytree(year, tmp_path / "year")
    charge(tmp_path / "year", change)
    found = verify_ledger(tmp_path / "year" / "town.jsonl", [tmp_path / "year"])
    assert not found.valid
    assert any(problem in text for text in found.problems), found.problems


def test_two_releases_of_one_day_are_found(year, tmp_path):
    shutil.copytree(year, tmp_path / "year")
    shutil.copytree(tmp_path / "year" / "history", tmp_path / "year" / "copy")
    assert verify_ledger(tmp_path / "year" / "town.jsonl", [tmp_path / "year"]).valid
    path = tmp_path / "year" / "copy" / "released.npz"
    with np.load(path) as stored:
        values = dict(stored)
    np.savez(path, **{**values, "kept": values["kept"] + 1})
    found = verify_ledger(tmp_path / "year" / "town.jsonl", [tmp_path / "year"])
    assert any("another release of day 2" in text for text in found.problems)
    path.write_bytes(b"PK")
    found = verify_ledger(tmp_path / "year" / "town.jsonl", [tmp_path / "year"])
    assert any("released.npz: cannot be read" in text for text in found.problems)


def test_models_of_two_courses_of_one_day_are_found(year, tmp_path, monkeypatch):
    """What software that ignores the marks would leave."""
    shutil.copytree(year, tmp_path / "year")
    monkeypatch.setattr(Charged, "check", lambda *_: None)
    monkeypatch.setattr(Charged, "spend", lambda *_: None)
    copy = Daily.open(tmp_path / "year" / "history")
    for path in (copy.folder / "released.npz", *(copy.folder / "private" / "days").glob("*.json")):
        path.unlink()
    copy.add(np.array([[0], [1]]))
    copy.add(np.array([[2], [3]]))
    copy.save(tmp_path / "year" / "runs" / "forged")
    shutil.rmtree(copy.folder)
    found = verify_ledger(tmp_path / "year" / "town.jsonl", [tmp_path / "year"])
    assert any("another release of day 2 than" in text for text in found.problems), found.problems


def test_a_folder_that_is_gone_is_missing_unless_a_model_is_there(year, tmp_path):
    shutil.copytree(year, tmp_path / "year")
    shutil.rmtree(tmp_path / "year" / "history")
    path = tmp_path / "year" / "town.jsonl"
    assert [one.state for one in verify_ledger(path).lines] == ["missing"]
    assert verify_ledger(path, [tmp_path / "year"]).valid
