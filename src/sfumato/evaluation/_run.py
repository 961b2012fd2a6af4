"""The one trunk, from a request to a run on disk: load, split, calibrate, charge, fit, score, controls, save.

Whoever asks is told on the way, and prints: nothing here writes to a screen.
"""

from __future__ import annotations

import os
import shlex
import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from sfumato._blocks import scratch_in
from sfumato._files import write_json
from sfumato._threads import are_said, one_if_few, set_threads
from sfumato.catalog import CARDS, method_named
from sfumato.errors import InputError
from sfumato.evaluation._answered import kind_of
from sfumato.evaluation._kept import PRIVATE, write_words
from sfumato.evaluation._memory import peak_mb
from sfumato.evaluation._outcome import Evaluation
from sfumato.evaluation._request import prepare

if TYPE_CHECKING:
    from sfumato.evaluation._kept import Job
    from sfumato.evaluation._outcome import Scored
    from sfumato.evaluation._request import Prepared
    from sfumato.graph._graph import Graph
    from sfumato.method._plan import Fitted
    from sfumato.method.contract import Progress
    from sfumato.record._resume import FitState
    from sfumato.tables._cells import ReadColumn

Columns = tuple[str, "Sequence[ReadColumn]"]
Bars = Callable[[], AbstractContextManager["Progress | None"]]


class Planned(NamedTuple):
    """A plan before anything is charged, what columns of tables were taken for, and the number of threads."""

    prepared: Prepared
    columns: list[Columns]
    threads: int


class Ran(NamedTuple):
    """A run: what metrics.json holds of it, its scores beside those of its controls, and the fit that was saved."""

    result: dict[str, Any]
    evaluation: Scored
    fitted: Fitted


def plan(job: Job, bars: Bars) -> Planned:
    """Read the graph of a job and calibrate its method. Nothing is charged."""
    said = job.threads is not None or are_said()
    threads, columns = set_threads(job.threads), list[Columns]()
    with bars() as report:
        prepared = prepare(
            job.request,
            load=lambda source: source.load(report, lambda place, found: columns.append((place, found))),
            look=job.look,
            kind=kind_of(job.request),
        )
    if not said:
        threads = one_if_few(prepared.graph.num_nodes, prepared.graph.num_features) or threads
    set_threads(threads)  # also those of what the method has loaded
    return Planned(prepared, columns, threads)


def run(job: Job, planned: Callable[[Planned], None], bars: Bars, state: FitState | None = None) -> Ran:
    """Make the run that is asked for, in its folder; ``planned`` is told what is planned before anything is charged.

    ``bars`` show the progress of a stage, and ``state`` is the private state of a run that goes on. All files of a selection
    among trials carry the date of its start, since the time that trials took would tell their number.
    """
    moment, owner = time.time_ns(), False
    try:
        with job.kept.held(resumed=state is not None), scratch_in(job.kept.out):
            owner = True
            return _made(job, planned, bars, state, moment)
    finally:
        if owner and job.tuned is not None and job.kept.out.exists():
            _date(job.kept.out, moment)


def _made(job: Job, planned: Callable[[Planned], None], bars: Bars, state: FitState | None, moment: int) -> Ran:
    found = plan(job, bars)
    planned(found)
    prepared, out = found.prepared, job.kept.out
    groups = None if job.groups is None else job.groups(prepared.graph)
    with bars() as report:
        fitted, seconds = _fit(job, prepared.learned, found.threads, report, state)
        if job.tuned is not None:
            _date(out, moment)
        evaluation = prepared.evaluate(fitted, report)
    result = evaluation.to_dict(job.request.unit) | prepared.detail(evaluation, groups)
    result |= _told(job, prepared, fitted, seconds) | _released_floor(job, evaluation)
    beside = {"outside_schema": prepared.graph.outside, "features_lost": _lost(job.request.method, prepared.graph)}
    write_json(out / "evaluation" / "metrics.json", result | {name: value for name, value in beside.items() if value})
    write_json(out / "evaluation" / "curves.json", {} if job.tuned else dict(fitted.curves))
    write_words(fitted.certificate, out)
    _save_floor(job, prepared, evaluation)
    return Ran(result, evaluation, fitted)


def _told(job: Job, prepared: Prepared, fitted: Fitted, seconds: float) -> dict[str, Any]:
    """What metrics.json holds beside scores. Of a selection neither seconds nor memory are told."""
    told = {"load": prepared.load_seconds, "train": seconds, "total": time.perf_counter() - job.began}
    found: dict[str, Any] = {"dataset": job.dataset, "seconds": told, "peak_mb": peak_mb()}
    if job.tuned is not None:
        tuning = {**job.tuned, "chosen": fitted.certificate.values["settings"]}
        found |= {"seconds": dict.fromkeys(told), "peak_mb": None, "tuning": tuning}
    return {**found, "device": "cpu", "out": str(job.kept.out)}


