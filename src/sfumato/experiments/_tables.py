"""Frozen dataclasses, and candidates of tuning, from TOML tables: a wrong key or value is named, with the nearest name."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import MISSING, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sfumato._validate import check_choice, fail
from sfumato.errors import InputError
from sfumato.method._settings import settings_of

if TYPE_CHECKING:
    from sfumato.method.contract import Method

_KINDS: dict[str, tuple[type, ...]] = {"str": (str,), "int": (int,), "float": (int, float), "bool": (bool,)}
_KINDS["Any"] = (str, int, float, bool)
_WORDS = {"str": "text", "int": "an integer", "float": "a number", "bool": "true or false", "Any": "text or a number"}


def known(what: str, value: Any, names: Sequence[str]) -> str:
    """Return ``value`` if it is among ``names``, or say which one is nearest."""
    return check_choice(tuple(names), **{what: value})


def tables(where: str, key: str, value: Any) -> list[dict[str, Any]]:
    """The tables of a ``[[key]]`` in the file ``where``."""
    if not isinstance(value, list) or not all(isinstance(item, dict) for item in value):
        got = "a single table" if isinstance(value, dict) else repr(value)
        raise InputError(f"Expected {key} in {where} to be TOML tables, got {got}. Write each under its own [[{key}]].")
    return value


def single(where: str, key: str, value: Any, remedy: str) -> dict[str, Any]:
    """The one table ``key`` in ``where``."""
    if not isinstance(value, dict):
        raise fail(f"{key} in {where}", value, "to be one TOML table", remedy)
    return value


def build(cls: type[Any], where: str, table: Mapping[str, Any], **built: Any) -> Any:
    """Make a dataclass of a table; ``built`` holds the fields that are dataclasses. Lists become tuples, integers numbers."""
    plain = [field for field in fields(cls) if field.name not in built]
    for key in table:
        known(f"key in {where}", key, [field.name for field in fields(cls)])
    for field in plain:
        if field.default is MISSING and field.name not in table:
            raise InputError(f"Expected {where} to have the key {field.name!r}, got none. Add it.")
    try:
        values = {f.name: _value(f.name, table[f.name], str(f.type)) for f in plain if f.name in table}
        return cls(**values, **built)
    except InputError as error:
        raise InputError(f"{where}: {error}") from error


def _value(key: str, value: Any, kind: str) -> Any:
    kind = kind.removesuffix(" | None")
    item = kind.removeprefix("tuple[").removesuffix(", ...]")
    if item != kind:
        if not isinstance(value, list):
            raise fail(key, value, "to be a list")
        return tuple(_value(key, one, item) for one in value)
    if type(value) not in _KINDS[kind]:
        raise fail(key, value, f"to be {_WORDS[kind]}")
    return float(value) if kind == "float" else value


def read_candidates(
    method: str, path: Path | None = None, shared: Mapping[str, Any] | None = None
) -> tuple[Method, ...]:
    """Return a method with each setting of a file, one ``[[candidate]]`` for each, or of its default list without a ``path``.

    All of them have the settings ``shared``.

    >>> [candidate.num_hops for candidate in read_candidates("gap")]
    [1, 2, 3]
    """
    from sfumato.catalog import METHODS

    chosen = METHODS[known("method", method, tuple(METHODS))]
    if path is None:
        if chosen.card.candidates is None:
            raise InputError(f"Expected --candidates FILE with {method}, which has no default list, got none.")
        return tuple(_candidate(chosen, one, shared or {}, "the default list") for one in chosen.card.candidates)
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
        found.append(_candidate(chosen, table, shared or {}, where))
    return tuple(found)


def _candidate(chosen: type[Method], own: Mapping[str, Any], shared: Mapping[str, Any], where: str) -> Method:
    """The method with its own settings and the shared ones, which never meet."""
    if both := [name for name in own if name in shared]:
        raise InputError(
            f"Expected no {settings_of(chosen)[both[0]].spelled} with tune, since {where} varies it. Drop it, or list candidates "
            "of your own with --candidates."
        )
    try:
        return chosen(**own, **shared)
    except InputError as error:
        raise InputError(f"{where}: {error}") from error
