"""Tables of nodes and edges are read from files by DuckDB, as Arrow tables. Errors name a place, never a value."""

from __future__ import annotations

import csv
import gzip
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from difflib import get_close_matches
from functools import partial
from pathlib import Path
from typing import Any

from sfumato._optional import require
from sfumato.errors import DataError, MemoryLimitError
from sfumato.graph.documents import Documents

_ABOUT_NAMES = ("Binder", "Catalog", "IO", "Parser", "Permission", "Syntax")


def is_parquet(path: str | Path) -> bool:
    """Say whether a file is Parquet by its name.

    >>> is_parquet("nodes.pq"), is_parquet("nodes.csv")
    (True, False)
    """
    return Path(path).suffix.lower() in (".parquet", ".pq")


def file_table(path: str | Path, texts: Callable[[list[str]], set[str | None]]) -> Any:
    """Read a CSV or Parquet file as an Arrow table; ``texts`` names the columns that stay text."""
    with require("duckdb").connect() as connection:
        if is_parquet(path):
            return table(partial(connection.read_parquet, _literal(path)), str(path))
        return table(partial(csv_relation, connection, path, texts), str(path))


class FileTable:
    """A CSV or Parquet file that is read by column or in batches of rows, never as a whole.

    Args:
        path: the file.
        texts: names the columns of a CSV file that stay text.
        config: settings of DuckDB.
    """

    def __init__(
        self,
        path: str | Path,
        texts: Callable[[list[str]], set[str | None]] | None = None,
        config: Mapping[str, Any] | None = None,
    ) -> None:
        self.path, self._texts, self._config = path, texts or (lambda _: set()), dict(config or {})
        self.place = str(existing(path))
        with self._opened() as relation:
            head = relation.limit(0).to_arrow_table()
            self.num_rows = int(relation.count("*").fetchall()[0][0]) if is_parquet(path) else None
        self.schema = head.schema
        self.column_names: list[str] = head.column_names

    def column(self, name: str) -> Any:
        """Return one column as a chunked Arrow array."""
        with self._opened((name,)) as relation:
            return guarded(relation.to_arrow_table, self.place).column(0)

    def batches(self, names: Sequence[str], rows: int, skip: int = 0) -> Iterator[Any]:
        """Yield columns as Arrow tables of at most so many rows, in order, without the first ``skip`` rows."""
        import pyarrow as pa

        with self._opened(names) as relation:
            relation = relation.limit(2**62, offset=skip) if skip else relation
            reader = guarded(partial(relation.to_arrow_reader, rows), self.place)
            while (batch := guarded(partial(next, reader, None), self.place)) is not None:
                if batch.num_rows:
                    yield pa.Table.from_batches([batch]).rename_columns(list(names))

    def write_parquet(self, path: Path) -> None:
        """Write all rows as a Parquet file, in order."""
        with self._opened() as relation:
            guarded(partial(relation.write_parquet, str(path)), self.place)

    @contextmanager
    def _opened(self, names: Sequence[str] = ()) -> Iterator[Any]:
        duckdb = require("duckdb")
        with duckdb.connect(config=self._config) as connection:
            if is_parquet(self.path):
                relation = guarded(partial(connection.read_parquet, _literal(self.path)), self.place)
            else:
                relation = csv_relation(connection, self.path, self._texts)
            yield relation.project(", ".join(map(_quoted, names))) if names else relation


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def existing(path: str | Path) -> Path:
    """Return the path of a file that is there."""
    if not Path(path).is_file():
        raise DataError(f"Expected {path} to be a file, but there is none. Check the path.")
    return Path(path)


def _literal(path: str | Path) -> str:
    """The path of a file that is there, in the form in which DuckDB takes no sign of it for a pattern."""
    return re.sub(r"[*?\[]", r"[\g<0>]", str(existing(path)))


def guarded(read: Callable[[], Any], place: str) -> Any:
    """Run a reader; what DuckDB says of files and columns becomes an error about ``place``."""
    duckdb = require("duckdb")
    try:
        return read()
    except (duckdb.Error, OSError) as error:
        if isinstance(error, OSError) and error.errno is not None:
            raise
        text = str(error)  # an Arrow reader raises OSError with the words of DuckDB
        kind = said[1] if (said := re.match(r"([A-Z][A-Za-z ]*) Error: ", text)) else type(error).__name__
        if kind == "Out of Memory":
            raise MemoryLimitError(
                f"Expected {place} to be read within the limit of memory, but more is needed. Allow more memory, or close "
                "other programs."
            ) from None
        if "Could not set lock" in text or "being used by another process" in text:
            raise DataError(
                f"Expected {place} not to be in use, but another process has it open for writing. Close it there, or read a copy."
            ) from None
        raise DataError(f"Expected {place} to be readable, got {_reason(kind, text)}. Correct the input.") from None


