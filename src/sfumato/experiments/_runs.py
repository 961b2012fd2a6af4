"""A run of an experiment: one curve or table row, as a specification writes it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, fields
from itertools import product
from typing import Any

from sfumato._optional import require
from sfumato._validate import check_int, check_real, fail
from sfumato.errors import UnsupportedUnitError
from sfumato.experiments._pate_settings import METHOD as PATE
from sfumato.experiments._tables import build, known, single
from sfumato.graph._graph import PublicFacts
from sfumato.privacy.units import Declared, class_for, short_words, unit_named

ROLES = ("method", "floor", "ceiling", "label-control", "no-information")
CURVES = ("gap", "mlp", "progap")
"""Methods whose fits measure accuracies after every step."""
LINKS = "link-prediction"
"""The method that finds links of a graph again; its score is the AUC (:mod:`~sfumato.experiments._cells`)."""
_BUDGETS = ("epsilon_x", "epsilon_y")
_SCALARS = (bool, int, float, str)
Settings = tuple[tuple[str, Any], ...]
_ANY_GRAPH = PublicFacts(num_nodes=1000, num_train=750, num_features=10, num_classes=3, directed=False)


@dataclass(frozen=True)
class Run:
    """A curve or table row: a method under a unit, at each epsilon and each value of what is varied.

    * ``label`` is unique in a specification. ``method`` is a word of the command line, "pate" or "link-prediction".
    * ``epsilons`` are empty without privacy, where the method releases nothing under the unit, and under unit local, whose
      budgets are the settings ``epsilon_x`` and ``epsilon_y`` ("inf" or TOML's inf: in the clear). They come with a ``delta``,
      except under unit link, where it is 0; 0 asks for pure privacy.
    * ``settings`` are constructor arguments of the method, of :class:`~sfumato.experiments._pate_settings.PateCell`, or of
      :class:`~sfumato.local._link_prediction.LinkPrediction`: a value for all epsilons, or pairs (epsilon, value).
    * ``preset`` is a published form of a method that has some, such as lpgnn. It gives the other settings, for the data set
      and the budgets.
    * ``vary`` is a setting of the method, or ``max_degree``, which takes the ``values``.
    * Seeds below ``first_seed`` may have chosen constants of the method.
    * With ``curves`` train and validation accuracy after every step of training are kept, for a figure.
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
    first_seed: int = 0
    curves: bool = False

    def __post_init__(self) -> None:
        object.__setattr__(self, "settings", tuple((name, written(value)) for name, value in self.settings))
        object.__setattr__(self, "values", tuple(map(written, self.values)))
        if not self.label.strip() or not self.label.isprintable():
            raise fail("label", self.label, "to be one line of printable text")
        known("unit", self.unit.partition(":")[0], list(short_words()))
        unit = class_for(self.unit)
        takes_epsilon, takes_delta = ("epsilon" in unit.budget), ("delta" in unit.budget)
        known("role", self.role, ROLES)
        check_int(low=0, first_seed=self.first_seed)
        check_unique("epsilons", self.epsilons)
        check_unique("values", self.values)
        for epsilon in self.epsilons:
            check_real(low=0, open_low=True, epsilons=epsilon)
        if self.delta is not None:
            check_real(low=0, high=1, open_high=True, delta=self.delta)
        if unit.private and not takes_epsilon and (self.epsilons or self.delta is not None):
            got, remedy = list(self.epsilons) or self.delta, f"Set {' and '.join(unit.budget)} of the method."
            raise fail("epsilons", got, f"to be left out with unit {self.unit}", remedy)
        if takes_epsilon and not takes_delta and (not self.epsilons or self.delta is not None):
            got = list(self.epsilons) if self.delta is None else self.delta
            raise fail("epsilons", got, f"to hold budgets and come without delta with unit {self.unit}")
        if self.epsilons and (not unit.private or (takes_delta and self.delta is None)):
            raise fail("epsilons", list(self.epsilons), "to come with a delta, and a unit other than none")
        if (self.vary is None) != (not self.values):
            raise fail("values", list(self.values), f"to say what vary = {self.vary!r} takes", "Give both or neither.")
        if (self.max_degree is not None or self.vary == "max_degree") and self.unit not in unit.takes_max_degree:
            raise fail("max_degree", self.max_degree, "to come with unit node only")
        fixed = {*dict(self.settings), *(("max_degree",) if self.max_degree is not None else ())}
        if takes_epsilon and not takes_delta and "epsilon" in {*fixed, self.vary}:
            raise fail("epsilon", "a setting", f"to stand in epsilons with unit {self.unit}")
        for name, value in self.settings:
            if isinstance(value, tuple) and not {one for one, _ in value} <= set(self.epsilons):
                given = [one for one, _ in value]
                raise fail(f"epsilons of {name}", given, f"to be among those of the run, {list(self.epsilons)}")
        if self.vary in fixed:
            raise fail("vary", self.vary, "to be a setting that has no fixed value beside it")
        self._check_method()

    def _check_method(self) -> None:
        require("torch")
        if self.curves and self.method not in CURVES:
            raise fail(
                "curves", self.curves, f"to be left out with method {self.method}", f"{', '.join(CURVES)} have some."
            )
        if self.method in (PATE, LINKS):
            return  # checked by the specification
        from sfumato.catalog import METHODS, words_with

        chosen = METHODS[known("method", self.method, (*METHODS, PATE, LINKS))]
        varied = (self.vary,) if self.vary not in (None, "max_degree") else ()
        for name in (*dict(self.settings), *varied):
            known(f"setting of {self.method}", name, [field.name for field in fields(chosen)])
        if self.preset is not None:
            from sfumato.local._presets import PRESETS

            known("preset", self.preset, PRESETS if self.method in words_with("preset") else ())
        for value, epsilon in self.points:
            settings, max_degree = self.at(value, epsilon)
            method = chosen(**constructor(self.completed(settings, "planetoid/cora")))
            own = method.unit
            if class_for(self.unit).trust != "curator" or own is not None:
                if own is None or own.name != self.unit:
                    raise fail("unit", self.unit, f"to be {own.name if own else 'another'}, as {self.method} needs")
                continue
            try:
                unit = unit_named(self.unit, Declared(directed=False, max_degree=max_degree))
                spends = unit.private and method.releases(unit, _ANY_GRAPH, 1.0)
            except UnsupportedUnitError:
                continue  # its cells will be skipped for this reason
            if spends and not self.epsilons:
                raise fail("epsilons", [], f"to hold a budget, which {self.method} spends under unit {self.unit}")

    @property
    def points(self) -> tuple[tuple[Any, float | None], ...]:
        """Return each value of what is varied with each epsilon; None stands for one that there is not."""
        return tuple(product(self.values or (None,), self.epsilons or (None,)))

    def at(self, value: Any, epsilon: float | None = None) -> tuple[Settings, int | None]:
        """Return settings and degree cap where the varied setting is ``value`` and the budget is ``epsilon``.

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
        """Return the settings of the preset, with the given settings in place of its own."""
        if self.preset is None:
            return settings
        from sfumato.local._presets import preset

        given = constructor(settings)
        values = preset(self.preset, dataset, *(given.get(name, 1.0) for name in _BUDGETS))
        found = {name: "inf" if value is None else value for name, value in values.items()}
        return tuple(sorted({**found, **dict(settings)}.items()))


def written(value: Any) -> Any:
    """Return a setting as files hold it, because JSON has no infinity."""
    return "inf" if value == math.inf else value


def constructor(settings: Settings) -> dict[str, Any]:
    """Return settings as a method takes them: an infinite budget is None, in the clear."""
    return {name: None if name in _BUDGETS and value == "inf" else value for name, value in settings}


def read_run(where: str, table: dict[str, Any]) -> Run:
    """Read the run of a ``[[run]]`` table at ``where`` in a file."""
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


def check_unique(what: str, values: Sequence[Any]) -> None:
    for value in values:
        if values.count(value) > 1:
            raise fail(what, value, "to appear once")
