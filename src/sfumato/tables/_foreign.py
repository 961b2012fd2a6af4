"""Files of other kinds than a table is read from, told by how they begin, each with what makes a table of it.

No word of the file stands in an error: the first line of JSON lines, for one, is the record of a node.
"""

from __future__ import annotations

import re
from pathlib import Path

from sfumato.errors import DataError

HEAD = 1 << 12
"""How many bytes from the start of a file tell its kind."""
_SHEET = "Save its sheet as 'CSV UTF-8' there."
_FROM_JSON = "Convert it: pandas.read_json(FILE).to_csv(NEW, index=False)."
_UNPACK = "Unpack it, or compress it with gzip."
_SIGNS = (
    (0, b"PAR1", "Parquet", "Rename it to end in .parquet."),
    (
        0,
        b"ARROW1",
        "an Arrow (Feather) file",
        "Write it as Parquet: pyarrow.parquet.write_table, or to_parquet of a frame.",
    ),
    (0, b"\xd0\xcf\x11\xe0", "an Excel workbook", _SHEET),
    (0, b"PK\x03\x04", "a zip archive", "Unpack it, and name the table in it."),
    (
        8,
        b"DUCK",
        "a DuckDB database",
        "Read its tables with sf.graph.read_sql, or write them: COPY nodes TO 'nodes.parquet'.",
    ),
    (0, b"SQLite format 3\0", "a SQLite database", "Read its tables with sf.graph.read_sql, or export them as CSV."),
    (0, b"\x93NUMPY", "a NumPy array", "Build a sf.Graph of it in Python, or write a CSV with a row of names."),
    (0, b"\x89HDF", "an HDF5 file", "Write its table as Parquet or CSV."),
    (0, b"%PDF", "a PDF", "Look for the table that it was made of."),
    (0, b"BZh", "a bzip2 archive", _UNPACK),
    (0, b"\xfd7zXZ", "an xz archive", _UNPACK),
    (0, b"7z\xbc\xaf", "a 7z archive", _UNPACK),
)
_BEGINNINGS = (
    (r"<!doctype html|<html", "a web page", "Download the file itself."),
    (r"<\?xml|<graphml", "XML", "Read a GraphML or GEXF file with networkx, and the graph with sf.graph.from_networkx."),
    (r"version https://git-lfs\.github\.com", "a pointer of Git LFS", "Fetch the file: git lfs pull."),
    (r'\{\s*"[^"\n]*"\s*:[^\n]*\}\s*(\n|$)', "JSON lines", _FROM_JSON.replace("FILE", "FILE, lines=True")),
    (r'[\[{]\s*[\[{"]\s*|\[\s*\d', "JSON", _FROM_JSON),
)  # fmt: skip


def check_text(path: Path, head: bytes) -> None:
    """Refuse a file that begins as no table of text does.

    Raises:
        DataError: it is of another kind. The error says which, and how a table is made of it.
    """
    called = "CSV, as it is called" if path.suffix.lower() in (".csv", ".tsv", ".txt") else "CSV or Parquet"
    raise_if(path, found := _kind(head), called)
    if found is None and b"\0" in head:
        wide = _wide(head)
        remedy = f"Save it as UTF-8: iconv -f {wide} -t UTF-8." if wide else "Save it as CSV in UTF-8."
        raise_if(path, (f"{wide} without a byte order mark" if wide else "bytes that are none", remedy), "text")


def check_parquet(path: Path) -> None:
    """Refuse a file that is called Parquet and is not.

    Raises:
        DataError: it does not begin as Parquet does.
    """
    with path.open("rb") as file:
        head = file.read(HEAD)
    if not head.startswith((b"PAR1", b"PARE")):
        other = ("another kind of file", "Rename it to end in .csv if it is CSV, or write it as Parquet.")
        raise_if(path, _kind(head) or other, "Parquet, as it is called")


def raise_if(path: Path, found: tuple[str, str] | None, wanted: str) -> None:
    """Raise the error about a file that is something else, if one was found."""
    if found is not None:
        raise DataError(f"Expected {path} to be {wanted}, got {found[0]}. {found[1]}")


def _kind(head: bytes) -> tuple[str, str] | None:
    """What a file is that begins so, and what to do; None if it may be a table of text."""
    for place, sign, what, remedy in _SIGNS:
        if head.startswith(sign, place):
            return ("an Excel workbook", _SHEET) if what == "a zip archive" and b"xl/" in head else (what, remedy)
    if re.match(rb"\x80[\x02-\x05]", head):
        return "a pickle", "It may run code as it is opened: let whoever made it write Parquet or CSV."
    text = head.decode("utf-8", "replace").lstrip("\ufeff \t\r\n")
    for pattern, what, remedy in _BEGINNINGS:
        if re.match(pattern, text, re.IGNORECASE):
            return what, remedy
    return None


def _wide(head: bytes) -> str:
    """Which encoding of two bytes a character the text of a Western language may be in."""
    half = len(head) // 2 or 1
    even, odd = head[::2].count(0) / half, head[1::2].count(0) / half
    return "UTF-16LE" if odd > 0.7 > 0.3 > even else "UTF-16BE" if even > 0.7 > 0.3 > odd else ""
