"""The ledger of a device is a hash chain of lines: who it is, each charge, and each report. One process at a time may write."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from fractions import Fraction
from pathlib import Path
from string import hexdigits
from typing import TYPE_CHECKING, Any

from filelock import FileLock, Timeout

from sfumato._files import append_line, cut_file
from sfumato.errors import InputError, LedgerError
from sfumato.record._ledger_file import read_chain
from sfumato.record.ledger import canonical_json, chained

if TYPE_CHECKING:
    from sfumato.collect._schema import Schema
    from sfumato.record.ledger import Chain

LEDGER, LOCK = "ledger.jsonl", ".lock"
_WAIT_SECONDS = 60.0
_MOST_COST = 1e9  # beyond what any schema may ask for


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Hold the folder for this process alone; another one waits, for a minute at most."""
    try:
        with FileLock(folder / LOCK, timeout=_WAIT_SECONDS, mode=0o600):
            yield
    except Timeout as error:
        raise InputError(
            f"Expected {folder} to be free, got a process that works in it. Wait for it to end."
        ) from error


def read_entries(folder: Path) -> list[dict[str, Any]]:
    """Read the whole lines of the ledger; none if there is no ledger.

    A last line without its end was never synced, so nothing followed from it.
    """
    return list(_chain(folder).entries)


def synced_entries(folder: Path) -> list[dict[str, Any]]:
    """Read the whole lines of the ledger, and sync them: a process that was killed may have written the last one alone."""
    chain = _chain(folder)
    cut_file(folder / LEDGER, chain.size)
    return list(chain.entries)


def append_entry(folder: Path, entries: list[dict[str, Any]], body: dict[str, Any]) -> None:
    """Append a line to the ledger; it is on disk when this returns."""
    entry = chained(entries, body)
    append_line(folder / LEDGER, canonical_json(entry), new=not entries)
    entries.append(entry)


def found_entry(entries: Sequence[Mapping[str, Any]], kind: str, schema: Schema) -> Mapping[str, Any] | None:
    """Find the line of a ``kind``, such as "charge", for a ``schema`` among the ``entries``; None if there is none."""
    return next((one for one in entries if one["kind"] == kind and one["schema"] == schema.sha256), None)


def spent(entries: Sequence[Mapping[str, Any]]) -> tuple[Fraction, Fraction]:
    """Add up epsilon and delta of all charges, without rounding.

    >>> spent([{"kind": "device"}, {"kind": "charge", "epsilon": 0.5, "delta": 0.0}])
    (Fraction(1, 2), Fraction(0, 1))
    """
    charges = [one for one in entries if one["kind"] == "charge"]
    epsilon, delta = (sum((Fraction(one[name]) for one in charges), Fraction()) for name in ("epsilon", "delta"))
    return epsilon, delta


def _chain(folder: Path) -> Chain:
    chain = read_chain(folder / LEDGER)
    odd = next((place for place, one in enumerate(chain.entries, 1) if not _is_sound(one, first=place == 1)), None)
    problem = chain.problem or (odd and f"line {odd} is none that a device writes")
    if problem:
        raise LedgerError(f"{LEDGER}: {problem}. Nothing was drawn. Restore a copy made after the last report.")
    return chain


def _is_sound(entry: Mapping[str, Any], *, first: bool) -> bool:
    """Whether a line has what is read of it. A chain of hashes alone shows no more than that somebody made it."""
    match entry:
        case {"kind": "device"}:
            return first
        case {
            "kind": "charge",
            "schema": str(),
            "epsilon": float() | int() as epsilon,
            "delta": float() | int() as delta,
        }:
            return not first and 0 <= epsilon <= _MOST_COST and 0 <= delta <= 1
        case {"kind": "withdrawal", "schema": str()}:
            return not first
        case {"kind": "report", "schema": str(), "message": str() as message}:
            return not first and len(message) % 2 == 0 and set(message) <= set(hexdigits)
    return False
