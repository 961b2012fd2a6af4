"""`sfumato collect` with two servers: agree, serve, report, and open together."""

from __future__ import annotations

import json
from collections import Counter
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from sfumato._optional import check_installed
from sfumato._validate import fail
from sfumato.cli import _asking as asking
from sfumato.cli import _listening as listening
from sfumato.cli._collect_going import going_on, say
from sfumato.cli._table import JSON
from sfumato.errors import DataError, InputError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sfumato.collect._client import Device
    from sfumato.collect._simulate import Summary
    from sfumato.collect.two._files import Agreed
    from sfumato.collect.two._server import Server

KEY = "server.key"
_FOLDER = typer.Argument(..., help="The folder of this server, as `collect init --servers 2` made it.")
_SERVER_KEY = typer.Option(
    None, "--server-key", help="The lasting key of this server (default: server.key in its folder)."
)
_CA = typer.Option(
    None, "--ca", help="The certificate of the authority of the other server, as PEM, if it is a private one."
)


def init(
    questions: Path, folder: Path | None, edges: Path | None, users: Path | None, theirs: Path | None, key: Path | None
) -> None:
    """Take the next step of the agreement, and say what comes after it."""
    from sfumato.collect._journal import locked
    from sfumato.collect._keys import ServerKey
    from sfumato.collect._tables import read_roster
    from sfumato.collect.two._questions import public_cells, read_terms
    from sfumato.collect.two._setup import AGREEMENT, Setup
    from sfumato.collect.two._signed import Operator

    if folder is None or edges is None:
        gone = [name for name, one in (("--folder", folder), ("--edges", edges)) if one is None]
        raise InputError(
            f"Expected --folder and --edges with --servers 2, got no {' and no '.join(gone)}. "
            "Name a new folder and the public links."
        )
    path = key or folder / KEY
    terms = read_terms(questions)
    partition = public_cells(edges, read_roster(users) if users else None, terms["epsilon"])
    sizes = Counter(partition.cells.values()).values()
    if terms["least"] > max(sizes):
        raise InputError(
            f"Expected least to be at most {max(sizes):,}, the users of the largest group, got {terms['least']:,}. "
            "Every group would stay shut, and epsilon be spent for nothing: lower it."
        )
    given = None if theirs is None else theirs.read_bytes()
    folder.mkdir(parents=True, exist_ok=True)
    with locked(folder):
        secret = ServerKey.read(path) if path.exists() else ServerKey.new()
        setup = Setup(folder, secret, terms, partition, path.with_name(f"{path.name}.books"))
        setup.check_folder()
        if not path.exists():
            secret.write(path)
        made = setup.begin() if given is None else setup.go_on(given)
    typer.echo(f"{len(partition.cells):,} users in {partition.num_cells:,} groups of {min(sizes):,} to {max(sizes):,}.")
    typer.echo(f"Your key is {Operator(secret).sign_key.hex()}. Read it to the other operator, as on the telephone.")
    if made.name != AGREEMENT:
        typer.echo(
            f"Give {made} to the other operator, and run this command again with --theirs and the file that comes back."
        )
        return
    agreed = read_agreed(made)
    first, second = (party.sign for party in agreed.agreement.parties)
    typer.echo(f"The first server has the key {first}.\nThe second server has the key {second}.")
    typer.echo(
        f"Both signed {made}, which is for everybody. Its SHA-256, which users see, is {agreed.agreement.sha256}."
    )
    if Operator(secret).sign_key.hex() == second:
        typer.echo(f"Give {made} to the other operator, who runs this command with --theirs and that file.")
    typer.echo(f"When both have it, hand out codes: sfumato collect codes {folder}")


def read_agreed(path: Path) -> Agreed:
    """Read the agreement of two servers in a file."""
    from sfumato.collect.two._files import Agreed

    return Agreed.from_json(path.read_bytes().decode(errors="replace"))


def is_agreed(path: str | Path) -> bool:
    """Tell whether this is the file of an agreement of two servers.

    Raises:
        DataError: it is a folder, in which the file may be.
    """
    from sfumato.collect.two._files import AGREED, kind_of

    if "://" not in str(path) and Path(path).is_dir():
        raise DataError(
            f"Expected a file, got the folder {str(path)!r}. Name the schema, or of two servers the file 'agreement' in it."
        )
    return "://" not in str(path) and Path(path).is_file() and kind_of(Path(path)) == AGREED


