"""What the server answers, call by call, in the test's own process."""

import asyncio
import json
import logging
import threading

import httpx
import pytest
from devices import BEARER, OPEN, TOKEN, FakeDevice, app_of, client_of, label_schema, stop_buckets
from starlette.testclient import TestClient

from sfumato.collect import _server as server_module
from sfumato.collect._closed import Closed
from sfumato.collect._database import StoreError
from sfumato.collect._intake import Intake
from sfumato.collect._keys import ServerKey
from sfumato.collect._refusals import RefusalError
from sfumato.collect._server import create_app
from sfumato.collect._store import Store
from sfumato.collect._writer import BusyError, Writer
from sfumato.errors import InputError
from sfumato.web._logs import JsonLines

SCHEMA = label_schema()
ADA, BOB, EVE = (FakeDevice(name, SCHEMA) for name in ("ada", "bob", "eve"))
CLOSED_TIME = 1_798_800_000.0


@pytest.fixture
def connect(store, monkeypatch):
    """Start the application with other settings, and return a client of it."""
    stop_buckets(monkeypatch)
    clients = []

    def start(**settings):
        clients.append(client_of(store, **settings))
        return clients[-1].__enter__()

    yield start
    for client in clients:
        client.__exit__(None, None, None)


@pytest.fixture
def client(connect):
    return connect()


@pytest.fixture
def enrolled(client):
    """A client whose server knows ada and bob, and not eve."""
    for device in (ADA, BOB):
        assert client.post("/users", json=device.code).status_code == 201
    return client


def refused(response, status, words):
    """Check the status and the detail of a refusal, which ends as a sentence."""
    assert response.status_code == status, response.text
    detail = response.json()["detail"]
    assert set(response.json()) == {"detail"}
    assert words in detail
    assert detail.endswith(".")


def test_schema_is_canonical(client):
    assert client.get("/schema").content == SCHEMA.text.encode()


@pytest.mark.parametrize(("now", "state"), [(0.0, "waiting"), (OPEN, "open"), (CLOSED_TIME, "closed")])
def test_status_follows_the_clock(connect, now, state):
    assert connect(clock=lambda: now).get("/status").json() == {
        "schema": SCHEMA.sha256,
        "state": state,
        "opens": SCHEMA.opens,
        "closes": SCHEMA.closes,
        "sha256": None,
    }


def test_enrolment_is_idempotent(client, store):
    assert client.post("/users", json=ADA.code).json() == {"answer": "stored"}
    again = client.post("/users", json=ADA.code)
    assert (again.status_code, again.json()) == (200, {"answer": "repeated"})
    assert store.keys(["ada"]) == {"ada": ADA.enrolment.keys}


def test_another_key_is_an_alert(enrolled, store):
    other = {**EVE.code, "user": "ada", "code": ADA.code["code"]}
    refused(enrolled.post("/users", json=other), 409, "other keys")
    assert store.keys(["ada"]) == {"ada": ADA.enrolment.keys}
    assert [(one.kind, one.user) for one in store.counts().alerts] == [("key", "ada")]


WRONG_ENROLMENTS = [
    ({"code": "0" * 32}, 403),
    ({"code": BOB.code["code"]}, 403),
    ({"code": "\u00e9" * 32}, 403),
    ({"code": 7}, 403),
    ({"user": "eve"}, 403),
    ({"user": " ada"}, 422),
    ({"user": "a" * 65}, 422),
    ({"user": "\ud800"}, 422),
    ({"user": 7}, 422),
    ({"sign_key": "00"}, 422),
    ({"sign_key": ADA.code["sign_key"].upper()}, 422),
    ({"sign_key": None}, 422),
    ({"agree_key": "00" * 32}, 422),
    ({"more": 1}, 422),
]


def test_wrong_enrolments_are_refused(client, store):
    for change, status in WRONG_ENROLMENTS:
        refused(client.post("/users", content=json.dumps({**ADA.code, **change})), status, "Expected")
        assert store.keys(["ada", "eve"]) == {}, change


