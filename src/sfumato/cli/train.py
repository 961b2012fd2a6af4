"""`sfumato train`: fit a method, save the run, print its accuracy beside floor and ceiling."""

from __future__ import annotations

import json
import os
import sys
import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from sfumato.cli import data, local, options
from sfumato.cli.options import HOPS, PRIVATE, Options, take_up
from sfumato.cli.output import peak_mb, plain_console, stage_bars
from sfumato.errors import InputError, SfumatoError, UnsupportedUnitError
from sfumato.privacy.units import NoPrivacy, Unit, unit_named

if TYPE_CHECKING:
    from sfumato.evaluation import Summary
    from sfumato.graph.graph import Graph
    from sfumato.method import Fitted, Plan, Progress
    from sfumato.privacy.budget import Budget
    from sfumato.privacy.resume import FitState


_BESIDE = {
    "floor": "floor: graph-free, same budget",
    "label_control": "control: one hop of labels, same budget",
    "ceiling": "ceiling: GraphSAGE, no privacy",
}


@dataclass(frozen=True)
class Outcome:
    """Repeated fits of one method: the first is kept, the scores are summarized."""

    first: Fitted
    accuracy: Summary
    macro_f1: Summary
    seconds: float


def train(
    context: typer.Context,
    method: str | None = typer.Argument(
        None,
        help="auto (recommended: picks label-messages or mlp by a public rule), label-messages, progap or gap (with the "
        "graph), mlp (graph-free), sage (no privacy); locally private: lpgnn, pgc, label-only, and blink (private links).",
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
        help="Neighborhood sums: of label-messages (default 3; node level 1), of progap (5; node level 4), of gap (2; "
        "without privacy 5).",
    ),
    ledger: Path | None = options.LEDGER,
    total_epsilon: float | None = options.TOTAL_EPSILON,
    total_delta: float | None = options.TOTAL_DELTA,
    composition: str | None = options.COMPOSITION,
    resumable: bool = typer.Option(
        False,
        "--resumable",
        help="Let --resume finish it after a stop: keeps the noise key under OUT/private until then.",
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
    options.check()
    if options.task == "link":
        local.train_links(replace(options, threads=set_threads(options.threads)), as_json)
        return
    out, source = options.out, options.source()
    from sfumato.privacy.release_folder import check_new_folder, read_sign_key

    if state is None:
        check_new_folder(out)
    if options.sign_key is not None:
        read_sign_key(options.sign_key)
    graph = source.load()
    loaded = time.perf_counter()
    options = replace(options, threads=set_threads(options.threads))
    chosen, privacy_unit = _chosen(options, graph)
    first = source.with_roles(graph, 0)
    plan = chosen.calibrate(options.budget(), privacy_unit, first.public_facts(privacy_unit))
    if options.method == "auto":
        print(f"auto: {plan.method.name}, by unit, budget and promised mean degree.", file=sys.stderr)
    plan.check(first)
    _check_splits(source, graph, options.seeds)
    if verbose:
        print(plan, file=sys.stderr)
    _note_uncharged(options)
    with stage_bars(quiet=as_json) as report:
        fitted, seconds = _fit(options, plan, first, state, report)
        outcome = _repeat(plan, source, graph, options.seeds, report, fitted, seconds)
        controls = _controls(plan, source, graph, options.seeds, report) if options.beside else {}
    result = _result(options.unit, plan, outcome, controls)
    result["dataset"] = options.dataset or str(options.nodes)
    result["seconds"] = {"load": loaded - start, "train": outcome.seconds, "total": time.perf_counter() - start}
    result["peak_mb"] = peak_mb()
    result["device"], result["out"] = options.device, str(out)
    (out / "evaluation" / "metrics.json").write_text(json.dumps(result, indent=1) + "\n")
    (out / "evaluation" / "curves.json").write_text(json.dumps(dict(outcome.first.curves)) + "\n")
    if as_json:
        typer.echo(json.dumps(result))
    else:
        _show(result, outcome, controls, out)


def _chosen(options: Options, graph: Graph) -> tuple[Any, Unit]:
    if options.method in local.WORDS:
        method = local.build(options)
        if options.method in local.OF_UNIT["local"]:
            local.look(options, graph, method)
        return method, method.unit
    from sfumato.catalog import method_named

    settings = {HOPS[options.method]: options.hops} if options.hops is not None else {}
    return method_named(options.method, **settings), _unit(options.unit, graph, options.max_degree)


def _fit(
    options: Options, plan: Plan, first: Graph, state: FitState | None, report: Progress | None
) -> tuple[Fitted, float]:
    """The fit that is kept: charged, saved, and then without its key. A refusal leaves nothing behind."""
    from sfumato.privacy.release_folder import LEDGER

    out, resumed = options.out, state is not None
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
    except SfumatoError:
        if state is not None and not resumed and not (out / "release").exists():
            state.remove()
            out.rmdir()
        raise
    finally:
        if state is not None:
            state.close()
    return fitted, seconds


def _new_state(options: Options) -> FitState:
    from sfumato.privacy.resume import FitState

    print(
        f"Warning: until this run has finished, {options.out / PRIVATE} holds its noise key. Whoever reads it can remove "
        "the noise: keep it to yourself, and out of backups.",
        file=sys.stderr,
    )
    return FitState.create(options.out / PRIVATE, options.to_json())


def _note_uncharged(options: Options) -> None:
    if options.ledger is not None and (options.beside or options.seeds > 1):
        print(
            "Note: controls and further seeds read the data outside the guarantee and are not charged to the ledger. "
            "Their scores go to evaluation/, which must not leave.",
            file=sys.stderr,
        )


def _unit(word: str, graph: Graph, max_degree: int | None) -> Unit:
    return unit_named(word, graph.directed, max_degree if max_degree is not None else graph.max_degree)


def _check_splits(source: data.Source, graph: Graph, seeds: int) -> None:
    from sfumato.evaluation import check_scorable

    for seed in range(seeds):
        check_scorable(source.with_roles(graph, seed))


def _repeat(
    plan: Plan,
    source: data.Source,
    graph: Graph,
    seeds: int,
    report: Progress | None,
    first: Fitted | None = None,
    seconds: float = 0.0,
) -> Outcome:
    """Score the first fit (made here unless given) and further ones, each on its own split."""
    from sfumato.evaluation import Summary, score

    scores = []
    for seed in range(seeds):
        split = source.with_roles(graph, seed)
        fitted = first if seed == 0 and first is not None else plan.fit(split, seed=seed, progress=report)
        first = first or fitted
        scores.append(score(fitted, split))
    assert first is not None
    accuracy, macro_f1 = (Summary.of(values) for values in zip(*scores, strict=True))
    return Outcome(first, accuracy, macro_f1, seconds)


def _controls(plan: Plan, source: data.Source, graph: Graph, seeds: int, report: Progress | None) -> dict[str, Outcome]:
    """What stands beside the method: see ``_BESIDE``. What has no proof under the unit, or is the method, is left out."""
    outcomes = {}
    for name, method, unit, budget in _candidates(plan):
        named = None if report is None else _prefixed(report, name.replace("_", " "))
        try:
            control = method.calibrate(budget, unit, source.with_roles(graph, 0).public_facts(unit))
        except UnsupportedUnitError:
            continue
        except InputError as error:
            print(f"Note: {name.replace('_', ' ')} is left out. {error}", file=sys.stderr)
            continue
        same = (control.method.name, control.releases) == (plan.method.name, plan.releases) and control.releases
        if same and not is_local(plan):
            continue
        outcomes[name] = _repeat(control, source, graph, seeds, named)
    return outcomes


def _candidates(plan: Plan) -> list[tuple[str, Any, Unit, Budget | None]]:
    if is_local(plan):
        return [(*control, None) for control in local.beside(plan)]
    from sfumato.central.baselines import MLP, SAGE
    from sfumato.central.labels import LabelMessages

    return [
        ("floor", MLP(), plan.unit, plan.budget),
        ("label_control", LabelMessages(num_hops=1), plan.unit, plan.budget),
        ("ceiling", SAGE(), NoPrivacy(), None),
    ]


def is_local(plan: Plan) -> bool:
    """Whether users randomize their own values or links (or would, were none of them read in the clear)."""
    from sfumato.local.method import AskingMethod

    return isinstance(plan.method, AskingMethod)


def _prefixed(report: Progress, label: str) -> Progress:
    return lambda stage, done, total: report(f"{label}: {stage}", done, total)


def _result(unit: str, plan: Plan, outcome: Outcome, controls: dict[str, Outcome]) -> dict[str, Any]:
    from sfumato.evaluation import graph_gain_recovered

    low, high = (controls[name].accuracy.mean if name in controls else None for name in ("floor", "ceiling"))
    shares = local.shares(plan) if is_local(plan) else {}
    low = None if "epsilon_y" in shares else low  # features that tell nothing still have the graph
    return {
        "method": plan.method.name,
        "unit": unit,
        "task": "node",
        "test_accuracy": outcome.accuracy.to_dict(),
        "test_macro_f1": outcome.macro_f1.to_dict(),
        "label_control": None,
        **{name: controls[name].accuracy.to_dict() if name in controls else None for name in _beside(plan)},
        "graph_gain_recovered": graph_gain_recovered(outcome.accuracy.mean, low, high),
        "privacy": {
            "unit": unit,
            "relation": plan.unit.relation,
            "epsilon": plan.epsilon,
            "delta": plan.delta,
            **shares,
        },
        "evaluation_private": False,
    }


def _beside(plan: Plan) -> dict[str, str]:
    if not is_local(plan):
        return _BESIDE
    return local.BESIDE_LINKS if plan.unit.name == "link" else local.BESIDE


def _show(result: dict[str, Any], outcome: Outcome, controls: dict[str, Outcome], out: Path) -> None:
    from rich import box
    from rich.table import Table

    seeds = result["test_accuracy"]["seeds"]
    table = Table("", "test accuracy", "macro-F1", box=box.SIMPLE_HEAD, title=f"{result['dataset']} ({seeds} seed(s))")
    shown = {name: (title, controls.get(name)) for name, title in _beside(outcome.first.plan).items()}
    rows = (*list(shown.values())[:-1], (f"{result['method']} (unit {result['unit']})", outcome), shown["ceiling"])
    for title, row in rows:
        if row is not None:
            table.add_row(title, str(row.accuracy), str(row.macro_f1))
    console = plain_console()
    console.print(table)
    gain = result["graph_gain_recovered"]
    if gain is not None:
        console.print(f"Share of the graph's gain kept: {100 * gain:.0f} %.")
    console.print("These scores read true labels: they are not covered by the guarantee.\n")
    console.print(str(outcome.first.certificate), highlight=False)
    console.print(f"\nRun folder: {out}. Only {out}/release may leave. Check it: sfumato verify {out}", soft_wrap=True)


def set_threads(threads: int | None) -> int:
    """Use this many threads (None: as many as now) from here on, and return the number.

    Numba sets the number for the whole process when it starts its threads, so it starts them here, before Torch is told.
    """
    import numba
    import torch
    from numba.np.ufunc.parallel import _launch_threads

    threads = threads or torch.get_num_threads()
    _launch_threads()
    numba.set_num_threads(min(threads, os.cpu_count() or 1))
    torch.set_num_threads(threads)
    return threads
