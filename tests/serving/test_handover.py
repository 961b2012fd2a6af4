"""The script of docs/handover.md predicts what the package predicts, in a process that has NumPy and safetensors alone."""

import csv
import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import sfumato as sf
from sfumato.central._graph_free import GraphFree
from sfumato.graph import read_csv, stochastic_block_model
from sfumato.method._graph_key import GraphKey

PAGE = Path(__file__).parents[2] / "docs" / "handover.md"
SCRIPT = re.search(r"```python\n(# predict\.py\n.*?)```", PAGE.read_text(), re.DOTALL)[1]
ALONE = """
import sys

class Nothing:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] not in {*sys.stdlib_module_names, "numpy", "safetensors"}:
            raise ModuleNotFoundError(name)

sys.meta_path.insert(0, Nothing())
"""
EDGE, BUDGET = sf.EdgeLevel(directed=False), sf.Budget(2.0, 1e-6)


@pytest.fixture(scope="module")
def graph():
    return stochastic_block_model(90, 3, mean_degree=12, num_features=4, seed=0).with_split()


@pytest.fixture(scope="module")
def fitted_runs(graph):
    """Runs of label messages on each kind of graph-free model, with and without messages, and of GAP."""

    def fit(method):
        return method.calibrate(BUDGET, EDGE, graph.public_facts(EDGE)).fit(graph)

    met = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(GraphFree, "best", lambda self, public, graph, found: met.extend(found) or found[0])
        labels = fit(sf.LabelMessages(epochs=5))
        one_hop = fit(sf.LabelMessages(epochs=5, num_hops=1))
    kinds = {next(iter(one)).partition(".")[0]: one for one in met}
    assert set(kinds) == {"network", "linear", "trees"}
    runs = {"gap": fit(sf.GAP(epochs=2)), "gap-encoder": fit(sf.GAP(epochs=2, encoder=False, num_hops=3))}
    for two, run in (("two", labels), ("one", one_hop)):
        generator = np.random.default_rng(0)
        head = {"head.weight": generator.normal(size=(3, 13)), "head.bias": generator.normal(size=3)}
        head |= {"class.shares": np.array([0.7, 0.2, 0.1])}
        head |= {"later.weight": np.array([0.5])} if two == "two" else {}
        for kind, weights in kinds.items():
            alone = {f"prior.{name}": array for name, array in weights.items()}
            runs[f"{two}-{kind}"] = replace(run, weights=alone | {k: v.astype(np.float32) for k, v in head.items()})
            runs[f"{two}-{kind}-alone"] = replace(run, weights=alone)
    return runs


def test_the_script_predicts_what_the_package_predicts(fitted_runs, graph, tmp_path):
    np.save(tmp_path / "x.npy", graph.x)
    for name, fitted in fitted_runs.items():
        fitted.save(tmp_path / name)
    calls = "x = np.load('x.npy')\n" + "".join(
        f"np.save('{name}.npy', predict('{name}/release', x))\n" for name in fitted_runs
    )
    (tmp_path / "script.py").write_text(ALONE + SCRIPT + calls)
    subprocess.run([sys.executable, "script.py"], cwd=tmp_path, check=True)
    for name, fitted in fitted_runs.items():
        expected = fitted.predict_proba(graph)
        assert np.abs(np.load(tmp_path / f"{name}.npy") - expected).max() < 1e-5, name
        assert np.ptp(expected, axis=0).max() > 0.01, name  # they tell nodes apart


def test_the_process_has_neither_the_package_nor_torch(tmp_path):
    for name in ("sfumato", "torch", "scipy"):
        found = subprocess.run([sys.executable, "-c", f"{ALONE}import {name}"], cwd=tmp_path, capture_output=True)
        assert b"ModuleNotFoundError" in found.stderr


@pytest.mark.parametrize("age", [{}, {"min": 18, "max": 60}, {"min": 18}, {"max": 60}])
def test_the_script_encodes_tables_as_the_package_does(age, tmp_path):
    (tmp_path / "nodes.csv").write_text(
        "person,dorm,age,year,member\np0,north,20,2004,True\np1,south,9,2005,False\np2,,75,2004,True\np4,south,,2004,\n"
        "p5,NA,NaN,2004,False\np3,north,18.5,2005,True\n"
    )
    (tmp_path / "edges.csv").write_text("from,to\np0,p1\np2,p3\n")
    schema = {"columns": {"age": age}} if age else None
    graph = read_csv(str(tmp_path / "nodes.csv"), str(tmp_path / "edges.csv"), label="year", schema=schema)
    with (tmp_path / "nodes.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    names = {}
    exec(SCRIPT, names)
    found = names["encode"](rows, GraphKey.of(graph).to_dict())
    assert graph.feature_names == ("dorm=north", "dorm=south", "age", "member=false", "member=true")
    assert np.abs(found - graph.x).max() < 1e-6
