"""What a store holds, as it is read: who is enrolled, the reports one after the other, and what was taken back."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, Self

import sqlalchemy as sql

from sfumato._files import whole_file
from sfumato.collect._audit import Line, Listed, Standing, listed, look_up, read_lines, standings
from sfumato.collect._closed import Closed, Stream, pieces
from sfumato.collect._database import (
    ALERTS,
    FORMAT,
    META,
    REPORTS,
    USERS,
    Database,
    count,
    in_order,
    rows_of,
    rows_of_all,
)
from sfumato.collect._schema import Schema
from sfumato.collect._wire import most_bytes
from sfumato.errors import DataError

if TYPE_CHECKING:
    from sqlalchemy import Connection

_MOST_AT_ONCE, _BYTES_AT_ONCE = 5_000, 1 << 23  # reports that are in memory while all of them are read


class FewReportsError(DataError):
    """An anonymous collection has fewer reports than its schema wants before anything is computed."""


class Keys(NamedTuple):
    """The public keys of an enrolled device, 32 bytes each, and how often codes of its user had been revoked before."""

    sign_key: bytes
    agree_key: bytes
    generation: int = 0


class Stored:
    def __init__(self, database: Database) -> None:
        self._database = database
        self.name = database.name
        try:
            database.check()
            with database.reading() as connection:
                found = connection.execute(sql.select(META)).one()
            if not 1 <= found.format <= FORMAT:
                raise DataError(f"Expected {self.name} to have format {FORMAT}, got {found.format}. Update Sfumato.")
            self._format: int = found.format
            self.schema = Schema.from_json(found.schema)
        except BaseException:
            self.dispose()
            raise

    @classmethod
    def open(cls, where: str) -> Self:
        """Open a store that exists; ``where`` is the path of an SQLite file, or the URL of a database."""
        return cls(Database(where))

    def keys(self, users: Collection[str]) -> dict[str, Keys]:
        """Return the keys of those of the given users who are enrolled.

        Of each other user a row is read, too: who is enrolled is a secret, which the time that this takes must not tell.
        """
        with self._database.reading() as connection:
            found = {user: Keys(*own) for user, *own in rows_of_all(connection, users, USERS, *Keys._fields)}
        return {user: own for user, own in found.items() if own.sign_key is not None}

    def latest_keys(self, most: int) -> dict[str, Keys]:
        """Return the keys of those ``most`` users who enrolled last, the last one last."""
        newest = sql.select(USERS).order_by(USERS.c.enrolled_at.desc()).limit(most)
        with self._database.reading() as connection:
            rows = connection.execute(newest).all()
        return {row.user.decode(): Keys(row.sign_key, row.agree_key, row.generation) for row in reversed(rows)}

    def standing(self, users: Collection[str]) -> dict[str, Standing]:
        with self._database.reading() as connection:
            return standings(connection, users, audited=self._is_audited(connection))

    def seen(self, user: str) -> Listed:
        with self._database.reading() as connection:
            return look_up(connection, user, audited=self._is_audited(connection))

    def users(self) -> Iterator[Listed]:
        with self._database.reading() as connection:
            yield from listed(connection, audited=self._is_audited(connection))

    def audit(self) -> Iterator[Line]:
        with self._database.reading() as connection:
            if self._is_audited(connection):
                yield from read_lines(connection)

    @property
    def sha256(self) -> str | None:
        """The SHA-256 of the closed collection, or None while it is open."""
        with self._database.reading() as connection:
            return self._sha256(connection)

    def closed(self) -> Closed:
        """Read the closed collection into memory, and check it against the SHA-256 of its closing."""
        with self._database.reading() as connection:
            return Closed(self.schema, tuple(self._as_closed(connection, self._closed_as(connection))))

    def pieces(self) -> Iterator[bytes]:
        """Yield the bytes of the closed file, the last ones only if all of them are those that were closed."""
        digest, last = hashlib.sha256(), b""
        with self._database.reading() as connection:
            sha256, reports = self._closed_as(connection), count(connection, REPORTS)
            for piece in pieces(self.schema, reports, self._stream(connection).messages):
                yield last
                digest.update(piece)
                last = piece
        if digest.hexdigest() != sha256:
            raise self._altered(sha256)
        yield last

    def export(self, path: Path) -> tuple[str, int]:
        """Write the closed file, whole or not at all, and return its SHA-256 and its number of reports."""
        with self._database.reading() as connection:
            facts = self._closed_as(connection), count(connection, REPORTS)
        with whole_file(path) as file:
            file.writelines(self.pieces())
        return facts

    @contextmanager
    def stream(self) -> Iterator[Stream]:
        """Read all reports as they are at one moment, also of an open collection, ascending by the bytes of the user id.

        Of a closed collection the last report is followed by an error if they are not those that were closed. An anonymous one
        is read once it is closed, since two looks at an open one would show the reports that came between.
        """
        with self._database.reading() as connection:
            sha256 = self._closed_as(connection) if self.schema.anonymous else self._sha256(connection)
            yield (
                self._stream(connection)
                if sha256 is None
                else Stream(self.schema, self._as_closed(connection, sha256), sha256)
            )

    def messages(self) -> tuple[bytes, ...]:
        with self.stream() as stream:
            return tuple(stream.messages)

    def counts(self) -> Counts:
        with self._database.reading() as connection:
            return counted(connection)

    def cut(self) -> None:
        """Let threads that wait for a database which hangs get an error."""
        self._database.cut()

    def dispose(self) -> None:
        self._database.dispose()

    def _is_audited(self, connection: Connection) -> bool:
        """Whether the store knows of what was taken back; another process may have brought it up to date meanwhile."""
        if self._format < FORMAT:
            self._format = connection.execute(sql.select(META.c.format)).scalar_one()
        return self._format >= 2

    def _sha256(self, connection: Connection) -> str | None:
        return connection.scalar(sql.select(META.c.sha256))

    def _as_closed(self, connection: Connection, sha256: str) -> Iterator[bytes]:
        """The messages of a closed collection, which must be those that were closed."""
        digest = hashlib.sha256()
        found = pieces(self.schema, count(connection, REPORTS), self._stream(connection).messages)
        for place, piece in enumerate(found):
            digest.update(piece)
            if place >= 2:  # behind the head and the schema
                yield piece[4:]
        if digest.hexdigest() != sha256:
            raise self._altered(sha256)

    def _closed_as(self, connection: Connection) -> str:
        sha256 = self._sha256(connection)
        if sha256 is None:
            raise DataError(f"Expected {self.name} to be closed, got an open collection. Close it first.")
        return sha256

    def _altered(self, sha256: str) -> DataError:
        return DataError(
            f"Expected the reports in {self.name} to be those that were closed as {sha256[:16]}..., got others. "
            "Restore the store from its backup."
        )

    def _stream(self, connection: Connection) -> Stream:
        block = max(1, min(_MOST_AT_ONCE, _BYTES_AT_ONCE // most_bytes(self.schema)))
        return Stream(self.schema, in_order(connection, block))

    def _keys(self, connection: Connection, users: Collection[str]) -> dict[str, Keys]:
        return {user: Keys(*keys) for user, *keys in rows_of(connection, users, USERS, *Keys._fields)}


@dataclass(frozen=True)
class Alert:
    """What a user was refused: another "report", "key" or "token" than the stored one; times are since 1970."""

    kind: str
    user: str
    count: int
    first_at: float
    last_at: float


@dataclass(frozen=True)
class Counts:
    """How much a store holds.

    ``hours`` are starts in seconds since 1970 with the numbers of reports, ascending. So many users as ``second_reports`` sent
    another report than the stored one, one of them ``most_second`` others. Of ``alerts`` the last one is first.
    """

    users: int
    reports: int
    hours: tuple[tuple[int, int], ...]
    last_minute: int
    second_reports: int
    most_second: int
    alerts: tuple[Alert, ...]


def counted(connection: Connection) -> Counts:
    timed = REPORTS.c.received_at > 0  # anonymous reports have no time
    hour = sql.cast(sql.func.floor(REPORTS.c.received_at / 3600), sql.Integer)
    second = ALERTS.c.kind == "report"
    recent = REPORTS.c.received_at > time.time() - 60
    hours = connection.execute(sql.select(hour, sql.func.count()).where(timed).group_by(hour).order_by(hour))
    alerts = connection.execute(sql.select(ALERTS).order_by(ALERTS.c.last_at.desc()).limit(100))
    most = connection.scalar(sql.select(sql.func.max(ALERTS.c.count)).where(second))
    return Counts(
        users=count(connection, USERS),
        reports=count(connection, REPORTS),
        hours=tuple((start * 3600, number) for start, number in hours),
        last_minute=count(connection, REPORTS, recent),
        second_reports=count(connection, ALERTS, second),
        most_second=most or 0,
        alerts=tuple(Alert(**{**row._asdict(), "user": row.user.decode()}) for row in alerts),
    )
