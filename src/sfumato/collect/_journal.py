"""The ledger of a device is a hash chain of lines: who it is, each charge, and each report. One process at a time may write."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from fractions import Fraction
from pathlib import Path
from string import hexdigits
from typing import TYPE_CHECKING, Any

from filelock import FileLock, Timeout

from sfumato._files import append_line, cut_file
from sfumato._validate import fail
from sfumato.errors import BudgetExceededError, InputError, LedgerError
from sfumato.record._ledger_file import read_chain
from sfumato.record.ledger import canonical_json, chained

if TYPE_CHECKING:
    from sfumato.collect._contract import Contract
    from sfumato.record.ledger import Chain

LEDGER, LOCK = "ledger.jsonl", ".lock"
_WAIT_SECONDS = 60.0
_WITHDRAWALS = ("withdrawal", "end of withdrawal")
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
    """Read the whole lines of the ledger. A last line without its end was never synced, so nothing followed from it."""
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


def found_entry(entries: Sequence[Mapping[str, Any]], kind: str, schema: Contract) -> Mapping[str, Any] | None:
    return next((one for one in entries if one["kind"] == kind and one["schema"] == schema.sha256), None)


def drawn_message(entries: Sequence[Mapping[str, Any]], schema: Contract, remedy: str) -> bytes:
    found = found_entry(entries, "report", schema)
    if found is None:
        raise fail("schema", schema.sha256[:16], "to have a report on this device", remedy)
    return bytes.fromhex(found["message"])


def charge_line(schema: Contract) -> dict[str, Any]:
    return {
        "kind": "charge",
        "schema": schema.sha256,
        "collection": schema.collection,
        "epsilon": schema.epsilon,
        "delta": schema.delta,
        "time": datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
    }


def withdrawal_line(schema: Contract, code: str | None) -> dict[str, Any]:
    """Build the line that says that the report for a ``schema`` was taken back under a ``code``, of which it holds a hash."""
    line = {"kind": "withdrawal", "schema": schema.sha256}
    return line if code is None else {**line, "code": _hashed(code)}


def standing_withdrawal(entries: Sequence[Mapping[str, Any]], schema: Contract) -> Mapping[str, Any] | None:
    """Find the withdrawal of the report for a ``schema`` that counts now: the last line about it says."""
    lines = [one for one in entries if one["kind"] in _WITHDRAWALS and one["schema"] == schema.sha256]
    return lines[-1] if lines and lines[-1]["kind"] == "withdrawal" else None


def is_withdrawn_under(line: Mapping[str, Any], code: str | None, own: str | None) -> bool:
    """Whether the withdrawal of a ``line`` is for a ``code``; a line without one is for the device's ``own``."""
    return code == own if "code" not in line else code is not None and line["code"] == _hashed(code)


def _hashed(code: str) -> str:
    return hashlib.sha256(code.encode()).hexdigest()


def spent(entries: Sequence[Mapping[str, Any]]) -> tuple[Fraction, Fraction]:
    """Add up epsilon and delta of all charges, without rounding."""
    charges = [one for one in entries if one["kind"] == "charge"]
    epsilon, delta = (sum((Fraction(one[name]) for one in charges), Fraction()) for name in ("epsilon", "delta"))
    return epsilon, delta


def check_budget(schema: Contract, entries: Sequence[Mapping[str, Any]], **caps: float) -> None:
    """Refuse a report that would cost more epsilon or delta than is left of the ``caps``."""
    for (name, cap), before, cost in zip(caps.items(), spent(entries), (schema.epsilon, schema.delta), strict=True):
        if before + Fraction(cost) > Fraction(cap):
            raise BudgetExceededError(
                f"Expected this device to spend {name} {cap:.6g} at most over its life, got {float(before):.6g} spent and "
                f"{cost:.6g} asked for. Nothing was drawn or charged. This device cannot answer this schema."
            )


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
        case {"kind": "withdrawal" | "end of withdrawal", "schema": str()}:
            return not first and isinstance(entry.get("code", ""), str)
        case {"kind": "report", "schema": str(), "message": str() as message}:
            return not first and len(message) % 2 == 0 and set(message) <= set(hexdigits)
    return False
