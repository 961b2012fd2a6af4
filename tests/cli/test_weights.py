"""Weights of edges from a table to a certificate, and to the predictions for another table."""

import csv
import json
from pathlib import Path

import pytest

EDGE = ("--unit", "edge", "--epsilon", "4", "--delta", "1e-5", "--no-controls")
WEIGHTS = ("--edge-weight", "amount", "--max-weight", "50")


@pytest.fixture
def files(tables, tmp_path):
    """Options of two graphs, with amounts from 0 to 99 in the tables of their edges."""
    found = {}
    for name, options in tables.items():
        if name in ("first", "second"):
            rows = list(csv.reader(Path(options[3]).read_text().splitlines()))
            written = [[*rows[0], "amount"], *([*row, str(at % 100)] for at, row in enumerate(rows[1:]))]
            path = tmp_path / f"{name}-edges.csv"
            path.write_text("\n".join(map(",".join, written)) + "\n")
            found[name] = ("--nodes", options[1], "--edges", path, "--label", "year")
    return found


def test_a_run_states_the_bound_and_predicts_another_table_with_it(sfumato, files, tmp_path):
    run, other = tmp_path / "run", tmp_path / "other"
    trained = sfumato("train", "gap", *files["first"], *WEIGHTS, *EDGE, "--out", run, "--json")
    assert trained.code == 0, trained.err
    assert "Not read" not in trained.err
    facts = json.loads((run / "release" / "certificate.json").read_text())["public_facts"]
    assert facts["max_weight"] == 50
    assert json.loads((run / "evaluation" / "metrics.json").read_text())["outside_schema"]["edge weight"] > 0
    assert sfumato("verify", run).code == 0
    assert sfumato("evaluate", run).code == 0
    asked = ("--epsilon", "1", "--delta", "1e-5", "--new-run", other)
    predicted = sfumato("predict", run, *files["second"], *asked, "--out", tmp_path / "p.csv")
    assert predicted.code == 0, predicted.err
    again = json.loads((other / "release" / "certificate.json").read_text())["public_facts"]
    assert again["max_weight"] == 50
    assert sfumato("verify", other).code == 0


def test_a_table_without_the_column_is_an_error(sfumato, files, tables, tmp_path):
    run = tmp_path / "run"
    assert sfumato("train", "gap", *files["first"], *WEIGHTS, *EDGE, "--out", run).code == 0
    asked = ("--epsilon", "1", "--delta", "1e-5", "--new-run", tmp_path / "other")
    failed = sfumato("predict", run, *tables["second"], *asked)
    assert failed.code == 2
    assert "to have the column 'amount'" in failed.err
    assert not (tmp_path / "other").exists()


def test_a_method_that_reads_no_weights_is_told_in_one_line(sfumato, files, tmp_path):
    options = "--unit node --max-degree 10 --epsilon 8 --delta 1e-5 --no-controls --assume-public"
    done = sfumato("train", "dpgnn", *files["first"], *WEIGHTS, *options.split(), "--out", tmp_path / "run")
    assert done.code == 0, done.err
    assert done.err.count("Not read: the weights of edges.") == 1


def test_a_named_data_set_and_a_store_take_no_column(sfumato, tmp_path):
    for source in (("--dataset", "campus"), ("--graph", tmp_path)):
        failed = sfumato("train", "gap", *source, *WEIGHTS, *EDGE, "--out", tmp_path / "run")
        assert failed.code == 2
        assert "--edge-weight" in failed.err
