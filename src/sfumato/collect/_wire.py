r"""The wire format: one canonical message for one report, and a decoder that accepts nothing else.

A message is, in this order and without anything between or after:

| bytes | what |
|---|---|
| 4 | the letters ``SFRP`` |
| 1 | the version, 1 |
| 32 | SHA-256 of the schema |
| 1 | the length L of the user id, 1 to 64 |
| L | the user id, UTF-8 |
| 1 | which parts follow: bit 0 features, bit 1 label, bit 2 links |
| ... | the parts in this order, each a big-endian number of :math:`\lceil b / 8 \rceil` bytes that is below :math:`2^b` |

The number of a part holds the integers of its :class:`~sfumato.randomizers._randomizer.Layout`, the first one in the highest
bits, each as its distance from the least allowed one. Features that were drawn come before the values about them: as ascending
numbers, or as one bit for each feature (the first in the highest bit) where that is shorter.

Which parts a user answers must not depend on the values: whether a user has a label at all is public. Where uploads are
anonymous, the name of a token stands in place of the user id, and all parts are there: who left one out would be one of few.
"""

from __future__ import annotations

import hashlib
import re
import unicodedata
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from sfumato.errors import InputError

if TYPE_CHECKING:
    from sfumato.collect._contract import Contract
    from sfumato.collect._schema import Schema
    from sfumato.randomizers._randomizer import Layout

MAGIC, VERSION = b"SFRP", 1
PARTS = ("features", "label", "links")
Answers = dict[str, tuple[int, ...]]
"""By the name of a part, the integers of its report: drawn features ascending, then values."""
_HEAD = len(MAGIC) + 1 + 32
_MOST_ID = 64
_TOKEN = re.compile("[0-9a-f]{64}")


class WireError(InputError):
    """A message is not the canonical form of any report for this schema."""


@dataclass(frozen=True)
class Message:
    """A decoded message: who sent it, and the answers."""

    user: str
    answers: Answers


def encode(schema: Schema, user: str, answers: Mapping[str, tuple[int, ...]]) -> bytes:
    identity = check_user(user).encode()
    given = [name for name in schema.parts if name in answers]
    if not given or len(given) < len(answers):
        raise WireError(f"Expected answers to some of {', '.join(schema.parts)}, got {', '.join(answers) or 'none'}.")
    flags = sum(1 << PARTS.index(name) for name in given)
    parts = [_pack(schema.parts[name].layouts, answers[name]) for name in given]
    return b"".join((MAGIC, bytes([VERSION]), schema.digest, bytes([len(identity)]), identity, bytes([flags]), *parts))


def decode(schema: Schema, message: bytes) -> Message:
    """Read a message, which must be canonical: ``encode`` of the result gives the same bytes."""
    user, names, start = split(schema, message)
    answers: Answers = {}
    for name in names:
        layouts = schema.parts[name].layouts
        end = start + size(layouts)
        answers[name] = _unpack(layouts, message[start:end])
        start = end
    return Message(user, answers)


def split(schema: Schema, message: bytes) -> tuple[str, list[str], int]:
    """Check the head and the length of a message; return the user id, the names of the parts and where these start."""
    if message[:4] != MAGIC or len(message) < _HEAD + 1:
        raise WireError("Expected a report that begins with SFRP, got other bytes. Send what the client stored.")
    if message[4] != VERSION:
        raise WireError(f"Expected a report of version {VERSION}, got version {message[4]}. Update the client.")
    if message[5:_HEAD] != schema.digest:
        raise WireError(
            f"Expected a report for schema {schema.sha256[:16]}..., got one for {message[5:_HEAD].hex()[:16]}..."
        )
    end = _HEAD + 1 + message[_HEAD]
    if len(message) < end + 1:
        raise WireError(f"Expected a report of at least {end + 1} bytes, got {len(message)}.")
    try:
        user = check_user(message[_HEAD + 1 : end].decode())
    except UnicodeDecodeError as error:
        raise WireError("Expected the user id in UTF-8, got other bytes.") from error
    flags = message[end]
    names = [name for bit, name in enumerate(PARTS) if flags >> bit & 1]
    if not flags or flags >> len(PARTS) or any(name not in schema.parts for name in names):
        raise WireError(f"Expected answers to some of {', '.join(schema.parts)}, got flags {flags}.")
    if schema.anonymous and (len(names) < len(schema.parts) or not is_token_name(user)):
        raise WireError(
            "Expected the name of a token, and answers to all questions, of which one alone would stand out."
        )
    expected = end + 1 + sum(size(schema.parts[name].layouts) for name in names)
    if len(message) != expected:
        raise WireError(f"Expected a report of {expected} bytes, got {len(message)}.")
    return user, names, end + 1


