"""Links from feature reports on the command line: train, verify, report, score pairs, and what is refused."""

import csv
import json

import numpy as np
import pytest

ASKED = ("--task", "link", "--epsilon-x", "1", "--set", "max_epochs=20")


@pytest.fixture
def run(run_of):
    return run_of(f"pgc {' '.join(ASKED)}")


def read(path):
    with path.open(newline="") as file:
        return list(csv.reader(file))


def test_train_prints_scores_beside_controls_and_releases_reports(sfumato, tables, tmp_path):
    out = tmp_path / "run"
    result = sfumato("train", "pgc", *tables["first"], *ASKED, "--controls", "--out", out)
    assert result.code == 0
    for words in ("AUC", "floor: links alone, no feature", "ceiling: features in the clear", "Adamic-Adar"):
        assert words in result.out
    assert "anyone may see reports, codes of nodes (if every link may be known)" in result.out
    metrics = json.loads((out / "evaluation" / "metrics.json").read_text())
    assert (metrics["method"], metrics["task"], metrics["test_auc"]["seeds"]) == ("pgc-links", "link", 1)
    assert metrics["privacy"] == {
        "unit": "local", "relation": "replace", "epsilon": 4.0, "delta": 0.0, "epsilon_x": 1.0, "epsilon_y": None,
        "per_feature": True,
    }  # fmt: skip
    assert sfumato("verify", out).code == 0
    assert sfumato("report", out).code == 0
    page = (out / "reports" / "index.html").read_text()
    assert "AUC of held-out links beside its controls" in page
    assert "Floor: links alone, no feature" in page
    assert "what the graph adds" not in page
    assert "Confusion matrix" not in page
    assert "Links are not protected" in (out / "guarantee.txt").read_text()


def test_held_out_links_and_scores_are_not_in_the_release(sfumato, run):
    assert {path.name for path in (run / "release").iterdir()} == {
        "certificate.json", "ledger.jsonl", "manifest.json", "model.safetensors", "releases.safetensors", "spec.json",
    }  # fmt: skip
    certificate = json.loads((run / "release" / "certificate.json").read_text())
    assert (certificate["claim"], [one["name"] for one in certificate["releases"]]) == (
        {"epsilon": 4.0, "delta": 0.0},
        ["feature-reports"],
    )
    assert "auc" not in json.dumps(certificate).lower()


def test_pairs_best_others_and_codes_come_from_released_codes_alone(sfumato, run, tmp_path):
    from safetensors.numpy import load_file

    codes = load_file(run / "release" / "model.safetensors")["codes"].astype(float)
    pairs = tmp_path / "pairs.csv"
    pairs.write_text("from,to\nn3,n7\nn7,n3\nn0,n1\n")
    result = sfumato("predict", run, "--pairs", pairs, "--out", tmp_path / "scores.csv")
    assert "Anyone who may know every link may see them." in result.out
    header, *lines = read(tmp_path / "scores.csv")
    assert header == ["from", "to", "score"]
    assert [float(line[2]) for line in lines] == pytest.approx(
        [codes[3] @ codes[7]] * 2 + [codes[0] @ codes[1]], abs=1e-5
    )
    assert sfumato("predict", run, "--embeddings", tmp_path / "rows.csv").code == 0
    header, *lines = read(tmp_path / "rows.csv")
    assert header == ["node", *(f"e{column}" for column in range(16))]
    np.testing.assert_allclose(np.array([line[1:] for line in lines], float), codes, rtol=1e-4, atol=1e-5)
    assert sfumato("predict", run, "--top", 2, "--out", tmp_path / "best.csv").code == 0
    first = read(tmp_path / "best.csv")[1]
    others = codes @ codes[0]
    others[0] = -np.inf
    assert first[:2] == ["n0", f"n{int(others.argmax())}"]


def test_other_commands_answer_or_say_why_not(sfumato, refused, run, tables, tmp_path):
    for options in (("--audience", "public"), ("--audience", "reviewer"), ()):
        assert sfumato("report", run, *options).code == 0
    assert "When Differential Privacy Meets Graph Neural Networks" in sfumato("cite", run).out
    assert sfumato("audit", run, "--size", "0.02", "--out", tmp_path / "audit").code == 0
    assert sfumato("export", "registry", run).code == 0
    scores = "Expected task to be link for method 'pgc-links'"
    refused(scores, "predict", run, "--out", tmp_path / "classes.csv")
    refused(scores, "evaluate", run)
    refused(scores, "attack", "links", run)
    new = ("--new-nodes", tmp_path / "nodes.csv", "--new-edges", tmp_path / "edges.csv")
    refused("Expected a run that predicts classes with --new-nodes, got pgc-links", "predict", run, *new)
    refused("Expected the fitted graph", "predict", run, "--top", 1, *tables["second"], "--out", tmp_path / "best.csv")


def test_no_label_is_needed(sfumato, tables, tmp_path):
    nodes, edges = (tables["first"][tables["first"].index(option) + 1] for option in ("--nodes", "--edges"))
    result = sfumato(
        "train", "pgc", "--nodes", nodes, "--edges", edges, *ASKED, "--no-controls", "--out", tmp_path / "run"
    )
    assert result.code == 0
    assert sfumato("verify", tmp_path / "run").code == 0
    facts = json.loads((tmp_path / "run" / "release" / "certificate.json").read_text())["public_facts"]
    assert (facts["num_classes"], facts["num_features"]) == (0, 5)


def test_features_in_the_clear_claim_nothing(sfumato, tables, tmp_path):
    options = ("--task", "link", "--epsilon-x", "inf", *ASKED[4:], "--no-controls", "--out", tmp_path / "run")
    result = sfumato("train", "pgc", *tables["first"], *options, "--json")
    assert result.code == 0
    assert json.loads(result.out)["privacy"]["epsilon"] is None
    found = json.loads(sfumato("verify", tmp_path / "run", "--json").out)
    assert (found["valid"], found["claim"]["epsilon"]) == (True, None)
