"""Stores of earlier formats become those of today, step by step, in the transaction that first writes to them."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import sqlalchemy as sql

from sfumato.collect._database import AUDIT, META

if TYPE_CHECKING:
    from sqlalchemy import Connection


def _add_audit(connection: Connection) -> None:
    """Format 2: codes can be revoked, and reports withdrawn."""
    connection.exec_driver_sql("ALTER TABLE users ADD COLUMN generation INTEGER DEFAULT 0 NOT NULL")
    AUDIT.create(connection)


_STEPS: dict[int, Callable[[Connection], None]] = {2: _add_audit}
FORMAT = max(_STEPS)


def migrate(connection: Connection) -> None:
    """Update the tables to :data:`FORMAT`, under the lock of the store; another process may have done it already."""
    found = connection.scalar(sql.select(META.c.format)) or 1
    for step in range(found + 1, FORMAT + 1):
        _STEPS[step](connection)
        connection.execute(sql.update(META).values(format=step))
