"""A simulation plays many devices on one machine, for tests and demonstrations: each has keys of its own, and reports once.

The state is one SQLite file: keys, message and progress of each device. A message is on disk before it is sent, and is never
drawn again, so a simulation that was stopped sends the same bytes when it goes on. One that ended sends all reports again, and so
learns what the server has. Whoever runs this has the values of all users anyway, and nobody's lifetime budget is kept: use
:class:`~sfumato.collect._client.Device` for people.
"""

from __future__ import annotations

import json
import os
import sqlite3
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from sfumato.collect._batch import encode_batch, most_reports
from sfumato.collect._client import enrolment
from sfumato.collect._connection import JSON, Connection, RefusedError, plain
from sfumato.collect._keys import DeviceKeys, mac
from sfumato.errors import CollectionError, DataError, InputError

if TYPE_CHECKING:
    from sfumato.collect._drawing import Values
    from sfumato.collect._schema import Schema

Row = tuple[int, str, DeviceKeys, bytes]
"""Place, user, keys and message of a device."""
Report = Callable[[str, int, int], None]
"""Told the name of a step, how many devices are done, and how many there are."""
ENROLLED_AT_ONCE = 1000
SINGLE_REPORTS_AT_ONCE = 100
"""After so many it is written down that they were sent; after a stop, as many may be sent again."""
_TABLES = """
create table if not exists collection (schema text not null);
create table if not exists devices (place integer primary key, user text not null unique, keys blob not null,
    message blob not null, enrolled integer not null default 0, sent integer not null default 0);
"""
_UNMARK = "update devices set enrolled = 0, sent = 0"


@dataclass(frozen=True)
class Summary:
    """A summary counts the devices of a simulation.

    ``accepted`` reports are with the server, as it said in this run or in the one before that was stopped. It took ``stored``
    of them in this run, and had ``repeated`` of them before.
    """

    users: int
    accepted: int
    stored: int
    repeated: int
    refused: int

    def to_dict(self) -> dict[str, int]:
        return asdict(self)


