"""A run of PATE goes from private images to teachers, to noisy answers on public images, and to a student that may leave.

**Formal guarantee.** The student, the answers and which queries were answered satisfy (claim epsilon, claim
delta)-differential privacy for one training record, replaced under its id, added or removed. *Proof.*
:mod:`sfumato.pate._folder`. Queries are rows of the public pool chosen by a public seed before the first answer; the run stops
at public caps on queries and answers; a refused query costs what an answered one's threshold costs; noise is calibrated to the
data-independent cost of the caps. Nothing that votes decide stops, tunes or calibrates anything.

**Rows.** As in the papers: rows 0 to 8999 of the test file are the public pool, rows 9000 to 9999 measure the student and
are never in the pool; all training rows are private.

**Folder.** ``ledger.jsonl`` is charged before the first answer, and stays if the run is stopped. The answers are kept in
``private/`` until the run has finished: the same call goes on from them (:mod:`sfumato.pate._kept`). ``release/`` is written at
the end: weights, queries and answers, ledger, and a certificate where the cost was fixed beforehand.
``evaluation/metrics.json`` reads true labels and clean votes: NOT COVERED BY THE GUARANTEE.
"""

from __future__ import annotations

import shutil
import time
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from sfumato._files import write_json
from sfumato._validate import fail
from sfumato.errors import SfumatoError
from sfumato.method.contract import Progress, Watch
from sfumato.nn._metrics import accuracy, macro_f1
from sfumato.pate._aggregation import REFUSED, Answers, ConfidentGNMax, Mechanism
from sfumato.pate._analysis import analyze
from sfumato.pate._ensemble import IMAGE_SETTINGS, Ensemble
from sfumato.pate._folder import spec_of, write_folder
from sfumato.pate._kept import Kept, forget, keep, noted, reserve, take_up, terms_of
from sfumato.pate._kernel import KernelEnsemble
from sfumato.pate._plan import (
    POOL,
    STUDENTS,
    UNIT,
    Settings,
    VotePlan,
    choose_queries,
    make_plan,
    pool_of,
    student_class,
    told,
)
from sfumato.record._release_folder import LEDGER, read_sign_key
from sfumato.students._consistency import STUDENT_SETTINGS
from sfumato.students._edge_ridge import EdgeRidge

if TYPE_CHECKING:
    from sfumato.noise.keys import Key
    from sfumato.pate._images import Images
    from sfumato.pate._votes import Votes
    from sfumato.record._dataset_ledger import DatasetLedger

QUICK: dict[str, dict[str, Any]] = {
    **{name: {"epochs": 3} for name in STUDENTS},
    "consistency": {"width": 256, "steps": 300},
}


