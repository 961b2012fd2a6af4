"""How long a database may take: what hangs is ended, and the server answers 503 instead of waiting with it."""

from __future__ import annotations

import math
import os
import socket
import threading
import time
import weakref
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from typing import Any

import sqlalchemy as sql

from sfumato.errors import InputError

SECONDS = 10.0
"""How long a request waits for the store. Devices wait longer than that for an answer."""
BUSY = 5.0
"""How long a transaction waits for another one, and a thread for a connection."""
PATIENT: ContextVar[bool] = ContextVar("patient", default=False)
"""Whether what follows may take as long as it takes, as closing and exporting do."""
_CONNECT, _STATEMENT = 5, 8.0
_ALIVE = {"keepalives_idle": 10, "keepalives_interval": 5, "keepalives_count": 3, "tcp_user_timeout": 15_000}


def settings(url: sql.URL, limited: bool) -> dict[str, Any]:
    """Return options of an engine: how long it waits for a connection, and a ``limited`` one for a statement."""
    if "psycopg" not in url.drivername:
        return {"pool_timeout": BUSY}
    said = url.query.get("options", ())
    options = [f"-c statement_timeout={1000 * _STATEMENT:.0f}"] * limited + (
        [said] if isinstance(said, str) else [*said]
    )
    limits = {name: value for name, value in {"connect_timeout": _CONNECT, **_ALIVE}.items() if name not in url.query}
    return {"pool_timeout": BUSY, "connect_args": {**limits, "options": " ".join(options)}}


class Lines:
    """Lines to a PostgreSQL server. Those that hang can be cut: its own timeouts end nothing that it does not run any more."""

    def __init__(self, engine: sql.Engine) -> None:
        self._open: weakref.WeakSet[Any] = weakref.WeakSet()
        self._until: weakref.WeakKeyDictionary[Any, float] = weakref.WeakKeyDictionary()
        self._lock, self._any = threading.Lock(), engine.dialect.name == "postgresql"
        if self._any:
            sql.event.listen(engine, "connect", self._opened)

    @contextmanager
    def used(self, connection: sql.Connection) -> Iterator[None]:
        """Keep the line of a ``connection`` from being cut while its transaction is young, or for ever if it is patient."""
        raw = connection.connection.driver_connection
        if not self._any or raw is None:
            yield
            return
        patient = PATIENT.get()
        with self._lock:
            self._until[raw] = math.inf if patient else time.monotonic() + SECONDS / 2
        try:
            if patient:
                connection.exec_driver_sql("set local statement_timeout = 0")
            yield
        finally:
            with self._lock:
                self._until.pop(raw, None)

    def cut(self) -> None:
        """Cut the lines of old transactions, whose threads get an error now, and those that wait to be used."""
        now = time.monotonic()
        with self._lock:
            hanging = [one for one in self._open if self._until.get(one, now) <= now]
        for one in hanging:
            with suppress(Exception), socket.socket(fileno=os.dup(one.fileno())) as line:  # it may be closed by now
                line.shutdown(socket.SHUT_RDWR)

    def _opened(self, raw: Any, _record: object) -> None:
        with self._lock:
            self._open.add(raw)


def check_durable(connection: sql.Connection, name: str) -> None:
    """Refuse a PostgreSQL database of this ``name``, at the ``connection``, that acknowledges what is not on disk yet."""
    for setting, whose in (("fsync", "SYSTEM"), ("synchronous_commit", "DATABASE ...")):
        if connection.exec_driver_sql(f"show {setting}").scalar() == "off":
            raise InputError(
                f"Expected {setting} of {name} to be on, got off: a report that was acknowledged could be lost. Set it: "
                f"ALTER {whose} SET {setting} = on."
            )
