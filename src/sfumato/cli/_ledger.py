"""`sfumato ledger`: what the runs on a data set or a population have spent, what is left, and whether the file is whole."""

from __future__ import annotations

import json
from dataclasses import asdict
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from sfumato.cli._output import plain_console
from sfumato.cli._table import JSON
from sfumato.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from sfumato.record._claims import Account, Claim

app = typer.Typer(
    help="Show what the runs on a data set or a population have spent.", no_args_is_help=True, rich_markup_mode=None
)
FILE = typer.Argument(..., help="The ledger file of a data set or a population, as `train --ledger` writes it.")
RECOVERY = (
    "Stop all runs, and put FILE and FILE.head back together from their newest backup. Then `sfumato verify FILE --runs DIR` "
    "names every release below DIR that the ledger lacks: it is spent too. docs/pitfalls.md says what to do without a backup."
)


@app.callback()
def _root() -> None:
    """Show what the runs on a data set or a population have spent."""


@app.command()
def show(file: Path = FILE, as_json: bool = JSON) -> None:
    """List the runs in a ledger, their total claim and what is left.

    A claim is "reserved" until the moment before noise is drawn under it, and "spent" from then on. Both count in full,
    forever. In a ledger of format 1, which did not record this, the state is "unknown". What is spent is rounded up, and
    what is left is rounded down. In a ledger of windows each window has its own sums. Of a damaged file no sum is shown; exit
    code 1.
    """
    from sfumato.record._reading import read_account, same_people

    account = read_account(file)
    if as_json:
        typer.echo(json.dumps({**_values(account), "warnings": same_people(file)}))
    elif account.problem:
        _tell_damage(account, file)
    else:
        _print(account)
        _lines([f"The chain of {file.name} is whole.", *(f"Warning: {text}" for text in same_people(file))])
    raise typer.Exit(1 if account.problem else 0)


@app.command()
def check(file: Path = FILE, as_json: bool = JSON) -> None:
    """Check that a ledger is whole: every line, its chain, its head, and the sums that the next charge builds on.

    `sfumato verify FILE` also derives every claim again from the release of its run. Exit code 1 if the file is damaged, with
    the line and what to do.
    """
    from sfumato.record._ledger_file import read_chain
    from sfumato.record._reading import read_account, same_people

    account, warned = read_account(file), same_people(file)
    if as_json:
        problems = [account.problem] if account.problem else []
        typer.echo(json.dumps({"valid": not problems, "problems": problems, "warnings": warned}))
    elif account.problem:
        _tell_damage(account, file)
    else:
        lines, runs = len(read_chain(file).entries), len(account.claims)
        _lines(
            [
                f"{file.name} is whole: {lines} lines, {runs} run{'s' * (runs != 1)}. Its head and its sums agree with them."
            ]
        )
        _lines([f"Warning: {text}" for text in warned])
    raise typer.Exit(1 if account.problem else 0)


@app.command()
def plan(
    file: Path = FILE,
    runs: int | None = typer.Option(
        None, "--runs", help="How many more runs there will be, if the ledger has no schedule."
    ),
    window: str | None = typer.Option(
        None, "--window", help="Of a ledger of windows: the one of the next runs, such as date=2026-03."
    ),
    as_json: bool = JSON,
) -> None:
    """Print what the next runs may spend: what the schedule of the ledger has for them, or equal shares of what is left."""
    from sfumato._validate import check_int
    from sfumato.privacy._schedules import left_for
    from sfumato.record._reading import read_account
    from sfumato.record._windows import charged

    account = read_account(file)
    if account.problem:
        _tell_damage(account, file)
        raise typer.Exit(1)
    if window is not None:
        account = account.within(charged(account.header, window, file))
    schedule = account.header.get("schedule")
    if (runs is None) == (schedule is None):
        word = "no --runs, since the ledger has a schedule" if schedule else "--runs, since the ledger has no schedule"
        raise InputError(f"Expected {word}. {'Drop it' if schedule else 'Name how many there will be'}.")
    if schedule:
        later = list(enumerate(schedule["epsilons"], start=1))[account.runs :]
        told: dict[str, Any] = {"runs": [{"run": n, "epsilon": e} for n, e in later], "delta": schedule["delta"]}
        rows = [f"  run {n}: epsilon {e:g}, delta {schedule['delta']:.3g}" for n, e in later]
        words = [f"{account.runs} of {len(schedule['epsilons'])} runs are charged. The next may spend at most:", *rows]
    else:
        told = left_for(account.left(), check_int(low=1, runs=runs))
        which = f" of a {account.header['windows']['period']} without a run" if "windows" in account.header else ""
        which = f" of {window}" if window is not None else which
        words = [
            f"Each of {runs} more runs{which} may spend at most {', '.join(f'{k} {v:g}' for k, v in told.items())}."
        ]
    if as_json:
        typer.echo(json.dumps(told))
    else:
        _lines(words)


