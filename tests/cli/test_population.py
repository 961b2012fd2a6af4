"""A population over a year: people join and leave, a model is trained every month, and one ledger holds the sum.

The example of docs/guarantees.md ("A population over time"), on a graph that is small enough for a test.
"""

import csv
import json
import shutil
from pathlib import Path

import pytest
from living import MONTHS, Town
from rewritten import rewrite

from sfumato.cli import invoke
from sfumato.cli._serve import _read as read_served
from sfumato.method._decisions import Decision
from sfumato.record._population import group_price
from sfumato.verify import main as verifier
from sfumato.verify import verify_ledger

EACH = ("--unit", "edge", "--epsilon", "0.333333", "--delta", "1e-6")


@pytest.fixture(scope="module")
def year(tmp_path_factory):
    """Twelve monthly runs of auto on a town that grows and shrinks, and their ledger. Tests must not write into it."""
    folder, town = tmp_path_factory.mktemp("year"), Town(100)
    first = ("--total-epsilon", "4", "--total-delta", "2e-5", "--population", "town")
    for month in range(MONTHS):
        tables = town.write(folder / f"tables-{month}")
        out = ("--ledger", folder / "town.jsonl", *(first if not month else ()), "--out", folder / f"month-{month}")
        assert invoke(list(map(str, ["train", "auto", *tables, *EACH, *out]))) == 0
        town.live(joining=0.03, leaving=0.02)
    return folder


@pytest.fixture
def copy(year, tmp_path):
    shutil.copytree(year, tmp_path / "year")
    return tmp_path / "year"


def test_twelve_months_are_verified_and_so_is_their_sum(year, sfumato):
    told = sfumato("verify", year / "town.jsonl", "--json")
    found = json.loads(told.out)
    assert (told.code, found["problems"]) == (0, [])
    assert [run["state"] for run in found["runs"]] == ["verified"] * MONTHS
    assert found["header"]["dataset"] == {"name": "town", "population": True}
    assert float(found["spent"]["epsilon"]["spent"]) == pytest.approx(4, rel=1e-5)
    people = [
        json.loads((year / f"month-{i}/release/spec.json").read_text())["graph"]["ids_digest"] for i in range(MONTHS)
    ]
    assert len(set(people)) == MONTHS


def forged(folder, change):
    """Change the lines of the ledger."""
    rewrite(folder / "town.jsonl", change)
    return verify_ledger(folder / "town.jsonl", [folder])


def claims(bodies):
    return [body for body in bodies if body["kind"] == "run"]


def another(bodies, **changes):
    bodies[0]["header"].update(changes)
    return bodies


def charged_less(bodies):
    claims(bodies)[3]["claim"]["epsilon"] = 0.2
    return bodies


def charged_twice_in_one_folder(bodies):
    again = json.loads(json.dumps(claims(bodies)[0]))
    again["claim"]["run"] = "0" * 32
    return [*bodies, again, {"kind": "spent", "run": "0" * 32, "what": "first noise", "mark": "0" * 32}]


FORGERIES = {
    "the same": (lambda bodies: bodies, None),
    "missing run": (lambda bodies: bodies[:-2], "this release is not charged in this ledger, whose data set it reads"),
    "changed charge": (charged_less, "line 8: claim.epsilon: 0.2 differs from 0.33333"),
    "other population": (
        lambda bodies: another(bodies, dataset={"name": "village", "population": True}),
        "line 2: population.name: 'village' differs from 'town'",
    ),
    "other unit": (
        lambda bodies: another(bodies, unit={"name": "edge", "relation": "add-remove", "directed": True}),
        "line 2: unit.directed: True differs from False",
    ),
    "other total": (lambda bodies: another(bodies, total_epsilon=5.0), "line 2: population.total_epsilon: 5.0 differs"),
    "reordered": (
        lambda bodies: [bodies[0], bodies[2], bodies[1], *bodies[3:]],
        "line 2: no run of this name was charged",
    ),
    "one release for two charges": (charged_twice_in_one_folder, "line 26: the release of this run was not found"),
    "another name later": (
        lambda bodies: [*bodies, {"kind": "population", "name": "village"}],
        "line 26: the ledger is of a population already",
    ),
    "a deletion in a list of ids": (
        lambda bodies: [
            *another(bodies, dataset={"name": "graph", "ids_digest": "0" * 64}),
            {"kind": "deletion", "records": 1},
        ],
        "line 26: nobody can leave a list of ids",
    ),
    "a huge mu": (
        lambda bodies: claims(another(bodies, composition="gdp"))[0]["claim"].update(mu=1e300) or bodies,
        "line 2: claim.mu: expected null or a number from 0 to 1e100",
    ),
    "a list of ids": (
        lambda bodies: another(bodies, dataset={"name": "graph", "ids_digest": "0" * 64}),
        "line 2: population: ",
    ),
}


