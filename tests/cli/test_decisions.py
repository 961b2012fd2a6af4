"""`sfumato predict` with a coverage, a threshold or a top: columns of the file, what is said, and refusals before a charge."""

import csv
import json

import pytest

EDGE = ("--unit", "edge", "--epsilon", "4", "--delta", "0", "--json", "--no-controls")


@pytest.fixture
def trained(run_of):
    return run_of("label-messages --unit edge --epsilon 4 --delta 0 --split 50/25/25")


@pytest.fixture
def predicted(sfumato, trained, tmp_path):
    """Predict with options; rows of the file, and the result of the command."""

    def run(*options):
        result = sfumato("predict", trained, *options, "--out", tmp_path / "p.csv", "--force")
        assert result.code == 0, result.err
        return list(csv.DictReader((tmp_path / "p.csv").read_text().splitlines())), result

    return run


def test_a_file_of_sets_covers_validation_nodes(predicted):
    rows, result = predicted("--coverage", "0.9")
    assert list(rows[0])[-2:] == ["source", "set"]
    held = [row["known_label"] in row["set"].split("; ") for row in rows if row["role"] == "val"]
    assert 0.9 <= sum(held) / len(held) <= 0.94
    assert all(row["set"] == row["known_label"] for row in rows if row["source"] == "known")
    assert (
        "Sets hold the true class of 90 % of new nodes on average, if new nodes are exchangeable with the 50"
        in result.out
    )
    again, result = predicted("--coverage", "0.9", "--each-class", "--json")
    told = json.loads(result.out)
    assert told["sets"]["each_class"] is True
    assert told["sets"]["validation_nodes"] == 50
    assert again != rows


def test_a_file_of_chosen_nodes_has_ranks_where_they_were_ranked(predicted):
    rows, result = predicted("--positive", "2005", "--threshold", "recall=0.8", "--json")
    told = json.loads(result.out)["threshold"]
    assert sum(row["chosen"] == "true" for row in rows) == told["chosen"]
    assert told["validation_right"] >= 0.8 * told["validation_positive"]
    assert list(rows[0])[-1] == "chosen"
    rows, result = predicted("--positive", "2005", "--top-share", "0.1")
    assert list(rows[0])[-2:] == ["rank", "chosen"]
    chosen = [row for row in rows if row["chosen"] == "true"]
    assert sorted(int(row["rank"]) for row in chosen) == list(range(1, 11))
    assert all(row["role"] != "train" for row in chosen)
    assert "Chosen: 10 of the 100 nodes that had no part in training" in result.out
    _, result = predicted("--positive", "2005", "--top-count", "7", "--json")
    assert json.loads(result.out)["top"]["chosen"] == 7


def test_a_decision_is_refused_before_anything_is_charged(refused, trained, tables, tmp_path):
    other = (*tables["second"], "--epsilon", "2", "--delta", "0", "--new-run", tmp_path / "new")
    words = "its validation nodes say nothing sure of nodes that were not drawn with them"
    refused(words, "predict", trained, *other, "--coverage", "0.9", "--out", tmp_path / "p.csv")
    recall = ("--positive", "2005", "--threshold", "recall=0.5")
    refused(words, "predict", trained, *other, *recall, "--out", tmp_path / "p.csv")
    refused(words, "predict", trained, "--new-nodes", "n", "--new-edges", "e", "--coverage", "0.9")
    refused("positive to be one of 2004, 2005, 2006", "predict", trained, *other, "--positive", "x", "--top-count", "3")
    refused("without a decision about classes", "predict", trained, "--top", "2", "--coverage", "0.9")
    assert not (tmp_path / "new").exists()
    assert not (tmp_path / "p.csv").exists()


def test_a_top_of_another_graph_is_charged_and_written(sfumato, trained, tables, tmp_path):
    other = (*tables["second"], "--epsilon", "2", "--delta", "0", "--new-run", tmp_path / "new", "--json")
    result = sfumato("predict", trained, *other, "--positive", "2005", "--top-count", "5", "--out", tmp_path / "p.csv")
    assert result.code == 0, result.err
    told = json.loads(result.out)
    assert told["epsilon_spent"] == pytest.approx(2)
    assert (told["top"]["chosen"], told["top"]["ranked"]) == (5, 200)


NODE = ("--unit", "node", "--epsilon", "8", "--delta", "1e-5", "--json", "--no-controls", "--assume-public")


def test_a_coverage_is_charged_once_where_labels_are_protected(sfumato, refused, tables, tmp_path):
    run, shared = tmp_path / "run", ("--ledger", tmp_path / "ledger.jsonl")
    train = ("train", "label-messages", *tables["first"], *NODE, *shared, "--total-epsilon", "9", "--out", run)
    assert sfumato(*train).code == 0
    ask = ("predict", run, "--coverage", "0.9", "--out", tmp_path / "p.csv", "--force")
    refused("`sfumato predict --coverage C --epsilon E` (sf.calibrate_sets in Python) charges one that pays", *ask)
    refused(f"Expected --ledger {tmp_path / 'ledger.jsonl'}, since the run was charged to it", *ask, "--epsilon", "0.5")
    assert not (run / "sets").exists()
    result = sfumato(*ask, "--epsilon", "0.5", *shared)
    assert result.code == 0, result.err
    assert "set-calibration protects any one node" in result.err
    assert "drawn at random with them" in result.out
    assert "sets; several" not in result.out  # how many sets hold one class follows from protected features
    first = (tmp_path / "p.csv").read_bytes()
    again = sfumato(*ask, "--json")
    told = json.loads(again.out)
    assert (told["epsilon_spent"], (tmp_path / "p.csv").read_bytes()) == (0.0, first)
    assert told["sets"].keys() == {"coverage", "each_class", "validation_nodes", "low"}
    other = sfumato(*ask, "--coverage", "0.5")
    assert other.code == 0
    assert (tmp_path / "p.csv").read_bytes() != first
    refused("predicting on this one is free. Drop them", *ask, "--epsilon", "0.5", *shared)
    assert sfumato("verify", run / "sets").code == 0
    assert "sets was not checked: it holds a release of its own" in sfumato("verify", run).out
    assert sfumato("ledger", "show", tmp_path / "ledger.jsonl", "--json").code == 0
    spent = [json.loads(line) for line in (tmp_path / "ledger.jsonl").read_text().splitlines()]
    assert "0.4999" in json.dumps(spent) or "0.5" in json.dumps(spent)
    result = sfumato(*ask[:2], "--coverage", "0.9", "--out", tmp_path / "q.csv")
    assert result.code == 0
    (run / "sets" / "release" / "ledger.jsonl").rename(tmp_path / "gone")
    assert sfumato(*ask).code == 2


def test_counts_of_another_run_are_refused(sfumato, refused, tables, tmp_path):
    for name in ("one", "two"):
        assert sfumato("train", "label-messages", *tables["first"], *NODE, "--out", tmp_path / name).code == 0
    ask = ("--coverage", "0.9", "--epsilon", "0.5", "--out", tmp_path / "p.csv")
    assert sfumato("predict", tmp_path / "one", *ask).code == 0
    (tmp_path / "one" / "sets").rename(tmp_path / "two" / "sets")
    words = "to hold counts that calibrate sets of this run, got those of another"
    refused(words, "predict", tmp_path / "two", *ask[:2], "--out", tmp_path / "q.csv")
