"""CSV files are read as text by their :class:`~sfumato.tables._form.Form`.

DuckDB reads what is written in one way throughout. What it refuses is read by the row here, which either reads it (mixed line
ends, UTF-16) or says which row is wrong, and why. Both give every cell as text; :mod:`sfumato.tables._cells` says what it means.
A line without any character is no row.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from sfumato.errors import DataError
from sfumato.tables._text_file import fits_in

if TYPE_CHECKING:
    from sfumato.tables._form import Form


def relation(connection: Any, form: Form, literal: str) -> Any:
    """Open a file of one form in DuckDB, every cell as text; ``literal`` is its path, and columns are named ``c0`` and so on."""
    found = connection.read_csv(
        literal, header=False, auto_detect=False, columns=dict.fromkeys(form.inner, "VARCHAR"), sep=form.delimiter,
        quotechar='"', escapechar='"', skiprows=form.skip, compression=form.file.compression, strict_mode=True,
        null_padding=False, hive_partitioning=False, allow_quoted_nulls=False,
    )  # fmt: skip
    return (
        found.filter("c0 IS NOT NULL") if len(form.names) == 1 else found
    )  # of one column, it gives empty lines as well


def tables(form: Form, names: Sequence[str], rows: int, skip: int = 0) -> Iterator[Any]:
    """Yield columns as Arrow tables of at most so many rows, row by row, without the first ``skip`` rows."""
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
    width = len(form.names)
    for line, cells in form.file.records(form.delimiter, form.skip):
        if not fits_in(cells, width):
            raise DataError(
                f"Expected {width} cells in every row of {form.file.path}, as in its header, but row {line} has {len(cells)}. "
                "Correct the row, its quotes or its delimiters."
            )
        yield cells[:width]