def test_malformed_enrolments_are_refused(client):
    for body in (b"", b"{", b"7", b"[]", b"null", b"\xff", b"[" * 10_000, b"[" + b"0," * 1000 + b"0]"):
        refused(client.post("/users", content=body), 422, "Expected")


def test_a_list_is_enrolled_as_far_as_it_is_fine(client, store):
    listed = [ADA.code, {**BOB.code, "code": "0" * 32}, {"user": "x"}, ADA.code, EVE.code]
    answers = client.post("/users", json=listed).json()
    assert [one["status"] for one in answers] == [201, 403, 422, 200, 201]
    assert [bool(one["detail"]) for one in answers] == [False, True, True, False, False]
    assert set(store.keys(["ada", "bob", "eve"])) == {"ada", "eve"}


def test_a_report_is_stored_once(enrolled, store):
    first, again = enrolled.post("/reports", content=ADA.body(1)), enrolled.post("/reports", content=ADA.body(1))
    assert (first.status_code, first.json()) == (201, {"answer": "stored"})
    assert (again.status_code, again.json()) == (200, {"answer": "repeated"})
    assert store.messages() == (ADA.message(1),)


def test_another_report_is_dropped_and_counts_as_a_second_spend(enrolled, store):
    enrolled.post("/reports", content=ADA.body(1))
    refused(enrolled.post("/reports", content=ADA.body(2)), 409, "dropped")
    refused(enrolled.post("/reports", content=ADA.body(3)), 409, "dropped")
    assert store.messages() == (ADA.message(1),)
    counts = enrolled.get("/counts", headers=BEARER).json()
    assert counts["budget"]["users_who_spent_again"] == 1
    assert counts["budget"]["most_epsilon"] == pytest.approx(3 * SCHEMA.epsilon)
    assert [(one["kind"], one["user"], one["count"]) for one in counts["alerts"]] == [("report", "ada", 2)]


def test_nothing_of_a_dropped_report_is_on_disk(enrolled, store, tmp_path):
    enrolled.post("/reports", content=ADA.body(1))
    enrolled.post("/reports", content=ADA.body(2))
    held = b"".join(path.read_bytes() for path in tmp_path.iterdir())
    assert ADA.message(1) in held
    assert ADA.message(2) not in held
    assert ADA.body(2)[-64:] not in held


WRONG_REPORTS = [
    (b"", 400, "SFRP"),
    (b"x" * 150, 400, "SFRP"),
    (ADA.body()[:-1], 400, "bytes"),
    (ADA.message() + b"\x00" + ADA.body()[-64:], 400, "bytes"),
    (ADA.message() + BOB.body()[-64:], 403, "signature"),
    (BOB.message() + ADA.keys.sign(BOB.message()), 403, "signature"),
    (ADA.message() + ADA.keys.sign_batch(ADA.message()), 403, "signature"),
    (EVE.body(), 403, "enrolled"),
    (FakeDevice("ada", label_schema("another")).body(), 404, "schema"),
    (b"x" * 300, 413, "at most"),
]


def test_wrong_reports_are_refused(enrolled, store):
    for body, status, words in WRONG_REPORTS:
        refused(enrolled.post("/reports", content=body), status, words)
        assert store.messages() == ()


def test_form_of_a_signed_report_is_checked(enrolled, store):
    message = ADA.message()[:-1] + b"\xff"
    refused(enrolled.post("/reports", content=message + ADA.keys.sign(message)), 400, "padding")
    assert store.messages() == ()


def test_body_in_chunks_is_limited(enrolled):
    def chunks():
        for _ in range(100):
            yield b"x" * 10

    refused(enrolled.post("/reports", content=chunks()), 413, "at most")


