"""A simulation plays devices that report once each, and goes on with the same bytes after any stop."""

import math
import shutil
import stat

import httpx
import pytest
from collect_fake import KEY, LABEL, FakeServer, schema_of

from sfumato.collect._batch import decode_batch
from sfumato.collect._connection import RefusedError
from sfumato.collect._drawing import Values
from sfumato.collect._simulate import Devices, Summary
from sfumato.collect._wire import decode
from sfumato.errors import CollectionError, DataError

SCHEMA = schema_of(
    label={**LABEL, "epsilon": 0.01, "classes": [f"c{i}" for i in range(200)], "mechanism": "randomized-response"}
)
USERS = tuple(f"u{i}" for i in range(23))
CODES = {user: KEY.code(SCHEMA, user) for user in USERS}


def blocks(size=10, label=0):
    for start in range(0, len(USERS), size):
        users = USERS[start : start + size]
        yield Values(users, labels=(label,) * len(users))


def simulate(path, server, batch=5, label=0) -> Summary:
    with server.connection() as connection, Devices(path, SCHEMA) as devices:
        devices.draw(blocks(label=label), CODES)
        devices.enrol(connection, CODES)
        return devices.send(connection, batch)


@pytest.mark.parametrize("batch", [1, 5, 500])
def test_every_device_reports_once(tmp_path, batch):
    server = FakeServer(SCHEMA)
    assert simulate(tmp_path / "s", server, batch) == Summary(23, 23, 23, 0, 0)
    assert set(server.reports) == set(server.users) == set(USERS)
    assert len(set(server.users.values())) == 23
    assert len({message[-2:] for message in server.reports.values()}) > 10, "coins of their own"
    assert all(decode(SCHEMA, message).user == user for user, message in server.reports.items())
    count = {1: 23, 5: 5, 500: 1}[batch]
    assert [path for path, _ in server.requests].count("/reports" if batch == 1 else "/batches") == count
    assert stat.S_IMODE((tmp_path / "s").stat().st_mode) == 0o600


def test_a_simulation_that_ended_asks_about_every_report_again(tmp_path):
    server = FakeServer(SCHEMA)
    simulate(tmp_path / "s", server)
    kept, count = dict(server.reports), len(server.requests)
    assert simulate(tmp_path / "s", server, label=1) == Summary(23, 23, 0, 23, 0)
    assert (server.reports, len(server.requests)) == (kept, 2 * count)


def test_a_server_that_lost_users_and_reports_gets_them_again(tmp_path):
    server = FakeServer(SCHEMA)
    simulate(tmp_path / "s", server)
    kept = dict(server.reports)
    for user in USERS[7:15]:
        del server.users[user], server.reports[user]
    assert simulate(tmp_path / "s", server, label=1) == Summary(23, 23, 8, 15, 0)
    assert server.reports == kept


def test_a_server_that_is_down_confirms_nothing(tmp_path):
    server = FakeServer(SCHEMA)
    simulate(tmp_path / "s", server)
    server.failures = [httpx.ConnectError("Connection refused")] * 8
    with pytest.raises(CollectionError, match="Connection refused"):
        simulate(tmp_path / "s", server)


def test_a_server_that_lost_users_during_a_stop_gets_them_again(tmp_path):
    server = FakeServer(SCHEMA)
    answer = server.answer

    def going(method, path, body):
        if len(server.requests) >= 3:
            raise httpx.ConnectError("down")
        return answer(method, path, body)

    server.answer = going
    with pytest.raises(CollectionError, match="down"):
        simulate(tmp_path / "s", server)
    server.answer = answer
    server.users.clear()
    server.reports.clear()
    with pytest.raises(RefusedError, match="403") as caught:
        simulate(tmp_path / "s", server)
    assert "enrols all devices again" in caught.value.__notes__[0]
    assert simulate(tmp_path / "s", server) == Summary(23, 23, 23, 0, 0)


