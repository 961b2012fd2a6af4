"""A simulation plays many devices on one machine before two servers, for tests and demonstrations.

The state is one SQLite file: the key and both messages of each device, and whether each server has them. Messages are on disk
before they are sent, and are never drawn again, so a simulation that was stopped goes on with the same bytes. Whoever runs
this has all answers anyway, and nobody's lifetime budget is kept.
"""

from __future__ import annotations

import json
import os
import sqlite3
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from sfumato.collect._connection import JSON, Connection, RefusedError, plain
from sfumato.collect._keys import DeviceKeys
from sfumato.collect._simulate import ENROLLED_AT_ONCE, Summary, transaction, understood
from sfumato.collect.two._agreement import SERVERS
from sfumato.collect.two._device import drawn_all
from sfumato.collect.two._sending import check_codes
from sfumato.errors import CollectionError, DataError, InputError

if TYPE_CHECKING:
    from sfumato.collect.two._files import Agreed

SENT_AT_ONCE = 500
_GOOD = (200, 201)
Report = Callable[[str, int, int], None]
_TABLES = """
CREATE TABLE IF NOT EXISTS collection (agreement TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS devices (place INTEGER PRIMARY KEY, user TEXT NOT NULL UNIQUE, key BLOB NOT NULL,
    message0 BLOB NOT NULL, message1 BLOB NOT NULL, enrolled0 INTEGER NOT NULL DEFAULT 0, enrolled1 INTEGER NOT NULL DEFAULT 0,
    sent0 INTEGER NOT NULL DEFAULT 0, sent1 INTEGER NOT NULL DEFAULT 0);
"""


_AGAIN = """
UPDATE devices SET enrolled0 = 0, enrolled1 = 0, sent0 = 0, sent1 = 0
    WHERE NOT EXISTS (SELECT 1 FROM devices WHERE NOT (sent0 AND sent1))
"""
"""A run after one that ended asks both servers about every device: what is known of them may be of another time."""


class Row(NamedTuple):
    """One device before one server."""

    place: int
    user: str
    keys: DeviceKeys
    message: bytes


