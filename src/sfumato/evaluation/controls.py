"""The controls of a plan: what its method's card lists, made from the catalog."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

from sfumato.catalog import METHODS, method_named
from sfumato.privacy.units import NoPrivacy, Unit

if TYPE_CHECKING:
    from sfumato.method.card import Control
    from sfumato.method.contract import Method
    from sfumato.method.plan import Plan
    from sfumato.privacy.budget import Budget


class Beside(NamedTuple):
    """A control that can be calibrated beside a plan.

    Args:
        name: the name of the control in the card.
        method: the method with the settings of the control.
        unit: the privacy unit of the control.
        budget: what the control may cost; None without privacy, or if its own settings fix the cost.
    """

    name: str
    method: Method
    unit: Unit
    budget: Budget | None


def titles(method: str) -> dict[str, str]:
    """Return how tables name each control of a plan, by the control's name; the ceiling is last."""
    return {control.name: control.title for control in METHODS[method].card.controls}


def controls(plan: Plan) -> Iterator[Beside]:
    """Yield the controls that the settings of a plan's method have.

    A method with its own unit is never its own control.
    """
    method = plan.method
    for control in method.card.controls:
        if not _is_made(control, method):
            continue
        if control.method:
            kept = {name: method.settings[name] for name in control.keeps}
            made: Method = method_named(control.method, **{**kept, **control.settings})
        else:
            made = replace(method, **control.settings)
        if not control.private:
            yield Beside(control.name, made, NoPrivacy(), None)
        elif made.unit is None:
            yield Beside(control.name, made, plan.unit, plan.budget)
        elif made != method:
            yield Beside(control.name, made, made.unit, None)


def repeats(control: Plan, plan: Plan) -> bool:
    """Return whether a control would release the same as the run itself.

    If nothing is released, the control is shown all the same.
    """
    same = (control.method.name, control.releases) == (plan.method.name, plan.releases)
    return bool(plan.method.unit is None and same and plan.releases)


def _is_made(control: Control, method: Method) -> bool:
    settings = method.settings
    required = all(name in settings and settings[name] == value for name, value in control.only.items())
    return required and not any(settings[name] == value for name, value in control.unless.items())
