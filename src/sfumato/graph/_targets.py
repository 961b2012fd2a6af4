r"""Targets other than one class a node: several labels that a node has or has not, or a number.

``multilabel`` targets are 0 or 1 in each of k columns, one for each label. A ``number`` is one column within a range. Networks
have one score :math:`s` for each column. They tell the label with probability :math:`1 / (1 + e^{-s})`, and the number
:math:`m + h s`, cut to the range, with m the middle of the range and h half of its width.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sfumato._blocks import in_blocks
from sfumato._validate import check_choice, check_real, fail
from sfumato.errors import DataError, InputError
from sfumato.graph._checks import as_array

CLASS, MULTILABEL, NUMBER = "class", "multilabel", "number"
_MOST = 1e30
RANGE = "target range"
"""The fact that is assumed public where the range of a number was read off the data."""


@dataclass(frozen=True, eq=False, repr=False)
class Targets:
    """The targets of a graph are several labels of each node, or a number: what is learned in place of classes.

    Args:
        kind: ``multilabel`` or ``number``.
        values: one row for each node [num_nodes, k], or [num_nodes] for one column. Labels are 0 or 1; NaN is missing, label
            by label. An empty record is missing everywhere.
        names: one for each column; by default ``label 0``, ``label 1`` and so on, or ``target``.
        limits: the least and the largest number that may occur, known without this data: public. Numbers beyond are cut to
            it. None reads it off the data, which only a unit with public labels allows.
        assumed: whether the limits were read off the data before, as a stored graph or a part of a graph says.

    Shapes: ``values`` become float64 [num_nodes, k].

    Raises:
        DataError: values have another form, or all are missing.
        InputError: names or limits do not fit.

    >>> Targets("number", [20.0, 30.0, 99.0], limits=(20, 60)).values[:, 0].tolist()
    [20.0, 30.0, 60.0]
    """

    kind: str
    values: Any
    names: tuple[str, ...] = ()
    limits: tuple[float, float] | None = None
    assumed: bool = False

    def __post_init__(self) -> None:
        check_choice((MULTILABEL, NUMBER), kind=self.kind)
        values = _columns(self.values, self.kind)
        usual = ["target"] if self.kind == NUMBER else [f"label {at}" for at in range(values.shape[1])]
        names = tuple(map(str, self.names or usual))
        if len(set(names)) != values.shape[1] or len(names) != values.shape[1]:
            raise fail("names", self.names, f"to be {values.shape[1]} distinct names, one for each column")
        object.__setattr__(self, "names", names)
        if self.kind == MULTILABEL:
            if self.limits is not None:
                raise fail("limits", self.limits, "to be None for labels", "Only a number has limits.")
        else:
            object.__setattr__(self, "assumed", self.assumed or self.limits is None)
            low, high = _read_off(values) if self.limits is None else check_limits(self.limits)
            object.__setattr__(self, "limits", (low, high))
            values = np.clip(values, low, high)
        object.__setattr__(self, "values", values)

    @property
    def known(self) -> NDArray[np.bool_]:
        """Mark the nodes of which at least one target is there: bool [num_nodes]."""
        known: NDArray[np.bool_] = ~np.isnan(self.values).all(axis=1)
        return known

    @property
    def scaled(self) -> NDArray[np.float32]:
        """The values as networks learn them, float32 [num_nodes, k]: labels as they are, numbers from -1 to 1."""
        if self.limits is None:
            return np.asarray(self.values, np.float32)
        low, high = self.limits
        return np.asarray((self.values - (low + high) / 2) / ((high - low) / 2), np.float32)

    def facts(self) -> dict[str, Any]:
        """Return what a stored graph keeps beside values and names."""
        return {"kind": self.kind, "limits": self.limits, "assumed": self.assumed}

    def take(self, rows: NDArray[np.integer]) -> Targets | None:
        """Return the targets of some nodes, in this order; None if all of them are missing."""
        values = self.values[rows]
        return None if np.isnan(values).all() else Targets(self.kind, values, self.names, self.limits, self.assumed)

    def __repr__(self) -> str:
        within = "" if self.limits is None else f", from {self.limits[0]:g} to {self.limits[1]:g}"
        return f"Targets({self.kind!r}, {len(self.values)} nodes, {', '.join(self.names)}{within})"


def _read_off(values: NDArray[np.float64]) -> tuple[float, float]:
    """Limits that are two of the numbers; they may be protected, so no message names them."""
    low, high = float(np.nanmin(values)), float(np.nanmax(values))
    if not -_MOST <= low < high <= _MOST:
        raise DataError(
            f"Expected a target of at least two different numbers from -{_MOST:g} to {_MOST:g}, got others. A number that never "
            "changes cannot be learned. Declare limits=(least, largest) if they are known without this data."
        )
    return low, high


def check_limits(limits: Sequence[float]) -> tuple[float, float]:
    """Return the least and the largest number of a target.

    >>> check_limits([0, 100])
    (0.0, 100.0)
    """
    if len(limits) != 2:
        raise fail("limits", limits, "to be two numbers, the least and the largest", "Such as (0, 100).")
    low, high = (check_real(low=-_MOST, high=_MOST, limits=value) for value in limits)
    if not low < high:
        raise fail("limits", limits, "to begin below their end", "A number that never changes cannot be learned.")
    return float(low), float(high)


def probabilities(kind: str | None, scores: NDArray[np.float32]) -> NDArray[np.float32]:
    """Compute probabilities [n, k] from scores [n, k]: of the classes, which add up to 1, or of each label by itself."""
    if kind == NUMBER:
        raise InputError("Expected a target of classes or labels for probabilities, got a number. Call predict.")
    if kind == MULTILABEL:
        small = np.exp(-np.abs(scores))
        labels: NDArray[np.float32] = np.where(scores >= 0, 1, small) / (1 + small)
        return labels.astype(np.float32)
    return softmax(scores)


def softmax(scores: NDArray[Any]) -> NDArray[Any]:
    """Turn scores into probabilities, row by row."""
    raised = np.exp(scores - scores.max(axis=1, keepdims=True))
    return raised / raised.sum(axis=1, keepdims=True)


def answers(kind: str | None, limits: Sequence[float] | None, scores: NDArray[np.float32]) -> NDArray[Any]:
    """Return what is predicted by scores [n, k]: classes int64 [n], labels int64 [n, k] (0 or 1), or numbers float64 [n]."""
    if kind == NUMBER:
        assert limits is not None
        low, high = limits
        return np.clip((low + high) / 2 + (high - low) / 2 * scores[:, 0].astype(np.float64), low, high)
    found = probabilities(kind, scores)
    return (found > 0.5).astype(np.int64) if kind == MULTILABEL else found.argmax(axis=1)


def answers_among(
    kind: str | None, limits: Sequence[float] | None, scores: NDArray[np.float32], nodes: NDArray[np.integer]
) -> tuple[NDArray[Any], NDArray[np.float32]]:
    """Return what is predicted for some nodes by the scores of all, and with which probabilities; a number has none."""
    told = in_blocks(lambda low, high: answers(kind, limits, scores[nodes[low:high]]), len(nodes))
    if kind == NUMBER:
        return told, np.empty((len(nodes), 0), np.float32)
    return told, in_blocks(lambda low, high: probabilities(kind, scores[nodes[low:high]]), len(nodes))


def _columns(values: Any, kind: str) -> NDArray[np.float64]:
    """Values as float64 columns, after a look at their form; errors name a place, never a value."""
    table = as_array("targets", values)
    table = table[:, None] if table.ndim == 1 else table
    if table.ndim != 2 or table.dtype.kind not in "iubf" or table.shape[1] < 1 or not len(table):
        raise DataError(
            f"Expected targets to be numbers of shape [num_nodes, k], got shape {table.shape} of {table.dtype}. "
            "Give one row a node, with NaN for what is missing."
        )
    if kind == NUMBER and table.shape[1] != 1:
        raise DataError(f"Expected one number a node, got {table.shape[1]} columns. Choose one of them.")
    table = table.astype(np.float64)
    wrong = np.isinf(table) if kind == NUMBER else ~(np.isnan(table) | (table == 0) | (table == 1))
    if wrong.any():
        row, column = divmod(int(np.argmax(wrong)), table.shape[1])
        wanted = "finite" if kind == NUMBER else "0, 1 or missing (NaN)"
        raise DataError(
            f"Expected targets to be {wanted}, but row {row} of column {column} is not. Correct that value."
        )
    if np.isnan(table).all():
        raise DataError("Expected at least one target, but all are missing. Pass targets=None, or add values.")
    return table
