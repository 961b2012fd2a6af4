"""Private files of a run. Only their owner can read them; they are written whole or not at all, with their SHA-256."""

from __future__ import annotations

import json
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sfumato._files import whole_file
from sfumato.errors import LedgerError
from sfumato.record.ledger import canonical_json

MALFORMED = (ValueError, KeyError, TypeError, IndexError, OverflowError, AttributeError, RecursionError)


def digest(*arrays: NDArray[Any]) -> str:
    """Return the SHA-256 of arrays with their types and shapes."""
    found = sha256()
    for array in arrays:
        found.update(f"{array.dtype.str} {array.shape} ".encode())
        found.update(np.ascontiguousarray(array).data)
    return found.hexdigest()


def write_private(path: Path, content: bytes) -> None:
    """Write a file that only its owner can read, whole or not at all."""
    with whole_file(path, 0o600) as file:
        file.write(content)


def write_sealed(path: Path, content: dict[str, Any]) -> None:
    """Write an object with the SHA-256 of its canonical JSON."""
    found = sha256(canonical_json(content).encode()).hexdigest()
    write_private(path, canonical_json({**content, "sha256": found}).encode())


def read_sealed(path: Path) -> dict[str, Any]:
    """Read back what :func:`write_sealed` wrote."""
    try:
        stored: dict[str, Any] = json.loads(path.read_bytes())
        expected = stored.pop("sha256")
        found = sha256(canonical_json(stored).encode()).hexdigest()
    except MALFORMED as error:
        raise damaged(path, repr(error)) from error
    if found != expected:
        raise damaged(path, "its SHA-256 is another")
    return stored


def damaged(path: Path, why: str) -> LedgerError:
    """Return the error for a file that is not what a run wrote."""
    remedy = "Start another run in a new folder; this one stays charged."
    return LedgerError(f"{str(path)!r}, which a stopped run kept, is damaged ({why}). {remedy}")
