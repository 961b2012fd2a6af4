"""`sfumato collect estimate`: what the reports say before anything is trained."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from sfumato._files import whole_file
from sfumato._validate import fail
from sfumato.cli._output import plain_console
from sfumato.cli._table import JSON
from sfumato.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sfumato.collect._central import Privacy
    from sfumato.collect._estimate import Answer, Answers
    from sfumato.collect.two._estimate import OpenedAnswers
    from sfumato.collect.two._files import OpenedFile

    Told = tuple[Answers | OpenedAnswers, list[str]]

_OUTSIDE = "Estimates have no bias, so one may lie outside what is possible; intervals are cut there."
_COVERS = (
    "An interval holds the true share or mean of the users who reported in about 95 of 100 repetitions with fresh noise. It says "
    f"nothing of users who did not report. Each stands alone: of twenty, one is expected to miss. {_OUTSIDE}"
)
_NOT_COUNTED = {
    "first_alone": "reported to the first server alone",
    "second_alone": "reported to the second server alone",
    "unlike": "reported to both, and not the same",
    "failed": "sent what is not one class",
    "few": "were in groups with too few reports, which stayed shut",
}
"""Why reports do not count."""
_ALIKE = "The number of all links takes users who did not report for users like the others."


def _costs(privacy: Privacy) -> Iterator[str]:
    """What a report cost: locally first, and centrally where that is claimed."""
    from sfumato.collect._statement import rounded

    approximate = f" and delta {rounded(privacy.delta, 3)}" if privacy.delta else ""
    yield f"A report cost its user epsilon {rounded(privacy.epsilon)}{approximate} against everybody, the server too."
    if privacy.central is None:
        yield privacy.why
        return
    central = privacy.central
    yield (
        f"Among {central.honest:,} honest reports of {central.honest + central.dishonest:,} it cost epsilon "
        f"{rounded(central.epsilon, 3)} with delta {rounded(central.delta, 3)}, in the central model. {central.assumption}"
    )


def estimate(
    collection: str = typer.Argument(
        ...,
        help="A closed file, the store of the server (path or URL), closed or open, or what two servers opened.",
    ),
    plot: Path | None = typer.Option(None, "--plot", help="Also draw the estimates, into this .svg or .png file."),
    delta: float | None = typer.Option(
        None,
        "--delta",
        help="Of an anonymous survey: the delta of the central claim (default: 1e-6, and at most 1 / (10 reports)).",
    ),
    dishonest: int | None = typer.Option(
        None,
        "--dishonest",
        help="Of an anonymous survey: how many reports may be of users who act together, or of nobody (default: half of them).",
    ),
    out: Path | None = typer.Option(
        None, "--out", help="Also write all of it as JSON into this file, for `sfumato verify`."
    ),
    cells: bool = typer.Option(
        False, "--cells", help="Of what two servers opened: also the shares of each group (cell)."
    ),
    as_json: bool = JSON,
) -> None:
    """Estimate class shares, feature means and degrees from the reports alone, with 95 % intervals.

    Nothing is spent: reports are random already, so they may be looked at as often as you like. What a report cost its user
    stands beside the estimates. An anonymous survey is read once it is closed, and has a central epsilon, too, with what it
    assumes. What two servers opened has the noise of both in its intervals.
    """
    from sfumato.collect._reading import read_opened
    from sfumato.report._collection import check_figure, write_figure

    if plot is not None:
        check_figure(plot)
    if out is not None and out.exists():
        raise fail("--out", str(out), "to be a new file", "Name another.")
    opened = read_opened(collection)
    if opened is None:
        found, told = _of_reports(collection, delta, dishonest, cells=cells)
    else:
        found, told = _of_opened(opened, delta, dishonest, cells=cells)
    if out is not None:
        with whole_file(out) as file:
            file.write(json.dumps(found.to_dict(), indent=1).encode() + b"\n")
    if plot is not None:
        write_figure(found, plot)
    if as_json:
        typer.echo(json.dumps(found.to_dict()))
        return
    from rich import box
    from rich.table import Table

    console = plain_console()
    for part, answers in found.answers.items():
        table = Table(part, "", "estimate", "95 % interval", box=box.SIMPLE_HEAD)
        for one in answers:
            table.add_row(one.name, one.kind, *_numbers(one))
        count = found.counts[part]
        console.print(f"{count:,} report{'s' * (count != 1)} to {found.collection}")
        console.print(table)
    table = Table("group", "reports", "label", "estimate", "95 % interval", box=box.SIMPLE_HEAD)
    for cell in getattr(found, "cells", ()):
        for name, *numbers in [(one.name, *_numbers(one)) for one in cell.shares] or [("", "", "")]:
            table.add_row(f"{cell.cell}", f"{cell.reports:,} of {cell.asked:,}", name, *numbers)
    if table.rows:
        console.print(table)
    for line in told:
        console.print(line, soft_wrap=True)
    if plot is not None:
        console.print(f"The figure is in {plot}.", soft_wrap=True)


def _of_reports(collection: str, delta: float | None, dishonest: int | None, *, cells: bool) -> Told:
    """What reports to one server say, and the lines below it."""
    from sfumato.collect._estimate import estimate as estimated
    from sfumato.collect._reading import stream_any

    _refuse("--cells", cells, "to what two servers opened")
    with stream_any(collection) as reports:
        found = estimated(reports, delta=delta, dishonest=dishonest)
    return found, [_COVERS + f" {_ALIKE}" * ("links" in found.answers), *_costs(found.privacy)]


def _of_opened(opened: OpenedFile, delta: float | None, dishonest: int | None, *, cells: bool) -> Told:
    """What two servers opened says, who did not answer, and what a report cost."""
    from sfumato.collect._statement import rounded
    from sfumato.collect.two._estimate import estimate as estimated

    for name, value in (("--delta", delta), ("--dishonest", dishonest)):
        _refuse(name, value is not None, "to an anonymous survey")
    found = estimated(opened, by_cell=cells)
    lost = {_NOT_COUNTED[name]: count for name, count in found.left_out.items() if count}
    reasons = "".join(f"; {count:,} {why}" for why, count in sorted(lost.items()))
    return found, [
        f"Of {found.asked:,} users who were asked, {found.silent:,} did not answer{reasons}. Counts do not tell who they are.",
        "An interval holds the true share of the users who were counted in about 95 of 100 repetitions with fresh noise of both "
        f"servers. It says nothing of the others. Each stands alone: of twenty, one is expected to miss. {_OUTSIDE}",
        f"A report cost its user epsilon {rounded(found.epsilon)} against everybody, and against either server alone; if both "
        "work together nothing is claimed. Both signed these counts; that each drew its noise is their word.",
    ]


def _refuse(name: str, given: bool, of: str) -> None:
    if given:
        raise InputError(f"Expected no {name} here, which belongs {of}. Drop it.")


def _numbers(one: Answer) -> tuple[str, str]:
    """The estimate and its interval, as they are printed."""
    scale, unit = (100.0, " %") if one.kind == "share" else (1.0, "")
    return f"{scale * one.estimate:.4g}{unit}", f"{scale * one.low:.4g} to {scale * one.high:.4g}{unit}"
