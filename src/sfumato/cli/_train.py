"""`sfumato train`: fit a method, save the run, print its accuracy beside floor and ceiling."""

from __future__ import annotations

import json
import sys
import time
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from sfumato._files import write_json
from sfumato._optional import LIGHT, check_installed
from sfumato._threads import set_threads
from sfumato.catalog import PAIR_METHODS
from sfumato.cli import _check as check
from sfumato.cli import _collected as collected
from sfumato.cli import _data as data
from sfumato.cli import _describe as describe
from sfumato.cli import _floor as floor
from sfumato.cli import _links as links
from sfumato.cli import _local as local
from sfumato.cli._engine import running
from sfumato.cli._options import Options
from sfumato.cli._output import stage_bars, tell
from sfumato.cli._parse import Job, given, parse, with_arcs
from sfumato.cli._scores import note_left_out, note_uncharged, show, write_words
from sfumato.cli._stopped import PRIVATE, leaving
from sfumato.cli._stored import take_up, to_json
from sfumato.cli._table import takes

if TYPE_CHECKING:
    from sfumato.evaluation._links import LinkEvaluation
    from sfumato.evaluation._outcome import Evaluation
    from sfumato.evaluation._request import Prepared
    from sfumato.method._plan import Fitted
    from sfumato.method.contract import Progress
    from sfumato.record._resume import FitState

_NO_BOUND = (
    "no edge is read, since nothing public bounds how many a node has. Promise a bound (--max-degree), or declare degrees public "
    "(--public-degrees, or degree_column in a schema), if that is true."
)


@takes(Options, "train")
def train(context: typer.Context, values: dict[str, Any]) -> None:
    """Train a method within a privacy budget.

    The run is saved with its certificate.
    """
    if values["dry_run"]:
        check.dry_run(values)
        return
    if values["collection"] is not None:
        collected.train_collected(context, values)
        return
    state = None
    if values["resume"] is not None:
        chosen, state = take_up(values["resume"], context, with_arcs(values))
    else:
        chosen = given(values)
    _train(chosen, state, values["as_json"], values["verbose"], running(values["engine"], values["ray_address"]))


def _train(
    options: Options, state: FitState | None, as_json: bool, verbose: bool, engine: AbstractContextManager[None]
) -> None:
    start = time.perf_counter()
    check_installed(*LIGHT)
    job = parse(options)
    if job.request.controls:
        check.check_controls()
    from sfumato.evaluation._links import LinkEvaluation
    from sfumato.record._release_folder import read_sign_key

    if job.sign_key is not None:
        read_sign_key(job.sign_key)
    scores = f"Its scores are not: sfumato evaluate {job.out}"
    hint = "" if job.word in local.WORDS else "With --resumable it could."
    kept = to_json(options) if options.resumable else None
    shared = None if job.ledger is None else job.ledger.path
    with engine, leaving(job.out, shared, scores, resumed=state is not None, hint=hint):
        result, evaluation = _run(job, state, kept, start, as_json, verbose)
    if as_json:
        typer.echo(json.dumps(result))
    elif isinstance(evaluation, LinkEvaluation):
        links.show(result, evaluation, job.out)
    else:
        show(result, evaluation, job.out)


