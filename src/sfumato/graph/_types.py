r"""Types of edges: which kinds of links there are between two nodes, as bits of one small number for each arc.

A *typed* graph holds several kinds of links, such as friendships, calls and shared addresses. Two nodes may be linked by
several of them: then their arc is stored once, with one bit for each type. **A record is one edge of one type**, so such a pair
is several records. Whoever reads the arcs without their types reads the graph in which two nodes are linked if an edge of any
type links them: one record changes at most one edge of it, so every claim of a method that knows no types holds there as it is.

The names of the types are declared, never read off the data: that there is an edge of some type at all may be a fact about one
private edge. Types can be declared *public*: then their edges are read in the clear, and no record.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from sfumato._validate import fail
from sfumato.errors import DataError, InputError
from sfumato.graph._arcs import owners
from sfumato.graph._checks import as_array

MOST_TYPES = 16
NAME = r"\w[\w .:>-]{0,39}"
"""What a name of a type looks like; certificates hold it."""
_UNDECLARED = (
    "List them from what is known without this data: edge_types=['friend', 'call'] (types under [edges] of a schema)."
)
_PUBLIC = "Where all edges are public, train with --unit none."


@dataclass(frozen=True, eq=False, repr=False)
class EdgeTypes:
    """Edge types are the kinds of links of a graph, with a bit for each of them on every arc in the order of ``Graph.indices``.

    ``names`` are all types, and ``public`` those whose edges are no secret.

    Shapes: ``marks`` uint16 [num_arcs]; bit k says that an edge of type ``names[k]`` is there, and at least one bit is set.

    Raises:
        InputError: names are missing, repeated, too many or no plain words, or all types are public.
        DataError: a mark names no type.

    >>> kinds = EdgeTypes(np.array([1, 3, 2], np.uint16), ("friend", "call"))
    >>> kinds.of("call").tolist(), kinds.protected
    ([False, True, True], ('friend', 'call'))
    """

    marks: np.ndarray
    names: tuple[str, ...]
    public: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        names, public = check_type_names(self.names, self.public)
        object.__setattr__(self, "names", names)
        object.__setattr__(self, "public", public)

    def __repr__(self) -> str:
        return f"EdgeTypes({', '.join(self.names)})"

    @property
    def protected(self) -> tuple[str, ...]:
        """The types whose edges are records, in their order."""
        return tuple(name for name in self.names if name not in self.public)

    def of(self, name: str) -> np.ndarray:
        """Mark the arcs along which there is an edge of one type, bool [num_arcs]."""
        found: np.ndarray = (self.marks & np.uint16(1 << self.names.index(name))) != 0
        return found

    def take(self, places: np.ndarray) -> EdgeTypes:
        """Return the types of other arcs of the same graph; ``places`` are their numbers, or a mask."""
        return EdgeTypes(self.marks[places], self.names, self.public)

    def check(self, indptr: np.ndarray, indices: np.ndarray, *, directed: bool) -> EdgeTypes:
        """Return these types if they fit the arcs of a graph; if it is undirected, both arcs of an edge have the same ones.

        Args:
            indptr: row pointers [num_nodes + 1].
            indices: targets of the arcs, [num_arcs].
            directed: whether every arc is an edge of its own.

        Raises:
            DataError: they do not fit.
        """
        if self.marks.dtype != np.uint16 or self.marks.shape != (len(indices),):
            raise DataError(
                f"Expected types to be uint16 [{len(indices)}], one for each arc, got {self.marks.dtype} of shape "
                f"{self.marks.shape}. Whatever builds a graph from the arcs of another has to take their types along "
                "(types.take), or drop them (types=None)."
            )
        if len(indices) and (int(self.marks.min()) < 1 or int(self.marks.max()) >= 1 << len(self.names)):
            raise DataError("Expected every arc to have a declared type, got one without. Build types by from_edges.")
        if not directed and (self.marks[np.argsort(indices, kind="stable")] != self.marks).any():
            raise DataError(
                "Expected both arcs of every edge to have the same types because directed=False, got an arc with others than "
                "its reverse (which one is private). Declare directed=True, or pass one row an edge to Graph.from_edges."
            )
        return self


def check_alone(weights: Any, edges_per_person: Any) -> None:
    """Refuse types beside weights, and beside a bound on the edges of a person: no bound on what a record moves is proved."""
    if weights is not None:
        raise InputError(
            "Expected types or weights of edges, got both: an edge of several types would have one weight, and no bound on what "
            "a record moves is proved for it. Drop the weights, or make types of ranges of them."
        )
    if edges_per_person is not None:
        raise InputError(
            "Expected types of edges or owners of edges, got both: a person keeps so many pairs of nodes, each of which may be "
            "edges of several types, so that more of them would move than the bound says. Leave one of them out."
        )


def check_type_names(names: Any, public: Any = ()) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return declared types and those that are public, each in the order of the first; refuse what no certificate would hold."""
    names, public = (() if given is None else given for given in (names, public))
    for argument, given in (("edge_types", names), ("public_types", public)):
        if isinstance(given, str) or not isinstance(given, Sequence) or not all(isinstance(one, str) for one in given):
            raise fail(argument, given, "to be a list of names", _UNDECLARED)
    for name in names:
        if not re.fullmatch(NAME, name) or not name.isprintable():
            raise fail(
                "edge_types", name, "to name types by letters, digits, spaces and - . : >, at most 40", "Rename it."
            )
    if not 1 <= len(names) <= MOST_TYPES or len(set(names)) < len(names):
        raise fail("edge_types", list(names), f"to be 1 to {MOST_TYPES} different names", _UNDECLARED)
    strange = [name for name in public if name not in names]
    if strange:
        raise fail("public_types", strange[0], f"to be among the types {', '.join(names)}", "Correct one of them.")
    if len(set(public)) == len(names):
        raise fail("public_types", list(public), "to leave a type that is protected", _PUBLIC)
    return tuple(names), tuple(name for name in names if name in public)


