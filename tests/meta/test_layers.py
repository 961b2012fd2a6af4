"""Imports point downward only, siblings stay apart, and the verifier stands alone: read off the syntax trees."""

import ast
import re
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[2] / "src" / "sfumato"
VERIFIER = {"verify", *(path.stem for path in PACKAGE.glob("_verify_*.py"))}

# From the base up. Parts of one layer are siblings: they never import each other. The verifier is for the command line.
LAYERS = (
    ("errors", "_types"),
    ("_validate",),
    ("graph", "nn", "privacy"),
    ("bounded", "method", "evaluation"),
    ("central", "local", "pate", "audit"),
    ("catalog", *VERIFIER),
    ("experiments",),
    ("report",),
    ("cli",),
    ("__main__",),
)
HEIGHT = {part: height for height, layer in enumerate(LAYERS) for part in layer}
VERIFIER_MAY_USE = {*sys.stdlib_module_names, "numpy", "cryptography"}
DOTTED = re.compile(r"sfumato(\.\w+)+(:\w+)?")


def part_of(path: Path, package: Path) -> str:
    """The first name below the package that a file belongs to; the package's own __init__ has none."""
    first = path.relative_to(package).parts[0]
    return first.removesuffix(".py")


def imported(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """Line and dotted name of every import, also of modules that are named in a string (lazy imports)."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            module = "." * node.level + (node.module or "")
            yield from ((node.lineno, f"{module}.{alias.name}") for alias in node.names)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and DOTTED.fullmatch(node.value):
            yield node.lineno, node.value.split(":")[0]


def fault(part: str, name: str) -> str | None:
    """Why a file of ``part`` may not import the dotted ``name``, or None."""
    root, _, rest = name.partition(".")
    target = rest.split(".")[0]
    if name.startswith("."):
        return "write the full name"
    if part in VERIFIER:
        inside = root == "sfumato" and target in VERIFIER
        return None if inside or root in VERIFIER_MAY_USE else "the verifier stands alone"
    if root != "sfumato" or target in ("__version__", part):
        return None
    if target not in HEIGHT:
        return "import from the module that defines it, not from the package"
    return f"{target} is not below {part}" if HEIGHT[target] >= HEIGHT[part] else None


def violations(package: Path) -> list[str]:
    """Every import that breaks the layers, as text."""
    found = []
    for path in sorted(package.rglob("*.py")):
        part = part_of(path, package)
        if part == "__init__":  # the public face: re-exports lazily from everywhere
            continue
        if part not in HEIGHT:
            found.append(f"{path.relative_to(package)}: {part} is in no layer; add it to tests/meta/test_layers.py")
            continue
        for line, name in imported(ast.parse(path.read_text())):
            why = fault(part, name)
            if why:
                found.append(f"{path.relative_to(package)}:{line}: imports {name}: {why}")
    return found


def test_layers_hold():
    assert not violations(PACKAGE)


@pytest.mark.parametrize(
    ("file", "source"),
    [
        ("privacy/bad.py", "import sfumato.graph.graph"),
        ("privacy/bad.py", "from sfumato import graph"),
        ("privacy/bad.py", "from sfumato import Budget"),
        ("privacy/bad.py", "from . import units"),
        ("errors.py", "from sfumato._validate import fail"),
        ("evaluation.py", "from sfumato.method import Fitted"),
        ("bounded/bad.py", "def late():\n    from sfumato.central import gap"),
        ("central/bad.py", "load = import_module('sfumato.catalog')"),
        ("central/bad.py", "from sfumato.verify import verify"),
        ("local/bad.py", "from sfumato.central.gap import GAP"),
        ("verify.py", "from sfumato.privacy import accounting"),
        ("verify.py", "from sfumato.errors import InputError"),
        ("_verify_epsilon.py", "import scipy"),
        ("novelty.py", "x = 1"),
    ],
)
def test_planted_faults_are_found(tmp_path, file, source):
    path = tmp_path / file
    path.parent.mkdir(exist_ok=True)
    path.write_text(source)
    assert len(violations(tmp_path)) == 1


@pytest.mark.parametrize(
    ("file", "source"),
    [
        ("bounded/good.py", "from sfumato.graph.graph import Graph\nfrom sfumato.privacy.units import Unit"),
        ("bounded/good.py", "from sfumato.bounded.kernels import pack"),
        ("method/good.py", "from sfumato import __version__"),
        ("cli/good.py", "from sfumato.verify import verify"),
        ("verify.py", "import json\nimport numpy as np\nfrom sfumato._verify_epsilon import draws"),
    ],
)
def test_sound_imports_pass(tmp_path, file, source):
    path = tmp_path / file
    path.parent.mkdir(exist_ok=True)
    path.write_text(source)
    assert not violations(tmp_path)
