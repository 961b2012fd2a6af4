"""What is asked of a graph as a whole: its answers follow from the fit alone. Nothing is split, scored or compared."""

from __future__ import annotations

import csv
import io
import json
import math
import shlex
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sfumato._files import write_json
from sfumato.catalog import GRAPH_CARDS, PAIR_METHODS
from sfumato.errors import InputError
from sfumato.evaluation._kept import write_page
from sfumato.evaluation._links import PreparedLinks
from sfumato.evaluation._outcome import Scored
from sfumato.evaluation._request import Prepared, Request
from sfumato.graph._declared import CLASSES, DEGREES
from sfumato.graph._unique import NAMES, RARE_CLASSES

if TYPE_CHECKING:
    from sfumato.evaluation._source import Source
    from sfumato.graph._graph import Graph
    from sfumato.method._plan import Fitted
    from sfumato.method.contract import Progress
    from sfumato.scoring._groups import Groups
    from sfumato.statistics._answer import Answer

_OF_COUNTS = (CLASSES, DEGREES, NAMES, RARE_CLASSES)
"""The facts about a graph on which counts may rest."""
_COLUMNS = ("statistic", "what", "group", "other_group", "value", "low", "high", "coverage", "interval")
_VALUE, _LOOSE, _ROUNDED = _COLUMNS.index("value"), 0.2, 10_000
_JSON, _CSV = "answers.json", "answers.csv"


@dataclass(frozen=True)
class Answered(Scored):
    """A run that answers questions about a graph as a whole."""

    first: Fitted

    def to_dict(self, unit: str) -> dict[str, Any]:
        told, plan = super().to_dict(unit), self.plan
        privacy = {name: told["privacy"][name] for name in ("unit", "relation", "epsilon", "delta")}
        return {**told, "task": "statistics", "privacy": privacy, "settings": plan.method.settings}


class PreparedAnswers(Prepared):
    """A request for answers about a whole graph. It has neither roles nor features, and its labels are groups."""

    @classmethod
    def drawn(cls, source: Source, graph: Graph, seed: int) -> Graph:
        """Return what is counted of a graph: nodes with their groups, and edges."""
        known = {name: tuple(fact for fact in getattr(graph, name) if fact in _OF_COUNTS) for name in _FACTS}
        bare: dict[str, Any] = {"x": None, "feature_names": (), "ranges": (), "image_shape": None, "cells": None}
        bare |= {} if graph.targets is None else {"targets": None, "classes": ()}
        return graph.changed(**bare, **known)

    def evaluate(self, first: Fitted | None = None, report: Progress | None = None) -> Answered:
        """Return the fit that is kept: its answers are post-processing of its releases."""
        assert first is not None
        return Answered(self.plan, first)

    def detail(self, _evaluation: Any, by: Groups | None = None) -> dict[str, Any]:
        """Return nothing more: nothing is scored."""
        return {}


_FACTS = ("assumed_public", "undeclared")


def kind_of(request: Request) -> type[Prepared]:
    """Return what is prepared for the task of a request's method."""
    name = request.method.name
    return PreparedAnswers if name in GRAPH_CARDS else PreparedLinks if name in PAIR_METHODS else Prepared


def courteous(answers: Sequence[Answer], least: float = 0.0, widest: float | None = None) -> tuple[Answer, ...]:
    """Return the answers that tell enough to be printed: a courtesy to readers, which protects nobody and costs nothing.

    Args:
        answers: those of a run.
        least: counts whose interval ends below it are left out.
        widest: numbers whose interval reaches further than this share of them, to either side, are left out.

    >>> from sfumato.statistics._answer import Answer
    >>> few, many = (Answer("edges", "", at, at - 4.0, at + 4.0, 0.95, count=True) for at in (5.0, 500.0))
    >>> len(courteous([few, many], least=10)), len(courteous([few, many], widest=0.5))
    (1, 1)
    """

    def told(one: Answer) -> bool:
        if one.value is None or one.low is None or one.high is None:
            return widest is None
        if one.count and one.high < least:
            return False
        return widest is None or max(one.high - one.value, one.value - one.low) <= widest * abs(one.value)

    return tuple(one for one in answers if told(one))


