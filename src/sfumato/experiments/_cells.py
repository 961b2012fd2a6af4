"""A cell of an experiment: one fit, and running it in this process.

Cells of method "link-prediction" hold out links by the seed, and find them again from feature reports; their score is the AUC.
Links are public there, and users are asked for features alone. Nothing is released but scores, so such a cell writes no
certificate; its line holds what one would say of the reports.
"""

from __future__ import annotations

import hashlib
import platform
import time
from dataclasses import asdict, dataclass, fields
from functools import cached_property, lru_cache
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

from sfumato._validate import fail
from sfumato._version import __version__
from sfumato.errors import InputError, UnsupportedUnitError
from sfumato.evaluation._memory import peak_mb, reset_peak
from sfumato.evaluation._source import Source
from sfumato.experiments._runs import LINKS, Settings, constructor
from sfumato.experiments._tables import known
from sfumato.privacy.budget import Budget
from sfumato.privacy.promises import weak
from sfumato.privacy.units import class_for
from sfumato.record._certificate import LOCAL, each_feature
from sfumato.record.ledger import canonical_json

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sfumato.experiments._runs import Run
    from sfumato.graph._graph import Graph
    from sfumato.local._link_prediction import LinkPrediction
    from sfumato.method._engine import PlanEntry
    from sfumato.method.contract import Accuracies, Planned
    from sfumato.privacy.units import Unit

Row = dict[str, Any]
STORE = "graph:"
"""How the data set of a cell begins that is a stored graph; its folder follows."""


@dataclass(frozen=True)
class Cell:
    """One fit: everything that decides its result except the noise.

    ``dataset`` is the name of the data set, and after a plus sign the encoder of its texts, if it has texts; or ``graph:`` and
    the folder of a stored graph. ``at`` is the value of what its run varies; None if nothing varies. With ``curves`` its line
    holds the accuracies after every step. Classes with fewer nodes than ``min_class_size`` are left out; None takes the data
    set's default.
    """

    spec: str
    label: str
    method: str
    dataset: str
    split: str
    unit: str
    epsilon: float | None
    delta: float | None
    max_degree: int | None
    settings: Settings
    seed: int
    at: Any
    curves: bool = False
    min_class_size: int | None = None

    def to_dict(self) -> dict[str, Any]:
        """Return the JSON form, which names ``curves`` and ``min_class_size`` only where set."""
        values = {**asdict(self), "settings": dict(self.settings)}
        defaults = {"curves": False, "min_class_size": None}
        return {name: value for name, value in values.items() if name not in defaults or value != defaults[name]}

    @cached_property
    def id(self) -> str:
        return digest(self.to_dict())

    def __str__(self) -> str:
        epsilon = "" if self.epsilon is None else f", epsilon {self.epsilon:g}"
        at = "" if self.at is None else f", at {self.at}"
        return f"{self.label}{epsilon}{at}, seed {self.seed}"


def parts_of(dataset: str) -> tuple[str, str | None]:
    """Split the data set of a cell into its name and the encoder of its texts."""
    name, sign, texts = dataset.partition("+")
    return name, texts if sign else None


def store_of(dataset: str) -> str | None:
    """Return the folder of the stored graph that a cell learns from, or None if it has a named data set."""
    return dataset.removeprefix(STORE) if dataset.startswith(STORE) else None


def _source(cell: Cell, data_dir: str | None) -> Source:
    store = store_of(cell.dataset)
    if store is not None:
        return Source(graph=store, split=cell.split)
    name, texts = parts_of(cell.dataset)
    return Source(name, data_dir, split=cell.split, text_features=texts, min_class_size=cell.min_class_size)


def digest(value: Any) -> str:
    """Return the SHA-256 of a value's canonical JSON form."""
    return hashlib.sha256(canonical_json(value).encode()).hexdigest()


