"""A server that gives up erases what opens reports, says so under its signature, and does nothing more; nor does a dead one."""

import json
import shutil
from functools import partial

import numpy as np
import pytest
from test_two_kills import CALLS, STEPS, died, no_words
from test_two_secrecy import traces
from two_made import JOINT, KEYS, OPERATORS, SEALS, Pair

from sfumato.collect.two._book import Book
from sfumato.collect.two._server import Server
from sfumato.collect.two._signed import read_signed
from sfumato.errors import CollectionError, DataError

SECRETS = [JOINT, *(seal.secret for seal in SEALS)]


def taken(pair, steps):
    """The files of both after so many steps, from none."""
    return pair.exchange(STEPS[steps - 1]) if steps else [b"", b""]


def goes_on(server, files):
    """Whether the server takes any step, report or user."""
    theirs = files[1 - server.me]
    for step in STEPS:
        with pytest.raises(DataError, match="aborted"):
            getattr(server, CALLS.get(step, step))(*(() if step == "list" else (theirs,)))
    with pytest.raises(CollectionError, match="aborted"):
        server.take(b"")
    with pytest.raises(CollectionError, match="aborted"):
        server.enrol("u0", b"", "")


@pytest.fixture
def pair(tmp_path):
    """Each server in a folder of its own."""
    made = Pair(tmp_path)
    made.stored(np.arange(12) % 3)
    return made


@pytest.mark.parametrize("steps", range(4))
def test_an_aborted_server_does_nothing_more(tmp_path, pair, steps):
    files = taken(pair, steps)
    said = [server.abort() for server in pair.servers]
    assert [server.abort() for server in pair.servers] == said
    body = read_signed(said[1], OPERATORS[1].sign_key, {"step": "abort", "server": 1})
    assert body == {"agreement": pair.agreement.sha256, "server": 1, "step": "abort"}
    for server in pair.servers:
        goes_on(server, files)
        goes_on(Server(Book(server.book._path), KEYS[server.me], no_words), files)
    assert traces(tmp_path, SECRETS) == []
    with pair.servers[0].book.reading() as connection:
        assert {one.share for one in pair.servers[0].book.reports(connection)} == {None}


def test_an_opening_stands(pair):
    files = pair.exchange("accepted")
    opened = pair.servers[0].opening(files[1])
    with pytest.raises(DataError, match="did not open"):
        pair.servers[0].abort()
    assert pair.servers[0].opening(files[1]) == opened
    pair.servers[1].abort()
    goes_on(pair.servers[1], files)


def test_an_opening_that_died_before_its_book_knew_it_stands(pair, tmp_path):
    """Its file is there, so somebody may have it."""
    files, server = pair.exchange("accepted"), pair.servers[0]
    shutil.copy(server.book._path, tmp_path / "copy")
    opened = server.opening(files[1])
    shutil.copy(tmp_path / "copy", server.book._path)
    restored = Server(Book(server.book._path), KEYS[0], no_words)
    with pytest.raises(DataError, match="did not open"):
        restored.abort()
    assert restored.opening(files[1]) == opened


def test_a_copy_that_is_restored_does_not_go_on(pair, tmp_path):
    files, server = pair.exchange("accepted"), pair.servers[0]
    shutil.copy(server.book._path, tmp_path / "copy")
    said = server.abort()
    shutil.copy(tmp_path / "copy", server.book._path)
    restored = Server(Book(server.book._path), KEYS[0], no_words)
    goes_on(restored, files)
    assert restored.abort() == said
    (tmp_path / "copy").unlink()
    pair.servers[1].abort()
    assert traces(tmp_path, SECRETS) == []


@pytest.mark.parametrize("after", [False, True])
@pytest.mark.parametrize("steps", range(4))
def test_every_death_while_aborting(tmp_path, pair, steps, after):
    """Killed at each statement: it aborted or did not, and the next call ends it."""
    files, deaths = taken(pair, steps), 0
    for server in pair.servers:
        for place in range(20):
            told, dead = died(server.abort, place, after)
            again = Server(Book(server.book._path), KEYS[server.me], no_words)
            with again.book.reading() as connection:
                begun = again.book.aborted(connection)
            assert begun or told == b""
            if begun:
                goes_on(again, files)
            if not dead:
                break
            deaths += 1
        else:
            raise AssertionError("it never ended")
        assert server.abort() == told
        assert json.loads(told.split(b"\n")[0])["step"] == "abort"
    assert deaths >= 8
    assert traces(tmp_path, SECRETS) == []


@pytest.mark.parametrize("after", [False, True])
def test_every_death_of_a_step_and_then_an_abort(tmp_path, after):
    """An opening that was killed opens or is aborted, and never both."""
    stood = gave_up = 0
    for place in range(20):
        (tmp_path / str(place)).mkdir()
        pair = Pair(tmp_path / str(place), users=4)
        pair.stored(np.arange(4) % 3)
        files, server = pair.exchange("accepted"), pair.servers[0]
        told, dead = died(partial(server.opening, files[1]), place, after)
        try:
            server.abort()
        except DataError:
            stood += 1
            assert told in (b"", server.opening(files[1]))
        else:
            gave_up += 1
            assert told == b""
            goes_on(server, files)
        if not dead:
            break
    assert min(stood, gave_up) > 0
