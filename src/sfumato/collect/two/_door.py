"""The door of a server: it learns the key of each device, and takes one report of each user, whoever brings it."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from datetime import datetime
from typing import TYPE_CHECKING

from sfumato.collect._checks import check_open
from sfumato.collect._keys import KEY_BYTES, ServerKey, is_strong, same, verify
from sfumato.collect.two._book import Book, Report
from sfumato.collect.two._message import decode, nonce_of
from sfumato.collect.two._signed import Operator, SealKey
from sfumato.errors import CollectionError, InputError, SfumatoError

if TYPE_CHECKING:
    import sqlite3

    from sfumato.collect.two._agreement import Agreement


class Door:
    """Whoever comes to server ``book.server`` of an agreement, before the collection is closed.

    Args:
        book: its book.
        key: its lasting secret key.

    Raises:
        InputError: the key is not that of this server.
    """

    def __init__(self, book: Book, key: ServerKey) -> None:
        self.book, self.agreement, self.me = book, book.agreement, book.server
        self.operator = Operator(key)
        check_own(self.agreement, self.me, self.operator)

    @property
    def is_aborted(self) -> bool:
        """Whether this server gave up; so it is for a copy of its book that is restored in its place."""
        with self.book.reading() as connection:
            return self.book.aborted(connection)

    def enrol(self, user: str, sign_key: bytes, code: str) -> bool:
        """Learn the public key of a user's device, and return whether it was known. ``code`` is the user's for this server.

        Raises:
            CollectionError: the code is wrong, the user is not asked, or has another key.
        """
        return _alone(self.enrol_all([(user, sign_key, code)]))

    def enrol_all(self, asking: Sequence[tuple[str, bytes, str]]) -> list[bool | SfumatoError]:
        """Do what :meth:`enrol` does for each user, key and code, one after the other, in one transaction.

        Returns:
            For each of them what :meth:`enrol` would return, or the exception that it would raise.
        """
        found: list[bool | SfumatoError] = []
        right = [self._may_enrol(*one) for one in asking]
        with self.book.writing() as connection:
            if self.book.aborted(connection):
                return [_aborted() for _ in asking]
            for (user, sign_key, _), may in zip(asking, right, strict=True):
                known = _key_of(connection, user) if may else None
                if not may:
                    found.append(
                        CollectionError(
                            "Expected the enrolment code of a user who is asked, and a strong key. Ask the operator."
                        )
                    )
                elif known not in (None, sign_key):
                    found.append(
                        CollectionError(
                            "Expected the key that this user enrolled with, got another one. Ask the operator."
                        )
                    )
                else:
                    if known is None:
                        connection.execute("INSERT INTO users VALUES (?, ?)", (user, sign_key))
                    found.append(known is not None)
        return found

    def code(self, user: str) -> str:
        """Return a user's enrolment code for this server."""
        return code_of(self.me, self.operator.key, self.agreement, user)

    def _may_enrol(self, user: str, sign_key: bytes, code: str) -> bool:
        if user not in self.book.partition.cells:
            return False
        right = same(code, self.code(user))
        return right and len(sign_key) == KEY_BYTES and is_strong(sign_key)

    def take(self, message: bytes, now: datetime | None = None) -> bool:
        """Store a report, and return whether it was stored before. It is on disk when this returns.

        What is refused changes nothing. A report is refused for ever if it is a second one of its user, or has the nonce or the
        share of another.

        Raises:
            WireError: the message is malformed, or for another server or agreement.
            CollectionError: it is refused.
        """
        return _alone(self.take_all([message], now))

    def take_all(self, messages: Sequence[bytes], now: datetime | None = None) -> list[bool | SfumatoError]:
        """Do what :meth:`take` does for each message, one after the other, in one transaction: one wait for the disk.

        Returns:
            For each message what :meth:`take` would return, or the exception that it would raise.
        """
        found: list[bool | SfumatoError | Report] = []
        with self.book.reading() as connection:
            if self.book.aborted(connection):
                return [_aborted() for _ in messages]
            secrets = self.book.secrets(connection)
            seal = None if secrets is None else SealKey(secrets.seal)
            for message in messages:
                try:
                    found.append(self._read_report(connection, seal, message))
                except (InputError, CollectionError) as error:
                    found.append(error)
        if any(isinstance(one, Report) for one in found):
            with self.book.writing() as connection:
                return [self._stored(connection, one, now) if isinstance(one, Report) else one for one in found]
        return [one for one in found if not isinstance(one, Report)]

    def _read_report(self, connection: sqlite3.Connection, seal: SealKey | None, message: bytes) -> bool | Report:
        """Check what can be checked of a message without the lock of the book; True if it is stored already."""
        upload = decode(self.agreement, self.me, message)
        key = _key_of(connection, upload.user)
        if key is None or not verify(key, upload.signed, upload.signature):
            raise CollectionError("Expected the signature of the user's enrolled device, got another one. Enrol first.")
        if self.book.partition.cells.get(upload.user) != upload.cell:
            raise CollectionError(
                "Expected the cell of this user, got another one. Use the cells that both servers signed."
            )
        digests = [hashlib.sha256(part).digest() for part in (message, upload.sealed)]
        before = _message_of(connection, upload.user)
        if before == digests[0]:
            return True
        if seal is None:
            raise _closed() if before is None else _second()
        share = seal.shut(seal.unsealed(upload.sealed, upload.header), upload.user)
        nonce = nonce_of(self.agreement, upload.user, upload.cell, upload.salt)
        return Report(upload.user, digests[0], nonce, upload.public_share, digests[1], share)

    def _stored(self, connection: sqlite3.Connection, report: Report, now: datetime | None) -> bool | SfumatoError:
        try:
            if self.book.aborted(connection):
                raise _aborted()
            before = _message_of(connection, report.user)
            if before is not None:
                if before == report.message:
                    return True
                raise _second()
            if self.book.step(connection, "list") is not None:
                raise _closed()
            check_open(self.agreement.opens, self.agreement.closes, now)
            taken = connection.execute(
                "SELECT 1 FROM reports WHERE nonce = ? OR sealed = ?", (report.nonce, report.sealed)
            ).fetchone()
            if taken is not None:
                raise CollectionError("Expected a nonce and a share of this user's own, got those of another report.")
        except (InputError, CollectionError) as error:
            return error
        connection.execute("INSERT INTO reports VALUES (?, ?, ?, ?, ?, ?)", report)
        return False


