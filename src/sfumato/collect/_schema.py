r"""The public schema of a collection says what every device is asked, how it randomizes, and what this costs its user.

An operator writes the questions as TOML, such as

    collection = "reading-2026"
    purpose = "Learn which kinds of books readers like, to recommend some."
    opens = 2026-12-01T00:00:00Z
    closes = 2027-01-01T00:00:00Z

    [features]
    epsilon = 1.0
    mechanism = "multi-bit"
    columns = [{ name = "books a year", min = 0, max = 100 }, { name = "age", min = 0, max = 120 }]

    [label]
    name = "genre"
    classes = ["crime", "poetry", "science"]
    epsilon = 1.0

``sfumato collect init`` adds the server's key and everything that follows from the questions: for each randomizer its
thresholds and its exact epsilon, and the totals. The result is JSON, and the SHA-256 of its canonical form is the name under
which devices, server and verifier know it. Whoever reads a schema computes what follows again and refuses another result.
"""

from __future__ import annotations

import hashlib
import json
import tomllib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from fractions import Fraction
from functools import cached_property
from pathlib import Path
from typing import Any

from sfumato._encoding import decoded
from sfumato.collect._anonymous import FIELDS, KEY, UPLOAD, Anonymous
from sfumato.collect._checks import check_keys, check_text, moment, roster_sha256, utc
from sfumato.collect._questions import Features, Label, Links, derived, part
from sfumato.collect._statement import meaning, rounded
from sfumato.errors import SchemaError

FORMAT = 1
_OPTIONAL = {"features": Features, "label": Label, "links": Links}
_REQUIRED = ("collection", "purpose", "opens", "closes")
_DERIVED = ("randomizers", "totals")
_MOST_BYTES = 1 << 24
_DEEPEST = 4
_SHORT = 60


