"""A line of results beside its controls: the best floor, the best ceiling, and the share of the graph's gain between them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from sfumato.privacy.units import class_for
from sfumato.scoring._scores import graph_gain_recovered

if TYPE_CHECKING:
    from sfumato.experiments._results import Line


def floor_of(line: Line, lines: Sequence[Line]) -> Line | None:
    """Return the best graph-free line under the same unit and budget; None without one.

    Arc and edge count as the same unit here, because they are words of one unit.
    """
    fitting = [
        one
        for one in lines
        if one.role == "floor"
        and one.score is not None
        and (one.unit == line.unit or {one.unit, line.unit} <= class_for(line.unit).words.keys())
        and one.epsilon in (None, line.epsilon)
        and one.at in (None, line.at)
    ]
    return max(fitting, key=lambda one: one.mean, default=None)


def ceiling_of(line: Line, lines: Sequence[Line]) -> Line | None:
    """Return the best line without privacy, at the same varied value if there are several; None without one."""
    fitting = [one for one in lines if one.role == "ceiling" and one.score is not None and one.at in (None, line.at)]
    return max(fitting, key=lambda one: one.mean, default=None)


def gain_of(line: Line, lines: Sequence[Line]) -> float | None:
    """Return (accuracy - floor) / (ceiling - floor), or None if a control is missing."""
    floor, ceiling = floor_of(line, lines), ceiling_of(line, lines)
    if floor is None or ceiling is None:
        return None
    return graph_gain_recovered(line.mean, floor.mean, ceiling.mean)
