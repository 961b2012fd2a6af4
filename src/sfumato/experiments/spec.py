"""What an experiment runs, read from TOML: methods, units, budgets, seeds, and the published numbers to stand beside.

A specification is complete before any data is seen. ``Spec.cells`` lists its *cells*: one fit each, on its own split,
named by a digest of everything that decides the result, so that a cell is run once however often the file is.
"""

from __future__ import annotations

import hashlib
import math
import tomllib
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, fields, replace
from functools import cached_property
from itertools import product
from pathlib import Path
from typing import Any

from sfumato._validate import check_int, check_real, fail, require
from sfumato.errors import InputError, UnsupportedUnitError
from sfumato.experiments._tables import build, known, single, tables
from sfumato.experiments.pate import METHOD as PATE
from sfumato.experiments.pate import check_run
from sfumato.graph.graph import PublicFacts
from sfumato.privacy.ledger import canonical_json
from sfumato.privacy.units import WORDS, unit_named

SPECS = Path(__file__).with_name("specs")
ROLES = ("method", "floor", "ceiling", "label-control", "no-information")
PROFILES = ("full", "quick")
_BUDGETS = ("epsilon_x", "epsilon_y")
_SCALARS = (bool, int, float, str)
_SMALL = (
    "Small fits of --quick: at most 50 teachers and 100 queries, small networks, few steps, and noise calibrated to a "
    "data-independent epsilon. No published number compares with them."
)
Settings = tuple[tuple[str, Any], ...]
_ANY_GRAPH = PublicFacts(num_nodes=1000, num_train=750, num_features=10, num_classes=3, directed=False)


@dataclass(frozen=True)
class Run:
    """One curve or table row: a method under a unit, at each epsilon and each value of what is varied.

    Args:
        label: how tables name it; unique in a specification.
        method: command-line name.
        unit: none, arc, edge, node, record, local or link.
        epsilons: empty without privacy, where the method releases nothing under the unit, and under unit local, whose
            budgets are the settings ``epsilon_x`` and ``epsilon_y`` ("inf" or TOML's inf: in the clear).
        delta: needed with ``epsilons``, but under unit link, where it is 0.
        max_degree: arcs that an owner keeps (unit node).
        settings: constructor arguments of the method, or those of method "pate" (:mod:`sfumato.experiments.pate`). A value
            is one for all epsilons, or pairs (epsilon, value).
        preset: a published form of "lpgnn" that gives the other settings, for the data set and the budgets.
        role: method, floor (graph-free), ceiling, label-control or no-information (features that tell nothing).
        vary: a setting of the method, or ``max_degree``; None for none.
        values: what it takes.

    Raises:
        InputError: a name is unknown, a value is refused by the method, or a budget is missing.
    """

    label: str
    method: str
    unit: str
    epsilons: tuple[float, ...] = ()
    delta: float | None = None
    max_degree: int | None = None
    settings: Settings = ()
    preset: str | None = None
    role: str = "method"
    vary: str | None = None
    values: tuple[Any, ...] = ()

    def __post_init__(self) -> None:
        object.__setattr__(self, "settings", tuple((name, written(value)) for name, value in self.settings))
        object.__setattr__(self, "values", tuple(map(written, self.values)))
        if not self.label.strip() or not self.label.isprintable():
            raise fail("label", self.label, "to be one line of printable text")
        known("unit", self.unit, WORDS)
        known("role", self.role, ROLES)
        _check_unique("epsilons", self.epsilons)
        _check_unique("values", self.values)
        for epsilon in self.epsilons:
            check_real(low=0, open_low=True, epsilons=epsilon)
        if self.delta is not None:
            check_real(low=0, high=1, open_low=True, open_high=True, delta=self.delta)
        if self.unit == "local" and (self.epsilons or self.delta is not None):
            got = list(self.epsilons) or self.delta
            raise fail("epsilons", got, "to be left out with unit local", "Set epsilon_x and epsilon_y of the method.")
        if self.unit == "link" and (not self.epsilons or self.delta is not None):
            got = list(self.epsilons) if self.delta is None else self.delta
            raise fail("epsilons", got, "to hold budgets and come without delta with unit link")
        if self.epsilons and self.unit != "link" and (self.delta is None or self.unit == "none"):
            raise fail("epsilons", list(self.epsilons), "to come with a delta, and a unit other than none")
        if (self.vary is None) != (not self.values):
            raise fail("values", list(self.values), f"to say what vary = {self.vary!r} takes", "Give both or neither.")
        if (self.max_degree is not None or self.vary == "max_degree") and self.unit != "node":
            raise fail("max_degree", self.max_degree, "to come with unit node only")
        fixed = {*dict(self.settings), *(("max_degree",) if self.max_degree is not None else ())}
        if self.unit == "link" and "epsilon" in {*fixed, self.vary}:
            raise fail("epsilon", "a setting", "to stand in epsilons with unit link")
        for name, value in self.settings:
            if isinstance(value, tuple) and not {one for one, _ in value} <= set(self.epsilons):
                given = [one for one, _ in value]
                raise fail(f"epsilons of {name}", given, f"to be among those of the run, {list(self.epsilons)}")
        if self.vary in fixed:
            raise fail("vary", self.vary, "to be a setting that has no fixed value beside it")
        self._check_method()

    def _check_method(self) -> None:
        require("torch", "train")
        if self.method == PATE:
            return  # checked with its data set, by the specification
        from sfumato.catalog import METHODS

        chosen = METHODS[known("method", self.method, (*METHODS, PATE))]
        varied = (self.vary,) if self.vary not in (None, "max_degree") else ()
        for name in (*dict(self.settings), *varied):
            known(f"setting of {self.method}", name, [field.name for field in fields(chosen)])
        if self.preset is not None:
            from sfumato.local.presets import PRESETS

            known("preset", self.preset, PRESETS if self.method == "lpgnn" else ())
        for value, epsilon in product(self.values or (None,), self.epsilons or (None,)):
            settings, max_degree = self.at(value, epsilon)
            method = chosen(**constructor(self.completed(settings, "planetoid/cora")))
            own = getattr(method, "unit", None)
            if self.unit in ("local", "link") or own is not None:
                if own is None or own.name != self.unit:
                    raise fail("unit", self.unit, f"to be {own.name if own else 'another'}, as {self.method} needs")
                continue
            try:
                spends = self.unit != "none" and method.releases(
                    unit_named(self.unit, False, max_degree), _ANY_GRAPH, 1.0
                )
            except UnsupportedUnitError:
                continue  # its cells will be skipped for this reason
            if spends and not self.epsilons:
                raise fail("epsilons", [], f"to hold a budget, which {self.method} spends under unit {self.unit}")

    def at(self, value: Any, epsilon: float | None = None) -> tuple[Settings, int | None]:
        """Settings and degree cap with the varied one at ``value``, and those that differ by epsilon at ``epsilon``.

        A setting that has no value for this epsilon is left out.
        """
        by_epsilon = ((name, dict(one) if isinstance(one, tuple) else {epsilon: one}) for name, one in self.settings)
        settings = tuple((name, values[epsilon]) for name, values in by_epsilon if epsilon in values)
        if self.vary is None:
            return settings, self.max_degree
        if self.vary == "max_degree":
            return settings, value
        return (*settings, (self.vary, value)), self.max_degree

    def completed(self, settings: Settings, dataset: str) -> Settings:
        """Settings over those of the preset."""
        if self.preset is None:
            return settings
        from sfumato.local.presets import preset

        given = constructor(settings)
        values = preset(self.preset, dataset, *(given.get(name, 1.0) for name in _BUDGETS))
        found = {name: "inf" if value is None else value for name, value in values.items()}
        return tuple(sorted({**found, **dict(settings)}.items()))


