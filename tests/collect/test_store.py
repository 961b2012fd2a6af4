"""One suite for every kind of store, and what SQLite does on a full, read-only or damaged disk."""

import os
import shutil
import sqlite3
import stat
import threading
import time
from pathlib import Path

import pytest
import sqlalchemy
from devices import FakeDevice, label_schema
from preloaded import COPIES, add_until_closed

from sfumato.collect._closed import Closed
from sfumato.collect._database import StoreError
from sfumato.collect._store import Store
from sfumato.errors import DataError

SCHEMA = label_schema()


@pytest.fixture
def store(where):
    made = Store.create(where, SCHEMA)
    yield made
    made.dispose()


def devices(count):
    return [FakeDevice(f"user-{place}", SCHEMA) for place in range(count)]


def test_the_first_report_stays_for_ever_and_conflicts_are_counted_in_one_alert_a_user(store):
    """Also where one call holds the same user more than once."""
    ada, bob, eve = (FakeDevice(name, SCHEMA) for name in ("ada", "bob", "eve"))
    assert store.add([ada.upload(0), bob.upload(1)]) == ["stored", "stored"]
    assert store.add([ada.upload(0), ada.upload(1), bob.upload(1)]) == ["repeated", "conflict", "repeated"]
    assert store.add([eve.upload(2), eve.upload(2), eve.upload(3)]) == ["stored", "repeated", "conflict"]
    assert store.add([ada.upload(1), ada.upload(2)]) == ["conflict", "conflict"]
    assert store.messages() == (ada.message(0), bob.message(1), eve.message(2))
    counts = store.counts()
    assert {(one.kind, one.user, one.count) for one in counts.alerts} == {("report", "ada", 3), ("report", "eve", 1)}
    assert (counts.second_reports, counts.most_second) == (2, 3)
    assert all(one.first_at <= one.last_at for one in counts.alerts)


def test_enrolled_keys_stay(store):
    ada, other = FakeDevice("ada", SCHEMA).enrolment, FakeDevice("eve", SCHEMA).enrolment._replace(user="ada")
    assert store.enrol([ada, ada, other]) == ["stored", "repeated", "conflict"]
    assert store.enrol([other, ada]) == ["conflict", "repeated"]
    assert store.keys(["ada", "nobody"]) == {"ada": ada.keys}
    assert [(one.kind, one.user, one.count) for one in store.counts().alerts] == [("key", "ada", 2)]
    assert store.counts().second_reports == 0


def test_keys_of_those_who_enrolled_last(store):
    made = devices(4)
    for one in made:
        store.enrol([one.enrolment])
    assert list(store.latest_keys(10)) == [one.user for one in made]
    assert store.latest_keys(2) == {one.user: one.enrolment.keys for one in made[2:]}


def test_messages_come_by_the_bytes_of_the_user_id(store):
    names = ["z", "\u00e9", "a", "Z", "aa", "user-10", "user-9", "\U0001f600"]
    made = [FakeDevice(name, SCHEMA) for name in names]
    store.add([one.upload() for one in made])
    assert store.messages() == tuple(FakeDevice(name, SCHEMA).message() for name in sorted(names, key=str.encode))


def test_closing_is_final_and_named_by_its_sha256(store, where, tmp_path):
    store.add([one.upload(place % 4) for place, one in enumerate(devices(30))])
    assert store.sha256 is None
    with pytest.raises(DataError, match="open collection"):
        store.closed()
    sha256, reports = store.close()
    assert (sha256, reports) == (Closed(SCHEMA, store.messages()).sha256, 30)
    assert store.close() == (sha256, reports)
    assert store.add([FakeDevice("late", SCHEMA).upload(), devices(1)[0].upload()]) == ["closed", "closed"]
    again = Store.open(where)
    assert again.sha256 == sha256
    assert again.closed().write(tmp_path / "closed") == sha256
    assert Closed.read(tmp_path / "closed").messages == store.messages()
    again.dispose()


def test_an_empty_collection_closes(store):
    assert store.close()[1] == 0
    assert store.closed().messages == ()


