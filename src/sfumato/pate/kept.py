"""The teachers' answers, kept on disk while the student trains, so that a stopped run goes on for free.

**Formal guarantee.** A run that goes on asks no teacher, draws no noise and tells no epsilon: it releases what it would have
released without the stop, and was charged for it once. Neither votes nor the key of the noise are written.

``private/answers.json`` (its owner alone reads it) also holds scores of clean votes against true labels, so it must stay. It
is written whole or not at all, and removed when the run has finished.
"""

from __future__ import annotations

import json
import os
import shutil
from dataclasses import asdict, dataclass
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from sfumato.errors import InputError, LedgerError
from sfumato.pate.aggregation import Answers
from sfumato.privacy.ledger import Ledger, canonical_json, sync_folder
from sfumato.privacy.release_folder import LEDGER, check_new_folder

if TYPE_CHECKING:
    from sfumato.pate.images import Images
    from sfumato.pate.plan import Plan, Settings
    from sfumato.privacy.dataset_ledger import DatasetLedger

PRIVATE = "private"
_FILE = "answers.json"


@dataclass(frozen=True, eq=False)
class Kept:
    """What a run knows once its teachers have answered.

    Args:
        answers: to its queries.
        privacy: what they cost, as its metrics say it; an epsilon told afterwards is told once.
        scores: of answers and votes, against true labels.
        seconds: that teachers took.

    >>> Kept(Answers(np.array([3]), 1), {"epsilon": 1.0}, {}, 2.5).answers.answered
    1
    """

    answers: Answers
    privacy: dict[str, Any]
    scores: dict[str, Any]
    seconds: float


def terms_of(settings: Settings, plan: Plan, images: Images, dataset_ledger: DatasetLedger | None) -> dict[str, Any]:
    """What decides answers and student, JSON-ready: a run that goes on must have the same.

    >>> from sfumato.pate.images import Images
    >>> from sfumato.pate.plan import Settings, make_plan
    >>> settings, x, y = Settings(250, 100, 2.0), np.zeros((2, 1, 28, 28), np.float32), np.zeros(2, np.int64)
    >>> terms_of(settings, make_plan(settings), Images("toy", x, y, x, y), None)["num_queries"]
    100
    """
    given = asdict(settings)
    del given["mechanism"]
    terms = {
        "dataset": images.name,
        "images": digest(images.test_x, images.test_y),
        "dataset_ledger": None if dataset_ledger is None else str(dataset_ledger.path.resolve()),
        **given,
        "mechanism": {"name": plan.mechanism.name, **asdict(plan.mechanism)},
    }
    plain: dict[str, Any] = json.loads(json.dumps(terms))
    return plain


def holds_answers(run: Path) -> bool:
    """Whether a run folder keeps the answers of a run that has not finished.

    >>> holds_answers(Path("no-such-run"))
    False
    """
    return (run / PRIVATE / _FILE).exists()


def keep(run: Path, terms: dict[str, Any], kept: Kept) -> None:
    """Write the answers under the run folder, whole and on disk when this returns.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     keep(Path(folder), {"seed": 0}, Kept(Answers(np.array([3, -1]), 2), {}, {}, 2.5))
    ...     take_up(Path(folder), {"seed": 0}).answers.labels.tolist()
    [3, -1]
    """
    content = {
        "format": 1,
        "terms": terms,
        "labels": kept.answers.labels.tolist(),
        "asked": kept.answers.asked,
        "privacy": kept.privacy,
        "scores": kept.scores,
        "seconds": kept.seconds,
    }
    (run / PRIVATE).mkdir(mode=0o700)
    sync_folder(run)
    write_private(run / PRIVATE / _FILE, canonical_json(content).encode())


def take_up(run: Path, terms: dict[str, Any]) -> Kept | None:
    """The answers that a stopped run kept, or None if the folder is new.

    Raises:
        InputError: that run had other terms, or the folder holds something else.
        LedgerError: the file is damaged.

    >>> take_up(Path("no-such-run"), {})
    """
    path = run / PRIVATE / _FILE
    if not path.exists():
        check_new_folder(run)
        return None
    try:
        stored = json.loads(path.read_bytes())
        before = {name: stored["terms"][name] for name in terms}
        answers = Answers(np.array(stored["labels"], np.int64), int(stored["asked"]))
        kept = Kept(answers, dict(stored["privacy"]), dict(stored["scores"]), float(stored["seconds"]))
    except (ValueError, KeyError, TypeError) as error:
        raise LedgerError(
            f"The kept answers {str(path)!r} are damaged ({error!r}). Start another run in a new folder; this one stays charged."
        ) from error
    for name, value in terms.items():
        if before[name] != value:
            raise InputError(
                f"Expected {name} {before[name]!r}, with which the stopped run in {str(run)!r} was started, got {value!r}. "
                "Restore it to go on for free, or start another run in a new folder, which costs anew."
            )
    return kept


def charged(run: Path, plan: Plan, *, new: bool) -> Ledger:
    """The ledger of a run folder with all releases charged: now, or by the stopped run whose answers were kept.

    Raises:
        LedgerError: there is one already, or (of a stopped run) it is another plan's or lacks charges.

    >>> import tempfile
    >>> from sfumato.pate.plan import Settings, make_plan
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     charged(Path(folder), make_plan(Settings(250, 100, 2.0)), new=True).complete
    True
    """
    path = run / LEDGER
    if not new and not path.exists():
        raise LedgerError(f"No ledger {str(path)!r} for the answers that are kept beside it. Start another run.")
    ledger = Ledger(plan.to_dict(), plan.releases, path, resume=not new)
    if not new and len(ledger.recorded) < len(plan.releases):
        raise LedgerError(f"The ledger {str(path)!r} lacks charges for the answers kept beside it. Start another run.")
    for release in plan.releases:
        ledger.charge(release.name)
    return ledger


def forget(run: Path) -> None:
    """Remove the answers of a run that has finished.

    >>> forget(Path("no-such-run"))
    """
    shutil.rmtree(run / PRIVATE, ignore_errors=True)


def digest(*arrays: NDArray[Any]) -> str:
    """SHA-256 of arrays with their types and shapes.

    >>> digest(np.zeros(2)) == digest(np.zeros((2, 1)))
    False
    """
    found = sha256()
    for array in arrays:
        found.update(f"{array.dtype.str} {array.shape} ".encode())
        found.update(np.ascontiguousarray(array).data)
    return found.hexdigest()


def write_private(path: Path, content: bytes) -> None:
    """Write a file that its owner alone reads, whole or not at all.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     write_private(Path(folder) / "key", b"secret")
    ...     oct((Path(folder) / "key").stat().st_mode)[-3:]
    '600'
    """
    partial = path.with_name(path.name + ".partial")
    with open(os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    partial.replace(path)
    sync_folder(path.parent)
