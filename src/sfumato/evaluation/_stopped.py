"""Decides what a run that fails or is stopped by Ctrl-C leaves behind, and what it says."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
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
    from sfumato.record._owned import owned
    from sfumato.record._release_folder import check_new_run

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


@contextmanager
def leaving_pate(out: Path, shared: Path | None) -> Iterator[None]:
    """Hold the folder of a run of PATE in the same way.

    Such a run goes on by the same command, if it was stopped before its answers were drawn or after they were kept.
    """
    from sfumato.pate._kept import check_folder
    from sfumato.record._owned import owned

    with owned(out, check_folder), _cleared_pate(out, shared):
        yield


@contextmanager
def _cleared_pate(out: Path, shared: Path | None) -> Iterator[None]:
    unpaid = not (out / _LEDGER).exists()
    new = unpaid and not (out / PRIVATE).exists()
    try:
        yield
    except BaseException as error:
        from sfumato.pate._kept import forget, holds_answers
        from sfumato.record._stopped import charges, is_spent

        if unpaid and not _drawn(out / _LEDGER):
            (out / _LEDGER).unlink(missing_ok=True)
        told, answered, claim = notes_of(error), holds_answers(out), _claimed(out)
        note = charges(out / _LEDGER, shared, claim)
        if note is not None:
            error.add_note(note)
            lost = not answered and ((out / _LEDGER).exists() or is_spent(shared, claim))
            if isinstance(error, (OSError, KeyboardInterrupt)) and not told:
                error.add_note(_how_pate_goes_on(out, answered=answered, lost=lost))
                if lost:
                    forget(out)
        elif new:
            forget(out)
            if isinstance(error, (OSError, KeyboardInterrupt)):
                error.add_note(NOTHING)
        remove_empty([out / PRIVATE])
        raise


def _remove(*folders: Path) -> None:
    for folder in folders:
        shutil.rmtree(folder, ignore_errors=True)


def _any(run: Path) -> None:
    """Take every folder."""


def _drawn(ledger: Path) -> bool:
    """Return whether answers may have been drawn: none is drawn before every release is charged."""
    from sfumato.record.ledger import Chain

    entries = Chain.parse(ledger.read_bytes()).entries if ledger.exists() else ()
    return bool(entries) and len(entries) == 1 + len(entries[0]["plan"]["releases"])


def _claimed(out: Path) -> str | None:
    """Return the name of the claim that a stopped run of PATE keeps, or None."""
    for path in (out / PRIVATE / "run.json", out / PRIVATE / "answers.json"):
        with suppress(OSError, ValueError, KeyError, TypeError):
            run: str = json.loads(path.read_bytes())["run"]
            return run
    return None


def _how_pate_goes_on(out: Path, *, answered: bool, lost: bool) -> str:
    if (out / "release" / "manifest.json").exists():
        return f"The run is saved in {out}: check it with sfumato verify {out}"
    if answered:
        return "The same command goes on from the teachers' answers, without another charge."
    if lost:
        return "This run cannot go on, since its answers are lost: a new one costs again, in another folder."
    return "The same command goes on with this charge."


def _how_to_go_on(out: Path, hint: str) -> str:
    if (out / PRIVATE / "state.json").exists():
        return f"To go on without another charge: sfumato train --resume {out}"
    return f"This run cannot go on, since its noise cannot be repeated: a new one costs again. {hint}".rstrip()
