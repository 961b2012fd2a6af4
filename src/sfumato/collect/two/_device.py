"""A device splits its class between two servers, once; the same bytes go to each of them for ever."""

from __future__ import annotations

import os
from datetime import datetime
from typing import TYPE_CHECKING

import numpy as np

from sfumato._validate import fail
from sfumato.collect._checks import check_open
from sfumato.collect._client import Device
from sfumato.collect._journal import append_entry, charge_line, check_budget, found_entry, locked, synced_entries
from sfumato.collect._ticks import Ticks
from sfumato.collect.two._agreement import SERVERS, Agreement, Partition
from sfumato.collect.two._message import SALT, encode, nonce_of
from sfumato.collect.two._signed import is_signed
from sfumato.errors import InputError, SchemaError
from sfumato.shares._prio3 import NONCE_SIZE

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from sfumato.collect._keys import DeviceKeys


def check_signed(agreement: Agreement, partition: Partition, signatures: tuple[str, str]) -> None:
    """Refuse an agreement that not both servers signed, or that is about other cells.

    Raises:
        SchemaError: it is so.
    """
    text = agreement.text.encode()
    for party, signature in zip(agreement.parties, signatures, strict=True):
        if not is_signed(text, signature.encode(), bytes.fromhex(party.sign)):
            raise SchemaError("Expected an agreement that both servers signed, got one without a right signature.")
    if partition.sha256 != agreement.partition:
        raise SchemaError("Expected the cells that both servers signed, got others. Ask for them again.")


def split(
    folder: Path,
    agreement: Agreement,
    partition: Partition,
    signatures: tuple[str, str],
    trusted: Sequence[str],
    label: str,
    now: datetime | None = None,
) -> tuple[bytes, bytes]:
    """Split the user's class once, and return what each server gets; later calls return the same bytes, whatever the label.

    Each message is sealed to its server, so a server can do nothing with the other's. Only what is public is refused, before the
    charge. A label that the agreement does not name counts as the first class.

    Args:
        folder: that of a :class:`~sfumato.collect._client.Device`.
        agreement: what is asked.
        partition: the cells.
        signatures: of both servers over the text of the agreement, 128 hexadecimal digits each.
        trusted: the keys that both servers sign with (:attr:`Party.sign`), which the device has from each server under its own
            name, or built in; never from the agreement, which anybody who holds two keys can sign. The keys that shares are
            sealed to are new in every agreement, and stand under the signature of their server.
        label: the name of the user's class.
        now: the time, with a time zone; None asks the clock.

    Raises:
        InputError: the user is not asked, or the collection is not open.
        SchemaError: not both servers signed this, or the device knows other keys of them.
        BudgetExceededError: it would cost more than is left. Nothing was drawn.
        LedgerError: the ledger of the device is damaged.
    """
    with locked(folder):
        device = Device.open(folder)
        entries = synced_entries(folder)
        found = found_entry(entries, "report", agreement)
        if found is None:
            ticks = Ticks()
            check_open(agreement.opens, agreement.closes, now)
            check_signed(agreement, partition, signatures)
            if tuple(trusted) != tuple(party.sign for party in agreement.parties):
                raise SchemaError(
                    "Expected the two servers whose keys this device knows, got others. Do not answer it."
                )
            cell = partition.cells.get(device.user)
            if cell is None:
                raise fail("user", device.user, "to be among those who are asked", "Nothing was drawn or sent.")
            if not found_entry(entries, "charge", agreement):
                check_budget(agreement, entries, epsilon=device.epsilon_cap, delta=device.delta_cap)
            ticks.wait()
            if not found_entry(entries, "charge", agreement):
                append_entry(folder, entries, charge_line(agreement))
            both = b"".join(drawn(agreement, device.user, cell, device.keys, label))
            ticks.wait()
            append_entry(folder, entries, {"kind": "report", "schema": agreement.sha256, "message": both.hex()})
        else:
            both = bytes.fromhex(found["message"])
    return _apart(agreement, both)


def drawn(agreement: Agreement, user: str, cell: int, keys: DeviceKeys, label: str) -> tuple[bytes, bytes]:
    """Draw the messages to both servers with coins of the operating system."""
    place = agreement.classes.index(label) if label in agreement.classes else 0
    return drawn_all(agreement, [(user, cell, keys)], [place])[0]


def drawn_all(
    agreement: Agreement, devices: Sequence[tuple[str, int, DeviceKeys]], answers: Sequence[int]
) -> list[tuple[bytes, bytes]]:
    """Draw the messages of many devices (user, cell, keys), whose ``answers`` are places of classes."""
    salts = [os.urandom(SALT) for _ in devices]
    nonces = [nonce_of(agreement, user, cell, salt) for (user, cell, _), salt in zip(devices, salts, strict=True)]
    made = agreement.prio.shard(answers, np.frombuffer(b"".join(nonces), np.uint8).reshape(-1, NONCE_SIZE))
    found = []
    for place, ((user, cell, keys), salt) in enumerate(zip(devices, salts, strict=True)):
        public, parts = made.public_share[place].tobytes(), [one[place].tobytes() for one in made.input_shares]
        first, second = (encode(agreement, s, user, cell, salt, public, parts[s]) for s in SERVERS)
        found.append((first + keys.sign(first), second + keys.sign(second)))
    return found


def _apart(agreement: Agreement, both: bytes) -> tuple[bytes, bytes]:
    prio = agreement.prio
    more = prio.input_share_size(0) - prio.input_share_size(1)
    cut = (len(both) + more) // 2
    if cut <= 0 or cut >= len(both):
        raise InputError("Expected the ledger of this device to hold two messages, got something else. Restore it.")
    return both[:cut], both[cut:]