@app.command()
def declare(
    file: Path = typer.Argument(..., help="The ledger file of a data set, of the node ids of its first run."),
    name: str = typer.Argument(..., help="The name of the population, such as 'customers'."),
) -> None:
    """Make a ledger of node ids one of a population, in which people join, leave and change.

    What was charged stays charged. From then on a run may read any snapshot, and charges everybody who is or ever was in.
    """
    from sfumato.record._dataset_ledger import DatasetLedger
    from sfumato.record._reading import read_account

    read_account(file)
    DatasetLedger(file).declare(name)
    typer.echo(f"{file} is the ledger of the population {name!r}.")


@app.command()
def delete(
    file: Path = typer.Argument(..., help="The ledger file of a population."),
    records: int = typer.Option(
        ..., "--records", help="How many records are deleted, such as 1: their ids are not written."
    ),
    as_json: bool = JSON,
) -> None:
    """Write down that records are deleted, and print what earlier releases can still tell of them.

    This changes no table and no release: leave the records out of the tables of later runs, and train again if the model in
    use shall be one without them.
    """
    from sfumato.record._dataset_ledger import DatasetLedger
    from sfumato.record._population import deletion_words, group_price
    from sfumato.record._reading import read_account

    read_account(file)
    DatasetLedger(file).delete(records)
    account = read_account(file)
    epsilon, delta = account.cost()
    if as_json:
        together = dict(zip(("epsilon", "delta"), group_price(epsilon, delta, records), strict=True))
        typer.echo(json.dumps({"records": records, "one": {"epsilon": epsilon, "delta": delta}, "together": together}))
    else:
        _lines([f"Logged in {file.name}. {deletion_words(records, epsilon, delta)}"])


def _values(account: Account) -> dict[str, Any]:
    sound = account.problem is None
    return {
        "header": account.header,
        "runs": [
            {
                **asdict(claim),
                "state": account.state(claim),
                **_made(account, claim.run),
                **_window(account, claim.run),
                **_through(account, claim),
            }
            for claim in account.claims
        ],
        "arrivals": [
            {"extends": one.extends, "nodes": len(one.nodes), **asdict(claim)} for one, claim in account.arrivals
        ],
        "deletions": [{"records": records, "at": made.at, "by": made.by} for records, made in account.deletions],
        "spent": _floats(_spent(account)) if sound else None,
        "left": _floats(_left(account)) if sound else None,
        **({"windows": _by_window(account)} if "windows" in account.header and sound else {}),
        "valid": sound,
        "problems": [account.problem] if account.problem else [],
    }


def _made(account: Account, run: str) -> dict[str, Any]:
    from sfumato.record._claims import Made

    made = account.made.get(run, Made())
    return {"at": made.at, "by": made.by, "folder": made.folder}


def _through(account: Account, claim: Claim) -> dict[str, int]:
    """The day through which a history of edges was drawn."""
    day = account.drawn_through(claim)
    return {} if day is None else {"drawn_through": day}


def _window(account: Account, run: str) -> dict[str, str]:
    return {"window": account.windows[run]} if run in account.windows else {}


def _by_window(account: Account) -> dict[str, dict[str, dict[str, float]]]:
    """What each window with a run has spent and left."""
    found = {window: account.within(window) for window in sorted({*account.windows.values()})}
    return {window: {"spent": _floats(_spent(own)), "left": _floats(_left(own))} for window, own in found.items()}


