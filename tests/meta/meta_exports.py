"""Which names packages export, whose homes may be private modules."""

from pathlib import Path

from sfumato._optional import homes_in


def exported(package: Path) -> set[str]:
    """Names that packages export lazily, by the dotted name of their home."""
    files = package.rglob("__init__.py")
    return {f"{home.removeprefix('sfumato.')}.{name}" for file in files for name, home in homes_in(file).items()}
