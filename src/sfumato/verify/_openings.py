"""What two servers opened: agreement, cells, signatures and counts are read again here, and the released rows must be these."""

from __future__ import annotations

import hashlib
import re
import unicodedata
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ._documents import canonical, differences, form_faults, forms, hiding, loads
from ._signature import binds, signs

if TYPE_CHECKING:
    from ._rules import Certificate
    from ._tensors import Stored

USERS, COUNTS = "users", "cell-counts"
_HEAD = b"sfumato opened by two servers, version 1\n"
_SIGNED = b"sfumato two servers file 1\0"
"""What stands before everything that a server signs."""
_MODULUS = 2**128 - 28 * 2**64 + 1
"""Of the field of the shares, whose numbers have 16 bytes, little-endian."""
_SIZE, _LARGEST, _MOST_CLASSES, _MOST_ID = 16, 1 << 31, 1 << 10, 64
_SAME = ("proofs", "accepted", "counted", "left_out")
_FIELDS = {"step", "agreement", "server", "sums", *_SAME}
_HASHES: dict[str, Any] = {"type": "array", "items": {"$ref": "#/$defs/hash"}, "maxItems": 3}
_LINE = re.compile(r"(0|[1-9][0-9]*) (.+)")
UNCHECKED = (
    "that each server drew its noise, opened once and added the shares of these reports alone, and that both do not collude, is "
    "the word of the servers; that the model was learned from nothing else is the word of the author"
)


@dataclass(frozen=True)
class Opening:
    """What two servers opened, as it was read: ``cells`` by user, ``counts`` [cells, C], and what both said of their reports."""

    agreement: dict[str, Any]
    text: bytes
    cells: dict[str, int]
    counts: NDArray[np.int64]
    left_out: dict[str, int]
    digests: tuple[str, str]

    def facts(self, data: bytes) -> dict[str, Any]:
        """Return what certificates and estimates state of it; ``data`` is the whole file."""
        agreement = self.agreement
        facts: dict[str, Any] = {"name": agreement["collection"], "sha256": hashlib.sha256(data).hexdigest()}
        facts |= {"agreement": hashlib.sha256(self.text).hexdigest(), "openings": list(self.digests)}
        facts |= {"servers": agreement["parties"], "asked": len(self.cells), "reports": int(self.counts.sum())}
        return facts | {"left_out": self.left_out, "opens": agreement["opens"], "closes": agreement["closes"]}


def begins(data: bytes) -> bool:
    """Tell whether a file says that it is what two servers opened."""
    return data.startswith(_HEAD)


def is_opened(certificate: Certificate) -> bool:
    """Tell whether a run is on what two servers opened: the unit says so."""
    return bool("collection" in certificate and certificate["unit"]["name"] == "servers")


def opened_faults(
    data: bytes, certificate: Certificate, spec: dict[str, Any] | None, released: Mapping[str, Stored]
) -> Iterator[str]:
    """Yield a problem unless the released rows are those of this file, both servers signed it, and its epsilon is the claim.

    Raises:
        ValueError: it is malformed, or not all of it is signed by both.
    """
    opening = read(data)
    stated = differences(opening.facts(data), certificate["collection"], "collection")
    found = [*(f"{text} (compared with the certificate)" for text in stated)]
    found += _claim_faults(opening, certificate, spec)
    yield from found or _row_faults(opening, released)


