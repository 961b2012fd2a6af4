r"""One of two servers: it takes each user's share once, and aggregates with the other by an exchange of four signed files.

| step | what the file says | what it fixes |
|---|---|---|
| ``list`` | user, nonce and hash of the public share of each report | the collection is closed; with both lists, the reports |
| ``proofs`` | the verifier shares | each report is checked once, under the one key of the agreement |
| ``accepted`` | the hash of users and nonces that both accept | if they differ, neither opens |
| ``opening`` | for each cell the sum of its shares, with this server's noise | what is opened, once |

Each is made from the other server's file of the step before, and is kept in the book before anybody sees it: the same call gives
the same bytes after a crash, and another file of the other server is refused. All that this server tells depends on honest
users' classes through the proofs, which tell nothing, and through one noisy sum a cell.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from datetime import datetime
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from sfumato._files import whole_file
from sfumato.collect._checks import check_open
from sfumato.collect._keys import KEY_BYTES, ServerKey, is_strong, same, verify
from sfumato.collect.two._book import Book, Report, Step
from sfumato.collect.two._device import check_signed
from sfumato.collect.two._message import decode, nonce_of
from sfumato.collect.two._signed import Operator, read_signed
from sfumato.errors import CollectionError, DataError, InputError
from sfumato.noise._geometric import zero_sum_laplace
from sfumato.noise.coins import SecretWords

if TYPE_CHECKING:
    import sqlite3

    from sfumato.collect.two._agreement import Agreement, Partition
    from sfumato.shares._prio3 import Prio3Histogram, State

Bytes = NDArray[np.uint8]


class Checked(NamedTuple):
    """What this server computes of the fixed set of reports: its state, its verifier shares and the public shares."""

    state: State
    shares: Bytes
    public: Bytes


class Server:
    """Server ``book.server`` of an agreement, with its secret key. Calls may come from any process, one after the other.

    Args:
        book: its book, made by :meth:`create`.
        key: its secret key.
        words: the secret coins of its noise. Give another source in a test alone: whoever knows them knows the noise.

    Raises:
        InputError: the key is not that of this server.
    """

    def __init__(self, book: Book, key: ServerKey, words: Callable[[], SecretWords] = SecretWords) -> None:
        self.book, self.agreement, self.me = book, book.agreement, book.server
        self.operator, self._words = Operator(key), words
        own = self.agreement.parties[self.me]
        if (key.public.hex(), self.operator.sign_key.hex()) != (own.seal, own.sign):
            raise InputError(f"Expected the key of server {self.me} of this agreement, got another one. Name its own.")

    @classmethod
    def create(
        cls,
        path: Path,
        server: int,
        agreement: Agreement,
        partition: Partition,
        signatures: tuple[str, str],
        key: ServerKey,
        joint: bytes,
    ) -> Server:
        """Make the book of a server, in a new file, once both signed the agreement. ``joint`` is the verification key.

        Raises:
            SchemaError: not both signed it, or the cells are others.
            InputError: the key is not that of this server.
            FileExistsError: the file is there.
        """
        check_signed(agreement, partition, signatures)
        if (key.public.hex(), Operator(key).sign_key.hex()) != (
            agreement.parties[server].seal,
            agreement.parties[server].sign,
        ):
            raise InputError(f"Expected the key of server {server} of this agreement, got another one. Name its own.")
        if sha256(joint) != agreement.key:
            raise InputError("Expected the verification key of this agreement, got another one.")
        return cls(Book.create(path, server, agreement, partition, signatures, joint), key)

    def enrol(self, user: str, sign_key: bytes, code: str) -> bool:
        """Learn the public key of a user's device, and return whether it was known. ``code`` is the user's for this server.

        Raises:
            CollectionError: the code is wrong, the user is not asked, or has another key.
        """
        asked = user in self.book.partition.cells
        right = same(code, self.operator.key.code(self.agreement, user))
        if not (asked and right and len(sign_key) == KEY_BYTES and is_strong(sign_key)):
            raise CollectionError(
                "Expected the enrolment code of a user who is asked, and a strong key. Ask the operator."
            )
        with self.book.writing() as connection:
            known = _key_of(connection, user)
            if known is None:
                connection.execute("INSERT INTO users VALUES (?, ?)", (user, sign_key))
            elif known != sign_key:
                raise CollectionError(
                    "Expected the key that this user enrolled with, got another one. Ask the operator."
                )
        return known is not None

    def take(self, message: bytes, now: datetime | None = None) -> bool:
        """Store a report, and return whether it was stored before. It is on disk when this returns.

        What is refused changes nothing. A report is refused for ever if it is a second one of its user, or has the nonce or the
        share of another.

        Raises:
            WireError: the message is malformed, or for another server or agreement.
            CollectionError: it is refused.
        """
        upload = decode(self.agreement, self.me, message)
        with self.book.reading() as connection:
            key = _key_of(connection, upload.user)
        if key is None or not verify(key, upload.signed, upload.signature):
            raise CollectionError("Expected the signature of the user's enrolled device, got another one. Enrol first.")
        if self.book.partition.cells.get(upload.user) != upload.cell:
            raise CollectionError(
                "Expected the cell of this user, got another one. Use the cells that both servers signed."
            )
        nonce = nonce_of(self.agreement, upload.user, upload.cell, upload.salt)
        share = self.operator.unsealed(upload.sealed, upload.header)
        digests = (hashlib.sha256(part).digest() for part in (message, upload.sealed))
        report = Report(upload.user, next(digests), nonce, upload.public_share, next(digests), share)
        with self.book.writing() as connection:
            before = connection.execute("SELECT message FROM reports WHERE user = ?", (report.user,)).fetchone()
            if before is not None:
                if before[0] == report.message:
                    return True
                raise CollectionError("Expected the one report of this user, got a second one. It was not stored.")
            if self.book.step(connection, "list") is not None:
                raise CollectionError("Expected an open collection, got one that is closed. Nothing was stored.")
            check_open(self.agreement.opens, self.agreement.closes, now)
            taken = connection.execute(
                "SELECT 1 FROM reports WHERE nonce = ? OR sealed = ?", (nonce, report.sealed)
            ).fetchone()
            if taken is not None:
                raise CollectionError("Expected a nonce and a share of this user's own, got those of another report.")
            connection.execute("INSERT INTO reports VALUES (?, ?, ?, ?, ?, ?)", report)
        return False

    def close(self) -> bytes:
        """Close the collection, and return the file that says whose reports this server took."""

        def make(connection: sqlite3.Connection) -> bytes:
            rows = [[one.user, one.nonce.hex(), sha256(one.public)] for one in self.book.reports(connection)]
            return self._file("list", reports=rows)

        return self.book.once("list", b"", make)

    def proofs(self, theirs: bytes) -> bytes:
        """Fix the set of reports with the other server's list, and return the file with the verifier shares."""

        def make(connection: sqlite3.Connection) -> bytes:
            own = self._taken(connection, "list").made
            fixed = self._fixed(connection, theirs)
            shares = self._checked(fixed).shares.tobytes().hex()
            return self._file("proofs", lists=self._both(own, theirs), reports=len(fixed), shares=shares)

        return self.book.once("proofs", theirs, make)

    def accepted(self, theirs: bytes) -> bytes:
        """Find the reports that both accept, by the other server's verifier shares; return the file with their hash."""

        def make(connection: sqlite3.Connection) -> bytes:
            own = self._taken(connection, "proofs").made
            fixed, _, accepted = self._decided(connection, theirs)
            files = self._both(own, theirs)
            return self._file("accepted", proofs=files, accepted=_named(fixed, accepted), count=int(accepted.sum()))

        return self.book.once("accepted", theirs, make)

    def opening(self, theirs: bytes) -> bytes:
        """Add the shares of what both servers accept, draw this server's noise, and return the file with their sums.

        The noise is kept nowhere. The shares of single reports are deleted in the same transaction: nobody needs them again. If
        the file of an opening lies beside the book, a copy of the book was restored or the process died: that file stands.
        """

        def make(connection: sqlite3.Connection) -> bytes:
            if not self.book.opening.exists():
                made = self._opened(connection, theirs)
                with whole_file(self.book.opening) as file:
                    file.write(made)
            connection.execute("UPDATE reports SET share = NULL")
            return self.book.opening.read_bytes()

        return self.book.once("opening", theirs, make)

    def _opened(self, connection: sqlite3.Connection, theirs: bytes) -> bytes:
        mine = self._taken(connection, "accepted")
        said = read_signed(mine.made, self.operator.sign_key, {})
        self._read("accepted", theirs, **{name: said[name] for name in ("proofs", "accepted", "count")})
        fixed, state, accepted = self._decided(connection, mine.given)
        prio, partition = self.agreement.prio, self.book.partition
        cells = partition.rows([one.user for one in fixed])
        sums = prio.aggregate(state, accepted, cells, partition.num_cells)
        scale = Fraction(2) / Fraction(self.agreement.epsilon)
        noise = zero_sum_laplace(self._words(), scale, partition.num_cells, prio.length)
        return self._file(
            "opening",
            proofs=said["proofs"],
            accepted=said["accepted"],
            counted=np.bincount(cells[accepted], minlength=partition.num_cells).tolist(),
            left_out=int((~accepted).sum()),
            sums=prio.add_noise(sums, noise).tobytes().hex(),
        )

    def _decided(self, connection: sqlite3.Connection, theirs: bytes) -> tuple[list[Report], State, NDArray[np.bool_]]:
        """The fixed set, this server's state of it, and which of it both accept by the other's file ``proofs``."""
        step = self._taken(connection, "proofs")
        fixed, size = self._fixed(connection, step.given), self.agreement.prio.verifier_share_size
        lists = read_signed(step.made, self.operator.sign_key, {})["lists"]
        data = unhex(self._read("proofs", theirs, reports=len(fixed), lists=lists).get("shares"))
        if len(data) != len(fixed) * size:
            raise DataError(f"Expected verifier shares of {len(fixed)} reports, got another number of bytes.")
        checked = self._checked(fixed)
        other = np.frombuffer(data, np.uint8).reshape(len(fixed), size)
        return fixed, checked.state, accepted_by_both(self.agreement.prio, self.me, checked, other)

    def _taken(self, connection: sqlite3.Connection, name: str) -> Step:
        step = self.book.step(connection, name)
        assert step is not None, "the book takes steps in order"
        return step

    def _file(self, step: str, **body: Any) -> bytes:
        return self.operator.signed({"step": step, "agreement": self.agreement.sha256, "server": self.me, **body})

    def _read(self, step: str, data: bytes, **expected: Any) -> dict[str, Any]:
        head = {"step": step, "agreement": self.agreement.sha256, "server": 1 - self.me}
        return read_signed(data, bytes.fromhex(self.agreement.parties[1 - self.me].sign), {**head, **expected})

    def _both(self, own: bytes, theirs: bytes) -> list[str]:
        return [sha256(one) for one in ((own, theirs) if self.me == 0 else (theirs, own))]

    def _fixed(self, connection: sqlite3.Connection, theirs: bytes) -> list[Report]:
        """The reports that both servers took, alike, by the other's ``list``: ascending by user id."""
        listed = _listed(self._read("list", theirs).get("reports"))
        own = self.book.reports(connection)
        return [one for one in own if listed.get(one.user) == (one.nonce.hex(), sha256(one.public))]

    def _checked(self, fixed: list[Report]) -> Checked:
        prio = self.agreement.prio

        def rows(parts: list[bytes], size: int) -> Bytes:
            return np.frombuffer(b"".join(parts), np.uint8).reshape(len(parts), size)

        public = rows([one.public for one in fixed], prio.public_share_size)
        shares = rows([one.share or b"" for one in fixed], prio.input_share_size(self.me))
        state, verifier = prio.verify_init(
            self.book.key, self.me, rows([one.nonce for one in fixed], 16), public, shares
        )
        return Checked(state, verifier, public)


