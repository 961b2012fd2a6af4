"""`sfumato ledger`: what the runs on a data set have spent, and what is left."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from sfumato.cli._output import plain_console
from sfumato.cli._table import JSON

if TYPE_CHECKING:
    from sfumato.record._claims import Account

app = typer.Typer(help="Show what the runs on a data set have spent.", no_args_is_help=True, rich_markup_mode=None)


@app.callback()
def _root() -> None:
    """Show what the runs on a data set have spent."""


@app.command()
def show(
    file: Path = typer.Argument(..., help="The ledger file of a data set, as `train --ledger` writes it."),
    as_json: bool = JSON,
) -> None:
    """List the runs in a ledger, their total claim and what is left.

    A claim is "reserved" until the moment before noise is drawn under it, and "spent" from then on. Both count in full,
    forever. In a ledger of format 1, which did not record this, the state is "unknown". Exit code 1 if the file is damaged.
    """
    from sfumato.record._dataset_ledger import read_account

    account = read_account(file)
    if as_json:
        typer.echo(json.dumps(_values(account)))
    else:
        _print(account, file)
    raise typer.Exit(1 if account.problem else 0)


@app.command()
def declare(
    file: Path = typer.Argument(..., help="The ledger file of a data set, of the node ids of its first run."),
    name: str = typer.Argument(..., help="The name of the population, such as 'customers'."),
) -> None:
    """Make a ledger of node ids one of a population, in which people join, leave and change.

    What was charged stays charged. From then on a run may read any snapshot, and charges everybody who is or ever was in.
    """
    from sfumato.record._dataset_ledger import DatasetLedger, read_account

    read_account(file)
    DatasetLedger(file).declare(name)
    typer.echo(f"{file} is the ledger of the population {name!r}.")


def _values(account: Account) -> dict[str, Any]:
    return {
        "header": account.header,
        "runs": [{**asdict(claim), "state": account.state(claim)} for claim in account.claims],
        "arrivals": [
            {"extends": one.extends, "nodes": len(one.nodes), **asdict(claim)} for one, claim in account.arrivals
        ],
        "spent": {name: float(amount) for name, amount in account.spent().items()},
        "left": account.left(),
        "valid": account.problem is None,
        "problems": [account.problem] if account.problem else [],
    }


def _print(account: Account, file: Path) -> None:
    from rich import box
    from rich.table import Table

    from sfumato.privacy._filters import show as shown

    header, console = account.header, plain_console()
    unit, dataset = header["unit"], header["dataset"]
    kind = "Population" if "population" in dataset else "Data set"
    console.print(
        f"{kind} {dataset['name']}, unit {unit['name']} ({unit['relation']}), at most epsilon "
        f"{header['total_epsilon']:.12g} and delta {header['total_delta']:.12g} together; rule {header['composition']}.",
        highlight=False,
        soft_wrap=True,
    )
    table = Table("", "run", "method", "state", box=box.SIMPLE_HEAD)
    for column in ("epsilon", "delta", "mu"):
        table.add_column(column, justify="right")
    for number, claim in enumerate(account.claims, start=1):
        mu = "-" if claim.mu is None else f"{claim.mu:.6g}"
        names = (str(number), claim.run[:8], claim.method, account.state(claim))
        table.add_row(*names, f"{claim.epsilon:.9g}", f"{claim.delta:.6g}", mu)
    console.print(table)
    if account.arrivals:
        count = sum(len(one.nodes) for one, _ in account.arrivals)
        console.print(
            f"{count:,} nodes arrived after these runs, in {len(account.arrivals)} releases: each edge pays once, so the claims "
            "above cover them, and 0 more is spent.",
            highlight=False,
            soft_wrap=True,
        )
    total, left = account.total(), account.left()
    for name, spent in account.spent().items():
        console.print(
            f"{name}: spent {shown(spent)} of {total[name]}, left {left[name]}.", highlight=False, soft_wrap=True
        )
    console.print(
        f"DAMAGED: {account.problem}. What follows is not counted, and runs are refused."
        if account.problem
        else f"The chain of {file.name} is whole.",
        highlight=False,
        soft_wrap=True,
    )
