"""Connections are counted at the door: who holds many, with TLS or without, keeps nobody out and fills no log."""

import asyncio
import http.client
import json
import logging
import socket
import ssl
import threading
import time
from contextlib import ExitStack, contextmanager

import pytest
from devices import certify
from fastapi import FastAPI, Request
from test_http import PATIENCE, served, talk

from sfumato.errors import InputError
from sfumato.web._addresses import caller, networks, site_of
from sfumato.web._door import Door, Guest, most_connections
from sfumato.web._metrics import WebMetrics

NOBODY = networks("", ())


@pytest.fixture(scope="module")
def certificate(tmp_path_factory):
    """Files of a certificate and its key."""
    return certify(tmp_path_factory.mktemp("tls"))


@pytest.fixture(params=["plain", "tls"])
def tls(request, certificate):
    return certificate if request.param == "tls" else ()


def application():
    app = FastAPI()

    @app.get("/")
    async def page():
        return {}

    @app.post("/")
    async def take(body: dict):
        return {}

    return app


def asked(address, tls=(), timeout=PATIENCE):
    """The status of an honest request."""
    if tls:
        made = http.client.HTTPSConnection(*address, timeout=timeout, context=ssl._create_unverified_context())
    else:
        made = http.client.HTTPConnection(*address, timeout=timeout)
    made.request("GET", "/")
    status = made.getresponse().status
    made.close()
    return status


@contextmanager
def held(address, count, said=b"", source="127.0.0.1"):
    """Connections that send so much and no more."""
    with ExitStack() as stack:
        opened = []
        for _ in range(count):
            opened.append(stack.enter_context(socket.create_connection(address, PATIENCE, (source, 0))))
            opened[-1].sendall(said)
        yield opened


def ended(connection):
    try:
        while connection.recv(1 << 12):
            pass
        return True
    except ConnectionResetError:
        return True


def soon(holds):
    """Whether something comes true; what the server notes of an end may come after the client has seen it."""
    deadline = time.monotonic() + PATIENCE
    while not holds() and time.monotonic() < deadline:
        time.sleep(0.01)
    return holds()


