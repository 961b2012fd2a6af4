"""Cells of method "pate": votes that are trained once and kept for all cells of a seed, and one student a cell.

``<results>/teachers/<digest>.npy`` holds the counts [pool, classes] of an ensemble on the public pool, and
``<results>/teachers/<digest>.key`` the noise key; the digest is of the images, their labels and the ensemble, so that other
images of the same name get votes of their own. All cells of a seed share both files, so that students under one mechanism
learn from the same answers: released once, charged once. Both are private (mode 600): whoever reads them reads clean votes.
Delete the folder to train anew; a new key draws new answers, whose cost no ledger adds.

**Accounting.** With ``accounting = "as-published"`` the epsilon of a cell bounds the papers' data-dependent one, computed
from clean votes to within half a percent: a cell whose votes cost more fails. It is no guarantee and comes without a certificate.
"""

from __future__ import annotations

import time
from dataclasses import asdict
from functools import lru_cache
from hashlib import sha256
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from filelock import FileLock

from sfumato._validate import fail
from sfumato.evaluation._memory import peak_mb, reset_peak
from sfumato.experiments._cells import empty_row, stated
from sfumato.experiments._pate_settings import OFFICIAL_TEACHERS, PateCell
from sfumato.experiments._tables import known
from sfumato.noise.keys import Key, derive_key, new_key
from sfumato.pate._images import IMAGE_DATASETS, SVHN, Images, load_images, load_svhn
from sfumato.record._sealed import digest, write_private
from sfumato.record.ledger import canonical_json

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from sfumato.experiments._cells import Cell, Row
    from sfumato.experiments._runs import Run
    from sfumato.pate._ensemble import Ensemble
    from sfumato.pate._kernel import KernelEnsemble
    from sfumato.pate._plan import Settings
    from sfumato.pate._votes import Votes

DATASETS = (*IMAGE_DATASETS, SVHN)
_OFFICIAL = ("mnist", SVHN)
_TOLERANCE = 1.005


def banked(chosen: PateCell, images: Images, data_dir: str | Path, results: str | Path) -> tuple[Votes, Key]:
    """Return counts [pool, classes] on the public pool, and the key of their noise. Teachers are trained only once.

    One process trains at a time; another process that needs the same teachers waits for it.
    """
    from sfumato.pate._plan import pool_of
    from sfumato.pate._run import make_ensemble
    from sfumato.pate._votes import read_votes

    ensemble, pool = make_ensemble(chosen.plan, images.name, images.num_classes), pool_of(images.name)
    place = Path(results) / "teachers" / votes_digest(images, ensemble, official=not chosen.own)
    place.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    with FileLock(place.with_suffix(".lock")):
        path, held = place.with_suffix(".npy"), place.with_suffix(".key")
        if not chosen.own:
            path = Path(data_dir) / "pate_votes" / f"{images.name}_{OFFICIAL_TEACHERS}_teachers.npy"
        elif not path.exists():
            teachers = ensemble.fit(images.train_x, images.train_y, range(len(images.train_y)))
            content = BytesIO()
            np.save(content, teachers.votes(images.test_x[:pool]))
            write_private(path, content.getvalue())
        if not held.exists():
            write_private(held, new_key())
        counts, key = read_votes(path)[:pool], held.read_bytes()
    if counts.shape != (pool, images.num_classes) or counts[0].sum() != ensemble.num_teachers:
        found = f"{list(counts.shape)}, {counts[0].sum()} votes a row"
        expected = f"to hold {pool} rows of {images.num_classes} classes and {ensemble.num_teachers} votes"
        raise fail(str(path), found, expected, "Delete it: its teachers will be trained anew.")
    return counts, key


def votes_digest(images: Images, ensemble: Ensemble | KernelEnsemble, *, official: bool = False) -> str:
    """Return a digest that names the votes of an ensemble. It does not depend on the device of the training.

    >>> from sfumato.pate._ensemble import Ensemble
    >>> from sfumato.pate._images import Images
    >>> x, y = np.zeros((2, 1, 28, 28), np.float32), np.zeros(2, np.int64)
    >>> images, others = Images("mnist", x, y, x, y), Images("mnist", x, y + 1, x, y)
    >>> votes_digest(images, Ensemble(250, 10)) == votes_digest(images, Ensemble(250, 10, seed=1))
    False
    >>> votes_digest(images, Ensemble(250, 10)) == votes_digest(others, Ensemble(250, 10))
    False
    """
    settings = {**asdict(ensemble), "device": None}
    return sha256(canonical_json([images.name, _contents(images), official, settings]).encode()).hexdigest()


@lru_cache(maxsize=1)
def _contents(images: Images) -> str:
    """Digest of what votes depend on: all but the labels of test images."""
    return digest(images.train_x, images.train_y, images.test_x)


