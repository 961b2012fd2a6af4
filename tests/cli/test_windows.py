"""Transactions of each month, charged apart: trained, shown and verified from the command line, and what is refused."""

import csv
import json
import random
import shutil

import pytest
from rewritten import rewrite

from sfumato.cli import invoke
from sfumato.record._stopped import charges
from sfumato.verify import verify, verify_ledger

EACH = ("--unit", "edge", "--epsilon", "1", "--delta", "1e-6")
FIRST = ("--population", "payers", "--total-epsilon", "2", "--total-delta", "2e-6")
RUNS = ("2026-01", "2026-02", "2026-02")


def write(folder, times=lambda month, day: f"2026-{month:02}-{day:02}"):
    """The tables of 100 people and their payments in January and February; the options that name them."""
    folder.mkdir(exist_ok=True)
    chance = random.Random(0)
    with (folder / "nodes.csv").open("w", newline="") as file:
        csv.writer(file).writerows([["id", "age", "kind"], *([f"p{v}", v % 50, f"k{v % 2}"] for v in range(100))])
    pairs = [(chance.randrange(100), chance.randrange(100), chance.randint(1, 28)) for _ in range(1200)]
    kept = [(u, v, day) for u, v, day in pairs if u != v and (u % 2 == v % 2 or chance.random() < 0.3)]
    with (folder / "edges.csv").open("w", newline="") as file:
        rows = [[f"p{u}", f"p{v}", times(1 + at % 2, day)] for at, (u, v, day) in enumerate(kept)]
        csv.writer(file).writerows([["payer", "payee", "paid"], *rows])
    return ["--nodes", str(folder / "nodes.csv"), "--edges", str(folder / "edges.csv"), "--label", "kind"]


@pytest.fixture(scope="module")
def year(tmp_path_factory):
    """A run on January and two on February, which spend all of it. Tests must not write into it."""
    folder = tmp_path_factory.mktemp("year")
    tables = write(folder / "tables")
    for at, month in enumerate(RUNS):
        charged = ("--window", f"paid={month}", "--ledger", folder / "l.jsonl", *(() if at else FIRST))
        assert invoke(list(map(str, ["train", "auto", *tables, *EACH, *charged, "--out", folder / f"run-{at}"]))) == 0
    return folder


@pytest.fixture
def copy(year, tmp_path):
    shutil.copytree(year, tmp_path / "year")
    return tmp_path / "year"


def tables_of(folder):
    return ["--nodes", folder / "tables/nodes.csv", "--edges", folder / "tables/edges.csv", "--label", "kind"]


def test_each_month_is_shown_and_verified_with_sums_of_its_own(year, sfumato):
    told = sfumato("verify", year / "l.jsonl")
    assert told.code == 0, told.out
    for line in (
        "each month by column paid has the totals for itself",
        "epsilon in 2026-01: 1 of 2 by rule basic",
        "epsilon in 2026-02: 2 of 2 by rule basic",
        "delta in 2026-02: 0.000002 of 0.000002 by rule basic",
    ):
        assert line in told.out.splitlines()
    found = json.loads(sfumato("ledger", "show", year / "l.jsonl", "--json").out)
    assert [run["window"] for run in found["runs"]] == list(RUNS)
    assert found["windows"]["2026-01"]["spent"]["epsilon"] == pytest.approx(1)
    assert found["windows"]["2026-02"]["left"] == pytest.approx({"epsilon": 0, "delta": 0})
    shown = " ".join(sfumato("ledger", "show", year / "l.jsonl").out.split())
    assert "Each month by column paid has that for itself: a record is one edge in one month." in shown
    assert "2026-01, delta: spent 1e-6 of 2e-06, left 1e-6." in shown
    planned = sfumato("ledger", "plan", year / "l.jsonl", "--runs", "4").out
    assert planned.startswith("Each of 4 more runs of a month without a run may spend at most epsilon 0.5")
    planned = sfumato("ledger", "plan", year / "l.jsonl", "--runs", "4", "--window", "paid=2026-01").out
    assert planned.startswith("Each of 4 more runs of paid=2026-01 may spend at most epsilon 0.25")
    assert "epsilon 0.5" in sfumato("ledger", "plan", year / "l.jsonl", "--runs", "4", "--window", "paid=2026-03").out
    other = sfumato("ledger", "plan", year / "l.jsonl", "--runs", "4", "--window", "paid=2026-Q1")
    assert (other.code, "a month by column 'paid', got 'paid=2026-Q1'" in other.err) == (2, True)
    assert sfumato("ledger", "check", year / "l.jsonl").code == 0