@pytest.mark.parametrize("said", [b"", b"\x16\x03\x01", b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\nx"])
def test_those_who_are_waited_for_longest_go_when_all_places_are_taken(tls, said):
    door = Door(10)
    with served(application(), door, tls) as address, held(address, 30, said) as opened:
        start = time.monotonic()
        assert asked(address, tls) == 200
        assert time.monotonic() - start < PATIENCE / 4
        assert all(ended(one) for one in opened[:20])
        assert soon(lambda: sum(door.refused.values()) >= 20)  # who speaks another protocol is gone at once
        assert door.count <= 10


def test_a_silent_connection_ends_after_the_handshake_time(certificate):
    door = Door(10, handshake_seconds=0.2)
    with served(application(), door, certificate) as address:
        for said in (b"", b"\x16\x03\x01"):
            with held(address, 1, said) as (one,):
                start = time.monotonic()
                assert ended(one)
                assert 0.1 < time.monotonic() - start < PATIENCE / 4
        assert soon(lambda: door.refused["handshake"] == 2)


class Greeter(asyncio.Protocol):
    def connection_made(self, transport):
        self.guest.arrive(transport)

    def connection_lost(self, _error):
        self.guest.leave()


@pytest.mark.parametrize("turns", [1, 2], ids=["knocks", "was let in"])
def test_who_comes_while_the_server_stops_is_sent_away(turns):
    """Nobody waits for such a connection: it is neither in HTTP yet, nor in the row of the listener any more."""
    faults = []

    async def stop():
        asyncio.get_running_loop().set_exception_handler(lambda _loop, fault: faults.append(fault))
        door, listener = Door(10), socket.create_server(("127.0.0.1", 0))
        door.open(Greeter, listener, None)
        await asyncio.sleep(0.01)
        late = socket.create_connection(listener.getsockname(), PATIENCE)
        for _ in range(turns):
            await asyncio.sleep(0)
        while turns > 1 and not door.count:
            await asyncio.sleep(0)
        door.close()
        listener.close()
        await door.wait_closed()
        await asyncio.wait_for(asyncio.gather(*door._tasks), PATIENCE)
        with late:
            assert ended(late)

    asyncio.run(stop())
    assert faults == []


def test_one_address_gets_a_share_of_the_places(tls):
    door = Door(16, 1 / 4, NOBODY)
    with served(application(), door, tls) as address, held(address, 8, source="127.0.0.2") as opened:
        assert all(ended(one) for one in opened[4:])
        assert (door.refused["address"], door.count) == (4, 4)
        assert asked(address, tls) == 200
        opened[0].close()
        assert soon(lambda: door.count == 3)
        with held(address, 1, source="127.0.0.2") as (one,):
            one.settimeout(0.1)
            with pytest.raises(TimeoutError):
                one.recv(1)


def test_handshakes_take_half_of_the_places_and_none_of_those_who_finished_theirs(certificate):
    door = Door(12, handshake_seconds=PATIENCE)
    with served(application(), door, certificate) as address, ExitStack() as stack:
        made = http.client.HTTPSConnection(*address, timeout=PATIENCE, context=ssl._create_unverified_context())
        made.request("GET", "/")
        assert made.getresponse().read() == b"{}"
        first = made.sock
        opened = stack.enter_context(held(address, 9, b"\x16\x03\x01"))
        assert all(ended(one) for one in opened[:3])  # six have TLS objects, whatever places are free
        stack.enter_context(held(address, 40))
        assert asked(address, certificate) == 200
        made.request("GET", "/")
        assert (made.getresponse().status, made.sock) == (200, first)
        made.close()


def test_who_is_sent_away_counts_until_the_descriptor_is_closed(monkeypatch):
    monkeypatch.setattr(Guest, "send_away", lambda guest: sent.append(guest))
    door, sent = Door(4), []
    with served(application(), door) as address, held(address, 100):
        assert soon(lambda: len(sent) >= 32)
        time.sleep(0.1)
        assert len(sent) == 32  # no more is accepted before one of these is gone
        monkeypatch.undo()
        for guest in list(sent):
            guest._connection.shutdown(socket.SHUT_RDWR)
        assert asked(address) == 200


def test_a_wide_network_gets_twice_the_share_of_a_narrow_one():
    async def act():
        door = Door(32, 1 / 8, NOBODY)
        return [
            sum(door._let_in(None, f"2001:db8:{net}:{site:x}::1") is not None for site in range(12)) for net in (1, 2)
        ], door._let_in(None, "10.0.0.1") is not None

    assert asyncio.run(act()) == ([8, 8], True)


def test_a_proxy_that_is_trusted_takes_all_places(certificate):
    door = Door(16, 1 / 4, networks("", ("127.0.0.0/30",)))
    with served(application(), door, certificate) as address, held(address, 12, source="127.0.0.2"):
        assert asked(address, certificate) == 200
        assert not door.refused


@contextmanager
def under_way(count, door):
    """So many requests that the server works on, over connections that are yielded with what lets it end."""
    app, end = application(), threading.Event()

    @app.get("/slow")
    async def slow():
        while not end.is_set():
            await asyncio.sleep(0.01)
        return {}

    with served(app, door) as address, held(address, count, b"GET /slow HTTP/1.1\r\nHost: x\r\n\r\n") as busy:
        assert soon(lambda: sum(guest.is_busy for guest in list(door._guests)) == count)
        try:
            yield address, busy, end
        finally:
            end.set()


def test_a_request_under_way_keeps_its_place():
    with under_way(1, Door(4)) as (address, (busy,), end), held(address, 20) as opened:
        assert ended(opened[0])
        end.set()
        assert busy.recv(1 << 12).startswith(b"HTTP/1.1 200")


def test_no_place_is_left_when_all_are_under_way():
    door = Door(4)
    with under_way(4, door) as (address, busy, end):
        assert talk(address) == b""
        assert door.refused == {"full": 1}
        end.set()
        assert all(one.recv(1 << 12).startswith(b"HTTP/1.1 200") for one in busy)


def test_a_connection_that_is_used_is_not_the_first_to_go():
    with served(application(), Door(10)) as address:
        made = http.client.HTTPConnection(*address, timeout=PATIENCE)
        with held(address, 0):
            for _ in range(8):
                made.request("GET", "/")
                first = made.sock
                assert made.getresponse().read() == b"{}"
                with held(address, 5):
                    pass
            assert made.sock is first
        made.close()


def test_descriptors_that_run_out_write_a_line_and_not_a_traceback(caplog, monkeypatch):
    """The kernel's refusal is made up: to use up the descriptors of the process of the tests would fail other tests."""
    failing = [OSError(24, "Too many open files")] * 3
    accept = socket.socket.accept

    def refusing(listener):
        if failing:
            raise failing.pop()
        return accept(listener)

    caplog.set_level(logging.WARNING)
    monkeypatch.setattr(socket.socket, "accept", refusing)
    door = Door(10)
    with served(application(), door) as address:
        assert asked(address) == 200
    assert door.refused["descriptors"] == 3
    assert {record.facts["reason"] for record in caplog.records} == {"descriptors"}
    assert not any(record.exc_info for record in caplog.records)


def test_connections_are_figures():
    app = application()
    app.state.metrics = WebMetrics()
    door = Door(16, 1 / 4, NOBODY)
    with served(app, door) as address, held(address, 6, source="127.0.0.2") as opened:
        assert all(ended(one) for one in opened[4:])
        text = app.state.metrics.text().decode()
    for line in (
        "sfumato_connections 4.0",
        "sfumato_most_connections 16.0",
        'sfumato_refused_connections_total{reason="address"} 2.0',
    ):
        assert line in text


@pytest.mark.parametrize(("trusted", "site"), [(("127.0.0.1",), "10.1.2.3"), ((), "127.0.0.1")])
def test_a_trusted_proxy_says_whose_request_it_is(trusted, site):
    app = application()

    @app.get("/who")
    async def who(request: Request):
        return caller(request.client)

    with served(app, Door(8, trusted=networks("", trusted))) as address:
        made = http.client.HTTPConnection(*address, timeout=PATIENCE)
        made.request("GET", "/who", headers={"X-Forwarded-For": "10.9.9.9, 10.1.2.3"})
        assert json.loads(made.getresponse().read()) == site
        made.close()


def test_places_follow_from_descriptors(monkeypatch):
    import resource

    for allowed, places in ((1024, 864), (200, 40), (10**6, 1000), (resource.RLIM_INFINITY, 1000)):
        monkeypatch.setattr(resource, "getrlimit", lambda _, allowed=allowed: (allowed, allowed))
        assert most_connections() == places
    monkeypatch.setattr(resource, "getrlimit", lambda _: (100, 100))
    with pytest.raises(InputError, match=r"192 open files or more, got 100. Raise it"):
        most_connections()


def test_addresses_of_one_holder_are_one_site():
    assert site_of("2001:db8::1") == site_of("2001:db8::ffff:2") != site_of("2001:db8:0:1::1")
    assert site_of("fe80::1%eth0") == "fe80::"
    with pytest.raises(InputError, match=r"Expected --x to be an IP address or a network, got '10\.0\.0\.300'"):
        networks("--x", ("10.0.0.300",))
