"""The form of a CSV file, found by all of its rows: encoding, line ends, the mark between cells, and the row of names.

**The mark** is the one of comma, tab, semicolon and bar by which the row of names has two cells or more and every other row as
many, quotes respected. Where none of the four stands in the row of names it is a space, by the same rule, else there is one
column. A file that two marks fit in all rows is refused: no guess is made.

**A comment line** (``#``) right above the first row that is none, with as many cells, names the columns if that row cannot: it
has a missing cell, or one without a letter, or if one of its cells stands in another row too. The row names them if it stands
above a column of numbers. If nothing tells the two apart, a usual name of ids decides, else the file is refused.
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from sfumato.errors import DataError
from sfumato.tables._text_file import TextFile, cells_of, fits_in

_SPACED = 1 << 16
_MARKS = {",": "comma", "\t": "tab", ";": "semicolon", "|": "bar"}
_SPREADSHEET = re.compile(r'"?sep=(.?)"?', re.IGNORECASE)
_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?")
_KNOWN = [
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
]


@dataclass(frozen=True)
class Form:
    """The ``names`` of the columns, and how the rows are written: ``skip`` lines stand before the first row of values.

    ``plain`` says whether DuckDB may try to read it.
    """

    file: TextFile
    names: tuple[str, ...]
    delimiter: str
    skip: int
    plain: bool

    @property
    def inner(self) -> list[str]:
        """Names by which DuckDB knows the columns: it does not tell upper from lower case."""
        return [f"c{place}" for place in range(len(self.names))]

    def number(self, row: int) -> int:
        """Return the number of the line in which a row of values begins, as an editor counts; the first row is 0."""
        return self.file.line_of(self.delimiter, self.skip, row)


def looks_like_number(name: str) -> bool:
    """Say whether a name reads as a number."""
    return _NUMBER.fullmatch(name.strip()) is not None


def form_of(path: Path) -> Form:
    file = TextFile.of(path)
    text = file.head()
    skip, comments, line, said = _top(text)
    named, used = True, 1
    if line:
        mark, first, used = _first(file, text, line, skip, said)
        above = [_split(comment, mark) for comment in comments[-2:]]
        named = bool(above) and _of_comment(file, above, first, mark, skip)
        names = above[-1] if named else first
    else:
        mark, names = _alone(comments[-1] if comments else "")
    if not names:
        raise DataError(f"Expected {path} to start with a row of column names, got an empty row. Add a header row.")
    if any("\n" in name or "\r" in name for name in names):  # no message may tell the rows that it swallowed
        raise DataError(
            f"Expected every column name of {path} to end in its line, but a quote in the row of names is not closed there. "
            "Correct the row of names."
        )
    plain = file.encoding in ("utf-8", "utf-8-sig") and (used == 1 or named)
    own = tuple(name or f"Unnamed: {place}" for place, name in enumerate(names))
    return Form(file, own, mark, skip + (0 if named else used), plain)


def _top(text: str) -> tuple[int, list[str], str, str]:
    """How many lines stand before the first row, the comments of them, that row's line, and the mark that they state."""
    skip, comments, said = 0, list[str](), ""
    for line in io.StringIO(text, newline=""):
        stated = _SPREADSHEET.fullmatch(line.strip(" \r\n")) if not said else None
        if line.strip() and not line.startswith("#") and not stated:
            return skip, comments, line, said
        said = stated[1] if stated else said
        comments += [line[1:]] if line.startswith("#") else []
        skip += 1
    return skip, comments, "", said


def _split(comment: str, mark: str) -> list[str]:
    """The cells of a comment line; none if it has none."""
    try:
        return [cell.strip() for cell in next(cells_of([comment.strip()], mark), [])]
    except csv.Error:
        return []


def _alone(comment: str) -> tuple[str, list[str]]:
    """The mark and the names of a comment line with a usual name, below which no row follows."""
    for mark in (*_MARKS, " "):
        cells = _split(comment, mark)
        if len(cells) > 1 and _usual(cells):
            return mark, cells
    return ",", []


def _first(file: TextFile, text: str, line: str, skip: int, said: str) -> tuple[str, list[str], int]:
    """The mark between cells, the cells of the first row, and how many lines it takes; ``said`` is what the file states."""
    found: dict[str, tuple[list[str], int]] = {}
    for mark in [said] if said else (*_MARKS, " "):
        lines = io.StringIO(text, newline="")
        for _ in range(skip):
            lines.readline()
        rows = cells_of(lines, mark)
        try:
            found[mark] = [cell.strip() for cell in next(rows)], rows.line_num
        except csv.Error:
            continue
    bare = re.sub(r'"([^"]|"")*"', "", line)
    if not found or ([*found] == [" "] and any(mark in bare for mark in _MARKS)):
        raise file.open_quote(skip + 1)
    mark = said or _mark(file, {mark: len(cells) for mark, (cells, _) in found.items()}, line, skip)
    return (mark, *found[mark])


