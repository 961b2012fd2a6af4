"""The recipe of docs/extending.md, carried out on a copy of the library: then everything knows the method."""

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
BLOCK = re.compile(r"^```\w+\n# (src/\S+?\.(?:py|toml))(?:, in (\w+))?\n(.*?)^```", re.MULTILINE | re.DOTALL)
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
[[run]]
label = "group"
method = "neighbor-labels"
unit = "group:3"
epsilons = [1.0]
delta = 1e-6
"""
USE = r"""
from pathlib import Path
import numpy as np
import sfumato
from sfumato.cli import invoke
from sfumato.graph._synthetic import stochastic_block_model

assert Path(sfumato.__file__).is_relative_to({copy!r}), sfumato.__file__
graph = stochastic_block_model(120, 3, mean_degree=20, num_features=2, seed=1)
nodes = [f"{{v}},{{a:.4f}},{{b:.4f}},{{label}}" for v, ((a, b), label) in enumerate(zip(graph.x, graph.y))]
sources = np.repeat(np.arange(120), np.diff(graph.indptr))
Path("nodes.csv").write_text("id,a,b,label\n" + "\n".join(nodes))
Path("edges.csv").write_text("from,to\n" + "\n".join(f"{{u}},{{v}}" for u, v in zip(sources, graph.indices) if u < v))
data = "--nodes nodes.csv --edges edges.csv --label label --unit edge --epsilon 1 --delta 1e-6 --threads 1".split()
Path("data/karate").mkdir(parents=True)
Path("data/karate/edges.csv").write_text("a,b\n" + "\n".join(f"{{v}},{{(v + 2) % 34}}" for v in range(34)))
Path("data/karate/sides.txt").write_text("\n".join(str(v % 2) for v in range(34)))
club = "--dataset karate --data-dir data --unit edge --epsilon 4 --delta 0 --threads 1 --no-controls".split()
for command in (
    ["datasets", "--data-dir", "data"],
    ["datasets", "karate", "--data-dir", "data"],
    ["train", "label-messages", *club, "--out", "club"],
    ["train", "neighbor-labels", *data, "--controls", "--hops", "2", "--out", "trained", "--json"],
    ["tune", "neighbor-labels", *data, "--out", "tuned"],
    ["train", "neighbor-labels", *data, "--unit", "group:3", "--out", "grouped"],
    ["verify", "grouped"],
    ["report", "grouped", "--out", "grouped.html"],
    ["predict", "trained", "--out", "predictions.csv"],
    ["verify", "trained"],
    ["verify", "tuned"],
    ["report", "trained", "--out", "report.html"],
    ["cite", "trained"],
    ["experiment", "run", "toy.toml", "--results", "results"],
    ["train", "label-bits", *data, "--unit", "record", "--assume-public", "--out", "bits"],
    ["verify", "bits"],
    ["report", "bits", "--out", "bits.html"],
    ["report", "bits", "--audience", "public", "--out", "public.html"],
    ["audit", "bits"],
    ["train", "--help"],
    ["tune", "--help"],
    ["check", "--help-all"],
    ["train", "gap", *data, "--half-life", "30", "--no-controls", "--out", "halved"],
):
    print("$", *command, flush=True)
    assert invoke(command) == 0, command
assert invoke(["train", "gap", *data, "--unit", "group:3", "--ledger", "group.jsonl", "--total-epsilon", "3",
               "--out", "refused"]) == 2
assert not Path("refused").exists() and not Path("group.jsonl").exists()
from sfumato.privacy import accounting
from sfumato.privacy.events import UnaryEncodingEvent
from sfumato.verify._epsilon import epsilon_bracket
from sfumato.verify._label_bits import Bits
event = UnaryEncodingEvent(0.5, 8)
low, high = epsilon_bracket([event.to_dict()], 1e-6)
assert low <= accounting.epsilon([event], 1e-6) <= 1.001 * high < 4
class Held:
    dtype = "U8"
    def __init__(self, value):
        self.array = lambda: np.array([[value]])
assert [len(list(Bits("bits", [1, 1], 0).value_faults({{"bits": Held(value)}}))) for value in (1, 2)] == [0, 1]
import docs_pages
print("$ docs")
print('"const": "unary-encoding"' in docs_pages.schema_file())
print(docs_pages.methods_table())
"""


def blocks():
    """File, place and text of every block of the page that names a file."""
    return BLOCK.findall((ROOT / "docs" / "extending.md").read_text(encoding="utf-8"))


def unfinished(folder, names):
    """What other tests' processes may be writing beside what is compiled."""
    return [name for name in names if folder.endswith("__pycache__") and not name.endswith((".pyc", ".nbi", ".nbc"))]


def place(text, table):
    """Where the first entry of a table stands, the first row of options, or the first import of the package."""
    if table == "imports":
        return re.search(r"^from (?:sfumato|\.)", text, re.MULTILINE).start()
    if table == "Options":
        return re.search(r"^class Options(?:\([\w, ]+\))?:\n    \"\"\"(?:.|\n)*?\"\"\"\n\n", text, re.MULTILINE).end()
    return re.search(rf"^(?:{table}(?:: .+)? = [({{]|\[{table}\])\n", text, re.MULTILINE).end()


