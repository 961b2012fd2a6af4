"""What a server, a relay or a copy of a closed store could join a name and an anonymous report by."""

import random
import re
from itertools import pairwise
from pathlib import Path

import httpx
import pytest
from devices import BEARER, SERVER_KEY, FakeDevice
from test_anonymous import SCHEMA, client, enrolled, fetched, upload

from sfumato.cli import invoke
from sfumato.collect._connection import Connection
from sfumato.collect._store import Asked, Store, Upload
from sfumato.collect._tokens import Token
from sfumato.collect._wire import encode, public_id


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
    assert b'"user"' not in sent
    assert report() == 0
    assert asked == [(host, path, sent)] * 2


def test_a_report_has_the_same_headers_from_every_version_of_the_client():
    seen = []

    def handle(request):
        seen.append(request.headers)
        return httpx.Response(201)

    with Connection("https://server.test", transport=httpx.MockTransport(handle)) as server:
        server.post("/reports", b"1")
    (headers,) = seen
    own = {"host": "server.test", "content-length": "1", "content-type": "application/octet-stream"}
    assert dict(headers) == {
        "accept": "*/*", "accept-encoding": "identity", "connection": "keep-alive", "user-agent": "sfumato", **own
    }  # fmt: skip


def test_a_token_that_is_lost_is_not_asked_for_again(asked, tmp_path, capsys):
    assert report(*first(), "--later") == 0
    (tmp_path / "ada" / "tokens.json").unlink()
    asked.clear()
    assert report() == 2
    assert "restore tokens.json" in capsys.readouterr().err
    assert asked == []


def test_alerts_about_anonymous_reports_have_no_time(anonymous):
    names = survey(anonymous)
    with client(anonymous) as http:
        alerts = http.get("/counts", headers=BEARER).json()["alerts"]
        assert {(one["first"], one["last"]) for one in alerts if one["user"] in names} == {("", "")}
        assert "1970-01" not in http.get("/", headers=BEARER).text


def test_logs_hold_no_name_of_a_token(anonymous, caplog):
    """A line of the log has a time, and the closed file has the answer of the name: a refused report must leave no line."""
    caplog.set_level("INFO", "sfumato.collect")
    key = SCHEMA.anonymous.public
    with client(anonymous) as http:
        ada = enrolled(http)
        token = fetched(http, ada)
        for label in (0, 1, 2):
            http.post("/reports", content=upload(token, label=label))
        assert caplog.records == []
        for _ in range(2):
            text, _ = Token.draw().blind(key, SCHEMA.digest)
            signature = ada.keys.sign_asked(SCHEMA.digest, text).hex()
            http.post("/tokens", json={"user": "ada", "blinded": text.hex(), "signature": signature})
    (record, *_) = caplog.records  # a name that asks for a second token is logged, by a hash
    assert record.facts["user"]
    assert not any(f"{public_id(SCHEMA, token.name):016x}"[:12] in str(one.facts) for one in caplog.records)


def test_a_survey_is_not_served_without_its_token_key(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "schema.json").write_text(SCHEMA.text)
    SERVER_KEY.write(tmp_path / "server.key")
    assert invoke(["collect", "serve", "schema.json", "--port", "0"]) == 2
    said = capsys.readouterr().err
    assert "--token-key" in said
    assert "restore it from the backup" in said
    assert not (tmp_path / "reports.sqlite").exists()


def test_a_report_that_is_drawn_contacts_nothing_but_the_relay(asked, capsys):
    assert report(*first(), "--later") == 0
    asked.clear()
    relayed = ("--relay", "https://relay.test")
    assert report(*relayed) == 0
    assert [(host, path) for host, path, _ in asked] == [("relay.test", "/reports")]
    capsys.readouterr()
    assert report(*relayed, schema="https://server.test") == 2
    assert "as a file with --relay" in capsys.readouterr().err
    assert len(asked) == 1


USERS = [f"user-{i:03}" for i in range(120)]
NONCES = [Token.draw().nonce for _ in USERS]


def survey(store, seed=0):
    """Each user in turn gets a token and sends its report at once: who sent what, by the name of the token."""
    rng = random.Random(seed)
    senders = {}
    for user, nonce in zip(rng.sample(USERS, 120), rng.sample(NONCES, 120), strict=True):
        token = Token(nonce)
        senders[token.name] = user
        assert store.enrol([FakeDevice(user, SCHEMA).enrolment]) == ["stored"]
        assert store.issue([Asked(user, nonce)]) == ["stored"]
        message = encode(SCHEMA, token.name, {"label": (nonce[0] % 4,)})
        assert store.add([Upload(token.name, message, nonce + bytes(256))]) == ["stored"]
    for name in rng.sample(sorted(senders), 120):
        store.add([Upload(name, encode(SCHEMA, name, {"label": (1,)}) + b"?", b"")])
    return senders


def places(store):
    """User ids and names of tokens in the order in which a database holds them: by transaction, or by place in the file."""
    if store._database.path is None:
        asked = "select xmin::text::bigint as x, ctid, convert_from(\"user\", 'UTF8') as name from"
        with store._database.reading() as connection:
            rows = [one for table in ("tokens", "reports") for one in connection.exec_driver_sql(f"{asked} {table}")]
        return [row.name for row in sorted(rows, key=lambda row: row.x)]
    assert store._database.flush()
    known = {*USERS, *(Token(nonce).name for nonce in NONCES)}
    found = re.findall(rb"(?=(user-\d{3}|[0-9a-f]{64}))", Path(store._database.path).read_bytes())
    return [one.decode() for one in found if one.decode() in known]


def test_a_closed_store_tells_nothing_of_the_order_in_which_reports_came(where, tmp_path):
    store, again = Store.create(where, SCHEMA), Store.create(str(tmp_path / "again.sqlite"), SCHEMA)
    senders = survey(store)
    on_file = store._database.path is not None
    order = places(store)
    if not on_file:  # the control: all are linked before it is closed
        assert sum(senders.get(name) == before for before, name in pairwise(order)) == 120
    survey(again, seed=1)
    assert order != places(again)
    sha256 = store.close()
    assert again.close() == sha256
    if on_file:
        assert places(store) == places(again)
    with store._database.reading() as connection:
        tokens = connection.exec_driver_sql("select * from tokens").all()
        enrolled = connection.exec_driver_sql("select enrolled_at from users").scalars().all()
        if not on_file:
            for table in ("reports", "users", "alerts"):
                rows = connection.exec_driver_sql(f'select xmin::text as x, "user" from {table} order by ctid').all()
                assert len({row.x for row in rows}) == 1
                assert [row.user for row in rows] == sorted(row.user for row in rows)
    assert (tokens, set(enrolled)) == ([], {0.0})
    assert store.close() == sha256
    assert store.closed().sha256 == sha256[0]
    assert store.enrol([FakeDevice("late", SCHEMA).enrolment]) == ["stored"]
    assert store.latest_keys(1).keys() == {"late"}
    assert len(list(store.users())) == 121
    for one in (store, again):
        one.dispose()
