"""How much a store holds."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

import sqlalchemy as sql

from sfumato.collect._database import ALERTS, REPORTS, USERS, count

if TYPE_CHECKING:
    from sqlalchemy import Connection


@dataclass(frozen=True)
class Alert:
    """What a user was refused: "report" for another report than the stored one, "key" for another key; times are since 1970."""

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
    hour = sql.cast(sql.func.floor(REPORTS.c.received_at / 3600), sql.Integer)
    second = ALERTS.c.kind == "report"
    recent = REPORTS.c.received_at > time.time() - 60
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
