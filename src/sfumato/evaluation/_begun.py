"""What stands in the folder of a history of edges when it begins: copies of its tables, one without edges, and its key."""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING

from sfumato._files import read_secret, remove_empty, sync_file, whole_file
from sfumato.errors import DataError, InputError, LedgerError
from sfumato.noise.keys import KEY_BYTES, Key

if TYPE_CHECKING:
    from sfumato.evaluation._source import Source

NO_EDGES = "no-edges.csv"


def emptied(folder: Path, made: Sequence[Path]) -> None:
    """Take back what a history that is refused has written, and the folders that were ``made`` for it."""
    for path in folder.iterdir():
        shutil.rmtree(path) if path.is_dir() else path.unlink()
    remove_empty(made)


@contextmanager
def naming(folder: Path, kept: Source, source: Source) -> Iterator[None]:
    """Let an error about a copy in a folder, which will be gone, name the table that was copied."""
    try:
        yield
    except (DataError, InputError) as error:
        text = str(error)
        for copy, original in ((kept.nodes, source.nodes), (kept.schema, source.schema)):
            text = text.replace(str(folder / copy), str(original)) if copy else text
        error.args = (text,)
        raise


def key_of(path: Path, again: str) -> Key:
    """Read the key of a history, or say what is lost without it, and what begins one ``again``."""
    found = read_secret(path) if path.exists() else b""
    if len(found) != KEY_BYTES:
        raise LedgerError(
            f"Expected the key of this history, {KEY_BYTES} bytes, in {str(path)!r}, got {len(found)}. Nothing is released. Put "
            "it back: no day can be drawn or checked without it, and it cannot be made again. What was released, and models of "
            f"it, stay valid. {again}"
        )
    return found


def digest_of(files: Sequence[Path]) -> str:
    """Return the SHA-256 of the files with which a history begins."""
    for path in files:
        if not path.is_file():
            raise LedgerError(
                f"Expected {str(path)!r}, with which this history was begun, got none. Nothing is released. Put it back as it "
                "was: the first day is chained to it. A history without a day can be removed and begun anew."
            )
    return sha256(b"".join(sha256(path.read_bytes()).digest() for path in files)).hexdigest()


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
