"""Who is enrolled is a secret: without a key of a user, members and strangers get the same answer after the same work."""

import json
from collections import Counter

import pytest
from devices import BEARER, FakeDevice, client_of, label_schema
from hypothesis import given, settings
from hypothesis import strategies as st

from sfumato.collect import _keys as keys
from sfumato.collect import _stored as stored
from sfumato.collect._batch import encode_batch
from sfumato.collect._keys import DeviceKeys, ServerKey
from sfumato.collect._store import Store

SCHEMA = label_schema()
MEMBER, STRANGER, SENDER = (FakeDevice(name, SCHEMA) for name in ("ada", "eve", "bob"))
THIEF = DeviceKeys(bytes(range(32)), bytes(range(1, 33)))
TEXTS = st.sampled_from([None, 7, "", "0" * 32, "0" * 64, "f" * 64, "\u00e9", STRANGER.code["sign_key"]])


@pytest.fixture(scope="module")
def served(tmp_path_factory):
    """A client, its store, and the work of the server since it was last counted; ada and bob are enrolled."""
    work = Counter()
    with pytest.MonkeyPatch.context() as patch:
        store = Store.create(str(tmp_path_factory.mktemp("membership") / "reports.sqlite"), SCHEMA)

        def counted(where, name):
            real = getattr(where, name)
            patch.setattr(where, name, lambda *given, **more: work.update([name]) or real(*given, **more))

        for where, name in ((keys, "verify"), (keys, "verify_batch"), (keys, "mac"), (ServerKey, "mac_key")):
            counted(where, name)
        counted(Store, "keys")
        patch.setattr("sfumato.collect._server._JUNK_AT_ONCE", 1e6)  # the limit by address has tests of its own
        with client_of(store, uploads_a_second=1e6) as client:
            for one in (MEMBER, SENDER):
                assert client.post("/users", json=one.code).status_code == 201
            yield client, work, store
        store.dispose()


def answered(served, path, body):
    """What can be seen of an answer, and what it took."""
    client, work, _ = served
    work.clear()
    answer = client.post(path, content=body)
    return answer.status_code, answer.content, dict(answer.headers), dict(work)


def same_for_both(served, path, body_of):
    """Compare the answers about a member and a stranger; ``body_of`` makes the body for one of them."""
    about = [answered(served, path, body_of(one)) for one in (MEMBER, STRANGER)]
    assert about[0] == about[1]
    return about[0]


@pytest.mark.parametrize("path", ["/reports", "/withdrawals"])
@settings(max_examples=40, deadline=None, derandomize=True, database=None)
@given(st.one_of(st.binary(min_size=64, max_size=64), st.just(THIEF.sign(MEMBER.message()))), st.integers(0, 2**9))
def test_reports_without_the_key_of_their_user(served, path, signature, flipped):
    def body(one):
        message = bytearray(one.message())
        message[-1] ^= flipped & 255 if flipped < 256 else 0
        return bytes(message) + signature

    status, _, _, work = same_for_both(served, path, body)
    assert (status, work) == (403, {"verify": 2, "keys": 1})


@settings(max_examples=60, deadline=None, derandomize=True, database=None)
@given(st.binary(max_size=60), st.integers(0, 100))
def test_reports_that_are_none(served, junk, cut):
    status = same_for_both(served, "/reports", lambda one: one.body()[:cut] + junk)[0]
    assert 400 <= status < 500


@settings(max_examples=40, deadline=None, derandomize=True, database=None)
@given(st.binary(min_size=64, max_size=64))
def test_batches_without_the_key_of_their_sender(served, signature):
    def body(one):
        return encode_batch(SCHEMA, one.user, THIEF, [SENDER.coded()])[:-64] + signature

    status, _, _, work = same_for_both(served, "/batches", body)
    assert (status, work) == (403, {"verify_batch": 2, "keys": 1})


@settings(max_examples=40, deadline=None, derandomize=True, database=None)
@given(st.binary(min_size=32, max_size=32))
def test_batches_of_a_member_about_others(served, code):
    status, said, _, work = same_for_both(served, "/batches", lambda one: SENDER.batch((one.message(), code)))
    assert (status, [one["status"] for one in json.loads(said)["refused"]]) == (200, [403])
    assert work == {"verify_batch": 1, "keys": 1, "mac": 2, "mac_key": 1}


@settings(max_examples=80, deadline=None, derandomize=True, database=None)
@given(st.dictionaries(st.sampled_from(["sign_key", "agree_key", "code", "more"]), TEXTS, min_size=1), st.booleans())
def test_enrolments_without_the_code_of_their_user(served, changes, listed):
    def body(one):
        asked = {**SENDER.code, "user": one.user, **changes}
        return json.dumps([asked] if listed else asked)

    status, said, _, _ = same_for_both(served, "/users", body)
    assert (json.loads(said)[0]["status"] if listed else status) in (403, 422)


def test_as_many_rows_are_read_of_strangers(served):
    """A row that is there takes longer to read than one that is not."""
    _, _, store = served
    rows = []

    def counted(*given):
        for row in real(*given):
            rows[-1].append(len(row))
            yield row

    with pytest.MonkeyPatch.context() as patch:
        real = stored.rows_of_all
        patch.setattr(stored, "rows_of_all", counted)
        for users in (["ada"], ["eve"], ["ada", "bob"], ["eve", "nobody"]):
            rows.append([])
            store.keys(users)
    assert rows == [[4], [4], [4, 4], [4, 4]]


def test_members_are_taken_as_before(served):
    """At hand, and after another server enrolled them."""
    client, work, store = served
    work.clear()
    assert client.post("/reports", content=MEMBER.body()).status_code == 201
    assert work == {"verify": 1}
    late = FakeDevice("late", SCHEMA)
    store.enrol([late.enrolment])
    assert client.post("/reports", content=late.body()).status_code == 201
    assert client.post("/batches", content=SENDER.batch(late.coded())).json()["repeated"] == 1
    assert client.get("/counts", headers=BEARER).json()["reports"] == 2
