"""`sfumato train`: fit a method, save the run, print its accuracy beside floor and ceiling."""

from __future__ import annotations

import json
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from sfumato._optional import TRAIN, check_installed
from sfumato.catalog import FACES, WORDS
from sfumato.cli import data, local, options
from sfumato.cli.options import HOPS, Options, set_threads, take_up
from sfumato.cli.output import peak_mb, stage_bars, tell, write_values
from sfumato.cli.scores import Outcome, check_splits, note_uncharged, repeat, run_controls, show, summarize
from sfumato.cli.stopped import PRIVATE, leaving
from sfumato.privacy.units import Unit

if TYPE_CHECKING:
    from sfumato.graph.graph import Graph
    from sfumato.method.contract import Progress
    from sfumato.method.plan import Fitted, Plan
    from sfumato.record.resume import FitState

_SUMMARIES = "; ".join(f"{word}: {FACES[name].summary}" for word, name in WORDS.items())
_HOPS = "; ".join(f"of {word} {FACES[WORDS[word]].defaults['hops']}" for word in HOPS)


def train(
    context: typer.Context,
    method: str | None = typer.Argument(
        None,
        help=_SUMMARIES + ".",
    ),
    dataset: str | None = data.DATASET,
    data_dir: Path | None = data.DATA_DIR,
    min_class_size: int | None = data.MIN_CLASS,
    nodes: Path | None = data.NODES,
    edges: Path | None = data.EDGES,
    label: str | None = data.LABEL,
    schema: Path | None = data.SCHEMA,
    directed: bool | None = data.DIRECTED,
    unit: str | None = options.UNIT,
    epsilon: float | None = options.EPSILON,
    delta: float | None = options.DELTA,
    max_degree: int | None = options.MAX_DEGREE,
    epsilon_x: float | None = options.EPSILON_X,
    epsilon_y: float | None = options.EPSILON_Y,
    preset: str | None = options.PRESET,
    task: str = options.TASK,
    mechanism: str | None = options.MECHANISM,
    split: str | None = options.SPLIT,
    seeds: int = typer.Option(1, "--seeds", help="Fits for evaluation; only the first is saved and certified."),
    controls: bool | None = options.CONTROLS,
    hops: int | None = typer.Option(
        None,
        "--hops",
        help=f"Neighborhood sums (default {_HOPS}).",
    ),
    ledger: Path | None = options.LEDGER,
    total_epsilon: float | None = options.TOTAL_EPSILON,
    total_delta: float | None = options.TOTAL_DELTA,
    composition: str | None = options.COMPOSITION,
    resumable: bool = typer.Option(
        False,
        "--resumable",
        help="Let --resume finish it after a stop: keeps the noise key under OUT/private until then. Without --ledger, "
        "nobody can tell an old copy of OUT: never put one back.",
    ),
    resume: Path | None = typer.Option(
        None, "--resume", help="Finish this stopped --resumable run, with its own METHOD and options."
    ),
    device: str = typer.Option("cpu", "--device", help="cpu."),
    threads: int | None = options.THREADS,
    sign_key: Path | None = options.SIGN_KEY,
    out: Path | None = options.OUT,
    as_json: bool = options.JSON,
    verbose: bool = typer.Option(False, "--verbose", help="Print the plan before training."),
) -> None:
    """Train a method within a privacy budget, and save the run with its certificate."""
    values = {name: value for name, value in locals().items() if name != "context"}
    state = None
    if resume is not None:
        chosen, state = take_up(resume, context, values)
    else:
        chosen = Options.given({k: v for k, v in values.items() if k not in ("resume", "as_json", "verbose")})
    _train(chosen, state, as_json, verbose)


