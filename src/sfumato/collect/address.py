"""Where a store is: the path of an SQLite file, or the URL of a PostgreSQL database, as text without its secrets."""

from __future__ import annotations

from pathlib import Path

import sqlalchemy as sql
from sqlalchemy.exc import SQLAlchemyError

from sfumato._optional import check_installed
from sfumato.errors import InputError

_SHOWN = {"host", "port", "dbname", "user", "mode", "uri", "sslmode", "sslrootcert", "connect_timeout", "options"}
"""The parameters of a URL that hold no secret."""


class Address:
    """The place of a store; ``where`` names it.

    Raises:
        InputError: it names no file and no database, or a store that would be gone at the end of the process.

    >>> Address("reports.sqlite").name, Address("reports.sqlite").is_file
    ('reports.sqlite', True)
    """

    def __init__(self, where: str) -> None:
        try:
            self.url = sql.make_url(where) if "://" in where else sql.URL.create("sqlite", database=where)
        except (SQLAlchemyError, ValueError) as error:
            raise _other("another URL") from error
        kind, _, driver = self.url.drivername.partition("+")
        self.is_file = kind == "sqlite"
        if kind not in ("sqlite", "postgresql") or driver not in ("", "pysqlite" if self.is_file else "psycopg"):
            raise _other(f"one of the kind {self.url.drivername!r}")
        if self.is_file:
            self._check_file(where)
        else:
            check_installed("psycopg")
            self.url = self.url.set(drivername="postgresql+psycopg")

    @property
    def name(self) -> str:
        """How messages and logs call the store."""
        if self.is_file:
            return self.url.database or ""
        query = {name: value if name in _SHOWN else "hidden" for name, value in self.url.query.items()}
        return self.url.set(query=query).render_as_string(hide_password=True)

    @property
    def path(self) -> Path | None:
        """The file of an SQLite database that is named without further parameters."""
        return Path(self.name) if self.is_file and not self.url.query else None

    def cleaned(self, text: str) -> str:
        """Return what a driver said in ``text`` without the secrets of this URL."""
        hidden = (value for name, value in self.url.query.items() if name not in _SHOWN)
        for secret in (self.url.password, *hidden):
            text = text.replace(secret, "***") if isinstance(secret, str) and secret else text
        return text

    def _check_file(self, where: str) -> None:
        database, query = self.url.database or "", self.url.query
        in_uri = database.startswith("file:") and query.get("uri") in ("true", "1")
        in_memory = not database.strip() or ":memory:" in database or query.get("mode") == "memory"
        if in_memory or (database.startswith("file:") and not in_uri):
            raise InputError(
                f"Expected the path of an SQLite file, got {where!r}, which names none: reports there would be gone when the "
                "process ends. Write the path alone, such as reports.sqlite."
            )


def _other(got: str) -> InputError:
    return InputError(
        "Expected the path of an SQLite file, such as reports.sqlite, or the URL of a PostgreSQL database, such as "
        f"postgresql+psycopg://user@host/name, got {got}."
    )