def test_the_certificate_states_the_window(year, tmp_path, sfumato):
    values = json.loads((year / "run-0/release/certificate.json").read_text())
    assert (
        values["protects"] == "the presence of any one undirected edge, in any one month (here 2026-01, by column paid)"
    )
    assert values["population"] == {
        "name": "payers", "total_epsilon": 2.0, "total_delta": 2e-6, "window": "2026-01",
        "windows": {"column": "paid", "period": "month"},
    }  # fmt: skip
    words = (year / "run-0/guarantee.txt").read_text()
    assert "whichever month they read, one edge in one month costs at most epsilon = 2, delta = 2e-06." in words
    assert "An edge that is there in k windows is k records" in words
    assert "for one edge in one month (here 2026-01, by column paid)" in sfumato("verify", year / "run-0").out
    assert sfumato("report", year / "run-0", "--audience", "public", "--out", tmp_path / "page.html").code == 0
    assert "the limit is epsilon 2 for one link in one month" in " ".join((tmp_path / "page.html").read_text().split())


def test_a_run_reads_the_edges_of_its_month_and_predicts_from_them_again(year, sfumato, tmp_path):
    sources = [json.loads((year / f"run-{at}/evaluation/source.json").read_text()) for at in range(3)]
    assert [one["window"] for one in sources] == [f"paid={month}" for month in RUNS]
    assert sources[0]["ends"] == ["payer", "payee"]
    assert sfumato("predict", year / "run-0", "--out", tmp_path / "p.csv").code == 0
    assert sfumato("evaluate", year / "run-0").code == 0


def test_a_month_that_is_spent_is_refused_and_another_one_is_not(copy, sfumato):
    charged = ("--ledger", copy / "l.jsonl", "--out", copy / "more")
    told = sfumato("train", "auto", *tables_of(copy), *EACH, "--window", "paid=2026-02", *charged)
    assert (told.code, "window 2026-02, with epsilon 2, delta 2e-6 spent" in told.err) == (1, True)
    told = sfumato("check", "auto", *tables_of(copy), *EACH, "--window", "paid=2026-02", *charged)
    assert (told.code, "window 2026-02, with epsilon 2" in told.out + told.err) == (2, True)
    assert not (copy / "more").exists()
    assert sfumato("train", "auto", *tables_of(copy), *EACH, "--window", "paid=2026-01", *charged).code == 0
    assert verify_ledger(copy / "l.jsonl").valid


def test_what_is_left_after_a_stop_is_that_of_the_window(year):
    told = charges(year / "run-0/release/ledger.jsonl", year / "l.jsonl")
    assert told is not None
    assert told.endswith("l.jsonl, in whose window 2026-01 epsilon 1, delta 1e-6 are left."), told


def test_a_window_that_is_none_is_told_once(copy, sfumato):
    told = sfumato("check", "auto", *tables_of(copy), *EACH, "--window", "paid=2026-0", "--ledger", copy / "l.jsonl")
    assert (told.code, told.out.count("to be a window that there is")) == (2, 1), told.out


def test_what_reads_the_edges_of_all_times_is_told_where_to_go(copy, sfumato):
    nodes, run = (copy / "tables/nodes.csv").read_text().splitlines(), copy / "run-0"
    (copy / "other.csv").write_text("\n".join(nodes[:-1]) + "\n")
    edges = (copy / "tables/edges.csv").read_text().splitlines()
    last = nodes[-1].split(",")[0]
    (copy / "fewer.csv").write_text("\n".join(one for one in edges if last not in one.split(",")) + "\n")
    paid = ("--epsilon", "0.1", "--delta", "1e-7", "--new-run", copy / "new", "--ledger", copy / "l.jsonl")
    other = ("--nodes", copy / "other.csv", "--edges", copy / "fewer.csv")
    told = sfumato("predict", run, *other, "--label", "kind", *paid)
    assert (told.code, "charge that to a ledger without windows" in told.err) == (2, True), told.err
    assert not (copy / "new").exists()
    told = sfumato("predict", run, *other)
    assert (told.code, "got 'kind' beside them" in told.err, "--label COLUMN" in told.err) == (2, True, True), told.err
    (copy / "late.csv").write_text("\n".join([nodes[0], nodes[-1].replace(last, "late")]) + "\n")
    told = sfumato("predict", run, "--new-nodes", copy / "late.csv")
    assert (told.code, "edges of arrivals have no time" in told.err) == (2, True), told.err


