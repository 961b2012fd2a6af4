"""`sfumato train`: fit a method, save the run, print its accuracy beside floor and ceiling."""

from __future__ import annotations

import json
import os
import resource
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from sfumato._validate import check_choice, check_int
from sfumato.cli import data
from sfumato.errors import InputError, UnsupportedUnitError
from sfumato.privacy.budget import Budget
from sfumato.privacy.units import EdgeLevel, NodeLevel, NoPrivacy, RecordLevel, Unit

if TYPE_CHECKING:
    from sfumato.evaluation import Summary
    from sfumato.graph.graph import Graph
    from sfumato.method import Fitted, Plan, Progress

METHODS = ("gap", "mlp", "sage")
UNITS = ("none", "arc", "edge", "node", "record")


@dataclass(frozen=True)
class Outcome:
    """Repeated fits of one method: the first is kept, the scores are summarized."""

    first: Fitted
    accuracy: Summary
    macro_f1: Summary
    seconds: float


def train(
    method: str = typer.Argument(..., help="gap, mlp or sage."),
    dataset: str | None = data.DATASET,
    data_dir: Path | None = data.DATA_DIR,
    min_class_size: int | None = data.MIN_CLASS,
    nodes: Path | None = data.NODES,
    edges: Path | None = data.EDGES,
    label: str | None = data.LABEL,
    schema: Path | None = data.SCHEMA,
    directed: bool | None = data.DIRECTED,
    unit: str = typer.Option(..., "--unit", help="What is protected: none, arc, edge, node or record."),
    epsilon: float | None = typer.Option(None, "--epsilon", help="Privacy budget: smaller is more private."),
    delta: float | None = typer.Option(
        None, "--delta", help="Failure probability; required with a unit, such as 1e-7."
    ),
    max_degree: int | None = typer.Option(None, "--max-degree", help="Arcs an owner keeps under unit node."),
    split: str = typer.Option("75/10/15", "--split", help="Train/validation/test percent, or public."),
    seeds: int = typer.Option(1, "--seeds", help="Fits for evaluation; only the first is saved and certified."),
    controls: bool | None = typer.Option(
        None, "--controls/--no-controls", help="Floor and ceiling (default: named data)."
    ),
    hops: int | None = typer.Option(
        None, "--hops", help="Neighbourhood sums of gap (default 2, or 5 without privacy)."
    ),
    device: str = typer.Option("cpu", "--device", help="cpu."),
    threads: int | None = typer.Option(None, "--threads", help="Threads (default: all cores)."),
    sign_key: Path | None = typer.Option(None, "--sign-key", help="Ed25519 private key (PEM) that signs the release."),
    out: Path = typer.Option(..., "--out", help="New run folder."),
    as_json: bool = typer.Option(False, "--json", help="One JSON object on standard output."),
    verbose: bool = typer.Option(False, "--verbose", help="Print the plan before training."),
) -> None:
    """Train a method within a privacy budget, and save the run with its certificate."""
    start = time.perf_counter()
    check_choice(METHODS, method=method)
    check_choice(("cpu",), "Other devices are not supported yet.", device=device)
    check_int(low=1, seeds=seeds)
    if hops is not None and method != "gap":
        raise InputError(f"Expected --hops with gap only, got method {method!r}. Drop it.")
    budget = _budget(unit, epsilon, delta)
    if max_degree is not None and unit != "node":
        raise InputError(f"Expected --max-degree with --unit node only, got unit {unit!r}. Drop it.")
    source = data.Source(
        dataset, _text(data_dir), _text(nodes), _text(edges), label, _text(schema), directed, min_class_size, split
    ).check()
    from sfumato.privacy.release_folder import check_new_folder, read_sign_key

    check_new_folder(out)
    if sign_key is not None:
        read_sign_key(sign_key)
    graph = source.load()
    loaded = time.perf_counter()
    _set_threads(threads)
    from sfumato.catalog import method_named

    chosen = method_named(method, **({"num_hops": hops} if hops is not None else {}))
    privacy_unit = _unit(unit, graph, max_degree)
    first = source.with_roles(graph, 0)
    plan = chosen.calibrate(budget, privacy_unit, first.public_facts(privacy_unit))
    plan.check(first)
    _check_splits(source, graph, seeds)
    if verbose:
        print(plan, file=sys.stderr)
    with _progress(quiet=as_json) as report:
        outcome = _repeat(plan, source, graph, seeds, report, ledger=_new_ledger(out))
        outcome.first.save(out, sign_key=sign_key)
        source.write(out)
        beside = controls if controls is not None else source.named
        floor, ceiling = _controls(plan, source, graph, seeds, report) if beside else (None, None)
    result = _result(unit, plan, outcome, floor, ceiling)
    result["dataset"] = dataset or str(nodes)
    result["seconds"] = {"load": loaded - start, "train": outcome.seconds, "total": time.perf_counter() - start}
    result["peak_mb"] = _peak_mb()
    result["device"], result["out"] = device, str(out)
    (out / "evaluation" / "metrics.json").write_text(json.dumps(result, indent=1) + "\n")
    (out / "evaluation" / "curves.json").write_text(json.dumps(dict(outcome.first.curves)) + "\n")
    if as_json:
        typer.echo(json.dumps(result))
    else:
        _show(result, outcome, floor, ceiling, out)


