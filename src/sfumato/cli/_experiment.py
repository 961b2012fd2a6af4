"""`sfumato experiment`: run published tables and figures, which are files, and show our numbers beside the published ones."""

from __future__ import annotations

import sys
from contextlib import nullcontext
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from sfumato._optional import TRAIN, check_installed
from sfumato._validate import fail
from sfumato.cli import _every as every
from sfumato.cli._engine import running
from sfumato.cli._every import cell_progress
from sfumato.cli._experiment_list import list_sources
from sfumato.cli._options import of
from sfumato.cli._output import plain_console, tell
from sfumato.errors import DataError, InputError
from sfumato.evaluation._kept import write_page

if TYPE_CHECKING:
    from sfumato.experiments._cells import Row
    from sfumato.experiments._results import Line
    from sfumato.experiments._runner import Outcome
    from sfumato.experiments._spec import Spec

app = typer.Typer(help="Reproduce published tables and figures.", no_args_is_help=True, rich_markup_mode=None)
NAME = typer.Argument(..., help="A name that `experiment list` shows, or the file of a specification (.toml).")
RESULTS = typer.Option(
    Path("runs/experiments"), "--results", help="The folder that holds the results of all experiments."
)
DATASET = typer.Option(
    None,
    "--dataset",
    help="Use this data set instead of the one in the specification; `graph:STORE` is a stored graph in the folder STORE.",
)


@app.callback()
def _root() -> None:
    """Reproduce published tables and figures."""


app.command("list")(list_sources)


@app.command("run")
def run_spec(
    name: str | None = typer.Argument(
        None, help="A name that `experiment list` shows, or the file of a specification (.toml); or else --all."
    ),
    all_specs: bool = typer.Option(
        False, "--all", help="Run every specification that `experiment list` shows, the quickest first."
    ),
    quick: bool = typer.Option(False, "--quick", help="Run a few seeds and budgets only, which takes minutes."),
    results: Path = RESULTS,
    data_dir: Path | None = of("data_dir"),
    dataset: str | None = DATASET,
    jobs: int = typer.Option(
        1, "--jobs", help="How many processes to run at once. If there are several, each uses a single thread."
    ),
    engine: str = of("engine"),
    ray_address: str | None = of("ray_address"),
    seeds: int | None = typer.Option(
        None, "--seeds", help="How many seeds to run, each with its own split (default: as the specification says)."
    ),
    hours: bool = typer.Option(
        False,
        "--hours",
        help="With --all: say how many hours are left, from the cells that were timed, and run nothing.",
    ),
) -> None:
    """Run the cells of an experiment, or of all of them, that are not finished yet.

    You can stop it at any time: the same command goes on where it stopped. Exit code 2 if nothing could be run, 130 after Ctrl-C.
    With --all, a specification that cannot be run does not stop the others; exit code 1 if one failed.
    """
    check_installed(*TRAIN)
    from sfumato.experiments._spec import find

    profile = "quick" if quick else "full"
    if (name is None) != all_specs:
        given = f"{name!r} and --all" if all_specs else "neither"
        raise InputError(f"Expected a name that `experiment list` shows, or --all, got {given}. Give one of them.")
    if all_specs:
        if dataset is not None:
            raise fail("dataset", dataset, "to be left out with --all", "Every specification has its own.")
        with nullcontext() if hours else running(engine, ray_address):
            every.run(results, profile=profile, data_dir=data_dir, jobs=jobs, seeds=seeds, only_hours=hours)
        return
    if hours:
        raise fail("--hours", True, "to stand beside --all")
    from sfumato.experiments._results import read, summarize
    from sfumato.experiments._runner import run

    spec = find(str(name)).on(dataset, seeds)
    spec = spec.shrunk() if quick else spec
    with running(engine, ray_address), cell_progress(len(spec.cells(profile))) as report:
        outcome = run(spec, results, profile=profile, data_dir=data_dir, jobs=jobs, report=report)
    tell(outcome.caveats)
    if outcome.before + outcome.done:
        _show(spec, summarize(read(outcome.path), spec))
    _close(outcome)


