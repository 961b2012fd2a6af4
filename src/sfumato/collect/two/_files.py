"""The two public files of a collection with two servers: what both signed before the first report, and what both opened.

Each is a line that says what it is, and a line of canonical JSON.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sfumato._files import whole_file
from sfumato.collect.two._agreement import Agreement, Partition
from sfumato.collect.two._device import check_signed
from sfumato.collect.two._opening import Opened, join
from sfumato.errors import DataError
from sfumato.record.ledger import canonical_json

AGREED, OPENED = "sfumato agreement of two servers, version 1", "sfumato opened by two servers, version 1"


@dataclass(frozen=True)
class Agreed:
    """An agreement with its cells and the signatures of both servers, which are right.

    Raises:
        SchemaError: not both servers signed this agreement about these cells.
    """

    agreement: Agreement
    partition: Partition
    signatures: tuple[str, str]

    def __post_init__(self) -> None:
        check_signed(self.agreement, self.partition, self.signatures)

    @property
    def text(self) -> str:
        """The file."""
        return _whole(AGREED, self._body())

    @classmethod
    def from_json(cls, text: str) -> Agreed:
        """Read what :attr:`text` holds.

        Raises:
            DataError: it is something else.
            SchemaError: its agreement is malformed, or not signed by both.
        """
        return cls._of(_body(text, AGREED, ()))

    def _body(self) -> dict[str, Any]:
        signatures = list(self.signatures)
        return {"agreement": self.agreement.text, "cells": self.partition.text, "signatures": signatures}

    @classmethod
    def _of(cls, body: dict[str, Any]) -> Agreed:
        first, second = _two(body["signatures"])
        return cls(Agreement.from_json(body["agreement"]), Partition.from_text(body["cells"]), (first, second))


@dataclass(frozen=True)
class OpenedFile:
    """What both servers agreed on and opened: all that anybody needs to read and to check it, and nothing secret."""

    agreed: Agreed
    openings: tuple[bytes, bytes]

    @property
    def content(self) -> bytes:
        """The file."""
        openings = [one.decode() for one in self.openings]
        return _whole(OPENED, {**self.agreed._body(), "openings": openings}).encode()

    @property
    def sha256(self) -> str:
        """The SHA-256 of the file, which names it in certificates."""
        return hashlib.sha256(self.content).hexdigest()

    def join(self) -> Opened:
        """Join both openings to counts, and check them (:func:`~sfumato.collect.two._opening.join`)."""
        return join(self.agreed.agreement, self.agreed.partition, self.agreed.signatures, self.openings)

    def write(self, path: Path) -> None:
        """Write the file, whole or not at all."""
        with whole_file(path) as file:
            file.write(self.content)

    @classmethod
    def read(cls, path: Path) -> OpenedFile:
        """Read a file that :meth:`write` wrote.

        Raises:
            DataError: it is something else.
            SchemaError: its agreement is malformed, or not signed by both.
        """
        return cls.from_bytes(path.read_bytes())

    @classmethod
    def from_bytes(cls, content: bytes) -> OpenedFile:
        """Read what :attr:`content` holds; what it raises is what :meth:`read` does."""
        try:
            text = content.decode()
        except UnicodeDecodeError:
            raise _other(OPENED) from None
        body = _body(text, OPENED, ("openings",))
        first, second = (one.encode() for one in _two(body["openings"]))
        found = cls(Agreed._of(body), (first, second))
        found.join()
        return found


def kind_of(path: Path) -> str | None:
    """Tell which of the two files this is, None for any other."""
    with path.open("rb") as file:
        line = file.readline(100).decode(errors="replace").removesuffix("\n")
    return line if line in (AGREED, OPENED) else None


def _whole(kind: str, body: dict[str, Any]) -> str:
    return f"{kind}\n{canonical_json(body)}\n"


def _body(text: str, kind: str, more: tuple[str, ...]) -> dict[str, Any]:
    try:
        body = json.loads(text.partition("\n")[2])
        right = isinstance(body, dict) and set(body) == {"agreement", "cells", "signatures", *more}
        right = right and _whole(kind, body) == text
        right = right and all(isinstance(body[name], str) for name in ("agreement", "cells"))
    except (ValueError, RecursionError):
        right = False
    if not right:
        raise _other(kind)
    return dict(body)


def _two(values: Any) -> tuple[str, str]:
    match values:
        case [str() as first, str() as second]:
            return first, second
    raise DataError("Expected one text of each server, got something else. Ask for the file again.")


def _other(kind: str) -> DataError:
    return DataError(f"Expected a file that begins with {kind!r} and is whole, got another one. Ask for it again.")
