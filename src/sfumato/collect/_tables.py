"""The files around a collection: enrolment codes, the values of one user, and tables of values or links for a simulation."""

from __future__ import annotations

import csv
import json
import sys
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import count, islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sfumato._encoding import decoded, encoding_of
from sfumato._files import whole_file
from sfumato.collect._checks import roster_sha256
from sfumato.collect._wire import WireError, check_user
from sfumato.errors import DataError, InputError, SchemaError

if TYPE_CHECKING:
    from sfumato.collect._drawing import Values
    from sfumato.collect._keys import ServerKey
    from sfumato.collect._questions import Links
    from sfumato.collect._schema import Schema

_BLOCK, _MOST_NUMBERS = 2000, 1 << 21
Rows = Iterator[list[str]]


def write_codes(
    path: Path, schema: Schema, key: ServerKey, users: Sequence[str], generations: Mapping[str, int] | None = None
) -> None:
    """Write the enrolment code of every user as CSV, to a file that only its owner can read."""
    if key.public.hex() != schema.server_key:
        raise InputError("Expected the server key that the schema names, got another. Give the one that init wrote.")
    with whole_file(path, 0o600) as file:
        file.write(b"user,code\n")
        for user in users:
            code = key.code(schema, user, (generations or {}).get(user, 0))
            file.write(f"{quoted(user)},{code}\n".encode())


def quoted(user: str) -> str:
    """Return a user id as a cell of CSV."""
    return '"' + user.replace('"', '""') + '"' if set(user) & set('",') else user


def read_codes(path: Path) -> dict[str, str]:
    with _table(path) as (header, rows):
        if header != ["user", "code"]:
            raise DataError(
                f"Expected {path.name} to have the columns user,code. Write it with `sfumato collect codes`."
            )
        codes: dict[str, str] = {}
        for user, code in rows:
            if user in codes:
                raise _twice(path, user)
            codes[user] = code
    if not codes:
        raise _empty(path)
    return codes


def read_answers(path: Path) -> dict[str, Any]:
    """Read the values of one user from TOML or JSON, however many digits a number has. Messages hold none of them."""
    data, most = path.read_bytes(), sys.get_int_max_str_digits()
    sys.set_int_max_str_digits(0)
    try:
        values = json.loads(decoded(data)) if path.suffix == ".json" else tomllib.loads(decoded(data))
    except UnicodeDecodeError:
        raise DataError(f"Expected {path.name} to be UTF-8, got other bytes. Convert it.") from None
    except (ValueError, RecursionError):
        values = None
    finally:
        sys.set_int_max_str_digits(most)
    if not isinstance(values, dict):
        raise DataError(
            f"Expected {path.name} to hold a table of values in TOML, or in JSON if its name ends in .json."
        )
    return values


