"""`kill -9` of either server before and after every statement of every step: no second noise, and no report is lost.

Whatever a step does to its book is a statement of SQLite, so a process that dies before or after each of them dies at every
moment that the disk can tell apart. It is forked, so hundreds of deaths take seconds.
"""

import os
import random
import signal
import sqlite3
import time
from functools import partial

import numpy as np
import pytest
from test_two import LABELS, fixed_words, joined
from two_made import JOINT, SEALS, Pair

from sfumato.collect.two._server import Server
from sfumato.noise.coins import SecretWords

STEPS = ("list", "proofs", "accepted", "opening")
CALLS = {"list": "close"}


class Dying(sqlite3.Connection):
    """It kills its process before or after a statement. PRAGMAs are not counted: they write nothing."""

    left, after = 0, False

    def execute(self, statement, *values):
        counted = not statement.startswith("PRAGMA")
        if counted and not Dying.left and not Dying.after:
            os.kill(os.getpid(), signal.SIGKILL)
        found = super().execute(statement, *values)
        if counted and not Dying.left:
            os.kill(os.getpid(), signal.SIGKILL)
        Dying.left -= counted
        return found


def died(work, place, after):
    """Run ``work`` in a process that dies at a statement; return what it gave before, if it came so far."""
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            sqlite3.connect = partial(sqlite3.connect, factory=Dying)
            Dying.left, Dying.after = place, after
            made = work()
            os.write(write, b"1" if isinstance(made, bool) else made)
        finally:
            os._exit(0)
    os.close(write)
    parts = []
    while part := os.read(read, 1 << 16):
        parts.append(part)
    os.close(read)
    _, status = os.waitpid(child, 0)
    return b"".join(parts), os.WIFSIGNALED(status)


def kept(server, step):
    with server.book.reading() as connection:
        found = server.book.step(connection, step)
    return None if found is None else found.made


def keys_in(folder):
    """Which of the secrets of an agreement are in some file of a folder."""
    left = b"".join(path.read_bytes() for path in folder.iterdir())
    return [secret for secret in (JOINT, *(seal.secret for seal in SEALS)) if secret in left]


def no_words():
    raise AssertionError("noise was drawn a second time")


@pytest.mark.parametrize("after", [False, True])
def test_every_death_in_the_aggregation(tmp_path, after):
    """Each step is killed at its first statement, its second, and so on until it ends, on both servers."""
    pair = Pair(tmp_path)
    pair.stored(np.arange(12) % 3)
    noise, deaths, files = fixed_words(pair), 0, [b"", b""]
    for step in STEPS:
        made = []
        for server, theirs in zip(pair.servers, reversed(files), strict=True):
            given = () if step == "list" else (theirs,)
            for place in range(100):
                before = kept(server, step)
                told, dead = died(partial(getattr(server, CALLS.get(step, step)), *given), place, after)
                deaths += dead
                now = kept(server, step)
                assert before in (None, now)
                assert told in (b"", now), "what left the process is what the book holds"
                if not dead:
                    break
            else:
                raise AssertionError("the step never ended")
            again = Server(type(server.book)(server.book._path), server.operator.key, no_words)
            made.append(getattr(again, CALLS.get(step, step))(*given))
            assert made[-1] == kept(server, step)
        files = made
    opened = joined(pair, files)
    assert (opened.counts == pair.exact(LABELS) + noise).all()
    assert deaths > 20
    assert keys_in(tmp_path) == [], "a death left a key behind"


def test_every_death_while_a_report_is_taken(tmp_path):
    """A device insists until it has an answer: its report is there once."""
    pair = Pair(tmp_path, users=4)
    pair.enrol()
    noise, labels = fixed_words(pair), {user: LABELS[user] for user in pair.users}
    for number, user in enumerate(pair.users):
        for server, message in zip(pair.servers, pair.drawn(user, LABELS[user]), strict=True):
            for place in range(20):
                _, dead = died(partial(server.take, message), place, bool(number % 2))
                if not dead:
                    break
            assert server.take(message) is True
    assert (joined(pair, pair.exchange()).counts == pair.exact(labels) + noise).all()


def killed_at_random(folder, seed, kills):
    """Both servers are killed in the middle of aggregations of fresh collections, at moments that nobody chose."""
    rng, killed = random.Random(seed), 0
    number = 0
    while killed < kills:
        number += 1
        (folder / str(number)).mkdir()
        pair = Pair(folder / str(number), users=40, size=10)
        labels = dict.fromkeys(pair.users, "blue")
        pair.stored(np.full(40, 2))
        seen, files = {}, [b"", b""]
        for step in STEPS:
            made = []
            for server, theirs in zip(pair.servers, reversed(files), strict=True):
                given = () if step == "list" else (theirs,)
                for attempt in range(4):
                    child = os.fork()
                    if child == 0:
                        try:
                            server._words = SecretWords
                            data = getattr(server, CALLS.get(step, step))(*given)
                            (folder / f"{number}-{step}-{server.me}-{attempt}").write_bytes(data)
                        finally:
                            os._exit(0)
                    time.sleep(rng.random() * 0.01 * 4**attempt)
                    os.kill(child, signal.SIGKILL)
                    _, status = os.waitpid(child, 0)
                    killed += os.WIFSIGNALED(status)
                    left = folder / f"{number}-{step}-{server.me}-{attempt}"
                    if left.exists() and left.stat().st_size:
                        seen.setdefault((step, server.me), set()).add(left.read_bytes())
                made.append(getattr(server, CALLS.get(step, step))(*given))
                assert all(made[-1].startswith(one) for one in seen.get((step, server.me), ()))
            files = made
        opened = joined(pair, files)
        assert opened.counted.tolist() == [10] * 4
        assert np.abs(opened.counts - pair.exact(labels)).max() < 100
        assert keys_in(folder / str(number)) == []
    print(
        killed, "kills in", number, "collections: each has all reports and one noise of each server, and no key is left"
    )
    return killed


@pytest.mark.soak
def test_200_kills_at_random(tmp_path):
    seed = random.randrange(2**32)
    print("seed", seed)
    assert killed_at_random(tmp_path, seed, 200) >= 200


def test_kills_at_random(tmp_path):
    assert killed_at_random(tmp_path, 3, 8) >= 8
