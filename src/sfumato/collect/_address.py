"""Where a store is: the path of an SQLite file, or the URL of a PostgreSQL database, as text without its secrets."""

from __future__ import annotations

import re
from pathlib import Path

import sqlalchemy as sql
from sqlalchemy.exc import SQLAlchemyError

from sfumato._optional import check_installed
from sfumato.collect._checks import check_plain, no_file
from sfumato.errors import InputError

_SHOWN = {"host", "port", "dbname", "user", "sslmode", "sslrootcert", "connect_timeout", "options"}
"""The parameters of a URL that hold no secret, where their value is a plain word."""
_READ_ONLY = {"mode": "ro", "uri": "true"}
"""The only parameters that the URL of an SQLite file may have."""
_WORD = re.compile(r"[\w.,/+-]*")


class Address:
    """The place of a store; ``where`` names it."""

    def __init__(self, where: str) -> None:
        if "://" not in where:
            check_plain(where)
        try:
            self.url = sql.make_url(where) if "://" in where else sql.URL.create("sqlite", database=where)
        except (SQLAlchemyError, ValueError) as error:
            raise _other("another URL") from error
        kind, _, driver = self.url.drivername.partition("+")
        self.is_file = kind == "sqlite"
        if kind not in ("sqlite", "postgresql") or driver not in ("", "pysqlite" if self.is_file else "psycopg"):
            raise _other(f"one of the kind {self.url.drivername!r}")
        if self.is_file:
            self._check_file()
        else:
            self._check_parts()
            check_installed("psycopg")
            self.url = self.url.set(drivername="postgresql+psycopg")

    @property
    def name(self) -> str:
        """How messages and logs call the store."""
        if self.is_file:
            return self.url.database or ""
        query = {name: value if _is_shown(name, value) else "hidden" for name, value in self.url.query.items()}
        return self.url.set(query=query).render_as_string(hide_password=True)

    @property
    def path(self) -> Path | None:
        """The file of an SQLite database that is named without further parameters."""
        return Path(self.name) if self.is_file and not self.url.query else None

    def cleaned(self, text: str) -> str:
        """Return what a driver said in ``text`` without the secrets of this URL."""
        hidden = (one for name, value in self.url.query.items() if not _is_shown(name, value) for one in _values(value))
        for secret in (self.url.password, *hidden):
            text = text.replace(secret, "***") if secret else text
        return text

    def _check_file(self) -> None:
        database, url = self.url.database or "", self.url
        if url.query == _READ_ONLY and database.startswith("file:"):
            database = database.removeprefix("file:")
        elif url.query:
            raise no_file()
        if not database.strip() or ":memory:" in database or url.host or url.username:
            raise no_file()
        check_plain(database)

    def _check_parts(self) -> None:
        """Refuse parts that can hold what belongs to a password, or a whole other address, which drivers read as such."""
        names = (self.url.database, *_values(self.url.query.get("dbname", ())))
        if any(set("@=:%/") & set(name or "") for name in names) or set("@=") & set(self.url.host or ""):
            raise _other(
                "a URL whose host or name is none; write @ in a user or password as %40, / as %2F, and : as %3A"
            )


def _values(value: str | tuple[str, ...]) -> tuple[str, ...]:
    return (value,) if isinstance(value, str) else value


def _is_shown(name: str, value: str | tuple[str, ...]) -> bool:
    return name in _SHOWN and all(_WORD.fullmatch(one) for one in _values(value))


def _other(got: str) -> InputError:
    return InputError(
        "Expected the path of an SQLite file, such as reports.sqlite, or the URL of a PostgreSQL database, such as "
        f"postgresql+psycopg://user@host/name, got {got}."
    )
