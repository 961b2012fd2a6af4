"""Cells of method "link-prediction": links held out by the seed, found again from feature reports; their score is the AUC.

Links are public here, and users are asked for features alone. Nothing is released but scores, so a cell writes no
certificate; its line holds what one would say of the reports.
"""

from __future__ import annotations

import time
from dataclasses import fields
from typing import TYPE_CHECKING, Any

from sfumato._validate import fail
from sfumato.evaluation._source import Source
from sfumato.experiments import _cells as cells
from sfumato.experiments._runs import LINKS, constructor
from sfumato.experiments._tables import known
from sfumato.privacy.promises import weak
from sfumato.record._certificate import LOCAL, each_feature

if TYPE_CHECKING:
    from sfumato.experiments._cells import Cell, Row
    from sfumato.experiments._runs import Run
    from sfumato.graph._graph import Graph
    from sfumato.local._link_prediction import LinkPrediction


def check_links(run: Run, _dataset: str) -> None:
    from sfumato.local._link_prediction import LinkPrediction

    if run.preset is not None:
        raise fail("method", LINKS, "to come without a preset", "Write its settings.")
    names = [field.name for field in fields(LinkPrediction)]
    for value, epsilon in run.points:
        settings, _ = run.at(value, epsilon)
        for name, _ in settings:
            known(f"setting of {LINKS}", name, names)
        unit = LinkPrediction(**constructor(settings)).unit
        if run.unit != unit.name:
            raise fail(
                "unit", run.unit, f"to be {unit.name}, as epsilon_x needs", "Features in the clear have unit none."
            )


def run_links(cell: Cell, data_dir: str | None) -> Row:
    """Run one cell in this process: ask, train and score. Return what its line holds beyond the cell itself."""
    from sfumato.evaluation._memory import peak_mb, reset_peak
    from sfumato.local._link_prediction import LinkPrediction, found_again

    start = time.perf_counter()
    reset_peak()
    task = LinkPrediction(**constructor(cell.settings))
    graph = cells._load(Source(cell.dataset, data_dir))
    began = time.perf_counter()
    result = found_again(task, graph, cell.seed)
    now = time.perf_counter()
    return {
        **cells.empty_row("done"),
        "seconds": {"train": now - began, "total": now - start},
        "peak_mb": peak_mb(),
        "metrics": {"auc": result.auc, "average_precision": result.average_precision},
        "certificate": None if task.epsilon_x is None else _stated(task, graph),
    }


def _stated(task: LinkPrediction, graph: Graph) -> dict[str, Any]:
    """What the reports protect, claim and assume, under the names of a certificate."""
    public = graph.public_facts(task.unit)
    plan = task.calibrate(None, task.unit, public)
    return {
        **cells.stated(task.unit, plan, public.assumed),
        "assumptions": LOCAL["assumptions"],
        "caveats": [
            *each_feature(task.settings, {"num_features": graph.num_features}),
            *(text for _, text in weak(plan.epsilon, plan.delta)),
        ],
    }
