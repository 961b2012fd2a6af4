r"""PATE from end to end: private images to teachers, noisy answers on public images, and a student that may leave.

**Formal guarantee.** The student, the answers and which queries were answered satisfy (claim epsilon, claim
delta)-differential privacy for one training record, replaced under its id, added or removed. *Proof.* Teachers:
:mod:`sfumato.pate.teachers`; answers: :mod:`sfumato.pate.aggregation`; the student is post-processing. Queries are rows of
the public pool chosen by a public seed before the first answer; the run stops at public caps on queries and answers; a
refused query costs what an answered one's threshold costs; noise is calibrated to the data-independent cost of the caps.
Nothing that votes decide stops, tunes or calibrates anything.

**Rows.** As in the papers: rows 0 to 8999 of the test file are the public pool, rows 9000 to 9999 measure the student and
are never in the pool; all training rows are private.

**Folder.** ``ledger.jsonl`` is charged before the first answer, and stays if the run is stopped. ``release/`` appears at
the end, whole: weights, queries and answers, claim and ledger. ``evaluation/metrics.json`` reads true labels and clean
votes: NOT COVERED BY THE GUARANTEE.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
import shutil
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sfumato._validate import check_choice, check_int, check_real, fail
from sfumato.nn.metrics import accuracy, macro_f1
from sfumato.pate.aggregation import L1_SENSITIVITY, REFUSED, Answers, ConfidentGNMax, GNMax, LNMax, Mechanism
from sfumato.pate.analysis import analyze
from sfumato.pate.ensemble import IMAGE_SETTINGS, Ensemble
from sfumato.pate.images import Images
from sfumato.pate.release import release_epsilon
from sfumato.pate.student import STUDENT_SETTINGS
from sfumato.pate.votes import Votes
from sfumato.privacy import accounting, calibration
from sfumato.privacy.events import LaplaceEvent
from sfumato.privacy.ledger import Ledger, Release, canonical_json
from sfumato.privacy.noise import SAMPLER_TAU
from sfumato.privacy.release_folder import LEDGER, check_new_folder
from sfumato.privacy.units import RecordLevel, unit_to_dict

POOL = 9000
"""Rows of the test file before this one are the public pool; this one and later ones measure."""
MECHANISMS = ("confident-gnmax", "gnmax", "lnmax")
ACCOUNTING = ("data-independent", "released", "as-published")
STUDENTS = {
    "consistency": ("student", "ConsistencyStudent"),
    "gan": ("gan", "GANStudent"),
    "coteaching": ("coteaching", "CoTeaching"),
    "pate-plus": ("coteaching", "PATEPlus"),
    "pate-plus-plus": ("cleansing", "PATEPlusPlus"),
}
QUICK = {"consistency": {"channels": (8, 16), "steps": 300}}
QUICK_TEACHERS, QUICK_QUERIES = 50, 100
_UNIT = RecordLevel(relation="replace")
_THRESHOLD, _ANSWERED, _THRESHOLD_SHARE = 0.8, 0.5, 0.1  # of the teachers, of the queries, of the squared noise budget
_PUBLISHED_NOISE = {"threshold": 200 / 250, "sigma1": 150 / 250, "sigma2": 40 / 250, "scale": 20 / 250}  # a teacher
Progress = Callable[[str, int, int], None]


@dataclass(frozen=True)
class Settings:
    """Public settings of a run, fixed before any data is read.

    Args:
        num_teachers: parts of the private data.
        num_queries: public images put to the teachers, the first cap.
        epsilon: what the run may cost; binds as ``accounting`` says.
        delta: failure probability.
        mechanism: a name, whose noise is calibrated (``accounting="data-independent"``) or published, or the mechanism itself.
        accounting: "data-independent" (epsilon binds before data is read), "released" (the noisy epsilon told afterwards decides
            whether the student may leave) or "as-published" (data-dependent, for tables: nothing may leave).
        max_answers: of confident-gnmax, the second cap; half of the queries by default.
        student: one of ``STUDENTS``.
        student_settings: of its constructor, beside the number of classes and the seed.
        quick: at most 50 teachers and 100 queries, small networks, few steps.
        gnss: order, beta and noise of the released epsilon, see :func:`sfumato.pate.release.release_epsilon`.
        controls: whether the ceiling, a second student on true labels, is trained.
        seed: of teachers, queries and student. Public; noise has a key of its own.
        device: of the teachers, "cpu" or "cuda".

    Raises:
        InputError: a setting out of range.

    >>> Settings(250, 2200, 5.04).answers
    1100
    """

    num_teachers: int
    num_queries: int
    epsilon: float
    delta: float = 1e-5
    mechanism: str | Mechanism = "confident-gnmax"
    accounting: str = "data-independent"
    max_answers: int | None = None
    student: str = "consistency"
    student_settings: dict[str, Any] = field(default_factory=dict)
    quick: bool = False
    gnss: tuple[float, float, float] = (8.0, 0.025, 4.0)
    controls: bool = True
    seed: int = 0
    device: str = "cpu"

    def __post_init__(self) -> None:
        if self.quick:
            object.__setattr__(self, "num_teachers", min(self.num_teachers, QUICK_TEACHERS))
            object.__setattr__(self, "num_queries", min(self.num_queries, QUICK_QUERIES))
        check_int(low=1, num_teachers=self.num_teachers)
        remedy = f"The public pool is rows 0 to {POOL - 1} of the test file."
        check_int(remedy, low=1, high=POOL, num_queries=self.num_queries)
        check_real(low=0, open_low=True, epsilon=self.epsilon)
        check_real(low=0, high=1, open_low=True, open_high=True, delta=self.delta)
        check_choice(MECHANISMS, mechanism=self.mechanism_name)
        check_choice(ACCOUNTING, accounting=self.accounting)
        check_choice(tuple(STUDENTS), student=self.student)
        check_int(low=0, seed=self.seed)
        if self.max_answers is not None:
            if self.mechanism_name != ConfidentGNMax.name:
                raise fail("max_answers", self.max_answers, "to be None", "Only confident-gnmax refuses queries.")
            check_int(low=1, high=self.num_queries, max_answers=self.max_answers)

    @property
    def mechanism_name(self) -> str:
        """As on the command line."""
        return self.mechanism if isinstance(self.mechanism, str) else self.mechanism.name

    @property
    def answers(self) -> int:
        """The cap on answers."""
        if self.mechanism_name != ConfidentGNMax.name:
            return self.num_queries
        return self.max_answers or math.ceil(_ANSWERED * self.num_queries)


@dataclass(frozen=True)
class Plan:
    """What will be charged: known before data is read.

    ``epsilon`` is the data-independent cost of all answers at ``delta``, that of the noise sampler included.
    """

    mechanism: Mechanism
    releases: tuple[Release, ...]
    epsilon: float
    delta: float
    delta_sampler: float

    def to_dict(self) -> dict[str, Any]:
        """The plan entry of the ledger."""
        return {
            "method": "pate",
            "unit": unit_to_dict(_UNIT),
            "claim": {"epsilon": self.epsilon, "delta": self.delta},
            "delta_sampler": self.delta_sampler,
        }


def make_plan(settings: Settings, num_classes: int = 10) -> Plan:
    """Fix the noise and what it costs, from public numbers alone.

    A tenth of the squared noise budget goes to the threshold of confident-gnmax, which stands at 0.8 of the teachers.

    **Formal guarantee.** With ``accounting="data-independent"`` the plan costs at most the budget.

    Raises:
        InputError: a mechanism with given noise costs more, or cannot tell its epsilon.

    >>> plan = make_plan(Settings(250, 2200, 5.04))
    >>> round(plan.mechanism.threshold_stddev, 1), round(plan.mechanism.noise_stddev, 1), round(plan.epsilon, 3)
    (131.4, 43.8, 5.04)
    """
    caps, epsilon, delta = (settings.num_queries, settings.answers), settings.epsilon, settings.delta
    draws = caps[0] * (settings.mechanism_name == ConfidentGNMax.name) + caps[1] * num_classes
    name, given = settings.mechanism_name, settings.mechanism
    if not isinstance(given, str):
        mechanism = given
    elif settings.accounting == "data-independent":
        left = calibration.effective_delta(delta, epsilon, draws)
        mechanism = _calibrated(name, settings.num_teachers, caps, epsilon, left)
    else:
        mechanism = _published(name, settings.num_teachers)
    events = mechanism.events(*caps) if isinstance(mechanism, ConfidentGNMax) else mechanism.events(caps[0])
    names = ("threshold", "answers") if len(events) > 1 else ("answers",)
    releases = tuple(
        Release(release, event, (caps[0],), num_classes if release == "answers" else 1)
        for release, event in zip(names, events, strict=True)
    )
    free = settings.accounting != "data-independent"
    most = (
        accounting.epsilon(events, delta / 2) if free else epsilon
    )  # the sampler's share of delta is that of this epsilon
    cost = accounting.epsilon(events, calibration.effective_delta(delta, most, draws))
    if cost > most:
        remedy = "Add noise, lower the caps, or leave the noise out: it is calibrated."
        raise fail("epsilon", epsilon, f"to be at least {cost:.4f}, what this noise costs", remedy)
    if settings.accounting == "released":  # whether it can be told is known before data is read
        _told(np.full((1, num_classes), settings.num_teachers), mechanism, settings)
    return Plan(mechanism, releases, cost, delta, (1 + math.exp(cost)) * SAMPLER_TAU * draws)


def choose_queries(num_queries: int, seed: int) -> NDArray[np.int64]:
    """Rows of the public pool to ask about, by a public seed: no image, vote or label has a say.

    >>> choose_queries(3, seed=0).tolist()
    [3090, 5624, 772]
    """
    return np.random.default_rng([seed, POOL]).permutation(POOL)[:num_queries].astype(np.int64)


def run(
    settings: Settings, images: Images, out: str | Path, *, progress: Progress | None = None, votes: Votes | None = None
) -> dict[str, Any]:
    """Train teachers, ask them, train a student, and write the run folder; return its metrics.

    Args:
        settings: public.
        images: private training rows; test rows, of which the first 9000 are the public pool.
        out: a new folder.
        progress: called with (stage, done, total).
        votes: counts [9000, classes] of teachers that were trained before, for repetitions; theirs is the partition then.

    Raises:
        InputError: the folder exists, or a setting does not fit.
    """
    out, start = Path(out), time.perf_counter()
    check_new_folder(out)
    plan = make_plan(settings, images.num_classes)
    rows = choose_queries(settings.num_queries, settings.seed)
    asked_votes = _ask(settings, images, rows, progress) if votes is None else votes[rows]
    trained = time.perf_counter()
    out.mkdir(parents=True, exist_ok=True)
    ledger = Ledger(plan.to_dict(), plan.releases, out / LEDGER)
    for release in plan.releases:
        ledger.charge(release.name)
    answers = _answer(plan.mechanism, asked_votes, settings)
    given = answers.labels != REFUSED
    if not given.any():
        raise fail("the number of answers", 0, "to be at least 1", "Lower the threshold; the queries stay charged.")
    student = _fit(settings, images, rows[given], answers.labels[given], progress, "student")
    learned = time.perf_counter()
    privacy = _privacy(settings, plan, asked_votes)
    metrics = {
        **_facts(settings, plan, images, answers),
        "privacy": privacy,
        **_scores(settings, images, rows, asked_votes, answers, student, progress),
        "seconds": {
            "teachers": trained - start,
            "student": learned - trained,
            "total": time.perf_counter() - start,
        },
    }
    _write_whole(out / "evaluation", {"metrics.json": (json.dumps(metrics, indent=1) + "\n").encode()})
    if privacy["releasable"]:
        _write_release(out, settings, plan, ledger, privacy, (rows, answers), weights_of(student))
    return metrics


def make_student(settings: Settings, dataset: str, num_classes: int) -> Any:
    """Construct the student that the settings name, with the augmentation of a named data set.

    >>> make_student(Settings(250, 100, 2.0), "mnist", 10).slanted
    True
    """
    module, name = STUDENTS[settings.student]
    chosen: dict[str, Any] = {"num_classes": num_classes, "seed": settings.seed}
    if settings.student == "consistency":
        chosen |= STUDENT_SETTINGS.get(dataset, {})
    if settings.quick:
        chosen |= QUICK.get(settings.student, {"epochs": 3})
    return getattr(import_module(f"sfumato.pate.{module}"), name)(**{**chosen, **settings.student_settings})


def weights_of(student: Any) -> dict[str, NDArray[Any]]:
    """The networks of a trained student by name: what a release holds.

    >>> from sfumato.pate.student import NetworkStudent, image_network
    >>> len(weights_of(NetworkStudent(image_network(1, (4, 4), 2))))
    10
    """
    networks = {"network": student.network} if hasattr(student, "network") else {
        f"discriminator/{i}": network for i, network in enumerate(student.discriminators)
    }  # fmt: skip
    return {
        f"{name}.{key}": value.detach().cpu().numpy()
        for name, network in networks.items()
        for key, value in network.state_dict().items()
    }


def _calibrated(name: str, teachers: int, caps: tuple[int, int], epsilon: float, delta: float) -> Mechanism:
    queries, answers = caps
    if name == LNMax.name:
        multiplier = calibration.calibrate(lambda z: [LaplaceEvent(z, queries)], epsilon, delta)
        return LNMax(multiplier * L1_SENSITIVITY)
    multiplier = calibration.gaussian_noise_multiplier(epsilon, delta)  # of one release that costs as much as all
    if name == GNMax.name:
        return GNMax(multiplier * math.sqrt(2 * queries))
    return ConfidentGNMax(
        _THRESHOLD * teachers,
        multiplier * math.sqrt(queries / _THRESHOLD_SHARE),
        multiplier * math.sqrt(2 * answers / (1 - _THRESHOLD_SHARE)),
    )


def _published(name: str, teachers: int) -> Mechanism:
    noise = {key: share * teachers for key, share in _PUBLISHED_NOISE.items()}
    if name == LNMax.name:
        return LNMax(noise["scale"])
    if name == GNMax.name:
        return GNMax(noise["sigma2"])
    return ConfidentGNMax(noise["threshold"], noise["sigma1"], noise["sigma2"])


def _ask(settings: Settings, images: Images, rows: NDArray[np.int64], progress: Progress | None) -> Votes:
    """Train the teachers on all training rows, whose numbers are their ids, and count their votes on the queries."""
    small: dict[str, Any] = {"widths": (8, 16), "steps": 200} if settings.quick else {}
    ensemble = Ensemble(
        settings.num_teachers,
        images.num_classes,
        seed=settings.seed,
        device=settings.device,
        **IMAGE_SETTINGS.get(images.name, {}),
        **small,
    )
    teachers = ensemble.fit(images.train_x, images.train_y, range(len(images.train_y)), _stage(progress, "teachers"))
    return teachers.votes(images.test_x[rows])


def _answer(mechanism: Mechanism, votes: Votes, settings: Settings) -> Answers:
    if isinstance(mechanism, ConfidentGNMax):
        return mechanism.aggregate(votes, max_answers=settings.answers)
    return mechanism.aggregate(votes)


def _fit(
    settings: Settings,
    images: Images,
    rows: NDArray[np.int64],
    labels: NDArray[np.int64],
    progress: Progress | None,
    stage: str,
) -> Any:
    """A student of labels for rows of the pool, whose other rows are unlabeled."""
    others = np.setdiff1d(np.arange(POOL), rows)
    student = make_student(settings, images.name, images.num_classes)
    return student.fit(images.test_x[rows], labels, images.test_x[others], progress=_stage(progress, stage))


def _privacy(settings: Settings, plan: Plan, votes: Votes) -> dict[str, Any]:
    """What the run cost in the chosen accounting, and whether the student may leave."""
    told: dict[str, Any] = {"epsilon": plan.epsilon, "releasable": True}
    if settings.accounting == "released":
        result = _told(votes, plan.mechanism, settings)
        told = {"epsilon": result.epsilon, "releasable": result.epsilon <= settings.epsilon}
        told["confidence"] = result.confidence
    elif settings.accounting == "as-published":
        found = analyze(votes, plan.mechanism, settings.delta, as_published=True)
        told = {"epsilon": found.epsilon, "releasable": False, "order": found.order, "answered": found.answered}
    return {
        "unit": _UNIT.name,
        "relation": _UNIT.relation,
        "accounting": settings.accounting,
        "budget": settings.epsilon,
        "delta": settings.delta,
        "data_independent_epsilon": plan.epsilon,
        "certificate": False,
        **told,
    }


def _told(votes: Votes, mechanism: Mechanism, settings: Settings) -> Any:
    order, beta, noise = settings.gnss
    return release_epsilon(votes, mechanism, settings.delta, order=order, beta=beta, noise=noise)


def _facts(settings: Settings, plan: Plan, images: Images, answers: Answers) -> dict[str, Any]:
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
    rows: NDArray[np.int64],
    votes: Votes,
    answers: Answers,
    student: Any,
    progress: Progress | None,
) -> dict[str, Any]:
    """Accuracies, which read true labels and clean votes: not covered by the guarantee."""
    given = answers.labels != REFUSED
    truth, labels = images.test_y[rows], answers.labels[given]
    ceiling = _fit(settings, images, rows[given], truth[given], progress, "ceiling") if settings.controls else None
    floor = _Ridge(images.test_x[rows[given]], labels, images.num_classes)
    return {
        "noisy_label_accuracy": accuracy(truth[given], labels),
        "plurality_accuracy": accuracy(truth, votes.argmax(1)),
        "plurality_accuracy_answered": accuracy(truth[given], votes[given].argmax(1)),
        "student": _score(student, images),
        "ceiling": _score(ceiling, images),
        "floor": _score(floor, images),
        "evaluation_private": False,
    }


def _score(model: Any, images: Images) -> dict[str, float] | None:
    if model is None:
        return None
    truth, found = images.test_y[POOL:], model.predict(images.test_x[POOL:])
    return {"accuracy": accuracy(truth, found), "macro_f1": macro_f1(truth, found, images.num_classes)}


class _Ridge:
    """The floor: least squares on the pixels of the answered queries, without the pool."""

    def __init__(self, x: NDArray[np.float32], y: NDArray[np.int64], num_classes: int) -> None:
        rows = self._rows(x)
        self.weights = np.linalg.solve(rows.T @ rows + 10.0 * np.eye(rows.shape[1]), rows.T @ np.eye(num_classes)[y])

    def predict(self, x: NDArray[np.float32]) -> NDArray[np.int64]:
        return np.asarray((self._rows(x) @ self.weights).argmax(1))

    def _rows(self, x: NDArray[np.float32]) -> NDArray[np.float64]:
        flat = x.reshape(len(x), -1).astype(np.float64)
        return np.concatenate([flat, np.ones((len(x), 1))], 1)


def _write_release(
    out: Path,
    settings: Settings,
    plan: Plan,
    ledger: Ledger,
    privacy: dict[str, Any],
    asked: tuple[NDArray[np.int64], Answers],
    weights: dict[str, NDArray[Any]],
) -> None:
    from safetensors.numpy import save

    rows, answers = asked
    spec = {
        "format": 1,
        "method": "pate",
        "protects": _UNIT.describe(),
        "privacy": privacy,
        "mechanism": {"name": plan.mechanism.name, **asdict(plan.mechanism)},
        "caps": {"queries": settings.num_queries, "answers": settings.answers},
        "teachers": settings.num_teachers,
        "student": {"name": settings.student, "settings": settings.student_settings, "quick": settings.quick},
        "public_pool": f"rows 0 to {POOL - 1} of the test file; queries chosen by seed {settings.seed}",
        "note": "This release has no certificate.json: `sfumato verify` does not know PATE yet.",
    }
    files = {
        LEDGER: ledger.text().encode(),
        "spec.json": (canonical_json(spec) + "\n").encode(),
        "model.safetensors": save({key: np.ascontiguousarray(value) for key, value in weights.items()}),
        "releases.safetensors": save({"queries": rows, "answers": answers.labels.astype(np.int64)}),
    }
    digests = {name: hashlib.sha256(content).hexdigest() for name, content in sorted(files.items())}
    files["manifest.json"] = (canonical_json({"format": 1, "files": digests}) + "\n").encode()
    _write_whole(out / "release", files)


def _write_whole(folder: Path, files: dict[str, bytes]) -> None:
    """Write a folder that appears with all its files, or not at all."""
    partial = folder.with_name(folder.name + ".partial")
    try:
        partial.mkdir()
        for name, content in files.items():
            with (partial / name).open("wb") as file:
                file.write(content)
                file.flush()
                os.fsync(file.fileno())
        partial.rename(folder)
    finally:
        shutil.rmtree(partial, ignore_errors=True)


def _stage(progress: Progress | None, stage: str) -> Callable[[int, int], None] | None:
    return None if progress is None else lambda done, total: progress(stage, done, total)
