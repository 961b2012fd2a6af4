"""What a device sends to a server: who it is and where it belongs, in the open and authenticated, and the share, sealed.

| bytes | what |
|---|---|
| 4 | the letters ``SFRS`` |
| 1 | the version, 1 |
| 1 | the number of the server, 0 or 1 |
| 32 | SHA-256 of the agreement |
| 1 | the length L of the user id |
| L | the user id, UTF-8 |
| 4 | the cell, big-endian |
| 16 | salt |
| 64 | the public share of Prio3 |
| ... | the input share, sealed to the server with all that precedes as its header |
| 64 | the signature of the device over all that precedes |

The nonce of Prio3 is a hash of agreement, user, cell and salt, so shares of one user are worth nothing in another's name.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import TYPE_CHECKING

from sfumato.collect._keys import SIGNATURE_BYTES
from sfumato.collect._wire import WireError, check_user
from sfumato.collect.two._signed import SEALED_MORE, seal
from sfumato.shares._prio3 import NONCE_SIZE

if TYPE_CHECKING:
    from sfumato.collect.two._agreement import Agreement

MAGIC, VERSION = b"SFRS", 1
SALT = 16
_HEAD = 4 + 1 + 1 + 32


@dataclass(frozen=True)
class Upload:
    """A message that was taken apart: ``signed`` is all but the signature, ``header`` all but the sealed share."""

    user: str
    cell: int
    salt: bytes
    public_share: bytes
    header: bytes
    sealed: bytes
    signed: bytes
    signature: bytes


def nonce_of(agreement: Agreement, user: str, cell: int, salt: bytes) -> bytes:
    """Return the nonce of a report, 16 bytes."""
    text = b"sfumato nonce 1\0" + agreement.digest + cell.to_bytes(4, "big") + salt + user.encode()
    return hashlib.sha256(text).digest()[:NONCE_SIZE]


def encode(
    agreement: Agreement, server: int, user: str, cell: int, salt: bytes, public_share: bytes, input_share: bytes
) -> bytes:
    """Return what the device signs and sends to this server."""
    identity = check_user(user).encode()
    place = cell.to_bytes(4, "big") + salt
    header = (
        MAGIC + bytes([VERSION, server]) + agreement.digest + bytes([len(identity)]) + identity + place + public_share
    )
    return header + seal(input_share, header, bytes.fromhex(agreement.parties[server].seal))


def decode(agreement: Agreement, server: int, message: bytes) -> Upload:
    """Take a message for this server apart.

    Raises:
        WireError: it is none, or for another server or agreement.
    """
    if message[:_HEAD] != MAGIC + bytes([VERSION, server]) + agreement.digest or len(message) <= _HEAD:
        raise WireError("Expected a report of version 1 for this agreement and this server, got other bytes.")
    end = _HEAD + 1 + message[_HEAD]
    stop = end + 4 + SALT + agreement.prio.public_share_size
    whole = _size(agreement, server, message[_HEAD])
    if len(message) != whole:
        raise WireError(f"Expected a report of {whole} bytes, got {len(message)}.")
    try:
        user = check_user(message[_HEAD + 1 : end].decode())
    except UnicodeDecodeError as error:
        raise WireError("Expected the user id in UTF-8, got other bytes.") from error
    return Upload(
        user,
        int.from_bytes(message[end : end + 4], "big"),
        message[end + 4 : end + 4 + SALT],
        message[end + 4 + SALT : stop],
        message[:stop],
        message[stop:-SIGNATURE_BYTES],
        message[:-SIGNATURE_BYTES],
        message[-SIGNATURE_BYTES:],
    )


def split_messages(agreement: Agreement, server: int, body: bytes) -> list[bytes]:
    """Take one or more messages apart that stand one after the other, by the length that each states of its user id.

    Raises:
        WireError: the last one is cut off, or there is none.
    """
    found: list[bytes] = []
    start = 0
    while start < len(body) or not found:
        if len(body) <= start + _HEAD:
            raise WireError("Expected one or more reports, got a part of one. Send the same bytes again.")
        stop = start + _size(agreement, server, body[start + _HEAD])
        if stop > len(body):
            raise WireError(
                "Expected whole reports, got one that is cut off or made longer. Send the same bytes again."
            )
        found.append(body[start:stop])
        start = stop
    return found


def _size(agreement: Agreement, server: int, id_length: int) -> int:
    prio = agreement.prio
    place = _HEAD + 1 + id_length + 4 + SALT
    return place + prio.public_share_size + prio.input_share_size(server) + SEALED_MORE + SIGNATURE_BYTES
