"""`sfumato experiment run --all`: every specification one after another, with the time that is left; and progress by cells."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from sfumato._validate import fail
from sfumato.cli._output import plain_console, tell
from sfumato.errors import DataError

if TYPE_CHECKING:
    from sfumato.experiments._batch import Ended, Left
    from sfumato.experiments._cells import Cell
    from sfumato.experiments._runner import Report
    from sfumato.experiments._spec import Spec


def run(
    results: Path, *, profile: str, data_dir: Path | None, jobs: int, seeds: int | None, only_hours: bool = False
) -> None:
    """Run every specification of the catalogue, the quickest first, and say how each ended and how long it took."""
    from sfumato.experiments._batch import quickest_first, run_all, what_is_left
    from sfumato.experiments._runner import why_absent
    from sfumato.experiments._sources import read_sources
    from sfumato.experiments._spec import find

    names = dict.fromkeys(name for document in read_sources() for name in document.specs)
    specs = quickest_first((find(name).on(seeds=seeds) for name in names), profile)
    if profile == "quick":
        specs = [spec.shrunk() for spec in specs]
    if data_dir is None and all(why_absent(spec.dataset, None) for spec in specs):
        raise fail("--data-dir", None, "to name the folder of the data sets", "Every specification reads one of them.")
    left = what_is_left(specs, results, profile=profile, data_dir=data_dir)
    if only_hours:
        typer.echo("\n".join([*map(_left, left), _forecast(left, profile)]))
        return
    print(_forecast(left, profile), file=sys.stderr)
    options: dict[str, Any] = {"profile": profile, "data_dir": data_dir, "jobs": jobs}
    cells = {one.spec: one.cells for one in left}
    ended: list[Ended] = []

    @contextmanager
    def progress(spec: Spec) -> Iterator[Report]:
        print(f"== {len(ended) + 1} of {len(specs)}: {spec.name}; cells to run: {cells[spec.name]:,}", file=sys.stderr)
        with cell_progress(len(spec.cells(profile))) as report:
            yield report

    for one in run_all(specs, results, progress=progress, **options):
        ended.append(one)
        typer.echo(_ended(one))
    tell(dict.fromkeys(caveat for one in ended if one.outcome for caveat in one.outcome.caveats))
    typer.echo(_total(ended, len(specs)))
    states = {one.state for one in ended}
    if "stopped" in states:
        print("Stopped. Run the same command again to go on.", file=sys.stderr)
        raise typer.Exit(130)
    if "failed" in states:
        raise typer.Exit(1)
    if states == {"skipped"}:
        raise DataError("Nothing could be run: every specification was skipped, for the reasons above.")
    print(f"`sfumato experiment report NAME` writes the page of each from {results}.", file=sys.stderr)


def _forecast(left: Sequence[Left], profile: str) -> str:
    cells, timed = sum(one.cells for one in left), sum(one.timed for one in left)
    absent = sum(not one.cells for one in left)
    words = f"{cells:,} cells of the {profile} profile are left"
    words += f"; {absent} of {len(left)} specifications have none, or no data" if absent else ""
    if not timed:
        return f"{words}. No cell like them was timed yet."
    hours = sum(one.seconds for one in left) / 3600
    rest = "all of them" if timed == cells else f"{timed:,} of them; the others were never timed"
    return f"{words}. About {hours:.1f} hours in one process, from earlier cells, for {rest}."


def _left(one: Left) -> str:
    hours = f"about {one.seconds / 3600:6.1f} hours" if one.timed or not one.cells else "hours not known"
    return f"{one.spec:34} {one.cells:6,} cells left, {one.timed:6,} timed, {hours}"


def _ended(one: Ended) -> str:
    cells = "" if one.outcome is None else f"{one.outcome.before + one.outcome.done} of {one.outcome.total} cells"
    why = f": {one.why}" if one.why else ""
    return f"{one.spec:34} {cells:>20} {one.seconds / 60:7.1f} min  {one.state}{why}"


def _total(ended: Sequence[Ended], specs: int) -> str:
    from sfumato.experiments._batch import STATES

    counts = [f"{count} {state}" for state in STATES if (count := sum(one.state == state for one in ended))]
    minutes = sum(one.seconds for one in ended) / 60
    failed = [one.spec for one in ended if one.state == "failed"]
    names = f" Failed: {', '.join(failed)}." if failed else ""
    return f"{len(ended)} of {specs} specifications in {minutes:.1f} minutes: {', '.join(counts)}.{names}"


@contextmanager
def cell_progress(total: int) -> Iterator[Report]:
    """Show a bar with the time left on standard error, or one line for each cell if nobody watches. No score is shown."""
    start = time.perf_counter()
    if not sys.stderr.isatty():

        def log(cell: Cell, row: dict[str, Any], number: int, todo: int) -> None:
            left = (time.perf_counter() - start) / number * (todo - number)
            took = f"{row['seconds']['total']:.1f} s" if row["status"] == "done" else "skipped"
            print(f"[{total - todo + number}/{total}] {cell} ({took}; about {left / 60:.1f} min left)", file=sys.stderr)

        yield log
        return
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (
        TextColumn("{task.description:40}", markup=False),
        BarColumn(),
        MofNCompleteColumn(),
        TimeRemainingColumn(),
        TextColumn("left"),
    )
    with Progress(*columns, console=plain_console(stderr=True)) as bars:
        task = bars.add_task("starting", total=total)

        def show(cell: Cell, _row: dict[str, Any], number: int, todo: int) -> None:
            if number == 1:  # cells of an earlier run tell nothing about the time left
                bars.reset(task, completed=total - todo, total=total)
            bars.update(task, description=str(cell)[:40], completed=total - todo + number, refresh=True)

        yield show