def codes(folder: Path, key: Path | None, out: Path) -> None:
    """Write the codes of one server for all who are asked."""
    from sfumato._files import whole_file
    from sfumato.collect._tables import quoted

    server = _server(folder, key)
    users = sorted(server.book.partition.cells)
    with whole_file(out, 0o600) as file:
        file.write(b"user,code\n")
        for user in users:
            file.write(f"{quoted(user)},{server.code(user)}\n".encode())
    typer.echo(f"The codes of {len(users):,} users for this server are in {out}. A user needs one of each server.")


def serve(
    folder: Path, key: Path | None, host: str, port: int, certificate: Path | None, tls: Path | None, proxies: list[str]
) -> None:
    """Take reports, and give the other server its files, until Ctrl-C."""
    check_installed("fastapi", "uvicorn", "httptools", "prometheus_client")
    from sfumato.collect.two._service import create_app
    from sfumato.web._http import WebServer
    from sfumato.web._logs import log_as_json

    listening.check_tls(certificate, tls)
    door, server = listening.door_for(proxies), _server(folder, key)
    web = WebServer(partial(create_app, server), None, door, certificate, tls)
    name = f"The {('first', 'second')[server.me]} server of {server.agreement.collection}"
    with listening.bind(host, port) as listener:
        listening.load_tls(web.config)
        log_as_json()
        listening.warn_of_plain_text(host, certificate, "codes")
        listening.tell(f"{name} at {listening.address_of(host, listener, certificate)}/ (Ctrl-C stops the server)")
        web.run([listener])
    listening.tell("Stopped. All acknowledged reports are in the book.")


def report(
    agreement: Path,
    device: Device,
    addresses: tuple[str, str],
    codes: tuple[str | None, str | None],
    values: Path,
    *,
    new: bool,
    ca: Path | None,
    yes: bool,
) -> None:
    """Split the answer of one device between two servers, once, and send each its part."""
    from sfumato.collect._connection import Connection
    from sfumato.collect._tables import read_answers
    from sfumato.collect._ticks import Ticks
    from sfumato.collect.two import _sending as sending
    from sfumato.collect.two._device import split

    agreed = read_agreed(agreement)
    asked, ticks = agreed.agreement, Ticks()
    own = read_answers(values).get("label")
    label = str(own) if isinstance(own, (str, int)) else ""
    shown, drawn = device.statement(asked), device.has_report(asked)
    typer.echo(shown)
    if not drawn:
        if None in codes:
            raise InputError(
                "Expected --code and --second-code before the report is drawn, got none. Each operator has one."
            )
        if label not in asked.classes:
            typer.echo(f"Your label is none of the classes, and counts as {asked.classes[0]}.")
    if not yes and not asking.agreed("Do you agree?"):
        typer.echo("Nothing was drawn, and nothing was sent.")
        raise typer.Exit(1)
    device = device.keep(new=new)
    ticks.wait()
    first, second = (Connection(one, ca=ca, tell=say) for one in addresses)
    with first, second, going_on("The same command goes on, without another charge."):
        both = (first, second)
        trusted = sending.check_servers(both, asked)
        if None not in codes:
            sending.enrol(both, device.user, device.keys, [code or "" for code in codes])
        made = split(device.folder, asked, agreed.partition, agreed.signatures, trusted, label)
        again = sending.send(both, made)
    typer.echo("Both servers had your report already." if again else "Both servers have their part of your report.")


def simulate(
    agreement: Path, addresses: tuple[str, str], codes: tuple[Path, Path], values: Path, state: Path, ca: Path | None
) -> Summary:
    """Split the answers of many devices, and send both servers their parts."""
    from sfumato.cli._output import stage_bars
    from sfumato.collect._checks import check_open
    from sfumato.collect._connection import Connection
    from sfumato.collect._tables import read_codes, read_labels
    from sfumato.collect.two._sending import check_servers
    from sfumato.collect.two._simulate import Devices

    agreed = read_agreed(agreement)
    check_open(agreed.agreement.opens, agreed.agreement.closes)
    known, answers = [read_codes(one) for one in codes], read_labels(values, agreed.agreement.classes)
    first, second = (Connection(one, ca=ca, tell=say) for one in addresses)
    with (
        first,
        second,
        Devices(state, agreed) as devices,
        stage_bars(quiet=False) as progress,
        going_on(f"The devices are in {state}: the same command goes on, with the same bytes."),
    ):
        check_servers((first, second), agreed.agreement)
        devices.draw(answers, progress)
        devices.enrol((first, second), known, progress)
        return devices.send((first, second), progress)


