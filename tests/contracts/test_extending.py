"""The recipe of docs/extending.md, carried out on a copy of the library: then everything knows the method."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
BLOCK = re.compile(r"^```\w+\n# (src/\S+?\.py)(?:, in (\w+))?\n(.*?)^```", re.MULTILINE | re.DOTALL)
SPEC = """
name = "toy"
title = "A toy"
source = "docs/extending.md"
comments = []
dataset = "campus"
split = "75/10/15"
seeds = 1
axis = "epsilon"
[quick]
seeds = 1
minutes = 0.1
[[run]]
label = "toy"
method = "neighbor-labels"
unit = "edge"
epsilons = [1.0]
delta = 1e-6
settings = { num_hops = 2 }
"""
USE = r"""
import sys
from pathlib import Path
import numpy as np
import sfumato
from sfumato.cli import invoke
from sfumato.graph.synthetic import stochastic_block_model

sys.path.insert(0, {tools!r})
assert Path(sfumato.__file__).is_relative_to({copy!r}), sfumato.__file__
graph = stochastic_block_model(120, 3, mean_degree=20, num_features=2, seed=1)
nodes = [f"{{v}},{{a:.4f}},{{b:.4f}},{{label}}" for v, ((a, b), label) in enumerate(zip(graph.x, graph.y))]
sources = np.repeat(np.arange(120), np.diff(graph.indptr))
Path("nodes.csv").write_text("id,a,b,label\n" + "\n".join(nodes))
Path("edges.csv").write_text("from,to\n" + "\n".join(f"{{u}},{{v}}" for u, v in zip(sources, graph.indices) if u < v))
data = "--nodes nodes.csv --edges edges.csv --label label --unit edge --epsilon 1 --delta 1e-6 --threads 1".split()
for command in (
    ["train", "neighbor-labels", *data, "--controls", "--hops", "2", "--out", "trained", "--json"],
    ["tune", "neighbor-labels", *data, "--out", "tuned"],
    ["predict", "trained", "--out", "predictions.csv"],
    ["verify", "trained"],
    ["verify", "tuned"],
    ["report", "trained", "--out", "report.html"],
    ["cite", "trained"],
    ["experiment", "run", "toy.toml", "--results", "results"],
    ["train", "--help"],
    ["tune", "--help"],
):
    print("$", *command, flush=True)
    assert invoke(command) == 0, command
import docs_pages
print("$ docs")
print(docs_pages.methods_table())
"""


def blocks():
    """File, place and text of every block of the page that names a file."""
    return BLOCK.findall((ROOT / "docs" / "extending.md").read_text(encoding="utf-8"))


@pytest.fixture(scope="module")
def copy(tmp_path_factory):
    """A copy of the library with the method of the page."""
    root = tmp_path_factory.mktemp("copy")
    shutil.copytree(ROOT / "src", root / "src", ignore=shutil.ignore_patterns("__pycache__"))
    for name, table, text in blocks():
        path = root / name
        if table:
            before = path.read_text(encoding="utf-8")
            start = re.search(rf"^{table} = [({{]\n", before, re.MULTILINE).end()
            path.write_text(before[:start] + text + before[start:], encoding="utf-8")
        else:
            assert not path.exists()
            path.write_text(text, encoding="utf-8")
    return root


def run(root, *arguments):
    """Python in a process of its own that sees the copy and no other Sfumato."""
    environment = {**os.environ, "PYTHONPATH": str(root / "src"), "OMP_NUM_THREADS": "1", "COLUMNS": "200"}
    done = subprocess.run([sys.executable, *arguments], cwd=root, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    return done.stdout


def test_the_page_adds_two_files_and_two_lines():
    assert [(name, table, text.count("\n")) for name, table, text in blocks() if table] == [
        ("src/sfumato/catalog.py", "_METHODS", 1),
        ("src/sfumato/verify/methods.py", "METHODS", 1),
    ]
    assert [name for name, table, _ in blocks() if not table] == [
        "src/sfumato/central/neighbor_labels.py",
        "src/sfumato/verify/neighbor_labels.py",
    ]


def test_everything_knows_the_method(copy):
    (copy / "toy.toml").write_text(SPEC)
    text = run(copy, "-c", USE.format(tools=str(ROOT / "tools"), copy=str(copy)))
    shown = dict(part.split("\n", 1) for part in text.split("$ ")[1:])
    assert '"method": "neighbor-labels"' in text
    for command, words in {
        "train neighbor-labels": '"floor": {"mean"',
        "cite trained": "sajadmanesh2023gap",
        "train --help": "neighbor-labels",
        "tune --help": "neighbor-labels",
        "docs": "| `neighbor-labels` | undirected edge |",
    }.items():
        (found,) = (output for line, output in shown.items() if line.startswith(command))
        assert words in found
    assert "neighbor-labels" in (copy / "report.html").read_text()


def test_the_contract_suite_holds_for_the_method(copy):
    suite = ROOT / "tests" / "contracts" / "test_methods.py"
    text = run(
        copy,
        "-m",
        "pytest",
        "-q",
        "-p",
        "no:cacheprovider",
        "-c",
        str(ROOT / "pyproject.toml"),
        str(suite),
        "-k",
        "neighbor-labels",
    )
    assert int(re.search(r"(\d+) passed", text)[1]) > 30
