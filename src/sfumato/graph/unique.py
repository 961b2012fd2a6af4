"""Columns that hold nearly one text a node, such as names and addresses, and numbers that are written in another way.

Each text would become a feature, named after it in plain words, in everything that a run releases. The rule looks at all rows: a
column that no schema declares has *nearly one text a node* if it has at least 10 categories, and more than half as many as cells
with a value, or if it has at least 10 and all are numbers with commas, percent signs or signs of money. A warning names it.
Where features are protected it is refused before anything is planned: either its categories are known without this data, and
declared, or it is left out. Labels follow the same rule.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from sfumato.errors import InputError, TextWarning

TEXTS = "texts of column "
"""How a fact begins that was read off such a column; the column's name follows. No certificate holds it."""
NAMES = "names of classes"
"""The fact that a label has nearly one class a node."""
_LEAST = 10
_WRITTEN = re.compile(r"[-+]?\s*[$€£¥]?\s*[-+]?\d+([.,' \u00a0\u202f]\d+)*\s*[%$€£¥]?")
_DATE = re.compile(
    r"(\d{4}[-/.]\d{1,2}[-/.]\d{1,2}|\d{1,2}[-/.]\d{1,2}[-/.]\d{2,4})([T ]\d{1,2}:\d{2}.*)?|\d{1,2}:\d{2}(:\d{2}(\.\d+)?)?"
)
WRITTEN = "Write 1.5 for 1,5, 1000 for 1,000 and 3.33 for 3.33%, then they are read as numbers. "
"""What is said of numbers that are written in another way."""


def nearly_one_each(seen: Sequence[str], present: int) -> bool:
    """Say whether categories that no schema declares stand for single nodes rather than groups.

    Args:
        seen: the categories that occur.
        present: the number of cells with a value.

    >>> nearly_one_each([f"n{v}" for v in range(12)], 20), nearly_one_each(["north", "south"], 2)
    (True, False)
    """
    return len(seen) >= _LEAST and (2 * len(seen) > present or written_numbers(seen))


def written_numbers(texts: Iterable[str]) -> bool:
    """Say whether all texts are numbers that are written with commas, percent signs or signs of money.

    >>> written_numbers(["1,5", "1,000", "3.33%"]), written_numbers(["north"])
    (True, False)
    """
    return all(_WRITTEN.fullmatch(text) for text in texts)


def dates(texts: Sequence[str]) -> bool:
    """Say whether all texts are dates or times; there is at least one.

    >>> dates(["2024-01-02", "02.01.2024", "12:30"]), dates(["2024"])
    (True, False)
    """
    return bool(texts) and all(_DATE.fullmatch(text) for text in texts)


def tell_texts(assumed: Sequence[str], feature_names: Sequence[str], place: str, above: int = 1) -> None:
    """Tell in a warning which columns hold nearly one text a node.

    Args:
        assumed: the facts that were read off tables.
        feature_names: of the graph.
        place: of the node table.
        above: how many functions of this package stand between this one and the line that is warned of.
    """
    for what, column in _found(assumed):
        problem = f"Read as {what}: {column or 'the label'} of {place}, with nearly one text a node."
        warnings.warn(f"{problem} {_hint(feature_names, column)}", TextWarning, stacklevel=above + 2)


def check_texts(graph: Any, public: Sequence[str]) -> None:
    """Refuse columns with nearly one text a node where they are protected.

    Args:
        graph: whose features and labels are asked for.
        public: the parts of the data that are public under a unit.

    Raises:
        InputError: there is such a column.
    """
    for what, column in _found(graph.assumed_public):
        if ("labels" if column is None else "features") not in public:
            raise InputError(
                f"Expected {what} that are known without the data where they are protected, got nearly one text a node in "
                f"{'the label' if column is None else f'column {column!r}'}: each would stand "
                f"in what is released, in plain words. {_hint(graph.feature_names, column)}"
            )


def leave_out(column: str) -> str:
    """Return in words how a column is left out.

    >>> leave_out("joined")
    "leave it out: --drop joined, drop=['joined'] in Python, or drop in the schema"
    """
    return f"leave it out: --drop {column}, drop=[{column!r}] in Python, or drop in the schema"


def _found(assumed: Sequence[str]) -> Iterator[tuple[str, str | None]]:
    for fact in assumed:
        if fact.startswith(TEXTS):
            yield "categories", fact.removeprefix(TEXTS)
        elif fact == NAMES:
            yield "classes", None


def _hint(feature_names: Sequence[str], column: str | None) -> str:
    if column is None:
        return 'Choose another label, declare classes in the schema, or target = "number" there.'
    texts = [name[len(column) + 1 :] for name in feature_names if name.startswith(f"{column}=")]
    how = WRITTEN if written_numbers(texts) else ""
    return f"{how}Declare its categories in the schema, or {leave_out(column)}."
