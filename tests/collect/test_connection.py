"""Connections go over TLS, try again where that helps, and say what the server said where it does not."""

import gzip
import itertools
import socket
import ssl
import threading
import time
from contextlib import contextmanager, suppress

import httpx
import pytest
from collect_fake import FakeServer, schema_of
from devices import certify

from sfumato.collect._connection import Connection, RefusedError
from sfumato.errors import CollectionError, InputError

SCHEMA = schema_of()


@pytest.mark.parametrize(
    "url",
    [
        "http://example.org",
        "http://127.0.0.1.example.org",
        "http://10.0.0.1",
        "http://localhost.example.org",
        "http://[fe80::1]",
        "http://2130706433",
        "ftp://127.0.0.1",
        "127.0.0.1:8000",
        "https://",
        "https://me@example.org",
        "http://localhost@example.org",
        "http://[::1",
        "https://example.org:99999",
        "https://example.org/a\nb",
        "https://\u2460.org",
        "https://a..org",
        "https://" + "a" * 64 + ".org",
        "",
    ],
)
def test_what_others_could_read_is_refused(url):
    with pytest.raises(InputError, match="Expected server to be"):
        Connection(url)


@pytest.mark.parametrize(
    "url", ["https://example.org/reading/", "http://127.0.0.1:8000", "http://localhost", "http://[::1]:8000"]
)
def test_tls_and_this_machine_are_taken(url):
    asked = []
    transport = httpx.MockTransport(lambda request: asked.append(str(request.url)) or httpx.Response(200))
    with Connection(url, transport=transport) as connection:
        connection.get("/status")
    assert asked == [url.rstrip("/") + "/status"]


def asked(url, waits=None, **settings):
    """The error of one request to an address."""
    wait = (waits if waits is not None else []).append
    with Connection(url, wait=wait, **settings) as connection, pytest.raises(CollectionError) as caught:
        connection.get("/schema")
    return caught.value


def test_certificates_are_checked():
    with Connection("https://example.org") as connection:
        pool = connection._client._transport._pool
    assert pool._ssl_context.verify_mode is ssl.CERT_REQUIRED
    assert pool._ssl_context.check_hostname


def test_failures_of_the_moment_are_tried_again():
    server, waits = FakeServer(SCHEMA), []
    server.failures = [500, 502, 503, 429, httpx.ReadTimeout("slow"), httpx.ConnectError("no route"), 504]
    with server.connection(waits=waits) as connection:
        assert connection.get("/schema").text
    assert len(waits) == 7
    for place, seconds in enumerate(waits):
        assert 0.25 * 2**place <= seconds <= 0.5 * 2**place
    assert len({seconds / 2**place for place, seconds in enumerate(waits)}) == 7


def test_it_gives_up_in_the_end():
    server, waits = FakeServer(SCHEMA), []
    server.failures = [503] * 100
    with server.connection(waits=waits) as connection, pytest.raises(CollectionError, match=r"8 attempts.*503: Later"):
        connection.get("/schema")
    assert (len(server.requests), len(waits)) == (8, 7)


@pytest.mark.parametrize("status", [301, 400, 403, 404, 409, 410, 413, 422, 425])
def test_refusals_are_final_and_told(status):
    server = FakeServer(SCHEMA)
    server.failures = [status] * 2
    with server.connection() as connection, pytest.raises(RefusedError, match=f"{status}: Later.") as caught:
        connection.post("/reports", b"")
    assert (len(server.requests), caught.value.status) == (1, status)


@pytest.mark.parametrize(("said", "seconds"), [("7", 7.0), ("0", 0.5), ("soon", 0.5), ("-1", 0.5), ("²", 0.5)])
def test_server_says_how_long_to_wait(said, seconds):
    answers, waits = [httpx.Response(429, headers=[(b"Retry-After", said.encode())]), httpx.Response(200)], []
    transport = httpx.MockTransport(lambda _: answers.pop(0))
    with Connection("https://example.org", transport=transport, wait=waits.append) as connection:
        connection.get("/schema")
    assert seconds / 2 <= waits[0] <= seconds


def answers(status, **said):
    """A transport that answers so."""
    return httpx.MockTransport(lambda _: httpx.Response(status, **said))


def test_nobody_waits_for_hours():
    waits = []
    error = asked("https://example.org", waits, transport=answers(503, headers={"Retry-After": "3600"}))
    assert ("after 1 attempt;" in str(error), waits) == (True, [])


@pytest.mark.parametrize("body", [b"", b"[]", b"null", b'"x"', b"\xff", b'{"other": 1}', b"<html>", b"[" * 200_000])
def test_answers_of_any_form_are_told_in_a_line(body):
    assert "400: Bad Request" in str(asked("https://example.org", transport=answers(400, content=body)))


def test_what_a_server_says_cannot_move_the_cursor():
    said = str(asked("https://example.org", transport=answers(400, json={"detail": "\x1b[2J\n" + "x" * 1000})))
    assert said.isprintable()
    assert len(said) < 400


