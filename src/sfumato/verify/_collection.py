"""The closed file of a collection: its bytes are read again here, and the released reports must be exactly those in it.

What two servers opened stands in its place under unit servers (``_openings.py``).
"""

from __future__ import annotations

import hashlib
import re
import unicodedata
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ._asked import PARTS, Layout, Part, parts_of, question_faults, schema_faults
from ._documents import canonical, differences, form_faults, forms, hiding, loads, plain
from ._openings import is_opened, opened_faults

if TYPE_CHECKING:
    from ._rules import Certificate
    from ._tensors import Stored

FILE = "collection.bin"
USERS, ANSWERED = "users", "answered"
COVERS = (
    "This collection: any number of runs on it cost nothing more. Other collections, and other releases about the same users, "
    "add up."
)
_NAMES = {"features": "feature-reports", "label": "label-reports"}
_DEGREES, _BITS = "degree-reports", "link-reports"
_HEAD, _MOST_ID = 37, 64
_TOKEN = re.compile("[0-9a-f]{64}")
_FACTS = ("opens", "closes")
Answers = dict[str, tuple[int, ...]]


@dataclass(frozen=True)
class Closed:
    """A closed collection as it was read: ``parts`` are computed here, ``reports`` are in the order of the file."""

    schema: dict[str, Any]
    parts: dict[str, Part]
    reports: dict[str, Answers]


def presence_faults(folder: Path, certificate: Certificate) -> Iterator[str]:
    if (folder / FILE).is_file() != ("collection" in certificate):
        there = (
            "is missing, but the certificate names it" if "collection" in certificate else "is not in the certificate"
        )
        yield f"{FILE}: {there}"


def tensors(certificate: Certificate) -> dict[str, list[int | None]]:
    """Return the released tensors, with shapes, that say whose the reports of a collection are; they are not charged."""
    if "collection" not in certificate:
        return {}
    nodes = certificate["public_facts"]["num_nodes"]
    return {USERS: [nodes]} if is_opened(certificate) else {USERS: [nodes], ANSWERED: [nodes]}


def collection_faults(
    folder: Path, certificate: Certificate, spec: dict[str, Any] | None, released: Mapping[str, Stored]
) -> Iterator[str]:
    """Yield a problem unless the released reports are those of the collection, and its epsilon is the claim."""
    if "collection" not in certificate or not (folder / FILE).is_file():
        return
    data, stated = (folder / FILE).read_bytes(), certificate["collection"]
    if hashlib.sha256(data).hexdigest() != stated["sha256"]:
        yield f"{FILE}: its SHA-256 is not collection.sha256 of certificate.json"
        return
    try:
        if is_opened(certificate):
            yield from (f"{FILE}: {text}" for text in [*opened_faults(data, certificate, spec, released)])
            return
        closed = read(data)
        if "upload" in closed.schema:
            yield f"{FILE}: is an anonymous survey, whose reports belong to no node"
            return
        found = [*_fact_faults(closed, stated), *schema_faults(closed.schema, closed.parts)]
        found += [*_claim_faults(closed, certificate, spec)]
        found = found or [*_report_faults(closed, released)]
    except (ValueError, TypeError, LookupError, AttributeError, ArithmeticError, RecursionError) as error:
        yield f"{FILE}: is malformed: {type(error).__name__}: {plain(str(error))}"
        return
    yield from (f"{FILE}: {text}" for text in found)


def read(data: bytes) -> Closed:
    """Read a closed file; nothing but its only form is accepted."""
    if data[:5] != b"SFRC\x01":
        raise ValueError("it is no closed collection of version 1")
    pieces, place = [], 9
    while place < len(data):
        start = place + 4
        place = start + int.from_bytes(data[place:start], "big")
        if place > len(data) or start > len(data):
            raise ValueError("it ends early")
        pieces.append(data[start:place])
    if len(pieces) != 1 + int.from_bytes(data[5:9], "big"):
        raise ValueError("it does not hold a schema and as many reports as it says")
    schema = loads(pieces[0])
    if canonical(schema) != pieces[0]:
        raise ValueError("its schema is not canonical JSON")
    faults = [*form_faults(schema, forms()["asked"], "schema"), *hiding(schema, "schema")]
    if faults or (faults := [*question_faults(schema)]):
        raise ValueError(faults[0])
    parts = parts_of(schema)
    reports = [_message(one, hashlib.sha256(pieces[0]).digest(), parts) for one in pieces[1:]]
    if "upload" in schema and not all(_TOKEN.fullmatch(user) and len(said) == len(parts) for user, said in reports):
        raise ValueError("an anonymous report has no name of a token, or leaves an answer out")
    if any(one.encode() >= other.encode() for (one, _), (other, _) in pairwise(reports)):
        raise ValueError("its reports are not in the order of the user ids, each once")
    return Closed(schema, parts, dict(reports))


