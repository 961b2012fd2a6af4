"""A closed collection as one file: the schema, then every report once, by user id. Its SHA-256 is its name in certificates.

The file is the letters ``SFRC``, the version 1, the number of reports as four bytes, then the canonical JSON of the schema, then
each message of :mod:`~sfumato.collect.wire`, ascending by the bytes of the user id. Before the schema and before each message
stands its length as four bytes. All numbers are big-endian. So the same reports give the same file, whichever store held them.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from pathlib import Path

from sfumato._files import whole_file
from sfumato.collect.schema import Schema
from sfumato.collect.wire import Message, decode
from sfumato.errors import DataError, InputError, SchemaError

MAGIC, VERSION = b"SFRC", 1
_HEAD = len(MAGIC) + 1 + 4


@dataclass(frozen=True)
class Closed:
    """A closed collection: nothing is added to it or taken from it any more.

    Args:
        schema: what every user was asked.
        messages: the canonical messages, ascending by the bytes of the user id, one a user.
    """

    schema: Schema
    messages: tuple[bytes, ...]

    @cached_property
    def reports(self) -> tuple[Message, ...]:
        """The decoded messages, in their order.

        Raises:
            DataError: a message is not canonical, or users are not in ascending order.
        """
        found = []
        for message in self.messages:
            try:
                found.append(decode(self.schema, message))
            except InputError as error:
                raise DataError(f"Expected canonical reports in the collection, got another one. {error}") from error
        ids = [report.user.encode() for report in found]
        if any(one >= other for one, other in pairwise(ids)):
            raise DataError(
                "Expected one report a user, by ascending id, got another order. Export the collection again."
            )
        return tuple(found)

    @cached_property
    def sha256(self) -> str:
        """The name of the collection, in hexadecimal digits."""
        digest = hashlib.sha256()
        for piece in self.pieces():
            digest.update(piece)
        return digest.hexdigest()

    def write(self, path: Path) -> str:
        """Write the file, whole or not at all, and return its SHA-256.

        Raises:
            OSError: folder or disk refuses it.
        """
        with whole_file(path) as file:
            file.writelines(self.pieces())
        return self.sha256

    @classmethod
    def read(cls, path: Path) -> Closed:
        """Read a file that :meth:`write` wrote, and check every message.

        Raises:
            DataError: the file is damaged, or no collection.
            OSError: the file cannot be read.
        """
        data = path.read_bytes()
        if data[:5] != MAGIC + bytes([VERSION]):
            raise DataError(f"Expected {path.name} to be an exported collection, got another file. Export it again.")
        schema, *messages = _split(data, path.name)
        if len(messages) != (count := int.from_bytes(data[5:_HEAD], "big")):
            raise DataError(f"Expected {path.name} to hold {count} reports, got {len(messages)}. Export it again.")
        try:
            closed = cls(Schema.from_json(schema), tuple(messages))
        except SchemaError as error:
            raise DataError(f"Expected {path.name} to begin with a schema, got another one. {error}") from error
        if closed.schema.text.encode() != schema:
            raise DataError(f"Expected {path.name} to hold its schema in canonical form. Export it again.")
        _ = closed.reports
        return closed

    def pieces(self) -> Iterator[bytes]:
        """Yield the bytes of the file, part by part."""
        yield MAGIC + bytes([VERSION]) + len(self.messages).to_bytes(4, "big")
        yield from _framed((self.schema.text.encode(), *self.messages))


def _framed(pieces: Iterable[bytes]) -> Iterator[bytes]:
    for piece in pieces:
        yield len(piece).to_bytes(4, "big") + piece


def _split(data: bytes, name: str) -> list[bytes]:
    pieces, place = [], _HEAD
    while place < len(data):
        start = place + 4
        place = start + int.from_bytes(data[place:start], "big")
        if start > len(data) or place > len(data):
            raise DataError(f"Expected {name} to be whole, got a file that ends early. Export it again.")
        pieces.append(data[start:place])
    if not pieces:
        raise DataError(f"Expected {name} to hold a schema, got nothing. Export it again.")
    return pieces
