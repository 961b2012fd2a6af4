"""Where the files of the named data sets come from, what they must be called, and which of them are there."""

from __future__ import annotations

import gzip
import hashlib
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any

from sfumato._validate import fail, nearest
from sfumato.datasets._listing import KNOWN, DatasetRow, files_of, list_datasets, missing, origin_of, origin_table
from sfumato.errors import DataError

_VOTES = DatasetRow("pate_votes", note="votes of 250 teachers, for `sfumato pate analyze --votes FILE`")
NAMES = (*(row.name for row in KNOWN), _VOTES.name)


def told_of(name: str, data_dir: str | Path | None = None) -> dict[str, Any]:
    """Return what is known of a data set, and of each file whether it is there and has the known SHA-256."""
    row = next((one for one in (*list_datasets(data_dir), _VOTES) if one.name == name), None)
    if row is None:
        remedy = f"{nearest(name, NAMES)} `sfumato datasets` lists all of them.".lstrip()
        raise fail("dataset", name, "to be the name of a data set", remedy)
    origin, known = origin_of(name), origin_table()["sha256"]
    files = [
        {**_file(path, known.get(path.removesuffix(".gz")), data_dir), "needed": needed}
        for path, needed in files_of(name)
    ]
    there = row.present or (row is _VOTES and data_dir is not None and not missing(name, data_dir))
    said = {key: origin.get(key, "") for key in ("address", "remark")}
    return {**asdict(row), "present": there, **said, "files": files}


def hint(name: str, data_dir: str | Path) -> str:
    """Return a sentence that says where files come from if one of this data set is missing, "" otherwise."""
    known = name in NAMES and missing(name, data_dir)
    return f"`sfumato datasets {name}` says where the files come from." if known else ""


@contextmanager
def hinting(name: str, data_dir: str | Path) -> Iterator[None]:
    """Say at the end of an error where files come from, if one of this data set is missing."""
    try:
        yield
    except DataError as error:
        raise DataError(f"{error} {hint(name, data_dir)}".rstrip()) from error


def _file(path: str, known: str | None, data_dir: str | Path | None) -> dict[str, Any]:
    found = [] if data_dir is None else sorted(Path(data_dir).glob(path))
    same = _digest(found[0]) == known if found and known else None
    return {"path": path, "present": None if data_dir is None else bool(found), "sha256": known, "is_known": same}


def _digest(path: Path) -> str | None:
    """The SHA-256 of a file, of one in gzip that of what it holds; None if it cannot be read."""
    try:
        with gzip.open(path) if path.suffix == ".gz" else path.open("rb") as stream:
            return hashlib.file_digest(stream, "sha256").hexdigest()
    except (OSError, EOFError, zlib.error):
        return None
