"""What the owner of a graph declares public, and what is refused where nobody did.

Where features or labels are protected, their scale and their categories are facts about protected rows. A schema declares them,
or the classes and feature names of arrays do. What nobody declared stands in ``Graph.undeclared``: classes and categories that
were read off the data, and numbers of a table without both ends of a range, which are then not scaled. A plan is calibrated on
such a graph only if somebody says that it may be taken for public.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from sfumato.errors import InputError
from sfumato.graph._bounds import most_arcs
from sfumato.graph._schema import CATEGORIES

DEGREES = "degrees"
"""How the fact is listed that degrees were read from the data and may be known."""
CLASSES = "classes"
"""The fact that classes were numbered from the labels, or read off their column."""
RANGE_OF = "range of column "
"""How a fact begins that numbers of a table have no declared range; the column's name follows. Nothing of them is read."""
_MOST_NAMED = 5


def with_public_degrees(graph: Any) -> Any:
    """Return the same graph with its own degrees declared public, and listed as read from the data."""
    listed = tuple(dict.fromkeys((*graph.assumed_public, DEGREES)))
    return graph.changed(degree_bounds=most_arcs(graph.indptr, graph.indices), assumed_public=listed)


def undeclared(graph: Any, unit: Any) -> tuple[str, ...]:
    """Return what nobody declared of a graph although a unit with a trusted curator protects it."""
    numbers = {RANGE_OF + name for name in graph.feature_names}
    there = [
        fact
        for fact in graph.undeclared
        if (graph.y is not None if fact == CLASSES else not fact.startswith(RANGE_OF) or fact in numbers)
    ]  # other features or labels may have taken their place
    hidden = tuple(fact for fact in there if ("labels" if fact == CLASSES else "features") not in unit.public)
    return hidden if hidden and unit.needs_schema else ()


def check_declared(graph: Any, unit: Any, tables: str = "NODES EDGES") -> None:
    found = undeclared(graph, unit)
    if not found:
        return
    lacking = "; no ".join(_named(found))
    raise InputError(
        f"Expected what nobody may read off protected data under unit {unit.name} to be declared, got no {lacking}. "
        f"{_why(found)} Let `sfumato data describe {tables} --write-schema schema.toml` draft a schema, fill in what is known "
        "without this data, and pass --schema schema.toml (in Python schema=..., or classes=(...) of arrays). Or say that it "
        "may be taken for public: --assume-public, or public_facts(unit, assume_public=True) in Python; the certificate then "
        "lists what is read off the data."
    )


def ranges_of(facts: Iterable[str]) -> list[str]:
    """Return the columns of numbers without a range among ``facts``."""
    return _columns(facts, RANGE_OF)


def some(names: list[str]) -> str:
    """Return names for a message: the first few, and how many there are more."""
    more = f" and {len(names) - _MOST_NAMED} more" if len(names) > _MOST_NAMED else ""
    return ", ".join(names[:_MOST_NAMED]) + more


def _named(facts: tuple[str, ...]) -> Iterator[str]:
    for start, words in ((RANGE_OF, "range of"), (CATEGORIES, "categories of")):
        columns = _columns(facts, start)
        if columns:
            yield f"{words} {some(columns)}"
    if CLASSES in facts:
        yield "classes of the label"


def _why(facts: tuple[str, ...]) -> str:
    reads = "Categories and classes would be read off protected rows." if len(ranges_of(facts)) < len(facts) else ""
    scale = (
        "Numbers without a range are not scaled, so that large ones drown other columns." if ranges_of(facts) else ""
    )
    return " ".join(filter(None, (scale, reads)))


def _columns(facts: Iterable[str], start: str) -> list[str]:
    return [fact.removeprefix(start) for fact in facts if fact.startswith(start)]
