"""What two servers and all devices agree on before the first report: question, epsilon, keys and cells, signed by both."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sfumato._validate import check_int, check_real
from sfumato.collect._checks import check_keys, check_text, moment
from sfumato.collect._statement import meaning, rounded
from sfumato.collect._wire import check_user
from sfumato.collect.two._signed import can_seal, strong_key
from sfumato.errors import SchemaError
from sfumato.record.ledger import canonical_json
from sfumato.shares._prio3 import Prio3Histogram
from sfumato.shares._proof import shortest_chunk

FORMAT = 1
SERVERS = (0, 1)
MOST_CELLS, _DIGITS = 1 << 24, 8
_SHOWN = 12  # classes that a statement names
MOST_USERS = (1 << 31) - 1
LEAST_EPSILON = 1e-3
"""With less a count of honest servers could be beyond what :func:`~sfumato.collect.two._opening.join` takes for one."""


@dataclass(frozen=True)
class Party:
    """A server's public keys, 64 hexadecimal digits each.

    ``seal`` is X25519: shares are sealed to it; a server draws it for one agreement, and erases its secret at the opening.
    ``sign`` is Ed25519: it checks what the server signs, and lasts.
    """

    seal: str
    sign: str


@dataclass(frozen=True)
class Agreement:
    r"""The public contract of a collection with two servers. Two agreements are the same if their ``sha256`` is.

    **Formal guarantee.** One class of a user, replaced by another: :math:`\epsilon` = ``epsilon`` and delta 0 toward whoever
    reads what both open, and toward either server with its whole state and any users, as long as the other is honest (decision
    note 0048).

    Args:
        collection: a name, of up to 64 letters, digits, ".", "_" and "-".
        purpose: what the answers are for.
        opens: when reports are taken from, such as "2026-12-01T00:00:00Z".
        closes: when the last one is taken.
        classes: the names of the classes, two or more.
        epsilon: what the report costs its user, from 0.001 to 100.
        parties: the keys of both servers, each under which its owner alone signs, and reads what is sealed.
        partition: SHA-256 of the cells (:attr:`Partition.sha256`).
        key: SHA-256 of the verification key (:func:`~sfumato.collect.two._signed.joint_key`), which is fixed before any report:
            privacy needs that no server chooses it after it knows nonces.
        least: how many accepted reports a cell needs to be opened, 1 or more. Epsilon does not depend on it: who reported is no
            secret, and one server can make up all reports of a cell but one.

    Raises:
        SchemaError: a value is missing, malformed or out of range, or both servers have one key.
    """

    collection: str
    purpose: str
    opens: str
    closes: str
    classes: tuple[str, ...]
    epsilon: float
    parties: tuple[Party, Party]
    partition: str
    key: str
    least: int = 1

    def __post_init__(self) -> None:
        check_text("collection", self.collection, most=64, name=True)
        check_text("purpose", self.purpose, most=1000)
        if moment("closes", self.closes) <= moment("opens", self.opens):
            raise SchemaError(f"Expected closes to be after opens = {self.opens}, got {self.closes}.")
        check_real(low=LEAST_EPSILON, high=100, epsilon=self.epsilon)
        check_int(low=1, high=MOST_USERS, least=self.least)
        for name in self.classes:
            check_text("a class", name, most=100)
        if not 2 <= len(self.classes) <= 1 << 10 or len(set(self.classes)) < len(self.classes):
            raise SchemaError("Expected 2 to 1,024 classes with different names.")
        for text in (self.partition, self.key, *(key for party in self.parties for key in (party.seal, party.sign))):
            if not isinstance(text, str) or len(text) != 64 or set(text) - set("0123456789abcdef"):
                raise SchemaError("Expected keys and SHA-256 values as 64 hexadecimal digits in small letters.")
        first, second = self.parties
        if first.seal == second.seal or first.sign == second.sign:
            raise SchemaError("Expected two servers with keys of their own, got one key for both. Ask two operators.")
        if not all(strong_key(bytes.fromhex(one.sign)) and can_seal(bytes.fromhex(one.seal)) for one in self.parties):
            raise SchemaError(
                "Expected keys under which their owners alone sign and read what is sealed, got a weak one."
            )

    @cached_property
    def text(self) -> str:
        """The canonical JSON, which both servers sign."""
        return canonical_json({"format": FORMAT, **asdict(self)})

    @cached_property
    def digest(self) -> bytes:
        """The SHA-256 of the text."""
        return hashlib.sha256(self.text.encode()).digest()

    @property
    def sha256(self) -> str:
        """The name of the agreement, in hexadecimal digits."""
        return self.digest.hex()

    @property
    def delta(self) -> float:
        """Nothing is added to the failure probability of a device."""
        return 0.0

    @cached_property
    def prio(self) -> Prio3Histogram:
        """Shares and proofs of this agreement alone: its name is their context."""
        length = len(self.classes)
        return Prio3Histogram(length, shortest_chunk(length), b"sfumato two servers 1\0" + self.digest)

    def statement(self) -> str:
        """Return the budget statement that users are shown, in plain words."""
        shown = ", ".join(self.classes[:_SHOWN])
        more = f", and {len(self.classes) - _SHOWN} more" * (len(self.classes) > _SHOWN)
        least = f" A group with fewer than {self.least:,} reports is not counted." * (self.least > 1)
        return "\n".join(
            (
                f"Collection: {self.collection}. Purpose: {self.purpose}",
                f"Open from {self.opens} to {self.closes}.",
                f"You are asked for one of {len(self.classes)} classes: {shown}{more}.",
                "Your device splits your answer into two parts, one for each of two servers. Neither part alone says anything of "
                "your answer. The servers count groups of users, and each adds random noise of its own to every count before "
                f"anybody sees it.{least}",
                f"This report costs you epsilon {rounded(self.epsilon)} in total, once, also if the collection is aborted. That "
                "holds against everybody who reads the counts, and against either server as long as the other is honest. If "
                "both servers work together they can read your answer.",
                meaning(self.epsilon, 0.0, links=False),
                "Both servers know that you were asked, and whether you answered. Answers to other collections add to this.",
                f"The SHA-256 of this agreement is {self.sha256}.",
            )
        )

    @classmethod
    def from_json(cls, text: str) -> Agreement:
        """Read what :attr:`text` holds, in its canonical form.

        Raises:
            SchemaError: it is something else.
        """
        try:
            values = json.loads(text)
            known = list(cls.__dataclass_fields__)
            check_keys("an agreement", values, ["format", *known], [])
            parties = tuple(Party(**party) for party in values["parties"])
            found = cls(
                **{name: values[name] for name in known} | {"classes": tuple(values["classes"]), "parties": parties}
            )
            same = values["format"] == FORMAT and found.text == text
        except SchemaError:
            raise
        except (ValueError, TypeError, AttributeError, RecursionError) as error:
            raise SchemaError("Expected the agreement of two servers, got something else. Ask for it again.") from error
        if not same:
            raise SchemaError("Expected an agreement in canonical form. Ask for it again.")
        return found


@dataclass(frozen=True)
class Partition:
    """Who is asked, and in which cell: a public fact, fixed before the first report. A user is in one cell.

    Args:
        cells: the cell of every user by its id: 0, 1, and so on, none of them empty.

    Raises:
        SchemaError: an id or a cell is none.
    """

    cells: Mapping[str, int]

    def __post_init__(self) -> None:
        for user in self.cells:
            check_user(user)
        numbers = set(self.cells.values())
        if not numbers or numbers != set(range(len(numbers))) or len(numbers) > MOST_CELLS:
            raise SchemaError("Expected cells with the numbers 0, 1, and so on, each with a user.")

    @classmethod
    def of_rows(cls, rows: Sequence[tuple[str, int]]) -> Partition:
        """Build it from users and their cells; a user in two of them is refused, as its values would be counted twice.

        Raises:
            SchemaError: a user stands there twice, or an id or a cell is none.
        """
        cells = dict(rows)
        if len(cells) < len(rows):
            raise SchemaError(
                "Expected every user in one cell, got one that stands there twice: its class would be opened twice. Remove one."
            )
        return cls(cells)

    @cached_property
    def text(self) -> str:
        """A line for each user, ascending: the cell, a space, the id."""
        return "".join(f"{self.cells[user]} {user}\n" for user in sorted(self.cells))

    @cached_property
    def sha256(self) -> str:
        """The name of these cells, in hexadecimal digits."""
        return hashlib.sha256(self.text.encode()).hexdigest()

    @cached_property
    def num_cells(self) -> int:
        """How many cells there are."""
        return 1 + max(self.cells.values())

    @classmethod
    def from_text(cls, text: str) -> Partition:
        """Read what :attr:`text` holds.

        Raises:
            SchemaError: it is something else.
        """
        lines = [line.partition(" ") for line in text.splitlines()]
        if not all(cell.isdecimal() and cell.isascii() and len(cell) <= _DIGITS for cell, _, _ in lines):
            raise SchemaError("Expected a cell, a space and a user id in each line.")
        found = cls.of_rows([(user, int(cell)) for cell, _, user in lines])
        if found.text != text:
            raise SchemaError("Expected users in ascending order, a line each.")
        return found

    def rows(self, users: Sequence[str]) -> NDArray[np.int64]:
        """Return the cells of these users, -1 for those who were not asked, shape [n]."""
        return np.array([self.cells.get(user, -1) for user in users], np.int64)


def context(agreement: Agreement) -> dict[str, Any]:
    """Return what a certificate says of an agreement."""
    return {
        "collection": agreement.collection,
        "agreement": agreement.sha256,
        "partition": agreement.partition,
        "epsilon": agreement.epsilon,
        "servers": [asdict(party) for party in agreement.parties],
    }