@contextmanager
def answering(serve):
    """Let ``serve`` answer each connection to a port on loopback, and give the port."""
    ended = threading.Event()

    def accept(listener):
        while not ended.is_set():
            with suppress(OSError), listener.accept()[0] as connection:
                serve(connection)

    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=accept, args=(listener,))
        thread.start()
        try:
            yield listener.getsockname()[1]
        finally:
            ended.set()
            with suppress(OSError):
                socket.create_connection(listener.getsockname()).close()
            thread.join()


def test_a_wait_is_told_before_it():
    server, told = FakeServer(SCHEMA), []
    server.failures = [503, httpx.ConnectError("[Errno 111] Connection refused")]
    with server.connection() as found:
        transport = found._client._transport
        with Connection("https://x.org", transport=transport, wait=lambda _: None, tell=told.append) as connection:
            connection.get("/schema")
    assert told == [
        "No answer yet: 503: Later. Trying again in 1 s.",
        "No answer yet: [Errno 111] Connection refused. Trying again in 1 s.",
    ]


def test_nobody_at_the_port_is_told_in_sentences():
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    waits = []
    error = asked(f"http://127.0.0.1:{port}", waits)
    assert str(error).endswith("after 8 attempts; the last one: [Errno 111] Connection refused. Try again later.")
    assert (len(waits), isinstance(error, RefusedError)) == (7, False)


def test_answers_of_16_mebibytes_are_read_and_others_cut_off():
    endless = answers(200, content=itertools.repeat(b"x" * 4096))
    assert "at most 16777216 bytes" in str(asked("https://example.org", transport=endless))
    with Connection("https://example.org", transport=answers(200, content=b"x" * (1 << 24))) as connection:
        assert len(connection.get("/schema").content) == 1 << 24


def test_compressed_answers_are_not_unpacked():
    heads = []

    def answer(request):
        heads.append(request.headers["Accept-Encoding"])
        return httpx.Response(200, headers={"Content-Encoding": "gzip"}, content=iter([gzip.compress(bytes(1000))]))

    assert "without compression" in str(asked("https://example.org", transport=httpx.MockTransport(answer)))
    assert heads == ["identity"]


def test_answers_that_drip_are_not_waited_for(monkeypatch):
    monkeypatch.setattr("sfumato.collect._connection._DEADLINE", 0.2)
    monkeypatch.setattr("sfumato.collect._connection._ATTEMPTS", 2)

    def drip(connection):
        connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n")
        for _ in range(40):
            connection.sendall(b"x")
            time.sleep(0.05)

    with answering(drip) as port:
        error = asked(f"http://127.0.0.1:{port}")
    assert "2 attempts; the last one: no whole answer within 0.2 s. Try" in str(error)


@pytest.mark.parametrize(("scheme", "said"), [("http", b"SSH-2.0-x\r\n\r\n"), ("https", b"HTTP/1.1 400 No\r\n\r\n")])
def test_another_protocol_is_asked_once(scheme, said):
    def serve(connection):
        connection.recv(4096)
        connection.sendall(said)

    waits = []
    with answering(serve) as port:
        error = asked(f"{scheme}://127.0.0.1:{port}", waits)
    assert (type(error), error.status, waits) == (RefusedError, None, [])
    assert "another protocol" in str(error)


@pytest.mark.parametrize("scheme", ["http", "https"])
def test_a_connection_that_breaks_is_tried_again(scheme):
    waits = []
    with answering(lambda connection: connection.recv(4096)) as port:
        error = asked(f"{scheme}://127.0.0.1:{port}", waits)
    assert (type(error), len(waits)) == (CollectionError, 7)


def test_private_authority(tmp_path):
    alone, key = certify(tmp_path)
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(alone, key)

    def serve(connection):
        with context.wrap_socket(connection, server_side=True) as secure:
            secure.recv(1000)
            secure.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\n{}")

    waits = []
    with answering(serve) as port:
        url = f"https://127.0.0.1:{port}"
        with Connection(url, ca=alone) as connection:
            assert connection.get("/schema").json() == {}
        error = asked(url, waits)
    assert (type(error), waits) == (RefusedError, [])
    assert str(error).endswith(
        "not trusted: self-signed certificate. If its authority is a private one, name the certificate of that with --ca."
    )


def test_file_of_an_authority_is_checked(tmp_path):
    for text in ("", "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n", "\xff"):
        (tmp_path / "ca.pem").write_text(text)
        with pytest.raises(InputError, match=r"ca\.pem to hold a certificate"):
            Connection("https://example.org", ca=tmp_path / "ca.pem")
    with pytest.raises(FileNotFoundError) as caught:
        Connection("https://example.org", ca=tmp_path / "absent.pem")
    assert caught.value.filename == str(tmp_path / "absent.pem")