@dataclass(frozen=True)
class Published:
    """A printed number, in percent, and where it stands; ``at`` is the value of what its run varies."""

    label: str
    value: float
    source: str
    epsilon: float | None = None
    half_width: float | None = None
    at: Any = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "at", written(self.at))
        check_real(low=0, high=100, value=self.value)
        if self.half_width is not None:
            check_real(low=0, high=100, half_width=self.half_width)


@dataclass(frozen=True)
class Quick:
    """What ``--quick`` keeps; an empty list keeps all. ``minutes`` is about how long that takes on two cores.

    ``small`` cells of method "pate" have the setting quick = true: they are no cells of the full profile.
    """

    seeds: int
    minutes: float
    epsilons: tuple[float, ...] = ()
    values: tuple[Any, ...] = ()
    small: bool = False

    def __post_init__(self) -> None:
        object.__setattr__(self, "values", tuple(map(written, self.values)))
        check_int(low=1, seeds=self.seeds)
        check_real(low=0, minutes=self.minutes)


@dataclass(frozen=True)
class Cell:
    """One fit: everything that decides its result but the noise."""

    spec: str
    label: str
    method: str
    dataset: str
    split: str
    unit: str
    epsilon: float | None
    delta: float | None
    max_degree: int | None
    settings: Settings
    seed: int
    at: Any

    def to_dict(self) -> dict[str, Any]:
        """JSON form; settings are an object."""
        return {**asdict(self), "settings": dict(self.settings)}

    @cached_property
    def id(self) -> str:
        """SHA-256 of the canonical JSON form."""
        return _digest(self.to_dict())

    def __str__(self) -> str:
        epsilon = "" if self.epsilon is None else f", epsilon {self.epsilon:g}"
        at = "" if self.at is None else f", at {self.at}"
        return f"{self.label}{epsilon}{at}, seed {self.seed}"


