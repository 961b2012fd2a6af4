"""What a command may tell others about a run: only what the verifier finds valid."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from sfumato.errors import DataError, InputError

if TYPE_CHECKING:
    from sfumato.verify import Verification


def verified(run: Path) -> Verification:
    """Return the verdict about a run that is valid."""
    from sfumato import verify as verifier

    try:
        result = verifier.verify(run)
    except verifier.VerifyInputError as error:
        raise InputError(str(error)) from error
    if not result.valid:
        raise DataError(f"Expected a run that `sfumato verify` finds valid, got {str(run)!r}: {result.problems[0]}.")
    return result
