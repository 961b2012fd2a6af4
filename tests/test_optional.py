"""A base installation: what needs an optional package names the extra that brings it, and the rest works."""

import ast
import json
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from meta_exports import tree

import sfumato as sf
from sfumato._optional import EXTRAS, check_installed, homes_in, lazily, not_installed, require
from sfumato.errors import MissingDependencyError

ROOT = Path(__file__).parents[1]
BASE = """
import contextlib, io, json, sys

class Absent:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in {absent}:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

sys.meta_path.insert(0, Absent())
for name in {halted}:
    sys.modules[name] = None
"""
COMMANDS = """
from functools import partial
from sfumato.cli import invoke
from sfumato.datasets import _loading
_loading.campus = partial(_loading.campus, 300)
results = []
for command in json.loads(sys.argv[1]):
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code = invoke(command)
    results.append((code, err.getvalue()))
print(json.dumps(results))
"""
EDGE = ["--unit", "edge", "--epsilon", "1", "--delta", "1e-6"]
NEED = {
    "train": ["train", "auto", "--dataset", "campus", *EDGE, "--out", "run"],
    "predict": ["predict", "run"],
    "evaluate": ["evaluate", "run"],
    "tune": ["tune", "gap", "--dataset", "campus", *EDGE, "--out", "run"],
    "experiment run": ["experiment", "run", "lpgnn-table-3-4-cora", "--results", "results"],
    "experiment report": ["experiment", "report", "lpgnn-table-3-4-cora", "--results", "results"],
    "experiment list": ["experiment", "list"],
    "pate run": ["pate", "run", "--dataset", "mnist", "--data-dir", ".", "--queries", "9", "--epsilon", "9", "--out", "run"],
    "report": ["report", "run"],
}  # fmt: skip
WORK = {
    "datasets": ["datasets"],
    "budget": ["budget", "noise", "--epsilon", "1", "--delta", "1e-6"],
    "help": ["train", "--help"],
}


