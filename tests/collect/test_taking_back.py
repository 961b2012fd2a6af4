"""What can be taken back: a code that leaked, with all that came under it, and a report before the collection is closed."""

import sqlite3
import time

import numpy as np
import pytest
import sqlalchemy
from collect_made import CLASSES, drawn, label, schema, write_tables
from collect_made import GRAPH as KNOWN
from collect_made import USERS as KNOWN_USERS
from devices import BEARER, SERVER_KEY, FakeDevice, client_of, label_schema

from sfumato.collect._audit import Listed
from sfumato.collect._estimate import estimate
from sfumato.collect._graph import Tables
from sfumato.collect._keys import DeviceKeys
from sfumato.collect._patience import BUSY
from sfumato.collect._reading import stream_any
from sfumato.collect._store import Enrolment, Keys, Store, Upload
from sfumato.collect._training import prepare
from sfumato.errors import DataError

SCHEMA = label_schema()
ADA, BOB, EVE = (FakeDevice(name, SCHEMA) for name in ("ada", "bob", "eve"))
THIEF = DeviceKeys(bytes(range(32)), bytes(range(1, 33)))
SECOND_CODE = {**ADA.code, "code": SERVER_KEY.code(SCHEMA, "ada", 1)}


@pytest.fixture
def store(where):
    made = Store.create(where, SCHEMA)
    yield made
    made.dispose()


def lines(store):
    return [(line.act, line.by, line.user) for line in store.audit()]


def test_a_withdrawn_report_is_gone_and_comes_never_back(store):
    store.enrol([ADA.enrolment, BOB.enrolment])
    store.add([ADA.upload(1), BOB.upload(2)])
    store.withdraw("ada", store.seen("ada"))
    assert store.messages() == (BOB.message(2),)
    assert store.add([ADA.upload(1), ADA.upload(0), BOB.upload(2)]) == ["withdrawn", "withdrawn", "repeated"]
    assert store.enrol([ADA.enrolment]) == ["repeated"], "an application tells its keys at each start"
    assert lines(store) == [("withdrawn", "operator", "ada")]
    assert store.close()[1] == 1
    assert store.closed().messages == (BOB.message(2),)
    assert store.counts().second_reports == 0


def test_a_revoked_code_ends_enrolment_and_report(store):
    thief = Enrolment("ada", Keys(THIEF.sign_key, THIEF.agree_key))
    assert store.enrol([thief]) == ["stored"]
    assert store.add([Upload("ada", ADA.message(3), THIEF.sign(ADA.message(3)))]) == ["stored"]
    assert store.enrol([ADA.enrolment]) == ["conflict"]
    assert store.revoke("ada", store.seen("ada")) == 1
    assert (store.keys(["ada"]), store.messages()) == ({}, ())
    assert store.enrol([thief, ADA.enrolment]) == ["revoked", "revoked"]
    assert store.add([ADA.upload(3)]) == ["revoked"]
    own = ADA.enrolment.keys._replace(generation=1)
    assert store.enrol([Enrolment("ada", own)]) == ["stored"]
    assert store.keys(["ada"]) == store.latest_keys(1) == {"ada": own}
    assert store.add([ADA.upload(0)._replace(generation=1)]) == ["stored"]
    assert lines(store) == [("revoked", "operator", "ada")]
    assert (store.counts().second_reports, store.counts().most_second) == (1, 1), "somebody's report was seen before"


def test_whoever_withdrew_may_be_invited_again(store):
    store.enrol([ADA.enrolment])
    store.add([ADA.upload(0)])
    store.withdraw("ada", store.seen("ada"))
    store.revoke("ada", store.seen("ada"))
    assert store.add([ADA.upload(0)._replace(generation=1)]) == ["stored"]
    assert store.counts().most_second == 1


def test_a_code_that_nobody_used_can_be_revoked_more_than_once(store):
    for number in (1, 2):
        assert store.revoke("eve", store.seen("eve")) == number
    assert store.seen("eve") == Listed("eve", 2, None, False, False)
    assert store.counts().second_reports == 0
    assert len({SERVER_KEY.code(SCHEMA, "eve", number) for number in range(3)}) == 3