def read(data: bytes) -> Opening:
    """Read the file; nothing but its only form is accepted, nor what one of both did not sign."""
    _need(begins(data), "it does not begin as what two servers opened")
    body = loads(data.removeprefix(_HEAD))
    _need(_HEAD + canonical(body) + b"\n" == data, "it is not canonical JSON after its first line")
    _need(set(body) == {"agreement", "cells", "signatures", "openings"}, "it holds other parts")
    for name in ("signatures", "openings"):
        _need([type(one) for one in body[name]] == [str, str], f"its {name} are not two texts")
    text = body["agreement"].encode()
    agreement = _agreement(text)
    keys = [bytes.fromhex(party["sign"]) for party in agreement["parties"]]
    for key, signature in zip(keys, body["signatures"], strict=True):
        _need(_is_signed(key, text, signature.encode()), "its agreement is not signed by both servers")
    cells = _cells(body["cells"], agreement["partition"])
    openings = [one.encode() for one in body["openings"]]
    name = hashlib.sha256(text).hexdigest()
    said = [_opening(one, keys[server], name, server) for server, one in enumerate(openings)]
    first, second = (canonical([one[part] for part in _SAME]) for one in said)  # 1 and 1.0 are two things to say
    _need(first == second, "the servers say different things")
    sizes = np.bincount(list(cells.values()))
    counted, left_out = said[0]["counted"], said[0]["left_out"]
    _need(not [*form_faults(left_out, forms()["left_out"], "")], "reports that do not count have other reasons")
    _need(all(type(one) is int for one in counted), "numbers of reports are no numbers")
    _need(len(counted) == len(sizes) and min(counted) >= 0, "numbers of reports are not those of its cells")
    _need(bool((np.array(counted) <= sizes).all()), "a cell has more reports than users")
    _need(sum(counted) + sum(left_out.values()) <= len(cells), "there are more reports than users")
    _need(not any(0 < one < agreement["least"] for one in counted), "a cell is open that should have stayed shut")
    counts = _counts([one["sums"] for one in said], counted, len(agreement["classes"]))
    _need(counts.sum(axis=1).tolist() == counted, "counts of a cell do not add up to its reports")
    digests = (hashlib.sha256(openings[0]).hexdigest(), hashlib.sha256(openings[1]).hexdigest())
    return Opening(agreement, text, cells, counts, left_out, digests)


def _need(right: bool, fault: str) -> None:
    if not right:
        raise ValueError(fault)


def _agreement(text: bytes) -> dict[str, Any]:
    found: dict[str, Any] = loads(text)
    _need(canonical(found) == text, "its agreement is not canonical JSON")
    faults = [*form_faults(found, forms()["agreement"], "agreement"), *hiding(found, "agreement")]
    _need(not faults, "".join(faults[:1]))
    classes, parties = found["classes"], found["parties"]
    _need(2 <= len(set(classes)) == len(classes) <= _MOST_CLASSES, "its classes are fewer than two, too many, or alike")
    _need(len(parties) == 2, "it has other than two servers")
    for name in ("seal", "sign"):
        _need(parties[0][name] != parties[1][name], "both servers have one key")
    _need(
        all(binds(bytes.fromhex(party["sign"])) for party in parties),
        "anybody can sign under the key of a server of it",
    )
    _need(found["opens"] < found["closes"], "it closes before it opens")
    return found


def _is_signed(key: bytes, text: bytes, digits: bytes) -> bool:
    found = re.fullmatch(rb"[0-9a-f]{128}", digits)
    return found is not None and signs(key, bytes.fromhex(digits.decode()), _SIGNED + text)


def _cells(text: str, sha256: str) -> dict[str, int]:
    """Who is in which cell: each user in one line and so in one cell, and no cell is empty."""
    _need(hashlib.sha256(text.encode()).hexdigest() == sha256, "its cells are not those of the agreement")
    _need(text.endswith("\n"), "its cells do not end with a line")
    rows = [_LINE.fullmatch(line) for line in text.removesuffix("\n").split("\n")]
    cells = {row[2]: int(row[1]) for row in rows if row is not None}
    _need(len(cells) == len(rows), "a user is in two cells, or a line is malformed")
    _need(list(cells) == sorted(cells), "its users are not in ascending order")
    _need(all(map(_is_user, cells)), "a user id is not in its only form")
    numbers = set(cells.values())
    _need(numbers == set(range(len(numbers))), "a cell has no users")
    return cells


def _is_user(user: str) -> bool:
    normal = user.isprintable() and user == user.strip() and unicodedata.is_normalized("NFC", user)
    return normal and len(user.encode()) <= _MOST_ID


