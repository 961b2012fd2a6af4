r"""One of two servers: it takes each user's share once, and aggregates with the other by an exchange of four signed files.

| step | what the file says | what it fixes |
|---|---|---|
| ``list`` | user, nonce and hash of the public share of each report | the collection is closed; with both lists, the reports |
| ``proofs`` | the verifier shares | each report is checked once, under the one key of the agreement |
| ``accepted`` | for each cell the hash of users and nonces that both accept | if they differ, neither opens |
| ``opening`` | for each cell the sum of its shares, with this server's noise | what is opened, once |

Each is made from the other server's file of the step before, and is kept in the book before anybody sees it: the same call gives
the same bytes after a crash, and another file of the other server is refused. Before its opening a server can ``abort``.

All that this server tells depends on honest users' classes through the proofs, which tell nothing, and through one noisy sum a
cell.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from sfumato._files import erase_behind, whole_file
from sfumato.collect.two._book import ABORT, STEPS, Book, Report, Secrets, Step
from sfumato.collect.two._device import check_signed
from sfumato.collect.two._door import Door, signed_as
from sfumato.collect.two._register import one_book
from sfumato.collect.two._signed import SealKey, read_signed
from sfumato.errors import DataError
from sfumato.noise._geometric import replaced_scale, zero_sum_laplace
from sfumato.noise.coins import SecretWords
from sfumato.record.ledger import canonical_json

if TYPE_CHECKING:
    import sqlite3

    from sfumato.collect._keys import ServerKey
    from sfumato.collect.two._agreement import Agreement, Partition
    from sfumato.shares._prio3 import Prio3Histogram, State

Bytes = NDArray[np.uint8]


class Checked(NamedTuple):
    """What this server computes of the fixed set of reports: its state, its verifier shares and the public shares."""

    state: State
    shares: Bytes
    public: Bytes


class Server(Door):
    """Server ``book.server`` of an agreement, with its lasting key. Calls may come from any process, one after the other.

    Args:
        book: its book, made by :meth:`create`.
        key: its lasting secret key, which signs and gives enrolment codes.
        words: the secret coins of its noise. Give another source in a test alone: whoever knows them knows the noise.

    Raises:
        InputError: the key is not that of this server.
    """

    def __init__(self, book: Book, key: ServerKey, words: Callable[[], SecretWords] = SecretWords) -> None:
        super().__init__(book, key)
        self._words = words
        if self.made(ABORT) is None and book.beside(ABORT).exists():
            self.abort()  # a process died while it aborted, or a copy was restored: what it holds is erased at last

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
        seal: bytes,
        register: Path | None = None,
    ) -> Server:
        """Make the book of a server, in a new file, once both signed the agreement.

        The book holds ``joint`` and ``seal`` until the opening, and erases them in its transaction. From then on the lasting key,
        the book and all that was ever sent open no report, unless the caller kept a copy of ``seal``: keep none.

        Args:
            path: the new file.
            server: 0 or 1.
            agreement: what both signed.
            partition: its cells.
            signatures: of both servers.
            key: the lasting secret key of this server.
            joint: the verification key, 32 bytes.
            seal: the secret key whose public key the agreement names for this server, 32 bytes, drawn for this agreement alone
                (:class:`~sfumato.collect.two._signed.SealKey`).
            register: a folder beside the lasting key, which remembers of which agreements this server made a book. Give it: a
                second book, with a copy of ``seal``, would open every report again, at a second epsilon.

        Raises:
            SchemaError: not both signed it, or the cells are others.
            InputError: a key is not that of this server or agreement, or the register knows a book of it.
            FileExistsError: the file is there.
        """
        check_signed(agreement, partition, signatures)
        signed_as(server, agreement, key, joint, seal)
        with nullcontext() if register is None else one_book(register, agreement, path):
            return cls(Book.create(path, server, agreement, partition, signatures, Secrets(seal, joint)), key)

    def made(self, step: str) -> bytes | None:
        """Return the file of a step, or None before it was taken."""
        with self.book.reading() as connection:
            found = self.book.step(connection, step)
        return None if found is None else found.made

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
            shares = self._checked(connection, fixed).shares.tobytes().hex()
            return self._file("proofs", lists=self._both(own, theirs), reports=len(fixed), shares=shares)

        return self.book.once("proofs", theirs, make)

    def accepted(self, theirs: bytes) -> bytes:
        """Find the reports that both accept, by the other server's verifier shares; return the file with a hash for each cell."""

        def make(connection: sqlite3.Connection) -> bytes:
            own = self._taken(connection, "proofs").made
            fixed, _, accepted = self._decided(connection, theirs)
            files = self._both(own, theirs)
            named = _named(fixed, accepted, self.book.partition)
            return self._file("accepted", proofs=files, accepted=named, count=int(accepted.sum()))

        return self.book.once("accepted", theirs, make)

    def opening(self, theirs: bytes) -> bytes:
        """Add the shares of what both servers accept, draw this server's noise, and return the file with their sums.

        A cell with fewer than ``agreement.least`` accepted reports stays shut: its sums are zeros, and it counts none.

        The noise is kept nowhere. The shares of single reports, the key that they were sealed to and the verification key are
        erased in the same transaction: nobody needs them again, and no key that this server has left opens a report.

        If the file of an opening lies beside the book, a copy of the book was restored or the process died: that file stands.
        """

        def make(connection: sqlite3.Connection) -> bytes:
            path = self.book.beside("opening")
            erase_behind(path)  # other noise of a process that died: this one has the lock of the book
            if not path.exists():
                made = self._opened(connection, theirs)
                with whole_file(path) as file:
                    file.write(made)
            found = path.read_bytes()
            self._check_mine("opening", path.name, found)
            self.book.erase(connection)
            return found

        return self.book.once("opening", theirs, make)

    def abort(self) -> bytes:
        """Give up before the opening, and return the file that says so; again, the same file.

        Shares, the key that they were sealed to and the verification key are erased as in an opening. From then on no step, no
        report and no enrolment goes on, also in a copy of the book in this place. What users spent stays spent: their devices
        keep the charge, since the other server may have the lists, and a report is never drawn again.

        Raises:
            DataError: this server opened.
        """

        def make(connection: sqlite3.Connection) -> bytes:
            if self.book.step(connection, STEPS[-1]) is not None or self.book.beside(STEPS[-1]).exists():
                raise DataError("Expected a collection that this server did not open, got one that it did. It stands.")
            made, path = self._file(ABORT), self.book.beside(ABORT)
            if path.exists():
                self._check_mine(ABORT, path.name, path.read_bytes())
            with whole_file(path) as file:
                file.write(made)
            self.book.erase(connection)
            return made

        return self.book.once(ABORT, b"", make)

    def _opened(self, connection: sqlite3.Connection, theirs: bytes) -> bytes:
        mine = self._taken(connection, "accepted")
        said = read_signed(mine.made, self.operator.sign_key, {})
        other = self._read("accepted", theirs, proofs=said["proofs"])
        if any(other.get(name) != said[name] for name in ("accepted", "count")):
            raise DataError(_unlike(said["accepted"], other.get("accepted")))
        fixed, state, accepted = self._decided(connection, mine.given)
        prio, partition = self.agreement.prio, self.book.partition
        cells = partition.rows([one.user for one in fixed])
        sums = prio.aggregate(state, accepted, cells, partition.num_cells)
        scale = replaced_scale(self.agreement.epsilon)
        noise = zero_sum_laplace(self._words(), scale, partition.num_cells, prio.length)
        counted = np.bincount(cells[accepted], minlength=partition.num_cells)
        few = counted < self.agreement.least
        made = prio.add_noise(sums, noise)
        made[few] = 0
        return self._file(
            "opening",
            proofs=said["proofs"],
            accepted=sha256(canonical_json(said["accepted"]).encode()),
            counted=np.where(few, 0, counted).tolist(),
            left_out={
                **self._alone(connection, len(fixed)),
                "failed": int((~accepted).sum()),
                "few": int(counted[few].sum()),
            },
            sums=made.tobytes().hex(),
        )

    def _alone(self, connection: sqlite3.Connection, fixed: int) -> dict[str, int]:
        """Say how many reports each server had alone, and how many both had, with other bytes."""
        theirs = _listed(self._read("list", self._taken(connection, "proofs").given).get("reports")).keys()
        own = {one.user for one in self.book.reports(connection)}
        alone = [len(own - theirs), len(theirs - own)]
        first, second = alone if self.me == 0 else alone[::-1]
        return {"first_alone": first, "second_alone": second, "unlike": len(own & theirs) - fixed}

    def _decided(self, connection: sqlite3.Connection, theirs: bytes) -> tuple[list[Report], State, NDArray[np.bool_]]:
        """The fixed set, this server's state of it, and which of it both accept by the other's file ``proofs``."""
        step = self._taken(connection, "proofs")
        fixed, size = self._fixed(connection, step.given), self.agreement.prio.verifier_share_size
        lists = read_signed(step.made, self.operator.sign_key, {})["lists"]
        data = unhex(self._read("proofs", theirs, reports=len(fixed), lists=lists).get("shares"))
        if len(data) != len(fixed) * size:
            raise DataError(f"Expected verifier shares of {len(fixed)} reports, got another number of bytes.")
        checked = self._checked(connection, fixed)
        other = np.frombuffer(data, np.uint8).reshape(len(fixed), size)
        return fixed, checked.state, accepted_by_both(self.agreement.prio, self.me, checked, other)

    def _taken(self, connection: sqlite3.Connection, name: str) -> Step:
        step = self.book.step(connection, name)
        assert step is not None, "the book takes steps in order"
        return step

    def _file(self, step: str, **body: Any) -> bytes:
        return self.operator.signed({"step": step, "agreement": self.agreement.sha256, "server": self.me, **body})

    def _check_mine(self, step: str, name: str, data: bytes) -> None:
        """Refuse a file beside the book that is of another agreement: shares would be erased for nothing."""
        try:
            head = {"step": step, "agreement": self.agreement.sha256, "server": self.me}
            read_signed(data, self.operator.sign_key, head)
        except DataError as error:
            raise DataError(
                f"Expected {name} to be of the book beside it, got a file of another agreement, or a damaged one. Nothing was "
                "erased. Move that of another agreement to its own book; restore a damaged one, and never remove it."
            ) from error

    def _read(self, step: str, data: bytes, **expected: Any) -> dict[str, Any]:
        head = {"step": step, "agreement": self.agreement.sha256, "server": 1 - self.me}
        return read_signed(data, bytes.fromhex(self.agreement.parties[1 - self.me].sign), {**head, **expected})

    def _both(self, own: bytes, theirs: bytes) -> list[str]:
        return [sha256(one) for one in ((own, theirs) if self.me == 0 else (theirs, own))]

    def _fixed(self, connection: sqlite3.Connection, theirs: bytes) -> list[Report]:
        """The reports that both servers took, alike, by the other's ``list``: ascending by user id."""
        listed = _listed(self._read("list", theirs).get("reports"))
        if not listed.keys() <= self.book.partition.cells.keys():
            raise DataError("Expected reports of users who are asked, got others: nobody could read what is opened.")
        own = self.book.reports(connection)
        return [one for one in own if listed.get(one.user) == (one.nonce.hex(), sha256(one.public))]

    def _checked(self, connection: sqlite3.Connection, fixed: list[Report]) -> Checked:
        prio, secrets = self.agreement.prio, self.book.secrets(connection)
        assert secrets is not None, "secrets are there until the last step"
        seal = SealKey(secrets.seal)

        def rows(parts: list[bytes], size: int) -> Bytes:
            return np.frombuffer(b"".join(parts), np.uint8).reshape(len(parts), size)

        public = rows([one.public for one in fixed], prio.public_share_size)
        shares = rows([seal.opened(one.share or b"", one.user) for one in fixed], prio.input_share_size(self.me))
        state, verifier = prio.verify_init(
            secrets.joint, self.me, rows([one.nonce for one in fixed], 16), public, shares
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


def _named(fixed: list[Report], accepted: NDArray[np.bool_], partition: Partition) -> list[str]:
    """For each cell the hash of users and nonces of accepted reports, in their order."""
    found = [hashlib.sha256() for _ in range(partition.num_cells)]
    for one, kept in zip(fixed, accepted, strict=True):
        if kept:
            found[partition.cells[one.user]].update(f"{one.nonce.hex()} {one.user}\n".encode())
    return [one.hexdigest() for one in found]


def _unlike(mine: list[str], theirs: Any) -> str:
    odd: Any = None
    if isinstance(theirs, list) and len(theirs) == len(mine):
        odd = next((cell for cell, (one, other) in enumerate(zip(mine, theirs, strict=True)) if one != other), None)
    where = "other numbers of them" if odd is None else f"others in cell {odd}"
    return f"Expected the reports that this server accepted, got {where}. Neither opens: abort, and ask both operators."


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
        found = bytes.fromhex(text)
        if found.hex() != text:
            raise ValueError
        return found
    except (TypeError, ValueError):
        raise DataError("Expected hexadecimal digits in the file of the other server, got something else.") from None
