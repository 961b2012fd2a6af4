"""Slow, large and many requests over real sockets on loopback, with short limits."""

import asyncio
import json
import os
import select
import signal
import socket
import threading
import time
from contextlib import ExitStack, contextmanager, suppress
from functools import partial

import pytest
import uvicorn
from devices import FakeDevice, app_of, label_schema
from fastapi.responses import StreamingResponse

from sfumato.collect import _server as server
from sfumato.collect._bodies import Bodies
from sfumato.collect._store import Store
from sfumato.web._door import Door
from sfumato.web._http import Limits, WebServer

SCHEMA = label_schema()
ADA = FakeDevice("ada", SCHEMA)
PATIENCE = 20


@contextmanager
def served(app, door=None, tls=(), **limits):
    """Serve in a thread, and yield the address."""
    host = WebServer(lambda: app, Limits(**limits), door or Door(100), *tls)
    host.config.load()
    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=host.run, args=([listener],))
        thread.start()
        try:
            yield listener.getsockname()
        finally:
            host.should_exit = True
            thread.join()


@pytest.fixture(scope="module")
def application(tmp_path_factory):
    """A builder of applications, which know ada."""
    stores = []

    def build():
        stores.append(Store.create(str(tmp_path_factory.mktemp("store") / "reports.sqlite"), SCHEMA))
        stores[-1].enrol([ADA.enrolment])
        return app_of(stores[-1])

    yield build
    for store in stores:
        store.dispose()


@pytest.fixture(scope="module")
def hasty(application):
    """A server that waits for 0.3 seconds."""
    with served(application(), header_seconds=0.3, request_seconds=0.3) as address:
        yield address


@pytest.fixture(scope="module")
def narrow(application):
    """A server that takes headers of 1,000 bytes and bodies of 5,000."""
    with served(application(), header_bytes=1000, body_bytes=5000) as address:
        yield address


def talk(address, *parts, pause=0.0):
    """Send parts with pauses between, until the server ends the connection; return what it said."""
    with socket.create_connection(address, timeout=PATIENCE) as connection:
        said = bytearray()
        for part in parts:
            try:
                connection.sendall(part)
            except OSError:
                break
            time.sleep(pause)
        while block := connection.recv(1 << 16):
            said += block
    return bytes(said)


def request(body, path="/reports", *headers):
    head = [f"POST {path} HTTP/1.1", "Host: x", f"Content-Length: {len(body)}", "Connection: close", *headers]
    return "\r\n".join([*head, "", ""]).encode() + body


def answer_of(said):
    """Status and body of the only answer."""
    head, _, body = said.partition(b"\r\n\r\n")
    assert said.count(b"HTTP/1.1 ") == 1, said
    assert f"content-length: {len(body)}".encode() in head
    return int(head.split()[1]), json.loads(body)


def test_usual_requests_are_answered(narrow):
    assert answer_of(talk(narrow, request(ADA.body())))[0] in (200, 201)
    halves = request(ADA.body())
    assert answer_of(talk(narrow, halves[:50], halves[50:90], halves[90:], pause=0.05))[0] == 200


@pytest.mark.parametrize(
    "parts",
    [
        (),
        (b"\r\n",) * 12,
        (b"POST /reports HTTP/1.1\r\n", *(b"X: y\r\n",) * 12),
        tuple(bytes([byte]) for byte in request(b"x" * 50)[:12]),
    ],
)
def test_slow_headers_are_refused(hasty, parts):
    start = time.monotonic()
    assert answer_of(talk(hasty, *parts, pause=0.05))[0] == 408
    assert time.monotonic() - start < PATIENCE / 2


def test_slow_bodies_are_refused(hasty):
    drops = request(ADA.body())
    assert answer_of(talk(hasty, drops[:-12], *(bytes([byte]) for byte in drops[-12:]), pause=0.05))[0] == 408
    assert answer_of(talk(hasty, request(ADA.body())))[0] in (200, 201)


def test_slow_second_request_of_a_connection_is_refused(hasty):
    first = request(ADA.body()).replace(b"Connection: close\r\n", b"")
    said = talk(hasty, first, b"POST /rep", pause=0.2)
    assert [one.split()[0] for one in said.split(b"HTTP/1.1 ")[1:]] in ([b"201", b"408"], [b"200", b"408"])


