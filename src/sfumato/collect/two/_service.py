"""The HTTP of one of two servers: devices enrol and report, and the other server fetches the files of the aggregation.

| call | who | what |
|---|---|---|
| ``GET /agreement`` | anybody | the agreement with its cells and signatures, in blocks |
| ``GET /keys`` | devices | the public keys of this server, under its own TLS name |
| ``POST /users`` | devices | a public key with the user's enrolment code, or a list of them |
| ``POST /reports`` | devices | one or more messages, one after the other |
| ``GET /steps/NAME`` | the other server, which signs the request | a file of the aggregation, in blocks, once it was made |

No call makes a step: the operator does, by `sfumato collect open` on the book. So nobody can close or open by HTTP.
"""

from __future__ import annotations

import logging
from asyncio import to_thread
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

from fastapi import FastAPI
from fastapi.responses import JSONResponse, Response
from starlette.requests import Request  # noqa: TC002  FastAPI reads annotations while it runs

from sfumato._version import __version__
from sfumato.collect._answers import Direct
from sfumato.collect._bodies import Bodies
from sfumato.collect._intake import read_users
from sfumato.collect._observe import Metrics
from sfumato.collect._refusals import RefusalError, Refusals
from sfumato.collect._writer import BusyError, Writer
from sfumato.collect.two._book import STEPS
from sfumato.collect.two._exchange import BLOCK, BLOCKS, SIGNATURE, asks_for
from sfumato.collect.two._files import Agreed
from sfumato.collect.two._message import split_messages
from sfumato.collect.two._signed import is_signed
from sfumato.errors import SfumatoError
from sfumato.web._addresses import caller
from sfumato.web._limits import Buckets
from sfumato.web._logs import Log
from sfumato.web._metrics import Measured
from sfumato.web._pages import ONLY_OURS

if TYPE_CHECKING:
    from sfumato.collect.two._server import Server

AT_ONCE = 500
_MOST_BYTES = 1 << 22
_OF_STRANGERS = 1 << 16  # of the block of a file that anybody may fetch: slow readers hold a thousand of them
_A_SECOND, _BURST = 500.0, 20_000.0
_LOGGER = logging.getLogger("sfumato.collect")


def create_app(server: Server) -> FastAPI:
    """Build the application of one server, for uvicorn or another ASGI server."""
    service = _Service(server)
    app = FastAPI(
        title=f"Server {server.me} of collection {server.agreement.collection}",
        version=__version__,
        lifespan=service.lifespan,
        exception_handlers=service.refusals.handlers(),
        **ONLY_OURS,
    )
    app.state.metrics = service.metrics
    app.add_middleware(Measured, metrics=service.metrics)
    for method, path in (
        ("GET", "/agreement"),
        ("GET", "/keys"),
        ("POST", "/users"),
        ("POST", "/reports"),
        ("GET", "/steps/{name}"),
        ("GET", "/healthz"),
    ):
        call = getattr(service, path.split("/")[1])
        app.router.add_api_route(path, call, methods=[method], route_class_override=Direct, include_in_schema=False)
    return app


