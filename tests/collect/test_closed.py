"""The file of a closed collection: the same reports give the same bytes, and nothing else is read as a collection."""

import hashlib
import random

import pytest
from wire_messages import ASKED, any_answers, schema_of

from sfumato.collect import _wire as wire
from sfumato.collect._closed import Closed
from sfumato.errors import DataError

SCHEMA = schema_of(ASKED["features and label"])
USERS = ("Zoe", "ada", "bob", "zoe", "é", "漢")
GOLDEN = "d29888fd74f49e9c20cf8995d688f891d98a38603b07d2701fa37d5e3970f56b"


def collection(schema=SCHEMA, users=USERS):
    return Closed(schema, tuple(wire.encode(schema, user, any_answers(schema, random.Random(user))) for user in users))


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    path = tmp_path_factory.mktemp("closed") / "reports.bin"
    collection().write(path)
    return path.read_bytes()


def read(folder, data):
    path = folder / "reports.bin"
    path.write_bytes(data)
    return Closed.read(path)


def test_what_was_written_is_read(tmp_path, data):
    closed = read(tmp_path, data)
    assert closed == collection()
    assert [report.user for report in closed.reports] == [*USERS]
    assert closed.reports[1].answers == any_answers(SCHEMA, random.Random("ada"))
    assert closed.sha256 == collection().write(tmp_path / "again.bin") == hashlib.sha256(data).hexdigest() == GOLDEN
    assert (tmp_path / "again.bin").read_bytes() == data


@pytest.mark.parametrize("name", ASKED)
def test_every_question_has_its_file(tmp_path, name):
    closed = collection(schema_of(ASKED[name]))
    assert closed.write(tmp_path / "reports.bin") == Closed.read(tmp_path / "reports.bin").sha256
    assert Closed.read(tmp_path / "reports.bin") == closed


def test_a_collection_without_reports(tmp_path):
    collection(users=()).write(tmp_path / "reports.bin")
    assert Closed.read(tmp_path / "reports.bin").reports == ()


@pytest.mark.parametrize(
    "users", [("bob", "ada"), ("ada", "ada"), ("ada", "bob", "ada"), ("é", "zoe"), ("ada", "Zoe")], ids="-".join
)
def test_another_order_is_refused(tmp_path, users):
    collection(users=users).write(tmp_path / "reports.bin")
    with pytest.raises(DataError, match="ascending id"):
        Closed.read(tmp_path / "reports.bin")


def test_two_reports_of_one_user_are_refused(tmp_path):
    """Also two that differ: which one would a training use?"""
    both = [wire.encode(SCHEMA, "ada", {"label": (value,)}) for value in (0, 1)]
    Closed(SCHEMA, tuple(both)).write(tmp_path / "reports.bin")
    with pytest.raises(DataError, match="one report a user"):
        Closed.read(tmp_path / "reports.bin")


def test_a_cut_file_is_refused(tmp_path, data):
    for end in (*range(200), *range(200, len(data), 7), len(data) - 1):
        with pytest.raises(DataError):
            read(tmp_path, data[:end])


def test_longer_files_are_refused(tmp_path, data):
    another = wire.encode(SCHEMA, "龍", {"label": (1,)})
    for more in (b"\0", bytes(4), data, data[-60:], len(another).to_bytes(4, "big") + another):
        with pytest.raises(DataError):
            read(tmp_path, data + more)


def test_a_changed_byte_is_refused_or_changes_the_name(tmp_path, data):
    """Only answers and names of users can become others."""
    chance, kept = random.Random(1), 0
    for place in [*range(12), *range(12, 1000, 9), *range(len(data) - 300, len(data))]:
        changed = bytearray(data)
        changed[place % len(data)] ^= 1 << chance.randrange(8)
        try:
            closed = read(tmp_path, bytes(changed))
        except DataError:
            continue
        kept += 1
        assert closed.schema == SCHEMA
        assert closed.sha256 != GOLDEN
        assert closed.messages != collection().messages
    assert 0 < kept < 300


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (b'"epsilon":5.0', b'"epsilon":4.0'),
        (b'"epsilon":1.0', b'"epsilon":1.00'),
        (b'{"closes"', b'{ "closes"'),
        (b'"bits":8', b'"bits":9'),
        (b"reading-2026", b"reading-2027"),
        (b'{"closes"', b'{"closes":"","closes"'),
        (b'"reading', b'"\\u0072eading'),
        (b"books", b"b\xffoks"),
        (b'"format":1', b'"format":2'),
    ],
)
def test_another_schema_is_refused(tmp_path, data, old, new):
    text = SCHEMA.text.encode()
    assert text.count(old) >= 1
    changed = text.replace(old, new, 1)
    frames = (len(text).to_bytes(4, "big") + text, len(changed).to_bytes(4, "big") + changed)
    with pytest.raises(DataError):
        read(tmp_path, data.replace(*frames))


@pytest.mark.parametrize(
    "head",
    [
        b"",
        b"SFRC",
        b"SFRP\x01",
        b"SFRC\x02",
        b"SFRC\x00",
        b"sfrc\x01",
        b"SFRC\x01",
        b"SFRC\x01\0\0\0\0",
        b"SFRC\x01\0\0\0\0\0\0\0\0",
    ],
)
def test_other_files_are_refused(tmp_path, head):
    with pytest.raises(DataError):
        read(tmp_path, head)
    with pytest.raises(DataError):
        read(tmp_path, head + b"\xff" * 200)


def test_reports_for_another_schema_are_refused(tmp_path):
    other = schema_of(ASKED["features and label"], collection="another")
    Closed(SCHEMA, collection(other).messages).write(tmp_path / "reports.bin")
    with pytest.raises(DataError, match="canonical reports"):
        Closed.read(tmp_path / "reports.bin")
