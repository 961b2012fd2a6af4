"""`sfumato predict RUN --coverage C --epsilon E` where labels are protected: counts that calibrate sets, kept under `sets/`."""

from __future__ import annotations

import hashlib
import json
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from sfumato._files import write_json
from sfumato.cli._output import tell
from sfumato.errors import InputError
from sfumato.evaluation._kept import Kept, write_words

if TYPE_CHECKING:
    from sfumato.graph._graph import Graph
    from sfumato.method._choosing import NoisyCounts
    from sfumato.method._plan import Fitted
    from sfumato.privacy.budget import Budget
    from sfumato.record._dataset_ledger import DatasetLedger

FOLDER, _OF = "sets", "run.json"


def stored_counts(run: Path, fitted: Fitted) -> NoisyCounts | None:
    """Return the counts that were released for a run, or None if there are none.

    ``run`` is the folder of the run, and ``fitted`` the run, as it was loaded.
    """
    from sfumato.central._set_calibration import NAME, SetCalibration
    from sfumato.record._release_folder import read_release

    folder = run / FOLDER
    if not (folder / "release" / "manifest.json").exists():
        return None
    stored = read_release(folder)
    try:
        own = json.loads((folder / _OF).read_text())["manifest"]
    except (OSError, ValueError, TypeError, KeyError):
        own = None
    if NAME not in stored.released or own != _digest(run):
        raise InputError(
            f"Expected {str(folder)!r} to hold counts that calibrate sets of this run, got those of another. Put its own back."
        )
    return SetCalibration(fitted).noisy(stored.released, float(stored.certificate["claim"]["epsilon"]))


def charged_counts(
    run: Path, fitted: Fitted, graph: Graph, budget: Budget, shared: DatasetLedger | None, *, quiet: bool
) -> tuple[NoisyCounts, float]:
    """Charge, release and keep the counts of a run; return them, and what they cost."""
    from sfumato.central._set_calibration import SetCalibration, calibrate_sets
    from sfumato.evaluation._source import Source

    named, folder = Source.ledger_of(run), run / FOLDER
    if named is not None and shared is None:
        raise InputError(
            f"Expected --ledger {named}, since the run was charged to it: these counts read the same data."
        )
    plan = calibrate_sets(fitted, budget)
    tell(plan.caveats)
    if not quiet:
        typer.echo(str(plan), err=True)
    free = f"Sets cost nothing more: sfumato predict {run} --coverage 0.9 --out FILE"
    kept = Kept(folder, shared, finished=free)
    with kept.held(check=_check):
        counts = kept.release(partial(plan.fit, graph))
        write_json(folder / _OF, {"manifest": _digest(run)})
        write_words(counts.certificate, folder)
    spent = counts.certificate.epsilon or 0.0
    return SetCalibration(fitted).noisy(counts.released, spent), spent


def _digest(run: Path) -> str:
    """What tells the release of a run from others: runs of one plan have ledgers alike."""
    return hashlib.sha256((run / "release" / "manifest.json").read_bytes()).hexdigest()


def _check(folder: Path) -> None:
    """Refuse a folder in which an earlier release was stopped after it was charged."""
    from sfumato.record._release_folder import LEDGER, check_new_run

    own = folder / "release" / LEDGER
    if own.exists() and own.stat().st_size:
        raise InputError(
            f"Expected no release in {str(folder)!r}, got one that was stopped after it was charged. It cannot go on. Move the "
            "folder away and keep it, since its cost stays; another release costs again."
        )
    check_new_run(folder)
