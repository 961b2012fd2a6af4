"""The parts of a schema: what is asked about features, label and links, and the randomizer of each.

Each part is a frozen dataclass of public settings as they stand in the schema. ``randomizer`` is what a device uses, ``layouts``
describe the integers of its report, ``cost`` is its exact epsilon, and :func:`derived` is what anyone can check.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from functools import cached_property
from typing import TYPE_CHECKING, Any, Self, TypeVar

from sfumato._validate import check_int, check_real
from sfumato.collect._checks import check_keys, check_text
from sfumato.collect._statement import cost, ranges, rounded, sent
from sfumato.errors import InputError, SchemaError

if TYPE_CHECKING:
    from sfumato.randomizers._links import NeighborLists
    from sfumato.randomizers._questions import Questions
    from sfumato.randomizers._randomizer import Layout, Randomizer

_MOST_NAMES = 1 << 17
_MOST_CLASSES = 1000  # so that a device can draw among all sets of classes within a few hundred megabytes
_MOST_USERS = 1 << 17
_LARGEST = 1e15
_LEAST_EPSILON, _MOST_EPSILON = 1e-6, 1e4
_RANGES = 'Write columns = [{ name = "age", min = 0, max = 120 }], or names = ["likes tea"] for numbers from 0 to 1.'
T = TypeVar("T", "Features", "Label", "Links")
R = TypeVar("R")


@dataclass(frozen=True)
class Features:
    """What is asked about features: numbers with public ranges, which devices scale to 0 to 1 and randomize together.

    ``columns`` are name and public range (low, high) of each. ``epsilon`` is for all together, or with ``per_feature`` ("pgc",
    "piecewise", "laplace") for each one. ``cap`` is, for "collision" and "direction", the most features above 0 that a report
    tells of. ``delta`` is for "gaussian" alone.

    >>> Features({"age": (0.0, 120.0)}, epsilon=1.0).describe()[:89]
    '1 feature: age (from 0 to 120). A number outside its range counts as the nearer end. Inst'
    """

    columns: Mapping[str, tuple[float, float]]
    epsilon: float
    mechanism: str = "multi-bit"
    cap: int = 32
    per_feature: bool = False
    delta: float = 1e-10

    def __post_init__(self) -> None:
        _check_epsilon("features", self.epsilon)
        _checked("features", lambda: check_int(low=1, high=_MOST_NAMES, cap=self.cap))
        if not isinstance(self.per_feature, bool):
            raise SchemaError(f"Expected features.per_feature to be true or false, got {self.per_feature!r}.")
        if self.mechanism == "pgc" and not self.per_feature:
            raise SchemaError(
                'Expected features with mechanism = "pgc" to spend epsilon on every feature. Add per_feature = true.'
            )
        if not isinstance(self.columns, Mapping) or not 1 <= len(self.columns) <= _MOST_NAMES:
            raise SchemaError(f"Expected features.columns to be a table of 1 to {_MOST_NAMES} features.")
        for name, bounds in self.columns.items():
            check_text("features.columns", name, most=100)
            low, high = (_end(name, end) for end in bounds)
            if not high > low:
                raise SchemaError(f"Expected feature {name!r} to have max above min = {low:g}, got {high:g}.")
        _ = self.cost

    @classmethod
    def from_values(cls, **given: Any) -> Self:
        """Build it from a table of a schema: ``columns`` with ``name``, ``min`` and ``max``, or ``names`` from 0 to 1."""
        if ("names" in given) == ("columns" in given):
            raise SchemaError(f"Expected features to have either columns or names. {_RANGES}")
        listed = given.pop("names") if "names" in given else given.pop("columns")
        if not isinstance(listed, list):
            raise SchemaError("Expected features.names or features.columns to be a list. Name each feature once.")
        columns = [_column(one) for one in listed]
        if len(dict(columns)) < len(columns):
            raise SchemaError("Expected features to have different names, got one twice. Remove it.")
        given["columns"] = dict(columns)
        return cls(**given)

    def to_dict(self) -> dict[str, Any]:
        unit = all(bounds == (0.0, 1.0) for bounds in self.columns.values())
        columns = [{"name": name, "min": float(ends[0]), "max": float(ends[1])} for name, ends in self.columns.items()]
        asked = {"names": list(self.columns)} if unit else {"columns": columns}
        return {**asked, **_settings(self, ("epsilon", "mechanism", "cap", "per_feature", "delta"))}

    @property
    def num_features(self) -> int:
        return len(self.columns)

    @property
    def num_classes(self) -> int:
        """No label is asked about here: 0."""
        return 0

    @cached_property
    def questions(self) -> Questions:
        from sfumato.randomizers._questions import Questions

        each, cap = self.per_feature, min(self.cap, self.num_features)
        return Questions(self.epsilon, None, self.mechanism, per_feature=each, cap=cap, delta=self.delta)

    @cached_property
    def randomizer(self) -> Randomizer:
        found = self.questions.features(self)
        assert found is not None
        return found

    @cached_property
    def layouts(self) -> tuple[Layout, ...]:
        return (self.randomizer.layout,)

    @property
    def cost(self) -> float:
        """The exact epsilon of a report, rounded upward."""
        return _checked("features", lambda: self.randomizer.total_epsilon)

    def describe(self) -> str:
        allowed = self.epsilon * (self.num_features if self.per_feature else 1)
        return (
            f"{ranges(self.columns)}. A number outside its range counts as the nearer end. "
            f"{sent(self.mechanism, _bits(self.layouts))} {cost(self.cost, allowed)}"
        )


@dataclass(frozen=True)
class Label:
    """What is asked about the label: which of the public classes a user belongs to.

    >>> Label(("crime", "poetry", "science"), epsilon=1.0, name="genre").describe()[-37:]
    'er (subset, 2 bits). Cost: epsilon 1.'
    """

    classes: Sequence[str]
    epsilon: float
    mechanism: str = "subset"
    name: str = "label"

    def __post_init__(self) -> None:
        _check_epsilon("label", self.epsilon)
        check_text("label.name", self.name, most=100)
        if not isinstance(self.classes, (list, tuple)) or not 2 <= len(self.classes) <= _MOST_CLASSES:
            raise SchemaError(f"Expected label.classes to be a list of 2 to {_MOST_CLASSES} names.")
        for one in self.classes:
            if isinstance(one, (int, float)):
                raise SchemaError(f'Expected label.classes to be texts, got {one!r}. Write them in quotes: "{one}".')
            check_text("label.classes", one, most=100)
        if len(set(self.classes)) < len(self.classes):
            raise SchemaError("Expected label.classes to be different from each other, got one twice. Remove it.")
        object.__setattr__(self, "classes", tuple(self.classes))
        _ = self.cost

    def to_dict(self) -> dict[str, Any]:
        return {"classes": list(self.classes), **_settings(self, ("epsilon", "mechanism", "name"))}

    @property
    def num_features(self) -> int:
        """No feature is asked about here: 0."""
        return 0

    @property
    def num_classes(self) -> int:
        return len(self.classes)

    @cached_property
    def questions(self) -> Questions:
        from sfumato.randomizers._questions import Questions

        return Questions(0.0, self.epsilon, label_mechanism=self.mechanism)

    @cached_property
    def randomizer(self) -> Randomizer:
        found: Randomizer = self.questions.labels(self)
        return found

    @cached_property
    def layouts(self) -> tuple[Layout, ...]:
        return (self.randomizer.layout,)

    @property
    def cost(self) -> float:
        return _checked("label", lambda: self.randomizer.total_epsilon)

    def describe(self) -> str:
        return (
            f"your {self.name}, one of {len(self.classes)} classes. {sent(self.mechanism, _bits(self.layouts))} "
            f"{cost(self.cost, self.epsilon)}"
        )


@dataclass(frozen=True)
class Links:
    """What is asked about links: a user's neighbor list over a public roster of users, and its length.

    ``roster`` is the SHA-256 of its user ids in order, each followed by a line feed. ``epsilon`` is for one bit of one list (a
    link that both ends report costs twice), of which ``degree_share`` is spent on the length.
    """

    users: int
    roster: str
    epsilon: float
    degree_share: float = 0.1

    def __post_init__(self) -> None:
        _check_epsilon("links", self.epsilon)
        _checked("links", lambda: check_int(low=2, high=_MOST_USERS, users=self.users))
        if not isinstance(self.roster, str) or not re.fullmatch("[0-9a-f]{64}", self.roster):
            raise SchemaError(
                "Expected links.roster to be the SHA-256 of a list of user ids, as 64 hexadecimal digits."
            )
        _ = self.cost

    def to_dict(self) -> dict[str, Any]:
        return _settings(self, ("users", "roster", "epsilon", "degree_share"))

    @cached_property
    def randomizer(self) -> NeighborLists:
        from sfumato.randomizers._links import NeighborLists

        return NeighborLists(self.epsilon, self.degree_share)

    @cached_property
    def layouts(self) -> tuple[Layout, ...]:
        """The integers of a report: the noisy length of the list, and a bit for each other user in the order of the roster."""
        from sfumato.randomizers._randomizer import Layout

        return Layout(1, -self.users, 2 * self.users), Layout(self.users - 1, 0, 1)

    @property
    def cost(self) -> float:
        """The exact epsilon of one bit of one list, rounded upward."""
        return _checked("links", lambda: self.randomizer.realized_epsilon)

    def describe(self) -> str:
        others = f"{self.users - 1:,} other user{'s' * (self.users > 2)}"
        return (
            f"your links to {others}. {sent('links', _bits(self.layouts))} {cost(self.cost, self.epsilon)} That is for one link "
            f"in one list; a link that both ends report costs epsilon {rounded(self.randomizer.relationship_epsilon)}."
        )


def part(kind: type[T], name: str, values: object) -> T:
    if not isinstance(values, dict):
        raise SchemaError(f"Expected {name} to be a table, got {type(values).__name__}.")
    known = {field.name: field for field in fields(kind)} | ({"names": None} if kind is Features else {})
    needed = {Features: ("epsilon",), Label: ("classes", "epsilon"), Links: ("users", "roster", "epsilon")}[kind]
    if kind is Features and {"low", "high", "min", "max"} & set(values):
        raise SchemaError(f"Expected the range of every feature in columns. {_RANGES}")
    check_keys(f"[{name}]", values, needed, tuple(known))
    return _checked(name, lambda: getattr(kind, "from_values", kind)(**values))


def _check_epsilon(where: str, epsilon: object) -> None:
    _checked(where, lambda: check_real(low=_LEAST_EPSILON, high=_MOST_EPSILON, epsilon=epsilon))


def _end(feature: str, end: object) -> float:
    named: dict[str, Any] = {f"range of feature {feature!r}": end}
    return check_real(low=-_LARGEST, high=_LARGEST, **named)


def _checked(where: str, build: Callable[[], R]) -> R:
    """The result of ``build``, or its refusal as one of the schema."""
    try:
        return build()
    except InputError as error:
        raise error if isinstance(error, SchemaError) else SchemaError(f"{where}: {error}") from error


def _settings(part: Any, names: Sequence[str]) -> dict[str, Any]:
    found = {name: getattr(part, name) for name in names}
    return {
        name: float(value) if name in ("epsilon", "delta", "degree_share") else value for name, value in found.items()
    }


def _column(column: object) -> tuple[str, tuple[float, float]]:
    """Name and range of a feature: of a table, or of a name alone."""
    if isinstance(column, dict):
        check_keys("a feature", column, ("name", "min", "max"), ())
        check_text("features.columns", column["name"], most=100)
        return column["name"], (column["min"], column["max"])
    check_text("features.names", column, most=100)
    return str(column), (0.0, 1.0)


def derived(asked: Features | Label | Links) -> dict[str, Any]:
    """Return what follows from the settings, which anyone can compute again. Integers are text, since they may be above 2^53."""
    delta = asked.randomizer.delta if isinstance(asked, Features) else 0.0
    numbers = {name: str(one) if isinstance(one, int) else one for name, one in asked.randomizer.thresholds.items()}
    return {"epsilon": asked.cost, "delta": delta, "bits": _bits(asked.layouts), "thresholds": numbers}


def _bits(layouts: Sequence[Layout]) -> int:
    return sum(layout.bits for layout in layouts)
