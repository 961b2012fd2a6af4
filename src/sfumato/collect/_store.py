"""The store of one collection: who is enrolled, every report once, and what was refused. SQLite by default, PostgreSQL by URL.

Reports are added, and taken back where somebody asks for it. Whatever changes the store holds the collection's lock in one
transaction, also across server processes. So a report that was answered as stored is in the closed collection, unless it was
taken back before, and none comes after it.
"""

from __future__ import annotations

import hashlib
import time
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Literal, NamedTuple, TypeVar

import sqlalchemy as sql

from sfumato.collect._audit import Listed, Standing, look_up, standings, write_line
from sfumato.collect._closed import pieces
from sfumato.collect._database import (
    ALERTS,
    FORMAT,
    META,
    REPORTS,
    TOKENS,
    USERS,
    Database,
    count,
    migrate,
    rewrite,
    rows_of,
)
from sfumato.collect._stored import FewReportsError, Keys, Stored
from sfumato.errors import DataError

if TYPE_CHECKING:
    from sqlalchemy import Connection

    from sfumato.collect._schema import Schema

Answer = Literal["stored", "repeated", "conflict", "closed", "revoked", "withdrawn"]
T = TypeVar("T")


class Upload(NamedTuple):
    """A checked report: the user id, the canonical message, what proves who sent it, and the generation of the keys."""

    user: str
    message: bytes
    proof: bytes
    generation: int = 0


class Enrolment(NamedTuple):
    user: str
    keys: Keys


class Asked(NamedTuple):
    """A checked request for a token: the user id, a digest of the blinded text, and the generation of the keys."""

    user: str
    blinded: bytes
    generation: int = 0