class Devices:
    """The devices of a simulation, in a file that only its owner can read.

    Raises:
        DataError: the file is another one, or holds devices of another agreement.
    """

    def __init__(self, path: Path, agreed: Agreed) -> None:
        path.touch(0o600)
        self._agreement, self._partition = agreed.agreement, agreed.partition
        self._file = sqlite3.connect(path, isolation_level=None)
        try:
            with transaction(self._file):
                for statement in _TABLES.split(";"):
                    self._file.execute(statement)
                self._file.execute(
                    "INSERT INTO collection SELECT ? WHERE NOT EXISTS (SELECT 1 FROM collection)",
                    (self._agreement.sha256,),
                )
                self._file.execute(_AGAIN)
            known = self._file.execute("SELECT agreement FROM collection").fetchone()
        except (sqlite3.Error, DataError) as error:
            self._file.close()
            raise DataError(
                f"Expected {path.name} to be the state of a simulation with two servers. Name another file."
            ) from error
        if known[0] != self._agreement.sha256:
            self._file.close()
            raise DataError(f"Expected {path.name} to hold devices of this agreement, got others. Name a new file.")

    def __enter__(self) -> Devices:
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()

    def draw(self, answers: Mapping[str, int], report: Report | None = None) -> None:
        """Make a device for each new user, and split its answer, the place of a class. What was split before stays.

        Raises:
            InputError: a user is not asked.
        """
        strangers = [user for user in answers if user not in self._partition.cells]
        if strangers:
            raise InputError(f"Expected users who are asked, got {strangers[0]!r}. Give the values of those alone.")
        known = {user for (user,) in self._file.execute("SELECT user FROM devices")}
        new = [user for user in answers if user not in known]
        for start in range(0, len(new), SENT_AT_ONCE):
            users = new[start : start + SENT_AT_ONCE]
            devices = [(user, self._partition.cells[user], DeviceKeys(os.urandom(32), bytes(32))) for user in users]
            made = drawn_all(self._agreement, devices, [answers[user] for user in users])
            rows = [(user, keys.signing, *both) for (user, _, keys), both in zip(devices, made, strict=True)]
            with transaction(self._file):
                self._file.executemany(
                    "INSERT OR IGNORE INTO devices (user, key, message0, message1) VALUES (?, ?, ?, ?)", rows
                )
            if report:
                report("Split answers", start + len(users), len(new))

    def enrol(
        self, servers: Sequence[Connection], codes: Sequence[Mapping[str, str]], report: Report | None = None
    ) -> None:
        """Tell both servers the keys of all devices that they do not have.

        Raises:
            InputError: a code is not for the server that would get it. Nothing was sent.
            RefusedError: a server refuses one of them.
        """
        for number, own in zip(SERVERS, codes, strict=True):
            check_codes(own.values(), [number] * len(own))
        for number in SERVERS:
            for rows in self._waiting(
                f"enrolled{number}", number, ENROLLED_AT_ONCE, f"Enrol at server {number + 1}", report
            ):
                asked = [
                    {"user": one.user, "sign_key": one.keys.sign_key.hex(), "code": codes[number].get(one.user, "")}
                    for one in rows
                ]
                answers = _answers(servers[number], "/users", json.dumps(asked).encode(), JSON, len(rows))
                self._mark(f"enrolled{number}", rows, answers)
                refused = [detail for status, detail in answers if status not in _GOOD]
                if refused:
                    raise RefusedError(f"The server refuses to enrol {len(refused):,} devices; the first: {refused[0]}")

    def send(self, servers: Sequence[Connection], report: Report | None = None) -> Summary:
        """Send both servers their messages, and count what they took."""
        stored = repeated = refused = 0
        for number in SERVERS:
            for rows in self._waiting(f"sent{number}", number, SENT_AT_ONCE, f"Send to server {number + 1}", report):
                body = b"".join(one.message for one in rows)
                answers = _answers(servers[number], "/reports", body, "application/octet-stream", len(rows))
                self._mark(f"sent{number}", rows, answers)
                stored += sum(status == 201 for status, _ in answers)
                repeated += sum(status == 200 for status, _ in answers)
                refused += sum(status not in _GOOD for status, _ in answers)
        ((users, accepted),) = self._file.execute("SELECT count(*), total(sent0 AND sent1) FROM devices")
        return Summary(users, int(accepted), stored, repeated, refused)

    def _waiting(self, column: str, number: int, count: int, step: str, report: Report | None) -> Iterator[list[Row]]:
        """Devices that have not done a step, ``count`` at a time, each once."""
        ((total, done),) = self._file.execute(f"SELECT count(*), total({column}) FROM devices")
        query = f"SELECT place, user, key, message{number} FROM devices WHERE place > ? AND NOT {column} ORDER BY place LIMIT ?"
        last = -1
        while found := self._file.execute(query, (last, count)).fetchall():
            yield [Row(place, user, DeviceKeys(key, bytes(32)), message) for place, user, key, message in found]
            last, done = found[-1][0], done + len(found)
            if report:
                report(step, int(done), total)

    def _mark(self, column: str, rows: Sequence[Row], answers: Sequence[tuple[int, str]]) -> None:
        good = [(row.place,) for row, (status, _) in zip(rows, answers, strict=True) if status in _GOOD]
        with transaction(self._file):
            self._file.executemany(f"UPDATE devices SET {column} = 1 WHERE place = ?", good)


def _answers(server: Connection, path: str, body: bytes, kind: str, count: int) -> list[tuple[int, str]]:
    """Status and detail of each of ``count`` items that were sent at once."""
    try:
        answer = server.post(path, body, kind)
    except RefusedError as error:
        if count == 1 and error.status is not None:
            return [(error.status, error.said)]
        raise
    if count == 1 and path != "/users":
        return [(answer.status_code, "")]
    with understood():
        found = [(int(one["status"]), plain(str(one["detail"]))) for one in answer.json()]
    if len(found) != count:
        raise CollectionError("The server answers about another number of devices. Is it of this version of Sfumato?")
    return found
