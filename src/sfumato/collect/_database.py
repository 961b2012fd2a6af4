"""The database below a store: its tables, its transactions, and what its errors say."""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from functools import cached_property
from typing import TYPE_CHECKING, Any

import sqlalchemy as sql
from sqlalchemy.exc import DBAPIError, SQLAlchemyError

from sfumato.collect import _patience as patience
from sfumato.collect._address import Address
from sfumato.errors import DataError

if TYPE_CHECKING:
    from sqlalchemy import Connection

_AT_ONCE = 1000
_TABLES = sql.MetaData()
_ID = sql.LargeBinary  # ids as UTF-8, so that every database orders them by their bytes
META = sql.Table(
    "meta",
    _TABLES,
    sql.Column("id", sql.Integer, primary_key=True),
    sql.Column("format", sql.Integer, nullable=False),
    sql.Column("schema", sql.Text, nullable=False),
    sql.Column("closed_at", sql.Float),
    sql.Column("sha256", sql.Text),
)
USERS = sql.Table(
    "users",
    _TABLES,
    sql.Column("user", _ID, primary_key=True),
    sql.Column("sign_key", sql.LargeBinary, nullable=False),
    sql.Column("agree_key", sql.LargeBinary, nullable=False),
    sql.Column("enrolled_at", sql.Float, nullable=False),
    sql.Column("generation", sql.Integer, nullable=False, server_default="0"),
)
REPORTS = sql.Table(
    "reports",
    _TABLES,
    sql.Column("user", _ID, primary_key=True),
    sql.Column("message", sql.LargeBinary, nullable=False),
    sql.Column("proof", sql.LargeBinary, nullable=False),
    sql.Column("received_at", sql.Float, nullable=False, index=True),
    sqlite_with_rowid=False,  # such rows would be numbered as they come
)
TOKENS = sql.Table(
    "tokens",  # who got one in an anonymous collection, and a digest of the blinded text that was signed
    _TABLES,
    sql.Column("user", _ID, primary_key=True),
    sql.Column("blinded", sql.LargeBinary, nullable=False),
    sqlite_with_rowid=False,
)
ALERTS = sql.Table(
    "alerts",
    _TABLES,
    sql.Column("kind", sql.String(16), primary_key=True),
    sql.Column("user", _ID, primary_key=True),
    sql.Column("count", sql.Integer, nullable=False),
    sql.Column("first_at", sql.Float, nullable=False),
    sql.Column("last_at", sql.Float, nullable=False),
)
AUDIT = sql.Table(
    "audit",
    _TABLES,
    sql.Column("number", sql.Integer, primary_key=True),
    sql.Column("at", sql.Float, nullable=False),
    sql.Column("act", sql.String(16), nullable=False),
    sql.Column("by", sql.String(16), nullable=False),
    sql.Column("user", _ID, nullable=False, index=True),
)


class StoreError(DataError):
    """The store cannot be read or written: its disk is full, read-only or damaged, or its database does not answer."""


