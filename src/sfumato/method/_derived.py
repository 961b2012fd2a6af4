"""A plan follows from its method, unit, public facts and budget. One that was changed, or loaded, is derived again before a fit.

A certificate states all of these beside releases and epsilon. If they did not follow from each other, a run would be charged for
something else than it says, and only the verifier would find out.
"""

from __future__ import annotations

import warnings
import weakref
from dataclasses import fields
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from sfumato.errors import InputError, SfumatoWarning
from sfumato.privacy.promises import warn

if TYPE_CHECKING:
    from sfumato.method.contract import Method
    from sfumato.privacy.promises import Caveat
    from sfumato.privacy.units import Unit

_MARKED: dict[int, tuple[weakref.ref[Any], tuple[Any, ...]]] = {}
"""By its id, a plan that was derived, with the values of its fields then."""


class _Plan(Protocol):
    @property
    def method(self) -> Method: ...
    @property
    def unit(self) -> Unit: ...
    @property
    def caveats(self) -> tuple[Caveat, ...]: ...


_P = TypeVar("_P", bound=_Plan)


def derived(plan: _P) -> _P:
    """Return a plan that was just calibrated, marked as such, after its caveats were given to Python's warnings.

    The mark belongs to this very object: ``dataclasses.replace``, copies and pickles make another one without it.
    """
    warn(plan.caveats)
    return marked(plan)


def marked(plan: _P) -> _P:
    """Return the plan, which a fit takes as it is from now on; tests forge plans with it."""
    key = id(plan)
    _MARKED[key] = (weakref.ref(plan, lambda _: _MARKED.pop(key, None)), _values(plan))
    return plan


def _values(plan: Any) -> tuple[Any, ...]:
    return tuple(getattr(plan, one.name) for one in fields(plan))


def _is_marked(plan: Any) -> bool:
    owner, values = _MARKED.get(id(plan), (lambda: None, ()))
    return owner() is plan and all(one is other for one, other in zip(values, _values(plan), strict=True))


def check_derived(plan: _Plan) -> None:
    """Refuse a plan whose releases or claim are not those that its method has for its unit, public facts and budget."""
    if _is_marked(plan):
        return
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SfumatoWarning)
        again = plan.method.calibrated_again(plan)
    other = next(
        (name for name in ("releases", "epsilon", "delta") if getattr(plan, name) != getattr(again, name)), None
    )
    if other is not None:
        got = "other releases" if other == "releases" else f"another {other}"
        raise InputError(
            f"Expected a plan as method {plan.method.name!r} calibrates it under unit {plan.unit.name}, got {got}: the run would "
            "cost something else than its certificate says, and nobody could verify it. Do not change a plan; make one with "
            "method.calibrate(budget, unit, public)."
        )
