"""What `sfumato export` and `--public-ids` write, and that they refuse before they write or spend."""

import csv
import json
import os
import random
import re
import shutil
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import numpy as np
import pytest
from browsing import opened
from safetensors.numpy import load_file

HANDOVER = Path(__file__).parents[2] / "docs" / "handover.md"
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


def exported(sfumato, folder, method, *schema):
    """Train on 3,000 people, predict, and export with a threshold: the run, the file, the inputs of all rows, the predictions."""
    words_and_numbers(folder, 3000)
    named = ("--nodes", folder / "nodes.csv", "--edges", folder / "edges.csv", "--label", "year")
    run, out, chosen = folder / "run", folder / "model.onnx", ("--positive", "y1", "--threshold", "cost=2:3")
    told = sfumato("train", method, *named, *schema, *EDGE, "--no-controls", "--out", run)
    assert told.code == 0, told.err
    assert sfumato("predict", run, *chosen, "--out", folder / "predictions.csv").code == 0
    assert sfumato("export", "onnx", run, "--table", *chosen, "--out", out).code == 0
    rows, predicted = (
        list(csv.DictReader((folder / name).read_text().splitlines())) for name in ("nodes.csv", "predictions.csv")
    )
    released, given = load_file(run / "release" / "releases.safetensors"), {}
    for name in ("dorm", "member"):
        given[name] = np.array([[row[name]] for row in rows], object)
    for name in ("age", "score"):
        given[name] = np.array([[float(row[name] or "nan")] for row in rows], np.float32)
    return run, out, given | {name.replace("/", "_"): part for name, part in released.items()}, predicted


@pytest.mark.parametrize(("method", "declared"), [("auto", True), ("auto", False), ("linear", True), ("mlp", True)])
def test_onnx_takes_texts_and_numbers_of_a_table(sfumato, refused, tmp_path, method, declared):
    pytest.importorskip("onnx", reason="onnx is not installed")
    runtime = pytest.importorskip("onnxruntime", reason="onnxruntime is not installed")
    schema = ("--schema", tmp_path / "schema.toml") if declared else ()
    run, out, given, predicted = exported(sfumato, tmp_path, method, *schema)
    session = runtime.InferenceSession(str(out), providers=["CPUExecutionProvider"])
    assert {one.name for one in session.get_inputs()} == set(given)
    probabilities, classes, chosen = session.run(None, given)
    expected = np.array([[float(row[f"p(y{k})"]) for k in range(3)] for row in predicted])
    assert np.abs(probabilities - expected).max() < 1e-5
    own = np.array([row["source"] == "model" for row in predicted])
    assert own.sum() > 500
    names = json.loads(session.get_modelmeta().custom_metadata_map["classes"])
    assert [names[one] for one in classes[own]] == [
        row["predicted"] for row, there in zip(predicted, own, strict=True) if there
    ]
    assert (chosen[own] == np.array([row["chosen"] == "true" for row in predicted])[own]).all()
    assert 0 < chosen.sum() < len(chosen)
    said = session.get_modelmeta().custom_metadata_map
    assert json.loads(said["decision"]) == {"positive": "y1", "number": 1, "least": 0.4}
    assert json.loads(said["features"])[0].startswith("dorm=")
    source = run / "evaluation" / "source.json"
    read = json.loads(source.read_text())
    source.write_text(json.dumps(read | {"text": ["dorm"], "text_features": "hashing"}))
    refused("a node table without texts", "export", "onnx", run, "--table", "--out", tmp_path / "other.onnx")
    refused("source.json", "export", "onnx", run / "release", "--table", "--out", tmp_path / "other.onnx")
    recall = ("--positive", "y1", "--threshold", "recall=0.8", "--out", tmp_path / "other.onnx")
    refused("a number or cost=FP:FN for a file", "export", "onnx", run, *recall)


def test_a_page_in_a_browser_predicts_from_cells(sfumato, tmp_path):
    """The page of docs/handover.md, with onnxruntime-web from a folder: no server computes anything."""
    pytest.importorskip("onnx", reason="onnx is not installed")
    web = os.environ.get("SFUMATO_ORT_WEB")
    if web is None:
        pytest.skip("SFUMATO_ORT_WEB does not name the folder dist of the package onnxruntime-web")
    _, out, given, predicted = exported(sfumato, tmp_path, "auto", "--schema", tmp_path / "schema.toml")
    (page,) = re.findall(r"```html\n(.*?)```", HANDOVER.read_text(), re.DOTALL)
    rows = {name: cells[:300] for name, cells in given.items()}
    asked = {
        name: {"type": {"O": "string", "i": "int64", "f": "float32"}[cells.dtype.kind], "size": cells.shape[1],
               "cells": ["nan" if str(one) == "nan" else str(one) for one in cells.ravel()]}
        for name, cells in rows.items()
    }  # fmt: skip
    site = tmp_path / "site"
    shutil.copytree(
        web, site, ignore=lambda _, names: [one for one in names if not one.startswith(("ort.wasm", "ort-wasm"))]
    )
    shutil.copy(out, site / "model.onnx")
    (site / "index.html").write_text(page)
    quiet = type("Quiet", (SimpleHTTPRequestHandler,), {"log_message": lambda *_: None})
    with ThreadingHTTPServer(("127.0.0.1", 0), partial(quiet, directory=str(site))) as server, opened(tmp_path) as show:
        Thread(target=server.serve_forever, daemon=True).start()
        shown = show("<p>")
        shown.goto(f"http://127.0.0.1:{server.server_port}/index.html")
        found = shown.evaluate("asked => predict(asked)", asked)
        server.shutdown()
    expected = np.array([[float(row[f"p(y{k})"]) for k in range(3)] for row in predicted[:300]])
    assert np.abs(np.array(found["probabilities"]).reshape(-1, 3) - expected).max() < 1e-5
    assert [found["classes"][int(one)] for one in found["predicted"]] == [f"y{k}" for k in expected.argmax(axis=1)]
    assert 0 < sum(found["chosen"]) < 300


def test_onnx_of_another_method_is_refused(sfumato, refused, tables, tmp_path):
    pytest.importorskip("onnx", reason="onnx is not installed")
    assert sfumato("train", "progap", *tables["first"], *EDGE, "--out", tmp_path / "run").code == 0
    refused(
        "to be one of label-messages, graph-free, linear, mlp, gap",
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