def test_time_limit_does_not_outlive_its_request(hasty):
    once = request(ADA.body()).replace(b"Connection: close\r\n", b"")
    with socket.create_connection(hasty, timeout=PATIENCE) as connection:
        for _ in range(8):  # together longer than one may last, with a pause that a busy machine can prolong
            connection.sendall(once)
            said = b""
            while not said.endswith(b"}") and (part := connection.recv(1 << 16)):
                said += part  # headers and body may come apart
            assert said.split()[1:2] in ([b"200"], [b"201"])
            time.sleep(0.06)


@pytest.mark.parametrize(
    "said",
    [
        b"GET /" + b"x" * 2000 + b" HTTP/1.1\r\nHost: x\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: x\r\nX: " + b"y" * 2000 + b"\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: x\r\n" + b"X: y\r\n" * 300 + b"\r\n",
    ],
)
@pytest.mark.parametrize("size", [100, 100_000])
def test_large_headers_are_refused(narrow, said, size):
    parts = [said[place : place + size] for place in range(0, len(said), size)]
    assert answer_of(talk(narrow, *parts, pause=0.005))[0] == 431


def test_headers_without_an_end_are_refused(narrow):
    assert answer_of(talk(narrow, b"GET / HTTP/1.1\r\nX: ", *(b"y" * 500,) * 40, pause=0.005))[0] == 431


def test_large_bodies_are_refused_before_they_are_sent(narrow):
    said = answer_of(talk(narrow, b"POST /batches HTTP/1.1\r\nHost: x\r\nContent-Length: 5001\r\n\r\n"))
    assert (said[0], "5000" in said[1]["detail"]) == (413, True)


def test_unfinished_batches_of_one_host_hold_up_no_report(application, monkeypatch):
    monkeypatch.setattr(server, "Bodies", partial(Bodies, 1 << 17, 1 / 2, 1 << 12))
    with served(application()) as address, ExitStack() as stack:
        opened = [stack.enter_context(socket.create_connection(address, PATIENCE)) for _ in range(8)]
        for one in opened:
            one.sendall(request(bytes(1 << 15), "/batches")[:-1])
        refused, deadline = list[socket.socket](), time.monotonic() + PATIENCE
        while len(refused) < 6 and time.monotonic() < deadline:
            refused = select.select(opened, [], [], 0.05)[0]
        assert [one.recv(12)[-3:] for one in refused] == [b"429"] * 6
        for body, path in ((ADA.body(), "/reports"), (ADA.batch(ADA.coded()), "/batches")):
            assert answer_of(talk(address, request(body, path)))[0] in (200, 201)


@pytest.mark.parametrize("path", ["/reports", "/batches", "/users", "/schema", "/nowhere"])
def test_bodies_in_chunks_are_limited(narrow, path):
    head = f"POST {path} HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n".encode()
    said = talk(narrow, head, *(b"3e8\r\n" + b"x" * 1000 + b"\r\n",) * 20, pause=0.005)
    assert said.split()[1] in ((b"413",) if path in ("/reports", "/batches", "/users") else (b"404", b"405"))
    assert answer_of(talk(narrow, request(ADA.body())))[0] in (200, 201)


@pytest.mark.parametrize("part", [b"X: y\r\n" * 100, b"y" * 500], ids=["many", "one without an end"])
def test_headers_after_a_body_in_chunks_are_limited(narrow, part):
    head = b"POST /reports HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nx\r\n0\r\nX: "
    assert answer_of(talk(narrow, head, *(part,) * 40, pause=0.005))[0] == 431


def test_chunks_with_headers_after_them_are_one_body(narrow):
    body = b"".join(b"1\r\n%c\r\n" % byte for byte in ADA.body()) + b"0\r\nX: y\r\nExpect: 100-continue\r\n\r\n"
    head = b"POST /reports HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n\r\n"
    parts = [body[place : place + 7] for place in range(0, len(body), 7)]
    assert answer_of(talk(narrow, head, *parts))[0] in (200, 201)