def test_a_batch_is_stored_report_by_report(enrolled, store):
    enrolled.post("/reports", content=ADA.body(0))
    batch = ADA.batch(
        BOB.coded(1), ADA.coded(0), ADA.coded(1), EVE.coded(), (BOB.message(1), ADA.coded(0)[1]), (b"SFRP", b"." * 32)
    )
    answer = enrolled.post("/batches", content=batch)
    assert answer.status_code == 200
    assert (answer.json()["stored"], answer.json()["repeated"]) == (1, 1)
    assert [(one["place"], one["status"]) for one in answer.json()["refused"]] == [
        (2, 409),
        (3, 403),
        (4, 403),
        (5, 400),
    ]
    assert all(one["detail"] for one in answer.json()["refused"])
    assert store.messages() == (ADA.message(0), BOB.message(1))
    again = enrolled.post("/batches", content=ADA.batch(BOB.coded(1))).json()
    assert again == {"stored": 0, "repeated": 1, "refused": []}


def test_reports_for_another_schema_are_refused_inside_a_batch(enrolled, store):
    other = FakeDevice("bob", label_schema("another"))
    answer = enrolled.post("/batches", content=ADA.batch(other.coded(), BOB.coded())).json()
    assert (answer["stored"], [one["status"] for one in answer["refused"]]) == (1, [404])
    assert store.messages() == (BOB.message(),)


WRONG_BATCHES = [
    (b"", 400, "SFRB"),
    (ADA.batch(BOB.coded())[:-1], 400, "batch"),
    (EVE.batch(BOB.coded()), 403, "enrolled"),
    (ADA.batch(BOB.coded())[:-64] + BOB.batch(BOB.coded())[-64:], 403, "signature"),
    (ADA.batch(BOB.coded())[:-64] + ADA.keys.sign(ADA.batch(BOB.coded())[:-64]), 403, "signature"),
    (FakeDevice("ada", label_schema("another")).batch(BOB.coded()), 404, "schema"),
    (ADA.batch(*[BOB.coded()] * 2001), 413, "2000"),
]


def test_wrong_batches_are_refused_as_a_whole(connect, store, monkeypatch):
    monkeypatch.setattr(server_module, "_JUNK_AT_ONCE", 100.0)
    store.enrol([ADA.enrolment, BOB.enrolment])
    client = connect()
    for body, status, words in WRONG_BATCHES:
        refused(client.post("/batches", content=body), status, words)
        assert store.messages() == ()


OPERATOR = [("POST", "/close"), ("GET", "/export"), ("GET", "/counts"), ("GET", "/metrics"), ("GET", "/")]


def test_calls_of_the_operator_need_the_token(client, store):
    for method, path in OPERATOR:
        for given in (None, "Bearer no", "Basic eDo=", "x"):
            answer = client.request(method, path, headers={} if given is None else {"Authorization": given})
            refused(answer, 401, "token")
            assert answer.headers["www-authenticate"].startswith("Basic")
    assert store.sha256 is None


def test_browsers_may_read_and_not_close(client, store):
    assert client.get("/counts", auth=("anyone", TOKEN)).status_code == 200
    refused(client.post("/close", auth=("anyone", TOKEN)), 401, "token")
    assert store.sha256 is None


def test_closed_collection_is_exported_and_takes_nothing(enrolled, store, tmp_path):
    enrolled.post("/reports", content=ADA.body(3))
    refused(enrolled.get("/export", headers=BEARER), 409, "Close it first")
    closed = enrolled.post("/close", headers=BEARER).json()
    assert closed == enrolled.post("/close", headers=BEARER).json() == {"sha256": store.sha256, "reports": 1}
    assert enrolled.get("/status").json()["state"] == "closed"
    for body in (ADA.body(3), BOB.body()):
        refused(enrolled.post("/reports", content=body), 410, "closed")
    (tmp_path / "closed").write_bytes(enrolled.get("/export", headers=BEARER).content)
    read = Closed.read(tmp_path / "closed")
    assert (read.sha256, read.messages) == (store.sha256, (ADA.message(3),))


