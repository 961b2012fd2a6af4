"""A plan says what a run of PATE will ask and cost: settings, noise and releases, fixed before any data is read."""

from __future__ import annotations

import hashlib
import math
from dataclasses import dataclass, field
from importlib import import_module
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from sfumato._validate import check_choice, check_int, check_real, fail
from sfumato.errors import InputError
from sfumato.method._engine import PlanEntry
from sfumato.noise._rectangles import SAMPLER_TAU
from sfumato.pate._aggregation import L1_SENSITIVITY, ConfidentGNMax, GNMax, LNMax, Mechanism
from sfumato.pate._epsilon_release import Released, release_epsilon
from sfumato.privacy import accounting, calibration
from sfumato.privacy.events import MOST, LaplaceEvent
from sfumato.privacy.promises import Caveat, warn, weak
from sfumato.privacy.units import RecordLevel
from sfumato.record.ledger import Release

if TYPE_CHECKING:
    from sfumato.pate._votes import Votes

POOL = 9000
"""Rows of the test file before this one are the public pool; this one and later ones measure."""
_POOLS = {"svhn": 10_000}
MECHANISMS = {kind.name: kind for kind in (ConfidentGNMax, GNMax, LNMax)}
NOISE = {"lnmax": ("scale",), "gnmax": ("sigma2",), "confident-gnmax": ("threshold", "sigma1", "sigma2")}
"""What options and specifications call the arguments of each mechanism, in their order."""
ACCOUNTING = ("data-independent", "released", "as-published")
TEACHERS = ("kernel", "cnn")
STUDENTS = {
    "consistency": ("consistency", "ConsistencyStudent"),
    "gan": ("gan", "GANStudent"),
    "coteaching": ("coteaching", "CoTeaching"),
    "pate-plus": ("coteaching", "PATEPlus"),
    "pate-plus-plus": ("cleansing", "PATEPlusPlus"),
}
QUICK_TEACHERS, QUICK_QUERIES = 50, 100
UNIT = RecordLevel(relation="replace")
"""One training record, replaced under its id; adding or removing it moves one vote as well."""
_THRESHOLD, _ANSWERED, _THRESHOLD_SHARE = 0.8, 0.5, 0.1  # of the teachers, of the queries, of the squared noise budget
_PUBLISHED_NOISE = {"threshold": 200 / 250, "sigma1": 150 / 250, "sigma2": 40 / 250, "scale": 20 / 250}  # a teacher


@dataclass(frozen=True)
class Settings:
    """Settings of a run are public and fixed before any data is read.

    The first cap is ``num_queries``, put to the teachers; ``max_answers`` is the second, for confident-gnmax alone,
    by default half of the queries. ``mechanism`` is a name, whose noise is calibrated (``accounting="data-independent"``) or
    published, or the mechanism itself. ``epsilon`` binds as ``accounting`` says: "data-independent" before data is read,
    "released" by the noisy epsilon told afterwards, by which the student may leave or not; with "as-published" nothing may.
    ``quick`` asks at most 50 teachers 100 queries and trains small networks. ``gnss`` are order, beta and noise of
    :func:`~sfumato.pate._epsilon_release.release_epsilon`. ``controls`` trains a second student on true labels, the ceiling.
    ``seed`` decides teachers, queries and student, and is public; noise has a key of its own.
    """

    num_teachers: int
    num_queries: int
    epsilon: float
    delta: float = 1e-5
    mechanism: str | Mechanism = "confident-gnmax"
    accounting: str = "data-independent"
    max_answers: int | None = None
    teacher: str = "kernel"
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
        check_choice(tuple(MECHANISMS), mechanism=self.mechanism_name)
        check_choice(ACCOUNTING, accounting=self.accounting)
        check_choice(TEACHERS, teacher=self.teacher)
        check_choice(tuple(STUDENTS), student=self.student)
        check_int(low=0, high=MOST, seed=self.seed)
        if self.num_queries == POOL and self.student != "consistency":
            raise fail(
                "num_queries", self.num_queries, f"to be below {POOL}", "This student needs unlabeled images too."
            )
        if self.max_answers is not None:
            if self.mechanism_name != ConfidentGNMax.name:
                raise fail("max_answers", self.max_answers, "to be None", "Only confident-gnmax refuses queries.")
            remedy = f"There are as many queries: quick asks {QUICK_QUERIES} at most." if self.quick else ""
            check_int(remedy, low=1, high=self.num_queries, max_answers=self.max_answers)

    @property
    def mechanism_name(self) -> str:
        return self.mechanism if isinstance(self.mechanism, str) else self.mechanism.name

    @property
    def answers(self) -> int:
        if self.mechanism_name != ConfidentGNMax.name:
            return self.num_queries
        return self.max_answers or math.ceil(_ANSWERED * self.num_queries)


