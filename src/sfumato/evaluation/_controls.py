"""The controls of a plan: what its method's card lists, made from the catalog.

Controls of one name are candidates for it. Validation nodes choose the one that is shown, by the mean of its loss over all seeds,
so that test nodes stay for the comparison, and a class that accuracy cannot see counts: the log-loss of classes and labels, the
squared error of numbers. Where no validation node has a label test nodes choose, which can only make a floor or a ceiling better.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

from sfumato._optional import explained
from sfumato.catalog import METHODS, method_named
from sfumato.privacy.units import NoPrivacy, Unit

if TYPE_CHECKING:
    from sfumato.method._plan import Plan
    from sfumato.method.card import Control
    from sfumato.method.contract import Method
    from sfumato.privacy.budget import Budget


class Beside(NamedTuple):
    """A control that can be calibrated beside a plan, by its ``name`` and ``title`` in the card."""

    name: str
    title: str
    method: Method | ModuleNotFoundError  # an error if it needs a package that is absent
    unit: Unit
    budget: Budget | None  # None without privacy, or if its own settings fix the cost


def names(method: str) -> tuple[str, ...]:
    """List the names of a method's controls, each once; the ceiling is last."""
    return tuple(dict.fromkeys(control.name for control in METHODS[method].card.controls))


def titles(method: str, metrics: Mapping[str, Any]) -> dict[str, str]:
    """Return how tables name each control of a plan, by the control's name; the ceiling is last."""
    shown = {control.name: control.title for control in METHODS[method].card.controls}
    chosen = {name: metrics.get(f"{name}_method") for name in shown}
    return {name: f"{title} ({chosen[name]})" if chosen[name] else title for name, title in shown.items()}


def controls(plan: Plan) -> Iterator[Beside]:
    """Yield the controls that the settings of a plan's method have. A method with its own unit is never its own control."""
    method = plan.method
    for control in method.card.controls:
        if not _is_made(control, method):
            continue
        if control.method:
            kept = {name: method.settings[name] for name in control.keeps}
            try:
                made: Method = method_named(control.method, **{**kept, **control.settings})
            except ModuleNotFoundError as error:
                yield Beside(control.name, control.title, explained(error), NoPrivacy(), None)
                continue
        else:
            made = replace(method, **control.settings)
        if not control.private:
            yield Beside(control.name, control.title, made, NoPrivacy(), None)
        elif made.unit is None:
            yield Beside(control.name, control.title, made, plan.unit, plan.budget)
        elif made != method:
            yield Beside(control.name, control.title, made, made.unit, None)


def repeats(control: Plan, plan: Plan) -> bool:
    """Return whether a control would release the same as the run itself; if that is nothing, it is shown all the same."""
    same = (control.method.name, control.releases) == (plan.method.name, plan.releases)
    return bool(plan.method.unit is None and same and plan.releases)


def _is_made(control: Control, method: Method) -> bool:
    settings = method.settings
    required = all(name in settings and settings[name] == value for name, value in control.only.items())
    return required and not any(settings[name] == value for name, value in control.unless.items())
