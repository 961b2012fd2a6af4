"""CSV files are read as text by a form that is seen in their bytes: marks, encoding, line ends and the row of names.

DuckDB reads what is written in one way throughout. What it refuses is read by the row here, which either reads it (mixed line
ends, UTF-16) or says which row is wrong, and why. Both give every cell as text; what it means :mod:`sfumato.graph.cells` decides.
"""

from __future__ import annotations

import codecs
import csv
import gzip
import io
import re
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sfumato._encoding import encoding_of
from sfumato.errors import DataError

_HEAD = 1 << 23
_CUT = (EOFError, zlib.error, OSError)
_ZIPPED = ((b"\x1f\x8b", "gzip"), (b"\x28\xb5\x2f\xfd", "zstd"))
_SPREADSHEET = re.compile(r'"?sep=.?"?')
_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?")
KNOWN_NAMES = (
    "id",
    "node_id",
    "node",
    "nodeid",
    "source",
    "src",
    "from",
    "fromnodeid",
    "u",
    "node1",
    "source_id",
    "from_id",
)
"""First names of tables of nodes and edges, by which a comment line is told to be the row of names."""


@dataclass(frozen=True)
class Form:
    """The form of a CSV file: the ``names`` of its columns, empty where there is none, and how its rows are written.

    ``first_row`` is the number of the first row after the names, as an editor counts lines; ``skip`` rows stand before.
    ``plain`` says whether DuckDB may try to read it.
    """

    path: Path
    names: tuple[str, ...]
    delimiter: str
    line_end: str
    encoding: str
    compression: str
    skip: int
    plain: bool

    @property
    def first_row(self) -> int:
        """Return the number of the first row of values."""
        return self.skip + 1

    @property
    def inner(self) -> list[str]:
        """Names by which DuckDB knows the columns: it does not tell upper from lower case."""
        return [f"c{place}" for place in range(len(self.names))]


def looks_like_number(name: str) -> bool:
    """Say whether a name reads as a number.

    >>> looks_like_number("0.5"), looks_like_number("f1")
    (True, False)
    """
    return _NUMBER.fullmatch(name.strip()) is not None


def form_of(path: Path) -> Form:
    """Look at the beginning of a CSV file.

    Raises:
        DataError: there is no row of names, or it is no text.
    """
    with path.open("rb") as raw:
        start = raw.read(4)
    compression = next((name for sign, name in _ZIPPED if start.startswith(sign)), "none")
    try:
        with _bytes(path, compression) as file:
            head = file.read(_HEAD)
    except _CUT as error:
        if getattr(error, "errno", None) is not None:
            raise
        raise DataError(f"Expected {path} to be a whole compressed file, got a part of one. Copy it again.") from None
    encoding = encoding_of(head)
    if encoding in ("utf-8", "utf-8-sig") and b"\0" in head[:4096]:
        raise DataError(f"Expected {path} to be text, got bytes that are none. Save it as CSV in UTF-8.")
    text = codecs.getincrementaldecoder(encoding)(errors="replace").decode(head)
    lines = io.StringIO(text, newline="")
    skip, comment, position, line = 0, "", 0, ""
    for line in lines:
        if line.strip() and not line.startswith("#") and not (skip == 0 and _SPREADSHEET.fullmatch(line.strip())):
            break
        comment, position, skip = (line[1:] if line.strip() else comment), position + len(line), skip + 1
    else:
        line = ""
    row = _names(text[position:], line) if line else ([], ",", 0)
    if row is None:
        raise DataError(_open_quote(path, skip + 1))
    first, mark, used = row
    names = _of_comment(comment, mark, first)
    if not first and not names:
        raise DataError(f"Expected {path} to start with a row of column names, got an empty row. Add a header row.")
    if any(len(name.splitlines()) > 1 for name in first):  # no message may tell the rows that it swallowed
        raise DataError(
            f"Expected every column name of {path} to end in its line, but a quote in the row of names is not closed there. "
            "Correct the row of names."
        )
    end = re.search(r"\r\n|\n|\r", text)
    named = tuple(name or f"Unnamed: {place}" for place, name in enumerate(names or first))
    plain = encoding in ("utf-8", "utf-8-sig") and (used == 1 or bool(names))
    skip += 0 if names else used
    return Form(path, named, mark, end[0] if end else "\n", encoding, compression, skip, plain)


def _names(text: str, line: str) -> tuple[list[str], str, int] | None:
    """The cells of the row of names, the mark between them, and how many lines they take; None if a quote is not closed."""
    outside = re.sub(r'"([^"]|"")*("|$)', "", line)
    mark = next((mark for mark in ",\t;| " if mark in outside.strip(" \r\n")), ",")
    rows = csv.reader(io.StringIO(text, newline=""), delimiter=mark, strict=True)
    try:
        return [cell.strip() for cell in next(rows)], mark, rows.line_num
    except csv.Error:
        return None


