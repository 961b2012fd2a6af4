"""`sfumato collect users`, `revoke` and `withdraw`: what an operator lists and takes back."""

import io
import json

import pytest
from devices import SERVER_KEY, FakeDevice, label_schema

from sfumato.collect._keys import ServerKey
from sfumato.collect._store import Store
from sfumato.collect._tables import read_codes

SCHEMA = label_schema(opens="2020-01-01T00:00:00Z", closes="2120-01-01T00:00:00Z")
ADA, BOB = FakeDevice("ada", SCHEMA), FakeDevice("bob", SCHEMA)


@pytest.fixture
def store(tmp_path, monkeypatch):
    """The usual store of a folder, in which ada and bob have reported."""
    monkeypatch.chdir(tmp_path)
    SERVER_KEY.write(tmp_path / "server.key")
    (tmp_path / "schema.json").write_text(SCHEMA.text)
    made = Store.create("reports.sqlite", SCHEMA)
    made.enrol([ADA.enrolment, BOB.enrolment])
    made.add([ADA.upload(1), BOB.upload(2)])
    yield made
    made.dispose()


class Terminal(io.StringIO):
    """Somebody who types."""

    def isatty(self):
        return True


def test_a_code_is_revoked_and_the_new_one_counts(store, sfumato, tmp_path):
    done = sfumato("collect", "revoke", "ada", "--yes")
    code = SERVER_KEY.code(SCHEMA, "ada", 1)
    assert (done.code, done.out) == (0, f"Revoked. The new code of ada, for its eyes only: {code}\n")
    assert store.messages() == (BOB.message(2),)
    (tmp_path / "users.txt").write_text("ada\nbob\n")
    assert sfumato("collect", "codes", "schema.json", "--users", "users.txt", "--store", "reports.sqlite").code == 0
    assert read_codes(tmp_path / "codes.csv") == {"ada": code, "bob": BOB.code["code"]}
    again = json.loads(sfumato("collect", "revoke", "ada", "--yes", "--json").out)
    assert again == {"user": "ada", "code": SERVER_KEY.code(SCHEMA, "ada", 2), "number": 3, "deleted_report": False}


def test_a_report_is_withdrawn_once(store, sfumato):
    done = sfumato("collect", "withdraw", "ada", "--yes")
    said = "The report of ada is deleted here. Backups that were made before still hold it.\n"
    assert (done.code, done.out) == (0, said)
    assert sfumato("collect", "withdraw", "ada").out == said
    assert store.messages() == (BOB.message(2),)
    assert len(list(store.audit())) == 1


def test_users_and_what_was_taken_back_are_listed(store, sfumato):
    store.enrol([FakeDevice('a "b", c', SCHEMA).enrolment])
    for command in ("revoke", "withdraw"):
        sfumato("collect", command, "ada" if command == "revoke" else "bob", "--yes")
    header, *rows = sfumato("collect", "users").out.splitlines()
    assert header == "user,code,enrolled,report"
    assert [row.replace(row.split(",")[-2], "T") if "Z" in row else row for row in rows] == [
        '"a ""b"", c",1,T,',
        "bob,1,T,withdrawn",
        "ada,2,,",
    ]
    header, *rows = sfumato("collect", "users", "--audit").out.splitlines()
    assert header == "time,act,by,user"
    assert [row.partition(",")[2] for row in rows] == ["revoked,operator,ada", "withdrawn,operator,bob"]


@pytest.mark.parametrize("command", ["revoke", "withdraw"])
def test_nothing_is_deleted_without_a_yes(store, sfumato, monkeypatch, command):
    monkeypatch.setattr("sys.stdin", io.StringIO("y\n"))
    done = sfumato("collect", command, "ada")
    assert (done.code, "Expected --yes" in done.err, "has a report" in done.err) == (2, True, True)
    for answer, code in (("n\n", 1), ("", 1), ("y\n", 0)):
        assert len(store.messages()) == 2
        monkeypatch.setattr("sys.stdin", Terminal(answer))
        assert sfumato("collect", command, "ada").code == code
    assert store.messages() == (BOB.message(2),)


@pytest.mark.parametrize("command", ["revoke", "withdraw"])
def test_whoever_changes_while_the_question_stands_is_left_alone(store, sfumato, monkeypatch, command):
    class Late(Terminal):
        def readline(self, *size):
            store.revoke("ada", store.seen("ada"))
            return super().readline(*size)

    monkeypatch.setattr("sys.stdin", Late("y\n"))
    done = sfumato("collect", command, "ada")
    assert (done.code, "changed meanwhile" in done.err) == (2, True)
    assert store.seen("ada").generation == 1


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("revoke", " ada"), "user id"),
        (("revoke", "ada", "--server-key", "other.key"), "key of this collection"),
        (("withdraw", "nobody"), "Expected nobody to have a report"),
        (("withdraw", "ada", "--store", "absent.sqlite"), "no file"),
        (("users", "--store", "absent.sqlite"), "no file"),
        (("codes", "schema.json", "--users", "users.txt", "--store", "other.sqlite"), "the store of this schema"),
    ],
)
def test_bad_input_takes_nothing_back(store, sfumato, tmp_path, arguments, words):
    ServerKey(bytes(32)).write(tmp_path / "other.key")
    (tmp_path / "users.txt").write_text("ada\n")
    Store.create("other.sqlite", label_schema("other")).dispose()
    done = sfumato("collect", *arguments, *("--yes",) * (arguments[0] in ("revoke", "withdraw")))
    assert (done.code, words in done.err) == (2, True), done.err
    assert (len(store.messages()), list(store.audit())) == (2, [])


def test_closing_is_asked_about_and_can_be_looked_at_before(store, sfumato, monkeypatch):
    looked = sfumato("collect", "close", "--dry-run")
    assert (looked.code, looked.out) == (
        0,
        "test has 2 reports of 2 enrolled users. Closing is for good: nothing is taken or withdrawn after it.\n",
    )
    facts = {"collection": "test", "users": 2, "reports": 2, "sha256": None}
    assert json.loads(sfumato("collect", "close", "--dry-run", "--json").out) == facts
    refused = sfumato("collect", "close")
    assert (refused.code, "Expected --yes" in refused.err) == (2, True)
    for answer in ("n\n", ""):
        monkeypatch.setattr("sys.stdin", Terminal(answer))
        done = sfumato("collect", "close")
        assert (done.code, done.out.endswith("[y/N] "), store.sha256) == (1, True, None)
        assert "test has 2 reports of 2 enrolled users. Devices may report until 2120" in done.err
    monkeypatch.setattr("sys.stdin", Terminal("y\n"))
    assert sfumato("collect", "close").code == 0
    monkeypatch.setattr("sys.stdin", io.StringIO())
    assert sfumato("collect", "close").out == f"Closed with 2 reports as {store.sha256}.\n"
    assert f"closed as {store.sha256}" in sfumato("collect", "close", "--dry-run").out


def test_a_closed_collection_stays(store, sfumato):
    store.close()
    for command in ("revoke", "withdraw"):
        done = sfumato("collect", command, "ada", "--yes")
        assert (done.code, "closed" in done.err) == (2, True)


@pytest.mark.parametrize(("command", "flushed"), [("revoke", False), ("withdraw", False), ("withdraw", True)])
def test_bytes_that_a_reader_keeps_in_the_log_are_told(store, sfumato, monkeypatch, command, flushed):
    monkeypatch.setattr("sfumato.collect._database.Database.flush", lambda *_, **__: flushed)
    done = sfumato("collect", command, "ada", "--yes")
    assert (done.code, "write-ahead log still holds" in done.err) == (0, not flushed)