def test_requests_that_do_not_wait_for_answers_are_refused(narrow):
    said = talk(narrow, b"GET /schema HTTP/1.1\r\nHost: x\r\n\r\n" * 3000)
    assert 1 <= said.count(b"HTTP/1.1 ") <= 2
    assert answer_of(talk(narrow, request(ADA.body())))[0] in (200, 201)


def test_an_answer_that_nobody_reads_ends_the_connection(application):
    app = application()

    @app.get("/long")
    async def long():
        return StreamingResponse(bytes(1 << 16) for _ in range(1 << 10))

    with served(app, answer_seconds=0.3) as address, socket.create_connection(address, timeout=PATIENCE) as connection:
        connection.sendall(b"GET /long HTTP/1.1\r\nHost: x\r\n\r\n")
        time.sleep(1)
        received = 0
        with suppress(ConnectionResetError):
            while block := connection.recv(1 << 16):
                received += len(block)
    assert received < 1 << 25


@pytest.mark.parametrize("said", [b"\x16\x03\x01\x02\x00\x01\x00" * 20, b"HELLO\r\n\r\n", b"GET / HTTP/9\r\n\r\n"])
def test_what_is_no_http_is_refused(narrow, said):
    assert answer_of(talk(narrow, said))[0] == 400


def test_a_client_that_asks_whether_to_go_on_and_goes_on_wrongly_is_refused(narrow, caplog):
    head = b"POST /reports HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\nTransfer-Encoding: chunked\r\n\r\n"
    assert answer_of(talk(narrow, head + b"zz\r\n"))[0] == 400
    assert answer_of(talk(narrow, request(ADA.body())))[0] in (200, 201)
    assert [one for one in caplog.records if one.exc_info] == []


@pytest.mark.parametrize(
    ("said", "status"),
    [
        (b"GET /schema HTTP/1.1\r\nConnection: close\r\n\r\n", 400),
        (b"GET /schema HTTP/1.1\r\nHost: x\r\nHost: x\r\n\r\n", 400),
        (b"GET /schema HTTP/1.0\r\nHost: x\r\nhost: y\r\n\r\n", 400),
        (b"GET /schema HTTP/1.0\r\n\r\n", 200),
        (b"GET /schema HTTP/1.0\r\nHost: x\r\n\r\n", 200),
    ],
)
def test_a_request_has_one_host(narrow, said, status):
    assert answer_of(talk(narrow, said))[0] == status


@pytest.mark.parametrize(
    ("asked", "status"),
    [(request(ADA.body())[:-1], 408), (b"GET /slow HTTP/1.1\r\nHost: x\r\n\r\n", 503)],
    ids=["a part of a request", "an answer that takes too long"],
)
def test_a_server_that_stops_waits_for_nothing_without_end(application, monkeypatch, caplog, asked, status):
    monkeypatch.setattr("sfumato.web._http._GRACE", 0.6)
    monkeypatch.setattr("sfumato.web._http._LAST", 0.2)
    app, door = application(), Door(100)

    @app.get("/slow")
    async def slow():
        await asyncio.sleep(PATIENCE)

    with served(app, door) as address:
        connection = socket.create_connection(address, timeout=PATIENCE)
        connection.sendall(asked)
        while not (door.count and next(iter(door._guests)).transport is not None):
            time.sleep(0.01)
        time.sleep(0.1)
    with connection:
        assert answer_of(b"".join(iter(partial(connection.recv, 1 << 16), b"")))[0] == status
    assert [one for one in caplog.records if one.exc_info] == []


def test_a_signal_before_the_server_listens_for_it_ends_it(application, monkeypatch):
    start, lost = uvicorn.Server.serve, []

    async def signaled(server, sockets):
        signal.raise_signal(signal.SIGTERM)
        await start(server, sockets)

    def again():
        lost.append(True)
        os.kill(os.getpid(), signal.SIGTERM)

    monkeypatch.setattr(uvicorn.Server, "serve", signaled)
    timer = threading.Timer(PATIENCE, again)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        timer.start()
        WebServer(application).run([listener])
    timer.cancel()
    assert not lost
