"""A database that hangs is no reason to wait: 503 with a time to come back, and all goes on when it answers again."""

import os
import signal
import socket
import sqlite3
import time
from contextlib import ExitStack, closing, contextmanager, suppress

import pytest
import sqlalchemy
from devices import BEARER, FakeDevice, client_of, label_schema

from sfumato.collect import _patience as patience
from sfumato.collect import _readiness as readiness
from sfumato.collect._database import StoreError
from sfumato.collect._store import Store
from sfumato.errors import InputError

SCHEMA = label_schema()
ADA = FakeDevice("ada", SCHEMA)


@pytest.fixture
def hasty(monkeypatch):
    """Half a second for a request, and a statement that may take longer."""
    monkeypatch.setattr(patience, "SECONDS", 0.5)
    monkeypatch.setattr(patience, "BUSY", 0.2)
    monkeypatch.setattr(readiness, "_SECONDS", 0.1)


@pytest.fixture
def database(postgres_url):
    """The URL of a new database, and an engine beside it."""
    url = sqlalchemy.make_url(postgres_url)
    engine = sqlalchemy.create_engine(url, isolation_level="AUTOCOMMIT")
    with engine.connect() as connection:
        connection.exec_driver_sql("create database patience strategy file_copy")
    other = sqlalchemy.create_engine(url.set(database="patience"))
    yield url.set(database="patience").render_as_string(hide_password=False), other
    other.dispose()
    with engine.connect() as connection:
        connection.exec_driver_sql("drop database patience with (force)")
    engine.dispose()


@contextmanager
def served(where):
    store = Store.create(where, SCHEMA)
    store.enrol([ADA.enrolment])
    with client_of(store) as client:
        yield client, store


def refused(client, method, path, **request):
    start = time.monotonic()
    answer = client.request(method, path, **request)
    assert (answer.status_code, "retry-after" in answer.headers) == (503, True), answer.text
    assert "nothing was acknowledged" in answer.json()["detail"]
    assert time.monotonic() - start < 5


def workers(engine):
    """The process ids of the database that work for others."""
    with engine.connect() as connection:
        found = "select pid from pg_stat_activity where datname = 'patience' and pid <> pg_backend_pid()"
        return list(connection.exec_driver_sql(found).scalars())


@contextmanager
def frozen(engine):
    found = workers(engine)
    tell(found, signal.SIGSTOP)
    try:
        yield
    finally:
        tell(found, signal.SIGCONT)


def tell(processes, what):
    """Send a signal to each that is still there: one that has gone keeps no other from going on."""
    for process in processes:
        with suppress(ProcessLookupError):
            os.kill(process, what)


def answered(client, method, path, **request):
    """The status of the first answer that is not 503: on a busy machine the new line may take longer than a request may."""
    end = time.monotonic() + 20
    while (status := client.request(method, path, **request).status_code) == 503:
        assert time.monotonic() < end
    return status


def test_a_frozen_database_is_not_waited_for(database, hasty):
    """What hangs is cut, so the next request has a new line, to a process of the database that runs."""
    where, engine = database
    with served(where) as (client, _):
        assert answered(client, "POST", "/reports", content=ADA.body()) in (200, 201)
        with frozen(engine):
            assert client.get("/healthz").status_code == 200
            assert client.get("/readyz").status_code == 503
            assert answered(client, "GET", "/readyz") == 200
        with frozen(engine):
            refused(client, "GET", "/status")
            assert answered(client, "GET", "/status") == 200
            assert answered(client, "POST", "/reports", content=ADA.body()) == 200
        with frozen(engine):
            refused(client, "POST", "/reports", content=ADA.body())
            assert answered(client, "POST", "/reports", content=ADA.body()) == 200


