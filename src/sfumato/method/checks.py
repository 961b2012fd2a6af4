"""What is compared before a run is fitted or loaded: names that it would hold, and files that say the same twice."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from sfumato._validate import fail
from sfumato.errors import DataError, LedgerError
from sfumato.graph.schema import CATEGORIES
from sfumato.privacy.events import MOST

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sfumato.graph.graph import Graph
    from sfumato.method.contract import Method

_LONGEST_NAME = 200
_MOST_ASSUMED = 10_000


def check_spec(spec: dict[str, Any], certificate: dict[str, Any]) -> None:
    """Refuse a spec that says something else than the certificate: unit and budget decide what predicting may read.

    ``spec`` and ``certificate`` are what the two files hold.

    Raises:
        LedgerError: a field differs.

    >>> facts = {"method": "gap", "settings": {}, "unit": {}, "public_facts": {}, "assumed_public": []}
    >>> spec = {"method": "gap", "settings": {}, "unit": {}, "budget": None, "public": {"assumed": []}}
    >>> check_spec(spec, {**facts, "budget": {"epsilon": None, "delta": None}})
    """
    budget = certificate["budget"]
    stated = {
        "method": certificate["method"],
        "settings": certificate["settings"],
        "unit": certificate["unit"],
        "budget": budget if budget["epsilon"] is not None else None,
        "public": {**certificate["public_facts"], "assumed": certificate["assumed_public"]},
    }
    for name, value in stated.items():
        if spec[name] != value:
            raise LedgerError(f"Field {name!r} of spec.json differs from the certificate. See `sfumato verify`.")


def check_names(graph: Graph, assumed: Sequence[str]) -> None:
    """Refuse names that no release may hold, and facts read off columns that the graph does not name.

    ``assumed`` lists the facts of ``graph`` that were read off the data and are assumed public.

    Raises:
        DataError: a name is too long or not printable, or a fact belongs to no column.
    """
    for text in (graph.name, *graph.classes, *graph.feature_names, *assumed):
        if len(text) > _LONGEST_NAME or not text.isprintable():
            raise DataError(
                f"Expected names of graph, classes and columns to have at most {_LONGEST_NAME} characters, all printable, "
                f"since the release holds them; got {text[:20]!r}, of length {len(text)}. Rename it."
            )
    if len(assumed) > _MOST_ASSUMED:
        raise DataError(
            f"Expected at most {_MOST_ASSUMED} facts to be read off the data, got {len(assumed)}. Declare columns in a schema."
        )
    columns = {name[:end] for name in graph.feature_names for end, sign in enumerate(name) if sign == "="}
    for fact in assumed:
        if graph.feature_names and fact.startswith(CATEGORIES) and fact.removeprefix(CATEGORIES) not in columns:
            raise DataError(
                f"Expected feature names COLUMN=CATEGORY for {fact!r}, which the graph assumes public, got none. Rename columns "
                "before the graph is read."
            )


def check_settings(method: Method) -> None:
    """Refuse a number that ledger and certificate cannot hold; ``method`` holds the settings.

    Raises:
        InputError: a number is of a type of NumPy, or a whole number above 2^53.
    """
    for name, value in vars(method).items():
        if isinstance(value, np.generic) and not isinstance(value, (float, str)):
            raise fail(name, value, "to be a number of Python, which a certificate holds", "Pass value.item().")
    for name, value in method.settings.items():
        if isinstance(value, int) and abs(value) > MOST:
            expected = "to be an integer of at most 2**53, the longest that a certificate holds"
            raise fail(name, value, expected, "Write it as a float, or lower it.")
