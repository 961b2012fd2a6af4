"""Imports point downward only, in no circle, siblings stay apart, the verifier stands alone: read off the syntax trees."""

import ast
import re
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest
from meta_exports import tree

PACKAGE = Path(__file__).parents[2] / "src" / "sfumato"

# From the base up. Parts of one layer are siblings: they never import each other.
LAYERS = (
    ("errors",),
    (
        "_validate",
        "_numbers",
        "_optional",
        "_files",
        "_blocks",
        "_encoding",
        "_pickles",
        "_shown",
        "_threads",
        "_version",
        "web",
    ),
    ("_window", "loops"),
    ("noise",),
    ("graph", "nn", "privacy"),
    ("text",),  # tables and data sets may have texts
    ("datasets", "tables"),
    ("bounded", "record", "randomizers", "scoring", "shares"),
    ("method", "students"),
    ("central", "local", "pate", "classlevel", "statistics"),
    ("catalog",),
    ("evaluation", "estimator"),
    ("experiments", "collect", "serving", "distributed", "attacks", "audit", "pyg"),
    ("report",),
    ("cli",),
    ("__main__",),
)
FACADES = ("__init__.py", "graph/__init__.py")  # names only, re-exported lazily; they may name what lies above
HEIGHT = {part: height for height, layer in enumerate(LAYERS) for part in layer}
VERIFIER = "verify"  # copied alone by reviewers; the command line alone may use it
VERIFIER_MAY_USE = {*sys.stdlib_module_names, "numpy", "cryptography"}
DOTTED = re.compile(r"sfumato(\.\w+)+(:\w+)?")


def part_of(path: Path, package: Path) -> str:
    """The first name below the package that a file belongs to; the package's own __init__ has none."""
    first = path.relative_to(package).parts[0]
    return first.removesuffix(".py")


@cache
def imported(path: Path) -> list[tuple[int, str]]:
    """Line and dotted name of every import of a file, also of modules that are named in a string (lazy imports)."""
    return list(_imported(tree(path)))


def _imported(parsed: ast.AST) -> Iterator[tuple[int, str]]:
    for node in ast.walk(parsed):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            module = "." * node.level + (node.module or "")
            joint = "" if module.endswith(".") else "."
            yield from ((node.lineno, f"{module}{joint}{alias.name}") for alias in node.names)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and DOTTED.fullmatch(node.value):
            yield node.lineno, node.value.split(":")[0]


def fault(part: str, name: str, depth: int = 0) -> str | None:
    """Why a file of ``part``, in so many folders of it, may not import the dotted ``name``, or None."""
    root, _, rest = name.partition(".")
    target = rest.split(".")[0]
    if part == VERIFIER:
        inside = name.startswith(".") and not name.startswith("." * (2 + depth))
        return None if inside or root in VERIFIER_MAY_USE else "the verifier stands alone"
    if name.startswith("."):
        return "write the full name"
    if root != "sfumato" or target == part:
        return None
    if target == VERIFIER:
        return None if part == "cli" else "only the command line uses the verifier"
    if target not in HEIGHT:
        return "import from the module that defines it, not from the package"
    return f"{target} is not below {part}" if HEIGHT[target] >= HEIGHT[part] else None


def violations(package: Path) -> list[str]:
    """Every import that breaks the layers, as text."""
    found = []
    for path in sorted(package.rglob("*.py")):
        part = part_of(path, package)
        if path.relative_to(package).as_posix() in FACADES:
            continue
        if part not in HEIGHT and part != VERIFIER:
            found.append(f"{path.relative_to(package)}: {part} is in no layer; add it to tests/meta/test_layers.py")
            continue
        for line, name in imported(path):
            why = fault(part, name, len(path.relative_to(package).parts) - 2)
            if why:
                found.append(f"{path.relative_to(package)}:{line}: imports {name}: {why}")
    return found


def circles(package: Path) -> list[str]:
    """Files that import each other in a loop, each loop once; imports inside functions and for types count as well."""
    files = {module_of(path, package): path for path in package.rglob("*.py") if path.name != "__init__.py"}
    arrows = {
        module: {target for name in names_in(path, module) if (target := owner(name, files)) not in (None, module)}
        for module, path in files.items()
    }
    found, finished = [], set()

    def visit(module: str, trail: list[str]) -> None:
        if module in trail:
            found.append(" -> ".join([*trail[trail.index(module) :], module]))
        elif module not in finished:
            for target in sorted(arrows[module]):
                visit(target, [*trail, module])
            finished.add(module)

    for module in sorted(arrows):
        visit(module, [])
    return found