class Store(Stored):
    """The store of one collection in a database; ``database`` may be shared by threads and processes."""

    _unflushed = False

    @classmethod
    def create(cls, where: str, schema: Schema) -> Store:
        database = Database(where, limited=True)
        try:
            database.create({"id": 1, "format": FORMAT, "schema": schema.text})
        except BaseException:
            database.dispose()
            raise
        store = cls(database)
        if store.schema.digest != schema.digest:
            store.dispose()
            raise DataError(
                f"Expected {store.name} to be the store of schema {schema.sha256[:16]}..., got that of "
                f"{store.schema.sha256[:16]}... Use another store."
            )
        if store._format < FORMAT:
            with store._writing():
                pass
        return store

    def enrol(self, enrolments: Sequence[Enrolment]) -> list[Answer]:
        """Add users in one transaction, and say of each what became of it.

        "stored" and "repeated" mean that the user has these keys; "conflict" that it has others, which is an alert; "revoked"
        that the code does not count any more. Enrolling does not end when the collection is closed.
        """
        now = time.time()
        with self._writing() as connection:
            users = {one.user for one in enrolments}
            kept, own = self._keys(connection, users), standings(connection, users)
            answers = [
                _answer(kept, one.user, one.keys) if one.keys.generation == own[one.user].generation else "revoked"
                for one in enrolments
            ]
            rows = [
                {"user": one.user.encode(), **one.keys._asdict(), "enrolled_at": now}
                for one, answer in zip(enrolments, answers, strict=True)
                if answer == "stored"
            ]
            self._database.insert(connection, USERS, rows)
            self._alert(connection, "key", [one.user for one in enrolments], answers, now)
        return answers

    def add(self, uploads: Sequence[Upload]) -> list[Answer]:
        """Add reports in one transaction, and say of each what became of it; all of it is on disk when this returns.

        "stored" and "repeated" mean that this very message is the user's report; "conflict" that another one is, which is an
        alert, and this one is dropped; "closed" that the collection takes no reports any more; "revoked" that the keys of this
        user do not count any more, and "withdrawn" that its report was taken back.
        """
        now = 0.0 if self.schema.anonymous else time.time()  # when an anonymous report came is kept nowhere
        with self._writing() as connection:
            if self._sha256(connection) is not None:
                return ["closed"] * len(uploads)
            users = {upload.user for upload in uploads}
            kept, own = self._messages(connection, users), standings(connection, users)
            answers = [
                _refused(own[one.user], one.generation) or _answer(kept, one.user, one.message) for one in uploads
            ]
            rows = [
                {"user": one.user.encode(), "message": one.message, "proof": one.proof, "received_at": now}
                for one, answer in zip(uploads, answers, strict=True)
                if answer == "stored"
            ]
            self._database.insert(connection, REPORTS, rows)
            self._alert(connection, "report", [upload.user for upload in uploads], answers, now)
        return answers

    def issue(self, asked: Sequence[Asked]) -> list[Answer]:
        """Write down in one transaction who gets a token, and say of each what became of it.

        "stored" and "repeated" mean that this blinded text is the one that may be signed for the user, as often as it is asked
        for; "conflict" that another one is, which is an alert; "closed" and "revoked" what they mean for :meth:`add`.
        """
        with self._writing() as connection:
            if self._sha256(connection) is not None:
                return ["closed"] * len(asked)
            users = {one.user for one in asked}
            kept, own = dict(rows_of(connection, users, TOKENS, "blinded")), standings(connection, users)
            answers = [_refused(own[one.user], one.generation) or _answer(kept, one.user, one.blinded) for one in asked]
            rows = [
                {"user": one.user.encode(), "blinded": one.blinded}
                for one, answer in zip(asked, answers, strict=True)
                if answer == "stored"
            ]
            self._database.insert(connection, TOKENS, rows)
            self._alert(connection, "token", [one.user for one in asked], answers, time.time())
        return answers

    def revoke(self, user: str, seen: Listed) -> int:
        """Take back code, enrolment and report of a user, and return how often that happened to this user.

        The code of the next generation counts from then on. Whoever had a report here may send another one under it, so a report
        that is deleted is an alert, and counts as spent.
        """
        with self._taking_back(user, seen) as connection:
            connection.execute(sql.delete(USERS).where(USERS.c.user == user.encode()))
            if seen.reported or seen.withdrawn:
                self._alert(connection, "report", [user], ["conflict"], time.time())
            write_line(connection, "revoked", "operator", user)
        return seen.generation + 1

    def withdraw(self, user: str, seen: Listed) -> None:
        """Delete the report of a user. None is taken again, unless the code is revoked; the enrolment stays."""
        if not seen.reported:
            raise DataError(f"Expected {user} to have a report, got none. Revoke the code, if no report is to come.")
        with self._taking_back(user, seen) as connection:
            write_line(connection, "withdrawn", "operator", user)

    def take_back(self, asked: Sequence[Upload]) -> list[Answer]:
        """Delete the reports of users whose devices ask for it, in one transaction, and say of each what became of it.

        "stored" means that the withdrawal is on disk: the report, if there was one, is gone, and none is taken; "repeated" that
        this was so before, "closed" and "revoked" what they mean for :meth:`add`. A withdrawal of another message than the stored
        one is an alert, too: the device drew two reports, and the server has seen both.
        """
        users, now = {one.user for one in asked}, time.time()
        with self._writing() as connection:
            if self._sha256(connection) is not None:
                return ["closed"] * len(asked)
            own, answers = standings(connection, users), list[Answer]()
            kept = self._messages(connection, users)
            for one in asked:
                refused = _refused(own[one.user], one.generation)
                answers.append("repeated" if refused == "withdrawn" else refused or "stored")
                if answers[-1] == "stored":
                    if kept.get(one.user, one.message) != one.message:
                        self._alert(connection, "report", [one.user], ["conflict"], now)
                    connection.execute(sql.delete(REPORTS).where(REPORTS.c.user == one.user.encode()))
                    write_line(connection, "withdrawn", "device", one.user)
                    own[one.user] = own[one.user]._replace(withdrawn=True)
        self._unflushed |= "stored" in answers
        if self._unflushed:
            self._unflushed = not self._database.flush(wait=False)
        return answers

    @property
    def is_flushed(self) -> bool:
        """Whether what was deleted last is gone from the files of SQLite, too; a reader may hold it there."""
        return not self._unflushed

    def close(self) -> tuple[str, int]:
        """Close the collection for good, and return its SHA-256 and its number of reports; the same again if it is closed.

        Of an anonymous collection a copy of the store tells from then on nothing of the order in which reports came, nor who got
        a token: reports, users and alerts are written again by their keys, times of enrolments become 0, and the rows of tokens
        go. It does not reach copies that were made before, logs of the database, or blocks of the disk that it gave back.
        """
        with self._writing() as connection:
            sha256, reports, digest = self._sha256(connection), count(connection, REPORTS), hashlib.sha256()
            if self.schema.anonymous and reports < self.schema.anonymous.least_reports:
                raise FewReportsError(
                    f"Expected {self.schema.anonymous.least_reports:,} anonymous reports or more, got {reports:,}. Wait for "
                    "more: with fewer this collection is not closed, and nothing is computed from it."
                )
            for piece in pieces(self.schema, reports, self._stream(connection).canonical):
                digest.update(piece)
            if sha256 is None:
                connection.execute(sql.update(META).values(closed_at=time.time(), sha256=digest.hexdigest()))
                if self.schema.anonymous:
                    _forget_order(connection)
            elif sha256 != digest.hexdigest():
                raise self._altered(sha256)
        if self.schema.anonymous:
            self._unflushed = not self._database.repack()
        return digest.hexdigest(), reports

    @contextmanager
    def _writing(self) -> Iterator[Connection]:
        with self._database.writing() as connection:
            if self._format < FORMAT:
                migrate(connection)
            yield connection
        self._format = FORMAT

    @contextmanager
    def _taking_back(self, user: str, seen: Listed) -> Iterator[Connection]:
        """A transaction in which the report of a user is gone, also from the files of SQLite."""
        with self._writing() as connection:
            if self._sha256(connection) is not None:
                raise DataError(
                    f"Expected {self.name} to be open, got a closed collection. Its file has a name, and nothing leaves it."
                )
            if look_up(connection, user) != seen:
                raise DataError(
                    f"Expected {user} as before, got a user who changed meanwhile. Start the command again."
                )
            if self.schema.anonymous and (seen.reported or any(rows_of(connection, [user], TOKENS))):
                raise DataError(
                    f"Expected {user} to have no token, got one. Nobody can tell whose an anonymous report is, so none is taken "
                    "back."
                )
            connection.execute(sql.delete(REPORTS).where(REPORTS.c.user == user.encode()))
            yield connection
        self._unflushed = not self._database.flush()

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


def _forget_order(connection: Connection) -> None:
    """Leave nothing that joins who asked for a token and which report came, in the transaction that closes a collection."""
    connection.execute(sql.delete(TOKENS))
    connection.execute(sql.update(USERS).values(enrolled_at=0.0))
    for table in (TOKENS, USERS, REPORTS, ALERTS):
        rewrite(connection, table)


def _refused(standing: Standing, generation: int) -> Answer | None:
    """Why no report of a user with keys of this generation is taken, if none is."""
    return "revoked" if generation != standing.generation else "withdrawn" if standing.withdrawn else None


def _answer(kept: dict[str, T], user: str, value: T) -> Answer:
    """What becomes of a value of a user beside those that are kept; the first one is added to them."""
    if user not in kept:
        kept[user] = value
        return "stored"
    return "repeated" if kept[user] == value else "conflict"