def test_a_lock_is_not_waited_for(database, hasty, monkeypatch):
    where, engine = database
    monkeypatch.setattr(patience, "_STATEMENT", 0.2)
    with served(where) as (client, _):
        with engine.begin() as other:
            other.exec_driver_sql("lock table meta in access exclusive mode")
            refused(client, "POST", "/reports", content=ADA.body())
            refused(client, "GET", "/counts", headers=BEARER)
        assert answered(client, "POST", "/reports", content=ADA.body()) == 201


def test_closing_takes_as_long_as_it_takes(database, hasty, monkeypatch):
    where, _ = database
    monkeypatch.setattr(patience, "_STATEMENT", 0.2)
    with served(where) as (client, store):
        client.post("/reports", content=ADA.body())
        before = patience.PATIENT.set(True)
        with store._database.writing() as connection:
            store.cut()
            connection.exec_driver_sql("select pg_sleep(0.4)")
        patience.PATIENT.reset(before)
        assert client.post("/close", headers=BEARER).json()["reports"] == 1


@pytest.mark.parametrize("setting", ["synchronous_commit", "fsync"])
def test_a_database_that_acknowledges_too_early_is_refused(database, monkeypatch, setting):
    where, engine = database
    if setting == "synchronous_commit":
        with engine.begin() as other:
            other.exec_driver_sql("alter database patience set synchronous_commit = off")
    else:  # of the whole server, so it is only asked for differently here
        ask = sqlalchemy.Connection.exec_driver_sql
        monkeypatch.setattr(
            sqlalchemy.Connection,
            "exec_driver_sql",
            lambda self, text: ask(self, text.replace("show fsync", "select 'off'")),
        )
    with pytest.raises(InputError, match=f"Expected {setting} of .* to be on, got off"):
        Store.create(where, SCHEMA)


def test_a_database_that_takes_connections_and_says_nothing_is_refused(monkeypatch):
    monkeypatch.setattr(patience, "_CONNECT", 2)  # the least that libpq knows
    with socket.create_server(("127.0.0.1", 0)) as silent:
        start = time.monotonic()
        with pytest.raises(StoreError, match="Check that the database runs"):
            Store.open(f"postgresql+psycopg://x@127.0.0.1:{silent.getsockname()[1]}/x")
        assert time.monotonic() - start < 10


def test_what_the_url_says_stays():
    url = sqlalchemy.make_url("postgresql+psycopg://x@y/z?connect_timeout=3&options=-c%20work_mem%3D8MB")
    kept = patience.settings(url, limited=True)["connect_args"]
    assert "connect_timeout" not in kept
    assert kept["options"] == "-c statement_timeout=8000 -c work_mem=8MB"


def test_a_busy_sqlite_is_not_waited_for(tmp_path, hasty):
    where = tmp_path / "reports.sqlite"
    with served(str(where)) as (client, _):
        with closing(sqlite3.connect(where, isolation_level=None)) as other:
            other.execute("begin immediate")
            refused(client, "POST", "/reports", content=ADA.body())
            assert client.get("/status").status_code == 200
            other.execute("rollback")
        assert answered(client, "POST", "/reports", content=ADA.body()) == 201


def test_a_store_that_hangs_is_answered_for(tmp_path, hasty, monkeypatch):
    """A disk that hangs ends no system call, so the thread stays; requests do not."""
    with served(str(tmp_path / "reports.sqlite")) as (client, store):
        commit = store._database.insert
        monkeypatch.setattr(store._database, "insert", lambda *rows: (time.sleep(1), commit(*rows)))
        refused(client, "POST", "/reports", content=ADA.body())
        time.sleep(0.8)
        monkeypatch.undo()
        assert answered(client, "POST", "/reports", content=ADA.body()) == 200  # it came to be written after all


def test_the_server_stops_although_its_database_hangs(database, hasty):
    where, engine = database
    waited = []
    with ExitStack() as stack, served(where) as (client, _):
        stack.enter_context(frozen(engine))
        refused(client, "POST", "/reports", content=ADA.body())
        start = time.monotonic()
        stack.callback(lambda: waited.append(time.monotonic() - start))
    assert waited[0] < 5