def test_what_a_store_knows_is_listed(store):
    made = [FakeDevice(f"user {place}", SCHEMA) for place in range(5)]
    store.enrol([one.enrolment for one in made])
    store.add([one.upload() for one in made[:3]])
    store.withdraw("user 1", store.seen("user 1"))
    store.revoke("user 2", store.seen("user 2"))
    found = {
        one.user: (one.generation, one.enrolled_at is not None, one.reported, one.withdrawn) for one in store.users()
    }
    assert found == {
        "user 0": (0, True, True, False),
        "user 1": (0, True, False, True),
        "user 2": (1, False, False, False),
        "user 3": (0, True, False, False),
        "user 4": (0, True, False, False),
    }


def test_nothing_leaves_a_closed_collection(store):
    store.enrol([ADA.enrolment])
    store.add([ADA.upload()])
    store.close()
    for change in (store.revoke, store.withdraw):
        with pytest.raises(DataError, match="closed"):
            change("ada", store.seen("ada"))
    assert (store.closed().messages, lines(store)) == ((ADA.message(),), [])


def test_what_was_asked_about_is_what_is_taken_back(store):
    store.enrol([ADA.enrolment])
    with pytest.raises(DataError, match="Expected ada to have a report"):
        store.withdraw("ada", store.seen("ada"))
    before = store.seen("ada")
    store.add([ADA.upload()])
    with pytest.raises(DataError, match="changed meanwhile"):
        store.revoke("ada", before)
    assert (store.messages(), lines(store)) == ((ADA.message(),), [])


@pytest.mark.parametrize("by", ["operator", "device"])
def test_nothing_of_a_withdrawn_report_is_on_disk(tmp_path, by):
    store = Store.create(str(tmp_path / "reports.sqlite"), SCHEMA)
    store.enrol([ADA.enrolment])
    store.add([ADA.upload(1), BOB.upload(2)])
    if by == "device":
        store.take_back([ADA.upload(1)])
    else:
        store.withdraw("ada", store.seen("ada"))
    held = b"".join(path.read_bytes() for path in tmp_path.iterdir())
    assert BOB.message(2) in held
    assert ADA.message(1) not in held
    assert ADA.upload(1).proof not in held
    store.dispose()


def test_a_withdrawn_report_is_in_no_estimate_and_no_training(tmp_path):
    asked = schema(label=label(epsilon=20.0))
    messages = drawn(asked, KNOWN.x, KNOWN.y, KNOWN_USERS)
    store = Store.create(str(tmp_path / "reports.sqlite"), asked)
    store.add([Upload(user, message, b"") for user, message in messages.items()])
    gone = [user for user, place in zip(KNOWN_USERS, KNOWN.y, strict=True) if place == 0]
    for user in gone:
        store.withdraw(user, store.seen(user))
    with stream_any(str(tmp_path / "reports.sqlite")) as reports:
        shares = estimate(reports).answers["label"]
    assert [one.name for one in shares] == CLASSES
    assert shares[0].estimate < 0.05
    store.close()
    write_tables(tmp_path)
    tables = Tables(str(tmp_path / "edges.csv"), None, None, None)
    training = prepare(store.closed(), tables, "label-only", None)
    rows = np.array([name in gone for name in KNOWN_USERS])
    assert ((training.collected.reports["users"] < 0) == rows).all()
    assert training.collected.facts["reports"] == len(KNOWN_USERS) - len(gone)
    store.dispose()


@pytest.fixture
def operator(tmp_path):
    """The store of ``client`` as another process sees it."""
    Store.create(str(tmp_path / "reports.sqlite"), SCHEMA).dispose()
    other = Store.open(str(tmp_path / "reports.sqlite"))
    yield other
    other.dispose()


@pytest.fixture
def client(operator, tmp_path):
    with client_of(Store.open(str(tmp_path / "reports.sqlite"))) as client:
        yield client


