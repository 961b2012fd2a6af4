"""Tables of nodes and edges are read from files by DuckDB, as Arrow tables. Errors name a place, never a value."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

from sfumato._optional import require
from sfumato._validate import fail, nearest
from sfumato.errors import DataError, MemoryLimitError
from sfumato.tables import _csv
from sfumato.tables._foreign import check_parquet
from sfumato.tables._form import Form, form_of
from sfumato.text._documents import Documents

_ROWS = 1 << 16
_CELLS = 1 << 22  # that are read or written together: opening a file costs more than a few, and many cost memory
_LEAST_ROWS = 1 << 11  # that are written together, in one step of DuckDB
_ABOUT_NAMES = ("Binder", "Catalog", "IO", "Parser", "Permission", "Syntax")


def is_parquet(path: str | Path) -> bool:
    """Say whether a file is Parquet by its name."""
    return isinstance(path, str | Path) and Path(path).suffix.lower() in (".parquet", ".pq")


def file_table(path: str | Path) -> Any:
    """Read a CSV or Parquet file as an Arrow table; every cell of a CSV file is text."""
    return FileTable(path).whole()


def no_edges() -> Any:
    import pyarrow as pa

    return pa.table({name: pa.array([], pa.large_string()) for name in ("source", "target")})


def counted(row: int) -> int:
    """Return the number of a row in errors, where rows are counted from 1 on."""
    return row + 1


def numbering(path: str | Path) -> Callable[[int], int]:
    """Return what gives the number of a row of values in errors: in a CSV file that of its line, as an editor counts."""
    if is_parquet(path):
        return counted
    file = existing(path)
    return lambda row: form_of(file).number(row)


class FileTable:
    """A CSV or Parquet file that is read by column or in batches of rows. Every cell of a CSV file is text.

    ``config`` are settings of DuckDB, ``names`` those of the columns where the file itself has others.
    """

    def __init__(
        self, path: str | Path, config: Mapping[str, Any] | None = None, names: Sequence[str] | None = None
    ) -> None:
        import pyarrow as pa

        from sfumato.tables._arrow import is_foreign, plain_column

        self.path, self._config = path, dict(config or {})
        self.place = str(existing(path))
        self._form = None if is_parquet(path) else form_of(Path(path))
        if self._form is None:
            check_parquet(Path(path))
        self.num_rows: int | None = None
        self._ahead: dict[str, Any] = {}
        fields: Sequence[Any] = ()
        if self._form is not None:
            inner, kinds = self._form.inner, [pa.large_string()] * len(self._form.names)
            names = self._form.names
        else:
            with self._opened() as relation:
                head = relation.limit(0).to_arrow_table()
                self.num_rows = int(relation.count("*").fetchall()[0][0])
            inner, kinds = head.column_names, head.schema.types
            fields = _own_fields(path, inner)
            names = names or [one.name for one in fields] or inner
        self.column_names: list[str] = [name.strip() for name in names]
        check_names(self.column_names, self.place)
        self.types = dict(zip(self.column_names, kinds, strict=True))
        self._foreign = {name: one for name, one in zip(self.column_names, fields, strict=False) if is_foreign(one)}
        for name, one in self._foreign.items():
            self.types[name] = plain_column(pa.chunked_array([], self.types[name]), one).type
        self._inner = dict(zip(self.column_names, inner, strict=True))
        self.number = counted if self._form is None else self._form.number

    def whole(self) -> Any:
        return self._read(self.column_names)

    def column(self, name: str) -> Any:
        """Return one column as a chunked Arrow array; those of its type that follow are read with it while cells are few."""
        if name not in self._ahead:
            at, count = self.column_names.index(name), _CELLS // max(self.num_rows or _CELLS, 1)
            near = self.column_names[at + 1 : at + count]
            names = [name, *(one for one in near if self.types[one] == self.types[name])]
            self._ahead = dict(zip(names, self._read(names).columns, strict=True))
        column = self._ahead[name]
        if len(self._ahead) == 1:
            self._ahead = {}
        return column

    def _read(self, names: Sequence[str]) -> Any:
        import pyarrow as pa

        if self._form is None or self._form.plain:
            try:
                with self._opened(names) as relation:
                    return self._named(guarded(relation.to_arrow_table, self.place, self._form), names)
            except _Irregular:
                pass
        assert self._form is not None
        parts = list(_csv.tables(self._form, names, _ROWS))
        empty = pa.table({name: pa.array([], pa.large_string()) for name in names})
        return pa.concat_tables(parts) if parts else empty

    def _named(self, table: Any, names: Sequence[str]) -> Any:
        """A table that was read, by the names of its columns, and with the types that their writer gave them."""
        from sfumato.tables._arrow import plain_column

        table = table.rename_columns(list(names))
        for name in set(names) & set(self._foreign):
            column = plain_column(table.column(name), self._foreign[name])
            table = table.set_column(table.column_names.index(name), name, column)
        return table

    def batches(self, names: Sequence[str], rows: int, skip: int = 0) -> Iterator[Any]:
        """Yield columns as Arrow tables of at most so many rows, in order, without the first ``skip`` rows."""
        import pyarrow as pa

        if self._form is None or self._form.plain:
            try:
                with self._opened(names) as relation:
                    relation = relation.limit(2**62, offset=skip) if skip else relation
                    reader = guarded(partial(relation.to_arrow_reader, rows), self.place, self._form)
                    while (batch := guarded(partial(next, reader, None), self.place, self._form)) is not None:
                        if batch.num_rows:
                            skip += batch.num_rows
                            yield self._named(pa.Table.from_batches([batch]), names)
                return
            except _Irregular:
                pass
        assert self._form is not None
        yield from _csv.tables(self._form, names, rows, skip)

    def write_parquet(self, path: Path) -> None:
        """Write all rows as a Parquet file, in order; its columns have the names ``c0``, ``c1`` and so on."""
        import pyarrow as pa
        import pyarrow.parquet as pq

        assert self._form is not None
        if self._form.plain:
            try:
                rows = max(_CELLS // len(self.column_names), _LEAST_ROWS)
                with self._opened() as relation:
                    write = partial(relation.write_parquet, str(path), row_group_size=rows)
                    guarded(write, self.place, self._form)
                return
            except _Irregular:
                pass
        schema = pa.schema([(name, pa.large_string()) for name in self._form.inner])
        with pq.ParquetWriter(path, schema) as file:
            for part in _csv.tables(self._form, self.column_names, _ROWS):
                file.write_table(part.rename_columns(self._form.inner))

    @contextmanager
    def _opened(self, names: Sequence[str] = ()) -> Iterator[Any]:
        duckdb = require("duckdb")
        with duckdb.connect(config=self._config) as connection:
            if self._form is None:
                relation = guarded(partial(connection.read_parquet, _literal(self.path)), self.place)
            else:
                read = partial(_csv.relation, connection, self._form, _literal(self.path))
                relation = guarded(read, self.place, self._form)
            yield relation.project(", ".join(_quoted(self._inner[name]) for name in names)) if names else relation


def _own_fields(path: str | Path, inner: Sequence[str]) -> Sequence[Any]:
    """The columns of a Parquet file as they stand: DuckDB renames those that differ in capitals alone, and forgets some types."""
    import pyarrow.parquet as pq

    fields = list(pq.read_schema(path))
    return fields if len(fields) == len(inner) else ()


class _Irregular(Exception):  # noqa: N818
    """DuckDB refuses the rows of a CSV file: they are read one by one, which reads them or says what is wrong."""


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def existing(path: str | Path) -> Path:
    if not isinstance(path, str | Path):
        raise fail("a table", type(path).__name__, "to be the path of a file", "Data frames are read by from_frames.")
    if not Path(path).is_file():
        raise DataError(f"Expected {path} to be a file, {_absent(Path(path))}")
    return Path(path)


def _absent(path: Path) -> str:
    """What stands in place of a file, and what to do."""
    if path.is_dir():
        stored = "A stored graph is named with --graph, or read by Graph.load. " * (path / "graph.json").exists()
        return f"got a folder. {stored}Name a file in it."
    if re.match(r"[A-Za-z][A-Za-z0-9+.-]+:/", str(path)):
        return "got an address. Download the file first: nothing is fetched."
    beside = [one.name for one in path.parent.iterdir() if one.is_file()] if path.parent.is_dir() else []
    near = nearest(path.name, beside) or "Check the path."
    return f"but there is none. {near} A table that was moved is named anew with `nodes` and `edges`."


def _literal(path: str | Path) -> str:
    """The path of a file that is there, in the form in which DuckDB takes no sign of it for a pattern."""
    return re.sub(r"[*?\[]", r"[\g<0>]", str(existing(path)))


def guarded(read: Callable[[], Any], place: str, form: Form | None = None) -> Any:
    """Run a reader; what DuckDB says of files and columns becomes an error about ``place``, but for rows of a ``form``."""
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
        if form is not None and kind not in _ABOUT_NAMES:
            raise _Irregular from None
        raise DataError(f"Expected {place} to be readable, got {_reason(kind, text)}. Correct the input.") from None


def _reason(kind: str, text: str) -> str:
    """What DuckDB says of files, columns and queries; of anything else, which may quote values, its kind."""
    if kind in _ABOUT_NAMES:
        return " ".join(line.strip() for line in text.splitlines()[:3]).rstrip(".")
    return "text that is not UTF-8" if "utf-8" in text.lower() else f"an error of kind {kind}"


def table(read: Callable[[], Any], place: str) -> Any:
    from sfumato.tables._arrow import plain_table

    relation = guarded(read, place)
    if relation is None:
        raise DataError(f"Expected {place} to return rows, got a statement that returns none. Write a SELECT.")
    return plain_table(guarded(relation.to_arrow_table, place))


def known(names: list[str], column: str | None, place: str) -> str | None:
    """Return the name of a column that is among ``names``, those of the table that ``place`` names; None stays None."""
    if column is None or column in names:
        return column
    hint = nearest(column, names) or "Name one of them."
    raise DataError(f"Expected {place} to have the column {column!r}, got the columns {', '.join(names)}. {hint}")


def check_names(names: Sequence[str], place: str) -> None:
    """Refuse a table that has two columns of one name; ``place`` names it."""
    seen: dict[str, int] = {}
    for number, name in enumerate(names, start=1):
        if name and name in seen:
            raise DataError(
                f"Expected every column of {place} to have a name of its own, got {name!r} for the columns {seen[name]} and "
                f"{number}. Rename one of them."
            )
        seen[name] = number


def documents_of(nodes: Any, columns: Sequence[str], place: str) -> Documents:
    from sfumato.tables import _encode as encode

    texts = [encode.encode_texts(name, nodes.column(known(nodes.column_names, name, place))) for name in columns]
    return Documents(tuple(columns), list(zip(*texts, strict=True)))
