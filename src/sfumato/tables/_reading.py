"""A reading says how two tables become a graph, and what was read of the first one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sfumato._validate import check_choice, fail
from sfumato._window import PERIODS, Recency, TimeSplit, Window
from sfumato.errors import InputError
from sfumato.graph._accounts import declared_accounts
from sfumato.graph._persons import declared_owner
from sfumato.graph._schema import Schema, trimmed
from sfumato.graph._types import check_alone, declared_types
from sfumato.graph._weights import check_bound, declared_weight

if TYPE_CHECKING:
    from sfumato.tables._cells import Told
    from sfumato.text._documents import Report

_ONE = ("id_column", "role", "source", "target", "edge_weight", "edge_type", "person")
_SEVERAL = ("label", "features", "text", "drop")
"""The arguments that name columns: white space at their ends does not count, as in the tables themselves."""


@dataclass(frozen=True)
class Reading:
    """How two tables become a graph: the keyword arguments that all readers share, which :func:`read_csv` explains."""

    label: str | Sequence[str] | None = None
    schema: Schema | Mapping[str, Any] | str | Path | None = None
    directed: bool | None = None
    id_column: str | None = None
    role: str | None = None
    features: Sequence[str] | None = None
    source: str | None = None
    target: str | None = None
    self_loops: str = "remove"
    name: str = "graph"
    text: Sequence[str] = ()
    text_features: str | None = None
    report: Report | None = None
    edge_weight: str | None = None
    max_weight: float | None = None
    told: Told | None = None
    drop: Sequence[str] = ()
    window: str | None = None
    person: str | None = None
    edges_per_person: int | None = None
    nodes_per_person: int | None = None
    edge_type: str | None = None
    edge_types: Sequence[str] | None = None
    public_types: Sequence[str] = ()
    split_by_time: str | None = None
    recency: str | None = None

    def __post_init__(self) -> None:
        for name in (*_ONE, *_SEVERAL):
            object.__setattr__(self, name, _named(name, getattr(self, name)))
        if self.directed is not None and not isinstance(self.directed, bool):
            raise fail("directed", self.directed, "to be True, False or None", "Declare the direction of the edges.")
        check_choice(("remove", "keep", "error"), self_loops=self.self_loops)
        for name in ("report", "told"):
            if getattr(self, name) is not None and not callable(getattr(self, name)):
                raise fail(name, type(getattr(self, name)).__name__, "to be a function")
        for name in ("name", "text_features"):
            given = getattr(self, name)
            if given is not None and not isinstance(given, str):
                raise fail(name, getattr(self, name), "to be a text")
        if bool(self.text) != (self.text_features is not None):
            raise InputError(
                f"Expected columns of texts and their encoder together, got text={self.text!r} and "
                f"text_features={self.text_features!r}. Name both, such as text=['abstract'] and text_features='hashing'."
            )

        if self.recency is not None and self.types is not None:
            raise InputError(
                "Expected `recency` or types of edges, got both. Windows of time are types: edge_type=COLUMN:PERIOD."
            )
        if self.types is not None:
            check_alone(self.weight, self.owner)
        if self.window is not None and self.split_by_time is not None:
            raise InputError("Expected `window` or `split_by_time`, got both. Drop one of them.")
        if self.account is not None and self.split_by_time is not None:
            raise InputError(
                "Expected owners of nodes or split_by_time, got both: later links are scored by methods that read links, none of "
                "which has a proof for a person of many nodes. Drop nodes_per_person, or split_by_time."
            )
        if self.within is not None and self.self_loops == "error":
            raise fail("self_loops", "error", "to be 'remove' or 'keep' where a window, or a split by time, is read")

    @property
    def within(self) -> Window | TimeSplit | None:
        """The window whose edges are read, or the split before which they lie; None reads those of all times."""
        if self.split_by_time is not None:
            return TimeSplit.parse(self.split_by_time)
        return None if self.window is None else Window.parse(self.window)

    @property
    def owner(self) -> tuple[str, int] | None:
        """The column of the owners of edges, and the most edges that each keeps; None where rows have no owners."""
        if self.account is not None:
            return None
        said = Schema.read(self.schema).edges
        return declared_owner(self.person, self.edges_per_person, said)

    @property
    def account(self) -> tuple[str, int] | None:
        """The column of the owners of nodes, and the most nodes of each; None where nodes have no owners."""
        return declared_accounts(self.person, self.edges_per_person, self.nodes_per_person, Schema.read(self.schema))

    @property
    def left_out(self) -> frozenset[str]:
        return frozenset((*self.drop, *Schema.read(self.schema).drop))

    @property
    def weight(self) -> tuple[str | None, float] | None:
        """The column of the weights of edges, None if they follow from recency alone, and their public bound; None without."""
        said = Schema.read(self.schema).edges
        column = self.edge_weight if said is None or self.edge_weight else said.weight
        if self.recency is not None and column is None:
            return None, check_bound(1.0 if self.max_weight is None else self.max_weight)
        return declared_weight(self.edge_weight, self.max_weight, said)

    @property
    def fading(self) -> Recency | None:
        """How weights of edges fade with age; ages are counted from the named day, else the split, else the end of the window.

        It is never the newest date of the table: that is a fact about one private edge, and would move all weights.
        """
        if self.recency is None:
            return None
        found, within = Recency.parse(self.recency), self.within
        if found.reference is not None:
            return found
        if within is None:
            raise InputError(
                f"Expected `recency` to say the day from which ages are counted, got {self.recency!r}. Add one that is known "
                f"without this data, such as {found}@2026-03-01: the newest date of the table is a fact about one private edge."
            )
        return replace(found, reference=within.first if isinstance(within, TimeSplit) else within.last)

    @property
    def types(self) -> tuple[str, tuple[str, ...], tuple[str, ...]] | None:
        """The column of the types of edges, the names of all types, and which are public; None where edges have none."""
        found = self._types
        return None if found is None else (found[0].removesuffix(f":{self.period}"), *found[1:])

    @property
    def period(self) -> str | None:
        """The period whose windows are the types of edges, where their column holds times: COLUMN:PERIOD; else None."""
        found = self._types
        column, _, period = ("", "", "") if found is None else found[0].rpartition(":")
        return period if column and period in PERIODS else None

    @property
    def _types(self) -> tuple[str, tuple[str, ...], tuple[str, ...]] | None:
        return declared_types(self.edge_type, self.edge_types, self.public_types, Schema.read(self.schema).edges)

    @property
    def of_edges(self) -> tuple[str | None, ...]:
        """The columns of the edge table that are read beside the ends: weights, types and times, each if there is one."""
        declared = self.weight, self.types
        return *(None if one is None else one[0] for one in declared), *(one.column for one in self.times)

    @property
    def times(self) -> tuple[Window | TimeSplit | Recency, ...]:
        """What is read by the times of edges."""
        return tuple(one for one in (self.within, self.fading) if one is not None)


def _named(argument: str, given: Any) -> Any:
    if given is None:
        return () if argument in ("text", "drop") else None
    if isinstance(given, str) and argument in ("label", *_ONE):
        return given.strip()
    several = isinstance(given, list | tuple | Mapping | Set) and argument in _SEVERAL
    if several and all(isinstance(name, str) for name in given):
        return trimmed(tuple(given))
    wanted = "the name of a column" if argument in _ONE else "names of columns"
    raise fail(argument, given, f"to be {wanted}", "Name columns by text." if argument in _ONE else "Such as ['age'].")


@dataclass(frozen=True)
class Nodes:
    """A node table that was read, all but the values of features; ``layout`` is a :class:`~sfumato.tables._features.Layout`."""

    ids: Any
    layout: Any
    fields: dict[str, Any]