def _budget(unit: str, epsilon: float | None, delta: float | None) -> Budget | None:
    check_choice(UNITS, unit=unit)
    if unit == "none":
        if epsilon is not None or delta is not None:
            raise InputError(
                "Expected no --epsilon or --delta with --unit none. Choose a unit such as edge to spend them."
            )
        return None
    if epsilon is None:
        raise InputError(f"Expected --epsilon with --unit {unit}, got none. 1 is a common choice.")
    if delta is None:
        raise InputError(
            f"Expected --delta with --unit {unit}, got none. Choose a public number well below 1 / (number of records), "
            "such as 1e-7."
        )
    return Budget(epsilon, delta)


def _unit(name: str, graph: Graph, max_degree: int | None) -> Unit:
    if name == "node":
        return NodeLevel(max_out_degree=max_degree if max_degree is not None else graph.max_degree)
    simple: dict[str, Unit] = {
        "none": NoPrivacy(),
        "arc": EdgeLevel(directed=True),
        "edge": EdgeLevel(directed=graph.directed),
        "record": RecordLevel(),
    }
    return simple[name]


def _check_splits(source: data.Source, graph: Graph, seeds: int) -> None:
    from sfumato.evaluation import check_scorable

    for seed in range(seeds):
        check_scorable(source.with_roles(graph, seed))


def _repeat(
    plan: Plan, source: data.Source, graph: Graph, seeds: int, report: Progress | None, ledger: Path | None = None
) -> Outcome:
    from sfumato.evaluation import Summary, score

    kept, scores, seconds = None, [], 0.0
    for seed in range(seeds):
        split = source.with_roles(graph, seed)
        start = time.perf_counter()
        fitted = plan.fit(split, seed=seed, ledger=ledger if seed == 0 else None, progress=report)
        if seed == 0:
            kept, seconds = fitted, time.perf_counter() - start
        scores.append(score(fitted, split))
    assert kept is not None
    accuracy, macro_f1 = (Summary.of(values) for values in zip(*scores, strict=True))
    return Outcome(kept, accuracy, macro_f1, seconds)


def _controls(
    plan: Plan, source: data.Source, graph: Graph, seeds: int, report: Progress | None
) -> tuple[Outcome | None, Outcome | None]:
    """Floor: graph-free at the same unit and budget. Ceiling: GraphSAGE without privacy."""
    from sfumato.central.baselines import MLP, SAGE

    outcomes: list[Outcome | None] = []
    for label, method, unit, budget in (
        ("floor", MLP(), plan.unit, plan.budget),
        ("ceiling", SAGE(), NoPrivacy(), None),
    ):
        named = None if report is None else _prefixed(report, label)
        try:
            control = method.calibrate(budget, unit, source.with_roles(graph, 0).public_facts(unit))
        except UnsupportedUnitError:
            outcomes.append(None)
        else:
            outcomes.append(_repeat(control, source, graph, seeds, named))
    return outcomes[0], outcomes[1]