def _reason(kind: str, text: str) -> str:
    """What DuckDB says of files, columns and queries; of anything else, which may quote values, its kind, row and column."""
    if kind in _ABOUT_NAMES:
        return " ".join(line.strip() for line in text.splitlines()[:3]).rstrip(".")
    row, column = re.match(r"[^\n]*Line: (\d+)", text), re.search(r'^Error when converting column "(\w+)"', text, re.M)
    kind = "text that is not UTF-8" if "utf-8" in text.lower() else f"an error of kind {kind}"
    where = (f" in row {row[1]}" if row else "") + (f", column {column[1]!r}" if column else "")
    return f"{kind}{where}"


def table(read: Callable[[], Any], place: str) -> Any:
    """Return what a reader reads as an Arrow table; ``place`` names it in errors."""
    relation = guarded(read, place)
    if relation is None:
        raise DataError(f"Expected {place} to return rows, got a statement that returns none. Write a SELECT.")
    return guarded(relation.to_arrow_table, place)


def known(names: list[str], column: str | None, place: str) -> str | None:
    """Return the name of a column that is among ``names``, those of the table that ``place`` names; None stays None."""
    if column is None or column in names:
        return column
    near = get_close_matches(column, names, n=1)
    hint = f"Did you mean {near[0]!r}?" if near else "Name one of them."
    raise DataError(f"Expected {place} to have the column {column!r}, got the columns {', '.join(names)}. {hint}")


def documents_of(nodes: Any, columns: Sequence[str], place: str) -> Documents:
    """Return the texts of a node table.

    Args:
        nodes: the node table.
        columns: columns of texts.
        place: names the table in errors.

    Raises:
        DataError: a column is not there, or holds something else than text.
    """
    from sfumato.graph import encode

    texts = [encode.encode_texts(name, nodes.column(known(nodes.column_names, name, place))) for name in columns]
    return Documents(tuple(columns), list(zip(*texts, strict=True)))


def csv_relation(connection: Any, path: str | Path, texts: Callable[[list[str]], set[str | None]]) -> Any:
    """Open a CSV file; ids and declared columns, which ``texts`` names, stay text, so that 007 is not 7."""
    place, mark = str(existing(path)), _delimiter(Path(path))
    read = partial(
        connection.read_csv, _literal(path), header=True, sep=mark, quotechar='"', skiprows=0,
        comment="", hive_partitioning=False,
    )  # fmt: skip
    try:
        names = list(guarded(read, place).columns)
    except DataError:
        _check_cells(Path(path), mark)
        raise
    if all(name.strip().lstrip("-").isdigit() for name in names):
        raise DataError(
            f"Expected the first row of {place} to name the columns, got whole numbers. Add a row such as id,..."
        )
    types = {name: "VARCHAR" for name in names if name in texts(names)}
    return guarded(partial(read, dtype=types), place)


def _open(path: Path) -> Any:
    opener: Any = gzip.open if path.suffix == ".gz" else open
    return opener(path, "rt", encoding="utf-8", errors="replace", newline="")


def _delimiter(path: Path) -> str:
    """The first of comma, tab, semicolon, bar and space that stands in the header row."""
    with _open(path) as file:
        header = file.readline().strip()
    if not header:
        raise DataError(f"Expected {path} to start with a row of column names, got an empty row. Add a header row.")
    return next((mark for mark in ",\t;| " if mark in header), ",")


def _check_cells(path: Path, mark: str) -> None:
    """Name the first row that has another number of cells than the header."""
    csv.field_size_limit(2**31 - 1)  # a document may be one cell
    with _open(path) as file:
        rows = csv.reader(file, delimiter=mark)
        width = len(next(rows))
        for row, cells in enumerate(rows, start=2):
            if cells and len(cells) != width:
                raise DataError(
                    f"Expected {width} cells in every row of {path}, as in its header, but row {row} has {len(cells)}. "
                    "Correct the row, its quotes or its delimiters."
                )
