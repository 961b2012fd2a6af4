"""Columns whose texts stand for single nodes and not for groups: names, addresses, rare words, numbers in another writing.

Each text would become a feature, named after it in plain words, in everything that a run releases. The rule looks at all rows of
a column that no schema declares. It has *nearly one text a node* if it has at least 10 categories, and more than half as many as
cells with a value; a warning names it. (Numbers with commas, percent signs or signs of money are refused by every reader of
tables, and as classes of arrays count as such texts.) It has *rare categories* if fewer than 10 nodes hold one of them
(``LEAST_NODES``, which vocabularies of texts ask for as well; offices of statistics hold back counts below about as many). Where
features are protected both are refused before anything is planned: the categories are known without this data, and declared, or
the column is left out. A schema may also say that they were read off the data (``from_data``), which certificates then list.
Labels follow the same rule.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from sfumato.errors import InputError, TextWarning

TEXTS = "texts of column "
"""How a fact begins that was read off such a column; the column's name follows. No certificate holds it."""
RARE = "rare categories of column "
"""How a fact begins that was read off a column of which few nodes hold a category. No certificate holds it either."""
NAMES = "names of classes"
"""The fact that a label has nearly one class a node."""
RARE_CLASSES = "rare classes"
"""The fact that few nodes hold a class."""
LEAST_NODES = 10
"""How many nodes must hold each category or class that is read off protected data."""
GROUPS, FEW, SINGLE = 0, 1, 2
"""What categories stand for: groups, groups of which one is of few nodes, or single nodes."""
_WRITTEN = re.compile(r"[-+]?\s*[$€£¥]?\s*[-+]?\d+([.,' \u00a0\u202f]\d+)*\s*[%$€£¥]?")
_PLAIN = re.compile(r"[-+]?\d+(\.\d+)?")
WRITTEN = "Write 1.5 for 1,5, 1000 for 1,000 and 3.33 for 3.33%"
"""What is said of numbers that are written in another way."""


def standing(seen: Sequence[str], counts: Sequence[int]) -> int:
    """Return what categories that no schema declares stand for: ``GROUPS``, ``FEW`` or ``SINGLE``."""
    if not seen:
        return GROUPS
    if (len(seen) >= LEAST_NODES and 2 * len(seen) > sum(counts)) or written_numbers(seen):
        return SINGLE
    return FEW if min(counts) < LEAST_NODES else GROUPS


def facts_of_classes(classes: Sequence[str], counts: Sequence[int]) -> tuple[str, ...]:
    """Return the facts that are read off labels whose classes nobody declared, of tables, arrays, tensors and folders alike."""
    return ("classes", *((), (RARE_CLASSES,), (NAMES,))[standing(classes, counts)])


def written_numbers(texts: Sequence[str]) -> bool:
    """Say whether all texts are numbers, some of them written with commas, percent signs or signs of money."""
    return all(map(_WRITTEN.fullmatch, texts)) and not all(map(_PLAIN.fullmatch, texts))


def tell_texts(assumed: Sequence[str], place: str, above: int = 1) -> None:
    """Tell in a warning which columns hold nearly one text a node."""
    for one in _found(assumed):
        if one.why == _EACH:
            problem = f"Read as {one.what}: {one.column or 'the label'} of {place}, with {one.why}."
            warnings.warn(f"{problem} {one.remedy}", TextWarning, stacklevel=above + 2)


def check_texts(graph: Any, public: Sequence[str]) -> None:
    """Refuse columns whose texts stand for single nodes or few, where they are protected."""
    for one in _found(graph.assumed_public):
        if ("labels" if one.column is None else "features") not in public:
            raise InputError(
                f"Expected {one.what} that are known without the data where they are protected, got {one.why} in "
                f"{'the label' if one.column is None else f'column {one.column!r}'}: each would stand in what is released, in "
                f"plain words. {one.remedy}"
            )


def leave_out(column: str) -> str:
    """Return in words how a column is left out."""
    return f"leave it out: --drop {column}, drop=[{column!r}] in Python, or drop in the schema"


def why(assumed: Sequence[str], column: str | None) -> str:
    """Return in words why a column is refused where it is protected; empty if it is not."""
    return next((one.why for one in _found(assumed) if one.column == column), "")


class _Found(NamedTuple):
    """A column that is refused where it is protected; without a name, the label."""

    what: str
    column: str | None
    why: str
    remedy: str


_EACH = "nearly one text a node"
_CLASSES = "classes in the schema, or pass classes=(...) in Python"
_FEW = f"categories of fewer than {LEAST_NODES} nodes"


def _found(assumed: Sequence[str]) -> Iterator[_Found]:
    marked = "if they were read off this data all the same"
    for fact in assumed:
        prefix = next((start for start in (TEXTS, RARE) if fact.startswith(start)), None)
        if prefix is not None:
            column = fact.removeprefix(prefix)
            how = f", with from_data = true {marked}" if prefix == RARE else ""
            remedy = f"Declare its categories in the schema{how}, or {leave_out(column)}."
            yield _Found("categories", column, _EACH if prefix == TEXTS else _FEW, remedy)
        elif fact == NAMES:
            remedy = f'Choose another label, declare {_CLASSES}, or target = "number" there.'
            yield _Found("classes", None, _EACH, remedy)
        elif fact == RARE_CLASSES:
            remedy = f"Declare {_CLASSES}; {marked}, with classes_from_data = true, or assumed_public=('classes',) in Python."
            yield _Found("classes", None, _FEW.replace("categories", "classes"), remedy)
