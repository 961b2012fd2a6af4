"""What stands in the folder of a history of edges when it begins: copies of its tables, and one without edges."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from sfumato._files import sync_file, whole_file
from sfumato.errors import DataError

if TYPE_CHECKING:
    from sfumato.evaluation._source import Source

NO_EDGES = "no-edges.csv"


def emptied(folder: Path, begun: bool) -> None:
    """Take back what a history that is refused has written, and its folder if it ``begun`` with it."""
    for path in folder.iterdir():
        shutil.rmtree(path) if path.is_dir() else path.unlink()
    if begun:
        folder.rmdir()


def copied(folder: Path, source: Source) -> Source:
    """Copy the tables of nodes, and write one without edges, so that a history always reads what it began with."""
    nodes = Path(str(source.nodes))
    kept, schema = f"nodes{nodes.suffix}", None if source.schema is None else "schema.toml"
    try:
        shutil.copyfile(nodes, folder / kept)
        if source.schema is not None:
            shutil.copyfile(source.schema, folder / "schema.toml")
    except OSError as error:
        raise DataError(f"Cannot read {error.filename!r}: {error.strerror}. Name a table of nodes.") from error
    with whole_file(folder / NO_EDGES) as file:
        file.write(b"source,target\n")
    for path in folder.iterdir():
        sync_file(path)
    return replace(source, nodes=kept, edges=NO_EDGES, schema=schema)
