"""Where a ledger is named in place of a run: the newest run that is charged there and has released something."""

from __future__ import annotations

from pathlib import Path

from sfumato.errors import InputError


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
