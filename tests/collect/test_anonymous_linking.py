"""What a server, a relay or a copy of a closed store could join a name and an anonymous report by."""

import httpx
import pytest
from devices import SERVER_KEY
from test_anonymous import SCHEMA, client

from sfumato.cli import invoke
from sfumato.collect._connection import Connection
from sfumato.collect._store import Store


@pytest.fixture
def anonymous(tmp_path):
    """The store of an anonymous survey."""
    made = Store.create(str(tmp_path / "reports.sqlite"), SCHEMA)
    yield made
    made.dispose()


@pytest.fixture
def asked(anonymous, tmp_path, monkeypatch):
    """Every request of the commands of a device: the host that it went to, its path and its body."""
    (tmp_path / "schema.json").write_text(SCHEMA.text)
    (tmp_path / "ada.toml").write_text('label = "b"\n')
    monkeypatch.chdir(tmp_path)
    seen = []
    with client(anonymous) as http:

        def handle(request):
            seen.append((request.url.host, request.url.path, request.content))
            answer = http.request(
                request.method, request.url.path, content=request.content, headers=dict(request.headers)
            )
            return httpx.Response(answer.status_code, content=answer.content)

        def connect(url, **how):
            return Connection(url, transport=httpx.MockTransport(handle), **how)

        monkeypatch.setattr("sfumato.collect._connection.Connection", connect)
        yield seen


def report(*more, schema="schema.json"):
    named = () if schema != "schema.json" else ("--server", "https://server.test")
    return invoke(["collect", "report", schema, *named, "--state", "ada", "--values", "ada.toml", "--yes", *more])


def first():
    """Options of the first report of ada, with which a user may call every command again."""
    return ("--user", "ada", "--cap", "5", "--code", SERVER_KEY.code(SCHEMA, "ada"))


def test_a_report_that_is_drawn_is_sent_by_one_request_without_a_name(asked):
    assert report(*first(), "--later") == 0
    assert [path for _, path, _ in asked] == ["/users", "/tokens"]
    asked.clear()
    assert report(*first(), "--later") == 0
    assert asked == []
    assert report(*first()) == 0
    ((host, path, sent),) = asked
    assert (host, path) == ("server.test", "/reports")
    assert b"ada" not in sent
    assert report() == 0
    assert asked == [(host, path, sent)] * 2