def test_a_thief_who_enrolled_first_shuts_nobody_out(client, operator):
    """A server that has the keys of the thief at hand refuses them from the moment of the revocation on."""
    stolen = {**ADA.code, "sign_key": THIEF.sign_key.hex(), "agree_key": THIEF.agree_key.hex()}
    forged = ADA.message(1) + THIEF.sign(ADA.message(1))
    assert client.post("/users", json=stolen).status_code == 201
    assert client.post("/reports", content=forged).status_code == 201
    assert client.post("/users", json=ADA.code).status_code == 409
    operator.revoke("ada", operator.seen("ada"))
    strange = client.post("/reports", content=EVE.body())
    refused = client.post("/reports", content=forged)
    assert (refused.status_code, refused.content) == (403, strange.content)
    for code in (stolen, ADA.code):
        assert client.post("/users", json=code).status_code == 403
    assert client.post("/users", json=SECOND_CODE).status_code == 201
    assert client.post("/reports", content=forged).status_code == 403
    assert client.post("/reports", content=ADA.body(2)).status_code == 201
    assert client.post("/batches", content=ADA.batch(ADA.coded(2))).json()["repeated"] == 1
    assert operator.messages() == (ADA.message(2),)
    assert client.get("/counts", headers=BEARER).json()["budget"]["users_who_spent_again"] == 1


def test_whose_code_was_revoked_sends_no_batch_for_others(client, operator):
    """The server has the keys of the time before the revocation at hand."""
    for one in (ADA, BOB):
        client.post("/users", json=one.code)
    operator.revoke("bob", operator.seen("bob"))
    assert client.post("/batches", content=BOB.batch(ADA.coded())).status_code == 403
    assert operator.messages() == ()


@pytest.mark.parametrize("how", ["alone", "in a batch"])
def test_who_enrols_again_elsewhere_with_the_same_keys_is_taken(client, operator, how):
    """The server has the keys of the time before the revocation at hand: it looks at the store before it refuses."""
    for one in (ADA, BOB):
        client.post("/users", json=one.code)

    def send():
        if how == "alone":
            return client.post("/reports", content=ADA.body(2)).status_code
        refused = client.post("/batches", content=BOB.batch(BOB.coded(1), ADA.coded(2))).json()["refused"]
        return refused[0]["status"] if refused else 201

    assert send() == 201
    operator.revoke("ada", operator.seen("ada"))
    again = ADA.enrolment._replace(keys=ADA.enrolment.keys._replace(generation=1))
    assert operator.enrol([again]) == ["stored"]
    assert send() == 201
    assert ADA.message(2) in operator.messages()
    operator.revoke("ada", operator.seen("ada"))
    assert (send(), send()) == (403, 403)


def test_a_server_takes_no_withdrawn_report_again(client, operator):
    for one in (ADA, BOB):
        client.post("/users", json=one.code)
    client.post("/reports", content=ADA.body(2))
    operator.withdraw("ada", operator.seen("ada"))
    again = client.post("/reports", content=ADA.body(2))
    assert (again.status_code, "withdrawn" in again.json()["detail"]) == (410, True)
    answer = client.post("/batches", content=BOB.batch(ADA.coded(2), BOB.coded(1))).json()
    assert (answer["stored"], [one["status"] for one in answer["refused"]]) == (1, [410])
    assert client.post("/reports", content=ADA.message(2) + THIEF.sign(ADA.message(2))).status_code == 403


def test_a_user_takes_the_own_report_back(where):
    """As with the command of the operator, nothing has it from then on, and the closed collection stays as it is."""
    store, other = Store.create(where, SCHEMA), Store.open(where)
    with client_of(store) as client:

        def status(path, content):
            return client.post(path, content=content).status_code

        for one, label in ((ADA, 1), (BOB, 2)):
            client.post("/users", json=one.code)
            assert status("/reports", one.body(label)) == 201
        message = ADA.message(1)
        for signature in (
            ADA.keys.sign(message),
            THIEF.sign_withdrawal(message, ADA.code["code"]),
            BOB.withdrawal(2)[-64:],
        ):
            assert status("/withdrawals", message + signature) == 403
        assert status("/reports", ADA.withdrawal(1)) == 403, "it proves nothing else"
        assert len(other.messages()) == 2
        assert [status("/withdrawals", ADA.withdrawal(1)) for _ in range(2)] == [201, 200]
        assert other.messages() == (BOB.message(2),)
        assert status("/reports", ADA.body(1)) == 410
        assert client.post("/batches", content=BOB.batch(ADA.coded(1))).json()["refused"][0]["status"] == 410
        assert client.post("/close", headers=BEARER).json()["reports"] == 1
        exported = client.get("/export", headers=BEARER).content
        assert (message in exported, BOB.message(2) in exported) == (False, True)
        assert [status("/withdrawals", one) for one in (ADA.withdrawal(1), BOB.withdrawal(2))] == [410, 410]
        assert client.get("/export", headers=BEARER).content == exported
    assert lines(other) == [("withdrawn", "device", "ada")]
    other.dispose()


