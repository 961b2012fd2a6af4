"""Which columns of a table of nodes that arrive mean what: those of the trained graph's table, by their names."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sfumato.errors import DataError

if TYPE_CHECKING:
    from sfumato.tables._reading import Reading


def id_column_of(names: list[str], said: str | None, other: Collection[str], place: str) -> str:
    """The column of ids: that of the trained graph, else one of a usual name or the only one left, never one by its place."""
    from sfumato.tables._columns import check_one, named, usual_ids
    from sfumato.tables._tables import known

    found = known(names, said, place)
    if found is None:
        usual = [name for name in usual_ids(names) if name not in other]
        check_one(usual, place)
        found = next(iter(usual), None)
    left = [found] if found else [name for name in named(names) if name not in other]
    if len(left) != 1:
        raise DataError(
            f"Expected {place} to have the column of ids that the trained graph's table had, got the columns {', '.join(names)}. "
            "Call it id, or name it: id_column, or id in the schema."
        )
    return left[0]


def check_named(names: list[str], how: Reading, place: str, *, directed: bool) -> None:
    """Refuse ends that would be found by their place alone."""
    from sfumato.tables._columns import by_place

    found = by_place(names, how)
    if len(found) > 2 or (directed and found):
        raise DataError(
            f"Expected {place} to name both ends of its edges as the trained graph's table did, got the columns "
            f"{', '.join(names)}. Call them source and target, or name them: ends."
        )


def table_of(table: Any, name: str) -> tuple[Any, str, Callable[[int], int]]:
    """An Arrow table of a file or a frame, what to call it, and what numbers its rows."""
    from sfumato.tables._frames import arrow_table
    from sfumato.tables._tables import counted, file_table, numbering

    if isinstance(table, str | Path):
        return file_table(table), str(table), numbering(table)
    return arrow_table(table, name), name, counted


def unnamed(
    names: list[str], ids: str, text: Sequence[str], num_features: int, place: str
) -> dict[str, tuple[str, ...]]:
    """The columns of numbers that stand for features without names, in the order of the table."""
    if not num_features:
        return {}
    from sfumato.tables._columns import named

    numbers = [name for name in named(names) if name != ids and name not in text]
    if len(numbers) != num_features:
        raise DataError(
            f"Expected {place} to have {num_features} columns of features, as the trained graph, whose columns have no names, "
            f"got {len(numbers)}. Give them alone, in their order, beside the ids."
        )
    return dict.fromkeys(numbers, ())


def columns_of(feature_names: Sequence[str], table: Sequence[str]) -> dict[str, tuple[str, ...]]:
    """The columns that features come from, in order, with their categories; none for a number. ``table`` are its columns."""
    columns: dict[str, list[str]] = {}
    for name in feature_names:
        column, sign, category = name.partition("=")
        while sign and column not in table and "=" in category:  # the name of a column may hold the sign, too
            more, sign, category = category.partition("=")
            column = f"{column}={more}"
        if name in table and column not in table:
            column, sign, category = name, "", ""
        columns.setdefault(column, []).extend([category] if sign else [])
    return {column: tuple(categories) for column, categories in columns.items()}
