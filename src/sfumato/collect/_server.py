"""The server of one collection: it enrols devices, takes their reports, and closes and exports the collection.

It never sees a value of a user: reports are randomized on the devices. Which calls there are, and what they answer, stands in
``docs/decisions/0028-collection.md`` and on the server's own page ``/docs``.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager, suppress
from datetime import UTC
from functools import partial
from operator import itemgetter
from typing import TYPE_CHECKING, Any, TypeVar
from weakref import WeakValueDictionary

from fastapi import Depends, FastAPI
from fastapi.responses import HTMLResponse, JSONResponse, Response, StreamingResponse
from fastapi.routing import APIRoute
from starlette.requests import Request  # noqa: TC002  FastAPI reads annotations while it runs

from sfumato._version import __version__
from sfumato.collect import _patience as patience
from sfumato.collect._answers import BYTES, CALLS, Direct, counted, documented
from sfumato.collect._batch import MOST_BYTES
from sfumato.collect._bodies import Bodies, blocks
from sfumato.collect._checks import moment
from sfumato.collect._database import StoreError
from sfumato.collect._intake import MOST_KNOWN, CheckedBatch, Intake, read_users
from sfumato.collect._issuing import MOST_BYTES as TOKEN_BYTES
from sfumato.collect._issuing import Issuing
from sfumato.collect._observe import Metrics
from sfumato.collect._operator import Operator
from sfumato.collect._page import status_page
from sfumato.collect._readiness import Readiness
from sfumato.collect._refusals import (
    GOOD,
    RefusalError,
    Refusals,
    answered,
    detail_of,
    enrolled,
    gone,
    not_taken,
    status_of,
)
from sfumato.collect._writer import BusyError, Writer
from sfumato.errors import InputError
from sfumato.web._addresses import caller
from sfumato.web._limits import Buckets
from sfumato.web._logs import Log
from sfumato.web._metrics import CONTENT_TYPE, Measured
from sfumato.web._pages import ONLY_OURS, PAGE_HEADERS, docs_page

if TYPE_CHECKING:
    from sfumato.collect._keys import ServerKey
    from sfumato.collect._schema import Schema
    from sfumato.collect._store import Answer, Asked, Enrolment, Store, Upload
    from sfumato.collect._tokens import TokenKey

T = TypeVar("T")
_LOGGER = logging.getLogger("sfumato.collect")
_MOST_USERS_BYTES = 1 << 19
_CLOSE_SECONDS = 20.0
_USERS_A_SECOND, _USERS_AT_ONCE, _JUNK_AT_ONCE = 500.0, 20_000.0, 5.0


def create_app(
    schema: Schema,
    store: Store,
    server_key: ServerKey,
    admin_token: str,
    *,
    token_key: TokenKey | None = None,
    uploads_a_second: float = 100.0,
    clock: Callable[[], float] = time.time,
) -> FastAPI:
    """Build the application of a collection, for uvicorn or another ASGI server."""
    if server_key.public.hex() != schema.server_key:
        raise InputError("Expected the server key whose public part stands in the schema, got another. Use its file.")
    operator = Operator(admin_token)
    service = _Service(schema, store, server_key, token_key, operator, uploads_a_second, clock)
    app = FastAPI(
        title=f"Collection {schema.collection}",
        version=__version__,
        description=schema.statement(),
        lifespan=service.lifespan,
        exception_handlers=service.refusals.handlers(),
        **ONLY_OURS,
    )
    app.state.metrics = service.metrics_of_process
    app.add_middleware(Measured, metrics=service.metrics_of_process)
    for name in ("healthz", "readyz"):
        app.add_api_route(f"/{name}", getattr(service, name), include_in_schema=False)
    for method, path, good, refusals, body in CALLS:
        of_operator = 401 in refusals
        app.router.add_api_route(
            path,
            getattr(service, path.strip("/") or "page"),
            methods=[method],
            route_class_override=APIRoute if of_operator else Direct,
            dependencies=[Depends(operator.check_bearer if method == "POST" else operator.check_admin)] * of_operator,
            tags=["operator" if of_operator else "devices"],
            **documented(good, refusals, body, path=path),
        )

    async def docs() -> HTMLResponse:
        return HTMLResponse(docs_page(app.openapi()), headers=PAGE_HEADERS)

    app.add_api_route("/docs", docs, include_in_schema=False)
    return app


class _Service:
    def __init__(
        self,
        schema: Schema,
        store: Store,
        server_key: ServerKey,
        token_key: TokenKey | None,
        operator: Operator,
        uploads_a_second: float,
        clock: Callable[[], float],
    ) -> None:
        self._operator, self._schema, self._store, self._clock = operator, schema, store, clock
        self._opens, self._closes = (
            moment(name, getattr(schema, name)).replace(tzinfo=UTC).timestamp() for name in ("opens", "closes")
        )
        self._is_closed = False
        self._closing: asyncio.Task[tuple[str, int]] | None = None
        self._intake = Intake(schema, store, server_key)
        self._issuing = Issuing(schema, self._intake, token_key)
        self._bodies = {path: Bodies() for path in ("users", "reports", "batches")}
        self._buckets = Buckets(uploads_a_second, max(1.0, 2 * uploads_a_second))
        self._reports: Writer[Upload, Answer] = Writer(self._commit)
        self._users: Writer[Enrolment, Answer] = Writer(store.enrol)
        self._withdrawals: Writer[Upload, Answer] = Writer(store.take_back)
        self._tokens: Writer[Asked, Answer] = Writer(store.issue)
        self._enrolments, self._junk = Buckets(_USERS_A_SECOND, _USERS_AT_ONCE), Buckets(1.0, _JUNK_AT_ONCE)
        self._turns: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()
        self._batcher = ThreadPoolExecutor(1, thread_name_prefix="sfumato-batches")
        self._checker = ThreadPoolExecutor(1, thread_name_prefix="sfumato-checker")
        self._ready = Readiness(lambda: self._store.sha256, store.cut)
        self._metrics, self._log = Metrics(lambda: self._reports.waiting), Log(_LOGGER)
        self.metrics_of_process = self._metrics
        self.refusals = Refusals(schema, self._metrics, self._log, anonymous=schema.anonymous is not None)

    async def schema(self, _request: Request) -> Response:
        """Return the schema of the collection, in its canonical form. Devices check it before they answer."""
        return Response(self._schema.text, media_type="application/json")

    async def status(self, _request: Request) -> Response:
        """Return whether reports are taken, and when."""
        return JSONResponse(await self._status())

    async def users(self, request: Request) -> Response:
        """Enrol a device with its two public keys and the code that the operator gave its user.

        A list of up to 1,000 devices is answered with a list in the same order: each status is what the device would get alone.
        """
        async with self._bodies["users"].read(request, _MOST_USERS_BYTES) as body:
            values = read_users(body)
            alone = not isinstance(values, list)
            if not self._operator.is_asking(request):
                self._charge(self._enrolments, request, 1 if alone else len(values))
            checked = await self._checking(lambda: self._intake.enrolments([values] if alone else values))
            good = [one for one in checked if not isinstance(one, RefusalError)]
            answers = await self._write(self._users, good)
        kept = {one.user: one.keys for one, answer in zip(good, answers, strict=True) if answer in GOOD}
        self._intake.remember(kept)
        stored = iter(answers)
        outcomes = [one if isinstance(one, RefusalError) else enrolled(one, next(stored)) for one in checked]
        if not alone:
            for one in outcomes:
                if isinstance(one, RefusalError):
                    self.refusals.note(one)
            return JSONResponse([{"status": status_of(one), "detail": detail_of(one)} for one in outcomes])
        return answered(outcomes[0])

    async def tokens(self, request: Request) -> Response:
        """Sign the blinded token of a device, one for each user. The same request gets the same bytes at any time."""
        if self._is_closed or self._clock() >= self._closes:
            raise gone()
        async with self._bodies["users"].read(request, TOKEN_BYTES) as body:
            asked, blinded = await self._checking(partial(self._issuing.asked, body))
        self._take_turn(asked.user)
        (answer,) = await self._write(self._tokens, [asked])
        signed = await self._checking(partial(self._issuing.signed, asked, answer, blinded))
        return JSONResponse({"signed": signed}, status_of(answer))

    async def reports(self, request: Request) -> Response:
        """Take one report: a message and its signature (64 bytes), or its token. The same bytes may be sent again at any time."""
        self._check_open()
        async with self._bodies["reports"].read(request, self._intake.most_bytes) as body:
            user = self._intake.user_of(body)
            upload = self._intake.report_at_hand(body, user)
            if upload is None:
                upload = await self._bounded(asyncio.to_thread(self._intake.report, body, user))
            self._take_turn(user)
            (answer,) = await self._write(self._reports, [upload])
        self._count([answer])
        return answered(answer if answer in GOOD else not_taken(user, answer))

    async def batches(self, request: Request) -> Response:
        """Take reports of many devices, each with its code, signed by the device that sends them.

        A report that is refused leaves the others as they are.
        """
        self._check_open()
        self._issuing.check_named()
        self._charge(self._junk, request, 0)
        async with self._bodies["batches"].read(request, MOST_BYTES) as body:
            batch = await self._batch(request, body)
            self._take_turn(batch.sender)
            answers = await self._write(self._reports, [upload for _, upload in batch.uploads])
        self._count(answers)
        refused = list(batch.refused)
        for (place, upload), answer in zip(batch.uploads, answers, strict=True):
            if answer not in GOOD:
                refused.append((place, not_taken(upload.user, answer)))
        for _, one in refused:
            self.refusals.note(one)
        places = [
            {"place": place, "status": one.status, "detail": one.detail}
            for place, one in sorted(refused, key=itemgetter(0))
        ]
        return JSONResponse(
            {"stored": answers.count("stored"), "repeated": answers.count("repeated"), "refused": places}
        )

    async def withdrawals(self, request: Request) -> Response:
        """Delete the report of a user, who asks for it by the report and a signature of its withdrawal (64 bytes).

        None of this user is taken any more. The same bytes may be sent again at any time, until the collection is closed.
        """
        if self._is_closed:
            raise gone()
        self._issuing.check_named()
        async with self._bodies["reports"].read(request, self._intake.most_bytes) as body:
            user = self._intake.user_of(body)
            upload = self._intake.report_at_hand(body, user, withdrawal=True)
            answer: Answer = "revoked" if upload is None else await self._take_back(upload)
            if answer == "revoked":  # or the keys at hand are none, or those of before
                read = asyncio.to_thread(self._intake.report, body, user, withdrawal=True)
                answer = await self._take_back(await self._bounded(read))
        return answered(answer if answer in GOOD else not_taken(user, answer))

    async def close(self) -> Response:
        """Close the collection for good. The same answer is given if it is closed already.

        Many reports take longer than a proxy waits: then this answers 202 while the closing goes on, and is to be asked again.
        """
        if self._closing is None or (self._closing.done() and self._closing.exception() is not None):
            self._closing = asyncio.create_task(self._patiently(self._store.close))
        done, _ = await asyncio.wait([self._closing], timeout=_CLOSE_SECONDS)
        if not done:
            detail = "The collection is being closed. Ask again, until the answer is 200."
            return JSONResponse({"detail": detail}, 202, {"retry-after": "5"})
        sha256, reports = self._closing.result()
        self._is_closed = True
        self._log.say("closed", facts={"sha256": sha256, "reports": reports})
        return JSONResponse({"sha256": sha256, "reports": reports})

    async def export(self) -> Response:
        """Return the closed collection as a file, whose SHA-256 is its name.

        The answer breaks off before its end if the reports are no longer those that were closed.
        """
        if (await self._status())["sha256"] is None:
            raise RefusalError(409, "Expected a closed collection, got an open one. Close it first.")
        return StreamingResponse(blocks(self._store.pieces()), media_type=next(iter(BYTES)))

    async def counts(self) -> Response:
        """Return how many users and reports there are, when they came, what was refused, and what users have spent."""
        return JSONResponse(await self._counts())

    async def metrics(self) -> Response:
        """Return the figures of this server process in the text form of Prometheus."""
        return Response(self._metrics.text(), media_type=CONTENT_TYPE)

    async def healthz(self) -> Response:
        return JSONResponse({"alive": True})

    async def readyz(self) -> Response:
        """Return whether the database answers, too; within two seconds."""
        ready = await self._ready.answers()
        return JSONResponse({"ready": ready}, 200 if ready else 503, None if ready else {"retry-after": "1"})

    async def page(self) -> Response:
        """Return the status page of the collection."""
        return HTMLResponse(status_page(self._schema, await self._counts()), headers=PAGE_HEADERS)

    @asynccontextmanager
    async def lifespan(self, _app: FastAPI) -> AsyncIterator[None]:
        """Read keys at the start, so that no report waits for them; at the end commit what is still waiting."""
        self._intake.remember(await self._patiently(lambda: self._store.latest_keys(MOST_KNOWN)))
        yield
        for writer in (self._reports, self._users, self._withdrawals, self._tokens):
            with suppress(StoreError):
                await self._bounded(writer.stop())
        self._store.dispose()

    async def _status(self) -> dict[str, Any]:
        sha256 = await self._bounded(asyncio.to_thread(lambda: self._store.sha256))
        self._is_closed |= sha256 is not None
        now = self._clock()
        state = "closed" if self._is_closed or now >= self._closes else "waiting" if now < self._opens else "open"
        times = {"opens": self._schema.opens, "closes": self._schema.closes}
        return {"schema": self._schema.sha256, "state": state, **times, "sha256": sha256}

    async def _counts(self) -> dict[str, Any]:
        return counted(self._schema, await self._status(), await self._bounded(asyncio.to_thread(self._store.counts)))

    def _commit(self, uploads: Sequence[Upload]) -> list[Answer]:
        with self._metrics.commits.time():
            return self._intake.add(uploads)

    @property
    def _is_closing(self) -> bool:
        return self._closing is not None and not self._closing.done()

    async def _write(self, writer: Writer[T, Answer], items: Sequence[T]) -> list[Answer]:
        if self._is_closing:  # which holds the lock of the store
            raise RefusalError(503, "The collection is being closed. Send the same bytes again later.", retry_after=10)
        try:
            return await self._bounded(writer.add(items))
        except BusyError as error:
            raise RefusalError(503, "The server is busy. Send the same bytes again later.", retry_after=1) from error

    async def _take_back(self, upload: Upload) -> Answer:
        self._take_turn(upload.user)
        (answer,) = await self._write(self._withdrawals, [upload])
        if answer == "closed":
            self._is_closed = True
            raise gone()
        return answer

    async def _batch(self, request: Request, body: bytes) -> CheckedBatch:
        """Check a batch, away from enrolments, one of an address at a time; whoever sends many that prove nothing has to wait."""
        site = caller(request.client)
        async with self._turns.setdefault(site, asyncio.Lock()):
            self._charge(self._junk, request, 1)
            loop = asyncio.get_running_loop()
            checked = await self._bounded(loop.run_in_executor(self._batcher, self._intake.batch, body))
            self._junk.give_back(site)
        return checked

    def _charge(self, buckets: Buckets, request: Request, count: int) -> None:
        """Charge the address that a request comes from, before the work; 0 asks only whether it may send one."""
        site = caller(request.client)
        if wait := buckets.take(site, count) if count else buckets.wait(site):
            raise RefusalError(429, "This address sends too much. Send the same bytes again later.", retry_after=wait)

    async def _bounded(self, act: Awaitable[T]) -> T:
        """Wait for what reads or writes the store, and not for ever."""
        try:
            return await asyncio.wait_for(act, patience.SECONDS)
        except TimeoutError as error:
            self._store.cut()
            late = f"Expected the store to answer within {patience.SECONDS:g} s, got no answer. Look at its database or disk."
            raise StoreError(late) from error

    async def _patiently(self, act: Callable[[], T]) -> T:
        """Wait for what takes long with many reports, as long as it takes."""
        before = patience.PATIENT.set(True)
        try:
            return await asyncio.to_thread(act)
        finally:
            patience.PATIENT.reset(before)

    async def _checking(self, check: Callable[[], T]) -> T:
        """Run what takes long in the one thread for it, so that single reports are not held up."""
        return await self._bounded(asyncio.get_running_loop().run_in_executor(self._checker, check))

    def _count(self, answers: Sequence[Answer]) -> None:
        """Count what became of the reports of one upload, and refuse it if the collection was closed before."""
        for answer in set(answers):
            self._metrics.reports.labels(answer).inc(answers.count(answer))
        if "closed" in answers:
            self._is_closed = True
            raise gone()

    def _check_open(self) -> None:
        now = self._clock()
        if now < self._opens:
            detail = f"The collection opens at {self._schema.opens}. Send the same bytes then."
            raise RefusalError(425, detail, retry_after=self._opens - now)
        if self._is_closed or now >= self._closes:
            raise gone()

    def _take_turn(self, user: str) -> None:
        wait = self._buckets.take(user)
        if wait:
            detail = "This user sends too much. Send the same bytes again later."
            raise RefusalError(429, detail, retry_after=wait, user=user)
