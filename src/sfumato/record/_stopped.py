"""What a run that was stopped or failed is charged, in words, as the ledgers on disk say."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from fractions import Fraction
from pathlib import Path

from sfumato.errors import SfumatoError
from sfumato.privacy._filters import show
from sfumato.record._certificate import round_up
from sfumato.record._dataset_ledger import read_account
from sfumato.record.ledger import Chain


def charges(own: Path | None, shared: Path | None = None, run: str | None = None) -> str | None:
    """Say what stays charged and what is left of the data set's budget, in one or two sentences; None if nothing is charged."""
    try:
        chain = Chain.parse(own.read_bytes()) if own is not None and own.exists() else Chain()
        told = _of_account(shared, chain, run) if shared is not None and shared.exists() else None
        return told or _of_chain(chain, own)
    except (OSError, SfumatoError) as error:
        return f"What is charged cannot be read: see {own or shared} ({error})."


def is_spent(shared: Path | None, run: str | None) -> bool:
    """Return whether noise was, or may have been, drawn under a run's claim, as the data set's ledger says.

    >>> is_spent(None, None)
    False
    """
    try:
        return shared is not None and run is not None and bool(read_account(shared).marks.get(run))
    except (OSError, SfumatoError):
        return True


@contextmanager
def noting_charges(own: Path | None, shared: Path | None, run: str) -> Iterator[None]:
    """Add a note of what the run is charged to any error that stops the run."""
    try:
        yield
    except BaseException as error:
        note = charges(own, shared, run)
        if note is not None:
            error.add_note(note)
        raise


def _of_account(shared: Path, chain: Chain, run: str | None) -> str | None:
    account, plan = read_account(shared), chain.entries[0]["hash"] if chain.entries else None
    for claim in account.claims:
        if claim.run == run or (run is None and claim.plan == plan):
            window = account.windows.get(claim.run)
            amounts = account.within(window).left()
            left = ", ".join(f"{name} {show(Fraction(repr(amount)), up=False)}" for name, amount in amounts.items())
            where = "in which" if window is None else f"in whose window {window}"
            return f"{_cost(claim.epsilon, claim.delta)} stay charged to the ledger {shared}, {where} {left} are left."
    return None


def _of_chain(chain: Chain, own: Path | None) -> str | None:
    released = [entry["release"]["name"] for entry in chain.entries if entry["kind"] == "release"]
    if not released:
        return None
    claim = chain.entries[0]["plan"]["claim"]
    return f"{_cost(claim['epsilon'], claim['delta'])} stay charged: {own} names {', '.join(released)}."


def _cost(epsilon: float, delta: float) -> str:
    return f"epsilon = {round_up(epsilon)} and delta = {delta:g}"