def test_what_one_server_took_the_other_knows(where):
    """Keys, reports and the end of a collection, in each kind of database."""
    store = Store.create(where, SCHEMA)
    with client_of(Store.open(where)) as left, client_of(Store.open(where)) as right:
        for client, device in ((left, ADA), (right, BOB), (right, EVE)):
            assert client.post("/users", json=device.code).status_code == 201
        assert right.post("/reports", content=ADA.body(2)).status_code == 201
        assert [left.post("/reports", content=ADA.body(label)).status_code for label in (2, 1)] == [200, 409]
        assert left.post("/batches", content=BOB.batch(EVE.coded())).json()["stored"] == 1
        assert store.messages() == (ADA.message(2), EVE.message())
        store.close()
        for client in (left, right):
            refused(client.post("/reports", content=BOB.body()), 410, "closed")
            refused(client.post("/batches", content=ADA.batch(BOB.coded())), 410, "closed")
            assert client.get("/status").json()["state"] == "closed"
    store.dispose()


def test_store_that_fails_acknowledges_nothing(enrolled, store, monkeypatch):
    def full(_uploads):
        raise StoreError("Expected reports.sqlite to work as a store, got: database or disk is full.")

    with monkeypatch.context() as patch:
        patch.setattr(store._database, "insert", lambda *_: full(None))
        for path, body in (("/reports", ADA.body()), ("/batches", ADA.batch(BOB.coded()))):
            answer = enrolled.post(path, content=body)
            refused(answer, 503, "nothing was acknowledged")
            assert int(answer.headers["retry-after"]) > 0
    assert store.messages() == ()
    assert enrolled.post("/reports", content=ADA.body()).status_code == 201


def test_fault_of_the_server_says_nothing_about_the_report(enrolled, store, monkeypatch, caplog):
    def crash(*_):
        raise ZeroDivisionError("fault")

    monkeypatch.setattr(store._database, "insert", crash)
    refused(enrolled.post("/reports", content=ADA.body()), 500, "nothing was acknowledged")


def test_metrics_count_answers(enrolled):
    enrolled.post("/reports", content=ADA.body())
    enrolled.post("/reports", content=ADA.body())
    enrolled.post("/reports", content=ADA.body(1))
    enrolled.post("/batches", content=ADA.batch(BOB.coded(), EVE.coded()))
    lines = enrolled.get("/metrics", headers=BEARER).text.splitlines()
    for line in (
        'sfumato_reports_total{answer="stored"} 2.0',
        'sfumato_reports_total{answer="repeated"} 1.0',
        'sfumato_reports_total{answer="conflict"} 1.0',
        'sfumato_refusals_total{status="409"} 1.0',
        'sfumato_refusals_total{status="403"} 1.0',
        "sfumato_waiting_reports 0.0",
    ):
        assert line in lines


def test_metrics_count_requests_by_route_and_the_process(enrolled):
    enrolled.post("/reports", content=b"x")
    enrolled.get("/no/such/call/of/ada")
    text = enrolled.get("/metrics", headers=BEARER).text
    assert 'sfumato_requests_total{route="/users",status="201"} 2.0' in text
    assert 'sfumato_requests_total{route="/reports",status="400"} 1.0' in text
    assert 'sfumato_requests_total{route="none",status="404"} 1.0' in text
    assert 'sfumato_request_seconds_count{route="/users"} 2.0' in text
    assert "process_open_fds " in text
    assert "ada" not in text


def test_probes_need_no_token(client, store, monkeypatch):
    assert client.get("/healthz").json() == {"alive": True}
    assert client.get("/readyz").json() == {"ready": True}

    def fail(*_):
        raise StoreError("Expected the store to work.")

    monkeypatch.setattr(Store, "sha256", property(fail))
    refusal = client.get("/readyz")
    assert (refusal.status_code, refusal.json(), refusal.headers["retry-after"]) == (503, {"ready": False}, "1")
    assert client.get("/healthz").status_code == 200