@pytest.fixture(scope="module")
def copy(tmp_path_factory):
    """A copy of the library, with what is compiled of it, and the method of the page."""
    root = tmp_path_factory.mktemp("copy")
    shutil.copytree(ROOT / "src", root / "src", ignore=unfinished)
    for name, table, text in blocks():
        path = root / name
        if table:
            before = path.read_text(encoding="utf-8")
            start = place(before, table)
            path.write_text(before[:start] + text + before[start:], encoding="utf-8")
        else:
            assert not path.exists()
            path.write_text(text, encoding="utf-8")
    return root


def run(root, *arguments):
    """Python in a process of its own that sees the copy and no other Sfumato."""
    seen = os.pathsep.join([str(root / "src"), str(ROOT / "tools")])
    environment = {**os.environ, "PYTHONPATH": seen, "OMP_NUM_THREADS": "1", "COLUMNS": "200"}
    done = subprocess.run([sys.executable, *arguments], cwd=root, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    return done.stdout


def test_the_page_adds_files_and_single_lines():
    """The method: a file, a line in a table, an entry of rules. The unit: a class, its import, an entry in each of three tables.

    The event: two files, and a line for each. The kind of release: a class, and its words in two tables. The data set: a parser,
    a row, a card and an origin. The option: a row.
    """
    found = [
        (name.removeprefix("src/sfumato/"), table, text.count("\n") if table else 0) for name, table, text in blocks()
    ]
    assert found == [
        ("central/_neighbor_labels.py", "", 0),
        ("catalog.py", "_METHODS", 1),
        ("verify/_methods.py", "METHODS", 6),
        ("privacy/edge_groups.py", "", 0),
        ("privacy/units.py", "imports", 1),
        ("privacy/units.py", "UNITS", 1),
        ("bounded/aggregation.py", "HOPS", 1),
        ("verify/_units.py", "UNITS", 4),
        ("privacy/events/_unary_encoding.py", "", 0),
        ("privacy/events/__init__.py", "imports", 1),
        ("verify/events/_unary_encoding.py", "", 0),
        ("verify/events/__init__.py", "_NAMES", 1),
        ("central/_label_bits.py", "", 0),
        ("catalog.py", "_METHODS", 1),
        ("verify/_label_bits.py", "", 0),
        ("verify/_methods.py", "imports", 1),
        ("verify/_methods.py", "METHODS", 5),
        ("audit/_promises.py", "_LEAVES", 1),
        ("report/_everyday.py", "SEEN", 1),
        ("datasets/_karate.py", "", 0),
        ("datasets/_listing.py", "KNOWN", 1),
        ("datasets/_listing.py", "CARDS", 1),
        ("datasets/origins.toml", "origin", 1),
        ("cli/_options.py", "Options", 1),
    ]


def test_everything_knows_the_method(copy):
    (copy / "toy.toml").write_text(SPEC)
    text = run(copy, "-c", USE.format(copy=str(copy)))
    shown = dict(part.split("\n", 1) for part in text.split("$ ")[1:])
    assert '"method": "neighbor-labels"' in text
    for command, words in {
        "datasets --data-dir": "karate",
        "datasets karate": "karate/sides.txt: there",
        "train label-messages": "(unit edge)",
        "--out trained": '"floor": {"mean"',
        "cite trained": "sajadmanesh2023gap",
        "verify grouped": "unit: most 3, name group, relation add-remove",
        "verify bits": "VALID: bits",
        "train --help": "neighbor-labels",
        "tune --help": "neighbor-labels",
        "check --help-all": "--half-life <float>",
        "docs": "| `neighbor-labels` | ",
    }.items():
        (found,) = (output for line, output in shown.items() if command in line)
        assert words in found
    assert shown["docs"].startswith("True\n")
    assert "neighbor-labels" in (copy / "report.html").read_text()
    assert "any 3 undirected edges together" in (copy / "grouped.html").read_text()
    assert "bits of optimized unary encoding, epsilon 1" in (copy / "bits.html").read_text()
    assert "the group of each person, changed at random" in (copy / "public.html").read_text()
    rows = [json.loads(line) for line in (copy / "results" / "toy" / "results.jsonl").read_text().splitlines()]
    assert [(row["unit"], row["status"]) for row in rows] == [("edge", "done"), ("group:3", "done")]
    certificates = [
        json.loads((copy / run / "release" / "certificate.json").read_text()) for run in ("trained", "grouped")
    ]
    assert [one["unit"]["name"] for one in certificates] == ["edge", "group"]


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
        str(suite.with_name("test_rules.py")),
        "-k",
        "neighbor-labels or (test_rules and label-bits)",
    )
    assert int(re.search(r"(\d+) passed", text)[1]) > 30
