"""Rows that are for their own node alone: a file beside ``release/``, of which ``spec.json`` holds the digest.

The file may be missing: whoever checks a release should not have it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ._documents import plain
from ._kinds import OwnRows
from ._tensors import read_tensors

if TYPE_CHECKING:
    from ._rules import Certificate, Rules

OWN_ROWS = "own/rows.safetensors"
_SALT = [4]


def own_faults(release: Path, certificate: Certificate, rules: Rules, spec: dict[str, Any]) -> Iterator[str]:
    """Yield a problem for a digest that is missing or not expected, and for rows that are not those of the digest."""
    planned = {one.name: one for one in rules.releases(certificate) if isinstance(one, OwnRows)}
    digest, path = spec.get("own"), release.parent / OWN_ROWS
    if (digest is not None) != bool(planned):
        yield f"spec.json: own: {'is missing' if planned else 'not expected, since no release is for single nodes'}"
    if path.exists() and not planned:
        yield f"{OWN_ROWS}: no release is for single nodes; remove it"
    if digest is None or not planned or not path.exists():
        return
    if hashlib.sha256(path.read_bytes()).hexdigest() != digest:
        yield f"{OWN_ROWS}: its SHA-256 differs from the one in spec.json"
        return
    problems: list[str] = []
    stored = read_tensors(path, problems) or {}
    yield from (f"own/{text}" for text in problems)
    expected = {**{name: one.shape for name, one in planned.items()}, "salt": _SALT}
    found = {name: one.shape for name, one in stored.items()}
    if not problems and (found != expected or any(one.dtype != "I64" for one in stored.values())):
        yield f"{OWN_ROWS}: expected integers of shapes {plain(repr(expected))}, got {plain(repr(found))}"
