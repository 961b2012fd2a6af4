"""Connections go over TLS, try again where that helps, and say what the server said where it does not."""

import httpx
import pytest
from collect_fake import FakeServer, schema_of

from sfumato.collect.connection import Connection
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


def test_certificates_are_checked():
    import ssl

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
    with server.connection() as connection, pytest.raises(CollectionError, match=f"{status}: Later."):
        connection.post("/reports", b"")
    assert len(server.requests) == 1


@pytest.mark.parametrize(("said", "seconds"), [("7", 7.0), ("0", 0.5), ("soon", 0.5), ("-1", 0.5), ("²", 0.5)])
def test_server_says_how_long_to_wait(said, seconds):
    answers, waits = [httpx.Response(429, headers=[(b"Retry-After", said.encode())]), httpx.Response(200)], []
    transport = httpx.MockTransport(lambda _: answers.pop(0))
    with Connection("https://example.org", transport=transport, wait=waits.append) as connection:
        connection.get("/schema")
    assert seconds / 2 <= waits[0] <= seconds


def test_nobody_waits_for_hours():
    waits = []
    transport = httpx.MockTransport(lambda _: httpx.Response(503, headers={"Retry-After": "3600"}))
    with (
        Connection("https://example.org", transport=transport, wait=waits.append) as connection,
        pytest.raises(CollectionError, match="after 1 attempt"),
    ):
        connection.get("/schema")
    assert not waits


@pytest.mark.parametrize("body", [b"", b"[]", b"null", b'"x"', b"\xff", b'{"other": 1}', b"<html>"])
def test_answers_of_any_form_are_told_in_a_line(body):
    transport = httpx.MockTransport(lambda _: httpx.Response(400, content=body))
    with (
        Connection("https://example.org", transport=transport) as connection,
        pytest.raises(CollectionError, match="400: Bad Request"),
    ):
        connection.get("/schema")


def test_what_a_server_says_cannot_move_the_cursor():
    transport = httpx.MockTransport(lambda _: httpx.Response(400, json={"detail": "\x1b[2J\n" + "x" * 1000}))
    with Connection("https://example.org", transport=transport) as connection, pytest.raises(CollectionError) as caught:
        connection.get("/schema")
    assert str(caught.value).isprintable()
    assert len(str(caught.value)) < 400