@dataclass(frozen=True)
class Schema:
    r"""A schema is the public agreement of one collection. Two schemas are the same if their ``sha256`` is.

    **Formal guarantee.** A user's whole report is :math:`(\epsilon, \delta)`-locally private with ``epsilon`` and ``delta`` of
    this schema: features and label are randomized independently, so their costs add up. For links the unit is one bit of one
    neighbor list (:class:`~sfumato.randomizers._links.NeighborLists`). A report for another schema is another charge.

    Args:
        collection: a name of the collection, of up to 64 letters, digits, ".", "_" and "-".
        purpose: what the answers are for; devices show it to their users.
        opens: when reports are taken from, in UTC, such as "2026-12-01T00:00:00Z".
        closes: when the last report is taken, in the same form.
        server_key: the X25519 public key of the server, 64 hexadecimal digits.
        features: what is asked about features; None asks for none.
        label: what is asked about the label; None asks for none.
        links: what is asked about the neighbor list; None asks for none. It is asked alone.
        anonymous: how reports go without a name; None where each is signed by the device of its user.

    Raises:
        SchemaError: a value is missing, malformed or out of range, or nothing is asked.

    >>> schema = Schema.from_dict({"collection": "c", "purpose": "A test.", "opens": "2026-12-01T00:00:00Z",
    ...     "closes": "2027-01-01T00:00:00Z", "server_key": "00" * 32, "label": {"classes": ["a", "b"], "epsilon": 1.0}})
    >>> schema.epsilon, schema.bits
    (1.0, 1)
    """

    collection: str
    purpose: str
    opens: str
    closes: str
    server_key: str
    features: Features | None = None
    label: Label | None = None
    links: Links | None = None
    anonymous: Anonymous | None = None

    def __post_init__(self) -> None:
        check_text("collection", self.collection, most=64, name=True)
        check_text("purpose", self.purpose, most=1000)
        if moment("closes", self.closes) <= moment("opens", self.opens):
            raise SchemaError(
                f"Expected closes to be after opens = {self.opens}, got {self.closes}. Choose a later time."
            )
        key = self.server_key
        if not isinstance(key, str) or len(key) != 64 or set(key) - set("0123456789abcdef"):
            raise SchemaError(
                "Expected server_key to be 64 hexadecimal digits in small letters. Use `sfumato collect init`."
            )
        if self.links is not None and (self.features is not None or self.label is not None):
            raise SchemaError(
                "Expected links to be asked alone, got other questions beside them. Make two collections."
            )
        if self.links is not None and self.anonymous is not None:
            raise SchemaError(
                "Expected anonymous uploads without links, which name the users at both ends. Remove one of both."
            )
        if not self.parts:
            raise SchemaError("Expected a table [features], [label] or [links], got none. Ask for something.")

    @cached_property
    def parts(self) -> dict[str, Features | Label | Links]:
        """What is asked, by name, in the order of a report."""
        asked = {"features": self.features, "label": self.label, "links": self.links}
        return {name: question for name, question in asked.items() if question is not None}

    @cached_property
    def epsilon(self) -> float:
        """What a report costs its user in total, rounded upward."""
        from sfumato.noise.exact import round_up

        return round_up(sum((Fraction(question.cost) for question in self.parts.values()), Fraction(0)))

    @property
    def delta(self) -> float:
        """The failure probability of a report: 0, unless its features have Gaussian noise."""
        return 0.0 if self.features is None else self.features.randomizer.delta

    @property
    def bits(self) -> int:
        """The size of a user's answers in bits."""
        return sum(layout.bits for question in self.parts.values() for layout in question.layouts)

    @cached_property
    def text(self) -> str:
        """The canonical JSON: keys sorted, no spaces, numbers as Python prints them."""
        return json.dumps(self.to_dict(), sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)

    @cached_property
    def digest(self) -> bytes:
        """SHA-256 of :attr:`text`, 32 bytes."""
        return hashlib.sha256(self.text.encode()).digest()

    @property
    def sha256(self) -> str:
        """The name of the schema: :attr:`digest` in hexadecimal digits."""
        return self.digest.hex()

    def to_dict(self) -> dict[str, Any]:
        """Return the questions and everything that follows from them."""
        asked = {name: question.to_dict() for name, question in self.parts.items()}
        facts = {name: getattr(self, name) for name in (*_REQUIRED, "server_key")}
        facts |= self.anonymous.to_dict() if self.anonymous else {}
        follows = {name: derived(question) for name, question in self.parts.items()}
        totals = {"epsilon": self.epsilon, "delta": self.delta, "bits": self.bits}
        return {"format": FORMAT, **facts, **asked, "randomizers": follows, "totals": totals}

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Schema:
        """Build a schema; where ``values`` say what follows from the questions, it has to agree.

        Raises:
            SchemaError: a value is missing, unknown, malformed, or does not follow from the questions.
        """
        if not _is_flat(values, _DEEPEST):
            raise SchemaError(f"Expected a schema of at most {_DEEPEST} tables and lists in each other, got more.")
        check_keys("schema", values, (*_REQUIRED, "server_key"), (*_OPTIONAL, *_DERIVED, *FIELDS, "format"))
        if values.get("format", FORMAT) != FORMAT:
            raise SchemaError(f"Expected format {FORMAT}, got {values['format']!r}. Update Sfumato.")
        asked: dict[str, Any] = {
            name: part(kind, name, values[name]) for name, kind in _OPTIONAL.items() if name in values
        }
        facts = {name: values[name] for name in (*_REQUIRED, "server_key")}
        schema = cls(**facts, **asked, anonymous=Anonymous.from_values(values))
        found = schema.to_dict()
        for name in _DERIVED:
            if name in values and values[name] != found[name]:
                raise SchemaError(
                    f"Expected {_difference(name, found[name], values[name])}. Do not answer this schema; its author can write "
                    "it again with `sfumato collect init`."
                )
        return schema

    @classmethod
    def from_json(cls, text: str | bytes) -> Schema:
        """Read a finished schema, which says all that follows from its questions.

        Raises:
            SchemaError: this is no schema, or not all of it follows from its questions.
        """
        if len(text) > _MOST_BYTES:
            raise SchemaError(f"Expected a schema of at most {_MOST_BYTES} bytes, got {len(text)}.")
        try:
            values = json.loads(text, object_pairs_hook=_once)
        except (ValueError, RecursionError) as error:
            raise SchemaError(f"Expected a schema in JSON, got something else ({error}).") from error
        if not isinstance(values, dict) or any(name not in values for name in (*_DERIVED, "format")):
            raise SchemaError("Expected a finished schema in JSON. Write one with `sfumato collect init`.")
        schema = cls.from_dict(values)
        if json.dumps(values, sort_keys=True) != json.dumps(schema.to_dict(), sort_keys=True):
            raise SchemaError(
                "Expected numbers and times in their canonical form. Write it with `sfumato collect init`."
            )
        return schema

    @classmethod
    def read(cls, path: Path) -> Schema:
        """Read a finished schema from a file.

        Raises:
            SchemaError: the file holds no finished schema.
            OSError: the file cannot be read.
        """
        return cls.from_json(path.read_bytes())

    @classmethod
    def from_toml(
        cls,
        path: Path,
        server_key: str,
        roster: Sequence[str] | None = None,
        *,
        token_key: Callable[[], str] | None = None,
        now: datetime | None = None,
    ) -> Schema:
        """Read the questions that an operator wrote, for a collection that is still to come or open.

        Args:
            path: the questions as TOML.
            server_key: is added, 64 hexadecimal digits.
            roster: the ids of all users; their number and SHA-256 are added to links. None takes those in the file.
            token_key: gives the key that is added where uploads are anonymous.
            now: the time, with a time zone; None asks the clock.

        Raises:
            SchemaError: the file is no TOML, its questions are refused, or the collection is over already.
            OSError: the file cannot be read.
        """
        try:
            values = tomllib.loads(decoded(path.read_bytes()))
        except (ValueError, RecursionError) as error:
            raise SchemaError(f"Expected {path.name} to be TOML, got an error: {error}.") from error
        check_keys(path.name, values, _REQUIRED, (*_OPTIONAL, *(name for name in FIELDS if name != KEY)))
        if UPLOAD in values and token_key:
            values[KEY] = token_key()
        times = {name: utc(values[name]) for name in ("opens", "closes")}
        if isinstance(values.get("links"), dict):
            if roster is None and "roster" not in values["links"]:
                raise SchemaError(
                    "Expected --roster FILE with questions that ask for links, got none. Name the list "
                    "of all user ids, one a line."
                )
            if roster is not None:
                values["links"] |= {"users": len(roster), "roster": roster_sha256(roster)}
        schema = cls.from_dict({**values, **times, "server_key": server_key})
        if moment("closes", schema.closes) <= (now or datetime.now(UTC)).astimezone(UTC).replace(tzinfo=None):
            raise SchemaError(f"Expected closes to be in the future, got {schema.closes}. Choose a later time.")
        _check_columns(schema)
        return schema

    def statement(self) -> str:
        """Return the budget statement that users are shown, in plain words."""
        delta = f" and delta {rounded(self.delta, 3)}" if self.delta else ""
        lines = [
            f"Collection: {self.collection}. Purpose: {self.purpose}",
            f"Open from {self.opens} to {self.closes}.",
            *(f"You are asked for {question.describe()}" for question in self.parts.values()),
            f"This report costs you epsilon {rounded(self.epsilon)}{delta} in total, once: it is drawn on this device with "
            "random noise, kept, and sent again unchanged if it is asked for again.",
            meaning(self.epsilon, self.delta, self.links is not None),
            *([] if self.anonymous is None else [self.anonymous.describe()]),
            "Answers to other collections add to this.",
            f"The SHA-256 of this schema is {self.sha256}.",
        ]
        return "\n".join(lines)