def _mark(file: TextFile, widths: dict[str, int], line: str, skip: int) -> str:
    """The mark by which all rows have as many cells as the first, of which ``widths`` says how many they are by each."""
    marks = [mark for mark, width in widths.items() if width > 1]
    marks = [mark for mark in marks if _quoted_well(line, mark)] or marks
    several = {mark: widths[mark] for mark in marks if mark != " "}
    if not several:
        one = [mark for mark in widths if mark != " "]
        mark = _spaced(file, widths[" "], one, skip) if marks else one[0]
        if mark != " " and "  " in line.strip():
            raise DataError(
                f"Expected one mark between the cells of {file.path}, but the row of names has runs of spaces. Write one comma, "
                "tab, semicolon or bar between two cells."
            )
        return mark
    fits = file.fitting(several, skip)
    if len(fits) > 1:
        raise DataError(
            f"Expected the cells of {file.path} to be told apart by one mark, but {' and '.join(_MARKS[one] for one in fits)} "
            f"split every row alike. Write cells that hold one of them in quotes, or say the mark in a line of its own before "
            "the names: sep=;"
        )
    return fits[0]


def _spaced(file: TextFile, width: int, others: list[str], skip: int) -> str:
    """A space, if rows have as many cells by it as the row of names, and none of the other marks; else one of these.

    The first rows decide: where a later one does not fit, it is refused as it is read.
    """
    fits = {mark: file.fitting({" ": width, mark: 1}, skip, _SPACED) for mark in others}
    if any(left == [mark] for mark, left in fits.items()):
        return others[0]
    return next((mark for mark, left in fits.items() if left == [" "]), " ")


def _quoted_well(line: str, mark: str) -> bool:
    """Whether quotes of a line open and close with its cells, if this mark stands between them."""
    cell = rf' *"(?:[^"]|"")*" *|[^"{re.escape(mark)}\r\n]*'
    return re.fullmatch(rf"(?:{cell})(?:{re.escape(mark)}(?:{cell}))*[\r\n]*", line) is not None


def _of_comment(file: TextFile, comments: list[list[str]], first: list[str], mark: str, skip: int) -> bool:
    """Whether the cells of the last comment line name the columns, rather than those of the first row."""
    above = comments[-1]
    if above[:1] == [""] and len(above) == len(first) > 1 and all(map(_has_letter, above[1:])) and not _usual(first):
        raise DataError(
            f"Expected the first row of {file.path} to name the columns, but the line above row {skip + 1} begins with # and was "
            "read as a comment. If it names the columns, give the first of them a name with a letter, such as id."
        )
    if (
        above == first
        or not fits_in(first, len(above))
        or len({*above}) < len(above)
        or not all(map(_has_letter, above))
    ):
        return False
    named = _told_by_rows(file, first, mark, skip)
    if named is None and _usual(above) != _usual(first):
        named = _usual(above)
        named = None if named and any(" " in cell for cell in above) else named
    if named and len(above) > 1 and len(comments[0]) == len(above) and len(comments) > 1:
        named = None  # rows whose ids begin with # would be lost
    if named is not None:
        return named
    raise DataError(
        f"Expected one row of {file.path} to name the columns, but the comment line above row {skip + 1} may be their names, and "
        f"so may another row. Remove the # before the names, or the comment lines."
    )


def _told_by_rows(file: TextFile, first: list[str], mark: str, skip: int) -> bool | None:
    """Whether the first row holds values, by all rows: True if it does, False if it names columns, None if nothing tells."""
    from sfumato.tables._cells import MISSING

    there = [cell for cell in first if cell]
    if len({*there}) < len(there) or any(cell in MISSING or not _has_letter(cell) for cell in there):
        return True
    kinds: list[set[bool]] = [set() for _ in first]
    for number, (_, row) in enumerate(file.records(mark, skip)):
        cells = [cell.strip() for cell in row]
        if number and any(cell in cells for cell in there):
            return True
        for kind, cell in zip(kinds if number else (), cells, strict=False):
            kind.update([looks_like_number(cell)] if cell and cell not in MISSING else ())
    return False if {True} in kinds else None


def _has_letter(cell: str) -> bool:
    return any(map(str.isalpha, cell))


def _usual(names: Sequence[str]) -> bool:
    return any(name.lower() in _KNOWN for name in names)
