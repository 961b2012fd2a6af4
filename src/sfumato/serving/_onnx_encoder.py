"""Cells of a node table as inputs of an ONNX model: texts and numbers in, the columns of features out.

It follows ``encode`` of ``docs/handover.md``. A feature ``dorm=north`` is 1 where the cell of column ``dorm`` is that word; any
other name is a column of numbers, clipped to its declared range and scaled to [0, 1].
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from numpy.typing import NDArray

from sfumato._validate import fail

if TYPE_CHECKING:
    from sfumato.record._release_folder import StoredRun

_BOOLEAN = ("false", "true")


class Building(Protocol):
    """A model that grows: its inputs by name, and a way to add a step, which returns the name of its output."""

    inputs: dict[str, tuple[str, int]]

    def add(
        self, operator: str, *inputs: str | NDArray[Any] | float, output: str = ..., domain: str = ..., **how: Any
    ) -> str: ...


def encode_table(graph: Building, stored: StoredRun) -> None:
    """Add the steps from cells to ``features``, with an input for each column of the table.

    A column of words is an input of strings, a column of numbers one of float32 in which NaN is missing, both [nodes, 1]. White
    space at the ends of a word is not cut.

    Raises:
        InputError: the features have no names, or a column is called as something in the model. Words of a text are no words
            of a cell, and a release cannot tell them apart: the caller has to know that there are none.
    """
    described = stored.spec["graph"]
    names = described["feature_names"]
    if not names:
        raise fail(
            "run", described["name"], "to have learned from named columns of a table", "Export it without --table."
        )
    ends = {
        one["name"]: [None if end is None else float(end) for end in (one["min"], one["max"])]
        for one in described.get("ranges", ())
    }
    del graph.inputs["features"]
    parts = []
    for name in names:
        column, sign, category = name.partition("=")
        if re.fullmatch(r"features|probabilities|aggregate_.*|[vc][0-9]+", column):
            raise fail("column", column, "to be no name in the model", "Rename the column, and train again.")
        graph.inputs[column] = ("STRING" if sign else "FLOAT", 1)
        parts.append(_word(graph, column, category) if sign else _number(graph, column, *ends.get(name, (None, None))))
    graph.add("Concat", *parts, output="features", axis=1)


def _word(graph: Building, column: str, category: str) -> str:
    """1 where a cell is the category, and 0 elsewhere; true and false may have capitals."""
    keys = {category, *((category.capitalize(), category.upper()) if category in _BOOLEAN else ())}
    return graph.add(
        "LabelEncoder",
        column,
        domain="ai.onnx.ml",
        keys_strings=sorted(keys),
        values_floats=[1.0] * len(keys),
        default_float=0.0,
    )


def _number(graph: Building, column: str, low: float | None, high: float | None) -> str:
    """A number within its declared ends, from 0 to 1 if it has both; a missing one is in the middle, or 0."""
    both = low is not None and high is not None
    middle = (low + high) / 2 if low is not None and high is not None else 0.0
    found = graph.add("Where", graph.add("IsNaN", column), np.array(middle), column)
    if low is not None:
        found = graph.add("Max", found, low)
    if high is not None:
        found = graph.add("Min", found, high)
    if not both:
        return found
    assert low is not None
    assert high is not None
    return graph.add("Div", graph.add("Sub", found, low), (high - low) or 1.0)