def module_of(path: Path, package: Path) -> str:
    """Dotted name of a file."""
    return ".".join(("sfumato", *path.relative_to(package).with_suffix("").parts))


def names_in(path: Path, module: str) -> Iterator[str]:
    """Dotted names that a file imports, in full."""
    for _, name in imported(path):
        level = len(name) - len(name.lstrip("."))
        yield ".".join([*module.split(".")[:-level], name.lstrip(".")]) if level else name


def owner(name: str, files: dict[str, Path]) -> str | None:
    """The file that a dotted name stands for, itself or one of its attributes."""
    while name and name not in files:
        name = name.rpartition(".")[0]
    return name or None


def test_layers_hold():
    assert not violations(PACKAGE)


KNOWN: set[str] = set()


def test_no_circles():
    assert {loop.split(" -> ")[0].rpartition(".")[0] for loop in circles(PACKAGE)} == KNOWN


@pytest.mark.parametrize(
    ("file", "source"),
    [
        ("privacy/bad.py", "import sfumato.graph._graph"),
        ("privacy/bad.py", "from sfumato import graph"),
        ("privacy/bad.py", "from sfumato import Budget"),
        ("method/bad.py", "from sfumato import __version__"),
        ("privacy/bad.py", "from . import units"),
        ("errors.py", "from sfumato._validate import fail"),
        ("noise/bad.py", "from sfumato.privacy.units import Unit"),
        ("randomizers/bad.py", "from sfumato.record.ledger import Ledger"),
        ("shares/bad.py", "from sfumato.randomizers._questions import Questions"),
        ("bounded/bad.py", "def late():\n    from sfumato.central import gap"),
        ("central/bad.py", "load = import_module('sfumato.catalog')"),
        ("central/bad.py", "from sfumato.verify import verify"),
        ("central/bad.py", "from sfumato.evaluation._request import prepare"),
        ("local/bad.py", "from sfumato.central._gap import GAP"),
        ("verify/bad.py", "from sfumato.privacy import accounting"),
        ("verify/bad.py", "from sfumato.verify import epsilon"),
        ("verify/bad.py", "from ..errors import InputError"),
        ("verify/events/bad.py", "from ...errors import InputError"),
        ("verify/bad.py", "import scipy"),
        ("novelty.py", "x = 1"),
    ],
)
def test_planted_faults_are_found(tmp_path, file, source):
    path = tmp_path / file
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(source)
    assert len(violations(tmp_path)) == 1


@pytest.mark.parametrize(
    "files",
    [
        {"graph/a": "from sfumato.graph.b import x", "graph/b": "import sfumato.graph.a"},
        {"graph/a": "from sfumato.graph import b", "graph/b": "def late():\n    from sfumato.graph.a import x"},
        {"verify/a": "from .b import x", "verify/b": "from . import a"},
        {
            "graph/a": "from sfumato.graph.b import x",
            "graph/b": "from sfumato.graph.c import x",
            "graph/c": "if TYPE_CHECKING:\n    from sfumato.graph.a import X",
        },
    ],
)
def test_planted_circles_are_found(tmp_path, files):
    for name, source in files.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / f"{name}.py").write_text(source)
    assert len(circles(tmp_path)) == 1


@pytest.mark.parametrize(
    ("file", "source"),
    [
        ("bounded/good.py", "from sfumato.graph._graph import Graph\nfrom sfumato.privacy.units import Unit"),
        ("bounded/good.py", "from sfumato.loops.kernels import loops"),
        ("cli/good.py", "from sfumato.verify import verify"),
        ("verify/good.py", "import json\nimport numpy as np\nfrom .epsilon import draws\nfrom . import claim"),
        ("verify/events/good.py", "from .._losses import lattice\nfrom ._kind import Kind"),
    ],
)
def test_sound_imports_pass(tmp_path, file, source):
    path = tmp_path / file
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(source)
    assert not violations(tmp_path)
    assert not circles(tmp_path)
