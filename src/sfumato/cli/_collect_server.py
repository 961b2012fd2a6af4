"""`sfumato collect serve`, `close` and `export`: the server of a collection, and what its operator does with the store."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from sfumato._optional import check_installed
from sfumato._validate import fail
from sfumato.cli import _asking as asking
from sfumato.cli import _collect_two as two
from sfumato.cli import _listening as listening
from sfumato.cli._table import JSON

if TYPE_CHECKING:
    from fastapi import FastAPI

    from sfumato.collect._keys import ServerKey
    from sfumato.collect._schema import Schema
    from sfumato.collect._tokens import TokenKey

_STORE = typer.Option("reports.sqlite", "--store", help="The store: an SQLite file, or the URL of a database.")


def serve(
    context: typer.Context,
    schema: Path = typer.Argument(
        ..., help="The schema of the collection, as `collect init` writes it; of two servers, the folder of this one."
    ),
    server_key: Path = typer.Option("server.key", "--server-key", help="The secret key of the server."),
    token_key: Path = typer.Option(
        "token.key", "--token-key", help="The secret key of one-time tokens, of a collection with anonymous uploads."
    ),
    store: str = typer.Option(
        "reports.sqlite", "--store", help="Where reports are kept: an SQLite file, or the URL of a database."
    ),
    admin_token_file: Path = typer.Option(
        "admin.token", "--admin-token-file", help="File with the token of the operator; made if it is absent."
    ),
    host: str = typer.Option("127.0.0.1", "--host", help="The address to listen on."),
    port: int = typer.Option(8765, "--port", min=0, max=65535, help="The port to listen on; 0 takes a free one."),
    certificate: Path | None = typer.Option(None, "--certificate", help="TLS certificate chain, as PEM."),
    key: Path | None = typer.Option(None, "--key", help="Private key of the certificate, as PEM."),
    trusted_proxy: list[str] = listening.TRUSTED_PROXY,
) -> None:
    """Take reports until Ctrl-C, and show a status page.

    The store is made if it is absent. A report that was acknowledged is on disk. Open the address in a browser for the status
    page: the token is the password, with any user name. Without a certificate put a reverse proxy with TLS in front. One of two
    servers has no status page, no token and no --store: its book is in its folder.
    """
    if schema.is_dir():
        two.check_own(context, "token_key", "store", "admin_token_file")
        two.serve(schema, two.own_key(context, server_key), host, port, certificate, key, trusted_proxy)
        return
    two.check_one(schema)
    check_installed("fastapi", "uvicorn", "httptools", "sqlalchemy", "prometheus_client")
    from sfumato.collect._keys import ServerKey
    from sfumato.collect._schema import Schema
    from sfumato.collect._tokens import TokenKey
    from sfumato.web._http import WebServer
    from sfumato.web._logs import log_as_json

    listening.check_tls(certificate, key)
    door = listening.door_for(trusted_proxy)
    read, secret = Schema.read(schema), ServerKey.read(server_key)
    if secret.public.hex() != read.server_key:
        raise fail("--server-key", str(server_key), "to be the key of this schema", "Name the file of `collect init`.")
    if read.anonymous and not token_key.is_file():
        raise fail(
            "--token-key",
            str(token_key),
            "to be the key of one-time tokens, since this survey is anonymous",
            "Name the file that `collect init` wrote beside the schema, or restore it from the backup.",
        )
    tokens = TokenKey.read(token_key) if read.anonymous else None
    if read.anonymous and tokens and tokens.public != read.anonymous.public:
        raise fail("--token-key", str(token_key), "to be the key of this schema", "Name the file of `collect init`.")
    server = WebServer(partial(_app, read, secret, tokens, store, admin_token_file), None, door, certificate, key)
    with listening.bind(host, port) as listener:
        listening.load_tls(server.config)
        log_as_json()
        listening.warn_of_plain_text(host, certificate, "codes and the admin token")
        listening.tell(
            f"Collection {read.collection} at {listening.address_of(host, listener, certificate)}/ (Ctrl-C stops the server)"
        )
        server.run([listener])
    listening.tell("Stopped. All acknowledged reports are in the store.")


def close(
    store: str = _STORE,
    dry_run: bool = typer.Option(False, "--dry-run", help="Say what would be closed, and change nothing."),
    yes: bool = asking.YES,
    as_json: bool = JSON,
) -> None:
    """Close a collection for good, and print the SHA-256 that names it in certificates; a closed one is checked against it.

    Every report that comes later is refused, and no report can be withdrawn any more. A server that still runs on this store
    answers from then on that the collection is closed; while a large one is being closed, it asks devices to come back. The store
    of an anonymous survey is written again, so that it does not tell any more in which order reports came.
    """
    check_installed("sqlalchemy")
    from sfumato.collect._store import Store

    opened = Store.open(store)
    closed, counts = opened.sha256, opened.counts()
    users = f"{counts.users:,} enrolled user{'s' * (counts.users != 1)}"
    found = f"{opened.schema.collection} has {_reports(counts.reports)} of {users}"
    if dry_run:
        for _ in opened.pieces() if closed else ():
            pass  # which checks that the reports are those that were closed
        facts = {
            "collection": opened.schema.collection,
            "users": counts.users,
            "reports": counts.reports,
            "sha256": closed,
        }
        said = (
            f"It was closed as {closed}." if closed else "Closing is for good: nothing is taken or withdrawn after it."
        )
        typer.echo(json.dumps(facts) if as_json else f"{found}. {said}")
        return
    if closed is None:
        until = f"Devices may report until {opened.schema.closes}"
        asking.ask_first(
            f"{found}. {until}; closing ends that for good, and nothing can be withdrawn after it.", yes=yes
        )
    sha256, reports = opened.close()
    if not opened.is_flushed:
        said = "Somebody reads the store: its log still tells in which order reports came. The same command clears it."
        typer.echo(said, err=True)
    if as_json:
        typer.echo(json.dumps({"sha256": sha256, "reports": reports}))
    else:
        typer.echo(f"Closed with {_reports(reports)} as {sha256}.")


def export(
    store: str = _STORE,
    out: Path = typer.Option("closed.sfumato", "--out", help="The file to write; it must not exist."),
    as_json: bool = JSON,
) -> None:
    """Write a closed collection as one file, from which any number of models is trained."""
    check_installed("sqlalchemy")
    from sfumato.collect._store import Store

    if out.exists():
        raise fail("--out", str(out), "to be a new file", "Name another.")
    sha256, reports = Store.open(store).export(out)
    if as_json:
        typer.echo(json.dumps({"sha256": sha256, "reports": reports, "out": str(out)}))
    else:
        typer.echo(f"Wrote {_reports(reports)} to {out}, SHA-256 {sha256}.")


def _reports(count: int) -> str:
    return f"{count:,} report{'s' * (count != 1)}"


def _app(schema: Schema, server_key: ServerKey, tokens: TokenKey | None, store: str, token_file: Path) -> FastAPI:
    from sfumato.collect._server import create_app
    from sfumato.collect._store import Store

    opened = Store.create(store, schema)
    return create_app(schema, opened, server_key, listening.admin_token(token_file), token_key=tokens)
