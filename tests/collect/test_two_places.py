"""Honest mistakes with files and processes: no report is lost, nothing is opened twice, and the error says what to do."""

import os
import sqlite3
from contextlib import suppress
from functools import partial

import numpy as np
import pytest
from test_two import LABELS, expected, fixed_words, joined
from test_two_kills import died, no_words
from two_made import JOINT, KEYS, SEALS, Pair, agreed

from sfumato.collect.two._book import Book
from sfumato.collect.two._server import Server
from sfumato.errors import DataError


@pytest.fixture
def pair(tmp_path):
    made = Pair(tmp_path)
    made.stored(np.arange(12) % 3)
    return made


def shares(server):
    with server.book.reading() as connection:
        return [one.share for one in server.book.reports(connection)], server.book.secrets(connection)


@pytest.mark.parametrize("step", ["opening", "abort"])
def test_no_book_is_made_where_another_one_ended(tmp_path, pair, step):
    """Its opening or abort would stand for the new one: shares would be erased for an opening of others."""
    path = pair.servers[0].book._path
    files = pair.exchange("accepted")
    pair.servers[0].opening(files[1]) if step == "opening" else pair.servers[0].abort()
    path.rename(tmp_path / "kept")
    other, signatures = agreed(pair.partition, name="again")
    made = (path, 0, other, pair.partition, signatures, KEYS[0], JOINT, SEALS[0].secret)
    with pytest.raises(DataError, match="new folder"):
        Server.create(*made)
    (tmp_path / f"{path.name}.{step}").rename(tmp_path / f"kept.{step}")
    assert Server.create(*made).agreement == other


@pytest.mark.parametrize(
    "spoil", [lambda file: file[:-9], lambda file: b"", lambda file: file.replace(b'"a', b'"b', 1)]
)
def test_an_opening_that_is_none_of_this_book_erases_nothing(tmp_path, pair, spoil):
    files, server = pair.exchange("accepted"), pair.servers[0]
    (tmp_path / "other").mkdir()
    other = Pair(tmp_path / "other", name="again")
    other.stored(np.arange(12) % 3)
    beside, before = server.book.beside("opening"), shares(server)
    for content in (other.exchange()[0], spoil(other.exchange()[0])):
        beside.write_bytes(content)
        with pytest.raises(DataError, match="Nothing was erased"):
            server.opening(files[1])
        assert shares(server) == before
    beside.unlink()
    noise = fixed_words(pair)
    opened = joined(pair, [one.opening(theirs) for one, theirs in zip(pair.servers, reversed(files), strict=True)])
    assert (opened.counts == expected(pair, opened, LABELS, noise)).all()


def test_an_abort_of_another_agreement_erases_nothing(tmp_path, pair):
    (tmp_path / "other").mkdir()
    said = Pair(tmp_path / "other", name="again").servers[0].abort()
    server, before = pair.servers[0], shares(pair.servers[0])
    server.book.beside("abort").write_bytes(said)
    for call in (server.abort, lambda: Server(Book(server.book._path), KEYS[0])):
        with pytest.raises(DataError, match="Nothing was erased"):
            call()
    assert shares(server) == before
    server.book.beside("abort").unlink()
    pair.exchange()


@pytest.mark.parametrize("after", [False, True])
def test_an_abort_that_was_killed_is_ended_by_whatever_comes_next(tmp_path, pair, after):
    """Nobody may notice that it was killed, since every command says that the collection was aborted."""
    ended = 0
    for place in range(20):
        (tmp_path / str(place)).mkdir()
        made = Pair(tmp_path / str(place), users=4)
        made.stored(np.arange(4) % 3)
        _, dead = died(made.servers[0].abort, place, after)
        begun = made.servers[0].is_aborted
        again = Server(Book(made.servers[0].book._path), KEYS[0], no_words)
        kept, secrets = shares(again)
        assert (secrets is None, set(kept) == {None}) == (begun, begun)
        ended += begun
        if not dead:
            break
    assert ended >= 2


def test_a_draw_of_noise_that_a_killed_process_left_is_erased(tmp_path, pair):
    """Two draws of one server around one sum would cost two epsilon: whoever finds the first has both."""
    files, server = pair.exchange("accepted"), pair.servers[0]
    left = (
        tmp_path / f"{server.book._path.name}.opening.{os.getppid()}.partial"
    )  # its number is that of a living process now
    left.write_bytes(b"other noise")
    kept = os.open(left, os.O_RDONLY)
    server.opening(files[1])
    assert not left.exists()
    assert os.read(kept, 100) == bytes(11)
    os.close(kept)


@pytest.mark.parametrize("after", [False, True])
def test_every_death_while_a_book_is_made(tmp_path, pair, after):
    """The next attempt makes it, in the place of what the first one left; a whole one is never replaced."""
    made = (pair.agreement, pair.partition, pair.signatures, KEYS[0], JOINT, SEALS[0].secret)
    (tmp_path / "new").mkdir()
    for place in range(20):
        path = tmp_path / "new" / f"{place}.sqlite"
        _, dead = died(lambda path=path: bool(Server.create(path, 0, *made)), place, after)
        with suppress(FileExistsError):
            Server.create(path, 0, *made)
        assert shares(Server(Book(path), KEYS[0], no_words))[1] == (SEALS[0].secret, JOINT)
        assert path.stat().st_mode & 0o777 == 0o600
        if not dead:
            break
    assert place >= 3
    (tmp_path / "text").write_text("Something else.")
    with pytest.raises(FileExistsError):
        Server.create(tmp_path / "text", 0, *made)


def test_a_book_that_cannot_be_used_says_why(tmp_path, pair, monkeypatch):
    """Another process works in it for long, or the disk damaged it: an error, and a device is told to come again."""
    monkeypatch.setattr(sqlite3, "connect", partial(_soon, sqlite3.connect))
    server, path = pair.servers[0], pair.servers[0].book._path
    other = sqlite3.connect(path, isolation_level=None)
    other.execute("BEGIN EXCLUSIVE")
    for call in (server.close, server.abort, partial(Book, path), partial(server.made, "list")):
        with pytest.raises(DataError, match="is locked"):
            call()
    other.execute("ROLLBACK")
    other.close()
    files = pair.exchange("accepted")
    path.write_bytes(path.read_bytes()[:4096] + b"x" * 20_000)
    with pytest.raises(DataError, match="check path and disk"):
        server.opening(files[1])
    for content in (b"", b"Something else." * 99):
        path.write_bytes(content)
        with pytest.raises(DataError):
            Book(path)


def _soon(connect, *path, **options):
    return connect(*path, **{**options, "timeout": 0.05})
