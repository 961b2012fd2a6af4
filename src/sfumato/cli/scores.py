"""Scores of a run beside its controls, as `sfumato train` and `sfumato tune` compute, store and print them."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sfumato.cli.output import plain_console
from sfumato.errors import InputError, UnsupportedUnitError
from sfumato.evaluation.controls import controls, repeats, titles

if TYPE_CHECKING:
    from sfumato.cli.data import Source
    from sfumato.cli.options import Options
    from sfumato.evaluation.scores import Summary
    from sfumato.graph.graph import Graph
    from sfumato.method.contract import Progress
    from sfumato.method.plan import Fitted, Plan


@dataclass(frozen=True)
class Outcome:
    """Repeated fits of one method: the first is kept, the scores are summarized."""

    first: Fitted
    accuracy: Summary
    macro_f1: Summary
    seconds: float


def note_uncharged(options: Options) -> None:
    """Say that controls and further seeds are outside the ledger, where there is one."""
    if options.ledger is not None and (options.beside or options.seeds > 1):
        print(
            "Note: controls and further seeds read the data outside the guarantee and are not charged to the ledger. "
            "Their scores go to evaluation/, which must not leave.",
            file=sys.stderr,
        )


def check_splits(source: Source, graph: Graph, seeds: int) -> None:
    """Refuse a graph of which one of the splits cannot be scored."""
    from sfumato.evaluation.scores import check_scorable

    for seed in range(seeds):
        check_scorable(source.with_roles(graph, seed))


def repeat(
    plan: Plan,
    source: Source,
    graph: Graph,
    seeds: int,
    report: Progress | None,
    first: Fitted | None = None,
    seconds: float = 0.0,
) -> Outcome:
    """Score the first fit (made here unless given) and further ones, each on its own split."""
    from sfumato.evaluation.scores import Summary, score

    scores = []
    for seed in range(seeds):
        split = source.with_roles(graph, seed)
        fitted = first if seed == 0 and first is not None else plan.fit(split, seed=seed, progress=report)
        first = first or fitted
        scores.append(score(fitted, split))
    assert first is not None
    accuracy, macro_f1 = (Summary.of(values) for values in zip(*scores, strict=True))
    return Outcome(first, accuracy, macro_f1, seconds)


def run_controls(plan: Plan, source: Source, graph: Graph, seeds: int, report: Progress | None) -> dict[str, Outcome]:
    """Fit and score each control; what has no proof under the unit, or is the method itself, is left out."""
    outcomes = {}
    for name, method, unit, budget in controls(plan):
        named = None if report is None else _prefixed(report, name.replace("_", " "))
        try:
            control: Plan = method.calibrate(budget, unit, source.with_roles(graph, 0).public_facts(unit))
        except UnsupportedUnitError:
            continue
        except InputError as error:
            print(f"Note: {name.replace('_', ' ')} is left out. {error}", file=sys.stderr)
            continue
        if not repeats(control, plan):
            outcomes[name] = repeat(control, source, graph, seeds, named)
    return outcomes


def _prefixed(report: Progress, label: str) -> Progress:
    return lambda stage, done, total: report(f"{label}: {stage}", done, total)


def summarize(unit: str, plan: Plan, outcome: Outcome, beside: dict[str, Outcome]) -> dict[str, Any]:
    """What metrics.json holds of scores and privacy."""
    from sfumato.evaluation.scores import graph_gain_recovered

    low, high = (beside[name].accuracy.mean if name in beside else None for name in ("floor", "ceiling"))
    shares = plan.method.shares
    low = None if "epsilon_y" in shares else low  # features that tell nothing still have the graph
    return {
        "method": plan.method.name,
        "unit": unit,
        "task": "node",
        "test_accuracy": outcome.accuracy.to_dict(),
        "test_macro_f1": outcome.macro_f1.to_dict(),
        **dict.fromkeys(("floor", "label_control", "ceiling")),
        **{name: beside[name].accuracy.to_dict() if name in beside else None for name in titles(plan)},
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


def show(result: dict[str, Any], outcome: Outcome, beside: dict[str, Outcome], out: Path) -> None:
    """Print a table of scores, and the certificate."""
    from rich import box
    from rich.table import Table

    seeds = result["test_accuracy"]["seeds"]
    table = Table("", "test accuracy", "macro-F1", box=box.SIMPLE_HEAD, title=f"{result['dataset']} ({seeds} seed(s))")
    shown = {name: (title, beside.get(name)) for name, title in titles(outcome.first.plan).items()}
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