def base(code, *arguments, absent=tuple(EXTRAS), halted=(), folder=None):
    """Run code in a Python that has none of these packages."""
    script = BASE.replace("{absent}", repr(set(absent))).replace("{halted}", repr(tuple(halted))) + code
    done = subprocess.run([sys.executable, "-c", script, *arguments], cwd=folder, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_commands_name_the_extra_and_leave_nothing(tmp_path):
    asked = {**NEED, **WORK}
    results = json.loads(base(COMMANDS, json.dumps(list(asked.values())), folder=tmp_path))
    for name, (code, err) in zip(asked, results, strict=True):
        if name in WORK:
            assert (code, err) == (0, ""), name
            continue
        assert code == 2, name
        assert err.count("\n") == 1, err
        extras = "train,report" if "report" in name else "train"
        assert re.fullmatch(
            rf"Error: This needs .* not installed\. Install \w+: pip install 'sfumato\[{extras}\]'\n", err
        ), err
    assert not list(tmp_path.iterdir())


def test_label_messages_need_no_torch(tmp_path):
    """What ``sfumato`` alone installs trains, scores beside a floor, predicts and reports the default at edge level."""
    commands = [
        NEED["train"],
        *(NEED[name] for name in ("predict", "evaluate", "report")),
        ["verify", "run"],
        [*NEED["train"][:-1], "controls", "--controls"],
        [*NEED["train"][:4], "--unit", "node", *EDGE[2:], "--max-degree", "9", "--no-controls", "--out", "node"],
    ]
    absent = ("torch", "torch_geometric", "networkx")
    *done, controls, node = json.loads(base(COMMANDS, json.dumps(commands), absent=absent, folder=tmp_path))
    assert [code for code, _ in done] == [0] * 5, done
    remedy = f"Error: {not_installed('torch')}"
    assert controls == [2, f"{remedy} Or leave out the controls: --no-controls.\n"]
    assert node[0] == 2
    assert node[1].endswith(f"{remedy}\n")
    assert [path.name for path in tmp_path.iterdir()] == ["run"]


def test_the_transform_names_the_extra_that_it_needs():
    code = "import sfumato as sf\ntry:\n    sf.pyg\nexcept ImportError as error:\n    print(error)"
    assert base(code, absent=("torch_geometric",)).strip() == str(not_installed("torch_geometric"))


@pytest.mark.parametrize("package", ["torch", "numba", "safetensors"])
def test_training_is_refused_before_the_charge_whatever_is_missing(package, tmp_path):
    shared = ["--ledger", "l.jsonl", "--total-epsilon", "3"]
    command = ["train", "gap", "--dataset", "campus", *EDGE, "--out", "run", *shared]
    ((code, err),) = json.loads(base(COMMANDS, json.dumps([command]), absent=(), halted=(package,), folder=tmp_path))
    assert (code, err) == (2, f"Error: {not_installed(package)}\n")
    assert not list(tmp_path.iterdir())


def test_attributes_name_the_extra_too():
    code = """
import sfumato as sf
found = {}
for dotted in ("LabelMessages", "load", "graph.read_csv", "pate.Ensemble", "graph.to_networkx"):
    thing = sf
    try:
        for name in dotted.split("."):
            thing = getattr(thing, name)
        if dotted == "graph.to_networkx":
            thing(sf.graph.campus(100))
    except ModuleNotFoundError as error:
        found[dotted] = f"{type(error).__name__}: {error}"
print(json.dumps([found, [sf.graph.__name__, sf.pate.__name__, sf.local.Blink.__name__, sf.noise.keys.__name__]]))
"""
    found, light = json.loads(base(code))
    assert set(found) == {"pate.Ensemble", "graph.to_networkx"}
    for name, error in found.items():
        extra = "networkx" if name.endswith("networkx") else "train"
        assert error.startswith("MissingDependencyError: This needs the package "), name
        assert error.endswith(f"pip install 'sfumato[{extra}]'"), name
    assert light == ["sfumato.graph", "sfumato.pate", "Blink", "sfumato.noise.keys"]


BASE_PACKAGES = {"numpy", "scipy", "mpmath", "cryptography", "filelock", "typer", "rich"}
"""What accounting and the verifier need; the package brings more."""


def test_the_table_is_that_of_the_package():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    imported = {
        "scikit-learn": "sklearn",
        "pillow": "PIL",
        "SQLAlchemy": "sqlalchemy",
        "prometheus-client": "prometheus_client",
    }
    extras = project["optional-dependencies"]
    asked = {**extras, "train": [*project["dependencies"], *extras["train"]]}
    declared: dict[str, str] = {}
    for extra, lines in asked.items():
        for name in (re.split(r"[\[<>=]", line)[0] for line in lines if not line.startswith("sfumato[")):
            if extra not in ("all", "docs", "dev") and imported.get(name, name) not in BASE_PACKAGES:
                declared[imported.get(name, name)] = extra
    declared |= {"matplotlib": "report", "jinja2": "report"}  # part of the package, and for pages alone
    brought = {
        "threadpoolctl": "train",
        "markupsafe": "report",
        "starlette": "collect",
    }  # by scikit-learn, Jinja2, FastAPI
    assert declared | brought == EXTRAS


def test_every_optional_import_is_in_the_table():
    import ast

    for path in (ROOT / "src").rglob("*.py"):
        for node in ast.walk(tree(path)):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            names += [node.module] if isinstance(node, ast.ImportFrom) and node.module and not node.level else []
            roots = {name.split(".")[0] for name in names} - set(sys.stdlib_module_names) - {*BASE_PACKAGES, "sfumato"}
            assert roots <= set(EXTRAS), path


def test_subpackages_are_attributes():
    for name in [
        "audit",
        "bounded",
        "central",
        "experiments",
        "graph",
        "local",
        "method",
        "nn",
        "pate",
        "privacy",
        "report",
    ]:
        assert getattr(sf, name).__name__ == f"sfumato.{name}"
        assert name in dir(sf)
    assert sf.privacy.accounting.__name__ == "sfumato.privacy.accounting"
    assert sf.pate.GNMax(2.0).name == "gnmax"
    for package, name in ((sf, "nothing"), (sf.privacy, "_pairs_"), (sf.pate, "nothing")):
        with pytest.raises(AttributeError, match=f"module '{package.__name__}' has no attribute '{name}'"):
            getattr(package, name)


def test_an_error_about_another_package_stays_as_it_is():
    with pytest.raises(ModuleNotFoundError, match="no_such_package") as caught:
        require("no_such_package")
    assert not isinstance(caught.value, MissingDependencyError)
    assert not_installed("numba").name == "numba"
    check_installed(
        *EXTRAS.keys() - {"ray", "transformers", "tokenizers", "wordllama"}
    )  # development does without them
    find, names = lazily("sfumato.noise")
    assert find("keys") is sf.noise.keys
    assert "keys" in names()


def test_a_facade_has_every_name_that_type_checkers_see():
    for file in Path(sf.__file__).parent.rglob("__init__.py"):
        nodes = [node for node in ast.walk(ast.parse(file.read_text())) if isinstance(node, ast.ImportFrom)]
        later = [node for node in nodes if node.col_offset and "." in node.module]  # not at import
        names = {alias.name: node.module for node in later for alias in node.names if alias.asname == alias.name}
        assert homes_in(file) == names, file
