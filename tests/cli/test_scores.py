"""The table of scores on the terminal, groups of nodes, and warnings of what hides behind one number."""

import json
from pathlib import Path

import pytest

from sfumato.cli._scores import _cell, _short, price_line
from sfumato.scoring._scores import Summary

EDGE = ("--unit", "edge", "--epsilon", "4", "--delta", "1e-6")
pytestmark = pytest.mark.usefixtures("one_floor")


@pytest.fixture(scope="module")
def grouped(tables, tmp_path_factory):
    """The first tables with a column of two sides, which only ``--drop`` keeps out of the features."""
    folder = tmp_path_factory.mktemp("grouped")
    header, *rows = Path(tables["first"][1]).read_text().splitlines()
    sides = [f"{row},{('left', 'right')[number % 2]}" for number, row in enumerate(rows)]
    (folder / "nodes.csv").write_text("\n".join([f"{header},side", *sides]) + "\n")
    return ["--nodes", str(folder / "nodes.csv"), *tables["first"][2:], "--drop", "side"]


def test_the_table_has_the_scores_that_matter_and_groups_stand_apart(grouped, sfumato, tmp_path):
    run = tmp_path / "run"
    told = sfumato("train", "label-messages", *grouped, *EDGE, "--by", "side", "--out", run)
    assert told.code == 0, told.err
    assert max(map(len, told.out.split("floor: no graph")[0].splitlines())) <= 80
    for words in ("balanced", "AUC", "AP", "log-loss", "ECE", "one answer for all", "floor (graph-free)"):
        assert words in told.out, words
    metrics = json.loads((run / "evaluation" / "metrics.json").read_text())
    assert set(metrics["control_scores"]["floor"]) == set(metrics["test_scores"]) == set(metrics["without_information"])
    assert metrics["detail"]["groups"]["column"] == "side"
    assert [row["name"] for row in metrics["detail"]["groups"]["rows"]] == ["left", "right"]
    assert set(metrics["detail"]["groups"]["rows"][0]["scores"]) == {"run", "floor"}
    assert not any((run / "release").glob("*metrics*"))
    assert "side = left: " in sfumato("evaluate", run, "--by", "side").out
    again = json.loads(sfumato("evaluate", run, "--by", "side", "--json").out)["detail"]
    own = [{name: {"run": row["scores"]["run"]} for name in ("scores",)} for row in metrics["detail"]["groups"]["rows"]]
    assert [{"scores": row["scores"]} for row in again["groups"]["rows"]] == own


@pytest.mark.parametrize(
    ("method", "by", "message"),
    [("label-messages", "sied", "Did you mean 'side'"), ("link-messages", "side", "scores links")],
)
def test_a_group_that_is_not_there_is_refused_before_anything_is_spent(grouped, refused, tmp_path, method, by, message):
    task = ("--task", "link") if method == "link-messages" else ()
    refused(message, "train", method, *grouped, *EDGE, *task, "--by", by, "--out", tmp_path / "run")


def test_one_class_for_everybody_is_told_by_train_and_predict(sfumato, tmp_path, monkeypatch):
    """Nothing tells two classes of 190 and 10 apart."""
    nodes = "\n".join(["id,f,y", *(f"{i},1,{('stays', 'leaves')[i % 20 == 0]}" for i in range(200))])
    edges = "\n".join(["source,target", *(f"{i},{(i + 1) % 200}" for i in range(200))])
    (tmp_path / "nodes.csv").write_text(nodes + "\n")
    (tmp_path / "edges.csv").write_text(edges + "\n")
    tables = ("--nodes", tmp_path / "nodes.csv", "--edges", tmp_path / "edges.csv", "--label", "y")
    run = tmp_path / "run"
    told = sfumato(
        "train", "label-messages", *tables, "--unit", "edge", "--epsilon", "0.1", "--delta", "1e-6", "--out", run
    )
    assert "nodes are told the same class, 'stays'" in told.out
    shown = sfumato("predict", run)
    rows = (run / "predictions.csv").read_text().splitlines()[1:]
    asked = sum(row.split(",")[-1] == "model" for row in rows)
    assert asked < 200
    assert f"All {asked} nodes without a known label of training are told the same class, 'stays'" in shown.out


def test_cells_are_narrow():
    assert _cell("accuracy", Summary(0.5, None, None, 1)) == "50.0"
    assert _cell("log_loss", Summary(0.5, 0.25, 0.75, 3)) == "0.500\n±0.250"
    assert _cell("rmse", Summary(12345.678, None, None, 1)) == "1.235e+04"
    assert _short("floor: no graph, same budget (mlp)") == "floor (mlp)"
    assert _short("control: one hop of labels, same budget") == "control: one hop of labels"


def test_the_line_is_of_what_the_graph_adds_to():
    def ends(**means):
        return {name: {"mean": mean} for name, mean in means.items()}

    scores = {"floor": ends(accuracy=0.92, log_loss=0.28), "ceiling": ends(accuracy=0.924, log_loss=0.24)}
    result = {
        "score": "accuracy", "graph_gain_recovered": 0.5, "floor": {"mean": 0.92}, "ceiling": {"mean": 0.924},
        "test_scores": ends(accuracy=0.922, log_loss=0.25), "control_scores": scores,
        "verdict": {"kept": {"accuracy": None, "log_loss": {"share": 0.75, "low": 0.5, "high": 0.9}}},
    }  # fmt: skip
    assert str(price_line(result)).startswith("log-loss: floor 0.28 ━")
    nothing = {**result, "verdict": {"kept": {"accuracy": None, "log_loss": None}}}
    assert str(price_line(nothing)) == "floor 92.0 %, this run 92.2 %, ceiling 92.4 %"
