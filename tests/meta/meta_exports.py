"""Which names packages export, whose homes may be private modules."""

import ast
from pathlib import Path


def exported(package: Path) -> set[str]:
    """Names that packages export lazily, by the dotted name of their home."""
    found = set()
    for path in package.rglob("__init__.py"):
        inside = ".".join(path.relative_to(package).parts[:-1])
        for node in ast.parse(path.read_text()).body:
            if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "_HOME":
                for name, home in ast.literal_eval(node.value).items():
                    full = home.removeprefix("sfumato.") if home.startswith("sfumato.") else f"{inside}.{home}"
                    found.add(f"{full.lstrip('.')}.{name}")
    return found