def _of_comment(comment: str, mark: str, first: Sequence[str]) -> list[str] | None:
    """The names that a last comment line gives, if the row after it is data: it has a number, or the line a known first name."""
    cells = [cell.strip() for cell in comment.strip().split(mark)]
    if not comment.strip() or (first and len(cells) != len(first)) or any(map(looks_like_number, cells)):
        return None
    known = len(cells) > 1 and cells[0].lower() in KNOWN_NAMES
    return cells if known or (len(cells) > 1 and any(map(looks_like_number, first))) else None


def relation(connection: Any, form: Form, literal: str) -> Any:
    """Open a file of one form in DuckDB, every cell as text; ``literal`` is its path, and columns are named ``c0`` and so on."""
    return connection.read_csv(
        literal, header=False, auto_detect=False, columns=dict.fromkeys(form.inner, "VARCHAR"), sep=form.delimiter,
        quotechar='"', escapechar='"', skiprows=form.skip, compression=form.compression, strict_mode=True,
        null_padding=False, hive_partitioning=False,
    )  # fmt: skip


def tables(form: Form, names: Sequence[str], rows: int, skip: int = 0) -> Iterator[Any]:
    """Yield columns as Arrow tables of at most so many rows, row by row, without the first ``skip`` rows.

    Raises:
        DataError: a row has another number of cells than the names, an open quote, or bytes that are not of the encoding.
    """
    import pyarrow as pa

    places = [form.names.index(name) for name in names]
    held: list[list[str]] = []

    def packed() -> Any:
        columns = zip(*held, strict=True) if held else [()] * len(places)
        arrays = [pa.array(column, pa.large_string()) for column in columns]
        return pa.table(arrays, names=list(names)) if names else pa.table({})

    for cells in _rows(form):
        if skip:
            skip -= 1
            continue
        held.append([cells[place] for place in places])
        if len(held) == rows:
            yield packed()
            held = []
    if held:
        yield packed()


def _rows(form: Form) -> Iterator[list[str]]:
    csv.field_size_limit(2**31 - 1)  # a document may be one cell
    width, line = len(form.names), form.skip
    with _bytes(form.path, form.compression) as raw:
        file = io.TextIOWrapper(raw, form.encoding, newline="")
        try:
            for _ in range(form.skip):
                file.readline()
            rows = csv.reader(file, delimiter=form.delimiter, strict=True)
            for cells in rows:
                if len(cells) == width + 1 and not cells[-1]:  # a mark at the end, which DuckDB lets pass as well
                    del cells[-1]
                if cells and len(cells) != width:
                    raise DataError(
                        f"Expected {width} cells in every row of {form.path}, as in its header, but row {line + 1} has "
                        f"{len(cells)}. Correct the row, its quotes or its delimiters."
                    )
                line = form.skip + rows.line_num
                if cells or width == 1:
                    yield cells or [""]
        except UnicodeDecodeError:
            raise DataError(_not_text(form)) from None
        except csv.Error:
            raise DataError(_open_quote(form.path, line + 1)) from None
        except _CUT as error:
            if getattr(error, "errno", None) is not None:
                raise
            raise DataError(f"Expected {form.path} to be a whole file, got a part of one. Copy it again.") from None


def _open_quote(path: Path, row: int) -> str:
    return (
        f"Expected the quotes of {path} to be closed, but row {row} has one that opens or ends within a cell. "
        'Write a quote inside of a quoted cell twice ("").'
    )


def _not_text(form: Form) -> str:
    """Name the first line that is not of the encoding."""
    ours = form.encoding.startswith("utf-8")
    name, where = "UTF-8" if ours else form.encoding.upper(), ""
    if ours:
        with _bytes(form.path, form.compression) as raw:
            for number, line in enumerate(raw, start=1):
                try:
                    line.decode("utf-8")
                except UnicodeDecodeError:
                    where = f" in row {number}"
                    break
    return (
        f"Expected {form.path} to be written in {name}, got text that is not {name}{where}. Save it as UTF-8: spreadsheets "
        "offer it as 'CSV UTF-8', and iconv -f LATIN1 -t UTF-8 converts a file."
    )


def _bytes(path: Path, compression: str) -> Any:
    if compression == "gzip":
        return gzip.open(path, "rb")
    if compression == "zstd":
        import pyarrow as pa

        return io.BufferedReader(_Raw(pa.CompressedInputStream(pa.OSFile(str(path)), "zstd")))
    return path.open("rb")


class _Raw(io.RawIOBase):
    """A stream of Arrow as one of Python."""

    def __init__(self, stream: Any) -> None:
        self._stream = stream

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        found: bytes = self._stream.read(len(buffer))
        buffer[: len(found)] = found
        return len(found)