def code_of(server: int, key: ServerKey, agreement: Agreement, user: str) -> str:
    """Return a user's enrolment code for server 0 or 1. It begins with 1 or 2, so that no device gives it to the other."""
    return f"{server + 1}-{key.code(agreement, user)}"


def signed_as(server: int, agreement: Agreement, key: ServerKey, joint: bytes, seal: bytes) -> str:
    """Return the signature of a server over an agreement, which must name its own keys; else devices would seal to others.

    Args:
        server: 0 or 1.
        agreement: what is signed.
        key: the lasting secret key of this server.
        joint: the verification key, 32 bytes.
        seal: the secret key that shares for this server are sealed to, 32 bytes.

    Raises:
        InputError: the agreement names another key for this server, or another verification key.
    """
    operator = Operator(key)
    check_own(agreement, server, operator)
    if hashlib.sha256(joint).hexdigest() != agreement.key:
        raise InputError("Expected the verification key of this agreement, got another one.")
    if len(seal) != KEY_BYTES or SealKey(seal).public.hex() != agreement.parties[server].seal:
        raise InputError(
            f"Expected the key that shares for server {server} of this agreement are sealed to, got another one."
        )
    return operator.signature(agreement.text.encode()).hex()


def check_own(agreement: Agreement, server: int, operator: Operator) -> None:
    if operator.sign_key.hex() != agreement.parties[server].sign:
        raise InputError(
            f"Expected the key of the {('first', 'second')[server]} server of this agreement, got another one. Name its own."
        )


def _alone(found: list[bool | SfumatoError]) -> bool:
    (one,) = found
    if isinstance(one, SfumatoError):
        raise one
    return one


def _aborted() -> CollectionError:
    return CollectionError("Expected a collection that goes on, got one that this server aborted. Nothing was stored.")


def _closed() -> CollectionError:
    return CollectionError("Expected an open collection, got one that is closed. Nothing was stored.")


def _second() -> CollectionError:
    return CollectionError("Expected the one report of this user, got a second one. It was not stored.")


def _message_of(connection: sqlite3.Connection, user: str) -> bytes | None:
    """Return the digest of the message that is stored of a user."""
    row = connection.execute("SELECT message FROM reports WHERE user = ?", (user,)).fetchone()
    return None if row is None else bytes(row[0])


def _key_of(connection: sqlite3.Connection, user: str) -> bytes | None:
    row = connection.execute("SELECT sign_key FROM users WHERE user = ?", (user,)).fetchone()
    return None if row is None else bytes(row[0])
