"""The ends of edges are found among the ids of nodes, rows after rows."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from sfumato.errors import DataError
from sfumato.tables._columns import by_place, check_ends, edge_names, needed, passed, row_number, type_name, weight_name
from sfumato.tables._persons import person_column, persons_of
from sfumato.tables._tables import FileTable, check_names
from sfumato.tables._windows import ages_column, fading, inside, time_column, windows_of

if TYPE_CHECKING:
    from sfumato.tables._reading import Reading

Numbers = Callable[[int], int]
"""Gives the number of a row in errors; rows of values are counted from 0."""
_BATCH = 1 << 22


class Places:
    """The numbers of nodes by their ids; ``ids`` is an Arrow array in the order of the nodes."""

    def __init__(self, ids: Any) -> None:
        import pyarrow as pa

        self.ids, self._table, self._low = ids, None, 0
        if ids.type == pa.int64():
            numbers = ids.to_numpy()
            low, high = int(numbers.min()), int(numbers.max())
            if high - low < 8 * len(numbers) + 1024:
                self._low, self._table = low, np.full(high - low + 1, -1, dtype=np.int32)
                self._table[numbers - low] = np.arange(len(numbers), dtype=np.int32)

    def holds(self, name: str) -> bool:
        import pyarrow as pa

        from sfumato.tables._arrow import positions

        return bool(positions(pa.array([name], pa.large_string()), self.ids)[0] >= 0)

    def find(self, values: Any) -> np.ndarray:
        """Return the number of the node that each id names, -1 for none: as it is written, else ``7.0`` and ``7e0`` as ``7``."""
        if self._table is None or values.type != self.ids.type or values.null_count:
            return self._as_text(values)
        numbers = values.to_numpy()
        if not len(numbers):
            return numbers.astype(np.int32)
        if numbers.min() < self._low or int(numbers.max()) - self._low >= len(self._table):
            return self._as_text(values)
        codes: np.ndarray = self._table[numbers - self._low]
        return codes

    def _as_text(self, values: Any) -> np.ndarray:
        import pyarrow as pa

        from sfumato.tables._arrow import positions
        from sfumato.tables._whole import without_fraction

        codes, ids = positions(values, self.ids), self.ids
        unknown = codes < 0
        if int(unknown.sum()) == values.null_count or values.type == ids.type == pa.int64():
            return codes
        values = without_fraction(values.cast(pa.large_string()))
        for known in (ids, without_fraction(ids.cast(pa.large_string()))):
            codes = np.where(unknown, positions(values, known), codes)
            unknown = codes < 0
        return codes


def edge_batches(
    edges: Any,
    nodes: Places,
    how: Reading,
    places: tuple[str, str],
    number: Numbers,
    rows: int = 0,
    skip: int = 0,
    *,
    late: bool = False,
) -> Iterator[tuple[np.ndarray, np.ndarray, np.ndarray | None, Any]]:
    """Yield the numbers of both ends of edges, their weights or numbers of types, and their owners, rows after rows.

    What is not declared is None, and owners are an Arrow array of texts. Of the rows outside a window that is asked for nothing
    is read but their time; so it is with those after a split, and ``late`` reads these, and no others.
    """
    from sfumato.tables import _encode as encode
    from sfumato.tables._unmatched import remedy

    check_names(edges.column_names, places[1])
    names = edge_names(edges.column_names, how, places[1])
    check_ends(names, edges.column_names, how, places[1], nodes.holds)
    weight = weight_name(edges.column_names, names, how, places[1])
    kind = type_name(edges.column_names, names, how, places[1])
    time = time_column(edges.column_names, names, how, places[1])
    ages = ages_column(edges.column_names, names, how, places[1])
    person = person_column(edges.column_names, names, how, places[1])
    found = by_place(edges.column_names, how)
    numbered = Numbered(names if len(found) > 2 else ())
    out, more = _Others(passed(edges.column_names, how) if found else [], nodes), _Others(found[2:], nodes)
    read = list(dict.fromkeys(filter(None, (*names, weight, kind, time, ages, person, *out.names, *more.names))))
    parts = edges.batches(read, rows or _BATCH, skip) if isinstance(edges, FileTable) else (edges,)

    kept: np.ndarray | None = None

    def here(row: int) -> int:
        return number(skip + (row if kept is None else int(kept[row])))

    for whole in parts:
        ends, part, kept = [], whole, None
        if time and how.within:
            rows_inside = inside(whole.column(time), how.within, places[1], here) != late
            part, kept = whole.filter(rows_inside), np.flatnonzero(rows_inside)
        out.see(part)
        for column in names:
            values = encode.encode_ids(part.column(column), f"column {column!r} of {places[1]}")
            codes = nodes.find(values)
            numbered.see(column, values)
            if len(codes) and codes.min() < 0:
                row = int(np.argmin(codes))
                problem = "an unknown node" if values[row].is_valid else "no node"
                todo = remedy(values, codes, nodes.ids) if values[row].is_valid else "Name it, or remove the edge."
                raise DataError(
                    f"Expected every edge to link nodes of {places[0]}, but row {here(row)} of {places[1]} has "
                    f"{problem} in column {column!r}. {todo} Ends are read from "
                    f"the columns {' and '.join(map(repr, names))}: if others are meant, call them source and target."
                )
            ends.append(codes)
        if numbered.some():
            more.see(part)
        values = None
        if weight is not None:
            values = encode.encode_weights(weight, part.column(weight), places[1], here)
        if kind is not None and how.types is not None:
            values = encode.encode_types(kind, part.column(kind), how.types[1], places[1], here, _windows(how, here))
        if how.fading is not None:
            values = fading(part.column(ages), how.fading, values, places[1], here)
        owners = persons_of(part.column(person), person, places[1], here) if person else None
        yield ends[0], ends[1], values, owners
        skip += whole.num_rows
    if (odd := numbered.still()) is not None and more.names:
        raise row_number(odd, places[1])
    if (end := out.end()) is not None:
        needed(end, how, places[1], "end, since it stands first and every cell of it is the id of a node")


def _windows(how: Reading, number: Numbers) -> Callable[[Any, str], np.ndarray] | None:
    """What gives the window of each row where windows of time are the types of edges."""
    period = how.period
    return None if period is None else lambda column, place: windows_of(column, period, place, number)


class _Others:
    """Columns that are not read as ends: each may be an end of an edge, if all of its cells are ids of nodes."""

    def __init__(self, names: list[str], nodes: Places) -> None:
        self.names, self._nodes, self._numbered = names, nodes, Numbered(names)

    def see(self, part: Any) -> None:
        from sfumato.tables import _encode as encode

        for name in self.names if part.num_rows else ():
            try:
                values = encode.encode_ids(part.column(name), name)
            except DataError:
                values = None
            if values is None or self._nodes.find(values).min() < 0:
                self.names = [one for one in self.names if one != name]
            else:
                self._numbered.see(name, values)

    def end(self) -> str | None:
        return next((name for name in self.names if self._numbered.rows(name) == 0), None)


class Numbered:
    """Which of some columns number the rows: every cell is one more than that above, in at least three rows."""

    def __init__(self, names: Sequence[str]) -> None:
        self._next: dict[str, int | None] = dict.fromkeys(names)
        self._rows = dict.fromkeys(names, 0)

    def see(self, name: str, values: Any) -> None:
        """Take the next cells of a column, as :func:`sfumato.tables._encode.encode_ids` returns them."""
        import pyarrow as pa

        if name not in self._next or not len(values):
            return
        numbers = values.to_numpy() if values.type == pa.int64() and not values.null_count else np.zeros(2)
        if self._next[name] not in (None, numbers[0]) or (np.diff(numbers) != 1).any():
            del self._next[name]
            return
        self._next[name] = int(numbers[-1]) + 1
        self._rows[name] += len(numbers)

    def rows(self, name: str) -> int:
        """Return how many rows a column numbers; 0 if it does not."""
        return self._rows[name] if name in self._next else 0

    def some(self) -> bool:
        return bool(self._next)

    def still(self) -> str | None:
        return next((name for name in self._next if self.rows(name) > 2), None)
