"""Several edge tables, one for each type of edges. Each is read by the rules of a single one, and named in its own errors."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from sfumato._validate import fail
from sfumato.errors import InputError
from sfumato.graph._types import check_alone, check_type_names
from sfumato.tables._columns import check_order
from sfumato.tables._ends import edge_batches

if TYPE_CHECKING:
    from sfumato.tables._ends import Numbers, Places
    from sfumato.tables._reading import Reading


def edge_files(given: Sequence[str]) -> dict[str, str]:
    """Return the files of edges by their types, from words TYPE=FILE.

    Raises:
        InputError: a word is none of these, or names a type again.

    >>> edge_files(["friend=a.csv", "call=b.csv"])
    {'friend': 'a.csv', 'call': 'b.csv'}
    """
    found: dict[str, str] = {}
    for one in given:
        name, _, path = (part.strip() for part in one.partition("="))
        if not name or not path or name in found:
            raise fail("edges_of", one, "to be TYPE=FILE, each type once", "Such as friend=friends.csv.")
        found[name] = path
    return found


@dataclass(frozen=True)
class EdgeTables:
    """Several edge tables by the name of their type: each with its place and the numbers of its rows in errors."""

    tables: dict[str, tuple[Any, str, Numbers]]
    public: tuple[str, ...] = ()

    @classmethod
    def of(cls, tables: Mapping[str, tuple[Any, str, Numbers]], how: Reading, public: Any) -> Self:
        """Return the tables, of which each is read without types of its own; ``public`` are types that are no secret.

        Raises:
            InputError: names are none of types, or the reading has types, weights or owners of its own.
        """
        if how.edge_type is not None or how.edge_types:
            raise InputError(
                "Expected a table for each type of edges, or one table with `edge_type`, got both. Drop `edge_type` and "
                "`edge_types`: the names of the tables are the types."
            )
        if how.types is not None:
            raise InputError(
                "Expected no types under [edges] of the schema beside several edge tables. Remove them there."
            )
        check_alone(how.weight, how.owner)
        return cls(dict(tables), check_type_names(tuple(tables), public)[1])

    @property
    def names(self) -> tuple[str, ...]:
        """The types."""
        return tuple(self.tables)

    @property
    def column_names(self) -> list[str]:
        """The columns of all tables, those of the first one first."""
        return list(dict.fromkeys(name for table, _, _ in self.tables.values() for name in table.column_names))

    def check_order(self, nodes: list[str], how: Reading, place: str) -> None:
        """Refuse tables that look as if that of the nodes stood among them."""
        for table, own, _ in self.tables.values():
            check_order(nodes, table.column_names, how, (place, own))

    def batches(self, nodes: Places, how: Reading, place: str, *, late: bool = False) -> Iterator[Any]:
        """Yield the ends of edges and the numbers of their types, as :func:`~sfumato.tables._ends.edge_batches` does."""
        for code, (table, own, number) in enumerate(self.tables.values()):
            for source, target, _, owners in edge_batches(table, nodes, how, (place, own), number, late=late):
                yield source, target, np.full(len(source), code, np.int64), owners