def _opening(data: bytes, key: bytes, agreement: str, server: int) -> dict[str, Any]:
    text, _, rest = data.partition(b"\n")
    _need(rest[-1:] == b"\n" and _is_signed(key, text, rest[:-1]), f"server {server} did not sign what it opened")
    body: dict[str, Any] = loads(text)
    _need(canonical(body) == text, f"what server {server} opened is not canonical JSON")
    head = {"step": "opening", "agreement": agreement, "server": server}
    _need(
        canonical({name: body.get(name) for name in head}) == canonical(head),
        f"server {server} signed something else than its opening",
    )
    hashes = [*body["proofs"], body["accepted"]] if set(body) == _FIELDS else None
    _need(not [*form_faults(hashes, _HASHES, "")], f"the opening of server {server} holds other fields or words")
    return body


def _counts(sums: list[str], counted: list[int], classes: int) -> NDArray[np.int64]:
    """The sums of both servers, added in the field and read as integers of least absolute value; without reports both are 0."""
    _need(
        all(isinstance(one, str) and re.fullmatch(r"[0-9a-f]*", one) for one in sums),
        "the sums are not digits in small letters",
    )
    both, cells, width = [bytes.fromhex(one) for one in sums], len(counted), classes * _SIZE
    _need(all(len(one) == cells * width for one in both), "the sums are not those of its cells")
    shut = [one[i * width : (i + 1) * width] for one in both for i in range(cells) if not counted[i]]
    _need(not any(map(any, shut)), "a cell without reports is not zero")
    values = [[int.from_bytes(one[i : i + _SIZE], "little") for i in range(0, len(one), _SIZE)] for one in both]
    _need(all(value < _MODULUS for one in values for value in one), "a sum is no element of the field")
    added = [(first + second) % _MODULUS for first, second in zip(*values, strict=True)]
    counts = [value - _MODULUS * (2 * value > _MODULUS) for value in added]
    _need(all(abs(value) < _LARGEST for value in counts), "a count is beyond 2^31")
    return np.array(counts, np.int64).reshape(cells, classes)


def _claim_faults(opening: Opening, certificate: Certificate, spec: dict[str, Any] | None) -> Iterator[str]:
    """Yield a problem if settings, sizes, events or the claim are not those of the agreement."""
    epsilon, classes = float(opening.agreement["epsilon"]), opening.agreement["classes"]
    facts, claim, graph = certificate["public_facts"], certificate["claim"], (spec or {}).get("graph") or {}
    sizes = {"num_features": 0, "num_classes": len(classes), "num_train": len(opening.cells)}
    compared = (
        (certificate["settings"], {"epsilon_y": epsilon}, "settings"),
        ({name: facts.get(name) for name in sizes}, sizes, "public_facts"),
        (graph.get("classes"), classes, "graph.classes"),
        (
            [one["event"] for one in certificate["releases"]],
            [{"type": "pure", "epsilon": epsilon, "count": 1}],
            "events",
        ),
        ({name: claim[name] for name in ("epsilon", "delta")}, {"epsilon": epsilon, "delta": 0.0}, "claim"),
    )
    for found, expected, where in compared:
        yield from (f"{text} (compared with the agreement)" for text in differences(found, expected, where))


def _row_faults(opening: Opening, released: Mapping[str, Stored]) -> Iterator[str]:
    """Yield a problem unless each user who was asked has one row, with cell and counts, and the other rows are empty."""
    if released[USERS].dtype != "I64":
        yield f"{USERS}: has another type than I64"
        return
    users, digest = released[USERS].array(), hashlib.sha256(opening.text).digest()
    named = {
        int.from_bytes(hashlib.sha256(digest + user.encode()).digest()[:8], "big") >> 1: cell
        for user, cell in opening.cells.items()
    }
    asked = np.flatnonzero(users != -1)
    if not len(named) == len(opening.cells) == len(asked) or {*users[asked].tolist()} != named.keys():
        yield f"{USERS}: the users with a row are not those who were asked, each once"
        return
    expected = np.zeros((len(users), 1 + opening.counts.shape[1]), np.int64)
    expected[:, 0] = -1
    cells = np.array([named[number] for number in users[asked].tolist()])
    expected[asked, 0], expected[asked, 1:] = cells, opening.counts[cells]
    wrong = np.flatnonzero((released[COUNTS].array() != expected).any(axis=1))
    if len(wrong):
        yield f"{COUNTS}: row {int(wrong[0])} differs from what both servers opened of the cell of its user, or from an empty one"