def run_cell(cell: Cell, data_dir: str | None) -> Row:
    """Run one cell in this process: fit and score it. Return what its line holds beyond the cell itself."""
    start = time.perf_counter()
    from sfumato.catalog import method_named
    from sfumato.evaluation._request import Request, prepare

    reset_peak()
    budgets = class_for(cell.unit).budget
    spends = {"epsilon": cell.epsilon} if "epsilon" in budgets and "delta" not in budgets else {}
    method = method_named(cell.method, **constructor(cell.settings), **spends)
    request = Request(
        _source(cell, data_dir), method, cell.unit, _budget(cell), cell.max_degree, (cell.seed,), measure=cell.curves
    )
    try:
        prepared = prepare(request, load=_load)
    except UnsupportedUnitError as error:
        return skipped_row(str(error))
    if cell.epsilon is None and prepared.plan.epsilon and "delta" in budgets:
        raise InputError(f"Expected epsilons for {cell.label!r}, which spends a budget here, got none. Add them.")
    evaluation = prepared.evaluate()
    outcome = evaluation.outcome
    return {
        **empty_row("done"),
        "seconds": {"train": outcome.seconds, "total": time.perf_counter() - start},
        "peak_mb": peak_mb(),
        "metrics": {
            "accuracy": outcome.scores["accuracy"].mean,
            "macro_f1": outcome.scores["macro_f1"].mean,
            **({"curves": _rounded(outcome.first.accuracies)} if cell.curves else {}),
        },
        "certificate": None if evaluation.plan.epsilon is None else dict(outcome.first.certificate.values),
    }


def _rounded(curves: Accuracies) -> Accuracies:
    """With the digits that a share of fewer than a million nodes has: thousands of steps make long lines."""
    return {
        stage: {role: [round(one, 6) for one in values] for role, values in roles.items()}
        for stage, roles in curves.items()
    }


def _budget(cell: Cell) -> Budget | None:
    """The cell's budget; a method that spends nothing under its unit gets one that it leaves untouched, a local one none."""
    if "delta" not in class_for(cell.unit).budget:
        return None
    return Budget(1.0 if cell.epsilon is None else cell.epsilon, 1e-9 if cell.delta is None else cell.delta)


@lru_cache(maxsize=1)
def _load(source: Source) -> Graph:
    return source.load()


def stated(unit: Unit, plan: PlanEntry | Planned, assumed: Sequence[str] = ()) -> dict[str, Any]:
    """Return what a line holds of a certificate, where a cell writes none: what is protected, claimed and assumed."""
    return {
        "protects": unit.describe(),
        "claim": {"epsilon": plan.epsilon, "delta": plan.delta},
        "releases": [release.to_dict() for release in plan.releases],
        "assumed_public": list(assumed),
    }


def empty_row(status: str) -> Row:
    """Return the fields that every line has, as they are before any work was done."""
    versions = {"python": platform.python_version(), "torch": version("torch"), "numpy": version("numpy")}
    return {
        "status": status,
        "reason": None,
        "version": __version__,
        "versions": versions,
        "device": "cpu",
        "seconds": {"train": 0.0, "total": 0.0},
        "peak_mb": 0.0,
        "metrics": {"accuracy": None, "macro_f1": None},
        "certificate": None,
    }


def skipped_row(reason: str) -> Row:
    return {**empty_row("skipped"), "reason": reason}


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
    graph = _load(Source(cell.dataset, data_dir))
    began = time.perf_counter()
    result = found_again(task, graph, cell.seed)
    now = time.perf_counter()
    return {
        **empty_row("done"),
        "seconds": {"train": now - began, "total": now - start},
        "peak_mb": peak_mb(),
        "metrics": {"auc": result.auc, "average_precision": result.average_precision},
        "certificate": None if task.epsilon_x is None else _stated_of_reports(task, graph),
    }


def _stated_of_reports(task: LinkPrediction, graph: Graph) -> dict[str, Any]:
    """What the reports protect, claim and assume, under the names of a certificate."""
    public = graph.public_facts(task.unit)
    plan = task.calibrate(None, task.unit, public)
    return {
        **stated(task.unit, plan, public.assumed),
        "assumptions": LOCAL["assumptions"],
        "caveats": [
            *each_feature(task.settings, {"num_features": graph.num_features}),
            *(text for _, text in weak(plan.epsilon, plan.delta)),
        ],
    }