def open_(
    folder: Path = _FOLDER,
    peer: str = typer.Option(..., "--peer", help="The address of the other server, which must be running."),
    out: Path = typer.Option("opened.sfumato", "--out", help="The public file to write; another one is not replaced."),
    server_key: Path | None = _SERVER_KEY,
    ca: Path | None = _CA,
    yes: bool = asking.YES,
    as_json: bool = JSON,
) -> None:
    """Open the counts of two servers together. Both operators run it, while both servers are running.

    It closes the collection for good: no report is taken after it. The two servers then check all reports, agree on which of them
    count, and each adds its noise, once. The file holds noisy counts of groups with the signatures of both: train and estimate
    from it, and publish it if you like. The command may be stopped and started again at any time.
    """
    from sfumato.collect._connection import Connection
    from sfumato.collect.two._exchange import open_together
    from sfumato.collect.two._files import OpenedFile

    server = _server(folder, server_key)
    if out.exists() and not _is_of(out, server):
        raise fail("--out", str(out), "to be a new file", "Name another.")
    if server.made("list") is None:
        asking.ask_first(f"{server.agreement.collection} takes no report after this, and is opened once.", yes=yes)
    with (
        Connection(peer, ca=ca, tell=say) as connection,
        going_on("The same command goes on; nothing is drawn twice."),
    ):
        opened = open_together(server, connection, say)
    if out.exists() and out.read_bytes() != opened.content:
        raise fail("--out", str(out), "to be a new file", "Name another.")
    opened.write(out)
    found = OpenedFile.read(out).join()
    facts: dict[str, Any] = {"out": str(out), "sha256": opened.sha256, **found.about}
    if as_json:
        typer.echo(json.dumps(facts))
        return
    left = ", ".join(f"{name.replace('_', ' ')} {count:,}" for name, count in found.about["left_out"].items() if count)
    typer.echo(
        f"{found.about['reports']:,} reports of {len(found.partition.cells):,} users are counted{left and f'; not: {left}'}."
    )
    typer.echo(f"Wrote {len(found.counts):,} groups to {out}, SHA-256 {opened.sha256}.")


def _is_of(out: Path, server: Server) -> bool:
    """Tell whether a file is what this server opened with the other: there is one such file."""
    from sfumato.collect.two._files import OpenedFile

    try:
        return OpenedFile.read(out).agreed.agreement == server.agreement
    except InputError:
        return False


def abort(folder: Path = _FOLDER, server_key: Path | None = _SERVER_KEY, yes: bool = asking.YES) -> None:
    """Give up a collection of two servers before it is opened: all shares and keys of it are erased.

    What users spent stays spent. The other server cannot open without this one; ask its operator to abort as well.
    """
    server = _server(folder, server_key)
    asking.ask_first(f"Aborting erases all reports to {server.agreement.collection} here, for good.", yes=yes)
    server.abort()
    typer.echo("Aborted. No report can be opened any more.")


def _server(folder: Path, key: Path | None) -> Server:
    from sfumato.collect._keys import ServerKey
    from sfumato.collect.two._book import Book
    from sfumato.collect.two._server import Server
    from sfumato.collect.two._setup import BOOK

    if not (folder / BOOK).is_file():
        raise DataError(
            f"Expected {str(folder)!r} to be the folder of one of two servers after both signed, got no {BOOK} there. "
            "Finish `sfumato collect init --servers 2`, or check the path."
        )
    return Server(Book(folder / BOOK), ServerKey.read(key or folder / KEY))


def own_key(context: typer.Context, path: Path) -> Path | None:
    """Return --server-key if it was given: for one of two servers the default is in its folder."""
    return path if _is_given(context, "server_key") else None


def check_own(context: typer.Context, *names: str) -> None:
    """Refuse options of a collection with one server, which would do nothing here."""
    for name in names:
        if _is_given(context, name):
            option = "--" + name.replace("_", "-")
            raise InputError(f"Expected no {option} with two servers, got one. Leave it out.")


def check_one(path: Path) -> None:
    """Refuse the agreement of two servers, or no file at all, where one server needs its schema and one of two its folder."""
    if is_agreed(path):
        raise DataError(
            f"Expected the folder of one of two servers, got {str(path)!r}, their agreement. Name the folder of your server."
        )
    if not path.exists():
        raise DataError(
            f"Expected a schema, or the folder of one of two servers, got {str(path)!r}, which is not there. "
            "Run `sfumato collect init` first, or check the path."
        )


def _is_given(context: typer.Context, name: str) -> bool:
    source = context.get_parameter_source(name)
    return source is not None and source.name == "COMMANDLINE"


def check_pair(given: Sequence[object], names: Sequence[str]) -> None:
    """Refuse options of the second server without an agreement of two."""
    for value, name in zip(given, names, strict=True):
        if value is not None:
            raise InputError(f"Expected no {name} with a schema of one server, got one. Leave it out.")
