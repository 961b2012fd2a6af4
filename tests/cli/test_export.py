"""What `sfumato export` and `--public-ids` write, and that they refuse before they write or spend."""

import csv
import json
from pathlib import Path

import pytest

EDGE = ("--unit", "edge", "--epsilon", "4", "--delta", "1e-5")


@pytest.fixture
def run(sfumato, tables, tmp_path):
    assert sfumato("train", "gap", *tables["first"], *EDGE, "--public-ids", "--out", tmp_path / "run").code == 0
    return tmp_path / "run"


def test_public_ids_are_those_of_the_table(run, sfumato, tables):
    with Path(tables["first"][1]).open(newline="") as file:
        ids = [row["id"] for row in csv.DictReader(file)]
    assert (run / "release" / "ids.txt").read_text().split("\n") == ids
    assert sfumato("verify", run).code == 0


def test_ids_that_cannot_be_listed_stop_a_run_before_it_spends(sfumato, tables, tmp_path):
    nodes = tmp_path / "nodes.csv"
    nodes.write_text(Path(tables["first"][1]).read_text().replace("n7,", '"n\t7",'))
    edges = tmp_path / "edges.csv"
    edges.write_text("source,target\nn0,n1\n")
    named = ("--nodes", nodes, "--edges", edges, "--label", "year", "--ledger", tmp_path / "all.jsonl")
    result = sfumato("train", "gap", *named, "--total-epsilon", "9", *EDGE, "--public-ids", "--out", tmp_path / "run")
    assert (result.code, result.out) == (2, "")
    assert "Expected printable node ids" in result.err
    assert not (tmp_path / "run").exists()
    assert not (tmp_path / "all.jsonl").exists()


def test_onnx_is_written_once(run, sfumato, tmp_path):
    pytest.importorskip("onnx", reason="onnx is not installed")
    out = tmp_path / "models" / "model.onnx"
    told = json.loads(sfumato("export", "onnx", run / "release", "--out", out, "--json").out)
    assert told == {"out": str(out), "bytes": out.stat().st_size}
    before = out.read_bytes()
    result = sfumato("export", "onnx", run, "--out", out)
    assert result.code == 2
    assert "which exists" in result.err
    assert out.read_bytes() == before


def test_an_mlflow_model_is_written_without_mlflow(run, sfumato, refused, tmp_path):
    pytest.importorskip("onnx", reason="onnx is not installed")
    out = tmp_path / "models" / "mlflow"
    told = sfumato("export", "mlflow", run / "release", "--out", out, "--json")
    assert (told.code, json.loads(told.out)) == (0, {"out": str(out)})
    names = ["MLmodel", "README.md", "model.onnx", "python_env.yaml", "requirements.txt"]
    assert sorted(path.name for path in out.iterdir()) == names
    described = json.loads((out / "MLmodel").read_text())  # JSON is YAML, too
    assert described["flavors"]["python_function"]["loader_module"] == "mlflow.onnx"
    inputs = {one["name"]: one["tensor-spec"] for one in json.loads(described["signature"]["inputs"])}
    assert inputs["features"] == {"dtype": "float32", "shape": [-1, 4]}
    assert inputs["aggregate_1"]["dtype"] == "int64"
    claim = json.loads((run / "release" / "certificate.json").read_text())["claim"]
    assert {name: float(described["metadata"][name]) for name in claim} == claim
    assert (out / "README.md").read_text().startswith("---\nmodel_name: ")
    refused("which exists", "export", "mlflow", run, "--out", out)


def test_onnx_of_another_method_is_refused(sfumato, refused, tables, tmp_path):
    pytest.importorskip("onnx", reason="onnx is not installed")
    assert sfumato("train", "mlp", *tables["first"], *EDGE, "--out", tmp_path / "run").code == 0
    refused(
        "to be one of label-messages, graph-free, linear, gap",
        "export",
        "onnx",
        tmp_path / "run",
        "--out",
        tmp_path / "m",
    )


def test_export_says_which_package_is_missing(sfumato, monkeypatch, tmp_path):
    monkeypatch.setattr("sfumato._optional._found", lambda name: name != "onnx")
    result = sfumato("export", "onnx", tmp_path, "--out", tmp_path / "model.onnx")
    assert result.code == 2
    assert "pip install onnx" in result.err
