"""What was taken back: which code of a user counts, and whose report was withdrawn. Lines are only ever added.

A line says when, what, by whom and about which user id; it holds nothing of a report. Each "revoked" line ends the code of a user
and whatever came under it, and the next generation of the code counts. A "withdrawn" line says that the report was deleted; until
the code is revoked, no report of this user is taken again.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Iterator
from typing import TYPE_CHECKING, Literal, NamedTuple

import sqlalchemy as sql

from sfumato.collect._database import AUDIT, REPORTS, USERS, rows_of

if TYPE_CHECKING:
    from sqlalchemy import Connection

Act = Literal["revoked", "withdrawn"]


class Standing(NamedTuple):
    """How often the code of a user was revoked, and whether the report was withdrawn since."""

    generation: int = 0
    withdrawn: bool = False


class Listed(NamedTuple):
    """A user whom a store knows; ``enrolled_at`` is in seconds since 1970, None if no device is enrolled."""

    user: str
    generation: int
    enrolled_at: float | None
    reported: bool
    withdrawn: bool


class Line(NamedTuple):
    """A line of the audit: when (in seconds since 1970), what, by whom ("operator" or "device"), and about whom."""

    at: float
    act: str
    by: str
    user: str


def standings(connection: Connection, users: Collection[str], *, audited: bool = True) -> dict[str, Standing]:
    """Return the standing of each of the ``users`` by the lines that the ``connection`` finds.

    A store of the first format is not ``audited``: it has no table of lines, and nothing was taken back from it.
    """
    found = dict.fromkeys(users, Standing())
    rows = rows_of(connection, users, AUDIT, "number", "act") if audited else ()
    for user, _, act in sorted(rows, key=lambda row: row[1]):
        found[user] = Standing(found[user].generation + (act == "revoked"), act == "withdrawn")
    return found


def look_up(connection: Connection, user: str, *, audited: bool = True) -> Listed:
    name, (standing,) = user.encode(), standings(connection, [user], audited=audited).values()
    enrolled_at = connection.scalar(sql.select(USERS.c.enrolled_at).where(USERS.c.user == name))
    reported = connection.scalar(sql.select(REPORTS.c.user).where(REPORTS.c.user == name)) is not None
    return Listed(user, standing.generation, enrolled_at, reported, standing.withdrawn)


def write_line(connection: Connection, act: Act, by: str, user: str) -> None:
    connection.execute(sql.insert(AUDIT).values(at=time.time(), act=act, by=by, user=user.encode()))


def read_lines(connection: Connection) -> Iterator[Line]:
    """Yield all lines, the first one first, as the ``connection`` finds them."""
    for row in connection.execute(sql.select(AUDIT).order_by(AUDIT.c.number)):
        yield Line(row.at, row.act, row.by, row.user.decode())


def listed(connection: Connection, block: int = 10_000, *, audited: bool = True) -> Iterator[Listed]:
    """Yield the users whom a store knows: those who are enrolled by the bytes of their ids, then those who are not any more."""
    joined = USERS.outerjoin(REPORTS, USERS.c.user == REPORTS.c.user)
    enrolled = sql.select(USERS.c.user, USERS.c.enrolled_at, REPORTS.c.user.is_not(None)).select_from(joined)
    others = sql.select(AUDIT.c.user).distinct().where(AUDIT.c.user.not_in(sql.select(USERS.c.user)))
    last: bytes | None = b""
    while last is not None:
        rows = connection.execute(enrolled.where(USERS.c.user > last).order_by(USERS.c.user).limit(block)).all()
        last = rows[-1][0] if rows else None
        own = standings(connection, [user.decode() for user, _, _ in rows], audited=audited)
        for name, enrolled_at, reported in rows:
            standing = own[name.decode()]
            yield Listed(name.decode(), standing.generation, enrolled_at, bool(reported), standing.withdrawn)
    names = [user.decode() for user in connection.scalars(others.order_by(AUDIT.c.user))] if audited else []
    for user, standing in sorted(
        standings(connection, names, audited=audited).items(), key=lambda one: one[0].encode()
    ):
        yield Listed(user, standing.generation, None, False, standing.withdrawn)
