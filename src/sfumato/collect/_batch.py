r"""A batch holds the reports of many devices in one upload: an authentication code for each, and one signature of the sender.

A batch is, in this order and without anything between or after:

| bytes | what |
|---|---|
| 4 | the letters ``SFRB`` |
| 1 | the version, 1 |
| 32 | SHA-256 of the schema |
| 1 | the length L of the sender's user id |
| L | the sender's user id, UTF-8 |
| ... | for each report the length of its message (4 bytes, big-endian), the message, and its code (32 bytes) |
| 64 | the sender's signature over all that precedes |

The codes say who reported, the signature says who sent. Any enrolled device may send.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from sfumato.collect._keys import MAC_BYTES, SIGNATURE_BYTES
from sfumato.collect._wire import WireError, check_user, most_bytes

if TYPE_CHECKING:
    from sfumato.collect._keys import DeviceKeys
    from sfumato.collect._schema import Schema

MAGIC, VERSION = b"SFRB", 1
MOST_BYTES, MOST_REPORTS = 1 << 23, 2_000
_HEAD = len(MAGIC) + 1 + 32


class LongBatchError(WireError):
    """A batch holds more reports than a server takes."""


@dataclass(frozen=True)
class Batch:
    """A batch as it was sent: ``reports`` are messages with their codes. Codes, signature and messages are not checked yet."""

    sender: str
    reports: tuple[tuple[bytes, bytes], ...]
    signed: bytes
    signature: bytes


def most_reports(schema: Schema) -> int:
    """Return how many reports fit into a batch that a server takes: at most 2,000, and 8 MiB."""
    around = _HEAD + 1 + 64 + SIGNATURE_BYTES
    return max(1, min(MOST_REPORTS, (MOST_BYTES - around) // (4 + most_bytes(schema) + MAC_BYTES)))


def encode_batch(schema: Schema, sender: str, keys: DeviceKeys, reports: Iterable[tuple[bytes, bytes]]) -> bytes:
    identity = check_user(sender).encode()
    framed = b"".join(len(message).to_bytes(4, "big") + message + code for message, code in reports)
    if not framed:
        raise WireError("Expected a batch of 1 report or more, got none.")
    batch = b"".join((MAGIC, bytes([VERSION]), schema.digest, bytes([len(identity)]), identity, framed))
    return batch + keys.sign_batch(batch)


def decode_batch(schema: Schema, data: bytes) -> Batch:
    """Read a batch, whose form must be exact. Messages, codes and signature are left to the caller to check."""
    if data[:4] != MAGIC or len(data) < _HEAD + 1:
        raise WireError("Expected a batch that begins with SFRB, got other bytes.")
    if data[4] != VERSION:
        raise WireError(f"Expected a batch of version {VERSION}, got version {data[4]}. Update the client.")
    if data[5:_HEAD] != schema.digest:
        raise WireError(f"Expected a batch for schema {schema.sha256[:16]}..., got one for another.")
    signed, place = data[:-SIGNATURE_BYTES], _HEAD + 1 + data[_HEAD]
    try:
        sender = check_user(data[_HEAD + 1 : place].decode())
    except UnicodeDecodeError as error:
        raise WireError("Expected the user id of the sender in UTF-8, got other bytes.") from error
    reports: list[tuple[bytes, bytes]] = []
    while place < len(signed):
        if len(reports) == MOST_REPORTS:
            raise LongBatchError(f"Expected at most {MOST_REPORTS} reports in a batch, got more. Send fewer.")
        start = place + 4
        end = start + int.from_bytes(signed[place:start], "big")
        place = end + MAC_BYTES
        reports.append((signed[start:end], signed[end:place]))
    if place != len(signed) or not reports:
        raise WireError("Expected a batch of 1 whole report or more and a signature, got one that ends elsewhere.")
    return Batch(sender, tuple(reports), signed, data[-SIGNATURE_BYTES:])
