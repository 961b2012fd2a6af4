"""What is asked for, and where it is kept: a folder is held, a fit is charged before it is made, and what it leaves is saved.

A run that fails or is stopped by Ctrl-C says what it leaves behind.
"""

from __future__ import annotations

import json
import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sfumato._files import remove_empty, whole_file
from sfumato._validate import fail
from sfumato.errors import InputError

if TYPE_CHECKING:
    from sfumato.evaluation._request import Request
    from sfumato.graph._graph import Graph
    from sfumato.method.contract import Progress
    from sfumato.record._certificate import Certificate
    from sfumato.record._dataset_ledger import DatasetLedger
    from sfumato.record._deployment import Deployment
    from sfumato.record._resume import FitState
    from sfumato.scoring._groups import Groups

PRIVATE = "private"
_LEDGER, _WORDS = "ledger.jsonl", "guarantee.txt"
NOTHING = "Nothing was charged."
DREW_NOTHING = "This run drew no noise of its own: another one in a new folder costs nothing more."
"""The hint of a run that is trained on what was released before."""


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
    if hint == DREW_NOTHING:
        return hint
    return f"This run cannot go on, since its noise cannot be repeated: a new one costs again. {hint}".rstrip()


@dataclass(frozen=True)
class Kept:
    """Where a run is kept, what it is charged to, and what goes with its release."""

    out: Path
    ledger: DatasetLedger | None = None
    sign_key: Path | None = None
    deployment: Deployment | None = None
    public_ids: bool = False
    finished: str = ""  # said if the run is stopped after it was saved
    hint: str = ""  # said if it is stopped before, and cannot go on

    @contextmanager
    def held(self, *, check: Callable[[Path], None] | None = None, resumed: bool = False) -> Iterator[None]:
        """Hold the folder while the block makes the run; ``check`` refuses one that is taken, in place of the usual check."""
        from sfumato.record._release_folder import read_sign_key

        if self.sign_key is not None:
            read_sign_key(self.sign_key)
        shared = None if self.ledger is None else self.ledger.path
        with leaving(self.out, shared, self.finished, check=check, resumed=resumed, hint=self.hint):
            yield

    def release(
        self,
        fit: Callable[..., Any],
        source: Any = None,
        *,
        graph: Graph | None = None,
        progress: Progress | None = None,
        state: FitState | None = None,
    ) -> Any:
        """Charge what ``fit`` spends, fit, and save what that leaves, beside its ``source``; ids of ``graph`` may leave.

        The private ``state`` of a run is deleted once it is saved.
        """
        from sfumato.record._release_folder import LEDGER, where_saved

        how = {"dataset_ledger": self.ledger, "deployment": self.deployment, "progress": progress, "state": state}
        more = {"sign_key": self.sign_key, "ids_of": graph if self.public_ids else None}
        try:
            fitted = fit(ledger=self.out / "release" / LEDGER, **_given(how))
            if source is not None:
                source.write(self.out)
            fitted.save(self.out, **_given(more))
            if graph is not None:
                fitted.released.update(where_saved(self.out, fitted.released))
            if state is not None:
                state.remove()
        finally:
            if state is not None:
                state.close()
        return fitted


@dataclass(frozen=True)
class Job:
    """A job is what is asked for: the ``request`` to fit and evaluate, and what is kept of it."""

    word: str  # the method, as it was asked for
    request: Request
    kept: Kept
    threads: int | None = None
    look: Callable[[Graph], None] | None = None  # refuses a graph that lacks what the method asks for
    save_floor: Path | None = None
    groups: Callable[[Graph], Groups] | None = None  # finds groups of nodes that are scored apart
    again: tuple[str, ...] = ()  # the words of a command line that name graph, unit and budget once more
    stored: dict[str, Any] | None = None  # what the private state of a resumable run keeps
    tuned: dict[str, Any] | None = None  # how a selection draws its trials; nothing may tell how many there were
    began: float = field(default_factory=time.perf_counter)

    @property
    def dataset(self) -> str:
        """The name of the graph in results: that of the data set, or the path of the node table."""
        return self.request.source.place


def _given(values: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in values.items() if value is not None}


def write_words(certificate: Certificate, out: Path) -> None:
    """Write everything that a certificate says, in words, to guarantee.txt in the run folder."""
    write_page(out / _WORDS, _words(certificate.to_json()))


def _words(stored: str) -> str:
    """Return the words of a stored certificate, whose fields come in the order of the file."""
    from sfumato.record._certificate import Certificate

    return f"{Certificate(json.loads(stored))}\n"


def words_fault(run: Path) -> str | None:
    """Return what is wrong with guarantee.txt in a valid run folder, which says what the certificate says; None if nothing is."""
    if not (run / _WORDS).exists():
        return None
    stored = (run / "release" / "certificate.json").read_text(encoding="utf-8")
    try:
        told = (run / _WORDS).read_text(encoding="utf-8")
    except (OSError, ValueError):
        told = ""
    if told == _words(stored):
        return None
    return f"{_WORDS}: does not say what the certificate says (Sfumato {json.loads(stored)['version']} wrote that)"


def write_page(path: Path, text: str) -> None:
    """Write a text file. It gets its name once it is whole, and nothing else is left behind."""
    check_outside(path)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with whole_file(path) as file:
            file.write(text.encode())
    except OSError as error:
        raise InputError(
            f"Cannot write {str(path)!r}: {error.strerror or error}. Make room, or name another file with --out."
        ) from error


def check_outside(path: Path) -> None:
    """Refuse a file below the folder of a release, whose manifest lists all that may be there."""
    for folder in path.resolve().parents:
        if (folder / "manifest.json").is_file() and (folder / "certificate.json").is_file():
            raise fail(
                "out", str(path), "to be outside release/", "Only certified files belong there. Give another --out."
            )