class _Service:
    def __init__(self, server: Server) -> None:
        self._server, agreement = server, server.agreement
        self._agreed = Agreed(agreement, server.book.partition, server.book.signatures).text.encode()
        self._users: Writer[tuple[str, bytes, str], bool | SfumatoError] = Writer(server.enrol_all)
        self._reports: Writer[bytes, bool | SfumatoError] = Writer(server.take_all)
        self._bodies = {name: Bodies() for name in ("users", "reports")}
        self._last: tuple[str, bytes | None] = ("", None)
        self._buckets = Buckets(_A_SECOND, _BURST)
        self.metrics, log = Metrics(lambda: self._reports.waiting), Log(_LOGGER)
        self.refusals = Refusals(agreement, self.metrics, log)

    async def healthz(self, _request: Request) -> Response:
        return JSONResponse({"alive": True})

    async def agreement(self, request: Request) -> Response:
        return _block(request, self._agreed, _OF_STRANGERS)

    async def keys(self, _request: Request) -> Response:
        party = self._server.agreement.parties[self._server.me]
        return JSONResponse({"server": self._server.me, "seal": party.seal, "sign": party.sign})

    async def users(self, request: Request) -> Response:
        async with self._bodies["users"].read(request, _MOST_BYTES) as body:
            values = read_users(body)
            alone = not isinstance(values, list)
            rows = [_enrolment(one) for one in ([values] if alone else values)]
            return await self._written(request, self._users, rows, alone=alone)

    async def reports(self, request: Request) -> Response:
        async with self._bodies["reports"].read(request, _MOST_BYTES) as body:
            try:
                messages = split_messages(self._server.agreement, self._server.me, body)
            except SfumatoError as error:
                raise RefusalError(400, str(error)) from error
            if len(messages) > AT_ONCE:
                raise RefusalError(413, f"Expected at most {AT_ONCE} reports at once, got more. Send less at once.")
            return await self._written(request, self._reports, messages, alone=len(messages) == 1)

    async def steps(self, request: Request) -> Response:
        name, peer = request.path_params["name"], self._server.agreement.parties[1 - self._server.me]
        signature = request.headers.get(SIGNATURE, "").encode("ascii", "replace")
        if not is_signed(asks_for(self._server.agreement.digest), signature, bytes.fromhex(peer.sign)):
            raise RefusalError(401, "Expected the signature of the other server, got another one or none.")
        if name not in STEPS:
            raise RefusalError(404, f"Expected one of the files {', '.join(STEPS)}, got another one.")
        made = await to_thread(self._made, name)
        if made is None and await to_thread(lambda: self._server.is_aborted):
            raise RefusalError(
                410, "This server aborted, and opens nothing. Abort as well, unless you opened: it erases all shares."
            )
        if made is None:
            raise RefusalError(
                409, f"Expected a file {name!r} that is there, got one that was not made yet.", retry_after=5
            )
        return _block(request, made)

    def _made(self, name: str) -> bytes | None:
        """A file of the aggregation, which stays as it is; the last one is kept, as it is asked for block after block."""
        step, kept = self._last
        if step != name:
            kept = self._server.made(name)
            self._last = (name, kept) if kept is not None else ("", None)
        return kept

    @asynccontextmanager
    async def lifespan(self, _app: FastAPI) -> AsyncIterator[None]:
        """Commit what is still waiting at the end."""
        yield
        for writer in (self._users, self._reports):
            await writer.stop()

    async def _written(
        self, request: Request, writer: Writer[Any, bool | SfumatoError], items: Sequence[Any], *, alone: bool
    ) -> Response:
        """Commit items, and answer one as itself, and more as a list in their order."""
        if wait := self._buckets.take(caller(request.client), len(items)):
            raise RefusalError(429, "This address sends too much. Send the same bytes again later.", retry_after=wait)
        try:
            outcomes = await writer.add(items)
        except BusyError as error:
            raise RefusalError(503, "The server is busy. Send the same bytes again later.", retry_after=1) from error
        answers = [_answer(one) for one in outcomes]
        for status, detail in answers:
            if status >= 400:
                self.refusals.note(RefusalError(status, detail))
        if not alone:
            return JSONResponse([{"status": status, "detail": detail} for status, detail in answers])
        status, detail = answers[0]
        return JSONResponse(
            {"detail": detail} if detail else {"answer": "stored" if status == 201 else "repeated"}, status
        )


def _answer(outcome: bool | SfumatoError) -> tuple[int, str]:
    if isinstance(outcome, SfumatoError):
        return 403, str(outcome)
    return (200 if outcome else 201), ""


def _enrolment(values: Any) -> tuple[str, bytes, str]:
    try:
        user, sign_key, code = values["user"], bytes.fromhex(values["sign_key"]), values["code"]
        if set(values) != {"user", "sign_key", "code"} or not isinstance(user, str) or not isinstance(code, str):
            raise ValueError
    except (KeyError, TypeError, ValueError):
        raise RefusalError(
            422, "Expected user, sign_key (64 hexadecimal digits) and code, got something else."
        ) from None
    return user, sign_key, code


def _block(request: Request, content: bytes, size: int = BLOCK) -> Response:
    """Answer with one block of a file, by the number in the query."""
    count = max(1, -(-len(content) // size))
    said = request.query_params.get("block", "0")
    if not said.isascii() or not said.isdecimal() or len(said) > 6 or int(said) >= count:
        raise RefusalError(404, f"Expected a block from 0 to {count - 1}, got another one.")
    part = content[int(said) * size : (int(said) + 1) * size]
    return Response(part, headers={BLOCKS: str(count)}, media_type="application/octet-stream")