def _check_columns(schema: Schema) -> None:
    """Refuse names that would stand twice in a table of values: its columns are the user, the features and the label."""
    taken = {"user", *(() if schema.label is None else (schema.label.name,))}
    if schema.label is not None and schema.label.name == "user":
        raise SchemaError("Expected label.name to be no 'user', the column of user ids. Rename it.")
    for name in schema.features.columns if schema.features else ():
        if name in taken:
            what = "the column of user ids" if name == "user" else "the name of the label"
            raise SchemaError(f"Expected the features to have other names than {name!r}, {what}. Rename one.")


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """A table of JSON; readers differ in which value of a key that stands twice they take."""
    table = dict(pairs)
    if len(table) < len(pairs):
        raise ValueError("a key stands twice in a table")
    return table


def _is_flat(value: object, levels: int) -> bool:
    """Whether tables and lists are in each other at most so many levels deep."""
    if not isinstance(value, (Mapping, list)):
        return True
    inside = value.values() if isinstance(value, Mapping) else value
    return levels > 0 and all(_is_flat(one, levels - 1) for one in inside)


def _difference(where: str, found: Any, given: Any) -> str:
    """The first place where a table differs from what follows, as "NAME to follow from the questions, which give A, got B"."""
    if isinstance(found, dict) and isinstance(given, dict):
        for name in sorted({*found, *given}):
            if found.get(name) != given.get(name):
                return _difference(f"{where}.{name}", found.get(name), given.get(name))
    return f"{where[:_SHORT]} to follow from the questions, which give {_short(found)}, got {_short(given)}"


def _short(value: object) -> str:
    text = "nothing" if value is None else json.dumps(value, sort_keys=True)
    return text if len(text) <= _SHORT else text[:_SHORT] + "..."
