"""How a server answers devices, and refuses: one sentence and its remedy, counted, and logged without the name of a user."""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any

from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response

from sfumato.collect._sentences import CLOSED, UNPROVED
from sfumato.collect._stored import FewReportsError
from sfumato.collect._wire import is_token_name, public_id
from sfumato.errors import DataError

if TYPE_CHECKING:
    from sfumato.collect._contract import Contract
    from sfumato.collect._observe import Metrics
    from sfumato.collect._store import Answer, Enrolment
    from sfumato.web._logs import Log

GOOD = ("stored", "repeated")


class RefusalError(Exception):
    """What the server answers instead of doing what it was asked.

    ``detail`` is a sentence and its remedy, and holds no part of a report; ``retry_after`` is None if it would not help.
    """

    def __init__(self, status: int, detail: str, retry_after: float | None = None, user: str | None = None) -> None:
        super().__init__(detail)
        self.status, self.detail, self.retry_after, self.user = status, detail, retry_after, user


class Refusals:
    """The answers to what goes wrong, logged with the start of a hash instead of the user.

    Of an ``anonymous`` survey nothing is logged that was refused under the name of a token: a line has a time, and in the closed
    file the name has an answer.
    """

    def __init__(self, schema: Contract, metrics: Metrics, log: Log, anonymous: bool = False) -> None:
        self._schema, self._metrics, self._log, self._anonymous = schema, metrics, log, anonymous

    def handlers(self) -> dict[int | type[Exception], Callable[[Request, Any], Coroutine[Any, Any, Response]]]:
        return {
            RefusalError: self._refuse,
            DataError: self._fail,
            FewReportsError: self._wait,
            HTTPException: self._decline,
            ClientDisconnect: self._leave,
            Exception: self._crash,
        }

    def note(self, refusal: RefusalError) -> None:
        self._metrics.refusals.labels(str(refusal.status)).inc()
        if self._anonymous and refusal.user is not None and is_token_name(refusal.user):
            return
        facts: dict[str, object] = {"detail": refusal.detail}
        if refusal.user is not None:
            facts["user"] = f"{public_id(self._schema, refusal.user):016x}"[:12]
        self._log.say(f"refused {refusal.status}", facts=facts)

    async def _refuse(self, _request: Request, error: RefusalError) -> Response:
        self.note(error)
        again = {} if error.retry_after is None else {"retry-after": str(math.ceil(error.retry_after))}
        return JSONResponse({"detail": error.detail}, error.status, again)

    async def _fail(self, request: Request, error: DataError) -> Response:
        """The store cannot be used now; the operator's log says why."""
        self._log.say("store", logging.ERROR, {"detail": str(error)})
        detail = "The server cannot use its store now, and nothing was acknowledged. Send the same bytes again later."
        return await self._refuse(request, RefusalError(503, detail, retry_after=10))

    async def _wait(self, request: Request, error: FewReportsError) -> Response:
        return await self._refuse(request, RefusalError(409, str(error)))

    async def _decline(self, _request: Request, error: HTTPException) -> Response:
        """What the router and the check of the token refuse."""
        unknown = error.status_code in (404, 405)
        detail = (
            "Expected a call that this server has, got another. The page /docs lists them." if unknown else error.detail
        )
        self.note(RefusalError(error.status_code, detail))
        return JSONResponse({"detail": detail}, error.status_code, error.headers)

    async def _leave(self, _request: Request, _error: Exception) -> Response:
        return JSONResponse({"detail": "Expected the whole request, got a part. Send it again."}, 408)

    async def _crash(self, _request: Request, _error: Exception) -> Response:
        return JSONResponse({"detail": "The server has a fault, and nothing was acknowledged. Tell its operator."}, 500)


def answered(outcome: Answer | RefusalError) -> Response:
    if isinstance(outcome, RefusalError):
        raise outcome
    return Response(b'{"answer":"%s"}' % outcome.encode(), status_of(outcome), media_type="application/json")


def enrolled(enrolment: Enrolment, answer: Answer) -> Answer | RefusalError:
    if answer in GOOD:
        return answer
    if answer == "revoked":
        return no_code(enrolment.user)
    detail = "This user has other keys already, which stay. If it was not you, ask the operator."
    return RefusalError(409, detail, user=enrolment.user)


def not_taken(user: str, answer: Answer, what: str = "report") -> RefusalError:
    if answer == "revoked":
        return unproved("signature", user)
    if answer == "withdrawn":
        return RefusalError(410, "The report of this user was withdrawn. None is taken any more.", user=user)
    detail = f"Another {what} of this user is stored, and stays. This one was dropped, and an alert was written."
    return RefusalError(409, detail, user=user)


def no_code(user: str) -> RefusalError:
    return RefusalError(403, "Expected the enrolment code of this user. Ask the operator for it.", user=user)


def unproved(what: str, user: str) -> RefusalError:
    """Build the one answer to strangers and to whoever speaks for another ``user`` without ``what`` proves it."""
    return RefusalError(403, UNPROVED.format(what), user=user)


def gone() -> RefusalError:
    return RefusalError(410, CLOSED)


def status_of(outcome: Answer | RefusalError) -> int:
    return outcome.status if isinstance(outcome, RefusalError) else 201 if outcome == "stored" else 200


def detail_of(outcome: Answer | RefusalError) -> str:
    return outcome.detail if isinstance(outcome, RefusalError) else ""