def test_wrong_tokens_of_an_address_are_limited_and_the_right_one_is_not(client):
    wrong = [client.get("/counts", headers={"Authorization": "Bearer no"}) for _ in range(40)]
    assert [one.status_code for one in wrong] == [401] * 30 + [429] * 10
    assert int(wrong[-1].headers["retry-after"]) == 1
    assert client.get("/counts", headers=BEARER).status_code == 200
    assert client.get("/counts").status_code == 401  # a browser that asks for the token first


def test_lists_of_enrolments_are_charged_to_their_address_and_the_operator_is_not(connect, monkeypatch):
    monkeypatch.setattr(server_module, "_USERS_AT_ONCE", 3.0)
    monkeypatch.setattr(server_module, "_USERS_A_SECOND", 0.01)
    client = connect()
    assert client.post("/users", json=[ADA.code, BOB.code]).status_code == 200
    late = client.post("/users", json=[ADA.code, BOB.code])
    refused(late, 429, "address")
    assert int(late.headers["retry-after"]) >= 1
    assert client.post("/users", json=EVE.code).status_code == 201
    assert client.post("/users", json=[ADA.code, BOB.code], headers=BEARER).status_code == 200
    refused(client.post("/users", json=[ADA.code], headers={"Authorization": "Bearer no"}), 429, "address")


def test_an_address_of_many_junk_batches_is_not_checked_for_and_others_are(enrolled, monkeypatch):
    junk, good = EVE.batch(BOB.coded()), ADA.batch(BOB.coded())
    assert [enrolled.post("/batches", content=junk).status_code for _ in range(5)] == [403] * 5
    with monkeypatch.context() as patch:
        patch.setattr(Intake, "batch", None)  # it is not even asked
        refused(enrolled.post("/batches", content=junk), 429, "address")
    other = TestClient(enrolled.app, client=("10.0.0.1", 1))
    assert other.post("/batches", content=good).json()["stored"] == 1
    assert enrolled.post("/reports", content=ADA.body()).status_code == 201


def test_junk_batches_sent_at_once_are_charged_one_after_the_other(store, monkeypatch):
    store.enrol([ADA.enrolment, BOB.enrolment])
    stop_buckets(monkeypatch)
    app, checked = app_of(store), []
    real = Intake.batch
    monkeypatch.setattr(Intake, "batch", lambda *said: checked.append(1) or real(*said))
    transport = httpx.ASGITransport(app)

    async def act(*bodies):
        async with httpx.AsyncClient(transport=transport, base_url="http://test") as client:
            sent = await asyncio.gather(*[client.post("/batches", content=one) for one in bodies])
            return [one.status_code for one in sent]

    async def both():
        async with app.router.lifespan_context(app):
            good = await act(*[ADA.batch(BOB.coded())] * 12)
            return good, await act(*[EVE.batch(BOB.coded())] * 12)

    good, junk = asyncio.run(both())
    assert (good, junk, len(checked)) == ([200] * 12, [403] * 5 + [429] * 7, 17)


def test_a_batch_that_is_checked_delays_no_enrolment(enrolled, monkeypatch):
    begun, end = threading.Event(), threading.Event()

    def check(*_):
        begun.set()
        end.wait(10)
        raise RefusalError(403, "Junk.")

    monkeypatch.setattr(Intake, "batch", check)
    waiting = threading.Thread(target=lambda: enrolled.post("/batches", content=b"x"))
    waiting.start()
    begun.wait(10)
    assert enrolled.post("/users", json=EVE.code).status_code == 201
    end.set()
    waiting.join()