REFUSED = {
    "no window": ((), "charges each one apart, got none. Name it, such as --window paid=2026-03"),
    "another column": (("--window", "age=2026-01"), "to have the column 'age'"),
    "another period": (("--window", "paid=2026-W01"), "a month by column 'paid', got 'paid=2026-W01'"),
    "no such month": (("--window", "paid=2026-13"), "to be a window that there is"),
    "no column": (("--window", "2026-01"), "to be COLUMN=WINDOW"),
    "a node": (("--window", "paid=2026-01", "--unit", "node", "--max-degree", "9"), "features, labels and people last"),
    "a schedule": (("--window", "paid=2026-01", "--population", "x"), "to be that of the ledger"),
}


@pytest.mark.parametrize(("words", "said"), REFUSED.values(), ids=REFUSED)
def test_what_does_not_fit_the_ledger_is_refused_and_nothing_written(copy, sfumato, words, said):
    before = (copy / "l.jsonl").read_bytes()
    told = sfumato(
        "train", "auto", *tables_of(copy), *EACH, *words, "--ledger", copy / "l.jsonl", "--out", copy / "more"
    )
    assert (told.code, said in told.err) == (2, True), told.err
    assert (copy / "l.jsonl").read_bytes() == before
    assert not (copy / "more").exists()


def test_a_window_needs_a_ledger_of_a_population_and_tables(tmp_path, sfumato):
    tables = write(tmp_path / "tables")
    new = ("--ledger", tmp_path / "l.jsonl", "--total-epsilon", "2", "--out", tmp_path / "out")
    for words, said in (
        ((*tables, "--out", tmp_path / "out"), "Expected --window with --ledger FILE"),
        ((*tables, *new), "Expected --population NAME"),
        (("--dataset", "campus", *new), "with --nodes and --edges only: a named data set has no times"),
    ):
        told = sfumato("train", "auto", *words, *EACH, "--window", "paid=2026-01")
        assert (told.code, said in told.err) == (2, True), told.err
    assert [path.name for path in tmp_path.iterdir() if not path.name.endswith(".lock")] == ["tables"]


@pytest.mark.parametrize(
    ("cell", "said"),
    [("", "has no date"), ("2026-01-05T10:00", "has a time without a zone"), ("5.1.2026", "has no date of ISO 8601")],
)
def test_a_damaged_time_is_named_by_its_line_and_nothing_is_charged(tmp_path, sfumato, cell, said):
    tables = write(tmp_path / "tables")
    path = tmp_path / "tables/edges.csv"
    lines = path.read_text().splitlines()
    lines[6] = ",".join([*lines[6].split(",")[:2], cell])
    path.write_text("\n".join(lines) + "\n")
    new = ("--ledger", tmp_path / "l.jsonl", *FIRST, "--out", tmp_path / "out")
    told = sfumato("train", "auto", *tables, *EACH, "--window", "paid=2026-01", *new)
    assert (told.code, f"row 7, column 'paid', {said}" in told.err) == (2, True), told.err
    assert [path.name for path in tmp_path.iterdir() if not path.name.endswith(".lock")] == ["tables"]


def test_arrivals_have_no_window(copy, sfumato):
    (copy / "new.csv").write_text("id,age,kind\nq1,20,k0\n")
    (copy / "links.csv").write_text("payer,payee\nq1,p1\n")
    before = (copy / "l.jsonl").read_bytes()
    told = sfumato(
        "predict", copy / "run-0", "--new-nodes", copy / "new.csv", "--new-edges", copy / "links.csv", "--ledger",
        copy / "l.jsonl",
    )  # fmt: skip
    assert (told.code, "edges of arrivals have no time" in told.err) == (2, True), told.err
    assert (copy / "l.jsonl").read_bytes() == before


def test_a_history_has_no_window(copy, sfumato):
    before = (copy / "l.jsonl").read_bytes()
    told = sfumato(
        "daily", "init", "--nodes", copy / "tables/nodes.csv", "--label", "kind", "--epsilon", "1", "--delta", "1e-6", "--ledger",
        copy / "l.jsonl", "--out", copy / "history",
    )  # fmt: skip
    assert (told.code, "Expected a ledger without windows of time" in told.err) == (2, True), told.err
    assert (copy / "l.jsonl").read_bytes() == before
    assert not (copy / "history").exists()


def forged(folder, change):
    """Change the lines of the ledger."""
    rewrite(folder / "l.jsonl", change)
    return verify_ledger(folder / "l.jsonl", [folder])


def lines(change, of=lambda bodies: [body for body in bodies if body["kind"] == "run"][2:]):
    def changed(bodies):
        for body in of(bodies):
            change(body)
        return bodies

    return changed


def header(change):
    return lines(lambda body: change(body["header"]), lambda bodies: bodies[:1])