@dataclass(frozen=True)
class VotePlan(PlanEntry):
    """What a run of PATE will charge, and the mechanism that answers; ``epsilon`` is the data-independent cost at ``delta``."""

    epsilon: float
    delta: float
    mechanism: Mechanism

    def caveats(self, num_teachers: int) -> tuple[Caveat, ...]:
        """List what is implausible about the plan; the number of teachers stands for that of the records."""
        found = [*weak(self.epsilon, self.delta, num_teachers, "teachers")]
        mechanism = self.mechanism
        deviation = mechanism.scale * math.sqrt(2) if isinstance(mechanism, LNMax) else mechanism.noise_stddev
        if num_teachers < 2 * deviation:
            text = (
                f"{num_teachers} teachers are fewer than two standard deviations of the noise on a count of votes: answers are "
                "close to random even where all agree. Take more teachers, fewer queries or a larger epsilon."
            )
            found.append(Caveat("noisy-votes", text))
        return tuple(found)


def make_plan(settings: Settings, num_classes: int = 10) -> VotePlan:
    """Calibrate the noise and what it costs, from public numbers alone.

    A tenth of the squared noise budget goes to the threshold of confident-gnmax, which stands at 0.8 of the teachers.

    **Formal guarantee.** With ``accounting="data-independent"`` the plan costs at most the budget.

    With ``accounting="released"`` the plan holds the answers alone, and ``epsilon`` is theirs. Telling the epsilon afterwards is
    a release too, but no event of it can be charged beforehand: its cost is known at one order only, is added to the divergence
    of the answers there, and so is part of the number told (:func:`sfumato.pate._epsilon_release.release_epsilon`).
    """
    caps, epsilon, delta = (settings.num_queries, settings.answers), settings.epsilon, settings.delta
    draws = caps[0] * (settings.mechanism_name == ConfidentGNMax.name) + caps[1] * num_classes
    name, given = settings.mechanism_name, settings.mechanism
    if not isinstance(given, str):
        mechanism = given
    elif settings.accounting == "data-independent":
        mechanism = _calibrated(name, settings.num_teachers, caps, epsilon, _left(settings, epsilon, draws))
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
    cost = accounting.epsilon(events, _left(settings, most, draws))
    if cost > most:
        remedy = "Add noise, lower the caps, or leave the noise out: it is calibrated."
        raise fail("epsilon", epsilon, f"to be at least {cost:.4f}, what this noise costs", remedy)
    if settings.accounting == "released":  # whether it can be told is known before data is read
        told(np.full((1, num_classes), settings.num_teachers), mechanism, settings)
    sampler = (1 + math.exp(cost)) * SAMPLER_TAU * draws
    plan = VotePlan("pate", UNIT, releases, cost, delta, sampler, mechanism)
    warn(plan.caveats(settings.num_teachers))
    return plan


def pool_of(dataset: str) -> int:
    """Return how many of the first test rows of a data set are its public pool."""
    return _POOLS.get(dataset, POOL)


def choose_queries(num_queries: int, seed: int) -> NDArray[np.int64]:
    """Choose the rows of the public pool to ask about, by a public seed; no image, vote or label takes part.

    They are the first of all rows in the order of SHA-256("query SEED ROW"), which a verifier repeats.
    """
    digests = [hashlib.sha256(f"query {seed} {row}".encode()).digest() for row in range(POOL)]
    return np.array(sorted(range(POOL), key=digests.__getitem__)[:num_queries], np.int64)


def told(votes: Votes, mechanism: Mechanism, settings: Settings) -> Released:
    """Release the epsilon that may be told afterwards, with noise at the settings' public order, beta and scale."""
    order, beta, noise = settings.gnss
    return release_epsilon(votes, mechanism, settings.delta, order=order, beta=beta, noise=noise)


def student_class(name: str) -> Any:
    module, kind = STUDENTS[name]
    return getattr(import_module(f"sfumato.students._{module}"), kind)


def _left(settings: Settings, most: float, draws: int) -> float:
    """What of delta the noise sampler leaves to events that cost at most ``most``."""
    largest = math.log(settings.delta / (2 * SAMPLER_TAU * draws))  # at which half of delta is the sampler's
    if 0 < largest < most:
        expected = (
            f"to be at most {largest:.1f}, which is what the noise sampler can hold at delta = {settings.delta:g}"
        )
        if settings.accounting == "data-independent":
            raise fail("epsilon", most, expected, "Lower it: a guarantee this weak is none.")
        raise fail("the data-independent epsilon", most, expected, "Add noise, or ask fewer queries.")
    return calibration.effective_delta(settings.delta, most, draws)


def _calibrated(name: str, teachers: int, caps: tuple[int, int], epsilon: float, delta: float) -> Mechanism:
    queries, answers = caps
    try:
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
    except InputError as error:
        remedy = "Raise epsilon or delta, or ask fewer queries."
        raise fail("epsilon", epsilon, "to need noise of 2**-10 to 2**15 votes", remedy) from error


def _published(name: str, teachers: int) -> Mechanism:
    made: Mechanism = MECHANISMS[name](*(_PUBLISHED_NOISE[one] * teachers for one in NOISE[name]))
    return made
