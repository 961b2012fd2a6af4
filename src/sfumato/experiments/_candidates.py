"""The public list of settings that tuning chooses from: a TOML file, or a small default for each method."""

from __future__ import annotations

import tomllib
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING

from sfumato.errors import InputError
from sfumato.experiments._tables import known, tables

if TYPE_CHECKING:
    from sfumato.method.contract import Method


def read_candidates(method: str, path: Path | None = None) -> tuple[Method, ...]:
    """Return a method with each setting of a file, one ``[[candidate]]`` for each, or of its default list without a ``path``.

    >>> [candidate.num_hops for candidate in read_candidates("gap")]
    [1, 2, 3]
    """
    from sfumato.catalog import METHODS

    chosen = METHODS[known("method", method, tuple(METHODS))]
    if path is None:
        if chosen.card.candidates is None:
            raise InputError(f"Expected --candidates FILE with {method}, which has no default list, got none.")
        return tuple(chosen(**settings) for settings in chosen.card.candidates)
    try:
        values = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise InputError(
            f"Expected {str(path)!r} to be a list of candidates: {error.strerror}. Check the path."
        ) from error
    except ValueError as error:
        raise InputError(f"Expected {str(path)!r} to be TOML: {error}") from error
    for key in values:
        known(f"key in {path}", key, ("candidate",))
    names, found = [field.name for field in fields(chosen)], []
    for number, table in enumerate(tables(str(path), "candidate", values.get("candidate", [])), 1):
        where = f"{path}: candidate {number}"
        for key in table:
            known(f"setting of {method} in {where}", key, names)
        try:
            found.append(chosen(**table))
        except InputError as error:
            raise InputError(f"{where}: {error}") from error
    return tuple(found)
