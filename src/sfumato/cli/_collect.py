"""`sfumato collect`: write a schema, hand out codes, report from a device, and simulate many devices."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import typer

from sfumato._validate import fail
from sfumato.cli import _asking as asking
from sfumato.cli import _collect_two as two
from sfumato.cli._collect_estimate import estimate
from sfumato.cli._collect_going import going_on, say
from sfumato.cli._collect_init import codes, init
from sfumato.cli._collect_server import close, export, serve
from sfumato.cli._collect_simulate import simulate
from sfumato.cli._collect_users import revoke, users, withdraw
from sfumato.errors import CollectionError, InputError

if TYPE_CHECKING:
    from sfumato.collect._client import Device
    from sfumato.collect._schema import Schema

app = typer.Typer(help="Collect reports that users' devices randomize.", no_args_is_help=True, rich_markup_mode=None)

_ASKED = typer.Argument(
    ...,
    help="The schema: a file, or the address of the server to ask for it. Of two servers, the file of their agreement.",
)
_STATE = typer.Option(..., "--state", help="The folder of this device, with its keys and its lifetime budget.")
_SERVER = typer.Option(None, "--server", help="The address of the server (default: that of the schema).")
_ROSTER = typer.Option(None, "--roster", help="The roster that links are reported about: user ids, one a line.")
_CA = typer.Option(
    None, "--ca", help="The certificate of the authority of this server, as PEM, if it is a private one."
)


@app.callback()
def _root() -> None:
    """Collect reports that users' devices randomize."""


app.command()(init)
app.command()(codes)
app.command()(serve)


@app.command()
def report(
    context: typer.Context,
    schema: str = _ASKED,
    state: Path = _STATE,
    values: Path = typer.Option(
        ..., "--values", help="Your true values, as TOML or JSON; they stay here. Tables: features, label, links."
    ),
    server: str | None = _SERVER,
    code: str | None = typer.Option(None, "--code", help="Your enrolment code, for your first report to this schema."),
    second_server: str | None = typer.Option(
        None, "--second-server", help="Of two servers: the address of the second."
    ),
    second_code: str | None = typer.Option(None, "--second-code", help="Of two servers: your code for the second."),
    user: str | None = typer.Option(None, "--user", help="Your user id, for a new device."),
    cap: float | None = typer.Option(None, "--cap", help="The most epsilon of a new device over its whole life."),
    roster: Path | None = _ROSTER,
    relay: str | None = typer.Option(
        None,
        "--relay",
        help="Of an anonymous survey: the address that passes the report on, so that the server does not see your own. A "
        "report that is drawn already goes there alone; the token is asked for at the server.",
    ),
    schema_sha256: str | None = typer.Option(
        None,
        "--schema-sha256",
        help="The SHA-256 of the schema, from where it is published for everybody; another schema is refused. An anonymous "
        "survey whose schema comes from a server needs it.",
    ),
    later: bool = typer.Option(
        False,
        "--later",
        help="Draw and keep the report, and send nothing of it: the same command sends it at another time.",
    ),
    ca: Path | None = _CA,
    yes: bool = typer.Option(False, "--yes", help="Agree to the statement without being asked."),
) -> None:
    """Randomize your values on this device, once, and send the report.

    The report is kept on disk before it is sent. The same command sends the same bytes for ever, also if a value changed.
    In an anonymous survey the device gets a one-time token under your name, and sends the report with the token alone, over
    another connection. With --later hours lie between both: the command that sends a report which is drawn already makes this one
    request, and names nobody.
    No value is refused, since that would tell of it. A number outside its range counts as the nearest end, and what is no number
    as the middle of the range (for "collision" and "direction" as its low end). An unknown class counts as the first one. Before
    you agree, you alone are shown which of your values count as others.
    """
    from sfumato.collect._connection import Connection
    from sfumato.collect._drawing import oddities
    from sfumato.collect._spending import fetch_token
    from sfumato.collect._tables import read_answers, read_roster
    from sfumato.collect._ticks import Ticks

    if two.is_agreed(schema):
        two.check_own(context, "roster", "relay", "later")
        if server is None or second_server is None:
            raise InputError(
                "Expected --server and --second-server with an agreement of two servers, got not both. Name both."
            )
        _check_sha256(two.read_agreed(Path(schema)).agreement.sha256, schema_sha256)
        device, new = _device(state, user, cap), not _exists(state)
        pair = ((server, second_server), (code, second_code))
        two.report(Path(schema), device, *pair, values, new=new, ca=ca, yes=yes)
        return
    two.check_pair((second_server, second_code), ("--second-server", "--second-code"))
    if relay is not None and "://" in schema:
        raise InputError(
            "Expected the schema as a file with --relay, got an address. To ask the server for it just before the report would "
            "show the address of this device: take the file that the operator publishes."
        )
    asked, address = _asked(schema, server, ca)
    _check_schema(asked, schema_sha256, given="://" in schema)
    if relay is not None and asked.anonymous is None:
        raise InputError("Expected --relay with an anonymous survey, got a report that its device signs. Leave it out.")
    ticks = Ticks()
    own, known = read_answers(values), read_roster(roster) if roster else ()
    with Connection(address, ca=ca, tell=say) as connection:
        new = not _exists(state)
        device = _device(state, user, cap)
        shown = device.statement(asked)
        typer.echo(shown)
        device.check(asked, own, roster=known)
        drawn = device.has_report(asked)
        if not drawn:
            for line in oddities(asked, own, {one: place for place, one in enumerate(known)}):
                typer.echo(line)
            code = code or device.code(asked)
            if code is None:
                raise InputError(
                    "Expected --code with a device that is not enrolled yet, got none. The operator has it."
                )
        if not yes and not asking.agreed("Do you agree?"):
            typer.echo("Nothing was drawn, and nothing was sent.")
            raise typer.Exit(1)
        device = _agreed_upon(device, asked, shown, new=new)
        ticks.wait()
        with going_on("The same command goes on, without another charge."):
            try:
                if code is not None and not (asked.anonymous and drawn):  # then its name would come just before it
                    device.enrol(asked, connection, code)
                if asked.anonymous and not drawn:
                    fetch_token(device.folder, device.user, device.keys, asked, connection)
            except CollectionError as error:
                if not drawn:
                    error.add_note("Nothing was drawn.")
                raise
            device.report(asked, own, roster=known)
            if later:
                typer.echo("Your report is on this device. The same command without --later sends it.")
                return
            if asked.anonymous:
                with Connection(relay or address, ca=ca, tell=say) as apart:
                    again = device.send(asked, apart)
            else:
                again = device.send(asked, connection)
    typer.echo("The server had this report already." if again else "The server has your report.")


