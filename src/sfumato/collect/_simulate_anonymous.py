"""A simulation of devices that answer an anonymous survey: each fetches its token under its name, and reports without it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from os import urandom
from typing import TYPE_CHECKING, Any

from sfumato.collect._simulate import Devices, Report, Row, Summary, transaction
from sfumato.collect._spending import anonymous_upload, asked
from sfumato.collect._tokens import Token

if TYPE_CHECKING:
    from pathlib import Path

    from sfumato.collect._connection import Connection
    from sfumato.collect._drawing import Values
    from sfumato.collect._schema import Schema

_AT_ONCE, _TOGETHER = 100, 16
_TABLE = (
    "create table if not exists tokens (place integer primary key, nonce blob not null, inverse text not null, "
    "blinded blob not null, signature blob)"
)


class AnonymousDevices(Devices):
    """The devices of such a simulation. Tokens are on disk before they are asked for, and messages before they are sent."""

    def __init__(self, path: Path, schema: Schema) -> None:
        super().__init__(path, schema)
        self._file.execute(_TABLE)

    def join(self, users: Iterable[str]) -> None:
        """Make a device for each new user, which has no report yet: its name in the report is that of its token."""
        with transaction(self._file):
            self._file.executemany(
                "insert or ignore into devices (user, keys, message) values (?, ?, x'')",
                [(user, urandom(64)) for user in users],
            )

    def fetch(self, server: Connection, report: Report | None = None) -> None:
        """Fetch the token of every device that has none."""
        assert self._schema.anonymous is not None
        public, digest = self._schema.anonymous.public, self._schema.digest
        known = {
            place: row
            for place, *row in self._file.execute("select place, nonce, inverse, blinded, signature from tokens")
        }
        for rows in self._steps("0", _AT_ONCE, "Fetch tokens", report):
            drawn = []
            for place, *_ in rows:
                if place not in known:
                    nonce = Token.draw()
                    text, inverse = nonce.blind(public, digest)
                    drawn.append((place, nonce.nonce, f"{inverse:x}", text))
                    known[place] = [nonce.nonce, f"{inverse:x}", text, None]
            with transaction(self._file):
                self._file.executemany("insert into tokens (place, nonce, inverse, blinded) values (?, ?, ?, ?)", drawn)
            with self._answered(), ThreadPoolExecutor(_TOGETHER) as pool:
                signed = list(pool.map(lambda row: self._signed(server, row, known.pop(row[0])), rows))
            with transaction(self._file):
                self._file.executemany("update tokens set signature = ? where place = ?", signed)

    def _signed(self, server: Connection, row: Row, drawn: Sequence[Any]) -> tuple[bytes, int]:
        """The signature of a token and the place of its device."""
        assert self._schema.anonymous is not None
        place, user, keys, _ = row
        nonce, inverse, text, signature = drawn
        if signature is None:
            found = asked(server, self._schema, user, keys, text)
            public, digest = self._schema.anonymous.public, self._schema.digest
            signature = Token(nonce).finished(public, digest, found, int(inverse, 16)).signature
        return signature, place

    def draw(self, blocks: Iterable[Values], codes: Mapping[str, str], report: Report | None = None) -> None:
        """Draw the report of every device that has none, under the name of its token."""
        from sfumato.collect._drawing import draw
        from sfumato.noise.coins import SecretWords

        query = (
            "select user, nonce, signature from devices join tokens using (place) "
            "where message = x'' and signature is not null"
        )
        names = {user: Token(nonce, signature).name for user, nonce, signature in self._file.execute(query)}
        done = 0
        for values in blocks:
            new = [place for place, user in enumerate(values.users) if user in names]
            if new:
                own = replace(values, users=tuple(names.get(user, user) for user in values.users))
                messages = draw(self._schema, own, SecretWords())
                with transaction(self._file):
                    self._file.executemany(
                        "update devices set message = ? where user = ?",
                        [(messages[place], values.users[place]) for place in new],
                    )
            done += len(values.users)
            if report:
                report("Draw reports", done, len(codes))

    def send(self, server: Connection, batch: int = 1, report: Report | None = None) -> Summary:
        """Send every report that is not marked as sent, each alone and in an order that says nothing, and count them."""
        query = (
            "select place, message, nonce, signature from devices join tokens using (place) "
            "where not sent and message != x'' order by random()"
        )
        stored = repeated = 0
        rows = self._file.execute(query).fetchall()
        for start in range(0, len(rows), _AT_ONCE):
            some = rows[start : start + _AT_ONCE]
            bodies = [anonymous_upload(message, Token(nonce, signature)) for _, message, nonce, signature in some]
            with self._answered(), ThreadPoolExecutor(_TOGETHER) as pool:
                again = [one.status_code == 200 for one in pool.map(partial(server.post, "/reports"), bodies)]
            stored, repeated = stored + again.count(False), repeated + again.count(True)
            self._mark("sent", [place for place, *_ in some])
            if report:
                report("Send reports", start + len(some), len(rows))
        ((users, accepted),) = self._file.execute("select count(*), total(sent) from devices")
        return Summary(users, int(accepted), stored, repeated, 0)