def accepted_by_both(prio: Prio3Histogram, me: int, checked: Checked, other: Bytes) -> NDArray[np.bool_]:
    """Return which reports both servers accept, [n], as each of them can tell alone.

    A report is valid by the verifier shares of both, which both see. Either server accepts it if its own joint randomness is that
    of the message; this is so for both if the public share, which is the same for both, holds the parts that both computed.
    """
    both = [checked.shares, other] if me == 0 else [other, checked.shares]
    message, valid = prio.verifier_shares_to_message(both)
    parts = np.concatenate([share[:, -32:] for share in both], axis=1)
    agreed: NDArray[np.bool_] = (parts == checked.public).all(axis=1)
    return prio.verify_next(checked.state, message, valid) & agreed


def _key_of(connection: sqlite3.Connection, user: str) -> bytes | None:
    row = connection.execute("SELECT sign_key FROM users WHERE user = ?", (user,)).fetchone()
    return None if row is None else bytes(row[0])


def _named(fixed: list[Report], accepted: NDArray[np.bool_]) -> str:
    """The hash of users and nonces of accepted reports, in their order."""
    rows = [f"{one.nonce.hex()} {one.user}\n" for one, kept in zip(fixed, accepted, strict=True) if kept]
    return sha256("".join(rows).encode())


def _listed(reports: Any) -> dict[str, tuple[str, str]]:
    """Nonce and hash of the public share by user, of a list that names everyone once and every nonce once."""
    rows: list[Any] = reports if isinstance(reports, list) else [None]
    found: dict[str, tuple[str, str]] = {}
    for row in rows:
        match row:
            case [str() as user, str() as nonce, str() as public]:
                found[user] = (nonce, public)
            case _:
                raise DataError("Expected a list of user, nonce and hash, got something else. Ask for it again.")
    if [row[0] for row in rows] != sorted(found) or len({nonce for nonce, _ in found.values()}) < len(rows):
        raise DataError("Expected a list with every user once, ascending, and every nonce once, got another one.")
    return found


def sha256(data: bytes) -> str:
    """Return a SHA-256 in hexadecimal digits."""
    return hashlib.sha256(data).hexdigest()


def unhex(text: Any) -> bytes:
    """Read hexadecimal digits of the other server."""
    try:
        return bytes.fromhex(text)
    except (TypeError, ValueError):
        raise DataError("Expected hexadecimal digits in the file of the other server, got something else.") from None
