"""What the endpoints of a server answer, as its OpenAPI page describes it."""

from __future__ import annotations

import time
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from fastapi.routing import APIRoute

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import Response

    from sfumato.collect._schema import Schema
    from sfumato.collect._stored import Counts


@dataclass(frozen=True)
class Detail:
    """A refusal: one sentence and its remedy."""

    detail: str


@dataclass(frozen=True)
class Taken:
    """What became of a report, an enrolment or a withdrawal: new, or the same as before."""

    answer: Literal["stored", "repeated"]


@dataclass(frozen=True)
class Signed:
    """A blinded token with the signature of the server, in hexadecimal digits."""

    signed: str


@dataclass(frozen=True)
class Place:
    """What a report of a batch was refused for.

    Args:
        place: its place in the batch, from 0.
        status: what it would get alone.
        detail: a sentence and its remedy.
    """

    place: int
    status: int
    detail: str


@dataclass(frozen=True)
class BatchAnswer:
    """What became of the reports of a batch.

    Args:
        stored: how many are new.
        repeated: how many were stored before.
        refused: those that are not stored.
    """

    stored: int
    repeated: int
    refused: list[Place]


@dataclass(frozen=True)
class UserAnswer:
    """What an enrolment in a list would be answered alone."""

    status: int
    detail: str


@dataclass(frozen=True)
class Status:
    """The state of the collection.

    Args:
        schema: SHA-256 of the schema.
        state: whether reports are taken.
        opens: from when on, in UTC.
        closes: until when, in UTC.
        sha256: the name of the closed collection, or null.
    """

    schema: str
    state: Literal["waiting", "open", "closed"]
    opens: str
    closes: str
    sha256: str | None


@dataclass(frozen=True)
class ClosedAnswer:
    """The name of the closed collection, and the number of its reports."""

    sha256: str
    reports: int


@dataclass(frozen=True)
class HourCount:
    """The number of reports that came within an hour."""

    hour: str
    reports: int


@dataclass(frozen=True)
class AlertAnswer:
    """What a user was refused.

    Args:
        kind: another "report", "key" or "token" than the stored one.
        user: the public user id.
        count: how often this happened.
        first: when first, in UTC; empty for a report of an anonymous survey, as last is.
        last: when last, in UTC.
    """

    kind: Literal["report", "key", "token"]
    user: str
    count: int
    first: str
    last: str


@dataclass(frozen=True)
class Budget:
    """What reports cost their users.

    Args:
        epsilon: cost of one report.
        delta: failure probability of one report.
        statement: what devices show their users.
        users_who_spent_again: how many users sent another report than the stored one, which this server has seen.
        most_epsilon: what the one of them who sent most has spent here, at most.
        most_delta: the same of delta.
    """

    epsilon: float
    delta: float
    statement: str
    users_who_spent_again: int
    most_epsilon: float
    most_delta: float


@dataclass(frozen=True)
class CountsAnswer:
    """What the store holds.

    Args:
        status: as of the call for it.
        users: how many are enrolled.
        reports: how many are stored.
        reports_a_second: mean of the last minute.
        hours: those that have reports, in ascending order.
        alerts: the latest 100, the last one first.
        budget: what users have spent.
    """

    status: Status
    users: int
    reports: int
    reports_a_second: float
    hours: list[HourCount]
    alerts: list[AlertAnswer]
    budget: Budget


WORDS = {
    400: "The bytes are not the canonical form of what is expected.",
    401: "The admin token is missing or wrong.",
    403: "The user is not enrolled, or code or signature are wrong.",
    404: "This is for another schema.",
    408: "The request took too long.",
    409: "Something else is stored for this user already, and stays. This was dropped, and an alert was written.",
    410: "The collection is closed.",
    413: "The request is too large.",
    422: "The JSON is malformed.",
    425: "The collection is not open yet.",
    429: "This user or this address sends too much. Wait for Retry-After seconds.",
    431: "The headers are too large.",
    500: "The server has a fault. Nothing was acknowledged.",
    503: "The server cannot store now, and nothing was acknowledged. Send the same bytes after Retry-After seconds.",
}
_WITHDRAWN = "The collection is closed, or the report of this user was withdrawn."
_OWN_WORDS = {
    "/users": {200: "It was stored before, and nothing changed. For a list: what each one would get alone."},
    "/reports": {410: _WITHDRAWN},
    "/tokens": {200: "It was signed before, and this is the same signature.", 201: "It is signed."},
    "/withdrawals": {
        200: "It was withdrawn before, and nothing changed.",
        201: "The report is deleted, and none is taken.",
    },
}
_USER = {
    "type": "object",
    "required": ["user", "sign_key", "agree_key", "code"],
    "additionalProperties": False,
    "properties": {
        "user": {"type": "string", "minLength": 1, "maxLength": 64},
        "sign_key": {"type": "string", "pattern": "^[0-9a-f]{64}$"},
        "agree_key": {"type": "string", "pattern": "^[0-9a-f]{64}$"},
        "code": {"type": "string", "pattern": "^[0-9a-f]{32}$"},
    },
}
TOKEN = {
    "application/json": {
        "schema": {
            "type": "object",
            "required": ["user", "blinded", "signature"],
            "additionalProperties": False,
            "properties": {
                "user": {"type": "string", "minLength": 1, "maxLength": 64},
                "blinded": {"type": "string", "pattern": "^[0-9a-f]{512,1024}$"},
                "signature": {"type": "string", "pattern": "^[0-9a-f]{128}$"},
            },
        }
    }
}
USERS = {
    "application/json": {
        "schema": {"anyOf": [_USER, {"type": "array", "minItems": 1, "maxItems": 1000, "items": _USER}]}
    }
}
BYTES = {"application/octet-stream": {"schema": {"type": "string", "format": "binary"}}}


