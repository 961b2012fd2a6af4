"""Rows of results summed up: one line for each run, epsilon and varied value, beside its published number."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sfumato.evaluation import Summary, graph_gain_recovered

Row = Mapping[str, Any]
_EDGES = ("arc", "edge")


@dataclass(frozen=True)
class Line:
    """A table row or a point of a curve; ``score`` is None where a number was published but nothing was run.

    ``score`` and ``macro_f1`` are fractions, ``seconds`` and ``peak_mb`` means over seeds; ``published`` is in percent.
    """

    label: str
    role: str
    unit: str
    epsilon: float | None
    at: Any
    score: Summary | None
    macro_f1: float | None
    seconds: float | None
    peak_mb: float | None
    certificate: Mapping[str, Any] | None
    published: Any | None

    @property
    def mean(self) -> float:
        """Mean accuracy, a fraction; only of a line that was run."""
        assert self.score is not None
        return self.score.mean


def sum_up(spec: Any, rows: Sequence[Row]) -> tuple[Line, ...]:
    """Lines in the order of the specification's runs, then of the varied value, then of epsilon.

    Args:
        spec: has ``runs`` (``label``, ``role``, ``unit``, ``values``) and ``published`` (``label``, ``epsilon``, ``at``).
        rows: results; only those done count.
    """
    done: dict[tuple[str, float | None, str], list[Row]] = {}
    shown: dict[tuple[str, float | None, str], Any] = {}
    for row in rows:
        key = row["label"], row["epsilon"], repr(row["at"])
        if row["status"] == "done":
            done.setdefault(key, []).append(row)
            shown[key] = row["at"]
    published = {(one.label, one.epsilon, repr(one.at)): one for one in spec.published}
    shown = {**{key: one.at for key, one in published.items()}, **shown}
    lines = []
    for run in spec.runs:
        places = {repr(value): place for place, value in enumerate(run.values)}
        own = [key for key in shown if key[0] == run.label]
        own.sort(key=lambda key: (places.get(key[2], -1), -1 if key[1] is None else key[1]))
        lines += [_line(run, key[1], shown[key], done.get(key, []), published.get(key)) for key in own]
    return tuple(lines)


def _line(run: Any, epsilon: float | None, at: Any, rows: Sequence[Row], published: Any) -> Line:
    where = run.label, run.role, run.unit, epsilon, at
    if not rows:
        return Line(*where, None, None, None, None, None, published)
    score = Summary.of([row["metrics"]["accuracy"] for row in rows])
    means = (
        sum(values) / len(rows)
        for values in (
            [row["metrics"]["macro_f1"] for row in rows],
            [row["seconds"]["train"] for row in rows],
            [row["peak_mb"] for row in rows],
        )
    )
    macro_f1, seconds, peak = means
    return Line(*where, score, macro_f1, seconds, peak, rows[0]["certificate"], published)


def floor_of(line: Line, lines: Sequence[Line]) -> Line | None:
    """The best graph-free line under the same unit and budget (arc and edge are one family: it reads no arc)."""
    fitting = [
        one
        for one in lines
        if one.role == "floor"
        and one.score is not None
        and (one.unit == line.unit or (one.unit in _EDGES and line.unit in _EDGES))
        and one.epsilon in (None, line.epsilon)
        and one.at in (None, line.at)
    ]
    return max(fitting, key=lambda one: one.mean, default=None)


def ceiling_of(line: Line, lines: Sequence[Line]) -> Line | None:
    """The best line without privacy, at the same varied value where there are several."""
    fitting = [one for one in lines if one.role == "ceiling" and one.score is not None and one.at in (None, line.at)]
    return max(fitting, key=lambda one: one.mean, default=None)


def gain_of(line: Line, lines: Sequence[Line]) -> float | None:
    """(accuracy - floor) / (ceiling - floor), or None where a control is missing."""
    floor, ceiling = floor_of(line, lines), ceiling_of(line, lines)
    if floor is None or ceiling is None:
        return None
    return graph_gain_recovered(line.mean, floor.mean, ceiling.mean)