@app.command("report")
def report_spec(
    name: str = NAME,
    results: Path = RESULTS,
    dataset: str | None = DATASET,
    out: Path | None = typer.Option(
        None,
        "--out",
        help="The page to write: FILE.html, or FILE.md with its figures beside it (default: report.html beside the results). "
        "FILE.jsonl records the numbers alone, in a file that may hold those of other experiments.",
    ),
) -> None:
    """Write one page about the results of an experiment.

    It shows our numbers beside the published ones, curves, costs and privacy statements.
    """
    check_installed(*TRAIN, "matplotlib", "jinja2")
    from sfumato.experiments._results import belonging, read
    from sfumato.experiments._spec import find

    spec = find(name).on(dataset)
    out = out or results / spec.name / "report.html"
    if out.suffix.lower() not in (".html", ".md", ".jsonl"):
        raise fail("out", str(out), "to end in .html, .md or .jsonl")
    found = read(results / spec.name)
    rows = belonging(found, spec)
    if not rows:
        spec = spec.shrunk()
        rows = belonging(found, spec)
    if not rows:
        raise DataError(
            f"Expected results of {spec.name} as it is now, on {spec.dataset}, in {str(results / spec.name)!r}, got "
            f"{len(found)} of other settings or data sets. Run it again, or go back to what was run."
        )
    today = datetime.now(UTC).date().isoformat()
    if out.suffix.lower() == ".jsonl":
        from sfumato.experiments._measured import Measured, recorded_text

        files = {out.name: recorded_text(out, spec, Measured.of(spec, rows, today))}
    else:
        files = _pages(spec, rows, out, today)
    for file, text in files.items():
        write_page(out.with_name(file), text)
    typer.echo(str(out))


def _pages(spec: Spec, rows: list[Row], out: Path, today: str) -> dict[str, str]:
    from sfumato.report import experiment_figures, experiment_markdown, experiment_page

    if out.suffix.lower() == ".html":
        return {out.name: experiment_page(spec, rows, date=today)}
    return {**experiment_figures(spec, rows), out.name: experiment_markdown(spec, rows, date=today)}


def _close(outcome: Outcome) -> None:
    skipped = outcome.total - outcome.before - outcome.done
    kept = f"{outcome.before + outcome.done} of {outcome.total} cells are in {outcome.path}"
    if skipped == outcome.total and not outcome.interrupted:
        raise DataError(f"Nothing could be run: {skipped} cells skipped. {' '.join(outcome.reasons)}")
    for reason in outcome.reasons:
        print(f"Skipped: {reason}", file=sys.stderr)
    if outcome.interrupted:
        print(f"Stopped: {kept}. Nothing was charged. Run the same command again to go on.", file=sys.stderr)
        raise typer.Exit(130)
    print(f"{kept[0].upper()}{kept[1:]}; {skipped} skipped.", file=sys.stderr)


def _show(spec: Spec, lines: tuple[Line, ...]) -> None:
    from rich import box
    from rich.table import Table

    table = Table("", box=box.SIMPLE_HEAD, title=f"{spec.title}: test {spec.measure}, %, on {spec.dataset}")
    for column in ("epsilon", *((spec.axis,) if spec.axis != "epsilon" else ()), "ours", "seeds", "published"):
        table.add_column(column, justify="right")
    for line in lines:
        interval = "" if line.low is None or line.high is None else f" [{100 * line.low:.1f}, {100 * line.high:.1f}]"
        epsilon = "-" if line.epsilon is None else f"{line.epsilon:g}"
        at = () if spec.axis == "epsilon" else ("-" if line.at is None else str(line.at),)
        published = "-" if line.published is None else f"{line.published.value:g}"
        table.add_row(line.label, epsilon, *at, f"{100 * line.mean:.1f}{interval}", str(line.seeds), published)
    console = plain_console()
    console.print(table)
    if spec.stands_in_for:
        console.print(f"Published on {spec.stands_in_for}, which {spec.dataset} stands in for.", soft_wrap=True)
    read = "features in the clear in rows without privacy" if spec.links else "true labels"
    console.print(f"These scores read {read}: they are not covered by the guarantee.", soft_wrap=True)
