"""An implausible promise from the command line: warned of when it is made, stated in what leaves, not to be hidden."""

import csv
import json
import shutil
from pathlib import Path

import pytest
from contracts_forgery import seal

from sfumato.record.ledger import canonical_json
from sfumato.verify import verify

WEAK = ("--unit", "node", "--max-degree", "5", "--epsilon", "20", "--delta", "0.5", "--assume-public")
CODES = ["delta-per-record", "delta-large", "epsilon-large"]


def codes(err):
    """Codes of the warnings, in order."""
    return [line.rpartition("[")[2][:-1] for line in err.splitlines() if line.startswith("Warning: ")]


@pytest.fixture
def weak(run_of):
    """A run at delta 0.5 on a graph of 200 nodes."""
    return run_of(f"gap {' '.join(WEAK)} --hops 1")


def test_numbers_without_a_declared_range_are_named_where_features_are_protected(sfumato, tmp_path):
    nodes, edges, schema = (tmp_path / name for name in ("n.csv", "e.csv", "s.toml"))
    rows = "".join(f"{i},{20 + i % 40},{i % 3},{i % 7},{'ab'[i % 2]},{'xy'[i % 3 == 0]}\n" for i in range(120))
    nodes.write_text("id,age,height,steps,dorm,year\n" + rows)
    edges.write_text("source,target\n" + "".join(f"{i},{i + 1}\n" for i in range(119)))
    schema.write_text("classes = ['x', 'y']\n[columns.height]\nmin = 0\nmax = 3\n[columns.steps]\nmin = 0\n")
    tables = ("--nodes", nodes, "--edges", edges, "--label", "year", "--schema", schema)
    budget = ("--epsilon", "4", "--delta", "1e-5", "--no-controls", "--out")
    said = sfumato("train", "mlp", *tables, "--unit", "node", "--assume-public", *budget, tmp_path / "node").err
    assert "Warning: No range is declared for age, steps. These numbers are used as they are" in said
    assert "[columns.age] min = 0, max = 100." in said
    assert "range-undeclared" not in sfumato("train", "mlp", *tables, "--unit", "edge", *budget, tmp_path / "edge").err
    with schema.open("a") as file:
        file.write("max = 9\n[columns.age]\nmin = 0\nmax = 120\n[columns.dorm]\ncategories = ['a', 'b']\n")
    assert "range-undeclared" not in sfumato("train", "mlp", *tables, "--unit", "node", *budget, tmp_path / "all").err


def test_train_and_tune_warn_before_anything_is_spent(sfumato, tables, tmp_path):
    run = sfumato("train", "mlp", *tables["first"], *WEAK[:2], *WEAK[4:], "--out", tmp_path / "run", "--json")
    assert run.code == 0
    assert codes(run.err) == [*CODES, "range-undeclared"]
    assert "SfumatoWarning" not in run.err
    asked = ("--delta", "0.5", "--unit", "edge", "--epsilon", "4", "--dry-run")
    tuned = sfumato("tune", "gap", *tables["first"], *asked)
    assert tuned.code == 0
    assert codes(tuned.err) == ["delta-per-record", "delta-large"]


def test_predict_warns_of_its_own_claim(sfumato, tables, weak, tmp_path):
    asked = ("--epsilon", "2", "--delta", "0.006", "--new-run", tmp_path / "new", "--out", tmp_path / "p.csv", "--json")
    result = sfumato("predict", weak, *tables["second"], *asked)
    assert result.code == 0
    assert codes(result.err) == ["delta-per-record", "delta-large"]
    assert verify(tmp_path / "new").valid


def test_budget_warns_of_the_claim_alone(sfumato):
    assert codes(sfumato("budget", "noise", "--epsilon", "11", "--delta", "0.01").err) == [
        "delta-large",
        "epsilon-large",
    ]
    asked = ("budget", "epsilon", "--noise-multiplier", "4", "--steps", "2", "--delta")
    assert codes(sfumato(*asked, "0.01").err) == ["delta-large"]
    assert codes(sfumato(*asked, "1e-6").err) == []


def test_a_label_column_of_ids_is_questioned(sfumato, tables, tmp_path):
    nodes = tmp_path / "nodes.csv"
    header, *rows = Path(tables["first"][1]).read_text().splitlines()
    nodes.write_text("\n".join([f"{header},id2", *(f"{row},{i}" for i, row in enumerate(rows))]) + "\n")
    asked = ("--nodes", nodes, *tables["first"][2:4], "--label", "id2", "--epsilon", "1", "--delta", "1e-6")
    refused = sfumato("train", "mlp", *asked, "--unit", "node", "--out", tmp_path / "refused")
    assert (refused.code, (tmp_path / "refused").exists()) == (2, False)
    assert "Expected classes that are known without the data" in refused.err
    (tmp_path / "schema.toml").write_text(f"classes = {list(range(len(rows)))}\n")
    declared = {"edge": (), "node": ("--schema", tmp_path / "schema.toml", "--assume-public")}
    for unit, more in (("edge", ["untrained-class"]), ("node", ["hidden-classes", "range-undeclared"])):
        fit = ("train", "mlp", *asked, *declared[unit], "--unit", unit, "--out", tmp_path / unit)
        result = sfumato(*fit, "--json", "--no-controls")
        assert result.code == 0
        assert codes(result.err) == ["many-classes", *more]
        assert verify(tmp_path / unit).problems == ()