@dataclass(frozen=True)
class Spec:
    """An experiment: its runs on one data set, and what was published.

    ``stands_in_for`` names the published data set where ``dataset`` is another. ``axis`` is what the figure shows to the
    right: epsilon, or what its runs vary.
    """

    name: str
    title: str
    source: str
    comments: tuple[str, ...]
    dataset: str
    split: str
    seeds: int
    axis: str
    quick: Quick
    runs: tuple[Run, ...]
    published: tuple[Published, ...] = ()
    stands_in_for: str | None = None

    def __post_init__(self) -> None:
        if not self.name or set(self.name) - set("abcdefghijklmnopqrstuvwxyz0123456789-"):
            raise fail(
                "name", self.name, "to be lower-case letters, digits and hyphens", "It names the results folder."
            )
        check_int(low=1, seeds=self.seeds)
        check_int("The quick profile is part of the full one.", low=1, high=self.seeds, quick_seeds=self.quick.seeds)
        if self.images:
            self._check_images()
        else:
            _check_dataset(self.dataset)
        if self.split != "public":
            from sfumato.graph.splits import parse_fractions

            parse_fractions(self.split)
        labels = [run.label for run in self.runs]
        _check_unique("label", labels)
        known("axis", self.axis, ("epsilon", *sorted({run.vary for run in self.runs if run.vary})))
        if not labels:
            raise fail("run", [], "to be one table or more", "Write each under its own [[run]].")
        self._check_quick()
        self._check_published()

    @property
    def images(self) -> bool:
        """Whether its runs are of method "pate"."""
        return any(run.method == PATE for run in self.runs)

    def _check_images(self) -> None:
        if self.split != "public" or any(run.method != PATE for run in self.runs):
            raise fail(
                "method", PATE, "to have a specification of its own, with split public", "It learns from images."
            )
        for run in self.runs:
            check_run(run, self.dataset)

    def _check_quick(self) -> None:
        if self.quick.small and not self.images:
            raise fail("quick small", True, f"to be left out without method {PATE}")
        for key, known_values in (
            ("epsilons", [one for run in self.runs for one in run.epsilons]),
            ("values", [one for run in self.runs for one in run.values]),
        ):
            for value in getattr(self.quick, key):
                if value not in known_values:
                    raise fail(f"quick {key}", value, "to be among those of a run", "Correct it, or leave it out.")
        lost = {run.label for run in self.runs} - {cell.label for cell in self.cells("quick")}
        if lost:
            raise fail(
                "quick", sorted(lost), "to keep something of every run", "Keep one of their epsilons and values."
            )

    def _check_published(self) -> None:
        rows = {(cell.label, cell.epsilon, cell.at) for cell in self.cells()}
        for number in self.published:
            known("published label", number.label, [run.label for run in self.runs])
            if (number.label, number.epsilon, number.at) not in rows:
                raise fail("published", number, "to have the epsilon and the at of one of its run's rows")
        _check_unique("published", [(number.label, number.epsilon, number.at) for number in self.published])

    @classmethod
    def read(cls, path: str | Path) -> Spec:
        """Read a specification.

        Raises:
            InputError: the file cannot be read, or a key or value is wrong; the message names file, key and nearest name.

        >>> spec = Spec.read(SPECS / "gap-table-4-2.toml")
        >>> spec.axis, len({cell.id for cell in spec.cells()}) == len(spec.cells())
        ('epsilon', True)
        """
        path = Path(path)
        try:
            values = tomllib.loads(path.read_text(encoding="utf-8"))
        except OSError as error:
            raise InputError(
                f"Expected {str(path)!r} to be a specification: {error.strerror}. Check the path."
            ) from error
        except ValueError as error:
            raise InputError(f"Expected {str(path)!r} to be TOML: {error}") from error
        names = ["run" if field.name == "runs" else field.name for field in fields(cls)]
        for key in values:
            known(f"key in {path}", key, names)

        def found(key: str) -> list[dict[str, Any]]:
            return tables(str(path), key, values.pop(key, []))

        runs = (_read_run(f"{path}: run {i}", table) for i, table in enumerate(found("run"), 1))
        published = (build(Published, f"{path}: published {i}", table) for i, table in enumerate(found("published"), 1))
        quick = single(str(path), "quick", values.pop("quick", {}), "Write its keys under [quick].")
        built = {"runs": tuple(runs), "published": tuple(published), "quick": build(Quick, f"{path}: quick", quick)}
        spec: Spec = build(cls, str(path), values, **built)
        return spec

    @cached_property
    def digest(self) -> str:
        """SHA-256 of the canonical JSON form."""
        return _digest(asdict(self))

    def on(self, dataset: str | None = None, seeds: int | None = None) -> Spec:
        """The same on another data set, or with another number of seeds in both profiles."""
        stands_in_for = self.stands_in_for if dataset in (None, self.dataset) else None
        quick = self.quick if seeds is None else replace(self.quick, seeds=seeds)
        return replace(
            self, dataset=dataset or self.dataset, stands_in_for=stands_in_for, seeds=seeds or self.seeds, quick=quick
        )

    def shrunk(self) -> Spec:
        """What ``--quick`` runs where it is small, beside which nothing was published; itself elsewhere."""
        if not self.quick.small:
            return self
        runs = tuple(replace(run, settings=(*run.settings, ("quick", True))) for run in self.runs)
        quick = replace(self.quick, small=False)
        return replace(self, runs=runs, published=(), comments=(_SMALL, *self.comments), quick=quick)

    def cells(self, profile: str = "full") -> tuple[Cell, ...]:
        """Every fit of a profile, all of one seed before the next; those of ``quick`` are among those of ``full``."""
        quick = known("profile", profile, PROFILES) == "quick"
        seeds = self.quick.seeds if quick else self.seeds
        return tuple(cell for seed in range(seeds) for run in self.runs for cell in self._cells(run, seed, quick))

    def _cells(self, run: Run, seed: int, quick: bool) -> Iterator[Cell]:
        for at in run.values or (None,):
            for epsilon in run.epsilons or (None,):
                if quick and not (_kept(epsilon, self.quick.epsilons) and _kept(at, self.quick.values)):
                    continue
                settings, max_degree = run.at(at, epsilon)
                settings = run.completed(settings, self.dataset)
                where = self.name, run.label, run.method, self.dataset, self.split, run.unit
                yield Cell(*where, epsilon, run.delta, max_degree, settings, seed, at)