def test_a_withdrawal_of_another_report_is_a_second_spend(where):
    store = Store.create(where, SCHEMA)
    store.enrol([ADA.enrolment, BOB.enrolment])
    store.add([ADA.upload(1), BOB.upload(2)])
    assert store.take_back([ADA.upload(3), BOB.upload(2)]) == ["stored", "stored"]
    assert store.take_back([ADA.upload(3)]) == ["repeated"]
    assert (store.messages(), store.counts().second_reports) == ((), 1)
    assert [(one.kind, one.user, one.count) for one in store.counts().alerts] == [("report", "ada", 1)]
    store.dispose()


def test_a_withdrawal_before_its_report_keeps_that_out(client, operator):
    client.post("/users", json=ADA.code)
    assert client.post("/withdrawals", content=ADA.withdrawal(1)).status_code == 201
    assert client.post("/reports", content=ADA.body(1)).status_code == 410
    assert (operator.messages(), operator.seen("ada").withdrawn) == ((), True)


def test_whoever_enrolled_again_elsewhere_takes_the_report_back(client, operator):
    """The server has the keys of the time before the revocation at hand."""
    client.post("/users", json=ADA.code)
    operator.revoke("ada", operator.seen("ada"))
    assert client.post("/withdrawals", content=ADA.withdrawal(1)).status_code == 403
    again = ADA.enrolment._replace(keys=ADA.enrolment.keys._replace(generation=1))
    operator.enrol([again])
    operator.add([ADA.upload(1)._replace(generation=1)])
    assert client.post("/withdrawals", content=ADA.withdrawal(1)).status_code == 403, "it is for the code of before"
    assert operator.messages() == (ADA.message(1),)
    assert client.post("/withdrawals", content=ADA.withdrawal(1, 1)).status_code == 201
    assert operator.messages() == ()


def test_a_withdrawal_waits_for_no_reader(tmp_path):
    """To wait would keep everybody from writing; what is still in the log goes with the next withdrawal."""
    where = str(tmp_path / "reports.sqlite")
    store, other = Store.create(where, SCHEMA), Store.open(where)
    store.enrol([ADA.enrolment])
    store.add([ADA.upload(1)])
    with other._database.reading() as connection:
        connection.exec_driver_sql("select count(*) from reports").scalar()
        start = time.monotonic()
        assert store.take_back([ADA.upload(1)]) == ["stored"]
        assert time.monotonic() - start < BUSY / 2
        assert not store.is_flushed
    with store._database.reading() as connection:
        assert connection.exec_driver_sql("PRAGMA busy_timeout").scalar_one() == 1000 * BUSY, "as before"
    assert store.take_back([ADA.upload(1)]) == ["repeated"]
    assert store.is_flushed
    assert ADA.message(1) not in b"".join(path.read_bytes() for path in tmp_path.iterdir())
    for one in (store, other):
        one.dispose()


FIRST_FORMAT = """
create table meta (id integer not null primary key, format integer not null, schema text not null, closed_at float, sha256 text);
create table users ("user" BLOB not null primary key, sign_key BLOB not null, agree_key BLOB not null,
    enrolled_at float not null);
create table reports ("user" BLOB not null primary key, message BLOB not null, proof BLOB not null, received_at float not null);
create index ix_reports_received_at on reports (received_at);
create table alerts (kind varchar(16) not null, "user" BLOB not null, count integer not null, first_at float not null,
    last_at float not null, primary key (kind, "user"))
"""
"""The tables as the first release of the collection service made them."""


