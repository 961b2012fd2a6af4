"""`sfumato daily`: a history of edges, released day by day under one budget, and models of it."""

from __future__ import annotations

import json
import sys
from functools import partial
from pathlib import Path
from typing import Any

import typer

from sfumato._optional import LIGHT, check_installed
from sfumato.cli._output import stage_bars, tell
from sfumato.cli._table import JSON
from sfumato.errors import InputError

app = typer.Typer(
    help="Learn day by day from edges that come and go, under one budget for a whole history.",
    no_args_is_help=True,
    rich_markup_mode=None,
)
FOLDER = typer.Argument(..., help="The folder of the history, which `sfumato daily init` made.")
DAYS = typer.Option(365, "--days", help="How many days the history has.")
REFRESHES = typer.Option(
    12, "--refreshes", help="How often every node's counts are released in that time, each on its own public days."
)
NOISE = typer.Option(
    "auto", "--noise", help="increments, sums, or auto: the form that leaves less noise on the last day."
)
DELETIONS = typer.Option(
    False, "--count-deletions", help="Take an edge that goes off the counts, for more noise; else it stays counted."
)

_TOTAL = "what all releases in it may spend together of"


@app.command()
def init(
    nodes: Path = typer.Option(..., "--nodes", help="The table of all nodes, as CSV, with their labels."),
    label: str = typer.Option(..., "--label", help="The column of the classes, which are public."),
    schema: Path | None = typer.Option(None, "--schema", help="What is public about the columns (schema.toml)."),
    directed: bool = typer.Option(False, "--directed", help="An edge is one arc, from its first end to its second."),
    days: int = DAYS,
    refreshes: int = REFRESHES,
    noise: str = NOISE,
    deletions: bool = DELETIONS,
    epsilon: float = typer.Option(..., "--epsilon", help="The most that the whole history may cost an edge."),
    delta: float = typer.Option(..., "--delta", help="The failure probability, such as 1e-6."),
    out: Path = typer.Option(..., "--out", help="The folder of the history, new or empty."),
    ledger: Path | None = typer.Option(
        None, "--ledger", help="The ledger of a population, to which the whole claim is charged, once."
    ),
    total_epsilon: float | None = typer.Option(None, "--total-epsilon", help=f"Of a new ledger: {_TOTAL} epsilon."),
    total_delta: float | None = typer.Option(
        None, "--total-delta", help=f"Of a new ledger: {_TOTAL} delta (default: ten times that of the history)."
    ),
    composition: str | None = typer.Option(
        None, "--composition", help="Of a new ledger: how claims add up, basic (default) or gdp."
    ),
    population: str | None = typer.Option(
        None, "--population", help="Of a new ledger: the name of the people, who may join, leave and change."
    ),
    as_json: bool = JSON,
) -> None:
    """Start a history: declare nodes, days and budget, and fix the noise before any edge is there.

    With --ledger its claim is charged now, once for all days and all models. Every day is marked there before it is drawn, so
    that a copy of the folder cannot go on with other edges.
    """
    check_installed(*LIGHT)
    from sfumato.central._daily import DailyMessages
    from sfumato.evaluation._daily import Daily
    from sfumato.evaluation._source import Source
    from sfumato.privacy.budget import Budget
    from sfumato.record._dataset_ledger import DatasetLedger

    method = DailyMessages(days=days, refreshes=refreshes, noise=noise, deletions=deletions)
    source = Source(
        nodes=str(nodes), label=label, schema=None if schema is None else str(schema), directed=directed, labeled=True
    )
    totals = (total_epsilon, total_delta, composition, population)
    if ledger is None and any(one is not None for one in totals):
        raise InputError(
            "Expected --ledger with --total-epsilon, --total-delta, --composition or --population. Add it."
        )
    shared = None if ledger is None else DatasetLedger(ledger, *totals)
    daily = Daily.begin(out, source, method, Budget(epsilon, delta), directed=directed, ledger=shared)
    plan = daily.plan()
    tell(plan.caveats)
    if not as_json:
        print(plan, *plan.method.limits, sep="\n", file=sys.stderr)
    _show(as_json, {"noise": daily.method.noise, "epsilon": plan.epsilon, "delta": plan.delta, "out": str(out)})


@app.command()
def add(
    folder: Path = FOLDER,
    edges: Path | None = typer.Option(
        None, "--edges", help="The table of the edges that came, two columns; none if none came."
    ),
    removed: Path | None = typer.Option(None, "--removed", help="The table of the edges that went."),
    day: int | None = typer.Option(
        None, "--day", help="The day (default: the next). Days that are left out had no edge."
    ),
    as_json: bool = JSON,
) -> None:
    """Take the edges of a day, and release the rows that are due on it.

    The same day with the same edges again changes nothing: repeat the command if it was stopped. Name the --day of one without
    edges, which is a new day otherwise.
    """
    check_installed(*LIGHT)
    from sfumato.evaluation._daily import Daily
    from sfumato.tables._newcomers import read_edges

    daily = Daily.open(folder)
    came, went = (None if path is None else read_edges(daily.nodes, path) for path in (edges, removed))
    _show(as_json, {"day": daily.add(came, went, day)})