def find(name: str) -> Spec:
    """A specification by its name, or by the path of its file.

    Raises:
        InputError: there is none; the message names the nearest.

    >>> find("gap-table-4-2").dataset
    'facebook100/Berkeley13'
    """
    if name.endswith(".toml"):
        return Spec.read(name)
    names = [path.stem for path in sorted(SPECS.glob("*.toml"))]
    return Spec.read(SPECS / f"{known('experiment', name, names)}.toml")


def written(value: Any) -> Any:
    """A setting as files hold it: JSON has no infinity.

    >>> written(float("inf")), written(1.0)
    ('inf', 1.0)
    """
    return "inf" if value == math.inf else value


def constructor(settings: Settings) -> dict[str, Any]:
    """Settings as a method takes them: an infinite budget is None, in the clear.

    >>> constructor((("epsilon_x", "inf"), ("epsilon_y", 1.0)))
    {'epsilon_x': None, 'epsilon_y': 1.0}
    """
    return {name: None if name in _BUDGETS and value == "inf" else value for name, value in settings}


def _read_run(where: str, table: dict[str, Any]) -> Run:
    settings = single(where, "settings", table.pop("settings", {}), "Write settings = { name = value }.")
    for name, value in settings.items():
        if isinstance(value, dict):
            settings[name] = _by_epsilon(f"{name} in {where}", value)
        elif type(value) not in _SCALARS:
            raise fail(f"{name} in {where}", value, "to be text, a number, true or false")
    run: Run = build(Run, where, table, settings=tuple(sorted(settings.items())))
    return run


def _by_epsilon(where: str, table: dict[str, Any]) -> tuple[tuple[float, Any], ...]:
    """A setting that differs by epsilon, from a table such as { "4.05" = 71, "5.04" = 58 }."""
    try:
        pairs = tuple((float(key), value) for key, value in table.items())
    except ValueError:
        pairs = ()
    if not pairs or any(type(value) not in _SCALARS for _, value in pairs):
        raise fail(where, table, "to hold a value for each epsilon", 'Write { "1" = value, "4" = value }.')
    return pairs


def _digest(value: Any) -> str:
    return hashlib.sha256(canonical_json(value).encode()).hexdigest()


def _kept(value: Any, kept: Sequence[Any]) -> bool:
    return value is None or not kept or value in kept


def _check_unique(what: str, values: Sequence[Any]) -> None:
    for value in values:
        if values.count(value) > 1:
            raise fail(what, value, "to appear once")


def _check_dataset(name: str) -> None:
    from sfumato.graph.datasets import list_datasets

    names = [row.name for row in list_datasets()]
    if name.partition("/")[0] not in {one.partition("/")[0] for one in names}:
        known("dataset", name, names)