@pytest.mark.parametrize("how", ["down", "lost", "killed"])
@pytest.mark.parametrize("place", range(6))
def test_a_stop_anywhere_goes_on_with_the_same_bytes(tmp_path, place, how):
    """The network fails at request number ``place``, before or after the server has done it (then the answer is lost).

    Or what is on disk then, which a killed process leaves, goes on.
    """
    server, sent = FakeServer(SCHEMA), []
    answer = server.answer

    def failing(method, path, body):
        number = len(sent)
        sent.append((path, body))
        down = place <= number < place + 8
        if how == "killed" and number == place:
            shutil.copyfile(tmp_path / "s", tmp_path / "left")
        if down and how == "down":
            raise httpx.ConnectError("down")
        found = answer(method, path, body)
        if down:
            raise httpx.ReadError("down")
        return found

    server.answer = failing
    with pytest.raises(CollectionError, match="down"):
        simulate(tmp_path / "s", server)
    found = simulate(tmp_path / ("left" if how == "killed" else "s"), server, label=1)
    repeated = (3 if place == 5 else 5) * (how != "down" and place > 0)
    assert (found.accepted, found.refused, found.repeated) == (23, 0, repeated)
    assert len(sent) == 6 + 8
    said: dict[str, set[bytes]] = {}
    for path, body in sent:
        for message, _ in decode_batch(SCHEMA, body).reports if path == "/batches" else ():
            said.setdefault(decode(SCHEMA, message).user, set()).add(message)
    assert {user: len(messages) for user, messages in said.items()} == dict.fromkeys(USERS, 1)
    assert server.reports == {user: next(iter(messages)) for user, messages in said.items()}


def test_refused_reports_are_counted_and_tried_again(tmp_path):
    server = FakeServer(SCHEMA)
    server.reports["u7"] = b"other bytes"
    assert simulate(tmp_path / "s", server) == Summary(23, 22, 22, 0, 1)
    del server.reports["u7"]
    assert simulate(tmp_path / "s", server) == Summary(23, 23, 1, 22, 0)


def test_refused_enrolments_are_told(tmp_path):
    wrong = {**CODES, "u3": "00" * 16}
    server = FakeServer(SCHEMA)
    with server.connection() as connection, Devices(tmp_path / "s", SCHEMA) as devices:
        devices.draw(blocks(), wrong)
        with pytest.raises(CollectionError, match="1 of 23 devices; the first with 403: Wrong code"):
            devices.enrol(connection, wrong)
        devices.enrol(connection, CODES)
    assert set(server.users) == set(USERS)


@pytest.mark.parametrize("said", [{}, [], [{"status": 201}], "yes", None, 7, [{"status": math.inf, "detail": ""}] * 23])
def test_answers_of_another_form_are_told(tmp_path, said):
    server = FakeServer(SCHEMA)
    server.answer = lambda *_: (200, said)
    with pytest.raises(CollectionError, match="unknown form"):
        simulate(tmp_path / "s", server)


@pytest.mark.parametrize(
    "said",
    [
        {"stored": 5, "repeated": 0},
        {"stored": "many", "repeated": 0, "refused": []},
        {"stored": math.inf, "repeated": 0, "refused": []},
        {"stored": 6, "repeated": -1, "refused": []},
        {"stored": 4, "repeated": 0, "refused": []},
        {"stored": 4, "repeated": 0, "refused": [{"place": 5}]},
        {"stored": 3, "repeated": 0, "refused": [{"place": 1}, {"place": 1}]},
    ],
)
def test_counts_that_cannot_be_are_told(tmp_path, said):
    server = FakeServer(SCHEMA)
    answer = server.answer
    server.answer = lambda method, path, body: (200, said) if path == "/batches" else answer(method, path, body)
    with pytest.raises(CollectionError, match="unknown form"):
        simulate(tmp_path / "s", server)


def test_state_of_something_else_is_refused(tmp_path):
    Devices(tmp_path / "s", SCHEMA).close()
    with pytest.raises(DataError, match="of this schema"):
        Devices(tmp_path / "s", schema_of())
    (tmp_path / "letter.txt").write_text("Dear Ada, " * 1000)
    with pytest.raises(DataError, match="state of a simulation"):
        Devices(tmp_path / "letter.txt", SCHEMA)
    assert (tmp_path / "letter.txt").read_text() == "Dear Ada, " * 1000