def run(
    settings: Settings,
    images: Images,
    out: str | Path,
    *,
    progress: Progress | None = None,
    votes: Votes | None = None,
    dataset_ledger: DatasetLedger | None = None,
    sign_key: Path | None = None,
) -> dict[str, Any]:
    """Train teachers, ask them, train a student, and write the run folder; return its metrics.

    In the folder of a run that was stopped after its teachers had answered, go on from their answers, perhaps with another
    student: nothing is charged, and ``resumed`` of the metrics says so. All other settings must be the same.
    """
    out, start = Path(out), time.perf_counter()
    if sign_key is not None:
        read_sign_key(sign_key)
    if votes is not None and (votes.sum(1) != settings.num_teachers).any():
        expected = f"to be those of {settings.num_teachers} teachers"
        raise fail("votes", f"{votes.sum(1).max()} a row", expected, "Set num_teachers to their number.")
    plan = make_plan(settings, images.num_classes)
    if dataset_ledger is not None and settings.accounting != "data-independent":
        remedy = "A cost that is told afterwards cannot be reserved."
        raise fail("dataset_ledger", str(dataset_ledger.path), f"to be None with {settings.accounting!r}", remedy)
    plan = plan.charged_to(dataset_ledger)
    ensemble = make_ensemble(settings, images.name, images.num_classes)
    chosen = make_student(settings, images.name, images.num_classes)  # wrong settings are refused, and nothing charged
    spec = spec_of(settings, plan, chosen, images, POOL)
    terms, rows = terms_of(settings, plan, images, dataset_ledger), choose_queries(settings.num_queries, settings.seed)
    kept = take_up(out, terms)
    resumed = kept is not None
    spending = reserve(out, terms, kept, plan, images, dataset_ledger)
    if kept is None:
        counts = _ask(ensemble, images, rows, progress) if votes is None else votes[rows]
        seconds = time.perf_counter() - start
        spending.spend()  # before the ledger: a folder that has one goes on from kept answers alone
        ledger = spending.open(out / LEDGER).charge_all()
        forget(out)
        answers, scores = answered(plan.mechanism, counts, images.test_y[rows], settings)
        claim = () if dataset_ledger is None else (spending.run, spending.mark)
        kept = Kept(answers, _privacy(settings, plan, counts), scores, seconds, claim)
        keep(out, terms, kept)
    else:
        ledger = spending.open(out / LEDGER).charge_all()
        if progress is not None:
            progress("answers of the stopped run: nothing is charged", 1, 1)
    with noted(out):
        began = time.perf_counter()
        given = kept.answers.labels != REFUSED
        asked, labels = rows[given], kept.answers.labels[given]
        student = fit_student(settings, images, asked, labels, progress, "student")
        learned = time.perf_counter()
        metrics = {
            **_facts(settings, plan, images, kept.answers),
            "resumed": resumed,
            "privacy": kept.privacy,
            **kept.scores,
            **_scores(settings, images, student, asked, labels, progress),
            "seconds": {"teachers": kept.seconds, "student": learned - began, "total": time.perf_counter() - start},
        }
        write_json(out / "evaluation" / "metrics.json", metrics)
        if kept.privacy["releasable"]:
            released = {"queries": rows, "answers": kept.answers.labels.astype(np.int64)}
            shutil.rmtree(out / "release", ignore_errors=True)  # half-written by the stopped run
            write_folder(out, spec, plan, ledger, student, released, kept.privacy, sign_key)
    forget(out)
    return metrics


def make_ensemble(settings: Settings, dataset: str, num_classes: int) -> Ensemble | KernelEnsemble:
    if settings.teacher == "kernel":
        slanted = STUDENT_SETTINGS.get(dataset, {}).get("slanted", False)
        return KernelEnsemble(settings.num_teachers, num_classes, slanted=slanted, seed=settings.seed)
    small: dict[str, Any] = {"widths": (8, 16), "steps": 200} if settings.quick else {}
    augmented = IMAGE_SETTINGS.get(dataset, {})
    return Ensemble(
        settings.num_teachers, num_classes, seed=settings.seed, device=settings.device, **augmented, **small
    )


def make_student(settings: Settings, dataset: str, num_classes: int) -> Any:
    """Build the student that the settings name, with the augmentation of a named data set."""
    chosen: dict[str, Any] = {"num_classes": num_classes, "seed": settings.seed}
    if settings.student == "consistency":
        chosen |= STUDENT_SETTINGS.get(dataset, {})
    if settings.quick:
        chosen |= QUICK[settings.student]
    return student_class(settings.student)(**{**chosen, **settings.student_settings})


def answered(
    mechanism: Mechanism, votes: Votes, truth: NDArray[np.int64], settings: Settings, key: Key | None = None
) -> tuple[Answers, dict[str, float]]:
    """Answer, once all is charged, and score answers and votes against true labels."""
    answers = answer(mechanism, votes, settings, key)
    if not answers.answered:
        raise SfumatoError(
            "The teachers answered no query, so no student can learn; the queries stay charged. Take a lower threshold, less "
            "noise or more queries in another run."
        )
    given = answers.labels != REFUSED
    return answers, {
        "noisy_label_accuracy": accuracy(truth[given], answers.labels[given]),
        "plurality_accuracy": accuracy(truth, votes.argmax(1)),
        "plurality_accuracy_answered": accuracy(truth[given], votes[given].argmax(1)),
    }


