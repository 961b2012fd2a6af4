r"""Two operators agree before the first report by three small files, and each of them has both signatures at the end.

| file | from | what it says |
|---|---|---|
| ``offer`` | first | the question, the name of the cells, its public keys, and a commitment to its half of the verification key |
| ``answer`` | second | its public keys, and its half, sealed to the first |
| ``proof`` | first | its half, sealed to the second, and its signature of the agreement |
| ``agreement`` | second | the agreement with both signatures, which is public |

The first commits to its half before it sees the other's, and the second sends its own before it sees the first's, so neither
chooses the key. Each operator gives question and public tables itself, and signs only if both lead to the same question
and cells.

The sealing key is drawn here, for this agreement alone. With the half it waits in a file that its owner alone can read, until the
book of the server has both. That file is written once: a second version would leave the first on free blocks of the disk, where
nothing erases it.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sfumato._files import erase_file, make_folders, read_secret, whole_file
from sfumato.collect.two._agreement import Agreement, Partition, Party
from sfumato.collect.two._book import Book
from sfumato.collect.two._door import signed_as
from sfumato.collect.two._files import Agreed
from sfumato.collect.two._server import Server
from sfumato.collect.two._signed import Operator, SealKey, commitment, joint_key, read_signed, seal
from sfumato.errors import DataError, SchemaError
from sfumato.record.ledger import canonical_json

if TYPE_CHECKING:
    from sfumato.collect._keys import ServerKey

WAITING, SAID, BOOK = "waiting.json", "said.json", "book.sqlite"
OFFER, ANSWER, PROOF, AGREEMENT = "offer", "answer", "proof", "agreement"
_ORDER = ((OFFER, PROOF), (ANSWER, AGREEMENT))
"""The files that each server makes."""


@dataclass(frozen=True)
class Setup:
    """The side of one operator, in a folder of its own. One process at a time works in it.

    Args:
        folder: gets the files for the other operator, and in the end the agreement and the book.
        key: the lasting key of this server.
        terms: the question, by the names of :class:`~sfumato.collect.two._agreement.Agreement`.
        partition: the cells, which this operator computed itself.
        register: the folder that remembers of which agreements this server made a book.
    """

    folder: Path
    key: ServerKey
    terms: Mapping[str, Any]
    partition: Partition
    register: Path

    def begin(self) -> Path:
        """Return the file for the other operator with which the first begins; again, the same file.

        Raises:
            DataError: the folder is that of another setup.
        """
        self.check_folder()
        if self._is_over:
            return self.folder / AGREEMENT
        state = _State.read(self.folder) or _State.new(0)
        if state.server != 0:
            raise DataError("Expected the file of the other operator, who began, got none. Give it with --theirs.")
        if state.mine:
            return self._path(state, 0)
        offered = commitment(0, bytes.fromhex(state.half))
        return self._make(state, None, {**self._common(state), "commitment": offered})

    def go_on(self, theirs: bytes) -> Path:
        """Take a file of the other operator, and return what this one has for it; again, the same file.

        The agreement comes last, and then the book is there as well.

        Raises:
            DataError: it is not the file that comes next.
            SchemaError: the other operator means another question or other cells, or does not sign what this one signs.
        """
        self.check_folder()
        if self._is_over:
            return self.folder / AGREEMENT
        state = _State.read(self.folder) or _State.new(1)
        text = theirs.decode(errors="replace")
        if text in state.theirs:
            return self._path(state, state.theirs.index(text) + (1 - state.server))
        if state.server == 1:
            return self._answer(state, text) if not state.theirs else self._agree(state, text)
        if not state.mine:
            raise DataError("Expected to begin before the other operator goes on. Give no --theirs first.")
        return self._prove(state, text) if not state.theirs else self._end(state, text)

    def _answer(self, state: _State, offer: str) -> Path:
        body = self._read(OFFER, offer)
        half = seal(bytes.fromhex(state.half), _header(offer), _hex(body, "seal"))
        return self._make(state, offer, {**self._common(state), "half": half.hex()})

    def _prove(self, state: _State, answer: str) -> Path:
        body, mine = self._read(ANSWER, answer), _said(state.mine[0])
        halves = (bytes.fromhex(state.half), self._half(state, body, state.mine[0]))
        agreement = self._agreement((mine, body), halves)
        sealed = seal(bytes.fromhex(state.half), _header(answer), _hex(body, "seal"))
        signature = self._signature(state, agreement, halves)
        return self._make(state, answer, {"half": sealed.hex(), "signature": signature})

    def _agree(self, state: _State, proof: str) -> Path:
        offer = _said(state.theirs[0])
        body = self._read(PROOF, proof, bytes.fromhex(offer["sign"]))
        halves = (self._half(state, body, state.mine[0]), bytes.fromhex(state.half))
        agreement = self._agreement((offer, _said(state.mine[0])), halves)
        signature = self._signature(state, agreement, halves)
        return self._ended(
            state, proof, Agreed(agreement, self.partition, (str(body.get("signature")), signature)), halves
        )

    def _end(self, state: _State, text: str) -> Path:
        agreed, answer = Agreed.from_json(text), _said(state.theirs[0])
        halves = (bytes.fromhex(state.half), self._half(state, answer, state.mine[0]))
        if agreed.agreement != self._agreement((_said(state.mine[0]), answer), halves):
            raise SchemaError(
                "Expected the agreement that this server signed, got another one. Ask the other operator."
            )
        return self._ended(state, text, agreed, halves)

    def _ended(self, state: _State, theirs: str, agreed: Agreed, halves: tuple[bytes, bytes]) -> Path:
        """Make the book and the public file; the secrets are in the book from then on, and nowhere else."""
        if not self._has_book:
            made = (agreed.agreement, agreed.partition, agreed.signatures, self.key, _joint(halves))
            Server.create(self.folder / BOOK, state.server, *made, bytes.fromhex(state.seal), self.register)
        with whole_file(self.folder / AGREEMENT) as file:
            file.write(agreed.text.encode())
        erase_file(self.folder / WAITING)
        (self.folder / SAID).unlink(missing_ok=True)
        return self.folder / AGREEMENT

    def check_folder(self) -> None:
        """Refuse a folder of another question, of other cells or of another key: what comes next would not be what it says.

        Raises:
            DataError: it is so.
        """
        other, signers = None, [self._operator.sign_key.hex()]
        if self._is_over:
            agreed = Agreed.from_json((self.folder / AGREEMENT).read_bytes().decode(errors="replace")).agreement
            other = self._unlike({**asdict(agreed), "classes": list(agreed.classes)}, agreed.partition)
            other, signers = other or self._missing, [party.sign for party in agreed.parties]
        elif (state := _State.read(self.folder)) is None:
            other = next((path.name for path in self.folder.glob(f"{BOOK}*")), None)
        elif state.mine:
            said = _said(state.mine[0])
            other, signers = self._unlike(said["terms"], said["cells"]), [said["sign"]]
        if other is None and self._operator.sign_key.hex() not in signers:
            other = "key"
        if other is not None:
            raise DataError(
                f"Expected {str(self.folder)!r} to be a new folder or that of this question, cells and key, got one with another "
                f"{other!r}. Give what it was begun with, or take a new folder."
            )

    @property
    def _missing(self) -> str | None:
        return None if (self.folder / BOOK).exists() else BOOK

    def _unlike(self, terms: Any, cells: Any) -> str | None:
        """Name what is not as this operator gives it."""
        found = {**terms, "cells": cells} if isinstance(terms, dict) else {}
        mine = {**self.terms, "cells": self.partition.sha256}
        return next((name for name, value in mine.items() if found.get(name) != value), None)

    @property
    def _has_book(self) -> bool:
        try:
            return bool(Book(self.folder / BOOK))
        except DataError:
            return False

    @property
    def _is_over(self) -> bool:
        return (self.folder / AGREEMENT).exists() and not (self.folder / WAITING).exists()

    @cached_property
    def _operator(self) -> Operator:
        return Operator(self.key)

    def _common(self, state: _State) -> dict[str, Any]:
        seal = SealKey(bytes.fromhex(state.seal)).public.hex()
        return {
            "terms": dict(self.terms),
            "cells": self.partition.sha256,
            "seal": seal,
            "sign": self._operator.sign_key.hex(),
        }

    def _make(self, state: _State, theirs: str | None, body: dict[str, Any]) -> Path:
        """Keep the next file of this server with what it follows from, and write it."""
        said = {
            "step": _ORDER[state.server][len(state.mine)],
            "after": "" if theirs is None else _sha256(theirs),
            **body,
        }
        given = state.theirs if theirs is None else (*state.theirs, theirs)
        state = replace(state, mine=(*state.mine, self._operator.signed(said).decode()), theirs=given)
        make_folders(self.folder)
        state.write(self.folder)
        return self._path(state, len(state.mine) - 1)

    def _path(self, state: _State, place: int) -> Path:
        """The file of this place, written again: a process may have been killed before it was there."""
        path = self.folder / _ORDER[state.server][place]
        with whole_file(path) as file:
            file.write(state.mine[place].encode())
        return path

    def _read(self, step: str, text: str, sign_key: bytes | None = None) -> dict[str, Any]:
        """Read a file of the other server, signed under its key; the first one says which key that is."""
        said = _said(text)
        if said.get("step") in [one for one in (OFFER, ANSWER, PROOF) if one != step]:
            raise DataError(
                f"Expected the file {step!r} of the other operator, got the file {said['step']!r}. Give that one with --theirs."
            )
        key = _hex(said, "sign") if sign_key is None else sign_key
        body = read_signed(text.encode(), key, {"step": step})
        if step != PROOF:
            other = self._unlike(body.get("terms"), body.get("cells"))
            if other is not None:
                raise SchemaError(
                    f"Expected both operators to ask one question about the same cells, got another {other!r}. Compare questions "
                    "and tables, and begin again in new folders."
                )
        return body

    def _agreement(self, bodies: tuple[dict[str, Any], dict[str, Any]], halves: tuple[bytes, bytes]) -> Agreement:
        joint = joint_key(halves, (str(bodies[0].get("commitment")), commitment(1, halves[1])))
        parties = tuple(Party(str(body.get("seal")), str(body.get("sign"))) for body in bodies)
        terms = {**self.terms, "classes": tuple(self.terms["classes"])}
        key = hashlib.sha256(joint).hexdigest()
        return Agreement(**terms, parties=(parties[0], parties[1]), partition=self.partition.sha256, key=key)

    def _signature(self, state: _State, agreement: Agreement, halves: tuple[bytes, bytes]) -> str:
        return signed_as(state.server, agreement, self.key, _joint(halves), bytes.fromhex(state.seal))

    def _half(self, state: _State, body: Mapping[str, Any], mine: str) -> bytes:
        return SealKey(bytes.fromhex(state.seal)).unsealed(_hex(body, "half"), _header(mine))


@dataclass(frozen=True)
class _State:
    """What one side has drawn, and which files went to and fro."""

    server: int
    seal: str
    half: str
    mine: tuple[str, ...] = ()
    theirs: tuple[str, ...] = ()

    @classmethod
    def new(cls, server: int) -> _State:
        return cls(server, SealKey.new().secret.hex(), os.urandom(32).hex())

    @classmethod
    def read(cls, folder: Path) -> _State | None:
        path = folder / WAITING
        if not path.exists():
            return None
        try:
            said = json.loads((folder / SAID).read_bytes()) if (folder / SAID).exists() else {}
            found = cls(**json.loads(read_secret(path)), **said)
            return replace(found, mine=tuple(found.mine), theirs=tuple(found.theirs))
        except (ValueError, TypeError) as error:
            raise DataError(f"Expected {path.name} to be what `collect init` left, got something else.") from error

    def write(self, folder: Path) -> None:
        """Write the secrets, unless they are there, and then what was said."""
        if not (folder / WAITING).exists():
            with whole_file(folder / WAITING, 0o600) as file:
                file.write(canonical_json({"server": self.server, "seal": self.seal, "half": self.half}).encode())
        with whole_file(folder / SAID) as file:
            file.write(canonical_json({"mine": self.mine, "theirs": self.theirs}).encode())


def _joint(halves: tuple[bytes, bytes]) -> bytes:
    """The verification key of halves that were checked against what both had committed to."""
    return joint_key(halves, (commitment(0, halves[0]), commitment(1, halves[1])))


def _said(text: str) -> dict[str, Any]:
    """What a file says, before its signature is checked, or one of this server."""
    try:
        body = json.loads(text.partition("\n")[0])
    except (ValueError, RecursionError):
        body = None
    if not isinstance(body, dict):
        raise DataError(
            "Expected a file that `collect init` wrote for the other operator, got another one. Name it with --theirs."
        )
    return body


def _hex(body: Mapping[str, Any], name: str) -> bytes:
    try:
        return bytes.fromhex(body[name])
    except (KeyError, TypeError, ValueError):
        raise DataError(
            f"Expected {name!r} as hexadecimal digits in the file of the other operator, got none."
        ) from None


def _header(text: str) -> bytes:
    """What a half is sealed with: the file that it answers."""
    return b"sfumato half of a key 1\0" + hashlib.sha256(text.encode()).digest()


def _sha256(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()
