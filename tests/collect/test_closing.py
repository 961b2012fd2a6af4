"""Closing, exporting and estimating read reports one after the other, and a server answers while it closes many of them."""

import hashlib
import threading
import tracemalloc

import pytest
import sqlalchemy
from devices import BEARER, FakeDevice, client_of, label_schema

from sfumato.cli import invoke
from sfumato.collect import _server as server_module
from sfumato.collect._closed import Closed, Stream
from sfumato.collect._estimate import estimate
from sfumato.collect._store import Store, Upload
from sfumato.errors import DataError

SCHEMA = label_schema()
ADA, BOB = FakeDevice("ada", SCHEMA), FakeDevice("bob", SCHEMA)
MANY = 6_000
SLACK = 250_000  # bytes; the messages alone are three times as many


@pytest.fixture(scope="module")
def full(tmp_path_factory):
    """A store of many reports, of which few are in memory at once."""
    path = str(tmp_path_factory.mktemp("closing") / "reports.sqlite")
    store = Store.create(path, SCHEMA)
    devices = (FakeDevice(f"{'u' * 50}{place}", SCHEMA) for place in range(MANY))
    uploads = [Upload(one.user, one.message(place % 4), b"") for place, one in enumerate(devices)]
    store.add(uploads)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("sfumato.collect._stored._MOST_AT_ONCE", 100)
        patch.setattr("sfumato.collect._estimate._USERS", 100)
        yield store
    store.dispose()


def test_memory_does_not_grow_with_the_number_of_reports(full, tmp_path):
    def estimated():
        with full.stream() as stream:
            return estimate(stream)

    def read():
        with Stream.of_file(tmp_path / "closed") as stream:
            return estimate(stream)

    found = []
    estimated()  # what is loaded once counts for nothing
    for use in (estimated, full.close, lambda: full.export(tmp_path / "closed"), read):
        tracemalloc.start()
        found.append(use())
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert peak < SLACK
    assert sum(map(len, full.messages())) > 2 * SLACK
    whole = Closed.read(tmp_path / "closed")
    assert found[1] == found[2] == (whole.sha256, MANY)
    assert found[0].counts == {"label": MANY}
    for one in (found[0], found[3]):
        for part, other in zip(one.answers["label"], estimate(whole).answers["label"], strict=True):
            assert part.estimate == pytest.approx(other.estimate)


def test_blocks_and_the_whole_are_the_same_file(full):
    full.close()
    data = b"".join(full.pieces())
    assert hashlib.sha256(data).hexdigest() == full.sha256 == full.closed().sha256


@pytest.mark.parametrize(
    "change", ["update reports set message = :m where \"user\" = :u", "delete from reports where \"user\" = :u"]
)  # fmt: skip
def test_no_answer_about_a_closed_collection_is_about_altered_reports(store, tmp_path, capsys, change):
    where = str(tmp_path / "reports.sqlite")
    store.add([ADA.upload(0), BOB.upload(1)])
    store.close()
    engine = sqlalchemy.create_engine(f"sqlite:///{tmp_path}/reports.sqlite")
    with engine.begin() as connection:
        said = {"m": ADA.message(1), "u": b"ada"}
        connection.execute(sqlalchemy.text(change), {name: said[name] for name in said if f":{name}" in change})
    engine.dispose()
    given = []
    with pytest.raises(DataError, match="Restore the store"):
        given.extend(store.pieces())
    with pytest.raises(DataError, match="Restore the store"):
        store.export(tmp_path / "closed")
    assert not list(tmp_path.glob("closed*"))
    for use in (store.close, store.closed):
        with pytest.raises(DataError, match="Restore the store"):
            use()
    with store.stream() as stream, pytest.raises(DataError, match="Restore the store"):
        estimate(stream)
    for options in (["--dry-run"], ["--yes"], ["--json", "--dry-run"]):
        assert invoke(["collect", "close", "--store", where, *options]) == 2
        assert "Restore the store" in capsys.readouterr().err
    assert invoke(["collect", "estimate", where]) == 2
    assert "Restore the store" in capsys.readouterr().err


def test_an_export_into_a_missing_folder_names_the_file_that_was_asked_for(store, tmp_path):
    store.close()
    with pytest.raises(FileNotFoundError) as caught:
        store.export(tmp_path / "no" / "closed")
    assert caught.value.filename == str(tmp_path / "no" / "closed")


@pytest.fixture
def client(store, monkeypatch):
    """A client of a server that waits a moment for a closing; ada and bob are enrolled."""
    monkeypatch.setattr(server_module, "_CLOSE_SECONDS", 0.05)
    with client_of(store) as client:
        for one in (ADA, BOB):
            client.post("/users", json=one.code)
        client.post("/reports", content=ADA.body(1))
        yield client


def test_a_closing_that_takes_long_is_asked_for_again(client, store, monkeypatch):
    """A proxy gives up on an answer after a minute; and what comes meanwhile is not kept waiting for the lock."""
    ready, real = threading.Event(), store.close
    monkeypatch.setattr(store, "close", lambda: ready.wait(60) and real())
    for _ in range(2):
        answer = client.post("/close", headers=BEARER)
        assert (answer.status_code, answer.headers["retry-after"]) == (202, "5")
    for path, body in (("/reports", BOB.body(1)), ("/batches", ADA.batch(BOB.coded(1)))):
        answer = client.post(path, content=body)
        assert (answer.status_code, answer.headers["retry-after"]) == (503, "10")
    assert client.post("/users", json=BOB.code).status_code == 503
    ready.set()
    while (answer := client.post("/close", headers=BEARER)).status_code == 202:
        pass
    assert answer.json() == {"sha256": store.sha256, "reports": 1}
    assert client.post("/reports", content=BOB.body(1)).status_code == 410
    assert client.get("/export", headers=BEARER).content == b"".join(store.pieces())


def test_a_closing_is_checked_once_by_a_server(client, store, monkeypatch):
    """To check takes as long as to close, so a server that began anew at each question would answer 202 for ever."""
    calls, real = [], store.close
    monkeypatch.setattr(store, "close", lambda: calls.append(1) or real())
    while (answer := client.post("/close", headers=BEARER)).status_code == 202:
        pass
    assert client.post("/close", headers=BEARER).json() == answer.json()
    assert len(calls) == 1


def test_a_closing_that_fails_can_be_asked_for_again(client, monkeypatch):
    with monkeypatch.context() as patch:
        patch.setattr("sfumato.collect._closed.decode", lambda *_: 1 / 0)
        assert client.post("/close", headers=BEARER).status_code == 500
    assert client.post("/reports", content=BOB.body(1)).status_code == 201
    assert client.post("/close", headers=BEARER).json()["reports"] == 2