def test_counts_tell_users_reports_and_hours(store):
    made = devices(7)
    store.enrol([one.enrolment for one in made])
    store.add([one.upload() for one in made[:5]])
    counts = store.counts()
    assert (counts.users, counts.reports, counts.last_minute) == (7, 5, 5)
    assert sum(number for _, number in counts.hours) == 5
    assert all(start % 3600 == 0 for start, _ in counts.hours)


def test_many_users_in_one_call(store):
    made = devices(2500)
    uploads = [one.upload() for one in made]
    assert set(store.enrol([one.enrolment for one in made])) == {"stored"}
    assert len(store.keys([one.user for one in made])) == 2500
    assert store.add(uploads).count("stored") == 2500
    assert store.add(uploads).count("repeated") == 2500


def test_a_store_belongs_to_one_schema(store, where):
    Store.create(where, SCHEMA).dispose()
    with pytest.raises(DataError, match="Use another store"):
        Store.create(where, label_schema("another"))
    opened = Store.open(where)
    assert opened.schema.digest == SCHEMA.digest
    opened.dispose()


def test_a_damaged_report_stops_the_closing(store, where):
    store.add([one.upload() for one in devices(3)])
    engine = sqlalchemy.create_engine(where if "://" in where else f"sqlite:///{where}")
    with engine.begin() as connection:
        connection.execute(
            sqlalchemy.text('update reports set message = :message where "user" = :user'),
            {"message": b"SFRP damaged", "user": b"user-1"},
        )
    engine.dispose()
    with pytest.raises(DataError, match="canonical"):
        store.close()
    assert store.sha256 is None