def _run(
    job: Job, state: FitState | None, kept: dict[str, Any] | None, start: float, quiet: bool, verbose: bool
) -> tuple[dict[str, Any], Evaluation | LinkEvaluation]:
    """Fit, save and score a run. Return what metrics.json holds, and the scores of the run and its controls."""
    from sfumato.bounded.kernels import language
    from sfumato.bounded.promise import protects_every_arc
    from sfumato.central._auto import can_promise
    from sfumato.evaluation._groups import groups_of
    from sfumato.evaluation._links import LinkEvaluation, evaluate_links, without_held_out
    from sfumato.evaluation._memory import peak_mb
    from sfumato.evaluation._request import prepare

    threads = set_threads(job.threads)
    kept = None if kept is None else {**kept, "threads": threads}  # as many decide the bits of a resumed fit
    told: list[describe.Columns] = []
    with stage_bars(quiet) as report:
        prepared = prepare(job.request, load=lambda source: source.load(report, describe.kept(told)), look=job.look)
    set_threads(threads)  # also those of what the method has loaded
    plan, request = prepared.plan, job.request
    if plan.method.name != request.method.name:
        print(f"{job.word}: {plan.method.name}, by unit, budget and public facts.", file=sys.stderr)
        if protects_every_arc(plan.unit) and not can_promise(plan.unit, plan.public):
            print(f"{job.word}: {_NO_BOUND}", file=sys.stderr)
    describe.tell_columns(told if not quiet else [], prepared.graph, plan.unit.public)
    tell((*plan.caveats, *data.unscaled(prepared.graph, plan.unit)))
    if verbose:
        print(plan, f"Neighborhoods are summed in {language()}.", sep="\n", file=sys.stderr)
    note_uncharged(job)
    groups = None if job.by is None else groups_of(request.source, prepared.graph, job.by)
    pairs = request.method.name in PAIR_METHODS
    with stage_bars(quiet) as report:
        fitted, seconds = _fit(job, without_held_out(prepared) if pairs else prepared, state, kept, report)
        evaluation = evaluate_links(prepared, fitted) if pairs else prepared.evaluate(fitted, report)
    note_left_out(evaluation)
    result = evaluation.to_dict(request.unit)
    result |= {} if isinstance(evaluation, LinkEvaluation) else prepared.detail(evaluation, groups)
    result["dataset"] = job.dataset
    result["seconds"] = {"load": prepared.load_seconds, "train": seconds, "total": time.perf_counter() - start}
    result["peak_mb"] = peak_mb()
    result["device"], result["out"] = job.device, str(job.out)
    result |= floor.released(job, evaluation)
    lost = local.lost(request.method, prepared.graph) if job.word in local.OF_VALUES else ""
    beside = {"outside_schema": prepared.graph.outside, "features_lost": lost}
    metrics = result | {name: value for name, value in beside.items() if value}
    write_json(job.out / "evaluation" / "metrics.json", metrics)
    write_json(job.out / "evaluation" / "curves.json", dict(fitted.curves))
    write_words(fitted.certificate, job.out)
    floor.save(job, prepared, evaluation)
    return result, evaluation


def _fit(
    job: Job, prepared: Prepared, state: FitState | None, kept: dict[str, Any] | None, report: Progress | None
) -> tuple[Fitted, float]:
    """Fit what is kept: charge it, save it, and delete its key. Return it and its seconds."""
    from sfumato.method._checks import check_ids
    from sfumato.method._graph_key import GraphKey, id_lines
    from sfumato.record._release_folder import LEDGER

    if job.public_ids:  # refused before anything is spent
        check_ids(id_lines(prepared.first), GraphKey.of(prepared.first))
    if kept is not None and state is None:
        state = _new_state(job.out, kept)
    start = time.perf_counter()
    try:
        fitted = prepared.plan.fit(
            prepared.first,
            ledger=job.out / "release" / LEDGER,
            progress=report,
            dataset_ledger=job.ledger,
            state=state,
            deployment=job.deployment,
        )
        seconds = time.perf_counter() - start
        if fitted.ledger.torn:
            print(
                "Note: the ledger ended inside a line: its release was not computed yet, and is now.", file=sys.stderr
            )
        prepared.request.source.write(job.out)
        if job.ledger is not None:
            job.request.source.write_ledger(job.out, job.ledger.path)
        fitted.save(job.out, sign_key=job.sign_key, ids_of=prepared.first if job.public_ids else None)
        if state is not None:
            state.remove()
    finally:
        if state is not None:
            state.close()
    return fitted, seconds


def _new_state(out: Path, options: dict[str, Any]) -> FitState:
    from sfumato.record._resume import FitState

    print(
        f"Warning: until this run has finished, {out / PRIVATE} holds its noise key. Whoever reads it can remove "
        "the noise: keep it to yourself, and out of backups.",
        file=sys.stderr,
    )
    return FitState.create(out / PRIVATE, options)