@pytest.fixture
def first(where):
    """A place where a store of format 1 is, in which ada and bob have reported."""
    types = {"BLOB": "bytea", "float": "double precision"} if "://" in where else {}
    engine = sqlalchemy.create_engine(where if "://" in where else f"sqlite:///{where}")
    with engine.begin() as connection:
        for statement in FIRST_FORMAT.split(";"):
            for name, other in types.items():
                statement = statement.replace(name, other)
            connection.exec_driver_sql(statement)
        connection.execute(
            sqlalchemy.text("insert into meta values (1, 1, :schema, null, null)"), {"schema": SCHEMA.text}
        )
        for one in (ADA, BOB):
            row = {
                "user": one.user.encode(),
                **dict(zip("sap", (*one.enrolment.keys[:2], one.upload().proof), strict=True)),
            }
            connection.execute(sqlalchemy.text("insert into users values (:user, :s, :a, 7.0)"), row)
            said = {**row, "m": one.message()}
            connection.execute(sqlalchemy.text("insert into reports values (:user, :m, :p, 7.0)"), said)
        connection.execute(sqlalchemy.text("insert into alerts values ('key', :user, 2, 7.0, 8.0)"), {"user": b"ada"})
    engine.dispose()
    return where


def test_a_store_of_the_first_format_goes_on(first):
    reader = Store.open(first)
    assert reader.messages() == (ADA.message(), BOB.message())
    store = Store.create(first, SCHEMA)
    assert store.keys(["ada", "bob"]) == {one.user: one.enrolment.keys for one in (ADA, BOB)}
    assert store.add([ADA.upload(), BOB.upload(2)]) == ["repeated", "conflict"]
    assert reader.add([ADA.upload()]) == ["repeated"], "another process has brought it up to date"
    assert {(one.kind, one.user, one.count) for one in store.counts().alerts} == {
        ("key", "ada", 2),
        ("report", "bob", 1),
    }
    store.revoke("ada", store.seen("ada"))
    assert store.enrol([ADA.enrolment]) == ["revoked"]
    assert store.messages() == (BOB.message(),)
    for one in (reader, store):
        one.dispose()


def test_what_is_in_a_store_of_the_first_format_is_listed(first):
    reader = Store.open(first)
    assert [one.user for one in reader.users()] == ["ada", "bob"]
    assert (list(reader.audit()), reader.standing(["ada"])["ada"].generation) == ([], 0)
    assert reader.seen("ada").reported
    other = Store.open(first)
    other.withdraw("ada", other.seen("ada"))
    assert lines(reader) == [("withdrawn", "operator", "ada")], "another process has brought it up to date"
    assert reader.seen("ada").withdrawn
    for one in (reader, other):
        one.dispose()


def test_a_store_of_the_first_format_has_the_tables_of_a_new_one(first, where, tmp_path):
    if "://" in where:
        pytest.skip("the text of the tables is SQLite's")
    Store.create(first, SCHEMA).dispose()
    Store.create(str(tmp_path / "new.sqlite"), SCHEMA).dispose()

    def columns(path):
        with sqlite3.connect(path) as connection:
            tables = [name for (name,) in connection.execute("select name from sqlite_master where type = 'table'")]
            found = {name: sorted(connection.execute(f"pragma table_info({name})")) for name in tables}
        connection.close()
        return {name: [(row[1], row[3], row[5] > 0) for row in rows] for name, rows in found.items()}, tables

    old, new = columns(first), columns(str(tmp_path / "new.sqlite"))
    assert old[0] == new[0]
    with sqlite3.connect(first) as connection:
        assert connection.execute("select format from meta").fetchone() == (3,)
    connection.close()


def test_a_closed_store_of_the_first_format_has_the_same_name(first):
    reader = Store.open(first)
    sha256, reports = reader.close()
    assert (reports, reader.closed().sha256, reader.sha256) == (2, sha256, sha256)
    reader.dispose()