def check_pate(run: Run, dataset: str) -> None:
    from sfumato.pate._plan import make_plan
    from sfumato.pate._run import make_student

    known("dataset", dataset, DATASETS)
    for value, epsilon in run.points:
        chosen = PateCell.read(dict(run.at(value, epsilon)[0]), epsilon, run.delta)
        private = chosen.labels != "true"
        unit = "record" if private else "none"
        if run.unit != unit:
            raise fail("unit", run.unit, f"to be {unit}, as labels = {chosen.labels!r} needs")
        if private and epsilon is None:
            raise fail("epsilons", [], "to hold a budget, which the teachers' answers spend")
        if not chosen.own and dataset not in _OFFICIAL:
            raise fail("dataset", dataset, f"to be {' or '.join(_OFFICIAL)}, whose votes are stored")
        if private and chosen.own and dataset == SVHN:
            raise fail("votes", "own", f"to be official for {SVHN}", "Teachers learn from images of 28 x 28.")
        make_student(chosen.plan, dataset, 10)
        if private:
            make_plan(chosen.plan)


def run_pate(cell: Cell, data_dir: str | Path, results: str | Path) -> Row:
    """Run one cell: answer queries, train and score. Return what its line holds beyond the cell itself.

    Torch computes with as many threads as before: Numba, which draws the noise, sets its own.
    """
    import torch

    from sfumato.pate._plan import choose_queries
    from sfumato.pate._run import fit_floor, fit_student, score

    reset_peak()
    start, threads = time.perf_counter(), torch.get_num_threads()
    images, device = _images(cell.dataset, str(data_dir)), _device()
    chosen = PateCell.read(dict(cell.settings), cell.epsilon, cell.delta, cell.seed, device)
    queries = chosen.plan.num_queries
    rows = choose_queries(queries, cell.seed) if chosen.rows == "random" else np.arange(queries)
    found: dict[str, Any] = {}
    labels, taught, certificate = images.test_y[rows], 0.0, None
    if chosen.labels == "noisy":
        asked = time.perf_counter()
        votes, key = banked(chosen, images, data_dir, results)
        taught = time.perf_counter() - asked
        rows, labels, found, certificate = _answered(chosen.plan, images, rows, votes[rows], key)
    torch.set_num_threads(threads)
    began = time.perf_counter()
    if chosen.ridge:
        student: Any = fit_floor(images, rows, labels)
    else:
        student = fit_student(chosen.plan, images, rows, labels, None, "student")
    trained = time.perf_counter() - began
    scores = score(student, images)
    return {
        **empty_row("done"),
        "seconds": {"train": trained, "teachers": taught, "total": time.perf_counter() - start},
        "metrics": {**scores, **found},
        "certificate": certificate,
        "device": device,
        "peak_mb": peak_mb(),
    }


def _answered(
    settings: Settings, images: Images, rows: NDArray[np.int64], votes: Votes, key: Key
) -> tuple[NDArray[np.int64], NDArray[np.int64], dict[str, Any], dict[str, Any] | None]:
    """The answered rows, their answers, facts about them, and the certificate of an accounting that has one."""
    from sfumato.pate._aggregation import REFUSED
    from sfumato.pate._analysis import analyze
    from sfumato.pate._plan import make_plan
    from sfumato.pate._run import answered

    plan = make_plan(settings, images.num_classes)
    published = analyze(votes, plan.mechanism, settings.delta, as_published=True).epsilon
    if settings.accounting == "as-published" and published > _TOLERANCE * settings.epsilon:
        expected = f"to be at least {published:.4f}, what these votes cost as published"
        raise fail("epsilon", settings.epsilon, expected, "Add noise: raise sigma1 and sigma2, or the scale.")
    what = canonical_json([plan.mechanism.name, asdict(plan.mechanism), settings.answers])
    key = derive_key(key, "experiment", what)
    answers, scores = answered(plan.mechanism, votes, images.test_y[rows], settings, key)
    del scores["plurality_accuracy_answered"]
    facts = {
        **scores,
        "answered": answers.answered,
        "published_epsilon": published,
        "data_independent_epsilon": plan.epsilon,
    }
    given = answers.labels != REFUSED
    certificate = None if settings.accounting == "as-published" else stated(plan.unit, plan)
    return rows[given], answers.labels[given], facts, certificate


@lru_cache(maxsize=1)
def _images(dataset: str, data_dir: str) -> Images:
    return load_svhn(data_dir) if dataset == SVHN else load_images(dataset, data_dir)


def _device() -> str:
    import torch

    return "cuda" if torch.cuda.is_available() else "cpu"