def _prefixed(report: Progress, label: str) -> Progress:
    return lambda stage, done, total: report(f"{label}: {stage}", done, total)


def _new_ledger(out: Path) -> Path:
    from sfumato.privacy.release_folder import LEDGER

    (out / "release").mkdir(parents=True)
    return out / "release" / LEDGER


def _result(unit: str, plan: Plan, outcome: Outcome, floor: Outcome | None, ceiling: Outcome | None) -> dict[str, Any]:
    from sfumato.evaluation import graph_gain_recovered

    low, high = (o.accuracy.mean if o else None for o in (floor, ceiling))
    return {
        "method": plan.method.name,
        "unit": unit,
        "task": "node",
        "test_accuracy": outcome.accuracy.to_dict(),
        "test_macro_f1": outcome.macro_f1.to_dict(),
        "floor": floor.accuracy.to_dict() if floor else None,
        "label_control": None,
        "ceiling": ceiling.accuracy.to_dict() if ceiling else None,
        "graph_gain_recovered": graph_gain_recovered(outcome.accuracy.mean, low, high),
        "privacy": {"unit": unit, "relation": plan.unit.relation, "epsilon": plan.epsilon, "delta": plan.delta},
        "evaluation_private": False,
    }


def _show(result: dict[str, Any], outcome: Outcome, floor: Outcome | None, ceiling: Outcome | None, out: Path) -> None:
    from rich import box
    from rich.console import Console
    from rich.table import Table

    seeds = result["test_accuracy"]["seeds"]
    table = Table("", "test accuracy", "macro-F1", box=box.SIMPLE_HEAD, title=f"{result['dataset']} ({seeds} seed(s))")
    for name, row in (
        ("floor: graph-free, same budget", floor),
        (f"{result['method']} (unit {result['unit']})", outcome),
        ("ceiling: GraphSAGE, no privacy", ceiling),
    ):
        if row is not None:
            table.add_row(name, str(row.accuracy), str(row.macro_f1))
    console = Console()
    console.print(table)
    gain = result["graph_gain_recovered"]
    if gain is not None:
        console.print(f"Share of the graph's gain kept: {100 * gain:.0f} %.")
    console.print("These scores read true labels: they are not covered by the guarantee.\n")
    console.print(str(outcome.first.certificate), highlight=False)
    console.print(f"\nRun folder: {out}. Only {out}/release may leave. Check it: sfumato verify {out}", soft_wrap=True)


@contextmanager
def _progress(quiet: bool) -> Iterator[Progress | None]:
    """One bar a stage on standard error, if someone is watching; stages hold no private value."""
    if quiet or not sys.stderr.isatty():
        yield None if quiet else _log_stages()
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (TextColumn("{task.description:28}"), BarColumn(), TextColumn("{task.percentage:3.0f} %"))
    with Progress(*columns, TimeRemainingColumn(), console=Console(stderr=True)) as bars:
        tasks: dict[str, Any] = {}

        def report(stage: str, done: int, total: int) -> None:
            if stage not in tasks:
                tasks[stage] = bars.add_task(stage, total=total)
            bars.update(tasks[stage], completed=done)

        yield report


def _log_stages() -> Progress:
    seen: set[str] = set()

    def report(stage: str, done: int, total: int) -> None:
        if stage not in seen:
            seen.add(stage)
            print(f"{stage} ...", file=sys.stderr, flush=True)

    return report


def _set_threads(threads: int | None) -> None:
    if threads is None:
        return
    check_int(low=1, threads=threads)
    import numba
    import torch

    torch.set_num_threads(threads)
    numba.set_num_threads(min(threads, os.cpu_count() or 1))


def _peak_mb() -> float:
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak / (2**20 if sys.platform == "darwin" else 2**10)


def _text(path: Path | None) -> str | None:
    return None if path is None else str(path)
