"""Several labels, and a number, from tables to a file of predictions."""

import csv
import json
from pathlib import Path

import pytest

EDGE = ("--unit", "edge", "--epsilon", "4", "--delta", "1e-5", "--no-controls")


@pytest.fixture
def files(tables, tmp_path):
    """Options of the first graph, with two labels and a number in place of the year."""
    rows = list(csv.reader(Path(tables["first"][1]).read_text().splitlines()))
    years = [int(row[-1]) for row in rows[1:]]
    kept = [row[:-1] for row in rows]
    labels = [[*kept[0], "first", "late"]]
    labels += [[*row, str(int(year == 2004)), str(int(year > 2004))] for row, year in zip(kept[1:], years, strict=True)]
    labels[1][-1] = ""
    numbers = [[*kept[0], "score"], *([*row, str(year - 2000.5)] for row, year in zip(kept[1:], years, strict=True))]
    for name, table in (("labels", labels), ("numbers", numbers)):
        (tmp_path / f"{name}.csv").write_text("\n".join(map(",".join, table)) + "\n")
    (tmp_path / "schema.toml").write_text('target = "number"\ntarget_range = [0, 8]\n')
    edges = ("--edges", tables["first"][3])
    return {
        "labels": ("--nodes", tmp_path / "labels.csv", *edges, "--label", "first", "--label", "late"),
        "numbers": ("--nodes", tmp_path / "numbers.csv", *edges, "--label", "score", "--schema", tmp_path / "schema.toml"),
    }  # fmt: skip


def test_several_labels_from_tables_to_predictions(sfumato, files, tmp_path):
    run = tmp_path / "run"
    trained = sfumato("train", "gap", *files["labels"], *EDGE, "--out", run, "--json")
    assert trained.code == 0, trained.err
    result = json.loads(trained.out)
    assert (result["target"], result["score"], result["test_accuracy"]) == ("multilabel", "micro_f1", None)
    assert {*result["test_scores"]} == {"micro_f1", "macro_f1", "roc_auc"}
    assert sfumato("verify", run).code == 0
    assert sfumato("predict", run).code == 0
    rows = list(csv.DictReader((run / "predictions.csv").read_text().splitlines()))
    assert list(rows[0])[:4] == ["node", "predicted", "p(first)", "p(late)"]
    for row in rows:
        there = [name for name in ("first", "late") if float(row[f"p({name})"]) > 0.5]
        assert row["predicted"] == ("; ".join(there) or "none")
    scores = json.loads(sfumato("evaluate", run, "--json").out)
    assert scores["test_scores"]["micro_f1"] == pytest.approx(result["test_scores"]["micro_f1"]["mean"])
    assert scores["without_information"]["roc_auc"] == 0.5


def test_a_number_from_tables_to_predictions_and_a_report(sfumato, files, tmp_path):
    run = tmp_path / "run"
    trained = sfumato("train", "mlp", *files["numbers"], *EDGE, "--out", run)
    assert trained.code == 0, trained.err
    assert "R2" in trained.out
    assert sfumato("predict", run).code == 0
    rows = list(csv.DictReader((run / "predictions.csv").read_text().splitlines()))
    assert list(rows[0]) == ["node", "predicted", "role", "known_label", "source"]
    assert all(0 <= float(row["predicted"]) <= 8 for row in rows)
    assert {float(row["known_label"]) for row in rows} == {3.5, 4.5, 5.5}
    assert "the same answer for all nodes" in sfumato("evaluate", run).out
    assert sfumato("report", run).code == 0
    page = (run / "reports" / "index.html").read_text()
    assert "this run learned other targets" in page
    assert "R2 of" in page
    refused = sfumato("attack", "membership", run)
    assert (refused.code, "to have learned classes" in refused.err) == (2, True)