@app.command()
def fit(
    folder: Path = FOLDER,
    out: Path = typer.Option(..., "--out", help="The run folder, new: model, certificate, predictions."),
    seed: int = typer.Option(0, "--seed", help="The public seed of initialization."),
    sign_key: Path | None = typer.Option(None, "--sign-key", help="The private key that signs the run."),
    as_json: bool = JSON,
) -> None:
    """Train a model on what was released until now. It costs nothing more, however often.

    `sfumato predict`, `verify`, `report` and `serve` take the run folder.
    """
    check_installed(*LIGHT)
    from sfumato.evaluation._daily import Daily

    daily = Daily.open(folder)
    with stage_bars(as_json) as progress:
        fitted = daily.save(out, seed=seed, progress=progress, sign_key=sign_key)
    if not as_json:
        print(fitted.certificate.sentence, file=sys.stderr)
    claim = {"epsilon": fitted.certificate.epsilon, "delta": fitted.certificate.delta}
    _show(as_json, {"day": daily.day, **claim, "out": str(out)})


def _show(as_json: bool, values: dict[str, Any]) -> None:
    if as_json:
        typer.echo(json.dumps(values))
        return
    typer.echo(", ".join(f"{name} {value}" for name, value in values.items()))


@app.command()
def rehearse(
    datasets: list[str] = typer.Option(["campus"], "--dataset", help="The name of a data set; several may be given."),
    data_dir: Path | None = typer.Option(
        None,
        "--data-dir",
        envvar="SFUMATO_DATA",
        show_envvar=False,
        help="The folder that holds the files of named data sets (default: the environment variable SFUMATO_DATA).",
    ),
    days: int = DAYS,
    refreshes: int = REFRESHES,
    deletions: bool = typer.Option(
        False, "--count-deletions", help="Also measure rows of every day with deletions counted."
    ),
    gone: float = typer.Option(0.05, "--gone", help="The share of the edges that go again."),
    epsilon: float = typer.Option(2.0, "--epsilon", help="The budget of a whole history."),
    delta: float = typer.Option(1e-6, "--delta", help="The failure probability."),
    seeds: int = typer.Option(1, "--seeds", help="How many splits and orders of edges."),
    as_json: bool = JSON,
) -> None:
    """Measure what a history would be worth: edges of a known graph come in random order, and some go again.

    It prints accuracies of one release without a past, of both schedules, of naive splitting, and without a graph.
    """
    check_installed(*LIGHT)
    from sfumato._validate import check_int, check_real
    from sfumato.central._daily import DailyMessages
    from sfumato.datasets._loading import default_min_class_size, load_dataset
    from sfumato.experiments._daily import Rehearsal
    from sfumato.privacy.budget import Budget

    check_int(low=1, seeds=seeds)
    check_real(low=0, high=1, gone=gone)
    forms = {
        f"staggered, {refreshes} refreshes": DailyMessages(days=days, refreshes=refreshes),
        "every row every day": DailyMessages(days=days, refreshes=days),
    }
    if deletions:
        forms["every row every day, deletions counted"] = DailyMessages(days=days, refreshes=days, deletions=True)
    rehearsal = Rehearsal(days, forms, Budget(epsilon, delta), gone)
    found = {}
    for name in datasets:
        graph = load_dataset(name, data_dir, min_class_size=default_min_class_size(name))
        print(f"{name}:", file=sys.stderr)
        found[name] = rehearsal.table(graph, seeds, partial(print, file=sys.stderr))
    if as_json:
        rows = {name: [[row, day, one.to_dict()] for row, day, one in lines] for name, lines in found.items()}
        typer.echo(json.dumps(rows))
        return
    for name, lines in found.items():
        typer.echo(f"{name}, accuracy on test nodes:")
        for row, day, one in lines:
            typer.echo(f"  {row}, day {day}: {one}")


@app.command()
def audit(
    days: int = DAYS,
    refreshes: int = REFRESHES,
    noise: str = NOISE,
    deletions: bool = DELETIONS,
    epsilon: float = typer.Option(2.0, "--epsilon", help="The budget of a whole history."),
    delta: float = typer.Option(1e-6, "--delta", help="The failure probability."),
    canaries: int = typer.Option(
        20_000, "--canaries", help="How many edges are attacked; about half of them are there."
    ),
    as_json: bool = JSON,
) -> None:
    """Test the claim of a whole history: attack every release of many canary edges that came, and perhaps went.

    It exits with 1 if the claim is refuted.
    """
    check_installed(*LIGHT)
    from sfumato.audit._histories import audit_history
    from sfumato.central._daily import DailyMessages
    from sfumato.privacy.budget import Budget

    method = DailyMessages(days=days, refreshes=refreshes, noise=noise, deletions=deletions)
    found = audit_history(method, Budget(epsilon, delta), canaries=canaries)
    claimed, bound = found.claimed or 0.0, found.epsilon_lower_bound
    if as_json:
        typer.echo(json.dumps(found.to_dict()))
    else:
        said = "REFUTED" if found.flagged else "The audit does not refute it."
        typer.echo(f"Claimed: epsilon {claimed:g}, delta {found.delta:g} for a whole history of one edge. Certified lower bound: "
                   f"{bound:.3g} at a confidence of {100 * found.confidence:g} %. {said}")  # fmt: skip
    if found.flagged:
        raise typer.Exit(1)