class Database:
    """A database by the path of an SQLite file, or by a URL; ``where`` names it; statements to a ``limited`` one time out."""

    def __init__(self, where: str, limited: bool = False) -> None:
        self._address = Address(where)
        self.name, self.path, self._sqlite = self._address.name, self._address.path, self._address.is_file
        options: dict[str, Any] = {"paramstyle": "named"} if self._sqlite else {"pool_pre_ping": True}
        options |= patience.settings(self._address.url, limited)
        with self._explained():
            self._engine = sql.create_engine(self._address.url, hide_parameters=True, **options)
        self._lock = threading.Lock()  # threads wait for it without the pauses of SQLite's own lock
        self._lines = patience.Lines(self._engine)
        if self._sqlite:
            sql.event.listen(self._engine, "connect", _set_up)

    def create(self, first: dict[str, Any]) -> None:
        """Make the tables, with ``first`` as the row of :data:`META`, unless the database has tables."""
        if self.path is not None and not self.path.exists():
            self.path.touch(0o600)
        with self._explained(), self._engine.begin() as connection:
            if self._sqlite:
                connection.exec_driver_sql("PRAGMA journal_mode=WAL")
                connection.exec_driver_sql("BEGIN IMMEDIATE")
            else:
                patience.check_durable(connection, self.name)
                connection.execute(
                    sql.text("select pg_advisory_xact_lock(738265)")
                )  # any number; two servers may start
            if not sql.inspect(connection).get_table_names():
                _TABLES.create_all(connection)
                connection.execute(sql.insert(META).values(**first))

    def check(self) -> None:
        """Refuse what is no store, and an SQLite file whose pages are damaged."""
        if self.path is not None and not self.path.exists():
            raise DataError(f"Expected {self.name} to be the store of a collection, got no file. Check the path.")
        with self.reading() as connection:
            if not sql.inspect(connection).has_table("meta"):
                raise DataError(f"Expected {self.name} to be the store of a collection, got another database.")
            if self._sqlite and connection.exec_driver_sql("PRAGMA quick_check(1)").scalar() != "ok":
                raise StoreError(f"Expected {self.name} to be whole, got damage. Restore it from its backup.")

    @contextmanager
    def writing(self) -> Iterator[Connection]:
        """Hold the collection's lock in a transaction, also against other processes; all is on disk at the end of the block."""
        with self._alone(), self._explained(), self._engine.begin() as connection, self._lines.used(connection):
            if self._sqlite:
                connection.exec_driver_sql("BEGIN IMMEDIATE")
            else:
                connection.execute(sql.select(META.c.id).with_for_update())
            yield connection

    @contextmanager
    def reading(self) -> Iterator[Connection]:
        """Read the database as it is at one moment."""
        with self._explained(), self._engine.connect() as connection:
            if self._sqlite:
                connection.exec_driver_sql("BEGIN")
            else:
                connection.execution_options(isolation_level="REPEATABLE READ")
            with self._lines.used(connection):
                yield connection

    def insert(self, connection: Connection, table: sql.Table, rows: Sequence[dict[str, Any]]) -> None:
        """Add ``rows``, in which every column of the ``table`` has a value, in the transaction of the ``connection``."""
        if rows:
            connection.exec_driver_sql(self._inserts[table.name], list(rows))

    def flush(self, *, wait: bool = True) -> bool:
        """Write the write-ahead log of SQLite into its file and empty it; return whether it is empty.

        While somebody reads, it cannot be emptied, and to ``wait`` for that keeps everybody from writing.
        """
        if not self._sqlite:
            return True
        with self._explained(), self._engine.connect() as connection:
            connection.exec_driver_sql(f"PRAGMA busy_timeout={1000 * patience.BUSY * wait:.0f}")
            try:
                return not connection.exec_driver_sql("PRAGMA wal_checkpoint(TRUNCATE)").scalar_one()
            finally:
                connection.exec_driver_sql(f"PRAGMA busy_timeout={1000 * patience.BUSY:.0f}")

    def repack(self) -> bool:
        """Write the file of SQLite again, so that its pages follow from its rows alone; return what :meth:`flush` does."""
        if self._sqlite:
            with self._explained(), self._engine.connect() as connection:
                connection.exec_driver_sql("VACUUM")
        return self.flush()

    def cut(self) -> None:
        """Let threads that wait for a database which hangs get an error."""
        self._lines.cut()

    def dispose(self) -> None:
        self._engine.dispose()

    @cached_property
    def _inserts(self) -> dict[str, str]:
        """The text of an insertion into each table; to compile it for every row would cost more than the database."""
        return {
            name: str(sql.insert(table).compile(dialect=self._engine.dialect)) for name, table in _TABLES.tables.items()
        }

    @contextmanager
    def _alone(self) -> Iterator[None]:
        if not self._lock.acquire(timeout=-1 if patience.PATIENT.get() else patience.BUSY):
            raise StoreError(
                f"Expected {self.name} to be free to write, got a transaction that takes long. Wait for it."
            )
        try:
            yield
        finally:
            self._lock.release()

    @contextmanager
    def _explained(self) -> Iterator[None]:
        """Let errors of the database say which one it is and what to do."""
        try:
            yield
        except SQLAlchemyError as error:
            said = str(error.orig if isinstance(error, DBAPIError) else error).strip().partition("\n")[0].rstrip(".")
            said = self._address.cleaned(said)
            raise StoreError(
                f"Expected {self.name} to work as a store, got: {said}. {self._remedy(error, said)}"
            ) from error

    def _remedy(self, error: SQLAlchemyError, said: str) -> str:
        if "not a database" in said:
            return "Check the path; if it is right, restore the file from its backup."
        connected = not isinstance(error, DBAPIError) or error.statement is not None
        if not self._sqlite and not connected:
            return "Check that the database runs, and its address, user and password."
        return (
            "Make room on its disk, check its rights, or restore it from its backup. "
            "What was acknowledged is not lost by this."
        )