def test_a_graph_without_arcs_is_questioned_only_where_arcs_are_public(sfumato, tables, tmp_path):
    edges = tmp_path / "edges.csv"
    edges.write_text("source,target\nn0,n1\n")
    asked = ("label-messages", *tables["first"][:2], "--edges", edges, "--label", "year")
    silent = sfumato("train", *asked, "--unit", "edge", "--epsilon", "1", "--delta", "1e-6", "--out", tmp_path / "a")
    assert (silent.code, codes(silent.err)) == (0, [])
    told = sfumato("train", *asked, "--unit", "none", "--out", tmp_path / "b")
    assert (told.code, codes(told.err)) == (0, ["few-arcs"])


def test_certificate_verdict_and_report_state_them(sfumato, weak, tmp_path):
    certificate = json.loads((weak / "release" / "certificate.json").read_text())
    result = verify(weak)
    assert result.valid
    assert len(result.caveats) == len(CODES)
    assert certificate["caveats"][-3:] == list(result.caveats)
    shown = sfumato("verify", weak)
    assert all(f"caveat: {text}" in shown.out for text in result.caveats)
    assert json.loads(sfumato("verify", weak, "--json").out)["caveats"] == list(result.caveats)
    assert sfumato("report", weak, "--out", tmp_path / "page.html").code == 0
    assert "delta = 0.5 exceeds 0.001" in (tmp_path / "page.html").read_text()


def forged(run, folder, change):
    """A copy whose certificate and spec were changed and whose manifest was sealed again."""
    copy = shutil.copytree(run, folder)
    for path in (copy / "release" / name for name in ("certificate.json", "spec.json")):
        value = json.loads(path.read_text())
        change(value)
        path.write_text(canonical_json(value) + "\n")
    seal(copy / "release")
    return copy


def without(*words):
    """Leave out the caveats that hold one of the words."""

    def change(value):
        if "caveats" in value:
            value["caveats"] = [text for text in value["caveats"] if not any(word in text for word in words)]

    return change


@pytest.mark.parametrize("words", [("delta = 0.5",), ("exceeds 10",), ("delta = 0.5", "exceeds 10")])
def test_a_certificate_cannot_hide_what_its_claim_implies(weak, tmp_path, words):
    result = verify(forged(weak, tmp_path / "forged", without(*words)))
    assert any(text.startswith("certificate.json: caveats") for text in result.problems)
    assert len(result.caveats) == len(CODES)


def test_what_runs_did_not_state_before_is_said_by_the_verdict_and_not_demanded(weak, tmp_path):
    def thin(value):
        value["public_facts" if "public_facts" in value else "public"]["mean_degree"] = 0.2

    result = verify(forged(weak, tmp_path / "forged", thin))
    assert result.problems == ()
    assert "A node has 0.2 arcs on average as promised" in result.caveats[-1]


@pytest.mark.parametrize("fact", ["num_arcs", "untrained_classes"])
def test_a_count_of_what_is_protected_is_no_public_fact(weak, tmp_path, fact):
    def tell(value):
        value["public_facts" if "public_facts" in value else "public"][fact] = 3

    result = verify(forged(weak, tmp_path / "forged", tell))
    assert f"certificate.json: public_facts.{fact}: is protected under unit node" in result.problems


def test_columns_that_are_not_read_are_named(sfumato, tmp_path):
    ids = range(60)
    (tmp_path / "nodes.csv").write_text("id,kind\n" + "".join(f"{i},{'ab'[i % 2]}\n" for i in ids))
    edges = "".join(f"{i},{(i + 2) % 60},0.5,2020\n" for i in ids)
    (tmp_path / "edges.csv").write_text("from,to,weight,year\n" + edges)
    tables = ["--nodes", tmp_path / "nodes.csv", "--edges", tmp_path / "edges.csv", "--label", "kind"]
    spent = ["--unit", "edge", "--epsilon", "1", "--delta", "1e-6", "--out", tmp_path / "run"]
    run = sfumato("train", "label-messages", *tables, *spent)
    assert f"Not read: weight, year of {tmp_path / 'edges.csv'}. Every edge counts the same.\n" in run.err
    assert run.err.count("Not read") == 1


def test_only_labeled_nodes_have_roles_where_labels_are_public(sfumato, tmp_path):
    ids = range(60)
    (tmp_path / "nodes.csv").write_text("id,kind\n" + "".join(f"{i},{'ab'[i % 2] if i % 3 else ''}\n" for i in ids))
    (tmp_path / "edges.csv").write_text("from,to\n" + "".join(f"{i},{(i + 2) % 60}\n" for i in ids))
    tables = ["--nodes", tmp_path / "nodes.csv", "--edges", tmp_path / "edges.csv", "--label", "kind"]
    spent = ["--unit", "edge", "--epsilon", "1", "--delta", "1e-6", "--out", tmp_path / "run"]
    assert sfumato("train", "label-messages", *tables, *spent).code == 0
    assert verify(tmp_path / "run").valid
    assert sfumato("predict", tmp_path / "run").code == 0
    with (tmp_path / "run" / "predictions.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert {row["role"] for row in rows if not row["known_label"]} == {"none"}
    assert sum(row["role"] == "train" for row in rows) == 30


@pytest.mark.parametrize("command", ["train", "tune"])
def test_what_nobody_declared_stops_a_run_where_it_is_protected(sfumato, tables, tmp_path, command):
    asked = (command, "mlp", *tables["first"], *WEAK[:-1], "--no-controls", "--out", tmp_path / "run")
    stopped = sfumato(*asked)
    assert (stopped.code, (tmp_path / "run").exists()) == (2, False)
    assert "got no range of f0, f1, f2, f3; no classes of the label" in stopped.err
    assert "sfumato data describe" in stopped.err
    assert "--assume-public" in stopped.err
    told = stopped.err.rpartition("Error: ")[2].replace(str(Path(tables["first"][1]).parent), "")
    assert "200" not in told, "no value of the data"