def _message(message: bytes, digest: bytes, parts: dict[str, Part]) -> tuple[str, Answers]:
    if message[:5] != b"SFRP\x01" or message[5:_HEAD] != digest or len(message) <= _HEAD:
        raise ValueError("a report does not begin as one for this schema")
    start = _HEAD + 1 + message[_HEAD]
    user, flags = message[_HEAD + 1 : start].decode(), message[start]
    normal = user.isprintable() and user == user.strip() and unicodedata.is_normalized("NFC", user)
    if not normal or not 1 <= message[_HEAD] <= _MOST_ID:
        raise ValueError("a user id is not in its only form")
    if not flags or flags & ~sum(1 << PARTS.index(name) for name in parts):
        raise ValueError("a report answers other questions than those of the schema")
    answers, place = {}, start + 1
    for bit, name in enumerate(PARTS):
        if flags >> bit & 1:
            size = -(-sum(one.bits for one in parts[name].layouts) // 8)
            answers[name] = _integers(message[place : place + size], parts[name].layouts)
            place += size
    if place != len(message):
        raise ValueError("a report has another length than its answers")
    return user, answers


def _integers(part: bytes, layouts: tuple[Layout, ...]) -> tuple[int, ...]:
    count = sum(layout.bits for layout in layouts)
    number = int.from_bytes(part, "big")
    if len(part) != -(-count // 8) or number.bit_length() > count:
        raise ValueError("an answer is too long, too short or padded with ones")
    bits = bin(number)[2:].zfill(count) if count else ""
    found: list[int] = []
    for layout in layouts:
        own, bits = bits[: layout.bits], bits[layout.bits :]
        if layout.of:
            width = layout.of if layout.bitmap else layout.index_width * layout.count
            head, own = own[:width], own[width:]
            ones = [place for place, bit in enumerate(head) if bit == "1"]
            chosen = ones if layout.bitmap else _fields(head, layout.index_width)
            if len(chosen) != layout.count or any(a >= b for a, b in pairwise(chosen)) or chosen[-1] >= layout.of:
                raise ValueError("the features of an answer are not as many as drawn, ascending")
            found += chosen
        values = _fields(own, layout.width) if layout.width else [0] * layout.count
        if max(values) > layout.high - layout.low:
            raise ValueError("an answer is larger than allowed")
        found += [layout.low + value for value in values]
    return tuple(found)


def _fields(bits: str, width: int) -> list[int]:
    return [int(bits[start : start + width], 2) for start in range(0, len(bits), width)]


def _fact_faults(closed: Closed, stated: dict[str, Any]) -> Iterator[str]:
    schema = closed.schema
    digest = hashlib.sha256(canonical(schema)).hexdigest()
    facts = {"name": schema["collection"], "schema": digest, "reports": len(closed.reports)}
    facts |= {name: schema[name] for name in _FACTS} | {"sha256": stated["sha256"]}
    yield from (f"{text} (compared with the certificate)" for text in differences(facts, stated, "collection"))


def _claim_faults(closed: Closed, certificate: Certificate, spec: dict[str, Any] | None) -> Iterator[str]:
    """Yield a problem if settings, sizes, events or the claim are not those of the schema."""
    schema, settings, facts = closed.schema, certificate["settings"], certificate["public_facts"]
    features, label, links = (schema.get(name) for name in PARTS)
    wanted: dict[str, Any] = {}
    if links:
        wanted = {"epsilon": links["epsilon"], "degree_share": links["degree_share"]}
    else:
        wanted = {"epsilon_x": 0.0, "epsilon_y": None, "paper_rule": False, "low": 0.0, "high": 1.0}
    sizes: dict[str, Any] = {"num_nodes": links["users"]} if links else {"num_features": 0}
    if label:
        sizes["num_train"] = sum(_trains(user, certificate) for user, said in closed.reports.items() if "label" in said)
    graph: dict[str, Any] = {}
    if features:
        names = features["names"] if "names" in features else [one["name"] for one in features["columns"]]
        sizes["num_features"], graph["feature_names"] = len(names), names
        wanted |= {name: features[name] for name in ("mechanism", "per_feature", "delta")}
        wanted |= {"epsilon_x": features["epsilon"], "cap": min(features["cap"], len(names))}
    if label:
        sizes["num_classes"], graph["classes"] = len(label["classes"]), label["classes"]
        wanted |= {"epsilon_y": label["epsilon"], "label_mechanism": label["mechanism"]}
    compared = (
        ({name: settings.get(name) for name in wanted}, wanted, "settings"),
        ({name: facts.get(name) for name in sizes}, sizes, "public_facts"),
        ({name: ((spec or {}).get("graph") or {}).get(name) for name in graph}, graph, "graph"),
        ([one["event"] for one in certificate["releases"]], _events(closed), "events"),
    )
    for found, expected, where in compared:
        yield from (f"{text} (compared with the schema)" for text in differences(found, expected, where))
    total, claim = schema["totals"]["epsilon"], certificate["claim"]["epsilon"]
    gaussian = features and features["mechanism"] == "gaussian"
    if not (total <= claim <= 1.001 * total if gaussian else claim == total):
        yield f"claim.epsilon: {claim!r} is not the total of the schema, {total!r}"


def _trains(user: str, certificate: Certificate) -> bool:
    """Whether a user with a label is in training: so are two thirds, by the hash of collection and user id."""
    digest = bytes.fromhex(certificate["collection"]["sha256"])
    return 3 * int.from_bytes(hashlib.sha256(digest + user.encode()).digest()[:8], "big") < 2**65


def _events(closed: Closed) -> list[dict[str, Any]]:
    schema = closed.schema
    stated = schema["randomizers"]
    if "links" in schema:
        degree = int(closed.parts["links"].thresholds["degree_steps"]) / 2**20
        bits = float(closed.parts["links"].bits_epsilon)
        return [{"type": "pure", "epsilon": degree, "count": 1}, {"type": "pure", "epsilon": bits, "count": 1}]
    events = []
    for name in schema["randomizers"]:
        noise = stated[name]["thresholds"].get("noise_multiplier")
        pure = {"type": "pure", "epsilon": stated[name]["epsilon"], "count": 1}
        events.append(pure if noise is None else {"type": "gaussian", "noise_multiplier": noise, "count": 1})
    return events


def _report_faults(closed: Closed, released: Mapping[str, Stored]) -> Iterator[str]:
    """Yield a problem unless each report stands in one row, as it was sent, and the other rows are empty."""
    if released[USERS].dtype != "I64" or released[ANSWERED].dtype != "U8":
        yield "users, answered: have other types than I64 and U8"
        return
    users = released[USERS].array()
    digest = hashlib.sha256(canonical(closed.schema)).digest()
    named = {
        int.from_bytes(hashlib.sha256(digest + user.encode()).digest()[:8], "big") >> 1: user for user in closed.reports
    }
    rows = {int(users[row]): int(row) for row in np.flatnonzero(users != -1)}
    if not len(closed.reports) == len(named) == len(rows) == (users != -1).sum() or rows.keys() != named.keys():
        yield "users: the users with a row are not those with a report, each once"
        return
    expected = _arranged({rows[number]: closed.reports[user] for number, user in named.items()}, closed, released)
    for name, array in expected.items():
        if not np.array_equal(released[name].array(), array):
            row = int(np.flatnonzero((released[name].array() != array).reshape(len(array), -1).any(axis=1))[0])
            yield f"{name}: row {row} differs from the report of its user, or from an empty one where there is none"
    links = closed.schema.get("links")
    if links and len(rows) == len(users):
        order = sorted(named, key=lambda number: rows[number])
        if hashlib.sha256("".join(f"{named[number]}\n" for number in order).encode()).hexdigest() != links["roster"]:
            yield "users: are not in the order of the roster"


def _arranged(reports: dict[int, Answers], closed: Closed, released: Mapping[str, Stored]) -> dict[str, NDArray[Any]]:
    """The tensors that must have been released, from answers by row."""
    empty = {name: np.zeros_like(released[name].array()) for name in released}
    for row, answers in reports.items():
        empty[ANSWERED][row] = sum(1 << PARTS.index(name) for name in answers)
    if "label" in closed.parts:
        empty[_NAMES["label"]][:] = -1
    for row, answers in reports.items():
        for name in answers.keys() & _NAMES.keys():
            empty[_NAMES[name]][row] = answers[name] if name == "features" else answers[name][0]
        if "links" in answers:
            empty[_DEGREES][row], said = answers["links"][0], np.array(answers["links"][1:], np.uint8)
            empty[_BITS][row] = np.packbits(np.insert(said, row, 0), bitorder="little")
    del empty[USERS]
    return empty
