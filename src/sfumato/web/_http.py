"""The HTTP of a server: that of uvicorn, with limits that it has no settings for, on time, size and form of requests."""

from __future__ import annotations

import asyncio
import gc
import json
import logging
import signal
import socket
import ssl
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from http import HTTPStatus
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, cast

import uvicorn
from starlette.responses import JSONResponse
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from sfumato.web._door import Door, DoorLoop, Guest

if TYPE_CHECKING:
    from types import FrameType

    from fastapi import FastAPI

    from sfumato.web._metrics import WebMetrics

_LOG = logging.getLogger("sfumato.web")
_LINGER = 2.0
_KEEP_ALIVE = 30
_GRACE, _LAST = 10, 5.0  # what a server that stops gives answers, and requests that have not come whole


@dataclass(frozen=True)
class Limits:
    """What one request may take.

    The time for headers is from the first byte of a request, or from the connection, that for the body from the end of the
    headers, and that for the answer from there until the client has read it. ``header_bytes`` also limits what may follow the
    chunks of a body.
    """

    header_seconds: float = 10.0
    request_seconds: float = 60.0
    answer_seconds: float = 300.0
    header_bytes: int = 1 << 14
    body_bytes: int = 1 << 23


class LimitedProtocol(HttpToolsProtocol):
    """A connection that answers 400, 408, 413 or 431 and ends where a request exceeds the limits."""

    limits: ClassVar[Limits] = Limits()
    guest: Guest
    _timer: asyncio.TimerHandle | None = None
    _deadline: float | None = None
    _refused = False
    _in_headers = False
    _began = False
    _has_headers = False
    _is_whole = False
    _header_size = 0
    _body_size = 0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(cast("asyncio.Transport", transport))
        self.guest.arrive(transport)
        self._wait(self.limits.header_seconds)

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_waiting()
        self._set_timer()
        super().connection_lost(exc)
        self.guest.leave()

    def data_received(self, data: bytes) -> None:
        if self._refused:
            return
        if self._deadline is None:
            self._wait(self.limits.header_seconds)
        self._began = False
        super().data_received(data)
        if self._in_headers and not self._began:
            self._header_size += len(data)
            if self._header_size > self.limits.header_bytes:
                self._refuse_headers()

    def on_message_begin(self) -> None:
        """Start to count the bytes of a request, and refuse one that does not wait for the answer to the last one."""
        if self.cycle is not None and not self.cycle.response_complete:
            self._refuse(400, "Expected one request at a time, got another before the answer. Wait for each answer.")
        super().on_message_begin()
        self._in_headers = self._began = True
        self._has_headers = self._is_whole = False
        self._header_size = self._body_size = 0
        self._wait(self.limits.header_seconds)

    def on_header(self, name: bytes, value: bytes) -> None:
        """Keep a header; what has the form of one after a body in chunks is dropped."""
        if not self._has_headers:
            super().on_header(name, value)

    def on_chunk_header(self) -> None:
        """Count what is no part of a body again: nothing else may follow the last chunk without end."""
        self._in_headers = self._began = True

    def on_headers_complete(self) -> None:
        self._in_headers, self._has_headers = False, True
        if self._refused:
            return
        hosts = sum(name == b"host" for name, _ in self.headers)
        if hosts > 1 or (not hosts and self.parser.get_http_version() != "1.0"):
            self._refuse(400, "Expected one Host header, got none or more. Send one.")
            return
        length = next((value for name, value in self.headers if name == b"content-length"), b"0")
        if len(self.url) + sum(len(name) + len(value) + 4 for name, value in self.headers) > self.limits.header_bytes:
            self._refuse_headers()
        elif int(length) > self.limits.body_bytes:
            self._refuse_body()
        else:
            self._wait(self.limits.request_seconds)
            super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        self._in_headers = False
        self._body_size += len(body)
        if self._refused:
            return
        if self._body_size > self.limits.body_bytes:
            self._refuse_body()
        else:
            super().on_body(body)

    def on_message_complete(self) -> None:
        """Set the time limit for the answer, or for the next request if it was given already."""
        self._in_headers, self._is_whole = False, True
        if self._refused:
            return
        if self.cycle.response_complete:
            self._wait(_KEEP_ALIVE)
        else:
            self._wait(self.limits.answer_seconds)
            self.guest.work()
        super().on_message_complete()

    def on_response_complete(self) -> None:
        """Let a client that does not read its answer not hold the connection for ever."""
        if self._is_whole:
            self._stop_waiting()
        self.guest.wait()
        super().on_response_complete()
        if self.transport.is_closing():
            self.loop.call_later(self.timeout_keep_alive, self.transport.abort)

    def shutdown(self) -> None:
        """Let a server that stops not wait long for the rest of a request."""
        super().shutdown()
        left = self.loop.time() + _LAST
        if self._deadline is not None and not self._is_whole and self._deadline > left:
            self._wait(_LAST)

    def timeout_keep_alive_handler(self) -> None:
        """Close an idle connection, also where its last answer was not read."""
        self.transport.abort()

    def send_400_response(self, msg: str) -> None:
        self._refuse(400, "Expected an HTTP request, got something else.")

    def _refuse_headers(self) -> None:
        self._refuse(431, f"Expected headers of at most {self.limits.header_bytes} bytes, got more. Send fewer.")

    def _refuse_body(self) -> None:
        self._refuse(413, f"Expected a body of at most {self.limits.body_bytes} bytes, got more. Send less at once.")

    def _wait(self, seconds: float) -> None:
        self._deadline = self.loop.time() + seconds
        if self._timer is None or self._timer.when() > self._deadline:
            self._set_timer()

    def _stop_waiting(self) -> None:
        self._deadline = None

    def _set_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = None if self._deadline is None else self.loop.call_at(self._deadline, self._check_time)

    def _check_time(self) -> None:
        """A timer stays when its deadline moves, since most requests are over long before, and is set again here."""
        late = self._deadline is not None and self._deadline <= self.loop.time()
        if late and self._is_whole:
            self._stop_waiting()
            self.transport.abort()
        elif late:
            self._refuse(408, "Expected the whole request in time, got a part. Send it again.")
        self._set_timer()

    def _refuse(self, status: int, detail: str) -> None:
        """Answer, and end the connection once the client has read that; what it still sends is dropped."""
        if self._refused or self.transport.is_closing():
            return
        self._refused = True
        self.guest.turned_away(str(status))
        self._stop_waiting()
        self._unset_keepalive_if_required()
        if self.cycle is not None and not self.cycle.response_complete:
            self.cycle.disconnected, self.cycle.waiting_for_100_continue = True, False
            self.cycle.message_event.set()
        if self.cycle is None or not self.cycle.response_started or self.cycle.response_complete:
            self.transport.write(_answer(status, detail))
        self.flow.resume_reading()
        if self.transport.can_write_eof():
            self.transport.write_eof()  # to close at once could take the answer away from a client that still sends
            self.loop.call_later(_LINGER, self.transport.abort)
        else:
            self.transport.close()


