"""What `sfumato export` and `--public-ids` write, and that they refuse before they write or spend."""

import csv
import json
import random
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import load_file

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


def words_and_numbers(folder, size):
    """Write tables of people in three groups: words with spaces, booleans in two spellings, numbers, and missing cells."""
    draw, groups = random.Random(1), [one % 3 for one in range(size)]
    dorms = ["north", "south", "west side", ""]
    lines = [
        f"p{one},{dorms[k] if draw.random() < 0.6 else draw.choice(dorms)},{draw.choice(['', 18 + k, 20 + k])},"
        f"{draw.choice(['true', 'True', 'false']) if k else 'false'},{draw.gauss(k, 1):.3f},y{k}"
        for one, k in enumerate(groups)
    ]
    (folder / "nodes.csv").write_text("person,dorm,age,member,score,year\n" + "\n".join(lines) + "\n")
    edges = {f"p{one},p{(one + 3 * step) % size}" for one in range(size) for step in (1, 2, 5)}
    (folder / "edges.csv").write_text("source,target\n" + "\n".join(sorted(edges)) + "\n")
    (folder / "schema.toml").write_text("[columns]\nage = { min = 17, max = 22 }\nscore = { min = -2, max = 4 }\n")


@pytest.mark.parametrize("declared", [True, False])
def test_onnx_takes_texts_and_numbers_of_a_table(sfumato, refused, tmp_path, declared):
    pytest.importorskip("onnx", reason="onnx is not installed")
    runtime = pytest.importorskip("onnxruntime", reason="onnxruntime is not installed")
    words_and_numbers(tmp_path, 3000)
    named = ("--nodes", tmp_path / "nodes.csv", "--edges", tmp_path / "edges.csv", "--label", "year")
    run, out = tmp_path / "run", tmp_path / "model.onnx"
    schema = ("--schema", tmp_path / "schema.toml") if declared else ()
    told = sfumato("train", "auto", *named, *schema, *EDGE, "--no-controls", "--out", run)
    assert told.code == 0, told.err
    assert sfumato("predict", run, "--out", tmp_path / "predictions.csv").code == 0
    assert sfumato("export", "onnx", run, "--table", "--out", out).code == 0
    with (tmp_path / "nodes.csv").open(newline="") as file:
        table = list(csv.DictReader(file))
    with (tmp_path / "predictions.csv").open(newline="") as file:
        expected = np.array([[float(row[f"p(y{k})"]) for k in range(3)] for row in csv.DictReader(file)])
    session = runtime.InferenceSession(str(out), providers=["CPUExecutionProvider"])
    released = load_file(run / "release" / "releases.safetensors")
    given = {}
    for one in session.get_inputs():
        if one.name.startswith("aggregate_"):
            given[one.name] = released[one.name.replace("_", "/")]
        elif one.type == "tensor(string)":
            given[one.name] = np.array([[row[one.name]] for row in table], object)
        else:
            given[one.name] = np.array([[float(row[one.name] or "nan")] for row in table], np.float32)
    assert {"dorm", "age", "member", "score"} <= set(given)
    (found,) = session.run(None, given)
    assert np.abs(found - expected).max() < 1e-5
    assert (found.argmax(axis=1) == expected.argmax(axis=1)).all()
    source = run / "evaluation" / "source.json"
    read = json.loads(source.read_text())
    source.write_text(json.dumps(read | {"text": ["dorm"], "text_features": "hashing"}))
    refused("a node table without texts", "export", "onnx", run, "--table", "--out", tmp_path / "other.onnx")
    refused("source.json", "export", "onnx", run / "release", "--table", "--out", tmp_path / "other.onnx")


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
