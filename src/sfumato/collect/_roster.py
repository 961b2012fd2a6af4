"""A roster is a public text file that lists user ids, one a line: who is asked, and in which order links are reported."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from sfumato._encoding import decoded
from sfumato.collect._checks import roster_sha256
from sfumato.collect._wire import WireError, check_user
from sfumato.errors import DataError, SchemaError

if TYPE_CHECKING:
    from sfumato.collect._questions import Links


def read_roster(path: Path) -> tuple[str, ...]:
    try:
        lines = decoded(path.read_bytes()).removesuffix("\n").split("\n")
    except UnicodeDecodeError as error:
        raise DataError(f"Expected {path.name} to be UTF-8, got other bytes. Convert it.") from error
    if lines == [""]:
        raise DataError(f"Expected {path.name} to list user ids, one a line, got an empty file. Add them.")
    places: dict[str, int] = {}
    for number, line in enumerate(lines, start=1):
        user, where = line, f"line {number} of {path.name}"
        if not user.strip():
            raise DataError(f"Expected {where} to hold a user id, got a blank line. Remove it.")
        if user != user.strip():
            raise DataError(f"Expected {where} to hold a user id alone, got a space at its end or start. Remove it.")
        try:
            check_user(user)
        except WireError as error:
            raise DataError(f"{path.name}, line {number}: {error}") from error
        if user in places:
            raise DataError(
                f"Expected {where} to hold another user than line {places[user]}, got {user!r} again. Remove one."
            )
        places[user] = number
    return tuple(places)


def check_roster(links: Links, users: Sequence[str]) -> dict[str, int]:
    """Refuse another roster than the one of a schema; return the place of every user."""
    if len(users) != links.users or roster_sha256(users) != links.roster:
        raise SchemaError(
            f"Expected the roster of the schema, of {links.users} users and SHA-256 {links.roster[:16]}..., got another. "
            "Ask for the file that the schema was made of."
        )
    return {user: place for place, user in enumerate(users)}