def rows_of(
    connection: Connection, users: Collection[str], table: sql.Table, *columns: str
) -> Iterator[tuple[Any, ...]]:
    ids = [user.encode() for user in users]
    wanted = sql.select(table.c.user, *(table.c[name] for name in columns))
    for start in range(0, len(ids), _AT_ONCE):
        for user, *values in connection.execute(wanted.where(table.c.user.in_(ids[start : start + _AT_ONCE]))):
            yield user.decode(), *values


def rows_of_all(
    connection: Connection, users: Collection[str], table: sql.Table, *columns: str
) -> Iterator[tuple[Any, ...]]:
    """Yield what :func:`rows_of` yields, and of users who are not in the table a row of None."""
    ids = [(user.encode(),) for user in users]
    name: sql.ColumnClause[bytes] = sql.column("name", _ID)
    for start in range(0, len(ids), _AT_ONCE):
        asked = sql.values(name, name="asked").data(ids[start : start + _AT_ONCE]).cte("asked")
        joined = sql.outerjoin(asked, table, asked.c.name == table.c.user)
        for user, *values in connection.execute(
            sql.select(asked.c.name, *(table.c[one] for one in columns)).select_from(joined)
        ):
            yield bytes(user).decode(), *values


def in_order(connection: Connection, block: int) -> Iterator[bytes]:
    """Yield all messages, ascending by the bytes of the user id, reading a ``block`` of them at once from a ``connection``.

    Each block begins behind the last user of the one before, so that no database holds all of them ready.
    """
    last: bytes | None = b""
    wanted = sql.select(REPORTS.c.user, REPORTS.c.message).order_by(REPORTS.c.user).limit(block)
    while last is not None:
        rows = connection.execute(wanted.where(REPORTS.c.user > last)).all()
        last = rows[-1].user if rows else None
        yield from (row.message for row in rows)


def count(connection: Connection, table: sql.Table, *which: sql.ColumnElement[bool]) -> int:
    return connection.scalar(sql.select(sql.func.count()).select_from(table).where(*which)) or 0


def rewrite(connection: Connection, table: sql.Table) -> None:
    """Put the rows of a ``table`` into a new one, ascending by their keys, and drop the old one, in one transaction.

    A database keeps traces of the order in which rows came: PostgreSQL the transaction of each row and its place, SQLite numbers
    of rows and their places within a page. Of the new table all of these follow from the keys alone.
    """
    made = table.to_metadata(sql.MetaData(), name=f"{table.name}_sorted")
    made.indexes.clear()  # whose names are taken as long as the old table is there
    made.create(connection)
    ordered = sql.select(table).order_by(*table.primary_key.columns)
    connection.execute(sql.insert(made).from_select([column.name for column in table.columns], ordered))
    table.drop(connection)
    connection.exec_driver_sql(f"ALTER TABLE {made.name} RENAME TO {table.name}")
    for index in table.indexes:
        index.create(connection)


def _set_up(connection: Any, _record: object) -> None:
    connection.isolation_level = None  # transactions begin where this module says so
    connection.execute(f"PRAGMA busy_timeout={1000 * patience.BUSY:.0f}")
    connection.execute("PRAGMA synchronous=FULL")
    connection.execute("PRAGMA secure_delete=ON")  # what is withdrawn leaves zeros


def _add_audit(connection: Connection) -> None:
    """Format 2: codes can be revoked, and reports withdrawn."""
    connection.exec_driver_sql("ALTER TABLE users ADD COLUMN generation INTEGER DEFAULT 0 NOT NULL")
    AUDIT.create(connection)


def _add_tokens(connection: Connection) -> None:
    """Format 3: collections can be anonymous."""
    TOKENS.create(connection)


_STEPS: dict[int, Callable[[Connection], None]] = {2: _add_audit, 3: _add_tokens}
FORMAT = max(_STEPS)


def migrate(connection: Connection) -> None:
    """Update the tables step by step, in the transaction that first writes to them; another process may have done it already."""
    found = connection.scalar(sql.select(META.c.format)) or 1
    for step in range(found + 1, FORMAT + 1):
        _STEPS[step](connection)
        connection.execute(sql.update(META).values(format=step))