def read_values(path: Path, schema: Schema) -> Iterator[Values]:
    """Read blocks of users and their values from CSV.

    The columns are ``user``, the features by name, and the label by name; in a row where the label is empty, the user has none.
    Other than a device, which must not let anybody learn of a value by a refusal, this refuses what is no number or no class.
    """
    import numpy as np

    from sfumato.collect._drawing import Values, check_names, class_numbers, number

    features = tuple(schema.features.columns) if schema.features else ()
    label = (schema.label.name,) if schema.label else ()
    classes = class_numbers(schema.label) if schema.label else {}
    with _table(path) as (header, rows):
        asked = ("user", *features, *label)
        if len(set(asked)) < len(asked) or len(set(header)) < len(header):
            raise DataError(f"Expected columns of different names in {path.name}, got one twice. Rename it.")
        check_names(f"columns of {path.name}", header, asked)
        places = [header.index(name) for name in features]
        user, last = header.index("user"), header.index(label[0]) if label else -1
        known: set[str] = set()
        size = max(1, min(_BLOCK, _MOST_NUMBERS // (1 + len(features))))
        for start in count(1, size):
            block = list(islice(rows, size))
            if not block:
                break
            numbers = np.array([[number(row[place]) for place in places] for row in block]) if features else None
            if numbers is not None and np.isnan(numbers).any():
                row, column = np.argwhere(np.isnan(numbers))[0].tolist()
                raise _odd(path, start + row, features[column], "a number")
            labels = tuple(classes.get(row[last], -1) if label and row[last] else None for row in block)
            if -1 in labels:
                raise _odd(path, start + labels.index(-1), asked[-1], "a class of the schema, or nothing")
            users = tuple(check_user(row[user]) for row in block)
            for one in users:
                if one in known:
                    raise _twice(path, one)
                known.add(one)
            yield Values(users, numbers, labels)
        if not known:
            raise _empty(path)


def read_labels(path: Path, classes: Sequence[str]) -> dict[str, int]:
    """Read users and the places of their classes from CSV with the columns ``user`` and ``label``, which may be empty."""
    places = {name: place for place, name in enumerate(classes)}
    found: dict[str, int] = {}
    with _table(path) as (header, rows):
        if sorted(header) != ["label", "user"]:
            raise DataError(f"Expected {path.name} to have the columns user and label, got others. Rename them.")
        user, label = header.index("user"), header.index("label")
        for place, row in enumerate(rows, start=1):
            if check_user(row[user]) in found:
                raise _twice(path, row[user])
            if row[label]:
                found[row[user]] = places.get(row[label], -1)
            if found.get(row[user], 0) < 0:
                raise _odd(path, place, "label", "a class of the agreement, or nothing")
    if not found:
        raise _empty(path)
    return found


def read_links(path: Path, places: Mapping[str, int], users: Sequence[str]) -> Iterator[Values]:
    """Read undirected links from the first two columns of a CSV table, and give blocks of users with their links."""
    from sfumato.collect._drawing import Values

    links: list[list[int]] = [[] for _ in places]
    with _table(path) as (header, rows):
        if len(header) < 2:
            raise DataError(f"Expected {path.name} to have two columns for the ends of a link, got {len(header)}.")
        for place, row in enumerate(rows, start=1):
            one, other = places.get(row[0]), places.get(row[1])
            if one is None or other is None:
                raise DataError(f"Expected row {place} of {path.name} to name two users on the roster.")
            links[one].append(other)
            links[other].append(one)
    for start in range(0, len(users), _BLOCK):
        block = tuple(users[start : start + _BLOCK])
        own = tuple(places[user] for user in block)
        yield Values(block, links=tuple(tuple(links[place]) for place in own), places=own)


@contextmanager
def _table(path: Path) -> Iterator[tuple[list[str], Rows]]:
    """The header of a CSV table, and its rows, each as long as the header."""
    with path.open("rb") as raw:
        encoding = encoding_of(raw.read(4))
    with path.open(encoding=encoding, newline="") as file:
        rows = csv.reader(file, strict=True)
        try:
            header = next(rows, [])
            yield header, _whole(path, len(header), rows)
        except (csv.Error, UnicodeDecodeError) as error:
            raise DataError(
                f"Expected {path.name} to be CSV in UTF-8, got something else near line {max(1, rows.line_num)}."
            ) from error


def _whole(path: Path, width: int, rows: Rows) -> Rows:
    for place, row in enumerate(filter(None, rows), start=1):
        if len(row) != width:
            cells = f"{width} cell" + "s" * (width != 1)
            raise DataError(f"Expected row {place} of {path.name} to have {cells}, got {len(row)}.")
        yield row


def _odd(path: Path, row: int, column: str, expected: str) -> DataError:
    return DataError(f"Expected row {row} of {path.name} to have {expected} in column {column!r}, got something else.")


def _twice(path: Path, user: str) -> DataError:
    return DataError(f"Expected {path.name} to have one row for each user, got two for {user!r}. Remove one.")


def _empty(path: Path) -> DataError:
    return DataError(f"Expected {path.name} to have a row for each user, got a header alone. Add them.")


def read_roster(path: Path) -> tuple[str, ...]:
    """Read a public list of user ids, one a line: who is asked, and in which order links are reported."""
    try:
        lines = decoded(path.read_bytes()).removesuffix("\n").split("\n")
    except UnicodeDecodeError as error:
        raise DataError(f"Expected {path.name} to be UTF-8, got other bytes. Convert it.") from error
    if lines == [""]:
        raise DataError(f"Expected {path.name} to list user ids, one a line, got an empty file. Add them.")
    places: dict[str, int] = {}
    for number, line in enumerate(lines, start=1):
        user, where = line, f"line {number} of {path.name}"
        if not user.strip():
            raise DataError(f"Expected {where} to hold a user id, got a blank line. Remove it.")
        if user != user.strip():
            raise DataError(f"Expected {where} to hold a user id alone, got a space at its end or start. Remove it.")
        try:
            check_user(user)
        except WireError as error:
            raise DataError(f"{path.name}, line {number}: {error}") from error
        if user in places:
            raise DataError(
                f"Expected {where} to hold another user than line {places[user]}, got {user!r} again. Remove one."
            )
        places[user] = number
    return tuple(places)


def check_roster(links: Links, users: Sequence[str]) -> dict[str, int]:
    """Refuse another roster than the one of a schema; return the place of every user."""
    if len(users) != links.users or roster_sha256(users) != links.roster:
        raise SchemaError(
            f"Expected the roster of the schema, of {links.users} users and SHA-256 {links.roster[:16]}..., got another. "
            "Ask for the file that the schema was made of."
        )
    return {user: place for place, user in enumerate(users)}
