"""No file grows past what can be read in one sitting."""

from pathlib import Path

ROOT = Path(__file__).parents[2]
LIMITS = {"src": 400, "tests": 600, "benchmarks": 400}


def too_long(root: Path) -> list[str]:
    """Python files of the project above the limit of their folder."""
    found = []
    for folder, limit in LIMITS.items():
        lengths = {path: len(path.read_text().splitlines()) for path in sorted((root / folder).rglob("*.py"))}
        found += [f"{path.relative_to(root)}: {length} lines" for path, length in lengths.items() if length > limit]
    return found


def test_files_are_short():
    assert not too_long(ROOT)


def test_long_file_is_found(tmp_path):
    (tmp_path / "src").mkdir()
    (tmp_path / "src" / "long.py").write_text("x = 1\n" * 401)
    (tmp_path / "src" / "short.py").write_text("x = 1\n" * 400)
    assert too_long(tmp_path) == ["src/long.py: 401 lines"]
