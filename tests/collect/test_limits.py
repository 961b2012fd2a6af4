"""What a server holds stays bounded, and what is held or forgotten locks nobody out."""

import asyncio
import json
import threading
import time
from datetime import datetime

import httpx
import pytest
from devices import SERVER_KEY, FakeDevice, app_of, client_of, label_schema, stop_buckets

from sfumato.collect import _intake as intake_module
from sfumato.collect import _keys as keys
from sfumato.collect._bodies import Bodies
from sfumato.collect._intake import Intake
from sfumato.collect._refusals import RefusalError
from sfumato.collect._store import Enrolment, Keys
from sfumato.web._limits import Buckets

SCHEMA = label_schema()
ADA, BOB, EVE = (FakeDevice(name, SCHEMA) for name in ("ada", "bob", "eve"))


class Sent:
    """A request whose body comes in these parts; an error among them is raised."""

    def __init__(self, *parts, address="10.0.0.1"):
        self.parts, self.client = parts, (address, 1)

    async def stream(self):
        for part in self.parts:
            if isinstance(part, Exception):
                raise part
            yield part


async def taken(bodies, *parts, most=8, fail=None):
    """The body, or the status of its refusal, or the error that ended it."""
    try:
        async with bodies.read(Sent(*parts), most) as body:
            if fail is not None:
                raise fail
            return body
    except RefusalError as refusal:
        return refusal.status
    except (ConnectionError, KeyError) as error:
        return type(error)


@pytest.mark.parametrize(
    ("parts", "fail", "said"),
    [
        ((b"abc", b"", b"defgh"), None, b"abcdefgh"),
        ((b"abc", b"defghi"), None, 413),
        ((b"abcdefghijklmn",), None, 413),
        ((b"abc", ConnectionError("gone")), None, ConnectionError),
        ((b"abc",), KeyError("a fault behind it"), KeyError),
        ((), None, b""),
    ],
)
def test_a_body_counts_until_it_ends_however_it_ends(parts, fail, said):
    async def act():
        bodies = Bodies(12, share=1, small=0)
        for _ in range(30):
            assert await taken(bodies, *parts, fail=fail) == said
        return await taken(bodies, b"abcdef", b"ghijkl", most=12), await taken(bodies, b"abcdef", b"ghijklm", most=13)

    assert asyncio.run(act()) == (b"abcdefghijkl", 503)


def test_bodies_together_hold_no_more_than_the_most():
    async def act():
        bodies = Bodies(12, share=1, small=0)
        for _ in range(30):  # a body that is refused gives back what it held too
            async with bodies.read(Sent(b"abc", b"def"), 8), bodies.read(Sent(b"ghi"), 8):
                with pytest.raises(RefusalError) as refused:
                    async with bodies.read(Sent(b"jk", b"lm"), 8):
                        pytest.fail("more is held than may be")
                assert (refused.value.status, refused.value.retry_after) == (503, 1)
                assert await taken(bodies, b"jkl") == b"jkl"
        return await taken(bodies, b"abcdefghijkl", most=12)

    assert asyncio.run(act()) == b"abcdefghijkl"


def test_large_bodies_keep_no_small_one_out_and_those_of_an_address_get_a_share():
    async def act():
        bodies = Bodies(12, share=1 / 2, small=3)
        async with bodies.read(Sent(b"abc", b"def"), 8):
            assert await taken(bodies, b"abc", b"d") == 429
        async with bodies.read(Sent(b"abcdef"), 8), bodies.read(Sent(b"ghijkl", address="10.0.0.2"), 8):
            assert await taken(bodies, b"abc") == b"abc"
            with pytest.raises(RefusalError) as refused:
                async with bodies.read(Sent(b"ghij", address="10.0.0.3"), 8):
                    pytest.fail("more is held than may be")
            assert refused.value.status == 503
        assert not bodies._sites
        return await taken(bodies, b"abcdef")

    assert asyncio.run(act()) == b"abcdef"


