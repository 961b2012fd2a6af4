"""A history of edges beside a monthly run, in one ledger, by the command line."""

import json
import shutil

import pytest
from edge_days import NODES, table

EDGES = "source,target\n"


@pytest.fixture
def town(tmp_path, sfumato):
    """A history of one day in a new ledger, in the order in which an operator would do it."""
    source = table(tmp_path)
    (tmp_path / "monday.csv").write_text(EDGES + "".join(f"n{i},n{i + 2}\n" for i in range(8)))
    (tmp_path / "other.csv").write_text(EDGES + "n9,n11\n")
    given = ("--nodes", source.nodes, "--label", "group", "--schema", source.schema, "--days", "6", "--refreshes", "3")
    budget = ("--epsilon", "1", "--delta", "1e-6", "--out", tmp_path / "history")
    new = ("--ledger", tmp_path / "town.jsonl", "--population", "town", "--total-epsilon", "2")
    told = sfumato("daily", "init", *given, *budget, *new)
    assert told.code == 0, told.err
    assert sfumato("daily", "add", tmp_path / "history", "--edges", tmp_path / "monday.csv").code == 0
    return tmp_path, given, budget


def test_an_operator_sees_one_charge_for_all_days_and_models(town, sfumato):
    folder, _, _ = town
    assert sfumato("daily", "fit", folder / "history", "--out", folder / "runs/monday").code == 0
    told = sfumato("ledger", "show", folder / "town.jsonl").out
    assert "Run 1 is a history of edges, drawn through day 1: it and every model of it cost this once." in told
    assert "epsilon: spent 1 of 2.0, left 1." in told
    (run,) = json.loads(sfumato("ledger", "show", folder / "town.jsonl", "--json").out)["runs"]
    assert (run["folder"], run["state"], run["drawn_through"]) == ("history", "spent", 1)
    assert sfumato("ledger", "check", folder / "town.jsonl").code == 0
    told = sfumato("verify", folder / "town.jsonl", "--runs", folder)
    assert (told.code, "line 2: history of" in told.out) == (0, True), told.out
    assert "All releases of one history of edges" in str(
        json.loads((folder / "runs/monday/release/certificate.json").read_text())["composition"]["covers"]
    )
    edges = folder / "month.csv"
    edges.write_text(EDGES + "".join(f"n{i},n{(i + 2) % NODES}\n" for i in range(NODES)))
    asked = ("--nodes", folder / "people.csv", "--edges", edges, "--schema", folder / "schema.toml", "--label", "group")
    asked += ("--unit", "edge", "--epsilon", "0.5", "--delta", "1e-6", "--ledger", folder / "town.jsonl")
    told = sfumato("train", "label-messages", *asked, "--no-controls", "--out", folder / "month")
    assert told.code == 0, told.err
    assert sfumato("daily", "add", folder / "history", "--edges", folder / "other.csv").code == 0
    found = json.loads(sfumato("verify", folder / "town.jsonl", "--runs", folder, "--json").out)
    assert (found["valid"], [one["state"] for one in found["runs"]]) == (True, ["verified", "verified"])


def test_what_does_not_fit_is_refused_with_a_remedy(town, sfumato):
    folder, given, budget = town
    again = (*budget[:-1], folder / "second")
    told = sfumato("daily", "init", *given, *again, "--directed", "--ledger", folder / "town.jsonl")
    assert (told.code, "takes labels and features for public" in told.err) == (2, True)
    told = sfumato("daily", "init", *given, *again, "--population", "town")
    assert (told.code, "Expected --ledger with" in told.err) == (2, True)
    told = sfumato("daily", "init", *given, *budget, "--ledger", folder / "town.jsonl")
    assert (told.code, "go on with sfumato daily add" in told.err) == (2, True)
    told = sfumato("daily", "init", *given, "--epsilon", "1.5", *again[2:], "--ledger", folder / "town.jsonl")
    assert (told.code, "short by" in told.err) == (1, True)
    assert not (folder / "second").exists()


def test_an_old_copy_is_refused_with_a_remedy(town, sfumato):
    folder, _, _ = town
    shutil.copytree(folder / "history", folder / "copy")
    assert sfumato("daily", "add", folder / "history").code == 0
    told = sfumato("daily", "add", folder / "copy", "--edges", folder / "other.csv")
    assert (told.code, "Put the newest folder back" in told.err) == (1, True), told.err


def test_a_model_of_a_history_says_that_other_nodes_need_another_one(town, sfumato, monkeypatch):
    folder, _, _ = town
    assert sfumato("daily", "fit", folder / "history", "--out", folder / "monday").code == 0
    monkeypatch.setattr("sfumato.central._daily.DailyMessages.drops_messages", lambda *_: False)
    people = (folder / "people.csv").read_text().splitlines()
    (folder / "late.csv").write_text("\n".join([people[0], people[1].replace("n0", "late")]) + "\n")
    told = sfumato("predict", folder / "monday", "--new-nodes", folder / "late.csv")
    assert (told.code, "this method has no inference on another graph either" in told.err) == (2, True), told.err
    (folder / "fewer.csv").write_text("\n".join(people[:-1]) + "\n")
    other = ("--nodes", folder / "fewer.csv", "--edges", folder / "other.csv", "--label", "group")
    other += ("--schema", folder / "schema.toml")
    told = sfumato("predict", folder / "monday", *other)
    assert (told.code, "Train on that graph instead" in told.err) == (2, True), told.err
    assert "--new-run" not in told.err