def _train(options: Options, state: FitState | None, as_json: bool, verbose: bool) -> None:
    start = time.perf_counter()
    check_installed(*TRAIN)
    options.check()
    if options.task == "link":
        local.train_links(replace(options, threads=set_threads(options.threads)), as_json)
        return
    from sfumato.record.release_folder import read_sign_key

    if options.sign_key is not None:
        read_sign_key(options.sign_key)
    scores = f"Its scores are not: sfumato evaluate {options.out}"
    hint = "" if options.method in local.WORDS else "With --resumable it could."
    with leaving(options.out, options.ledger, scores, resumed=state is not None, hint=hint):
        result, outcome, controls = _run(options, state, start, as_json, verbose)
    if as_json:
        typer.echo(json.dumps(result))
    else:
        show(result, outcome, controls, options.out)


def _run(
    options: Options, state: FitState | None, start: float, quiet: bool, verbose: bool
) -> tuple[dict[str, Any], Outcome, dict[str, Outcome]]:
    """Fit, save, score; what metrics.json holds, and the scores of the run and its controls."""
    source = options.source()
    graph = source.load()
    loaded = time.perf_counter()
    options = replace(options, threads=set_threads(options.threads))
    chosen, privacy_unit = _chosen(options, graph)
    first = source.with_roles(graph, 0)
    plan = chosen.calibrate(options.budget(), privacy_unit, first.public_facts(privacy_unit))
    if options.method == "auto":
        print(f"auto: {plan.method.name}, by unit, budget and promised mean degree.", file=sys.stderr)
    plan.check(first)
    check_splits(source, graph, options.seeds)
    tell(plan.caveats)
    if verbose:
        print(plan, file=sys.stderr)
    note_uncharged(options)
    with stage_bars(quiet) as report:
        fitted, seconds = _fit(options, plan, first, state, report)
        outcome = repeat(plan, source, graph, options.seeds, report, fitted, seconds)
        controls = run_controls(plan, source, graph, options.seeds, report) if options.beside else {}
    result = summarize(options.unit, plan, outcome, controls)
    result["dataset"] = options.dataset or str(options.nodes)
    result["seconds"] = {"load": loaded - start, "train": outcome.seconds, "total": time.perf_counter() - start}
    result["peak_mb"] = peak_mb()
    result["device"], result["out"] = options.device, str(options.out)
    lost = local.lost(chosen, graph) if options.method in local.OF_VALUES else ""
    beside = {"outside_schema": graph.outside, "features_lost": lost}
    metrics = result | {name: value for name, value in beside.items() if value}
    write_values(options.out / "evaluation" / "metrics.json", metrics)
    write_values(options.out / "evaluation" / "curves.json", dict(outcome.first.curves))
    return result, outcome, controls


def _chosen(options: Options, graph: Graph) -> tuple[Any, Unit]:
    method = options.chosen()
    if options.method in local.OF_VALUES:
        local.look(options, graph, method)
    return method, method.unit or options.privacy_unit(graph)


def _fit(
    options: Options, plan: Plan, first: Graph, state: FitState | None, report: Progress | None
) -> tuple[Fitted, float]:
    """The fit that is kept: charged, saved, and then without its key."""
    from sfumato.record.release_folder import LEDGER

    out = options.out
    if options.resumable and state is None:
        state = _new_state(options)
    start = time.perf_counter()
    try:
        fitted = plan.fit(
            first,
            ledger=out / "release" / LEDGER,
            progress=report,
            dataset_ledger=options.dataset_ledger(),
            state=state,
        )
        seconds = time.perf_counter() - start
        if fitted.ledger.torn:
            print(
                "Note: the ledger ended inside a line: its release was not computed yet, and is now.", file=sys.stderr
            )
        options.source().write(out)
        fitted.save(out, sign_key=options.sign_key)
        if state is not None:
            state.remove()
    finally:
        if state is not None:
            state.close()
    return fitted, seconds


def _new_state(options: Options) -> FitState:
    from sfumato.record.resume import FitState

    print(
        f"Warning: until this run has finished, {options.out / PRIVATE} holds its noise key. Whoever reads it can remove "
        "the noise: keep it to yourself, and out of backups.",
        file=sys.stderr,
    )
    return FitState.create(options.out / PRIVATE, options.to_json())
