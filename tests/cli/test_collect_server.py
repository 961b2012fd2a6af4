"""`sfumato collect serve`, `close` and `export`: files, refusals and a clean end."""

import json
import os
import socket
import ssl
import stat
from contextlib import ExitStack

import httpx
import pytest
from devices import SERVER_KEY, FakeDevice, certify, label_schema

from sfumato.collect._closed import Closed
from sfumato.collect._keys import ServerKey
from sfumato.collect._store import Store

SCHEMA = label_schema(opens="2020-01-01T00:00:00Z", closes="2120-01-01T00:00:00Z")
ADA = FakeDevice("ada", SCHEMA)
PATIENCE = 60


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """The working folder, with schema and key of a collection."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "schema.json").write_text(SCHEMA.text)
    SERVER_KEY.write(tmp_path / "server.key")
    return tmp_path


SERVE = ("collect", "serve", "schema.json")


def test_collection_is_served_closed_and_exported(serving, folder, sfumato):
    server = serving(*SERVE)
    token = (folder / "admin.token").read_text().strip()
    assert stat.S_IMODE((folder / "admin.token").stat().st_mode) == 0o600
    assert len(bytes.fromhex(token)) == 32
    assert httpx.post(f"{server.url}/users", json=ADA.code).status_code == 201
    assert httpx.post(f"{server.url}/reports", content=ADA.body(2)).status_code == 201
    assert httpx.get(server.url, auth=("any", token)).status_code == 200
    refused = sfumato("collect", "export", "--store", "reports.sqlite")
    assert (refused.code, "Close it first" in refused.err) == (2, True)
    assert not (folder / "closed.sfumato").exists()
    closed = json.loads(sfumato("collect", "close", "--store", "reports.sqlite", "--yes", "--json").out)
    assert closed["reports"] == 1
    assert httpx.post(f"{server.url}/reports", content=ADA.body(2)).status_code == 410
    assert server.stop() == 0
    assert (
        sfumato("collect", "close", "--store", "reports.sqlite").out == f"Closed with 1 report as {closed['sha256']}.\n"
    )
    exported = json.loads(sfumato("collect", "export", "--store", "reports.sqlite", "--json").out)
    assert exported == {**closed, "out": "closed.sfumato"}
    read = Closed.read(folder / "closed.sfumato")
    assert (read.sha256, read.messages) == (closed["sha256"], (ADA.message(2),))
    again = sfumato("collect", "export", "--store", "reports.sqlite")
    assert (again.code, "new file" in again.err) == (2, True)


def test_the_same_store_and_token_are_used_again(serving, folder):
    for expected in (201, 200):
        server = serving(*SERVE)
        token = (folder / "admin.token").read_text()
        assert httpx.post(f"{server.url}/users", json=ADA.code).status_code == expected
        assert server.stop() == 0
        assert (folder / "admin.token").read_text() == token


@pytest.fixture
def tls(folder):
    """Options with a certificate for this machine."""
    certify(folder)
    return "--certificate", "tls.pem", "--key", "tls.key"


def test_silent_connections_beyond_the_descriptors_stop_no_report(serving, folder, tls):
    server = serving(*SERVE, *tls, descriptors=200)
    trusted = ssl.create_default_context(cafile="tls.pem")
    assert server.url.startswith("https://")
    address = ("127.0.0.1", int(server.url.rsplit(":", 1)[1]))
    with ExitStack() as stack:
        for _ in range(300):
            stack.enter_context(socket.create_connection(address, PATIENCE))
        assert httpx.post(f"{server.url}/users", json=ADA.code, verify=trusted, timeout=5).status_code == 201
        assert httpx.post(f"{server.url}/reports", content=ADA.body(2), verify=trusted, timeout=5).status_code == 201
    assert server.stop() == 0
    lines = [json.loads(line) for line in (folder / "server.log").read_text().splitlines()]
    assert {line["event"].partition(" ")[0] for line in lines} == {"Collection", "connection", "Stopped."}
    assert len(lines) < 100


def test_a_hang_up_reads_the_certificate_again_and_ends_nothing(serving, folder, tls):
    server = serving(*SERVE, *tls)
    address = ("127.0.0.1", int(server.url.rsplit(":", 1)[1]))

    def hung_up(words):
        server.hang_up(words)
        return ssl.get_server_certificate(address)

    first = (folder / "tls.pem").read_text()
    assert ssl.get_server_certificate(address).strip() == first.strip()
    (folder / "tls.pem").write_text("no certificate")
    assert hung_up("could not be read again").strip() == first.strip()
    certify(folder)
    assert hung_up("was read again").strip() == (folder / "tls.pem").read_text().strip() != first.strip()


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--server-key", "absent.key"), "absent.key"),
        (("--server-key", "other.key"), "the key of this schema"),
        (("--certificate", "server.key"), "Add the other"),
        (("--certificate", "nope.pem", "--key", "server.key"), "Expected --certificate to be a file, got 'nope.pem'"),
        (("--certificate", "server.key", "--key", "nope.pem"), "Expected --key to be a file, got 'nope.pem'"),
        (("--certificate", "server.key", "--key", "schema.json"), "got 'server.key and schema.json'"),
        (("--host", "256.0.0.1"), "to be free"),
        (("--trusted-proxy", "10.0.0.300"), "Expected --trusted-proxy to be an IP address or a network"),
        (("--port", "70000"), "65535"),
        (("--store", "nosuch://x"), "URL"),
        (("--store", "no/folder/reports.sqlite"), "Check the path"),
        (("--store", "schema.json"), "not a database"),
        (("--admin-token-file", "short.token"), "32 characters"),
        (("--admin-token-file", "no/folder/token"), "Check the path"),
    ],
)
def test_bad_input_ends_with_2_and_serves_nothing(folder, sfumato, options, words):
    (folder / "short.token").touch(0o600)
    (folder / "short.token").write_text("short\n")
    ServerKey(bytes(32)).write(folder / "other.key")
    before = set(folder.iterdir())
    result = sfumato(*SERVE, "--port", "0", *options)  # the last one of an option counts
    assert result.code == 2
    assert words in result.err
    assert result.err.count("\n") == 1
    assert {path.name.partition("-")[0] for path in set(folder.iterdir()) - before} <= {"reports.sqlite"}


@pytest.mark.parametrize("command", ["close", "export"])
def test_the_usual_store_need_not_be_named(folder, sfumato, command):
    assert "reports.sqlite" in sfumato("collect", command).err
    Store.create("reports.sqlite", SCHEMA).close()
    result = sfumato("collect", command)
    assert (result.code, "0 reports" in result.out) == (0, True)


def test_a_schema_that_is_absent_is_refused(folder, sfumato):
    result = sfumato("collect", "serve", "absent.json")
    assert (result.code, "absent.json" in result.err) == (2, True)


def test_a_port_in_use_is_refused_before_a_store_is_made(folder, sfumato):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        result = sfumato(*SERVE, "--port", str(taken.getsockname()[1]))
    assert (result.code, "to be free" in result.err) == (2, True)
    assert not (folder / "reports.sqlite").exists()


@pytest.mark.parametrize("command", ["close", "export"])
def test_stores_that_are_absent_or_damaged_are_refused(folder, sfumato, command):
    result = sfumato("collect", command, "--store", "absent.sqlite")
    assert (result.code, "no file" in result.err) == (2, True)
    assert not (folder / "absent.sqlite").exists()
    store = Store.create("reports.sqlite", SCHEMA)
    store.add([FakeDevice(f"user-{place}", SCHEMA).upload() for place in range(1000)])
    store.dispose()
    with (folder / "reports.sqlite").open("r+b") as file:
        file.seek(10 * 4096)
        file.write(os.urandom(5 * 4096))
    result = sfumato("collect", command, "--store", "reports.sqlite")
    assert (result.code, "backup" in result.err) == (2, True)
    assert not (folder / "closed.sfumato").exists()
