"""Cells of method "pate": flat settings, votes that are trained once and kept, and one student a cell.

**Votes.** ``<results>/teachers/<digest>.npy`` holds the counts [9000, classes] of an ensemble on the public pool, and
``<results>/teachers/<digest>.key`` the noise key; the digest is of the images, their labels and the ensemble, so that other
images of the same name get votes of their own. All cells of a seed share both files, so that students under one mechanism
learn from the same answers: released once, charged once. Both are private (mode 600): whoever reads them reads clean votes.
Delete the folder to train anew.

**Accounting.** With ``accounting = "as-published"`` the epsilon of a cell bounds the papers' data-dependent one, computed
from clean votes: a cell whose votes cost more fails. It is no guarantee and comes without a certificate.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import Field, asdict, dataclass, field, fields
from functools import lru_cache
from hashlib import sha256
from importlib import import_module
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from filelock import FileLock

from sfumato._validate import check_choice, fail
from sfumato.errors import SfumatoError
from sfumato.experiments._tables import known
from sfumato.pate.images import IMAGE_DATASETS, Images, load_images
from sfumato.pate.sealed import digest, write_private
from sfumato.privacy.ledger import canonical_json
from sfumato.privacy.noise import Key, derive_key, new_key

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from sfumato.experiments.cells import Cell
    from sfumato.experiments.runs import Run
    from sfumato.pate.aggregation import Mechanism
    from sfumato.pate.ensemble import Ensemble
    from sfumato.pate.kernel import KernelEnsemble
    from sfumato.pate.plan import Plan, Settings
    from sfumato.pate.votes import Votes

METHOD = "pate"
RIDGE = "ridge"
_NOISE = {"lnmax": ("scale",), "gnmax": ("sigma2",), "confident-gnmax": ("threshold", "sigma1", "sigma2")}
_OFFICIAL, _OFFICIAL_DATASET = 250, "mnist"
_TOLERANCE = 1.005
_PREFIX = "student_"
_OURS = ("num_classes", "seed", "device")  # of a student, decided by the cell


@dataclass(frozen=True)
class PateCell:
    """Settings of a cell as a specification writes them.

    Args:
        votes: "own" (teachers are trained) or "official" (the stored counts for MNIST, 250 teachers).
        teachers: parts of the private data.
        teacher: their kind, kernel or cnn.
        queries: public images put to the teachers.
        rows: "random" (by the cell's seed) or "first" rows of the public pool.
        labels: "noisy", or "true": the ceiling, a student of true labels of all queries.
        mechanism: lnmax (scale), gnmax (sigma2) or confident-gnmax (threshold, sigma1, sigma2).
        threshold, sigma1, sigma2, scale: its noise in votes; all or none. None calibrates it to the cell's epsilon, or takes
            the published noise if accounting is "as-published".
        accounting: "data-independent" (epsilon binds, and there is a certificate) or "as-published".
        max_answers: of confident-gnmax; half of the queries by default.
        student: a student of :mod:`sfumato.pate.plan`, or "ridge", least squares on pixels: the floor.
        quick: 50 teachers, 100 queries, small networks, few steps, and calibrated noise; the settings of these give way.
        student_settings: of the student, written with the prefix ``student_``; widths as "32,64,128".

    Raises:
        InputError: a setting that is unknown or out of range.

    >>> dict(PateCell.read({"student": "gan", "student_widths": "8,16,32"}).student_settings)
    {'widths': (8, 16, 32)}
    >>> PateCell.read({"sigma1": 150.0, "sigma2": 40.0, "threshold": 200.0}).with_noise()
    ConfidentGNMax(threshold=200.0, threshold_stddev=150.0, noise_stddev=40.0)
    """

    votes: str = "own"
    teachers: int = 250
    teacher: str = "kernel"
    queries: int = 1000
    rows: str = "random"
    labels: str = "noisy"
    mechanism: str = "confident-gnmax"
    threshold: float | None = None
    sigma1: float | None = None
    sigma2: float | None = None
    scale: float | None = None
    accounting: str = "data-independent"
    max_answers: int | None = None
    student: str = "consistency"
    quick: bool = False
    student_settings: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        check_choice(("own", "official"), votes=self.votes)
        check_choice(("random", "first"), rows=self.rows)
        check_choice(("noisy", "true"), labels=self.labels)
        check_choice(tuple(_NOISE), mechanism=self.mechanism)
        check_choice(("data-independent", "as-published"), accounting=self.accounting)
        if self.votes == "official" and (self.teachers != _OFFICIAL or self.quick):
            raise fail("votes", self.votes, f"to come with teachers = {_OFFICIAL}, and without quick")
        if type(self.quick) is not bool:
            raise fail("quick", self.quick, "to be true or false")
        given = [name for names in _NOISE.values() for name in names if getattr(self, name) is not None]
        if given and set(given) != set(_NOISE[self.mechanism]):
            expected = f"to be the noise of {self.mechanism}: {', '.join(_NOISE[self.mechanism])}"
            raise fail("settings", sorted(set(given)), expected, "Give all of it or none.")

    @classmethod
    def read(cls, settings: Mapping[str, Any]) -> PateCell:
        """Of flat settings."""
        own = [field.name for field in fields(cls) if field.name != "student_settings"]
        of_student = _student_defaults(settings.get("student", cls.student))
        names = [*own, *(_PREFIX + name for name in of_student)]
        for name in settings:
            known("setting of pate", name, names)
        found = {name: settings[_PREFIX + name] for name in of_student if _PREFIX + name in settings}
        for name, value in found.items():
            if isinstance(of_student[name], tuple):
                found[name] = _whole_numbers(_PREFIX + name, value)
            elif isinstance(of_student[name], bool) and type(value) is not bool:
                raise fail(_PREFIX + name, value, "to be true or false")
        return cls(**{name: settings[name] for name in own if name in settings}, student_settings=found)

    def plan_settings(self, epsilon: float | None, delta: float | None, seed: int = 0, device: str = "cpu") -> Settings:
        """As :mod:`sfumato.pate.plan` takes them."""
        from sfumato.pate.plan import Settings
        from sfumato.pate.run import QUICK

        ridge = self.student == RIDGE
        learned = dict(self.student_settings)
        if self.quick:
            small = QUICK.get(self.student, {})
            learned = {name: value for name, value in learned.items() if name not in small}
        if device != "cpu" and _takes_device(self.student):
            learned["device"] = device
        return Settings(
            self.teachers,
            self.queries,
            1.0 if epsilon is None else epsilon,
            1e-5 if delta is None else delta,
            mechanism=self.mechanism if self.quick else self.with_noise(),
            accounting="data-independent" if self.quick else self.accounting,
            max_answers=None if self.quick else self.max_answers,
            teacher=self.teacher,
            student="consistency" if ridge else self.student,
            student_settings=learned,
            quick=self.quick,
            controls=False,
            seed=seed,
            device=device,
        )

    def with_noise(self) -> str | Mechanism:
        """The mechanism with its noise, or its name where the noise is not given."""
        from sfumato.pate.plan import MECHANISMS

        noise = [getattr(self, name) for name in _NOISE[self.mechanism]]
        if None in noise:
            return self.mechanism
        made: Mechanism = MECHANISMS[self.mechanism](*noise)
        return made


def check_run(run: Run, dataset: str) -> None:
    """Whether every cell of a run could be run on a data set.

    Raises:
        InputError: a setting, the unit or the budget does not fit.
    """
    from sfumato.pate.plan import make_plan
    from sfumato.pate.run import make_student

    known("dataset", dataset, IMAGE_DATASETS)
    for value in run.values or (None,):
        for epsilon in run.epsilons or (None,):
            chosen = PateCell.read(dict(run.at(value, epsilon)[0]))
            unit = "none" if chosen.labels == "true" else "record"
            if run.unit != unit:
                raise fail("unit", run.unit, f"to be {unit}, as labels = {chosen.labels!r} needs")
            if unit == "record" and epsilon is None:
                raise fail("epsilons", [], "to hold a budget, which the teachers' answers spend")
            if chosen.votes == "official" and dataset != _OFFICIAL_DATASET:
                raise fail("dataset", dataset, f"to be {_OFFICIAL_DATASET}, whose votes are stored")
            settings = chosen.plan_settings(epsilon, run.delta)
            make_student(settings, dataset, 10)
            if unit == "record":
                make_plan(settings)


def run_pate(cell: Cell, data_dir: str | Path, results: str | Path) -> dict[str, Any]:
    """Answer, train and score one cell: seconds, metrics, certificate and device of its line.

    Torch computes with as many threads as before: Numba, which draws the noise, sets its own.

    Raises:
        InputError: as published, the votes cost more than the cell's epsilon.
        SfumatoError: no query is answered.
        DataError: images or votes are missing or damaged.
    """
    import torch

    from sfumato.pate.plan import choose_queries
    from sfumato.pate.ridge import Ridge
    from sfumato.pate.run import fit_student, score

    start, threads = time.perf_counter(), torch.get_num_threads()
    images, device = _images(cell.dataset, str(data_dir)), _device()
    chosen = PateCell.read(dict(cell.settings))
    settings = chosen.plan_settings(cell.epsilon, cell.delta, cell.seed, device)
    random = chosen.rows == "random"
    rows = choose_queries(settings.num_queries, cell.seed) if random else np.arange(settings.num_queries)
    taught, certificate = _Taught(rows, images.test_y[rows], {}, 0.0), None
    if chosen.labels == "noisy":
        taught, certificate = _answered(chosen, settings, cell, images, rows, data_dir, results)
    torch.set_num_threads(threads)
    began = time.perf_counter()
    if chosen.student == RIDGE:
        student = Ridge(images.test_x[taught.rows], taught.labels, images.num_classes)
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
    chosen: PateCell, settings: Settings, cell: Cell, images: Images, rows: NDArray[np.int64], data_dir: str | Path,
    results: str | Path,
) -> tuple[_Taught, dict[str, Any] | None]:  # fmt: skip
    """The answers to rows of the pool, and the certificate of an accounting that has one."""
    from sfumato.nn.metrics import accuracy
    from sfumato.pate.aggregation import REFUSED
    from sfumato.pate.analysis import analyze
    from sfumato.pate.plan import make_plan
    from sfumato.pate.run import answer

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


def _certificate(plan: Plan) -> dict[str, Any]:
    """What a results line holds of a certificate."""
    from sfumato.pate.plan import UNIT

    return {
        "protects": UNIT.describe(),
        "claim": {"epsilon": plan.epsilon, "delta": plan.delta},
        "releases": [release.to_dict() for release in plan.releases],
        "assumed_public": [],
    }


def banked(
    chosen: PateCell, settings: Settings, images: Images, data_dir: str | Path, results: str | Path
) -> tuple[Votes, Key]:
    """Counts [9000, classes] on the public pool, and the key of their noise; teachers are trained if no cell did before.

    One process trains at a time; another that needs the same teachers waits for it.
    """
    from sfumato.pate.plan import POOL
    from sfumato.pate.run import make_ensemble
    from sfumato.pate.votes import read_votes

    ensemble = make_ensemble(settings, images.name, images.num_classes)
    official = chosen.votes == "official"
    place = Path(results) / "teachers" / votes_digest(images, ensemble, official=official)
    place.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    with FileLock(place.with_suffix(".lock")):
        path, held = place.with_suffix(".npy"), place.with_suffix(".key")
        if official:
            path = Path(data_dir) / "pate_votes" / f"{images.name}_{_OFFICIAL}_teachers.npy"
        elif not path.exists():
            teachers = ensemble.fit(images.train_x, images.train_y, range(len(images.train_y)))
            content = BytesIO()
            np.save(content, teachers.votes(images.test_x[:POOL]))
            write_private(path, content.getvalue())
        if not held.exists():
            write_private(held, new_key())
        counts, key = read_votes(path), held.read_bytes()
    if counts.shape != (POOL, images.num_classes) or counts[0].sum() != ensemble.num_teachers:
        found = f"{list(counts.shape)}, {counts[0].sum()} votes a row"
        expected = f"to hold {POOL} rows of {images.num_classes} classes and {ensemble.num_teachers} votes"
        raise fail(str(path), found, expected, "Delete it: its teachers will be trained anew.")
    return counts, key


def votes_digest(images: Images, ensemble: Ensemble | KernelEnsemble, *, official: bool = False) -> str:
    """Names the votes of an ensemble of these images; the device it is trained on has no say.

    >>> from sfumato.pate.ensemble import Ensemble
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


@lru_cache(maxsize=1)
def _images(dataset: str, data_dir: str) -> Images:
    return load_images(dataset, data_dir)


def _device() -> str:
    import torch

    return "cuda" if torch.cuda.is_available() else "cpu"


def _student_defaults(name: str) -> dict[str, Any]:
    """The settings of a student that a specification may write, with their defaults."""
    return {field.name: field.default for field in _student_fields(name) if field.name not in _OURS}


def _takes_device(name: str) -> bool:
    return "device" in [field.name for field in _student_fields(name)]


def _student_fields(name: str) -> tuple[Field[Any], ...]:
    from sfumato.pate.plan import STUDENTS

    if known("student", name, (*STUDENTS, RIDGE)) == RIDGE:
        return ()
    module, chosen = STUDENTS[name]
    return fields(getattr(import_module(f"sfumato.pate.{module}"), chosen))


def _whole_numbers(name: str, value: Any) -> tuple[int, ...]:
    try:
        return tuple(int(part) for part in str(value).split(","))
    except ValueError as error:
        raise fail(name, value, "to be whole numbers with commas between, such as '32,64,128'") from error