def test_the_names_that_acted_last_are_kept():
    now = [0.0]
    buckets = Buckets(rate=1.0, burst=1, most=2, clock=lambda: now[0])
    assert [buckets.take(name) for name in ("ada", "bob")] == [0, 0]
    assert buckets.take("ada") == 1  # to be refused is an act as well
    assert buckets.take("cleo") == 0  # bob is forgotten
    assert [buckets.take("cleo"), buckets.take("ada")] == [1, 1]
    assert buckets.take("bob") == 0
    for flood in range(100):
        assert buckets.take(f"name {flood}") == 0
        assert buckets.take(f"name {flood}") == 1
    assert list(buckets._kept) == ["name 98", "name 99"]


def test_tokens_come_at_the_rate_and_no_more_than_fit():
    now = [0.0]
    buckets = Buckets(rate=2.0, burst=3, clock=lambda: now[0])
    assert [buckets.take("ada") for _ in range(5)] == [0, 0, 0, 0.5, 0.5]
    now[0] = 0.25
    assert buckets.take("ada") == 0.25
    now[0] = 0.5
    assert [buckets.take("ada"), buckets.take("ada")] == [0, 0.5]
    now[0] = 100.0
    assert [buckets.take("ada") for _ in range(4)] == [0, 0, 0, 0.5]


def test_a_token_is_given_back_once():
    now = [0.0]
    buckets = Buckets(rate=1.0, burst=2, clock=lambda: now[0])
    for _ in range(5):
        assert buckets.take("ada") == 0
        buckets.give_back("ada")
    buckets.give_back("ada")
    buckets.give_back("bob")
    assert [buckets.take("ada") for _ in range(3)] == [0, 0, 1]


@pytest.fixture
def client(store, monkeypatch):
    stop_buckets(monkeypatch)
    with client_of(store, uploads_a_second=1.0) as client:
        for device in (ADA, BOB):
            assert client.post("/users", json=device.code).status_code == 201
        yield client


def test_batches_and_reports_of_one_sender_share_its_turns(client):
    batch = ADA.batch(BOB.coded())
    assert [client.post("/batches", content=batch).status_code for _ in range(4)] == [200, 200, 429, 429]
    late = client.post("/reports", content=ADA.body())
    assert (late.status_code, late.headers["retry-after"], "too much" in late.json()["detail"]) == (429, "1", True)
    assert client.post("/batches", content=BOB.batch(ADA.coded())).status_code == 200
    assert client.post("/reports", content=BOB.body()).status_code == 200
    assert client.post("/reports", content=BOB.body()).status_code == 429


def test_what_is_forged_takes_no_turn_of_its_sender(client):
    batch, report = ADA.batch(BOB.coded()), ADA.body()
    forged = (("/batches", batch[:-64] + BOB.batch(BOB.coded())[-64:]), ("/reports", report[:-64] + BOB.body()[-64:]))
    assert [client.post(path, content=content).status_code for path, content in forged * 4] == [403] * 8
    assert client.post("/batches", content=batch).status_code == 200
    assert client.post("/reports", content=report).status_code == 201


def test_whoever_enrols_anew_locks_nobody_out(client, store):
    """Neither the keys at hand nor the codes derived from them become those of the refused enrolment."""
    other = {**EVE.code, "user": "ada", "code": ADA.code["code"]}
    assert client.post("/users", json=other).status_code == 409
    assert client.post("/batches", content=BOB.batch(ADA.coded(1))).json() == {
        "stored": 1,
        "repeated": 0,
        "refused": [],
    }
    assert client.post("/reports", content=ADA.body(1)).json() == {"answer": "repeated"}
    assert client.post("/reports", content=ADA.message(1) + EVE.keys.sign(ADA.message(1))).status_code == 403
    started_again = Intake(SCHEMA, store, SERVER_KEY)
    started_again.enrolments([other])
    assert len(started_again.batch(BOB.batch(ADA.coded())).uploads) == 1


