"""`sfumato collect simulate`: many devices on one machine, for a test or a demonstration."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

import typer

from sfumato.cli import _collect_two as two
from sfumato.cli._collect_going import going_on, say
from sfumato.cli._output import stage_bars
from sfumato.cli._table import JSON
from sfumato.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sfumato.collect._drawing import Values
    from sfumato.collect._schema import Schema
    from sfumato.collect._simulate import Summary


def simulate(
    context: typer.Context,
    schema: Path = typer.Argument(
        ..., help="The schema of the collection, as `collect init` writes it; of two servers, their agreement."
    ),
    server: str = typer.Option(..., "--server", help="The address of the server."),
    codes: Path = typer.Option(
        ..., "--codes", help="The enrolment codes of all users, as `collect codes` writes them."
    ),
    second_server: str | None = typer.Option(
        None, "--second-server", help="Of two servers: the address of the second."
    ),
    second_codes: Path | None = typer.Option(None, "--second-codes", help="Of two servers: the codes of the second."),
    values: Path | None = typer.Option(
        None, "--values", help="The values of all users as CSV: user, the features, the label (empty: none)."
    ),
    edges: Path | None = typer.Option(
        None, "--edges", help="The links as CSV, one a row, for a schema that asks for links."
    ),
    roster: Path | None = typer.Option(
        None, "--roster", help="The roster that links are reported about: user ids, one a line."
    ),
    batch: int = typer.Option(500, "--batch", min=1, help="How many reports are sent at once; 1 signs each alone."),
    state: Path = typer.Option(
        "devices.sqlite", "--state", help="Keys and reports of the devices, to go on after a stop."
    ),
    ca: Path | None = typer.Option(
        None, "--ca", help="The certificate of the authority of this server, as PEM, if it is a private one."
    ),
    as_json: bool = JSON,
) -> None:
    """Simulate many devices on this machine, for a test or a demonstration. Exit code 1 if the server refuses a report.

    What is no number or no class is refused, as is a second row of a user. A number outside its range counts as the nearest end.
    A simulation that was stopped goes on by the same command. One that ended sends all reports again, as the same bytes.
    """
    from sfumato.collect._checks import check_open
    from sfumato.collect._connection import Connection
    from sfumato.collect._schema import Schema
    from sfumato.collect._simulate import Devices
    from sfumato.collect._simulate_anonymous import AnonymousDevices
    from sfumato.collect._tables import read_codes

    if two.is_agreed(schema):
        two.check_own(context, "edges", "roster", "batch")
        if second_server is None or second_codes is None or values is None:
            raise InputError(
                "Expected --second-server, --second-codes and --values with an agreement of two servers, got fewer. Name them."
            )
        both = two.simulate(schema, (server, second_server), (codes, second_codes), values, state, ca)
        _told(both, as_json, "Both servers have")
    two.check_pair((second_server, second_codes), ("--second-server", "--second-codes"))
    asked, known = Schema.read(schema), read_codes(codes)
    check_open(asked.opens, asked.closes)
    blocks = _blocks(asked, known, values, edges, roster)
    with (
        Connection(server, ca=ca, tell=say) as connection,
        (AnonymousDevices if asked.anonymous else Devices)(state, asked) as devices,
        stage_bars(quiet=False) as progress,
        going_on(f"The devices are in {state}: the same command goes on, with the same bytes."),
    ):
        if isinstance(devices, AnonymousDevices):
            for block in blocks:
                devices.join(block.users)
            devices.enrol(connection, known, progress)
            devices.fetch(connection, progress)
            devices.draw(_blocks(asked, known, values, edges, roster), known, progress)
        else:
            devices.draw(blocks, known, progress)
            devices.enrol(connection, known, progress)
        found = devices.send(connection, batch, progress)
    _told(found, as_json, "The server has")


def _told(found: Summary, as_json: bool, who: str) -> NoReturn:
    reports = "report" + "s" * (found.users != 1)
    verb = "they" if who.startswith("Both") else "it"
    said = f"{who} {found.accepted:,} of {found.users:,} {reports}; {verb} refused {found.refused:,}."
    typer.echo(json.dumps(found.to_dict()) if as_json else said)
    raise typer.Exit(1 if found.refused else 0)


def _blocks(
    asked: Schema, known: dict[str, str], values: Path | None, edges: Path | None, roster: Path | None
) -> Iterator[Values]:
    """Users and their values, read from the table that fits the schema."""
    from sfumato.collect._drawing import outside
    from sfumato.collect._tables import check_roster, read_links, read_roster, read_values

    if asked.links is None:
        if values is None or edges is not None or roster is not None:
            raise InputError("Expected --values alone with a schema that asks for no links. Give one row a user.")
        clipped = 0
        for block in read_values(values, asked):  # all of it before anything is drawn
            strangers = [user for user in block.users if user not in known]
            if strangers:
                raise InputError(f"Expected a code for every user, got none for {strangers[0]!r}. Write codes for all.")
            if asked.features and block.features is not None:
                clipped += outside(asked.features, block.features)
        if clipped:
            numbers = "1 number is" if clipped == 1 else f"{clipped:,} numbers are"
            say(f"{numbers} outside the range and counted as its nearest end.")
        return read_values(values, asked)
    if values is not None or edges is None or roster is None:
        raise InputError("Expected --edges and --roster with a schema that asks for links. Drop --values.")
    places = check_roster(asked.links, read_roster(roster))
    return read_links(edges, places, [user for user in places if user in known])