def test_log_names_no_user_and_holds_no_report(enrolled, caplog):
    caplog.set_level(logging.INFO, "sfumato.collect")
    enrolled.post("/reports", content=ADA.body())
    enrolled.post("/reports", content=ADA.body(1))
    enrolled.post("/reports", content=ADA.message() + BOB.body()[-64:])
    enrolled.post("/close", headers=BEARER)
    lines = [json.loads(JsonLines().format(record)) for record in caplog.records if record.name == "sfumato.collect"]
    assert [one["event"] for one in lines] == ["refused 409", "refused 403", "closed"]
    assert len({one["user"] for one in lines[:2]}) == 1
    text = json.dumps(lines)
    assert '"ada"' not in text
    assert ADA.message().hex() not in text
    assert TOKEN not in text


def test_a_flood_of_refusals_does_not_flood_the_log(client, caplog):
    caplog.set_level(logging.INFO, "sfumato.collect")
    for _ in range(150):
        client.post("/reports", content=b"x")
    assert 50 <= len(caplog.records) < 100


def test_pages_load_nothing(client):
    status = client.get("/", headers=BEARER)
    assert status.headers["content-security-policy"].startswith("default-src 'none'")
    for page in (status.text, client.get("/docs").text):
        assert "<script" not in page
        assert "http://" not in page
        assert "https://" not in page
    assert "POST /reports" in client.get("/docs").text


def test_description_names_every_call_and_its_bodies(client):
    paths = client.get("/openapi.json").json()["paths"]
    assert {(method, path) for path, calls in paths.items() for method in calls} == {
        *((method.lower(), path) for method, path in OPERATOR),
        ("get", "/schema"),
        ("get", "/status"),
        ("post", "/users"),
        ("post", "/reports"),
        ("post", "/tokens"),
        ("post", "/batches"),
        ("post", "/withdrawals"),
    }
    assert "application/octet-stream" in paths["/reports"]["post"]["requestBody"]["content"]
    said = {path: paths[path]["post"]["responses"] for path in ("/reports", "/withdrawals", "/batches")}
    assert "withdrawn" in said["/reports"]["410"]["description"]
    assert said["/withdrawals"]["201"]["description"] == "The report is deleted, and none is taken."
    assert not any("list" in one["200"]["description"] for one in said.values())
    assert all(
        call["description"] and set(call["responses"]) >= {"408", "413", "503"}
        for calls in paths.values()
        for call in calls.values()
    )


def test_unknown_calls_are_refused(client):
    for method, path, status in (("GET", "/x", 404), ("GET", "/reports", 405), ("POST", "/reports/", 404)):
        refused(client.request(method, path), status, "/docs")


def test_key_of_another_schema_is_refused(store):
    with pytest.raises(InputError, match="server key"):
        create_app(SCHEMA, store, ServerKey(bytes(32)), TOKEN)


def test_writer_commits_what_waits_in_one_group_and_answers_each():
    groups, gate = [], threading.Event()

    def commit(items):
        gate.wait()
        groups.append(list(items))
        return ["stored"] * len(items)

    async def act():
        writer = Writer(commit, most=10)
        tasks = [asyncio.create_task(writer.add([place] * (1 + place))) for place in range(4)]
        await asyncio.sleep(0.05)
        with pytest.raises(BusyError):
            await writer.add([9])
        gate.set()
        answers = await asyncio.gather(*tasks)
        await writer.stop()
        return answers

    answers = asyncio.run(act())
    assert [len(one) for one in answers] == [1, 2, 3, 4]
    assert [item for group in groups for item in group] == [0, 1, 1, 2, 2, 2, 3, 3, 3, 3]
    assert len(groups) <= 2


def test_writer_goes_on_after_a_failure():
    outcomes = iter([StoreError("full"), None])

    def commit(items):
        error = next(outcomes)
        if error is not None:
            raise error
        return ["stored"] * len(items)

    async def act():
        writer = Writer(commit)
        with pytest.raises(StoreError):
            await writer.add([1])
        answers = await writer.add([1])
        await writer.stop()
        return answers, writer.waiting

    assert asyncio.run(act()) == (["stored"], 0)
