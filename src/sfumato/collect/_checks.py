"""Checks on the values of a schema that a file gives: keys, texts and times, each in a single form; and on paths."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping, Sequence
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

from sfumato._validate import nearest
from sfumato.errors import InputError, SchemaError

_NAME = re.compile(r"[A-Za-z0-9._-]+")
_TIME = "%Y-%m-%dT%H:%M:%SZ"


def check_keys(where: str, values: Mapping[str, Any], needed: Sequence[str], known: Sequence[str]) -> None:
    allowed = sorted({*needed, *known})
    for key in values:
        if key not in allowed:
            remedy = nearest(key, allowed) or "Remove it."
            raise SchemaError(f"Expected {where} to have {', '.join(allowed)}, got {key!r}. {remedy}")
    for key in needed:
        if key not in values:
            raise SchemaError(f"Expected {where} to have {key}, got none. Add it.")


def check_text(where: str, text: object, most: int, *, name: bool = False) -> None:
    """Refuse what is no text of 1 to ``most`` printable characters; with ``name``, of letters, digits, ".", "_" and "-"."""
    if not isinstance(text, str) or not 1 <= len(text) <= most or not text.isprintable():
        raise SchemaError(f"Expected {where} to be a text of 1 to {most} printable characters.")
    if name and not _NAME.fullmatch(text):
        raise SchemaError(f'Expected {where} to have letters, digits, ".", "_" and "-" only, got {text!r}.')


def moment(name: str, text: object) -> datetime:
    """Read a time in UTC in its canonical form."""
    try:
        found = datetime.strptime(str(text), _TIME)
    except ValueError as error:
        raise SchemaError(
            f"Expected {name} to be a time in UTC such as 2026-12-01T00:00:00Z, got {text!r}. Write date and time, "
            "and Z at the end."
        ) from error
    if found.strftime(_TIME) != text:
        raise SchemaError(f"Expected {name} to be written as {found.strftime(_TIME)}, got {text!r}.")
    return found


def utc(value: object) -> object:
    """A TOML time in UTC as a schema writes it; anything else as it is, to be refused."""
    return value.isoformat().replace("+00:00", "Z") if isinstance(value, date) else value


def roster_sha256(users: Sequence[str]) -> str:
    """Compute the name of a roster, in hexadecimal digits: the SHA-256 of its ids, each followed by a line feed."""
    return hashlib.sha256("".join(f"{user}\n" for user in users).encode()).hexdigest()


def check_plain(where: str) -> None:
    """Refuse what is not plainly a path: it may be a mistyped address with a password, which no message may show."""
    plain = re.match(r"/(?!/)|\.{1,2}/|[A-Za-z]:[\\/]", where) or not re.search("[:=@]", where)
    if not plain and not Path(where).is_file():
        raise no_file()


def no_file() -> InputError:
    """Build the answer to an address that names no file; it may hold a password, so it is not repeated."""
    return InputError(
        "Expected the path of a file, got what names none: reports in memory would be gone when the process ends, and the URL of "
        "a database begins with postgresql+psycopg://. Write the path alone, such as reports.sqlite, or ./NAME for a name with "
        ": or = or @."
    )


def check_open(opens: str, closes: str, now: datetime | None = None) -> None:
    """Refuse a collection that takes no reports at this time; None asks the clock."""
    time = (now or datetime.now(UTC)).astimezone(UTC).replace(tzinfo=None)
    if time < moment("opens", opens):
        raise InputError(f"Expected an open collection, got one that opens at {opens}. Answer it then.")
    if time >= moment("closes", closes):
        raise InputError(f"Expected an open collection, got one that closed at {closes}. Nothing was drawn.")