@pytest.mark.parametrize(("change", "problem"), FORGERIES.values(), ids=FORGERIES)
def test_forgeries_are_found(copy, change, problem):
    found = forged(copy, change)
    assert found.valid == (problem is None)
    assert problem is None or any(problem in text for text in found.problems), found.problems


def test_lines_in_another_order_break_the_chain(copy):
    path = copy / "town.jsonl"
    lines = path.read_text().splitlines(keepends=True)
    path.write_text("".join([lines[0], *lines[3:5], *lines[1:3], *lines[5:]]))
    found = verify_ledger(path)
    assert "line 2: does not continue the chain" in found.problems[0]
    assert not found.valid


def test_a_sum_above_the_total_is_found(copy):
    def more(bodies):
        extra = json.loads(json.dumps(claims(bodies)[0]))
        extra["claim"] |= {"run": "0" * 32, "epsilon": 0.1}
        return [*bodies, extra]

    found = forged(copy, more)
    assert "the sum of epsilon is 4.099996, above the total of 4" in found.problems
    assert found.lines[-1].state == "reserved"


def test_a_run_that_is_away_is_missing_and_one_that_was_stopped_counts(copy):
    shutil.rmtree(copy / "month-3")
    found = verify_ledger(copy / "town.jsonl")
    assert [line.state for line in found.lines].count("missing") == 1
    assert "line 8: the release of this run was not found" in found.problems[0]
    (copy / "month-4/release/manifest.json").unlink()
    assert verify_ledger(copy / "town.jsonl").lines[4].state == "stopped"


def test_a_run_that_was_changed_is_named(copy):
    path = copy / "month-2/release/certificate.json"
    path.write_text(path.read_text().replace('"total_epsilon":4.0', '"total_epsilon":2.0'))
    found = verify_ledger(copy / "town.jsonl")
    assert len(found.problems) == 1
    assert "month-2: certificate.json" in found.problems[0]


def test_a_release_about_others_is_told_and_in_no_sum(year):
    found = verify_ledger(year / "town.jsonl", [Path(__file__).parents[1] / "golden" / "format-3" / "edge"])
    assert (found.valid, len(found.aside)) == (True, 1)
    assert "this release is not charged in this ledger: it is in no sum" in found.aside[0]


def test_the_certificate_states_the_population(year, sfumato):
    told = sfumato("verify", year / "month-5").out
    assert "population: town, through all releases in its ledger at most epsilon 4, delta 2e-05" in told
    assert "who joined after a release has paid nothing for it" in (year / "month-5/guarantee.txt").read_text()


def test_the_thirteenth_month_is_refused(copy, sfumato, tmp_path):
    tables = ["--nodes", copy / "tables-0/nodes.csv", "--edges", copy / "tables-0/edges.csv", "--label", "kind"]
    told = sfumato("train", "auto", *tables, *EACH, "--ledger", copy / "town.jsonl", "--out", copy / "more")
    assert (told.code, "short by" in told.err) == (1, True)
    told = sfumato(
        "train", "auto", *tables, *EACH, "--ledger", copy / "town.jsonl", "--population", "x", "--out", copy / "more"
    )
    assert (told.code, "Expected --population to be that of the ledger" in told.err) == (2, True)