def is_token_name(user: str) -> bool:
    """Tell whether this is the form of the name of a token, which stands in place of a user id in an anonymous report."""
    return _TOKEN.fullmatch(user) is not None


def size(layouts: tuple[Layout, ...]) -> int:
    return -(-sum(layout.bits for layout in layouts) // 8)


def most_bytes(schema: Schema) -> int:
    return len(MAGIC) + 1 + 32 + 1 + 64 + 1 + sum(size(part.layouts) for part in schema.parts.values())


def check_user(user: str) -> str:
    """Return a user id if it has a single form: printable, normalized (NFC), no space at its ends, 1 to 64 bytes in UTF-8."""
    if (
        not isinstance(user, str)
        or not user.isprintable()
        or user != user.strip()
        or not unicodedata.is_normalized("NFC", user)
        or not 1 <= len(user.encode()) <= _MOST_ID
    ):
        raise WireError(f"Expected a user id of 1 to {_MOST_ID} bytes, printable, in NFC, without spaces at its ends.")
    return user


def public_id(schema: Contract, user: str) -> int:
    """Return the number below 2^63 by which public hashes and directions of this collection name a user.

    A new schema gives new numbers, so the hashes of one collection say nothing about those of another.
    """
    return int.from_bytes(hashlib.sha256(schema.digest + user.encode()).digest()[:8], "big") >> 1


def _pack(layouts: tuple[Layout, ...], integers: tuple[int, ...]) -> bytes:
    if len(integers) != (length := sum(map(_length, layouts))) or not all(isinstance(one, int) for one in integers):
        raise WireError(f"Expected {length} integers in an answer, got something else.")
    bits, place = "", 0
    for layout in layouts:
        bits += _written(layout, integers[place : place + _length(layout)])
        place += _length(layout)
    return int(bits, 2).to_bytes(size(layouts), "big")


def _written(layout: Layout, integers: tuple[int, ...]) -> str:
    drawn, values = integers[: -layout.count], integers[-layout.count :]
    _check(layout, drawn, values)
    if layout.as_bitmap:
        members = set(drawn)
        first = "".join("1" if place in members else "0" for place in range(layout.of))
    else:
        first = _digits(drawn, layout.index_width)
    return first + _digits([value - layout.low for value in values], layout.width)


def _unpack(layouts: tuple[Layout, ...], part: bytes) -> tuple[int, ...]:
    left = sum(layout.bits for layout in layouts)
    bits = format(int.from_bytes(part, "big"), f"0{left}b")
    if len(bits) > left:
        raise WireError("Expected zeros in front of an answer, got padding that is set.")
    integers: list[int] = []
    for layout in layouts:
        own, bits = bits[: layout.bits], bits[layout.bits :]
        rest = layout.count * layout.width
        first, last = own[: layout.bits - rest], own[layout.bits - rest :]
        if layout.as_bitmap:
            drawn = [place for place, bit in enumerate(first) if bit == "1"]
        else:
            drawn = _fields(first, layout.index_width)
        values = [layout.low + one for one in _fields(last, layout.width)]
        _check(layout, drawn, values)
        integers += [*drawn, *values]
    return tuple(integers)


def _digits(numbers: Sequence[int], width: int) -> str:
    form = f"0{width}b"
    return "".join([format(number, form) for number in numbers])


def _fields(bits: str, width: int) -> list[int]:
    if width == 1:
        return [digit - ord("0") for digit in bits.encode()]
    return [int(bits[start : start + width], 2) for start in range(0, len(bits), width)]


def _check(layout: Layout, drawn: Sequence[int], values: Sequence[int]) -> None:
    if min(values) < layout.low or max(values) > layout.high:
        raise WireError(f"Expected values from {layout.low} to {layout.high} in an answer, got another one.")
    if not layout.of:
        return
    if len(drawn) != layout.count or [*drawn] != sorted(set(drawn)) or drawn[0] < 0 or drawn[-1] >= layout.of:
        raise WireError(
            f"Expected {layout.count} different features below {layout.of} in ascending order in an answer."
        )


def _length(layout: Layout) -> int:
    return layout.count * (2 if layout.of else 1)