_JSON = {"application/json": {"schema": {"type": "object"}}}
_TEXT = {"text/plain": {"schema": {"type": "string"}}}
_HTML = {"text/html": {"schema": {"type": "string"}}}
_UPLOAD = (400, 403, 404, 410, 425, 429)
CALLS: tuple[tuple[str, str, dict[int, Any], tuple[int, ...], dict[str, Any] | None], ...] = (
    ("POST", "/reports", {200: Taken, 201: Taken}, (*_UPLOAD, 409), BYTES),
    ("GET", "/schema", {200: _JSON}, (), None),
    ("GET", "/status", {200: Status}, (), None),
    ("POST", "/users", {200: Taken | list[UserAnswer], 201: Taken}, (403, 409, 422, 429), USERS),
    ("POST", "/tokens", {200: Signed}, (400, 403, 409, 410, 422, 429), TOKEN),
    ("POST", "/batches", {200: BatchAnswer}, _UPLOAD, BYTES),
    ("POST", "/withdrawals", {200: Taken, 201: Taken}, (400, 403, 404, 410, 429), BYTES),
    ("POST", "/close", {200: ClosedAnswer, 202: Detail}, (401, 409), None),
    ("GET", "/export", {200: BYTES}, (401, 409), None),
    ("GET", "/counts", {200: CountsAnswer}, (401,), None),
    ("GET", "/metrics", {200: _TEXT}, (401,), None),
    ("GET", "/", {200: _HTML}, (401,), None),
)
"""Method, path, answers of success, further refusals and body of each call. A call that may answer 401 is the operator's."""


class Direct(APIRoute):
    """A route whose call reads the request itself, without the machinery for parameters."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        return self.endpoint


def counted(schema: Schema, status: dict[str, Any], counts: Counts) -> dict[str, Any]:
    times = 1 + counts.most_second
    return {
        "status": status,
        "users": counts.users,
        "reports": counts.reports,
        "reports_a_second": counts.last_minute / 60,
        "hours": [{"hour": _utc(start), "reports": number} for start, number in counts.hours],
        "alerts": [
            {
                "kind": one.kind,
                "user": one.user,
                "count": one.count,
                "first": _utc(one.first_at) if one.first_at else "",
                "last": _utc(one.last_at) if one.last_at else "",
            }
            for one in counts.alerts
        ],
        "budget": {
            "epsilon": schema.epsilon,
            "delta": schema.delta,
            "statement": schema.statement(),
            "users_who_spent_again": counts.second_reports,
            "most_epsilon": times * schema.epsilon,
            "most_delta": min(1.0, times * schema.delta),
        },
    }


def documented(
    good: dict[int, Any], refusals: tuple[int, ...] = (), body: dict[str, Any] | None = None, *, path: str = ""
) -> dict[str, Any]:
    """Build the options of a FastAPI route that describe it; some words are those of a ``path`` alone."""
    words = {
        200: "It was stored before, and nothing changed.",
        201: "It is stored.",
        **WORDS,
        **_OWN_WORDS.get(path, {}),
    }
    described: dict[int, Any] = {
        status: {
            "description": words[status] if 201 in good else "As asked.",
            **({"content": what} if isinstance(what, dict) else {"model": what}),
        }
        for status, what in good.items()
    }
    limited = {429} if 401 in refusals else set()  # whoever sends many wrong tokens
    for status in sorted({*refusals, *limited, 408, 413, 431, 500, 503}):
        described[status] = {"model": Detail, "description": words[status]}
    extra = {"requestBody": {"required": True, "content": body}} if body else None
    return {"responses": described, "response_model": None, "status_code": min(good), "openapi_extra": extra}


def _utc(seconds: float) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(seconds))
