"""``make mutants``: which changes are made, that each is tried in a copy, and that one that no test notices is told."""

import importlib.util
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


def load(name):
    if name not in sys.modules:
        spec = importlib.util.spec_from_file_location(name, ROOT / "tools" / f"{name}.py")
        sys.modules[name] = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(sys.modules[name])
    return sys.modules[name]


mutations = load("mutations")
mutants = load("mutants")


def changes(tmp_path, source):
    path = tmp_path / "one.py"
    path.write_text(source)
    return [(one.line, one.old, one.new) for one in mutations.mutations(tmp_path, path)]


@pytest.mark.parametrize(
    ("source", "wanted"),
    [
        ("z = x + y", {("+", "-")}),
        ("z = x * y / w", {("*", "/"), ("/", "*")}),
        ("z = x < y <= w", {("<", "<="), ("<=", "<")}),
        ("z = x not in y and w", {("not in", "in"), ("and", "or")}),
        ("z = min(x, y)", {("min", "max")}),
        ("z = math.ceil(x)", {("ceil", "floor")}),
        ("z = 7", {("7", "8"), ("7", "6"), ("7", "7 * 2")}),
        ("z = 0.5", {("0.5", "(0.5 * 2)"), ("0.5", "(0.5 * 2 / 3)")}),
        ("z = True", {("True", "False")}),
        ("z = not x", {("not x", "(x)")}),
        ("z = f(x, y)", {("x, y", "y, x")}),
        ("z = f(x=y)", {("x=y", "")}),
        ("if x:\n    check(y)", {("x", "not (x)"), ("check(y)", "pass")}),
        ("if x:\n    raise fail(x, 7)", {("x", "not (x)"), ("raise fail(x, 7)", "pass")}),
        ("x -= y", {("x -= y", "pass"), ("-", "+")}),
        ("x[y] = z", {("x[y] = z", "pass")}),
        ('z = "é", x + y', {("+", "-")}),
        ('"""About 7."""', set()),
        ('z = f"{x + 7}"', set()),
        ("if TYPE_CHECKING:\n    z = 7", set()),
        ("z: Literal[7] = x", set()),
        ('def f(x: "Literal[7]") -> Literal[7]:\n    return x', set()),
        ("z = zip(x, y, strict=True)", {("x, y", "y, x")}),
        ("_BLOCK = 7", set()),
    ],
)
def test_changes_are_these_and_no_others(tmp_path, source, wanted):
    found = changes(tmp_path, source + "\n")
    assert {(old, new) for _, old, new in found} == wanted
    assert len(found) == len(wanted)


def test_a_change_is_made_where_it_stands(tmp_path):
    path = tmp_path / "one.py"
    path.write_text('a = "ü"\nb = (c  # 1 + 1\n     + d)\n')
    (one,) = mutations.mutations(tmp_path, path)
    assert (str(one), one.first, one.last) == ("one.py:3: + -> -", 2, 3)
    assert one.apply(path.read_bytes()).decode() == 'a = "ü"\nb = (c  # 1 + 1\n     - d)\n'


SOURCE = '''"""A sum."""


def total(values, cap):
    """Add values up to a cap."""
    if cap < 0:
        raise ValueError("cap")
    result = 0
    for value in values:
        result += min(value, cap)
    return result
'''
TESTS = """
from sfumato.bounded.sums import total

def test_total():
    assert total([1, 5, 2], 3) == 6

def test_no_value():
    assert total([], 3) == 0
"""


def run(project, *options):
    command = [sys.executable, ROOT / "tools" / "mutants.py", "bounded", "--root", project, *options]
    done = subprocess.run([*map(str, command)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture
def project(tmp_path):
    """A project of one function and two tests."""
    for name, text in {
        "src/sfumato/__init__.py": "",
        "src/sfumato/bounded/__init__.py": "",
        "src/sfumato/bounded/sums.py": SOURCE,
        "tests/bounded/test_sums.py": TESTS,
        "pyproject.toml": "",
    }.items():
        (tmp_path / "project" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "project" / name).write_text(text)
    return tmp_path / "project"


def test_what_no_test_notices_is_told_and_what_was_done_is_kept(project):
    told = run(project, "--count", "9")
    rows = told[told.index("| package") :]
    assert "| bounded | 4 |" in rows
    missed = rows.partition("Not noticed:")[2].split("\n")
    assert '* `src/sfumato/bounded/sums.py:7: raise ValueError("cap") -> pass`' in missed
    assert not [line for line in missed if ":10:" in line]
    for tree in (project, project / "build/mutants/tree"):
        assert (tree / "src/sfumato/bounded/sums.py").read_text() == SOURCE
    assert run(project, "--count", "9") == rows