def test_codes_follow_the_user_and_the_key_also_where_keys_are_the_same(store):
    twin = FakeDevice("bob", SCHEMA)
    vars(twin)["keys"] = ADA.keys
    store.enrol([ADA.enrolment, Enrolment("bob", Keys(BOB.keys.sign_key, ADA.keys.agree_key))])
    intake = Intake(SCHEMA, store, SERVER_KEY)
    as_ada = twin.message(), keys.mac(ADA.keys.mac_key(SERVER_KEY.public, "ada"), twin.message())
    found = intake.batch(ADA.batch(ADA.coded(), as_ada, twin.coded()))
    assert [(place, upload.user) for place, upload in found.uploads] == [(0, "ada"), (2, "bob")]
    assert [(place, refusal.status) for place, refusal in found.refused] == [(1, 403)]


def test_of_too_many_known_the_older_half_is_forgotten_and_read_again(store, monkeypatch):
    monkeypatch.setattr(intake_module, "MOST_KNOWN", 4)
    devices = [FakeDevice(f"user {place}", SCHEMA) for place in range(6)]
    store.enrol([device.enrolment for device in devices])
    intake = Intake(SCHEMA, store, SERVER_KEY)

    def at_hand():
        return [intake.report_at_hand(device.body(), device.user) is not None for device in devices]

    for device in devices[:4]:
        assert intake.report(device.body(), device.user) == device.upload()
    assert at_hand() == [True] * 4 + [False] * 2
    intake.report(devices[4].body(), devices[4].user)
    assert at_hand() == [False] * 3 + [True] * 2 + [False]
    found = intake.batch(devices[5].batch(*[device.coded() for device in devices[3:]]))
    assert len(found.uploads) == 3


@pytest.mark.parametrize(("rate", "burst"), [(0.01, 1), (4.0, 8)])
def test_a_user_may_send_what_two_seconds_allow_at_once(store, rate, burst):
    with client_of(store, uploads_a_second=rate) as client:
        client.post("/users", json=ADA.code)
        said = [client.post("/reports", content=ADA.body()).status_code for _ in range(burst)]
        assert said == [201, *[200] * (burst - 1)]
        if rate < 1:  # no token comes back meanwhile, however slow the machine is
            assert client.post("/reports", content=ADA.body()).status_code == 429


def test_reports_are_taken_from_the_first_second_to_the_last(store):
    opens, closes = (datetime.fromisoformat(moment).timestamp() for moment in (SCHEMA.opens, SCHEMA.closes))
    now = [opens]
    with client_of(store, clock=lambda: now[0]) as client:
        client.post("/users", json=ADA.code)
        for now[0], status in ((opens - 1, 425), (opens, 201), (closes - 1, 200), (closes, 410)):
            answer = client.post("/reports", content=ADA.body())
            assert answer.status_code == status
            assert answer.headers.get("retry-after") == ("1" if status == 425 else None)
            detail = answer.json().get("detail", "")
            assert {425: SCHEMA.opens, 410: "closed"}.get(status, "") in detail
        assert client.post("/batches", content=ADA.batch(ADA.coded())).status_code == 410


@pytest.mark.parametrize(("name", "path"), [("enrol", "/users"), ("add", "/reports")])
def test_a_server_that_stops_commits_what_waits_before_it_lets_go_of_the_store(store, monkeypatch, name, path):
    store.enrol([BOB.enrolment])
    seen, real, entered = [], getattr(store, name), threading.Event()

    def slow(items):
        entered.set()
        time.sleep(0.05)
        seen.append("committed")
        return real(items)

    monkeypatch.setattr(store, name, slow)
    monkeypatch.setattr(store, "dispose", lambda: seen.append("let go"))
    app = app_of(store)
    content = json.dumps(ADA.code).encode() if path == "/users" else BOB.body()

    async def act():
        async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://test") as client:
            async with app.router.lifespan_context(app):
                sent = asyncio.create_task(client.post(path, content=content))
                await asyncio.to_thread(entered.wait)
            assert seen == ["committed", "let go"]
            return (await sent).status_code

    assert asyncio.run(act()) == 201