def write_answers(out: Path, answers: Sequence[Answer], confidence: float) -> None:
    """Write answers to a folder, as answers.json and answers.csv."""
    write_json(out / _JSON, {"confidence": confidence, "answers": [one.to_dict() for one in answers]})
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows(_rows(answers))
    write_page(out / _CSV, text.getvalue())


def answer_faults(run: Path) -> Iterator[str]:
    """Yield a problem for answers in a run folder that do not follow from its release, with the confidence that they state.

    Estimates, and ends of approximate intervals, may differ by a fifth of the interval, as libraries round.
    """
    if not any((run / name).exists() for name in (_JSON, _CSV)):
        return
    from sfumato.catalog import load
    from sfumato.statistics._answers import describe

    again = f"`sfumato describe --from-run {shlex.quote(str(run))}` derives them."
    try:
        stated = json.loads((run / _JSON).read_text(encoding="utf-8"))
        answers = describe(load(run), stated["confidence"]).answers
        with (run / _CSV).open(encoding="utf-8", newline="") as file:
            told = list(csv.reader(file))
    except (OSError, ValueError, KeyError, TypeError, RecursionError, csv.Error, InputError) as error:
        yield f"{_JSON}, {_CSV}: cannot be compared with the release ({type(error).__name__}). {again}"
        return
    listed = _listed(stated.get("answers")) if stated.keys() == {"confidence", "answers"} else []
    rights = [*answers, *[None] * len(listed)]
    rows = list(_rows(answers))
    others = [_cells(one) if _is_of(one, right) else [] for one, right in zip(listed, rights, strict=False)]
    for name, found in ((_CSV, told), (_JSON, [list(_COLUMNS), *others])):
        if len(found) != len(rows):
            yield f"{name}: expected {len(rows) - 1} answers, as the release has, got {len(found) - 1}. {again}"
            continue
        wrong = next((at for at, pair in enumerate(zip(rows, found, strict=True)) if not _same(*pair)), None)
        if wrong is not None:
            yield f"{name}: row {wrong}, {rows[wrong][1]}: does not follow from the release. {again}"


def _rows(answers: Sequence[Answer]) -> Iterator[list[Any]]:
    yield list(_COLUMNS)
    yield from (_cells(one.to_dict()) for one in answers)


def _cells(told: dict[str, Any]) -> list[Any]:
    """One row of answers.csv; coverage is rounded down, so that an interval covers at least as often."""
    group, other = (*_listed(told.get("groups")), "", "")[:2]
    coverage = told.get("coverage")
    shown = math.floor(coverage * _ROUNDED + 1e-6) / _ROUNDED if isinstance(coverage, float) else coverage
    return [*(told.get(name) for name in _COLUMNS[:2]), group, other, *(told.get(name) for name in _COLUMNS[4:7]), shown,
            told.get("interval")]  # fmt: skip


def _listed(value: Any) -> list[Any]:
    return value if isinstance(value, list) else list(value) if isinstance(value, tuple) else []


def _same(row: list[Any], other: list[Any]) -> bool:
    """Whether two rows say the same, up to the rounding of libraries."""
    low, high = row[_VALUE + 1 : _VALUE + 3]
    wide = _LOOSE * (high - low) if isinstance(low, float) else 0.0  # a header has texts, and what was not drawn none
    loose = {_VALUE: wide} | ({_VALUE + 1: wide, _VALUE + 2: wide} if row[-1] == "approximate" else {})
    return len(row) == len(other) and all(
        _near(one, two, loose.get(at, 0.0)) for at, (one, two) in enumerate(zip(row, other, strict=True))
    )


def _near(one: Any, other: Any, apart: float) -> bool:
    if not isinstance(one, float | int):
        return (one or "") == (other or "")
    try:
        return math.isclose(one, float(other), rel_tol=1e-6, abs_tol=max(apart, 1e-12))
    except (TypeError, ValueError):
        return False


def _is_of(stated: Any, right: Answer | None) -> bool:
    """Whether a stated answer has the fields of the right one, and those that answers.csv does not show are alike."""
    if right is None:
        return False
    expected = right.to_dict()
    alike = ("count", "span", "groups")
    return (
        isinstance(stated, dict)
        and stated.keys() == expected.keys()
        and all(json.dumps(stated[name]) == json.dumps(expected[name]) for name in alike)
    )
