"""Decides what a run that fails or is stopped by Ctrl-C leaves behind, and what it says."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from sfumato._files import remove_empty

PRIVATE = "private"
_LEDGER = "ledger.jsonl"
NOTHING = "Nothing was charged."


def notes_of(error: BaseException) -> str:
    """Join the notes that were added to an error, in one text.

    >>> notes_of(KeyboardInterrupt())
    ''
    """
    return " ".join(getattr(error, "__notes__", ()))


@contextmanager
def leaving(
    out: Path,
    shared: Path | None,
    finished: str,
    *,
    check: Callable[[Path], None] | None = None,
    resumed: bool = False,
    hint: str = "",
) -> Iterator[None]:
    """Hold a run folder for this process alone while the block makes the run in it, and clear up if that fails.

    Of a run that is charged, the ledger stays, and its private state if it has one. Of any other run nothing stays. Notes on
    the error say what is charged and how to go on.
    """
    from sfumato.record._release_folder import check_new_run, owned

    with owned(out, _any if resumed else check or check_new_run):
        if not resumed:
            _remove(out / "release", out / PRIVATE)  # of a run that was killed before it was charged
        with _cleared(out, shared, finished, resumed, hint):
            yield


@contextmanager
def _cleared(out: Path, shared: Path | None, finished: str, resumed: bool, hint: str) -> Iterator[None]:
    try:
        yield
    except BaseException as error:
        from sfumato.record._stopped import charges

        release = out / "release"
        note = None if notes_of(error) else charges(release / _LEDGER, shared)
        if note is not None:
            error.add_note(note)
        charged = bool(notes_of(error))
        if not charged and isinstance(error, (OSError, KeyboardInterrupt)):
            error.add_note(NOTHING)
        if (release / "manifest.json").exists():
            error.add_note(f"The run is saved in {out}. {finished}")
        elif charged or resumed:
            _remove(out / "evaluation")
            error.add_note(_how_to_go_on(out, hint))
        else:
            _remove(release, out / "evaluation", out / PRIVATE)
        remove_empty([release])
        raise


def _remove(*folders: Path) -> None:
    for folder in folders:
        shutil.rmtree(folder, ignore_errors=True)


def _any(run: Path) -> None:
    """Take every folder."""


def _how_to_go_on(out: Path, hint: str) -> str:
    if (out / PRIVATE / "state.json").exists():
        return f"To go on without another charge: sfumato train --resume {out}"
    return f"This run cannot go on, since its noise cannot be repeated: a new one costs again. {hint}".rstrip()
