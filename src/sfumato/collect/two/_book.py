"""The book of one server: who is enrolled, each report once, and each step of the aggregation with the bytes that it gave.

One SQLite file. A transaction is on disk when it returns, and a process that dies within one leaves the book as it was.
"""

from __future__ import annotations

import errno
import hashlib
import os
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NamedTuple

from sfumato.collect.two._agreement import Agreement, Partition
from sfumato.errors import DataError

STEPS = ("list", "proofs", "accepted", "opening")
ABORT = "abort"
_TABLES = """
CREATE TABLE meta (id INTEGER PRIMARY KEY CHECK (id = 1), server INTEGER, agreement TEXT, cells TEXT, first TEXT,
    second TEXT) STRICT;
CREATE TABLE secrets (id INTEGER PRIMARY KEY CHECK (id = 1), seal BLOB NOT NULL, joint BLOB NOT NULL) STRICT;
CREATE TABLE users (user TEXT PRIMARY KEY, sign_key BLOB NOT NULL) STRICT, WITHOUT ROWID;
CREATE TABLE reports (user TEXT PRIMARY KEY, message BLOB NOT NULL, nonce BLOB NOT NULL UNIQUE, public BLOB NOT NULL,
    sealed BLOB NOT NULL UNIQUE, share BLOB) STRICT;
CREATE TABLE steps (step TEXT PRIMARY KEY, given BLOB NOT NULL, made BLOB NOT NULL) STRICT;
"""


class Report(NamedTuple):
    """A report as it is kept: ``message`` and ``sealed`` are digests, ``share`` is encrypted, and gone once cells are opened."""

    user: str
    message: bytes
    nonce: bytes
    public: bytes
    sealed: bytes
    share: bytes | None


class Secrets(NamedTuple):
    """The secret key of the agreement that shares are sealed to, and the verification key: both are gone after the opening."""

    seal: bytes
    joint: bytes


class Step(NamedTuple):
    """A step that was taken: what the other server had given, and what this one answered."""

    given: bytes
    made: bytes


