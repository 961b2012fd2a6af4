"""A closed collection as one file: the schema, then every report once, by user id. Its SHA-256 is its name in certificates.

The file is the letters ``SFRC``, the version 1, the number of reports as four bytes, then the canonical JSON of the schema, then
each message of :mod:`~sfumato.collect._wire`, ascending by the bytes of the user id. Before the schema and before each message
stands its length as four bytes. All numbers are big-endian. So the same reports give the same file, whichever store held them.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from itertools import chain
from pathlib import Path
from typing import BinaryIO

from sfumato._files import whole_file
from sfumato.collect._schema import Schema
from sfumato.collect._wire import Message, decode
from sfumato.errors import DataError, InputError, SchemaError

MAGIC, VERSION = b"SFRC", 1
_HEAD = len(MAGIC) + 1 + 4


def pieces(schema: Schema, count: int, messages: Iterable[bytes]) -> Iterator[bytes]:
    """Yield the bytes of the file, part by part; ``messages`` are canonical, ascending by the user id, one a user."""
    yield MAGIC + bytes([VERSION]) + count.to_bytes(4, "big")
    for piece in chain([schema.text.encode()], messages):
        yield len(piece).to_bytes(4, "big") + piece


@dataclass(frozen=True)
class Stream:
    """The reports of a collection one after the other, so that memory does not grow with their number. They pass once.

    ``sha256`` is the name of the closed collection, None while it is open.
    """

    schema: Schema
    messages: Iterable[bytes]
    sha256: str | None = None

    @property
    def reports(self) -> Iterator[Message]:
        for _, report in self._checked():
            yield report

    @property
    def canonical(self) -> Iterator[bytes]:
        """Yield the messages, each once it is checked."""
        for message, _ in self._checked():
            yield message

    def _checked(self) -> Iterator[tuple[bytes, Message]]:
        last = b""
        for message in self.messages:
            try:
                report = decode(self.schema, message)
            except InputError as error:
                raise DataError(f"Expected canonical reports in the collection, got another one. {error}") from error
            user = report.user.encode()
            if user <= last:
                raise DataError(
                    "Expected one report a user, by ascending id, got another order. Export the collection again."
                )
            last = user
            yield message, report

    @classmethod
    @contextmanager
    def of_file(cls, path: Path) -> Iterator[Stream]:
        """Read a closed file that :meth:`Closed.write` or a store wrote."""
        with path.open("rb") as file:
            digest = hashlib.sha256()
            while piece := file.read(1 << 16):
                digest.update(piece)
            file.seek(0)
            head = file.read(_HEAD)
            if head[:5] != MAGIC + bytes([VERSION]):
                raise DataError(
                    f"Expected {path.name} to be an exported collection, got another file. Export it again."
                )
            parts = _parts(file, path.name)
            text = next(parts, None)
            if text is None:
                raise DataError(f"Expected {path.name} to hold a schema, got nothing. Export it again.")
            try:
                schema = Schema.from_json(text)
            except SchemaError as error:
                raise DataError(f"Expected {path.name} to begin with a schema, got another one. {error}") from error
            if schema.text.encode() != text:
                raise DataError(f"Expected {path.name} to hold its schema in canonical form. Export it again.")
            yield cls(schema, _counted(parts, int.from_bytes(head[5:], "big"), path.name), digest.hexdigest())


@dataclass(frozen=True)
class Closed:
    """A closed collection in memory: nothing is added to it or taken from it any more."""

    schema: Schema
    messages: tuple[bytes, ...]

    @cached_property
    def reports(self) -> tuple[Message, ...]:
        return tuple(Stream(self.schema, self.messages).reports)

    @cached_property
    def sha256(self) -> str:
        """The name of the collection, in hexadecimal digits."""
        digest = hashlib.sha256()
        for piece in self.pieces():
            digest.update(piece)
        return digest.hexdigest()

    def write(self, path: Path) -> str:
        """Write the file, whole or not at all, and return its SHA-256."""
        with whole_file(path) as file:
            file.writelines(self.pieces())
        return self.sha256

    @classmethod
    def read(cls, path: Path) -> Closed:
        """Read a file that :meth:`write` wrote, and check every message."""
        with Stream.of_file(path) as stream:
            closed = cls(stream.schema, tuple(stream.messages))
        _ = closed.reports
        return closed

    def pieces(self) -> Iterator[bytes]:
        return pieces(self.schema, len(self.messages), self.messages)


def _parts(file: BinaryIO, name: str) -> Iterator[bytes]:
    left = os.fstat(file.fileno()).st_size - _HEAD
    while left > 0:
        size = int.from_bytes(file.read(4), "big")
        left -= 4 + size
        if left < 0:
            raise DataError(f"Expected {name} to be whole, got a file that ends early. Export it again.")
        yield file.read(size)


def _counted(messages: Iterator[bytes], count: int, name: str) -> Iterator[bytes]:
    found = 0
    for message in messages:
        found += 1
        yield message
    if found != count:
        raise DataError(f"Expected {name} to hold {count} reports, got {found}. Export it again.")
