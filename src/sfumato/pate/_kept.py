"""A stopped run of PATE goes on from this: its claim while teachers train, its answers while the student trains.

**Formal guarantee.** A run that goes on from kept answers asks no teacher, draws no noise and tells no epsilon: it releases a
student of the answers that were drawn before, and was charged for them once. Neither votes nor the key of the noise are
written. One that goes on before its first answer uses the claim that was reserved for it, which ``private/run.json`` names, in
its own folder alone. Before an answer is drawn, the data set's ledger says that the claim is spent, with a random mark that is
kept with the answers: so an old copy of the folder that is put back draws no second time (*proof:*
:mod:`sfumato.record._dataset_ledger`), and a run that was killed between mark and kept answers is refused. Without a data
set's ledger nothing tells an old copy from the run itself: each draws, and their costs add up.

A claim is reserved again under its name, and its mark noted again, by a run that goes on from its answers: a data set's ledger
which lost them has them again, or is refused as damaged. One that is not there is never begun by a run that goes on.

``private/answers.json`` (its owner alone reads it) also holds scores of clean votes against true labels, so it must stay. Both
files are written whole or not at all, carry their own SHA-256, and are gone when the run has finished.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from sfumato._files import left_behind, remove_empty, sync_folder
from sfumato.errors import InputError, SfumatoError
from sfumato.method._engine import Spending
from sfumato.pate._aggregation import REFUSED, Answers
from sfumato.record._claims import new_run
from sfumato.record._release_folder import LEDGER, LOCK, check_new_folder, owned
from sfumato.record._sealed import MALFORMED, damaged, digest, read_sealed, write_sealed
from sfumato.record._stopped import charges, is_spent
from sfumato.record.ledger import Chain

if TYPE_CHECKING:
    from sfumato.pate._images import Images
    from sfumato.pate._plan import Settings, VotePlan
    from sfumato.record._dataset_ledger import DatasetLedger

PRIVATE = "private"
_ANSWERS = "answers.json"
_RUN = "run.json"
_BEFORE_ANSWERS = {LOCK, PRIVATE, f"{PRIVATE}/{_RUN}"}


@dataclass(frozen=True, eq=False)
class Kept:
    """What a run knows once its teachers have answered.

    ``privacy`` is what the answers cost, as its metrics say it; an epsilon told afterwards is told once. ``scores`` are those of
    answers and votes against true labels. ``claim`` is its name in the ledger of the data set and the mark of the answers there.
    """

    answers: Answers
    privacy: dict[str, Any]
    scores: dict[str, Any]
    seconds: float
    claim: tuple[str, ...] = ()


def terms_of(
    settings: Settings, plan: VotePlan, images: Images, dataset_ledger: DatasetLedger | None
) -> dict[str, Any]:
    """Gather what decides the answers and what they cost: a run that goes on must have the same. Students are post-processing."""
    given = asdict(settings)
    for name in ("mechanism", "student", "student_settings", "controls"):
        del given[name]
    terms = {
        "dataset": images.name,
        "num_classes": images.num_classes,
        "images": digest(images.test_x, images.test_y),
        "dataset_ledger": None if dataset_ledger is None else str(dataset_ledger.path.resolve()),
        **given,
        "mechanism": {"name": plan.mechanism.name, **asdict(plan.mechanism)},
    }
    plain: dict[str, Any] = json.loads(json.dumps(terms))
    return plain


def holds_answers(run: Path) -> bool:
    return (run / PRIVATE / _ANSWERS).exists()


def check_folder(run: Path) -> None:
    """Refuse a folder that is neither new nor that of a stopped run which may go on."""
    names = [path.relative_to(run).as_posix() for path in run.rglob("*")]
    begun = run.is_dir() and all(name in _BEFORE_ANSWERS or left_behind(name, f"{PRIVATE}/{_RUN}") for name in names)
    if begun or holds_answers(run):
        return
    if (run / LEDGER).exists() and not (run / "release").exists():
        raise InputError(
            f"Expected out to be a new folder, got {str(run)!r}: the run in it is charged, and has no answers, since it was "
            "stopped while it drew them, or none was given. Choose a new folder; another run costs anew."
        )
    check_new_folder(run)


def reserve(
    run: Path,
    terms: dict[str, Any],
    kept: Kept | None,
    plan: VotePlan,
    images: Images,
    dataset_ledger: DatasetLedger | None,
) -> Spending:
    """Make the run folder and charge the plan to the data set, whose ids are the numbers of its rows.

    The name of the claim is on disk before the claim, so whoever goes on charges the data set once. If a new claim is refused,
    nothing is left behind.
    """
    run.mkdir(parents=True, exist_ok=True)
    path, new = run / PRIVATE / _RUN, False
    ids = sha256("\n".join(map(str, range(len(images.train_y)))).encode()).hexdigest()
    dataset = {"name": images.name, "ids_digest": ids}
    try:
        if kept is not None:
            computed = tuple(release.name for release in plan.releases)
            spending = Spending(plan, dataset_ledger, *kept.claim, resumed=True, begins=False, computed=computed)
        elif dataset_ledger is None:
            spending = Spending(plan)
        else:
            new = not path.exists()
            if new:
                Spending(plan, dataset_ledger).begin_shared(dataset)
                path.parent.mkdir(mode=0o700, exist_ok=True)
                sync_folder(run)
                write_sealed(path, {"format": 1, "run": new_run(), "terms": {**terms, "out": str(run.resolve())}})
            spending = Spending(plan, dataset_ledger, read_sealed(path)["run"], begins=False)
        spending.reserve(dataset, run)
    except SfumatoError:
        if new:
            forget(run)
            remove_empty([run])
        raise
    return spending


def keep(run: Path, terms: dict[str, Any], kept: Kept) -> None:
    """Write the answers under the run folder, whole and on disk when this returns."""
    name, mark = kept.claim or (None, None)
    content = {
        "format": 2,
        "run": name,
        "mark": mark,
        "terms": terms,
        "labels": kept.answers.labels.tolist(),
        "asked": kept.answers.asked,
        "privacy": kept.privacy,
        "scores": kept.scores,
        "seconds": kept.seconds,
    }
    (run / PRIVATE).mkdir(mode=0o700)
    sync_folder(run)
    write_sealed(run / PRIVATE / _ANSWERS, content)


def take_up(run: Path, terms: dict[str, Any]) -> Kept | None:
    """Read the answers that a stopped run kept; None if it had none yet or the folder is new."""
    check_folder(run)
    path = run / PRIVATE / _ANSWERS
    if not path.exists():
        if (run / PRIVATE / _RUN).exists():
            _compare(run, read_sealed(run / PRIVATE / _RUN), {**terms, "out": str(run.resolve())})
        return None
    stored = read_sealed(path)
    _compare(run, stored, terms)
    try:
        labels, asked, privacy = np.array(stored["labels"]), stored["asked"], stored["privacy"]
        sound = (
            labels.dtype == np.int64
            and labels.shape == (terms["num_queries"],)
            and REFUSED <= labels.min() <= labels.max() < terms["num_classes"]
            and (labels != REFUSED).any()
            and type(asked) is int
            and np.flatnonzero(labels != REFUSED).max() < asked <= len(labels)
            and all(type(privacy[name]) is bool for name in ("releasable", "certificate"))
            and all(isinstance(stored[name], str) is (terms["dataset_ledger"] is not None) for name in ("run", "mark"))
        )
        claim = () if terms["dataset_ledger"] is None else (stored["run"], stored["mark"])
        kept = Kept(Answers(labels, asked), privacy, dict(stored["scores"]), float(stored["seconds"]), claim)
    except MALFORMED as error:
        raise damaged(path, repr(error)) from error
    if not sound:
        raise damaged(path, "it holds no answers to these queries")
    return kept


def forget(run: Path) -> None:
    shutil.rmtree(run / PRIVATE, ignore_errors=True)


@contextmanager
def noted(run: Path) -> Iterator[None]:
    """Add a note to the error that stops a run: its kept answers wait for the next one. The error itself goes on."""
    try:
        yield
    except BaseException as error:
        if holds_answers(run):
            goes_on = "the same command goes on from them, and charges nothing."
            error.add_note(f"Note: {run} keeps the teachers' answers: {goes_on}")
        raise


@contextmanager
def leaving(run: Path, shared: Path | None) -> Iterator[None]:
    """Hold a run folder for this process alone while the block makes the run in it, and clear up if that fails.

    Such a run goes on by the same command, if it was stopped before its answers were drawn or after they were kept. Notes on
    the error say what is charged and how to go on.
    """
    with owned(run, check_folder):
        own = run / LEDGER
        unpaid = not own.exists()
        new = unpaid and not (run / PRIVATE).exists()
        try:
            yield
        except BaseException as error:
            if unpaid and not _drawn(own):
                own.unlink(missing_ok=True)
            claim, told = _claimed(run), bool(getattr(error, "__notes__", ()))
            note, stopped = charges(own, shared, claim), isinstance(error, (OSError, KeyboardInterrupt))
            if note is not None:
                error.add_note(note)
                lost = not holds_answers(run) and (own.exists() or is_spent(shared, claim))
                if stopped and not told:
                    error.add_note(_how_to_go_on(run, lost=lost))
                    if lost:
                        forget(run)
            elif new:
                forget(run)
                if stopped:
                    error.add_note("Nothing was charged.")
            remove_empty([run / PRIVATE])
            raise


def _drawn(ledger: Path) -> bool:
    """Return whether answers may have been drawn: none is drawn before every release is charged."""
    entries = Chain.parse(ledger.read_bytes()).entries if ledger.exists() else ()
    return bool(entries) and len(entries) == 1 + len(entries[0]["plan"]["releases"])


def _claimed(run: Path) -> str | None:
    for name in (_RUN, _ANSWERS):
        with suppress(OSError, ValueError, KeyError, TypeError):
            claim: str = json.loads((run / PRIVATE / name).read_bytes())["run"]
            return claim
    return None


def _how_to_go_on(run: Path, *, lost: bool) -> str:
    if (run / "release" / "manifest.json").exists():
        return f"The run is saved in {run}: check it with sfumato verify {run}"
    if holds_answers(run):
        return "The same command goes on from the teachers' answers, without another charge."
    if lost:
        return "This run cannot go on, since its answers are lost: a new one costs again, in another folder."
    return "The same command goes on with this charge."


def _compare(run: Path, stored: dict[str, Any], terms: dict[str, Any]) -> None:
    before = stored.get("terms")
    if not isinstance(before, dict) or before.keys() != terms.keys() or "run" not in stored:
        raise damaged(run / PRIVATE, "its terms are not those of a run")
    for name, value in terms.items():
        if before[name] != value:
            raise InputError(
                f"Expected {name} {before[name]!r}, with which the stopped run in {str(run)!r} was started, got {value!r}. "
                "Restore it to go on for free, or start another run in a new folder, which costs anew."
            )
