"""Which run a command means: of a ledger the newest one that has released something; and one that learned, if it predicts."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from sfumato.errors import InputError

if TYPE_CHECKING:
    from sfumato.method._plan import Fitted


def run_of(path: Path) -> Path:
    """Return a run folder as it is named; of the file of a ledger the folder of its newest finished run.

    The newest is the last line whose folder, relative to the ledger, holds a whole release.
    """
    if not path.is_file():
        return path
    from sfumato.record._reading import read_account

    account = read_account(path)
    for claim in reversed(account.claims):
        folder = account.made[claim.run].folder
        if folder is not None and (path.parent / folder / "release" / "manifest.json").is_file():
            return path.parent / folder
    raise InputError(
        f"Expected a ledger that names the folder of a finished run, got {str(path)!r}, which names none that is there. Name "
        "the run folder itself."
    )


def learned(run: Path) -> Fitted:
    """Load a run that learned something about single nodes; refuse one that counts a graph as a whole."""
    from sfumato.catalog import load

    fitted = load(run)
    if not fitted.plan.method.card.learns:
        raise InputError(
            f"Expected a run that learned to predict, got {str(run)!r}, which holds statistics of a whole graph. Print its "
            f"answers again, for free: sfumato describe --from-run {run}"
        )
    return fitted
