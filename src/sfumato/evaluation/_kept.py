"""What is asked for, and where it is kept: a folder is held, a fit is charged before it is made, and what it leaves is saved."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sfumato._files import whole_file
from sfumato._validate import fail
from sfumato.errors import InputError
from sfumato.evaluation._stopped import leaving

if TYPE_CHECKING:
    from sfumato.evaluation._request import Request
    from sfumato.graph._graph import Graph
    from sfumato.method.contract import Progress
    from sfumato.record._certificate import Certificate
    from sfumato.record._dataset_ledger import DatasetLedger
    from sfumato.record._deployment import Deployment
    from sfumato.record._resume import FitState
    from sfumato.scoring._groups import Groups


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
        from sfumato.record._release_folder import LEDGER

        how = {"dataset_ledger": self.ledger, "deployment": self.deployment, "progress": progress, "state": state}
        more = {"sign_key": self.sign_key, "ids_of": graph if self.public_ids else None}
        try:
            fitted = fit(ledger=self.out / "release" / LEDGER, **_given(how))
            if source is not None:
                source.write(self.out)
            fitted.save(self.out, **_given(more))
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
    write_page(out / "guarantee.txt", f"{certificate}\n")


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
