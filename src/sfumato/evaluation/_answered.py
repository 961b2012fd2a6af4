"""What is asked of a graph as a whole: its answers follow from the fit alone. Nothing is split, scored or compared."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sfumato._files import write_json
from sfumato.catalog import GRAPH_CARDS, PAIR_METHODS
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
_ROUNDED = 10_000  # coverage is rounded down, so that an interval covers at least as often


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
    write_json(out / "answers.json", {"confidence": confidence, "answers": [one.to_dict() for one in answers]})
    text = io.StringIO()
    rows = csv.writer(text, lineterminator="\n")
    rows.writerow(_COLUMNS)
    for one in answers:
        group, other = (*one.groups, "", "")[:2]
        told, coverage = one.to_dict(), math.floor(one.coverage * _ROUNDED + 1e-6) / _ROUNDED
        rows.writerow(
            [
                *(told[name] for name in _COLUMNS[:2]),
                group,
                other,
                one.value,
                one.low,
                one.high,
                coverage,
                told["interval"],
            ]
        )
    write_page(out / "answers.csv", text.getvalue())