def check_codes(values: Any, names: tuple[str, ...], place: str, number: Any = int) -> np.ndarray:
    """Return the number of the type of each row; names or numbers are taken. It tells the row, never the value."""
    found = as_array("edge_type", values)
    if found.ndim != 1:
        raise DataError(f"Expected one type for each edge of {place}, got shape {found.shape}. Pass one a row.")
    if found.dtype.kind in "iu":
        codes = found.astype(np.int64)
    else:
        codes = np.full(len(found), -1, np.int64)
        for code, name in enumerate(names):
            codes[found == name] = code
    wrong = (codes < 0) | (codes >= len(names))
    if wrong.any():
        raise DataError(
            f"Expected every edge to have one of the types {', '.join(names)}, but row {number(int(wrong.argmax()))} of {place} "
            "has another, or none. Declare it as well, correct the row, or leave it out."
        )
    return codes


def with_types(
    fields: dict[str, Any], arcs: tuple[np.ndarray, np.ndarray], rows: tuple[Any, Any], *, pairs: bool
) -> dict[str, Any]:
    """Return fields of a graph in which ``edge_type``, ``edge_types`` and ``public_types`` became its ``types``.

    Rows of one type alone, with nothing public, make the plain graph.
    """
    given, names, public = (fields.get(name) for name in ("edge_type", "edge_types", "public_types"))
    rest = {name: value for name, value in fields.items() if name not in ("edge_type", "edge_types", "public_types")}
    if given is None:
        if names or public:
            raise fail(
                "edge_types", names or public, "to stand beside the type of each edge", "Pass edge_type as well."
            )
        return rest
    names, public = check_type_names(names, public)
    check_alone(fields.get("edge_weight"), fields.get("edges_per_person"))
    codes, (indptr, indices) = check_codes(given, names, "the edges"), arcs
    if len(names) == 1:
        return rest
    source, target = (np.asarray(end, np.int64) for end in rows)
    if len(codes) != len(source):
        raise DataError(f"Expected one type for each of {len(source)} rows, got {len(codes)}. Pass as many as rows.")
    nodes = len(indptr) - 1

    def key(one: np.ndarray, other: np.ndarray) -> np.ndarray:
        first, last = (np.minimum(one, other), np.maximum(one, other)) if pairs else (one, other)
        numbers: np.ndarray = first * nodes + last
        return numbers

    known, place = np.unique(key(source, target), return_inverse=True)
    marks = np.zeros(len(known), np.uint16)
    np.bitwise_or.at(marks, place.ravel(), (1 << codes).astype(np.uint16))
    each = marks[np.searchsorted(known, key(owners(indptr), indices.astype(np.int64)))]
    return {**rest, "types": EdgeTypes(each, names, public)}


def declared_types(
    column: str | None, names: Any, public: Any, declared: Any
) -> tuple[str, tuple[str, ...], tuple[str, ...]] | None:
    """Return the column of the types, their names and which are public, by arguments and schema; None where edges have none."""
    said = (None, None, None) if declared is None else (declared.type, declared.types, declared.public)
    given: list[Any] = []
    for name, asked, told in zip(
        ("edge_type", "edge_types", "public_types"), (column, names, public), said, strict=True
    ):
        asked = tuple(asked) if isinstance(asked, list | tuple) else asked
        if asked is not None and not isinstance(asked, str | tuple):
            raise fail(name, type(asked).__name__, "to be a name, or a list of names", _UNDECLARED)
        if asked and told and asked != told:
            raise InputError(f"Expected one {name}, got {asked!r} beside {told!r} in the schema. Correct one of them.")
        given.append(asked or told)
    if given[0] is None:
        if given[1] or given[2]:
            raise fail(
                "edge_types", given[1] or given[2], "to stand beside edge_type", "Name the column of types as well."
            )
        return None
    return given[0], *check_type_names(given[1], given[2])
