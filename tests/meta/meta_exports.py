"""Files of the project as they parse, and which names packages export, whose homes may be private modules."""

import ast
from functools import cache
from pathlib import Path

from sfumato._optional import homes_in


@cache
def tree(path: Path) -> ast.Module:
    """The file as it parses; many rules read every file."""
    return ast.parse(path.read_text(encoding="utf-8"))


def exported(package: Path) -> set[str]:
    """Names that packages export lazily, by the dotted name of their home."""
    files = package.rglob("__init__.py")
    return {f"{home.removeprefix('sfumato.')}.{name}" for file in files for name, home in homes_in(file).items()}