def test_threads_that_add_the_same_users_store_each_once(store):
    uploads = [[one.upload(label) for one in devices(40)] for label in range(4)]
    answers = {}
    start = threading.Barrier(4)

    def send(label):
        start.wait()
        answers[label] = [store.add([upload])[0] for upload in uploads[label]]

    threads = [threading.Thread(target=send, args=(label,)) for label in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    kept = dict(zip((one.user for one in devices(40)), sorted_messages(store), strict=True))
    for place, one in enumerate(devices(40)):
        assert sorted(answers[label][place] for label in range(4)) == ["conflict"] * 3 + ["stored"]
        (label,) = (label for label in range(4) if answers[label][place] == "stored")
        assert kept[one.user] == one.message(label)


def sorted_messages(store):
    by_user = sorted(devices(40), key=lambda one: one.user.encode())
    found = dict(zip((one.user for one in by_user), store.messages(), strict=True))
    return [found[one.user] for one in devices(40)]


def test_closing_while_other_processes_add_loses_nothing(store, where):
    ends = []
    for name in ("left", "right"):
        mine, theirs = COPIES.Pipe()
        process = COPIES.Process(target=add_until_closed, args=(where, name, theirs))
        process.start()
        ends.append((process, mine))
    assert [mine.recv() for _, mine in ends] == ["ready", "ready"]
    while len(store.messages()) < 20:
        time.sleep(0.01)
    sha256, reports = store.close()
    acknowledged = [message for _, mine in ends for message in mine.recv()]
    for process, _ in ends:
        process.join()
        assert process.exitcode == 0
    assert sorted(acknowledged) == sorted(store.messages())
    assert (len(acknowledged), store.closed().sha256) == (reports, sha256)


def test_other_databases_are_no_store(tmp_path):
    path = tmp_path / "other.sqlite"
    with sqlite3.connect(path) as connection:
        connection.execute("create table things (name text)")
    connection.close()
    for use in (lambda: Store.open(str(path)), lambda: Store.create(str(path), SCHEMA)):
        with pytest.raises(DataError, match="another database"):
            use()
    with pytest.raises(DataError, match="no file"):
        Store.open(str(tmp_path / "absent.sqlite"))
    assert not (tmp_path / "absent.sqlite").exists()
    (tmp_path / "text").write_text("no database at all " * 100)
    with pytest.raises(StoreError, match=r"not a database.* Check the path") as caught:
        Store.open(str(tmp_path / "text"))
    assert "disk" not in str(caught.value)


def test_file_is_readable_by_its_owner_alone(tmp_path):
    store = Store.create(str(tmp_path / "reports.sqlite"), SCHEMA)
    store.add([FakeDevice("ada", SCHEMA).upload()])
    for path in tmp_path.iterdir():
        assert stat.S_IMODE(path.stat().st_mode) == 0o600, path.name
    store.dispose()


def limit_pages(store, pages):
    """Let the database of a store be full at so many pages, as a full disk would."""

    def limit(connection, _record):
        connection.execute(f"PRAGMA max_page_count={pages}")

    store.dispose()
    sqlalchemy.event.listen(store._database._engine, "connect", limit)
    return lambda: sqlalchemy.event.remove(store._database._engine, "connect", limit)


def test_full_disk_loses_nothing_that_was_acknowledged(tmp_path):
    store = Store.create(str(tmp_path / "reports.sqlite"), SCHEMA)
    make_room = limit_pages(store, 14)
    acknowledged = []

    def fill():
        for one in devices(300):
            store.add([one.upload()])
            acknowledged.append(one)

    with pytest.raises(StoreError, match="full"):
        fill()
    assert 10 < len(acknowledged) < 300
    assert set(store.messages()) == {one.message() for one in acknowledged}
    assert store.add([acknowledged[-1].upload()]) == ["repeated"]
    make_room()
    store.dispose()
    assert store.add([one.upload() for one in devices(300)]).count("repeated") == len(acknowledged)
    store.dispose()


def test_read_only_store_refuses_and_can_be_exported(tmp_path):
    path = tmp_path / "reports.sqlite"
    store = Store.create(str(path), SCHEMA)
    store.add([one.upload() for one in devices(3)])
    fixed, late = Store.open(f"sqlite:///file:{path}?mode=ro&uri=true"), FakeDevice("late", SCHEMA)
    for change in (lambda: fixed.add([late.upload()]), fixed.close, lambda: fixed.enrol([late.enrolment])):
        with pytest.raises(StoreError, match="readonly"):
            change()
    assert fixed.add([devices(1)[0].upload()]) == ["repeated"]
    store.close()
    assert len(fixed.closed().messages) == 3
    fixed.dispose()
    store.dispose()


def damage(path: Path, page: int) -> None:
    with path.open("r+b") as file:
        file.seek(page * 4096)
        file.write(os.urandom(4096))


def test_damage_under_an_open_store_is_told(tmp_path):
    path = tmp_path / "reports.sqlite"
    store = Store.create(str(path), SCHEMA)
    store.add([one.upload() for one in devices(2000)])
    store.dispose()
    for page in range(1, path.stat().st_size // 4096):
        damage(path, page)
    with pytest.raises(StoreError, match="malformed"):
        store.add([FakeDevice("late", SCHEMA).upload()])
    with pytest.raises(StoreError, match="malformed"):
        store.messages()
    store.dispose()


def test_restored_backup_beside_no_stale_files_takes_all_reports_again(tmp_path):
    """The steps of docs/collection-deployment.md, where a killed server left a write-ahead log."""
    path, backup = tmp_path / "reports.sqlite", tmp_path / "backup.sqlite"
    store = Store.create(str(path), SCHEMA)
    store.add([one.upload() for one in devices(100)])
    with sqlite3.connect(path) as source, sqlite3.connect(backup) as target:
        source.backup(target)
    source.close()
    target.close()
    store.add([one.upload() for one in devices(300)])
    killed = tmp_path / "killed"
    killed.mkdir()
    for one in tmp_path.glob("reports.sqlite*"):
        shutil.copyfile(one, killed / one.name)
    store.dispose()
    assert (killed / "reports.sqlite-wal").stat().st_size > 0
    for one in killed.iterdir():
        one.unlink()
    place = shutil.copyfile(backup, killed / "reports.sqlite")
    place.chmod(0o600)
    restored = Store.open(str(place))
    assert set(restored.messages()) == {one.message() for one in devices(100)}
    assert restored.add([one.upload() for one in devices(300)]).count("repeated") == 100
    assert len(restored.messages()) == 300
    restored.dispose()
