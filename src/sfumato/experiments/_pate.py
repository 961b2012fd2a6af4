"""Cells of method "pate": votes that are trained once and kept (:mod:`~sfumato.experiments._pate_votes`), one student a cell.

**Accounting.** With ``accounting = "as-published"`` the epsilon of a cell bounds the papers' data-dependent one, computed
from clean votes to within half a percent: a cell whose votes cost more fails. It is no guarantee and comes without a certificate.
"""

from __future__ import annotations

import time
from dataclasses import asdict, dataclass
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from sfumato._validate import fail
from sfumato.errors import SfumatoError
from sfumato.experiments._pate_settings import RIDGE, PateCell
from sfumato.experiments._pate_votes import banked
from sfumato.experiments._tables import known
from sfumato.noise.keys import derive_key
from sfumato.pate._images import IMAGE_DATASETS, SVHN, Images, load_images, load_svhn
from sfumato.record.ledger import canonical_json

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from sfumato.experiments._cells import Cell
    from sfumato.experiments._runs import Run
    from sfumato.pate._plan import Settings, VotePlan

DATASETS = (*IMAGE_DATASETS, SVHN)
_OFFICIAL = ("mnist", SVHN)
_TOLERANCE = 1.005


def check_run(run: Run, dataset: str) -> None:
    """Check that every cell of a run can be run on a data set."""
    from sfumato.pate._plan import make_plan
    from sfumato.pate._run import make_student

    known("dataset", dataset, DATASETS)
    for value in run.values or (None,):
        for epsilon in run.epsilons or (None,):
            chosen = PateCell.read(dict(run.at(value, epsilon)[0]))
            private = chosen.labels != "true"
            unit = "record" if private else "none"
            if run.unit != unit:
                raise fail("unit", run.unit, f"to be {unit}, as labels = {chosen.labels!r} needs")
            if private and epsilon is None:
                raise fail("epsilons", [], "to hold a budget, which the teachers' answers spend")
            if chosen.votes == "official" and dataset not in _OFFICIAL:
                raise fail("dataset", dataset, f"to be {' or '.join(_OFFICIAL)}, whose votes are stored")
            if private and chosen.votes == "own" and dataset == SVHN:
                raise fail(
                    "votes", chosen.votes, f"to be official for {SVHN}", "Teachers learn from images of 28 x 28."
                )
            settings = chosen.plan_settings(epsilon, run.delta)
            make_student(settings, dataset, 10)
            if private:
                make_plan(settings)


def run_pate(cell: Cell, data_dir: str | Path, results: str | Path) -> dict[str, Any]:
    """Run one cell: answer queries, train and score. Return seconds, metrics, certificate and device of its line.

    Torch computes with as many threads as before: Numba, which draws the noise, sets its own.
    """
    import torch

    from sfumato.pate._plan import choose_queries
    from sfumato.pate._run import fit_floor, fit_student, score

    start, threads = time.perf_counter(), torch.get_num_threads()
    images, device = _images(cell.dataset, str(data_dir)), _device()
    chosen = PateCell.read(dict(cell.settings))
    settings = chosen.plan_settings(cell.epsilon, cell.delta, cell.seed, device)
    random = chosen.rows == "random"
    rows = choose_queries(settings.num_queries, cell.seed) if random else np.arange(settings.num_queries)
    taught, certificate = _Taught(rows, images.test_y[rows], {}, 0.0), None
    if chosen.labels == "noisy":
        taught, certificate = _answered(chosen, settings, images, rows, data_dir, results)
    torch.set_num_threads(threads)
    began = time.perf_counter()
    if chosen.student == RIDGE:
        student: Any = fit_floor(images, taught.rows, taught.labels)
    else:
        student = fit_student(settings, images, taught.rows, taught.labels, None, "student")
    trained = time.perf_counter() - began
    scores = score(student, images)
    return {
        "seconds": {"train": trained, "teachers": taught.seconds, "total": time.perf_counter() - start},
        "metrics": {**scores, **taught.facts},
        "certificate": certificate,
        "device": device,
    }


@dataclass(frozen=True, eq=False)
class _Taught:
    """What the student learns from: rows of the pool and a label each; facts about them, and seconds of the teachers."""

    rows: NDArray[np.int64]
    labels: NDArray[np.int64]
    facts: dict[str, Any]
    seconds: float


def _answered(
    chosen: PateCell, settings: Settings, images: Images, rows: NDArray[np.int64], data_dir: str | Path,
    results: str | Path,
) -> tuple[_Taught, dict[str, Any] | None]:  # fmt: skip
    """The answers to rows of the pool, and the certificate of an accounting that has one."""
    from sfumato.nn._metrics import accuracy
    from sfumato.pate._aggregation import REFUSED
    from sfumato.pate._analysis import analyze
    from sfumato.pate._plan import make_plan
    from sfumato.pate._run import answer

    start = time.perf_counter()
    plan = make_plan(settings, images.num_classes)
    counts, key = banked(chosen, settings, images, data_dir, results)
    seconds, votes = time.perf_counter() - start, counts[rows]
    published = analyze(votes, plan.mechanism, settings.delta, as_published=True).epsilon
    if settings.accounting == "as-published" and published > _TOLERANCE * settings.epsilon:
        expected = f"to be at least {published:.4f}, what these votes cost as published"
        raise fail("epsilon", settings.epsilon, expected, "Add noise: raise sigma1 and sigma2, or the scale.")
    what = canonical_json([plan.mechanism.name, asdict(plan.mechanism), settings.answers])
    labels = answer(plan.mechanism, votes, settings, derive_key(key, "experiment", what)).labels
    given = labels != REFUSED
    if not given.any():
        raise SfumatoError(
            "The teachers answered no query, so no student can learn. Lower the threshold, or add queries."
        )
    truth = images.test_y[rows]
    facts = {
        "noisy_label_accuracy": accuracy(truth[given], labels[given]),
        "plurality_accuracy": accuracy(truth, votes.argmax(1)),
        "answered": int(given.sum()),
        "published_epsilon": published,
        "data_independent_epsilon": plan.epsilon,
    }
    certificate = None if settings.accounting == "as-published" else _certificate(plan)
    return _Taught(rows[given], labels[given], facts, seconds), certificate


def _certificate(plan: VotePlan) -> dict[str, Any]:
    """What a results line holds of a certificate."""
    from sfumato.pate._plan import UNIT

    return {
        "protects": UNIT.describe(),
        "claim": {"epsilon": plan.epsilon, "delta": plan.delta},
        "releases": [release.to_dict() for release in plan.releases],
        "assumed_public": [],
    }


@lru_cache(maxsize=1)
def _images(dataset: str, data_dir: str) -> Images:
    return load_svhn(data_dir) if dataset == SVHN else load_images(dataset, data_dir)


def _device() -> str:
    import torch

    return "cuda" if torch.cuda.is_available() else "cpu"