def test_predictions_are_those_of_the_newest_run(copy, sfumato):
    shutil.rmtree(copy / "month-11")
    told = sfumato("predict", copy / "town.jsonl", "--out", copy / "p.csv")
    assert told.code == 0, told.err
    assert sfumato("predict", copy / "month-10", "--out", copy / "q.csv").code == 0
    assert (copy / "p.csv").read_text() == (copy / "q.csv").read_text()
    served = read_served(copy / "town.jsonl", Decision())
    with (copy / "p.csv").open() as file:
        assert list(served.rows) == [row["node"] for row in csv.DictReader(file)]
    for month in range(11):
        shutil.rmtree(copy / f"month-{month}")
    told = sfumato("predict", copy / "town.jsonl")
    assert (told.code, "which names none that is there" in told.err) == (2, True)


def test_deletions_are_logged_without_ids_and_priced(copy, sfumato):
    ledger = copy / "town.jsonl"
    told = sfumato("ledger", "delete", ledger, "--records", "3", "--json")
    found = json.loads(told.out)
    assert found["one"]["epsilon"] == pytest.approx(4, rel=1e-5)
    assert found["together"] == dict(zip(("epsilon", "delta"), group_price(*found["one"].values(), 3), strict=True))
    said = sfumato("ledger", "delete", ledger, "--records", "1")
    assert "tells of one record at most epsilon = 3.999996, delta = 1.2e-05, to whoever saw it" in said.out
    assert "4 records were deleted, in 2 requests" in sfumato("ledger", "show", ledger).out
    assert json.loads(ledger.read_text().splitlines()[-1]).keys() >= {"records", "at", "kind"}
    assert verify_ledger(ledger).valid
    assert sfumato("ledger", "delete", ledger, "--records", "0").code == 2


def test_the_public_page_speaks_of_deletion_and_of_the_population(year, tmp_path, sfumato):
    assert sfumato("report", year / "month-5", "--audience", "public", "--out", tmp_path / "page.html").code == 0
    page = (tmp_path / "page.html").read_text()
    for words in ("Article 17 of the General Data Protection", "one of several about town", "the limit is epsilon 4."):
        assert words in " ".join(page.split())


def test_a_ledger_of_ids_becomes_one_of_a_population_once(tmp_path, sfumato):
    town, ledger = Town(80, seed=1), tmp_path / "mon.jsonl"
    train = (
        "train",
        "gap",
        "--set",
        "epochs=1",
        "--unit",
        "edge",
        "--epsilon",
        "1",
        "--delta",
        "1e-6",
        "--ledger",
        ledger,
    )
    first = sfumato(*train, *town.write(tmp_path / "january"), "--total-epsilon", "3", "--out", tmp_path / "one")
    assert first.code == 0, first.err
    town.live(joining=0.05, leaving=0)
    february = town.write(tmp_path / "february")
    refused = sfumato(*train, *february, "--out", tmp_path / "two")
    assert (refused.code, f"sfumato ledger declare {ledger} NAME" in refused.err) == (2, True)
    named = sfumato(*train, *february, "--population", "town", "--out", tmp_path / "two")
    assert (named.code, f"sfumato ledger declare {ledger} 'town'" in named.err) == (2, True)
    assert sfumato("ledger", "declare", ledger, "town").code == 0
    assert sfumato(*train, *february, "--population", "town", "--out", tmp_path / "two").code == 0
    again = sfumato("ledger", "declare", ledger, "village")
    assert (again.code, "is of the population 'town' already" in again.err) == (2, True)
    found = sfumato("verify", ledger, "--json")
    assert (found.code, [run["state"] for run in json.loads(found.out)["runs"]]) == (0, ["verified", "verified"])
    shown = sfumato("ledger", "show", ledger)
    assert (shown.code, "Population town" in shown.out) == (0, True)


def test_the_verifier_alone_tells_of_every_line(copy, capsys):
    assert verifier([str(copy / "town.jsonl")]) == 0
    told = capsys.readouterr().out.splitlines()
    assert told[:2] == [
        f"VALID: {copy / 'town.jsonl'}",
        "population town; unit: directed False, name edge, relation add-remove",
    ]
    assert sum(line.endswith("epsilon 0.333333, delta 0.000001: verified") for line in told) == MONTHS
    assert told[-2:] == ["epsilon: 3.999996 of 4 by rule basic", "delta: 0.000012 of 0.00002 by rule basic"]