class Book:
    """The book in the file ``path``."""

    def __init__(self, path: Path) -> None:
        self._path = path
        with self.reading() as connection:
            row = connection.execute("SELECT server, agreement, cells, first, second FROM meta").fetchone()
        if row is None:
            raise DataError(f"Expected {path.name} to be the book of a server, got another file.")
        self.server: int = row[0]
        self.agreement, self.partition = Agreement.from_json(row[1]), Partition.from_text(row[2])
        self.signatures: tuple[str, str] = (row[3], row[4])

    @classmethod
    def create(
        cls,
        path: Path,
        server: int,
        agreement: Agreement,
        partition: Partition,
        signatures: tuple[str, str],
        secrets: Secrets,
    ) -> Book:
        """Make a new book. The file must not be there, unless a process that was killed while it made a book left it.

        Nor may the file of an opening or an abort be there: it is of another book, and stood in the way of this one.
        """
        for step in (STEPS[-1], ABORT):
            if (found := _beside(path, step)).exists():
                raise DataError(
                    f"Expected a new place for a book, got one beside {found.name} of another agreement. Take a new folder."
                )
        with suppress(FileExistsError):
            os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
        if not _is_empty(path):
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), str(path))
        path.chmod(0o600)
        connection = sqlite3.connect(path, isolation_level=None)
        try:
            meta = (server, agreement.text, partition.text, *signatures)
            connection.executescript(f"BEGIN IMMEDIATE; {_TABLES}")
            connection.execute("INSERT INTO meta VALUES (1, ?, ?, ?, ?, ?)", meta)
            connection.execute("INSERT INTO secrets VALUES (1, ?, ?)", secrets)
            connection.execute("COMMIT")
        finally:
            connection.close()
        return cls(path)

    @contextmanager
    def reading(self) -> Iterator[sqlite3.Connection]:
        """A connection that is closed at the end; a writer in the same process or another waits for nobody for long."""
        if not self._path.exists():
            raise DataError(f"Expected the book of a server, got no file {self._path.name}.")
        connection = sqlite3.connect(self._path, timeout=60, isolation_level=None)
        try:
            connection.execute("PRAGMA synchronous = EXTRA")
            connection.execute("PRAGMA secure_delete = ON")
            yield connection
        except (sqlite3.OperationalError, sqlite3.DatabaseError) as error:
            if isinstance(error, (sqlite3.IntegrityError, sqlite3.ProgrammingError)):
                raise
            raise DataError(
                f"Expected {self._path.name} to be a book that this process can use, got: {error}. Nothing was changed. If "
                "another process works in it, try again later; else check path and disk."
            ) from error
        finally:
            connection.close()

    @contextmanager
    def writing(self) -> Iterator[sqlite3.Connection]:
        """One transaction, alone: all of it is on disk when it returns, or nothing."""
        with self.reading() as connection:
            connection.execute("BEGIN IMMEDIATE")
            try:
                yield connection
                connection.execute("COMMIT")
            except BaseException:
                if connection.in_transaction:
                    connection.execute("ROLLBACK")
                raise

    @staticmethod
    def step(connection: sqlite3.Connection, name: str) -> Step | None:
        """Return a step, or None before it was taken."""
        row = connection.execute("SELECT given, made FROM steps WHERE step = ?", (name,)).fetchone()
        return None if row is None else Step(*row)

    def once(self, name: str, given: bytes, make: Callable[[sqlite3.Connection], bytes]) -> bytes:
        """Take a step once: later calls return the bytes of the first, and refuse another ``given``.

        ``make`` returns the bytes for the other server, which are on disk before anybody gets them.

        Raises:
            DataError: the step was taken with something else, the one before was not, or this server aborted.
        """
        with self.writing() as connection:
            if name != ABORT and self.aborted(connection):
                raise DataError(f"Expected a collection that goes on, got one that this server aborted: no {name!r}.")
            found = self.step(connection, name)
            if found is not None:
                if found.given != given:
                    name_of = hashlib.sha256(found.given).hexdigest()[:16]
                    raise DataError(
                        f"Expected the file that the step {name!r} was taken with (SHA-256 {name_of}...), got another. A step is "
                        "taken once: nothing new was drawn or told."
                    )
                return found.made
            before = STEPS[STEPS.index(name) - 1] if name in STEPS[1:] else None
            if before is not None and self.step(connection, before) is None:
                raise DataError(f"Expected the step {before!r} before {name!r}. Take it first.")
            made = make(connection)
            connection.execute("INSERT INTO steps VALUES (?, ?, ?)", (name, given, made))
        return made

    def beside(self, step: str) -> Path:
        """The file that keeps what the last step gave: a book that is restored from a copy opens nothing else."""
        return _beside(self._path, step)

    def aborted(self, connection: sqlite3.Connection) -> bool:
        """Tell whether this server gave up."""
        return self.step(connection, ABORT) is not None or self.beside(ABORT).exists()

    @staticmethod
    def secrets(connection: sqlite3.Connection) -> Secrets | None:
        """Return the secrets of the agreement, or None once they are erased. Nothing keeps them in memory for later."""
        row = connection.execute("SELECT seal, joint FROM secrets").fetchone()
        return None if row is None else Secrets(*row)

    @staticmethod
    def erase(connection: sqlite3.Connection) -> None:
        """Erase the secrets and all shares. SQLite writes zeros over what it deletes (``secure_delete``)."""
        connection.execute("DELETE FROM secrets")
        connection.execute("UPDATE reports SET share = NULL")

    @staticmethod
    def reports(connection: sqlite3.Connection) -> list[Report]:
        """Return all reports, by user id in ascending order."""
        return [Report(*row) for row in connection.execute("SELECT * FROM reports ORDER BY user")]


def _beside(path: Path, step: str) -> Path:
    return path.with_name(f"{path.name}.{step}")


def _is_empty(path: Path) -> bool:
    """Tell whether a file is a database without tables, as one whose first transaction did not end."""
    connection = sqlite3.connect(path, isolation_level=None)
    try:
        return not connection.execute("SELECT 1 FROM sqlite_master").fetchall()
    except sqlite3.DatabaseError:
        return False
    finally:
        connection.close()
