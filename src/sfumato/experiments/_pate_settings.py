"""Settings of a cell of method "pate", as a specification writes them: flat, each checked."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import Field, dataclass, field, fields
from importlib import import_module
from typing import TYPE_CHECKING, Any

from sfumato._validate import check_choice, fail
from sfumato.experiments._tables import known

if TYPE_CHECKING:
    from sfumato.pate._aggregation import Mechanism
    from sfumato.pate._plan import Settings

METHOD = "pate"
RIDGE = "edge-ridge"
OFFICIAL_TEACHERS = 250
_NOISE = {"lnmax": ("scale",), "gnmax": ("sigma2",), "confident-gnmax": ("threshold", "sigma1", "sigma2")}
_PREFIX = "student_"
_OURS = ("num_classes", "seed", "device")  # of a student, decided by the cell


@dataclass(frozen=True)
class PateCell:
    """The settings of a cell of method "pate", as a specification writes them.

    Args:
        votes: "own" (teachers are trained) or "official" (the stored counts for MNIST and SVHN, 250 teachers).
        teachers: number of parts of the private data.
        teacher: the kind of teachers, kernel or cnn.
        queries: number of public images put to the teachers.
        rows: "random" (by the cell's seed) or "first" rows of the public pool.
        labels: "noisy", or "true": the ceiling, a student of true labels of all queries.
        mechanism: lnmax (scale), gnmax (sigma2) or confident-gnmax (threshold, sigma1, sigma2).
        threshold: threshold of confident-gnmax, in votes. As for all noise below, give all numbers of a mechanism or none.
            None calibrates them to the cell's epsilon, or takes the published noise if accounting is "as-published".
        sigma1: standard deviation of the noise on the threshold, in votes.
        sigma2: standard deviation of the noise on the counts, in votes.
        scale: scale of Laplace noise on the counts, in votes.
        accounting: "data-independent" (epsilon binds, and there is a certificate) or "as-published".
        max_answers: most answers of confident-gnmax; half of the queries by default.
        student: a student of :mod:`sfumato.pate._plan`, or "edge-ridge", regression on edges of the answered images: the floor.
        quick: 50 teachers, 100 queries, small networks, few steps, and calibrated noise, in place of their settings; official
            votes stay those of 250 teachers.
        student_settings: settings of the student, written with the prefix ``student_``; widths as "32,64,128".

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
        if self.votes == "official" and self.teachers != OFFICIAL_TEACHERS:
            raise fail("votes", self.votes, f"to come with teachers = {OFFICIAL_TEACHERS}")
        if type(self.quick) is not bool:
            raise fail("quick", self.quick, "to be true or false")
        given = [name for names in _NOISE.values() for name in names if getattr(self, name) is not None]
        if given and set(given) != set(_NOISE[self.mechanism]):
            expected = f"to be the noise of {self.mechanism}: {', '.join(_NOISE[self.mechanism])}"
            raise fail("settings", sorted(set(given)), expected, "Give all of it or none.")

    @classmethod
    def read(cls, settings: Mapping[str, Any]) -> PateCell:
        """Read the flat settings of a specification."""
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
        """Return the settings in the form that :mod:`sfumato.pate._plan` takes."""
        from sfumato.pate._plan import QUICK_QUERIES, Settings
        from sfumato.pate._run import QUICK

        ridge = self.student == RIDGE
        learned = dict(self.student_settings)
        if self.quick:
            learned |= QUICK.get(self.student, {})
        if device != "cpu" and _takes_device(self.student):
            learned["device"] = device
        return Settings(
            self.teachers,
            min(self.queries, QUICK_QUERIES) if self.quick else self.queries,
            1.0 if epsilon is None else epsilon,
            1e-5 if delta is None else delta,
            mechanism=self.mechanism if self.quick else self.with_noise(),
            accounting="data-independent" if self.quick else self.accounting,
            max_answers=None if self.quick else self.max_answers,
            teacher=self.teacher,
            student="consistency" if ridge else self.student,
            student_settings=learned,
            quick=self.quick and self.votes == "own",
            controls=False,
            seed=seed,
            device=device,
        )

    def with_noise(self) -> str | Mechanism:
        """Return the mechanism with its noise, or its name if the noise is not given."""
        from sfumato.pate._plan import MECHANISMS

        noise = [getattr(self, name) for name in _NOISE[self.mechanism]]
        if None in noise:
            return self.mechanism
        made: Mechanism = MECHANISMS[self.mechanism](*noise)
        return made


def _student_defaults(name: str) -> dict[str, Any]:
    """The settings of a student that a specification may write, with their defaults."""
    return {field.name: field.default for field in _student_fields(name) if field.name not in _OURS}


def _takes_device(name: str) -> bool:
    return "device" in [field.name for field in _student_fields(name)]


def _student_fields(name: str) -> tuple[Field[Any], ...]:
    from sfumato.pate._plan import STUDENTS

    if known("student", name, (*STUDENTS, RIDGE)) == RIDGE:
        return ()
    module, chosen = STUDENTS[name]
    return fields(getattr(import_module(f"sfumato.students._{module}"), chosen))


def _whole_numbers(name: str, value: Any) -> tuple[int, ...]:
    try:
        return tuple(int(part) for part in str(value).split(","))
    except ValueError as error:
        raise fail(name, value, "to be whole numbers with commas between, such as '32,64,128'") from error
