"""Settings of a cell of method "pate", as a specification writes them: flat, each checked."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import Field, dataclass, fields
from typing import TYPE_CHECKING, Any

from sfumato._validate import check_choice, fail
from sfumato.experiments._tables import known

if TYPE_CHECKING:
    from sfumato.pate._aggregation import Mechanism
    from sfumato.pate._plan import Settings

METHOD = "pate"
RIDGE = "edge-ridge"
OFFICIAL_TEACHERS = 250
_PREFIX = "student_"
_OURS = ("num_classes", "seed", "device")  # of a student, decided by the cell
_OWN = {
    "votes": "own", "teachers": 250, "teacher": "kernel", "queries": 1000, "rows": "random", "labels": "noisy",
    "mechanism": "confident-gnmax", "threshold": None, "sigma1": None, "sigma2": None, "scale": None,
    "accounting": "data-independent", "max_answers": None, "student": "consistency", "quick": False,
}  # fmt: skip


@dataclass(frozen=True)
class PateCell:
    """A cell of method "pate": the settings of its plan, and what an experiment chooses beside them.

    A specification may write ``teachers``, ``queries``, and what :class:`sfumato.pate._plan.Settings` takes as teacher,
    mechanism, accounting ("data-independent" or "as-published"), max_answers and quick, with which official votes stay those of
    250 teachers. The noise of the mechanism, in votes, is ``scale``, ``sigma2``, or ``threshold``, ``sigma1`` and ``sigma2``: all
    of it or none. Settings of the student have the prefix ``student_``; widths are "32,64,128".

    Teachers are trained (``votes = "own"``), or the stored counts for MNIST and SVHN are asked ("official"). ``rows`` of the
    public pool are "random" (by the cell's seed) or "first", ``labels`` "noisy" or "true": the ceiling, a student of true
    labels of all queries. The floor is the student "edge-ridge", regression on edges of the answered images.
    """

    plan: Settings
    own: bool
    rows: str
    labels: str
    ridge: bool

    @classmethod
    def read(
        cls,
        settings: Mapping[str, Any],
        epsilon: float | None = None,
        delta: float | None = None,
        seed: int = 0,
        device: str = "cpu",
    ) -> PateCell:
        from sfumato.pate._plan import QUICK_QUERIES, Settings
        from sfumato.pate._run import QUICK

        given = {**_OWN, **settings}
        learned = _student_settings(settings, _student_fields(given["student"]), device)
        _check(given)
        own, ridge, quick = given["votes"] == "own", given["student"] == RIDGE, given["quick"]
        plan: dict[str, Any] = {"mechanism": given["mechanism"]}
        if not quick:
            plan = {name: given[name] for name in ("accounting", "max_answers")} | {"mechanism": _mechanism(given)}
        made = Settings(
            given["teachers"],
            min(given["queries"], QUICK_QUERIES) if quick else given["queries"],
            1.0 if epsilon is None else epsilon,
            1e-5 if delta is None else delta,
            **plan,
            teacher=given["teacher"],
            student="consistency" if ridge else given["student"],
            student_settings=learned | QUICK.get(given["student"], {}) if quick else learned,
            quick=quick and own,
            controls=False,
            seed=seed,
            device=device,
        )
        return cls(made, own, given["rows"], given["labels"], ridge)


def _check(given: Mapping[str, Any]) -> None:
    """Refuse what the settings of a plan would take or never see."""
    check_choice(("own", "official"), votes=given["votes"])
    check_choice(("random", "first"), rows=given["rows"])
    check_choice(("noisy", "true"), labels=given["labels"])
    check_choice(("data-independent", "as-published"), accounting=given["accounting"])
    if given["votes"] == "official" and given["teachers"] != OFFICIAL_TEACHERS:
        raise fail("votes", given["votes"], f"to come with teachers = {OFFICIAL_TEACHERS}")
    if type(given["quick"]) is not bool:
        raise fail("quick", given["quick"], "to be true or false")
    _mechanism(given)


def _mechanism(given: Mapping[str, Any]) -> str | Mechanism:
    """The mechanism with its noise, or its name if no noise is given."""
    from sfumato.pate._plan import MECHANISMS, NOISE

    name = check_choice(tuple(NOISE), mechanism=given["mechanism"])
    noise = {one for names in NOISE.values() for one in names if given[one] is not None}
    if not noise:
        return name
    if noise != set(NOISE[name]):
        expected = f"to be the noise of {name}: {', '.join(NOISE[name])}"
        raise fail("settings", sorted(noise), expected, "Give all of it or none.")
    made: Mechanism = MECHANISMS[name](*(given[one] for one in NOISE[name]))
    return made


def _student_settings(settings: Mapping[str, Any], of_student: tuple[Field[Any], ...], device: str) -> dict[str, Any]:
    """The settings of the student, and the device if it takes one."""
    defaults = {field.name: field.default for field in of_student if field.name not in _OURS}
    for name in settings:
        known("setting of pate", name, [*_OWN, *(_PREFIX + own for own in defaults)])
    found = {name: settings[_PREFIX + name] for name in defaults if _PREFIX + name in settings}
    for name, value in found.items():
        if isinstance(defaults[name], tuple):
            found[name] = _integers(_PREFIX + name, value)
        elif isinstance(defaults[name], bool) and type(value) is not bool:
            raise fail(_PREFIX + name, value, "to be true or false")
    if device != "cpu" and "device" in [field.name for field in of_student]:
        found["device"] = device
    return found


def _student_fields(name: str) -> tuple[Field[Any], ...]:
    from sfumato.pate._plan import STUDENTS, student_class

    return () if known("student", name, (*STUDENTS, RIDGE)) == RIDGE else fields(student_class(name))


def _integers(name: str, value: Any) -> tuple[int, ...]:
    try:
        return tuple(int(part) for part in str(value).split(","))
    except ValueError as error:
        raise fail(name, value, "to be integers with commas between, such as '32,64,128'") from error