def _ask(
    ensemble: Ensemble | KernelEnsemble, images: Images, rows: NDArray[np.int64], progress: Progress | None
) -> Votes:
    """Train the teachers on all training rows, whose numbers are their ids, and count their votes on the queries."""
    teachers = ensemble.fit(
        images.train_x, images.train_y, range(len(images.train_y)), Watch(progress).stage("teachers")
    )
    return teachers.votes(images.test_x[rows])


def answer(mechanism: Mechanism, votes: Votes, settings: Settings, key: Key | None = None) -> Answers:
    """Aggregate votes within the cap on answers; a new key of the noise is drawn unless one is given."""
    if isinstance(mechanism, ConfidentGNMax):
        return mechanism.aggregate(votes, key, max_answers=settings.answers)
    return mechanism.aggregate(votes, key)


def fit_student(
    settings: Settings,
    images: Images,
    rows: NDArray[np.int64],
    labels: NDArray[np.int64],
    progress: Progress | None,
    stage: str,
) -> Any:
    """Train a student on labels for rows of the pool, whose other rows are unlabeled."""
    others = np.setdiff1d(np.arange(pool_of(images.name)), rows)
    student = make_student(settings, images.name, images.num_classes)
    return student.fit(images.test_x[rows], labels, images.test_x[others], progress=Watch(progress).stage(stage))


def fit_floor(images: Images, rows: NDArray[np.int64], labels: NDArray[np.int64]) -> EdgeRidge:
    """Fit the floor on labels for rows of the pool: it sees them as the default student does, and no other row."""
    slanted = STUDENT_SETTINGS.get(images.name, {}).get("slanted", False)
    return EdgeRidge(images.test_x[rows], labels, images.num_classes, slanted=slanted)


def _privacy(settings: Settings, plan: VotePlan, votes: Votes) -> dict[str, Any]:
    """What the run cost in the chosen accounting, and whether the student may leave."""
    cost: dict[str, Any] = {"epsilon": plan.epsilon, "releasable": True}
    if settings.accounting == "released":
        result = told(votes, plan.mechanism, settings)
        cost = {"epsilon": result.epsilon, "releasable": result.epsilon <= settings.epsilon}
        cost["confidence"] = result.confidence
    elif settings.accounting == "as-published":
        found = analyze(votes, plan.mechanism, settings.delta, as_published=True)
        cost = {"epsilon": found.epsilon, "releasable": False, "order": found.order, "answered": found.answered}
    return {
        "unit": UNIT.name,
        "relation": UNIT.relation,
        "accounting": settings.accounting,
        "budget": settings.epsilon,
        "delta": settings.delta,
        "data_independent_epsilon": plan.epsilon,
        "certificate": settings.accounting == "data-independent",
        **cost,
    }


def _facts(settings: Settings, plan: VotePlan, images: Images, answers: Answers) -> dict[str, Any]:
    return {
        "dataset": images.name,
        "teachers": settings.num_teachers,
        "queries": settings.num_queries,
        "max_answers": settings.answers,
        "asked": answers.asked,
        "answered": answers.answered,
        "mechanism": {"name": plan.mechanism.name, **asdict(plan.mechanism)},
        "student_name": settings.student,
        "quick": settings.quick,
        "seed": settings.seed,
    }


def _scores(
    settings: Settings,
    images: Images,
    student: Any,
    asked: NDArray[np.int64],
    labels: NDArray[np.int64],
    progress: Progress | None,
) -> dict[str, Any]:
    """Scores of the student, and of ceiling and floor, which read true labels: not covered by the guarantee."""
    ceiling = None
    if settings.controls:
        ceiling = score(fit_student(settings, images, asked, images.test_y[asked], progress, "ceiling"), images)
    return {
        "student": score(student, images),
        "ceiling": ceiling,
        "floor": score(fit_floor(images, asked, labels), images),
        "evaluation_private": False,
    }


def score(model: Any, images: Images) -> dict[str, float]:
    pool = pool_of(images.name)
    truth, found = images.test_y[pool:], model.predict(images.test_x[pool:])
    return {"accuracy": accuracy(truth, found), "macro_f1": macro_f1(truth, found, images.num_classes)}
