"""`sfumato predict --explain`: which cells and released rows moved one prediction, for whoever may see that prediction."""

import csv
import json

import pytest


@pytest.fixture
def run(small_campus, run_of):
    return run_of("gap --dataset campus --unit edge --epsilon 2 --delta 1e-6")


def test_it_prints_parts_by_what_they_moved(sfumato, run):
    result = sfumato("predict", run, "--explain", "7")
    assert result.code == 0
    for words in ("Node 7: the model predicts", "baseline", "dorm", "hop 1, released row", "━", "all 64 subsets"):
        assert words in result.out
    assert "not what causes what" in result.out
    assert result.err == "Anyone may see it, as anyone may see the prediction.\n"
    assert not (run / "predictions.csv").exists()


def test_json_and_file_have_an_amount_for_each_class(sfumato, run, tmp_path):
    told = json.loads(sfumato("predict", run, "--explain", "7", "--out", tmp_path / "why.csv", "--json").out)
    with (tmp_path / "why.csv").open(newline="") as file:
        lines = list(csv.DictReader(file))
    assert [line["part"] for line in lines] == ["baseline", *(part["part"] for part in told["parts"])]
    for name, total in told["log_odds"].items():
        assert sum(float(line[f"log_odds({name})"]) for line in lines) == pytest.approx(total)
        assert told["baseline"][name] + sum(part["log_odds"][name] for part in told["parts"]) == pytest.approx(total)
    assert told["class"] == max(told["log_odds"], key=told["log_odds"].get)
    assert told["epsilon_spent"] == 0.0
    assert sfumato("predict", run, "--explain", "8", "--out", tmp_path / "why.csv", "--force").code == 0


def test_at_node_level_it_is_for_the_node_alone(sfumato, small_campus, run_of):
    run = run_of("linear --dataset campus --unit node --epsilon 4 --delta 1e-6 --assume-public")
    result = sfumato("predict", run, "--explain", "7")
    assert "the released center" in result.out
    assert result.err == "It may be shown to this node only: it reads that node's features. It must not be published.\n"


def test_what_does_not_fit_is_refused(refused, run, tmp_path):
    refused("Expected the id of a node of the run, got 'bob'", "predict", run, "--explain", "bob")
    refused("Ask twice", "predict", run, "--explain", "7", "--coverage", "0.9")
    refused("--explain, got several", "predict", run, "--explain", "7", "--embeddings", tmp_path / "rows.csv")