FORGERIES = {
    "the same": (lambda bodies: bodies, None),
    "no window": (lines(lambda body: body.pop("window")), "line 6: names no window, so nothing says which account"),
    "another window": (
        lines(lambda body: body.update(window="2026-01")), "line 6: population.window: '2026-01' differs from '2026-02'",
    ),
    "no such month": (lines(lambda body: body.update(window="2026-13")), "line 6: 2026-13 is no month"),
    "a period that overlaps": (lines(lambda body: body.update(window="2026-Q1")), "line 6: 2026-Q1 is no month: a window that"),
    "another spelling": (lines(lambda body: body.update(window="2026-2")), "line 6: 2026-2 is no month"),
    "another column": (header(lambda one: one["windows"].update(column="due")), "population.windows.column: 'due' differs"),
    "another period": (header(lambda one: one["windows"].update(period="week")), "line 2: 2026-01 is no week"),
    "no windows": (header(lambda one: one.pop("windows")), "line 2: names a window, which this ledger does not have"),
    "a unit that lasts": (
        header(lambda one: one.update(unit={"name": "record", "relation": "replace"})), "line 1: windows: expected unit edge",
    ),
    "a list of ids": (
        header(lambda one: one.update(dataset={"name": "payers", "ids_digest": "0" * 64})),
        "line 1: windows: not expected in the ledger of a list of ids",
    ),
    "a schedule": (
        header(lambda one: one.update(schedule={"epsilons": [1.0] * 3, "delta": 1e-6})), "line 1: windows: not expected beside",
    ),
    "a smaller total": (
        header(lambda one: one.update(total_epsilon=1.0)), "2026-02: the sum of epsilon is 2, above the total of 1",
    ),
}  # fmt: skip


@pytest.mark.parametrize(("change", "problem"), FORGERIES.values(), ids=FORGERIES)
def test_forgeries_are_found(copy, change, problem):
    found = forged(copy, change)
    assert found.valid == (problem is None)
    assert problem is None or any(problem in text for text in found.problems), found.problems


@pytest.mark.parametrize(
    ("old", "new", "problem"),
    [
        ('"window":"2026-01"', '"window":"2026-13"', "population.window: expected a month that there is, got 2026-13"),
        ('"window":"2026-01"', '"window":"2026-02"', "population.window: '2026-02' differs from '2026-01'"),
        (',"window":"2026-01"', "", "population: expected windows and the window that is charged, or neither"),
        (", in any one month (here 2026-01, by column paid)", "", "protects: "),
        ('"A record is one edge in one window of time.', '"A record is one edge.', "caveats[0]: "),
    ],
)
def test_a_certificate_that_says_something_else_of_its_window_is_refused(copy, old, new, problem):
    path = copy / "run-0/release/certificate.json"
    text = path.read_text()
    assert text.count(old) == 1
    path.write_text(text.replace(old, new))
    assert any(problem in text for text in verify(copy / "run-0").problems)


def test_a_resumable_run_keeps_its_window(tmp_path, sfumato):
    tables = write(tmp_path / "tables", times=lambda month, day: f"2026-{month:02}-{day:02}T23:30:00-01:00")
    new = ("--ledger", tmp_path / "l.jsonl", *FIRST, "--resumable", "--out", tmp_path / "out")
    assert sfumato("train", "auto", *tables, *EACH, "--window", "paid=2026-02", *new).code == 0
    assert verify(tmp_path / "out").population["window"] == "2026-02"


def test_a_month_of_whole_persons_has_the_totals_for_itself(tmp_path, sfumato):
    tables = [*write(tmp_path / "tables"), "--person", "payer", "--edges-per-person", "3", "--no-controls"]
    for at, month in enumerate(RUNS):
        charged = ["--window", f"paid={month}", "--ledger", tmp_path / "l.jsonl", *(() if at else FIRST)]
        run = ["--unit", "person", *EACH[2:], "--out", tmp_path / f"run-{at}"]
        assert sfumato("train", "auto", *tables, *charged, *run).code == 0
    assert sfumato("verify", tmp_path / "l.jsonl").code == 0
    shown = " ".join(sfumato("ledger", "show", tmp_path / "l.jsonl").out.split())
    assert "a record is the set of edges of one person in one month." in shown
    told = sfumato("verify", tmp_path / "run-1")
    assert (
        told.code,
        "for the set of edges of one person in one month (here 2026-02, by column paid)" in told.out,
    ) == (
        0,
        True,
    )
    assert "any one person: all edges that the person owns, at most 3, in any one month" in told.out + (
        (tmp_path / "run-1/guarantee.txt").read_text()
    )
    refused = sfumato("train", "auto", *tables, "--window", "paid=2026-03", "--ledger", tmp_path / "l.jsonl", "--unit",
                      "edge", *EACH[2:], "--out", tmp_path / "run-3")  # fmt: skip
    assert refused.code == 2