class Devices:
    """The devices of a simulation, in a file that only its owner can read."""

    def __init__(self, path: Path, schema: Schema) -> None:
        path.touch(0o600)
        self._schema = schema
        self._file = sqlite3.connect(path, isolation_level=None)
        try:
            self._file.execute("pragma synchronous = full")
            with transaction(self._file):
                for statement in _TABLES.split(";"):
                    self._file.execute(statement)
                self._file.execute(
                    "insert into collection select ? where not exists (select 1 from collection)", (schema.sha256,)
                )
                self._file.execute(f"{_UNMARK} where not exists (select 1 from devices where not sent)")
            ((found,),) = self._file.execute("select schema from collection")
        except (sqlite3.Error, DataError) as error:
            self.close()
            raise DataError(f"Expected {path.name} to be the state of a simulation. Name another file.") from error
        if found != schema.sha256:
            self.close()
            raise DataError(
                f"Expected {path.name} to hold devices of this schema, got those of another. Name a new file."
            )

    def __enter__(self) -> Devices:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self._file.close()

    def draw(self, blocks: Iterable[Values], codes: Mapping[str, str], report: Report | None = None) -> None:
        """Make a device for each new user, and draw its report. Reports that were drawn before stay as they are."""
        from sfumato.collect._drawing import draw
        from sfumato.noise.coins import SecretWords

        known, done = {user for (user,) in self._file.execute("select user from devices")}, 0
        for values in blocks:
            strangers = [user for user in values.users if user not in codes]
            if strangers:
                raise InputError(f"Expected a code for every user, got none for {strangers[0]!r}. Write codes for all.")
            if not known.issuperset(values.users):
                messages = draw(self._schema, values, SecretWords())
                rows = [(user, os.urandom(64), message) for user, message in zip(values.users, messages, strict=True)]
                with transaction(self._file):
                    self._file.executemany("insert or ignore into devices (user, keys, message) values (?, ?, ?)", rows)
            done += len(values.users)
            if report:
                report("Draw reports", done, len(codes))

    def enrol(self, server: Connection, codes: Mapping[str, str], report: Report | None = None) -> None:
        """Send the public keys of the devices that are not marked as enrolled, up to a thousand in a request."""
        for rows in self._steps("enrolled", ENROLLED_AT_ONCE, "Enrol devices", report):
            asked = [enrolment(user, keys, codes[user]) for _, user, keys, _ in rows]
            with self._answered():
                answer = server.post("/users", json.dumps(asked).encode(), JSON)
            with understood():
                found = [(int(one["status"]), plain(str(one["detail"]))) for one in answer.json()]
                enrolled = [row[0] for row, (status, _) in zip(rows, found, strict=True) if status in (200, 201)]
            self._mark("enrolled", enrolled)
            if len(enrolled) < len(rows):
                status, detail = next(one for one in found if one[0] not in (200, 201))
                count = len(rows) - len(enrolled)
                self._unmark()
                raise RefusedError(
                    f"The server refuses to enrol {count} of {_counted(len(rows), 'device')}; the first with {status}: {detail}",
                    status,
                )

    def send(self, server: Connection, batch: int = 500, report: Report | None = None) -> Summary:
        """Send every report that is not marked as sent, and count them."""
        stored = repeated = refused = 0
        together = min(batch, most_reports(self._schema))
        for rows in self._steps("sent", together if batch > 1 else SINGLE_REPORTS_AT_ONCE, "Send reports", report):
            with self._answered():
                new, old, places = self._alone(server, rows) if batch == 1 else self._together(server, rows)
            self._mark("sent", [row[0] for place, row in enumerate(rows) if place not in places])
            stored, repeated, refused = stored + new, repeated + old, refused + len(places)
        ((users, accepted),) = self._file.execute("select count(*), total(sent) from devices")
        if refused:
            self._unmark()
        return Summary(users, int(accepted), stored, repeated, refused)

    def _alone(self, server: Connection, rows: Sequence[Row]) -> tuple[int, int, set[int]]:
        """Send each report in a request of its own; return how many are new, how many are not, and which are refused."""
        signed = (message + keys.sign(message) for _, _, keys, message in rows)
        again = [server.post("/reports", one).status_code == 200 for one in signed]
        return again.count(False), again.count(True), set()

    def _together(self, server: Connection, rows: Sequence[Row]) -> tuple[int, int, set[int]]:
        """Send all reports in one request; return the same."""
        answer = server.post("/batches", self._batch(rows))
        with understood():
            said = answer.json()
            new, old, places = (
                int(said["stored"]),
                int(said["repeated"]),
                {int(one["place"]) for one in said["refused"]},
            )
            if min(new, old) < 0 or new + old + len(places) != len(rows) or places - set(range(len(rows))):
                raise ValueError
        return new, old, places

    def _batch(self, rows: Sequence[Row]) -> bytes:
        server_key = bytes.fromhex(self._schema.server_key)
        coded = ((message, mac(keys.mac_key(server_key, user), message)) for _, user, keys, message in rows)
        _, sender, keys, _ = rows[0]
        return encode_batch(self._schema, sender, keys, coded)

    def _steps(self, column: str, count: int, step: str, report: Report | None) -> Iterator[list[Row]]:
        """Devices that have not done a step, ``count`` at a time, each once."""
        ((total, done),) = self._file.execute(f"select count(*), total({column}) from devices")
        last = 0
        query = (
            f"select place, user, keys, message from devices where place > ? and not {column} order by place limit ?"
        )
        while found := self._file.execute(query, (last, count)).fetchall():
            yield [(place, user, DeviceKeys(keys[:32], keys[32:]), message) for place, user, keys, message in found]
            last, done = found[-1][0], done + len(found)
            if report:
                report(step, int(done), total)

    def _mark(self, column: str, places: list[int]) -> None:
        with transaction(self._file):
            self._file.executemany(f"update devices set {column} = 1 where place = ?", [(place,) for place in places])

    def _unmark(self) -> None:
        """The next run asks the server about every device."""
        with transaction(self._file):
            self._file.execute(_UNMARK)

    @contextmanager
    def _answered(self) -> Iterator[None]:
        """Let a refusal end the run: what it knows of the server may be of another time."""
        try:
            yield
        except RefusedError as error:
            self._unmark()
            if error.status == 403:
                error.add_note("Run the same command again: it enrols all devices again.")
            raise


@contextmanager
def transaction(file: sqlite3.Connection) -> Iterator[None]:
    """One transaction on the state of a simulation: all of it, or nothing."""
    try:
        file.execute("begin immediate")
        yield
        file.execute("commit")
    except sqlite3.Error as error:
        raise DataError(f"The state file of the simulation fails: {error}. Make room, or name another one.") from error
    finally:
        if file.in_transaction:
            file.execute("rollback")


@contextmanager
def understood() -> Iterator[None]:
    """Turn an answer of another form into an error that says so."""
    try:
        yield
    except (KeyError, TypeError, ValueError, OverflowError, RecursionError) as error:
        raise CollectionError("The server answers in an unknown form. Is it of this version of Sfumato?") from error


def _counted(number: int, what: str) -> str:
    return f"{number:,} {what}" + "s" * (number != 1)
