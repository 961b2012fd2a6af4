"""Rosters have one reading: ids in order, each once; a schema names its roster by a hash."""

import hashlib

import pytest
from collect_fake import KEY, schema_of

from sfumato.collect._checks import roster_sha256
from sfumato.collect._schema import Schema
from sfumato.collect._tables import check_roster, read_roster
from sfumato.errors import DataError, SchemaError

USERS = ("ada", "bö", "cid")


@pytest.mark.parametrize("text", ["ada\nbö\ncid", "ada\nbö\ncid\n", "ada\r\nbö\r\ncid\r\n"])
def test_roster_is_read(tmp_path, text):
    (tmp_path / "users.txt").write_bytes(text.encode())
    assert read_roster(tmp_path / "users.txt") == USERS


def test_its_name_is_the_hash_of_its_lines():
    assert roster_sha256(USERS) == hashlib.sha256("ada\nbö\ncid\n".encode()).hexdigest()


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "got an empty file"),
        (b"\n", "got an empty file"),
        (b"ada\n\nbob", "line 2 of users.txt to hold a user id, got a blank line"),
        (b"ada\r\n \r\nbob", "line 2 .* got a blank line"),
        (b"ada\n\n", "line 2 .* got a blank line"),
        (b"ada\n bob", "line 2 of users.txt to hold a user id alone, got a space"),
        (b"ada \nbob", "line 1 .* got a space"),
        (b"ada\nbob\nada\n", "line 3 of users.txt to hold another user than line 1, got 'ada' again"),
        (b"ada\n\xff", "UTF-8"),
        (b"x" * 65, "line 1"),
    ],
)
def test_malformed_rosters_are_refused(tmp_path, content, message):
    (tmp_path / "users.txt").write_bytes(content)
    with pytest.raises(DataError, match=message):
        read_roster(tmp_path / "users.txt")


def test_another_roster_than_that_of_the_schema_is_refused():
    links = schema_of(links={"users": 3, "roster": roster_sha256(USERS), "epsilon": 1.0}).links
    assert check_roster(links, USERS) == {"ada": 0, "bö": 1, "cid": 2}
    for other in (USERS[::-1], USERS[:2], (*USERS, "dan"), ()):
        with pytest.raises(SchemaError, match="roster of the schema"):
            check_roster(links, other)


def test_questions_get_number_and_hash_of_a_roster(tmp_path):
    questions = 'collection = "c"\npurpose = "p"\nopens = 2026-01-01T00:00:00Z\ncloses = 2127-01-01T00:00:00Z\n'
    (tmp_path / "q.toml").write_text(questions + "[links]\nepsilon = 1.0\n")
    links = Schema.from_toml(tmp_path / "q.toml", KEY.public.hex(), USERS).links
    assert (links.users, links.roster) == (3, roster_sha256(USERS))
    with pytest.raises(SchemaError, match="--roster FILE"):
        Schema.from_toml(tmp_path / "q.toml", KEY.public.hex())
