"""`sfumato collect users`, `revoke` and `withdraw`: whom a store knows, and what is taken back."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from sfumato._optional import check_installed
from sfumato._validate import fail
from sfumato.cli import _asking as asking
from sfumato.cli._table import JSON

if TYPE_CHECKING:
    from sfumato.collect._audit import Listed
    from sfumato.collect._store import Store

_STORE = typer.Option("reports.sqlite", "--store", help="The store: an SQLite file, or the URL of a database.")
_USER = typer.Argument(..., help="The id of the user.")


def users(
    store: str = _STORE,
    audit: bool = typer.Option(False, "--audit", help="List what was revoked and withdrawn instead: when, by whom."),
) -> None:
    """List the users whom a store knows, as CSV: which code counts, and what became of the report.

    A closed anonymous survey has no times: there the column enrolled is "yes".
    The column code is 1 for the first code of a user, and one more for each that was revoked. `collect codes --store` writes the
    codes themselves.
    """
    from sfumato.collect._tables import quoted

    opened = _opened(store)
    if audit:
        typer.echo("time,act,by,user")
        for line in opened.audit():
            typer.echo(f"{_time(line.at)},{line.act},{line.by},{quoted(line.user)}")
        return
    typer.echo("user,code,enrolled,report")
    for one in opened.users():
        enrolled = "" if one.enrolled_at is None else _time(one.enrolled_at) if one.enrolled_at else "yes"
        report = "withdrawn" if one.withdrawn else "stored" if one.reported else ""
        typer.echo(f"{quoted(one.user)},{one.generation + 1},{enrolled},{report}")


def revoke(
    user: str = _USER,
    store: str = _STORE,
    server_key: Path = typer.Option("server.key", "--server-key", help="The secret key of the server."),
    yes: bool = asking.YES,
    as_json: bool = JSON,
) -> None:
    """Take back the code of a user, with the enrolment and the report that came under it, and print a new code.

    For a code that leaked, or a device that was lost. With the new code the user enrols and reports as for the first time. A user
    who reported before, and draws another report in a new folder, spends its epsilon a second time.
    """
    from sfumato.collect._keys import ServerKey

    opened, key = _opened(store), ServerKey.read(server_key)
    if key.public.hex() != opened.schema.server_key:
        raise fail(
            "--server-key", str(server_key), "to be the key of this collection", "Name the file of `collect init`."
        )
    seen = _seen(opened, user)
    asking.ask_first(f"{_said(seen)} All of it is deleted for good, and the code does not count any more.", yes=yes)
    generation = opened.revoke(user, seen)
    _say_unflushed(opened)
    code = key.code(opened.schema, user, generation)
    if as_json:
        typer.echo(json.dumps({"user": user, "code": code, "number": generation + 1, "deleted_report": seen.reported}))
    else:
        typer.echo(f"Revoked. The new code of {user}, for its eyes only: {code}")


def withdraw(user: str = _USER, store: str = _STORE, yes: bool = asking.YES, as_json: bool = JSON) -> None:
    """Delete the report of a user, who asked for it, before the collection is closed.

    No estimate, no export and no training has it from then on, and it is not taken again. It stays in backups that were made
    before. The user's device has spent its epsilon: the server has seen the report, and nothing gives that back.
    """
    opened = _opened(store)
    seen = _seen(opened, user)
    if not seen.withdrawn:
        if seen.reported:
            asking.ask_first(f"{_said(seen)} The report is deleted for good, and none is taken again.", yes=yes)
        opened.withdraw(user, seen)
        _say_unflushed(opened)
    if as_json:
        typer.echo(json.dumps({"user": user, "deleted_report": seen.reported}))
    else:
        typer.echo(f"The report of {user} is deleted here. Backups that were made before still hold it.")


def _opened(store: str) -> Store:
    check_installed("sqlalchemy")
    from sfumato.collect._store import Store

    return Store.open(store)


def _say_unflushed(store: Store) -> None:
    if not store.is_flushed:
        said = "Somebody reads the store: its write-ahead log still holds the bytes of the report. The next withdrawal clears it."
        typer.echo(said, err=True)


def _seen(store: Store, user: str) -> Listed:
    from sfumato.collect._wire import check_user

    return store.seen(check_user(user))


def _said(seen: Listed) -> str:
    enrolled = "is not enrolled" if seen.enrolled_at is None else f"enrolled at {_time(seen.enrolled_at)}"
    report = "withdrew its report" if seen.withdrawn else "has a report" if seen.reported else "has no report"
    return f"{seen.user} {enrolled} with code {seen.generation + 1}, and {report}."


def _time(seconds: float) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(seconds))