def _floats(amounts: Mapping[str, str]) -> dict[str, float]:
    return {name: float(amount) for name, amount in amounts.items()}


def _spent(account: Account) -> Mapping[str, str]:
    """What all runs have spent, as it is printed: never below the truth."""
    from sfumato.privacy._filters import show as shown

    return {name: shown(amount) for name, amount in account.spent().items()}


def _left(account: Account) -> Mapping[str, str]:
    """What is left, as it is printed: never above the truth."""
    from sfumato.privacy._filters import show as shown

    return {name: shown(Fraction(repr(amount)), up=False) for name, amount in account.left().items()}


def _tell_damage(account: Account, file: Path) -> None:
    """Say what is wrong and what to do, and no sum, since what follows the damage is not counted."""
    runs = len(account.claims)
    whole = f"Of what stands before it, {runs} run{'s' * (runs != 1)} can be read; the rest is spent as well."
    steps = RECOVERY.replace("FILE", file.name)
    _lines([f"DAMAGED: {account.problem}. {whole} Runs are refused, and nothing is charged.", f"What to do: {steps}"])


def _lines(lines: list[str]) -> None:
    console = plain_console()
    for line in lines:
        console.print(line, highlight=False, soft_wrap=True)


def _print(account: Account) -> None:
    from rich import box
    from rich.table import Table

    from sfumato.record._shown import delta_up, round_up

    header, console = account.header, plain_console()
    unit, dataset = header["unit"], header["dataset"]
    kind = "Population" if "population" in dataset else "Data set"
    _lines(
        [
            f"{kind} {dataset['name']}, unit {unit['name']} ({unit['relation']}), at most epsilon "
            f"{header['total_epsilon']:.12g} and delta {header['total_delta']:.12g} together; rule {header['composition']}."
        ]
    )
    windows = header.get("windows")
    if windows is not None:
        from sfumato.privacy.units import class_named

        period = windows["period"]
        _lines(
            [
                f"Each {period} by column {windows['column']} has that for itself: a record is "
                f"{class_named(unit['name']).in_window} in one {period}."
            ]
        )
    table = Table("", "date", "run", "by", "method", "state", box=box.SIMPLE_HEAD)
    if windows is not None:
        table.add_column("window", no_wrap=True)
    for column in ("epsilon", "delta", "mu"):
        table.add_column(column, justify="right", no_wrap=True)
    for number, claim in enumerate(account.claims, start=1):
        mu = "-" if claim.mu is None else f"{claim.mu:.6g}"
        made = _made(account, claim.run)
        where = (str(number), (made["at"] or "-")[:10], made["folder"] or claim.run[:8], made["by"] or "-")
        what = (claim.method, account.state(claim), *_window(account, claim.run).values())
        table.add_row(*where, *what, round_up(claim.epsilon), delta_up(claim.delta), mu)
    console.print(table)
    for number, claim in enumerate(account.claims, start=1):
        day = account.drawn_through(claim)
        if day is not None:
            _lines(
                [
                    f"Run {number} is a history of edges, drawn through day {day}: it and every model of it cost this once."
                ]
            )
    if account.arrivals:
        count = sum(len(one.nodes) for one, _ in account.arrivals)
        _lines(
            [
                f"{count:,} nodes arrived after these runs, in {len(account.arrivals)} releases: each edge pays once, so the "
                "claims above cover them, and 0 more is spent."
            ]
        )
    if account.deletions:
        count, last = sum(records for records, _ in account.deletions), account.deletions[-1][1].at or "-"
        _lines([f"{count:,} records were deleted, in {len(account.deletions)} requests, the last on {last[:10]}."])
    total = account.total()
    for window in sorted({*account.windows.values()}) if windows is not None else (None,):
        own, of = account.within(window), f"{window}, " if window else ""
        left = _left(own)
        _lines(
            [f"{of}{name}: spent {spent} of {total[name]}, left {left[name]}." for name, spent in _spent(own).items()]
        )
