"""The store of one collection: who is enrolled, every report once, and what was refused. SQLite by default, PostgreSQL by URL.

Reports are only ever added. Whatever changes the store holds the collection's lock in one transaction, also across server
processes, so a report that was answered as stored is in the closed collection, and none comes after it.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, NamedTuple, TypeVar

import sqlalchemy as sql

from sfumato.collect.closed import Closed
from sfumato.collect.database import ALERTS, META, REPORTS, USERS, Database, count, rows_of
from sfumato.collect.schema import Schema
from sfumato.errors import DataError

if TYPE_CHECKING:
    from sqlalchemy import Connection

FORMAT = 1
Answer = Literal["stored", "repeated", "conflict", "closed"]
T = TypeVar("T")


class Keys(NamedTuple):
    """The public keys of an enrolled device, 32 bytes each."""

    sign_key: bytes
    agree_key: bytes


class Upload(NamedTuple):
    """A checked report: the user id, the canonical message, and the signature or code that proves who sent it."""

    user: str
    message: bytes
    proof: bytes


class Enrolment(NamedTuple):
    """A user id with the public keys of the device."""

    user: str
    keys: Keys


@dataclass(frozen=True)
class Alert:
    """What a user was refused: "report" for another report than the stored one, "key" for another key.

    Args:
        kind: "report" or "key".
        user: the public id of the user.
        count: how often this happened.
        first_at: when first, in seconds since 1970.
        last_at: when last, in seconds since 1970.
    """

    kind: str
    user: str
    count: int
    first_at: float
    last_at: float


@dataclass(frozen=True)
class Counts:
    """How much a store holds.

    Args:
        users: the number of enrolled users.
        reports: the number of reports.
        hours: for each hour with reports its start, in seconds since 1970, and the number of its reports, ascending.
        last_minute: the number of reports of the last 60 seconds.
        second_reports: the number of users who sent another report than the stored one.
        most_second: the most other reports that one user sent.
        alerts: the latest alerts, the last one first.
    """

    users: int
    reports: int
    hours: tuple[tuple[int, int], ...]
    last_minute: int
    second_reports: int
    most_second: int
    alerts: tuple[Alert, ...]


class Store:
    """The store of one collection in a database; ``database`` may be shared by threads and processes.

    Raises:
        DataError: it is not the store of a collection.
        StoreError: it is damaged, or cannot be read.
    """

    def __init__(self, database: Database) -> None:
        self._database = database
        self.name = database.name
        try:
            database.check()
            with database.reading() as connection:
                found = connection.execute(sql.select(META)).one()
            if found.format != FORMAT:
                raise DataError(f"Expected {self.name} to have format {FORMAT}, got {found.format}. Update Sfumato.")
            self.schema = Schema.from_json(found.schema)
        except BaseException:
            self.dispose()
            raise

    @classmethod
    def create(cls, where: str, schema: Schema) -> Store:
        """Open the store of a schema, which is made if there is none.

        Args:
            where: the path of an SQLite file, or the URL of a database.
            schema: the schema of the collection.

        Raises:
            DataError: the store is that of another schema, or of something else.
            StoreError: the database refuses it.
        """
        database = Database(where)
        database.create({"id": 1, "format": FORMAT, "schema": schema.text})
        store = cls(database)
        if store.schema.digest != schema.digest:
            store.dispose()
            raise DataError(
                f"Expected {store.name} to be the store of schema {schema.sha256[:16]}..., got that of "
                f"{store.schema.sha256[:16]}... Use another store."
            )
        return store

    @classmethod
    def open(cls, where: str) -> Store:
        """Open a store that exists; ``where`` is the path of an SQLite file, or the URL of a database.

        Raises:
            DataError: there is no store.
            StoreError: the store is damaged, or cannot be read.
        """
        return cls(Database(where))

    def enrol(self, enrolments: Sequence[Enrolment]) -> list[Answer]:
        """Add users in one transaction, and say of each what became of it.

        "stored" and "repeated" mean that the user has these keys; "conflict" that it has others, which is an alert. Enrolling
        does not end when the collection is closed.

        Raises:
            StoreError: nothing was stored.
        """
        now = time.time()
        with self._database.writing() as connection:
            kept = self._keys(connection, {one.user for one in enrolments})
            answers = [_answer(kept, one.user, one.keys) for one in enrolments]
            rows = [
                {"user": one.user.encode(), **one.keys._asdict(), "enrolled_at": now}
                for one, answer in zip(enrolments, answers, strict=True)
                if answer == "stored"
            ]
            self._database.insert(connection, USERS, rows)
            self._alert(connection, "key", [one.user for one in enrolments], answers, now)
        return answers

    def keys(self, users: Collection[str]) -> dict[str, Keys]:
        """Return the keys of those of the given users who are enrolled.

        Raises:
            StoreError: the store cannot be read.
        """
        with self._database.reading() as connection:
            return self._keys(connection, users)

    def latest_keys(self, most: int) -> dict[str, Keys]:
        """Return the keys of those ``most`` users who enrolled last, the last one last.

        Raises:
            StoreError: the store cannot be read.
        """
        newest = sql.select(USERS).order_by(USERS.c.enrolled_at.desc()).limit(most)
        with self._database.reading() as connection:
            rows = connection.execute(newest).all()
        return {row.user.decode(): Keys(row.sign_key, row.agree_key) for row in reversed(rows)}

    def add(self, uploads: Sequence[Upload]) -> list[Answer]:
        """Add reports in one transaction, and say of each what became of it; all of it is on disk when this returns.

        "stored" and "repeated" mean that this very message is the user's report; "conflict" that another one is, which is an
        alert, and this one is dropped; "closed" that the collection takes no reports any more.

        Raises:
            StoreError: nothing was stored.
        """
        now = time.time()
        with self._database.writing() as connection:
            if self._sha256(connection) is not None:
                return ["closed"] * len(uploads)
            kept = self._messages(connection, {upload.user for upload in uploads})
            answers = [_answer(kept, upload.user, upload.message) for upload in uploads]
            rows = [
                {"user": one.user.encode(), "message": one.message, "proof": one.proof, "received_at": now}
                for one, answer in zip(uploads, answers, strict=True)
                if answer == "stored"
            ]
            self._database.insert(connection, REPORTS, rows)
            self._alert(connection, "report", [upload.user for upload in uploads], answers, now)
        return answers

    def close(self) -> tuple[str, int]:
        """Close the collection for good, and return its SHA-256 and its number of reports; the same again if it is closed.

        Raises:
            DataError: a stored report is damaged; then the collection stays open.
            StoreError: the store cannot be written.
        """
        with self._database.writing() as connection:
            sha256 = self._sha256(connection)
            if sha256 is None:
                closed = self._collected(connection)
                _ = closed.reports
                sha256 = closed.sha256
                connection.execute(sql.update(META).values(closed_at=time.time(), sha256=sha256))
            return sha256, count(connection, REPORTS)

    @property
    def sha256(self) -> str | None:
        """The SHA-256 of the closed collection, or None while it is open."""
        with self._database.reading() as connection:
            return self._sha256(connection)

    def closed(self) -> Closed:
        """Read the closed collection, and check it against the SHA-256 of its closing.

        Raises:
            DataError: the collection is open, or its reports are no longer those that were closed.
            StoreError: the store cannot be read.
        """
        with self._database.reading() as connection:
            sha256 = self._sha256(connection)
            if sha256 is None:
                raise DataError(f"Expected {self.name} to be closed, got an open collection. Close it first.")
            closed = self._collected(connection)
        if closed.sha256 != sha256:
            raise DataError(
                f"Expected the reports in {self.name} to be those that were closed as {sha256[:16]}..., got others. "
                "Restore the store from its backup."
            )
        return closed

    def messages(self) -> tuple[bytes, ...]:
        """Return all messages, ascending by the bytes of the user id, also of an open collection.

        Raises:
            StoreError: the store cannot be read.
        """
        with self._database.reading() as connection:
            return self._collected(connection).messages

    def counts(self) -> Counts:
        """Count users, reports and alerts.

        Raises:
            StoreError: the store cannot be read.
        """
        hour = sql.cast(sql.func.floor(REPORTS.c.received_at / 3600), sql.Integer)
        second = ALERTS.c.kind == "report"
        recent = REPORTS.c.received_at > time.time() - 60
        with self._database.reading() as connection:
            hours = connection.execute(sql.select(hour, sql.func.count()).group_by(hour).order_by(hour))
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

    def dispose(self) -> None:
        """Close the connections of this process to the database."""
        self._database.dispose()

    def _sha256(self, connection: Connection) -> str | None:
        return connection.scalar(sql.select(META.c.sha256))

    def _collected(self, connection: Connection) -> Closed:
        rows = connection.scalars(sql.select(REPORTS.c.message).order_by(REPORTS.c.user))
        return Closed(self.schema, tuple(rows))

    def _keys(self, connection: Connection, users: Collection[str]) -> dict[str, Keys]:
        return {user: Keys(*keys) for user, *keys in rows_of(connection, users, USERS, "sign_key", "agree_key")}

    def _messages(self, connection: Connection, users: Collection[str]) -> dict[str, bytes]:
        return dict(rows_of(connection, users, REPORTS, "message"))

    def _alert(
        self, connection: Connection, kind: str, users: Sequence[str], answers: Sequence[Answer], now: float
    ) -> None:
        refused = Counter(user for user, answer in zip(users, answers, strict=True) if answer == "conflict")
        for user, more in refused.items():
            key = {"kind": kind, "user": user.encode()}
            row = sql.update(ALERTS).where(ALERTS.c.kind == kind, ALERTS.c.user == key["user"])
            if not connection.execute(row.values(count=ALERTS.c.count + more, last_at=now)).rowcount:
                self._database.insert(connection, ALERTS, [{**key, "count": more, "first_at": now, "last_at": now}])


def _answer(kept: dict[str, T], user: str, value: T) -> Answer:
    """What becomes of a value of a user beside those that are kept; the first one is added to them."""
    if user not in kept:
        kept[user] = value
        return "stored"
    return "repeated" if kept[user] == value else "conflict"
