"""Many devices on one machine: their file is one of its kind, two runs split nothing twice, and servers say what they like."""

import json
import sqlite3

import httpx
import pytest
from two_made import Pair

from sfumato.collect._connection import Connection
from sfumato.collect._schema import Schema
from sfumato.collect._simulate import Devices as DevicesOfOne
from sfumato.collect.two import _simulate
from sfumato.collect.two._files import Agreed
from sfumato.collect.two._simulate import Devices
from sfumato.errors import CollectionError, DataError

SCHEMA = """
collection = "colors"
purpose = "A test."
opens = 2020-01-01T00:00:00Z
closes = 2120-01-01T00:00:00Z
[label]
name = "color"
classes = ["red", "green"]
epsilon = 1.0
"""


@pytest.fixture
def agreed(tmp_path):
    pair = Pair(tmp_path)
    return Agreed(pair.agreement, pair.partition, pair.signatures)


@pytest.fixture
def answers(agreed):
    return dict.fromkeys(agreed.partition.cells, 0)


def rows(path):
    with sqlite3.connect(path) as file:
        return file.execute("SELECT user, message0, message1 FROM devices ORDER BY user").fetchall()


def answering(body, status=200):
    transport = httpx.MockTransport(lambda _: httpx.Response(status, content=body))
    return Connection("https://example.org", transport=transport, wait=lambda _: None)


@pytest.mark.parametrize("content", ["text", "of one server", "of other tables", "of columns"])
def test_another_file_is_refused_and_stays(tmp_path, agreed, answers, content):
    path = tmp_path / "devices.sqlite"
    if content == "text":
        path.write_text("Something else." * 99)
    elif content == "of one server":
        (tmp_path / "questions.toml").write_text(SCHEMA)
        DevicesOfOne(path, Schema.from_toml(tmp_path / "questions.toml", "09" + "00" * 31)).close()
    else:
        with sqlite3.connect(path) as file:
            file.execute("CREATE TABLE devices (place INTEGER PRIMARY KEY, user TEXT)")
            if content == "of columns":
                file.execute("CREATE TABLE collection (agreement TEXT)")
        file.close()
    before = path.read_bytes()
    with pytest.raises(DataError, match="with two servers"):
        Devices(path, agreed)
    assert path.read_bytes() == before


def test_two_runs_at_once_split_each_answer_once(tmp_path, agreed, answers, monkeypatch):
    path, real = tmp_path / "devices.sqlite", _simulate.drawn_all
    with Devices(path, agreed) as one, Devices(path, agreed) as other:

        def meanwhile(*given):
            monkeypatch.undo()
            other.draw(answers)
            return real(*given)

        monkeypatch.setattr(_simulate, "drawn_all", meanwhile)
        one.draw(dict.fromkeys(answers, 1))
        first = rows(path)
        other.draw(answers)
    assert rows(path) == first
    assert len(first) == 12


@pytest.mark.parametrize("said", ['"x"', "1e400", "NaN", "null", "[]", "true"])
def test_servers_that_answer_garbage_are_refused(tmp_path, agreed, answers, said):
    body = json.dumps([{"status": 0, "detail": ""}] * 12).replace(" 0", f" {said}")
    with Devices(tmp_path / "devices.sqlite", agreed) as devices, answering(body) as server:
        devices.draw(answers)
        with pytest.raises(CollectionError):
            devices.enrol((server, server), ({}, {}))
        try:
            found = devices.send((server, server))
        except CollectionError:
            return
        assert (found.accepted, found.refused) == (0, 24)


def test_what_a_server_says_is_a_line_of_text(tmp_path, agreed, answers):
    """A terminal obeys what it prints."""
    body = json.dumps([{"status": 403, "detail": "\x1b]0;own\n" + "x" * 999}] * 12)
    with Devices(tmp_path / "devices.sqlite", agreed) as devices, answering(body) as server:
        devices.draw(answers)
        with pytest.raises(CollectionError) as caught:
            devices.enrol((server, server), ({}, {}))
    assert str(caught.value).isprintable()
    assert len(str(caught.value)) < 500


def test_a_run_after_the_last_asks_again(tmp_path, agreed, answers):
    """A server that lost its book, or was restored from a copy, gets the same bytes once more."""
    path, asked = tmp_path / "devices.sqlite", []

    def handle(request):
        asked.append(request.content)
        return httpx.Response(200, json=[{"status": 201, "detail": ""}] * 12)

    for _ in range(2):
        with (
            Devices(path, agreed) as devices,
            Connection("https://example.org", transport=httpx.MockTransport(handle)) as server,
        ):
            devices.draw(answers)
            devices.enrol((server, server), ({}, {}))
            assert devices.send((server, server)).to_dict()["accepted"] == 12
    assert len(asked) == 8
    assert asked[2:4] == asked[6:]