@app.command()
def take_back(
    schema: str = _ASKED,
    state: Path = _STATE,
    server: str | None = _SERVER,
    ca: Path | None = _CA,
    yes: bool = asking.YES,
) -> None:
    """Take your report back, before the collection is closed: the server deletes it, and takes none of yours any more.

    No estimate, no export and no training has it from then on. What was computed before is not undone, and backups of the server
    keep it until they are deleted. Its epsilon stays spent: the server has seen the report.
    """
    from sfumato.collect._client import Device
    from sfumato.collect._connection import Connection, RefusedError
    from sfumato.collect._sentences import UNPROVED

    asked, address = _asked(schema, server, ca)
    device = Device.open(state)
    asking.ask_first(
        f"The report of {device.user} to {asked.collection} will be deleted for good. What it cost stays spent.",
        yes=yes,
    )
    with Connection(address, ca=ca, tell=say) as connection:
        try:
            again = device.take_back(asked, connection)
        except RefusedError as error:
            if error.status == 403 and error.said == UNPROVED.format("signature"):
                error.add_note(
                    "This server does not know the keys and the code of this device, and has no report under them."
                )
            raise
        except (KeyboardInterrupt, OSError, CollectionError) as error:
            if device.took_back(asked):
                error.add_note("This device does not send the report any more. The same command asks the server again.")
            raise
    typer.echo("The server had deleted your report already." if again else "The server has deleted your report.")


def _asked(schema: str, server: str | None, ca: Path | None) -> tuple[Schema, str]:
    """The schema, of a file or an address, and the address of its server."""
    from sfumato.collect._connection import Connection
    from sfumato.collect._schema import Schema

    if "://" in schema:
        with Connection(schema, ca=ca, tell=say) as connection:
            return Schema.from_json(connection.get("/schema").content), server or schema
    if server is None:
        raise InputError("Expected --server with a schema file, got none. Give the address of the server.")
    return Schema.read(Path(schema)), server


def _check_schema(asked: Schema, sha256: str | None, *, given: bool) -> None:
    """Refuse another schema than the one of this SHA-256, and an anonymous one that a server has ``given`` if there is none."""
    _check_sha256(asked.sha256, sha256)
    if sha256 is None and given and asked.anonymous:
        raise InputError(
            "Expected --schema-sha256 with an anonymous survey whose schema comes from a server, got none: a server that gives "
            "each device a schema of its own knows whose report is whose. Take it from where it is published for everybody."
        )


def _check_sha256(known: str, given: str | None) -> None:
    """Refuse a schema or an agreement that is not the one of the SHA-256 that a user has."""
    if given is not None and given.strip().lower() != known:
        raise fail(
            "--schema-sha256",
            given,
            "to be that of the schema",
            "Nothing was drawn or sent. If it is the published one, do not answer, and tell others who are asked.",
        )


def _agreed_upon(device: Device, asked: Schema, shown: str, *, new: bool) -> Device:
    """The device as it is on disk after the answer, unless it is no longer what its user was ``shown`` before."""
    now = device.keep(new=new)
    if now.statement(asked) != shown and not now.has_report(asked):
        raise InputError(
            f"Expected the device in {now.folder} as you were shown it, got one that was charged meanwhile. Nothing was drawn or "
            "sent. Start the command again."
        )
    return now


def _exists(state: Path) -> bool:
    return (state / "device.json").exists()


def _device(state: Path, user: str | None, cap: float | None) -> Device:
    """Open the device of a folder. A new one is not written before its user agrees."""
    from sfumato.collect._client import Device
    from sfumato.collect._keys import DeviceKeys

    if not _exists(state):
        if user is None or cap is None:
            raise InputError(
                "Expected --user and --cap with a new device, got not both. Say who you are, and how much to spend."
            )
        return Device(state, user, DeviceKeys.new(), cap)
    device = Device.open(state)
    if user not in (None, device.user) or cap not in (None, device.epsilon_cap):
        remedy = "Leave them out."
        if device.is_fresh:
            remedy = f"Nothing was charged yet: leave them out, or remove the folder {state} to begin again."
        raise InputError(
            f"Expected the device of {device.user} with a cap of {device.epsilon_cap:g}, got other options. {remedy}"
        )
    return device


app.command()(simulate)
app.command()(users)
app.command()(revoke)
app.command()(withdraw)
app.command()(estimate)
app.command()(close)
app.command("open")(two.open_)
app.command()(two.abort)
app.command()(export)