def _fit(
    job: Job, prepared: Prepared, threads: int, report: Progress | None, state: FitState | None
) -> tuple[Fitted, float]:
    """Fit what is kept: charge it, save it, and delete its key. Return it and its seconds."""
    from sfumato.method._checks import check_ids
    from sfumato.method._graph_key import GraphKey, id_lines
    from sfumato.record._resume import FitState

    graph, seconds = prepared.first, 0.0
    if job.kept.public_ids:  # refused before anything is spent
        check_ids(id_lines(graph), GraphKey.of(graph))
    if job.stored is not None and state is None:  # as many threads decide the bits of a resumed fit
        state = FitState.create(job.kept.out / PRIVATE, {**job.stored, "threads": threads})

    def fit(**how: Any) -> Fitted:
        nonlocal seconds
        start = time.perf_counter()
        fitted = prepared.plan.fit(graph, **how)
        seconds = time.perf_counter() - start
        if job.kept.ledger is not None:
            source.write_ledger(job.kept.out, job.kept.ledger.path)
        return fitted

    source, shown = prepared.request.source, None if job.tuned else report
    fitted: Fitted = job.kept.release(fit, source, graph=graph, progress=shown, state=state)
    return fitted, seconds


def _date(folder: Path, moment: int) -> None:
    """Give everything in a run folder the date of a moment."""
    for path in (*folder.rglob("*"), folder):
        os.utime(path, ns=(moment, moment))


def _lost(asked: Any, graph: Graph) -> str:
    """Return in words what the randomizer loses of these features, or an empty text.

    This reads the users' features, which only a simulation can do. So the text belongs under ``evaluation/``.
    """
    if not getattr(asked, "epsilon_x", None) or graph.x is None:
        return ""
    values: Any = graph.x if isinstance(graph.x, np.ndarray) else graph.x.data
    if asked.mechanism == "collision" and ((values != 0) & (values != 1)).any():
        return (
            "features have entries other than 0 and 1; with mechanism collision entries above 0 count as members; for "
            "numeric columns declare ranges in a schema and pass --mechanism multi-bit."
        )
    if asked.mechanism != "direction" and ((values < asked.low) | (values > asked.high)).any():
        return (
            f"features have entries outside [{asked.low:g}, {asked.high:g}], which are clipped; declare ranges in the "
            "schema, which scales them."
        )
    return ""


def _released_floor(job: Job, evaluation: Scored) -> dict[str, Any]:
    """Return what metrics.json says of releasing the floor of a run; nothing if no command names that floor."""
    outcome = getattr(evaluation, "controls", {}).get("floor")
    if outcome is None or outcome.first.plan.epsilon is None:
        return {}
    method = outcome.first.plan.method
    if method != method_named(method.name):
        return {}
    out = str(job.save_floor or f"{job.kept.out}-floor")
    words = ("sfumato", "train", CARDS[method.name].spoken[0], *job.again, "--out", out)
    told: dict[str, Any] = {"command": shlex.join(words), "epsilon": outcome.first.plan.epsilon}
    return {"floor_release": told if job.save_floor is None else {**told, "saved": str(job.save_floor)}}


def _save_floor(job: Job, prepared: Prepared, evaluation: Scored) -> None:
    """Write the run folder of a floor that spends nothing, as its own train command would, if the job asks for it."""
    if job.save_floor is None:
        return
    outcome = getattr(evaluation, "controls", {}).get("floor")
    if outcome is None or outcome.first.plan.epsilon != 0 or outcome.first.plan.releases:
        raise InputError(
            f"The run is kept in {str(job.kept.out)!r}, but it has no floor that spends nothing. Drop `save_floor`."
        )
    out, fitted = job.save_floor, outcome.first
    fitted.save(out, sign_key=job.kept.sign_key, ids_of=prepared.first if job.kept.public_ids else None)
    prepared.request.source.write(out)
    alone = Evaluation(fitted.plan, outcome, {})
    metrics = alone.to_dict(prepared.request.unit) | prepared.detail(alone)
    write_json(out / "evaluation" / "metrics.json", {**metrics, "dataset": job.dataset, "out": str(out)})
    write_json(out / "evaluation" / "curves.json", dict(fitted.curves))
    write_words(fitted.certificate, out)