class WebServer(uvicorn.Server):
    """A process that serves an application until SIGINT or SIGTERM, and then answers what is under way.

    ``app`` builds the application, once all settings are known to be good. SIGHUP reads the files of TLS again, and then calls
    ``hang_up``; it ends no server.
    """

    def __init__(
        self,
        app: Callable[[], FastAPI],
        limits: Limits | None = None,
        door: Door | None = None,
        certificate: Path | None = None,
        key: Path | None = None,
        hang_up: Sequence[Callable[[], None]] = (),
    ) -> None:
        self.door, self._hang_ups = door or Door(), hang_up
        super().__init__(
            uvicorn.Config(
                partial(_watched, app, self.door),
                factory=True,
                http=type("Protocol", (LimitedProtocol,), {"limits": limits or Limits()}),
                ws="none",
                lifespan="on",
                log_config=None,
                access_log=False,
                server_header=False,
                forwarded_allow_ips=[str(one) for one in self.door.trusted],
                timeout_keep_alive=_KEEP_ALIVE,
                timeout_graceful_shutdown=_GRACE,
                ssl_certfile=None if certificate is None else str(certificate),
                ssl_keyfile=None if key is None else str(key),
            )
        )

    def run(self, sockets: list[socket.socket] | None = None) -> None:
        """Take requests from ``sockets`` that listen. The signals are what they were after that."""
        before = {}
        if threading.current_thread() is threading.main_thread():
            before = {one: signal.signal(one, self._stop) for one in (signal.SIGINT, signal.SIGTERM)}
            before[signal.SIGHUP] = signal.signal(signal.SIGHUP, lambda *_: self._hang_up())
        gc.collect()
        gc.freeze()  # objects of ended connections are in circles, which are found sooner where little else is looked at
        gc.collect()
        try:
            with asyncio.Runner(loop_factory=lambda: DoorLoop(self.door)) as runner:
                runner.run(self.serve(sockets))
        finally:
            for one, handler in before.items():
                signal.signal(one, handler)

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Start to take connections, and to obey SIGHUP within the event loop."""
        await super().startup(sockets)
        if threading.current_thread() is threading.main_thread():
            asyncio.get_running_loop().add_signal_handler(signal.SIGHUP, self._hang_up)

    def _hang_up(self) -> None:
        """Take the files of TLS as they are now for handshakes from now on, if they are whole, and call what else is due."""
        if self.config.ssl is not None and self.config.ssl_certfile is not None:
            files = str(self.config.ssl_certfile), self.config.ssl_keyfile
            try:
                ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(*files)
                self.config.ssl.load_cert_chain(*files)
            except OSError as error:
                _LOG.error("The certificate could not be read again, and the one before is used still. %s", error)
            else:
                _LOG.info("The certificate was read again.")
        for one in self._hang_ups:
            one()

    def _stop(self, _signal: int, _frame: FrameType | None) -> None:
        """Obey a signal that comes before uvicorn listens for it; uvicorn raises all again at its end."""
        self.should_exit = True


def _watched(build: Callable[[], FastAPI], door: Door) -> _Ending:
    app = build()
    metrics: WebMetrics | None = getattr(app.state, "metrics", None)
    if metrics is not None:
        metrics.watch(door)
    return _Ending(app)


class _Ending:
    """An application whose answers that a server which stops does not wait for are cut off without a traceback."""

    def __init__(self, app: FastAPI) -> None:
        self._app = app

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        began = False

        async def sending(message: Any) -> None:
            nonlocal began
            began = True
            await send(message)

        try:
            await self._app(scope, receive, sending)
        except asyncio.CancelledError:
            if scope["type"] != "http":
                raise
            if not began:
                detail = "The server stops, and nothing was acknowledged. Send the same bytes again later."
                await JSONResponse({"detail": detail}, 503, {"retry-after": "10"})(scope, receive, send)


def _answer(status: int, detail: str) -> bytes:
    body = json.dumps({"detail": detail}).encode()
    head = (
        f"HTTP/1.1 {status} {HTTPStatus(status).phrase}\r\ncontent-type: application/json\r\n"
        f"content-length: {len(body)}\r\nconnection: close\r\n\r\n"
    )
    return head.encode() + body
