"""The script of docs/handover.md predicts what the package predicts, in a process that has NumPy and safetensors alone."""

import csv
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import sfumato as sf
from sfumato.central._linear import Linear
from sfumato.graph import read_csv
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


@pytest.fixture(scope="module")
def fitted_runs(fit, message_runs):
    """Runs of label messages, of models without a graph, and of GAP."""
    return {
        **message_runs,
        "graph-free": fit(sf.GraphFree(epochs=5)),
        "linear": fit(Linear(epochs=5)),
        "linear-record": fit(Linear(epochs=5), sf.RecordLevel()),
        "mlp": fit(sf.MLP(epochs=5, num_layers=3)),
        "mlp-record": fit(sf.MLP(epochs=5), sf.RecordLevel()),
        "gap": fit(sf.GAP(epochs=2)),
        "gap-encoder": fit(sf.GAP(epochs=2, encoder=False, num_hops=3)),
    }


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
