"""Tests find their helper modules through pyproject.toml; none changes where Python looks for modules."""

import re
from pathlib import Path

TESTS = Path(__file__).parents[1]
CHANGES = re.compile(r"\bsys\.path\b|\bsyspath_prepend\b|\baddsitedir\b|\bfrom sys import\b.*\bpath\b")


def path_changes(folder: Path) -> list[str]:
    """Lines that name the search path of modules, also inside scripts that a test starts."""
    return [
        f"{path.relative_to(folder)}:{number}"
        for path in sorted(folder.rglob("*.py"))
        if path != Path(__file__)
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), start=1)
        if CHANGES.search(line)
    ]


def test_no_test_changes_the_search_path():
    assert not path_changes(TESTS)


def test_planted_changes_are_found(tmp_path):
    (tmp_path / "bad.py").write_text(
        "import sys\nsys.path.insert(0, 'x')\nfrom sys import path\nmonkeypatch.syspath_prepend('x')\n"
    )
    (tmp_path / "script.py").write_text('USE = """\nimport sys\nsys.path.append({tools!r})\n"""\n')
    (tmp_path / "good.py").write_text("import sys\nprint(sys.path_hooks, sys.argv)\n")
    assert path_changes(tmp_path) == ["bad.py:2", "bad.py:3", "bad.py:4", "script.py:3"]
