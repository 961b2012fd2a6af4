"""Every arc of a node protected, from the command line: bounds on degrees, the folder of own rows, contradictions."""

import json
from pathlib import Path

import pytest

BUDGET = ("--epsilon", "8", "--delta", "1e-5", "--threads", "1")
INCIDENT = ("--unit", "node", "--arcs", "incident", "--assume-public")


def test_a_promise_end_to_end(sfumato, tables, tmp_path):
    out = tmp_path / "run"
    asked = (*tables["first"], *INCIDENT, "--max-degree", "120", *BUDGET, "--out", out, "--json", "--no-controls")
    told = json.loads(sfumato("train", "auto", *asked).out)
    assert (told["method"], told["unit"], told["test_accuracy"]["seeds"]) == ("promised-messages", "node-incident", 1)
    facts = json.loads((out / "release" / "certificate.json").read_text())
    assert facts["public_facts"]["max_degree"] == 120
    assert facts["unit"] == {"name": "node", "relation": "remove", "arcs": "incident", "max_out_degree": None}
    assert [path.name for path in (out / "own").iterdir()] == ["rows.safetensors"]
    assert sfumato("verify", out).code == 0
    assert sfumato("predict", out).code == 0
    assert "its own node only" in sfumato("predict", out, "--out", tmp_path / "again.csv").err
    assert sfumato("report", out).code == 0
    (out / "own" / "rows.safetensors").rename(tmp_path / "rows.safetensors")
    assert sfumato("verify", out).code == 0
    missing = sfumato("predict", out, "--out", tmp_path / "more.csv")
    assert (missing.code, "own/" in missing.err) == (2, True)


def test_public_degrees_are_listed(sfumato, tables, tmp_path):
    out = tmp_path / "run"
    unit = ("--unit", "node-incident", "--public-degrees", "--assume-public", "--no-controls")
    told = sfumato("train", "promised-messages", *tables["first"], *unit, *BUDGET, "--out", out)
    assert told.code == 0
    assert "Assumed public, read from the data: " in (out / "guarantee.txt").read_text()
    assert "degrees" in json.loads((out / "release" / "certificate.json").read_text())["assumed_public"]
    assert sfumato("verify", out).code == 0


def test_a_column_of_bounds_is_no_feature(sfumato, tables, tmp_path):
    nodes = tables["first"][1]
    lines = Path(nodes).read_text(encoding="utf-8").splitlines()
    table = [lines[0] + ",friends", *(line + ",150" for line in lines[1:])]
    (tmp_path / "nodes.csv").write_text("\n".join(table) + "\n")
    (tmp_path / "schema.toml").write_text('degree_column = "friends"\n')
    tables_with = ("--nodes", tmp_path / "nodes.csv", *tables["first"][2:], "--schema", tmp_path / "schema.toml")
    out = tmp_path / "run"
    told = sfumato("train", "auto", *tables_with, *INCIDENT, *BUDGET, "--out", out, "--no-controls", "--json")
    assert json.loads(told.out)["method"] == "promised-messages"
    certificate = json.loads((out / "release" / "certificate.json").read_text())
    assert certificate["public_facts"]["num_features"] == 4
    assert certificate["public_facts"]["degree_bounds"] is True
    assert "degrees" not in certificate["assumed_public"]
    (tmp_path / "nodes.csv").write_text("\n".join([table[0], *(line + ",0" for line in lines[1:])]) + "\n")
    refused = sfumato("train", "auto", *tables_with, *INCIDENT, *BUDGET, "--out", tmp_path / "more")
    assert (refused.code, "an integer >= 1" in refused.err) == (2, True)


@pytest.mark.parametrize(("epsilon", "method"), [("8", "promised-messages"), ("0.5", "linear")])
def test_without_a_bound_the_budget_decides(sfumato, tables, tmp_path, epsilon, method):
    asked = (
        *tables["first"],
        *INCIDENT,
        *BUDGET,
        "--epsilon",
        epsilon,
        "--out",
        tmp_path / "run",
        "--no-controls",
        "--json",
    )
    told = sfumato("train", "auto", *asked)
    assert json.loads(told.out)["method"] == method
    assert ("--public-degrees" in told.err) is (method == "linear")
    assert sfumato("verify", tmp_path / "run").code == 0


REFUSED = {
    "contradiction": (("--unit", "node-incident", "--arcs", "owned"), "Choose one: --unit node --arcs owned"),
    "another unit": (("--unit", "edge", "--arcs", "incident"), "Expected --arcs with --unit node only"),
    "another word": (("--unit", "node", "--arcs", "mine"), "arcs"),
    "broken promise": ((*INCIDENT, "--max-degree", "3"), "max_degree=3"),
    "too large a promise": ((*INCIDENT, "--max-degree", "900"), "max_degree"),
    "degrees of owned arcs": (
        ("--unit", "node", "--public-degrees"),
        "--public-degrees with --unit node --arcs incident",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_contradictions_teach_and_leave_nothing(sfumato, tables, tmp_path, name):
    asked, problem = REFUSED[name]
    found = sfumato("train", "promised-messages", *tables["first"], *asked, *BUDGET, "--out", tmp_path / "run")
    assert (found.code, problem in found.err) == (2, True), found.err
    assert not (tmp_path / "run").exists()
