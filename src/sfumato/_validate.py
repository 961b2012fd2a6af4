"""Checks on arguments, named by keyword so that every message reads the same way."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import field
from difflib import get_close_matches
from functools import partial
from numbers import Integral, Real
from typing import Any, TypeAlias

from sfumato.errors import InputError

Rule: TypeAlias = Callable[..., Any]
"""Checks the one keyword argument that it is given."""


def fail(name: str, value: Any, expected: str, remedy: str = "") -> InputError:
    """Build the error ``Expected <name> <expected>, got <value>. <remedy>``."""
    held = hasattr(value, "__len__") and any(hasattr(value, mark) for mark in ("__array__", "__arrow_c_stream__"))
    got = type(value).__name__ if held else repr(value)  # arrays and tables hold data, which is nobody's to read
    return InputError(f"Expected {name} {expected}, got {got}." + (f" {remedy}" if remedy else ""))


def _single(kwargs: dict[str, Any]) -> tuple[str, Any]:
    ((name, value),) = kwargs.items()
    return name, value


def check_real(
    remedy: str = "",
    *,
    low: float = -math.inf,
    high: float = math.inf,
    open_low: bool = False,
    open_high: bool = False,
    **kwargs: Any,
) -> float:
    """Return the one keyword argument as a finite float between ``low`` and ``high``."""
    name, value = _single(kwargs)
    left, right = ("> " if open_low else ">= "), ("< " if open_high else "<= ")
    bounds = [left + f"{low:g}"] * (low > -math.inf) + [right + f"{high:g}"] * (high < math.inf)
    expected = "to be a finite number" + (" " + " and ".join(bounds) if bounds else "")
    if not isinstance(value, Real) or isinstance(value, bool):
        raise fail(name, value, expected, remedy)
    try:
        number = float(value)
    except OverflowError:  # of an integer beyond the floats
        number = math.inf
    if not remedy and high == 1 < number <= 100:
        remedy = f"Write a share of 1: {number / 100:g}."
    outside = number < low or number > high or (open_low and number == low) or (open_high and number == high)
    if outside or not math.isfinite(number):
        raise fail(name, value, expected, remedy)
    return number


def check_int(remedy: str = "", *, low: int | None = None, high: int | None = None, **kwargs: Any) -> int:
    """Return the one keyword argument as an int between ``low`` and ``high``, both included."""
    name, value = _single(kwargs)
    bounds = [f">= {low}"] * (low is not None) + [f"<= {high}"] * (high is not None)
    expected = "to be an integer" + (" " + " and ".join(bounds) if bounds else "")
    if not isinstance(value, Integral) or isinstance(value, bool):
        raise fail(name, value, expected, remedy)
    number = int(value)
    if (low is not None and number < low) or (high is not None and number > high):
        raise fail(name, value, expected, remedy)
    return number


def check_kind(kind: type, remedy: str = "", **kwargs: Any) -> None:
    """Refuse the one keyword argument if it is no ``kind``; the message names its type alone, as its value may be private."""
    name, value = _single(kwargs)
    if not isinstance(value, kind):
        found = type(value).__name__
        raise InputError(
            f"Expected {name} to be of class {kind.__name__}, got {found}." + (f" {remedy}" if remedy else "")
        )


def nearest(value: Any, names: Iterable[str]) -> str:
    """Return the question whether the name was meant that is most like ``value``, or "" if none is like it."""
    known, asked = {name.casefold(): name for name in names}, str(value).casefold()
    alike = [one for one in get_close_matches(asked, known) if len(asked) > 3 or one[0] == asked[0]]  # knn is no cnn
    near = alike or [one for one in known if _begins(asked, one)]
    if not near and "/" not in asked:  # of a name with a folder, such as planetoid/cora
        last = {one.rpartition("/")[2]: one for one in known if "/" in one}
        near = [last[one] for one in get_close_matches(asked, last, n=1)]
    return f"Did you mean {known[near[0]]!r}?" if near else ""


def _begins(one: str, other: str) -> bool:
    """Whether one of two words is the beginning of the other, as of a unit with more words behind it."""
    short, long = sorted((one, other), key=len)
    return len(short) > 2 and long.startswith(short)


def check_choice(choices: tuple[str, ...], remedy: str = "", **kwargs: Any) -> str:
    """Return the one keyword argument if it is among ``choices``. The ``remedy`` is a sentence that says what to do."""
    name, value = _single(kwargs)
    if not isinstance(value, str) or value not in choices:
        told = " ".join(filter(None, (nearest(value, choices), remedy)))
        raise fail(name, value, "to be one of " + ", ".join(choices), told)
    return str(value)


def real(low: float, high: float = math.inf, *, above: bool = False, below: bool = False) -> Rule:
    """Make the rule of a setting from ``low`` to ``high``; ``above`` and ``below`` leave an end out."""
    return partial(check_real, low=low, high=high, open_low=above, open_high=below)


def integer(low: int, high: int | None = None) -> Rule:
    """Make the rule of a setting that is an integer from ``low`` to ``high``, both included."""
    return partial(check_int, low=low, high=high)


def one_of(*choices: str) -> Rule:
    return partial(check_choice, choices)


def flag(remedy: str = "") -> Rule:
    def check(**kwargs: Any) -> None:
        name, value = _single(kwargs)
        if not isinstance(value, bool):
            raise fail(name, value, "to be True or False", remedy)

    return check


def optional(rule: Rule) -> Rule:
    def check(**kwargs: Any) -> None:
        if _single(kwargs)[1] is not None:
            rule(**kwargs)

    return check


AT_LEAST_1, ABOVE_0 = integer(1), real(0, above=True)
STEP_SIZE, SHARE = real(0, 10, above=True), real(0, 1, above=True, below=True)
"""A step size, and a share that is neither nothing nor all."""


def check_fields(owner: object, **rules: Rule) -> None:
    """Check settings of a dataclass by one rule each, in the order of the rules."""
    for name, rule in rules.items():
        rule(**{name: getattr(owner, name)})


Where: TypeAlias = Mapping[str, tuple[Any, ...]]
"""Values of other settings, by name; all these settings have one of theirs."""
PRIVATE: Where = {"unit": ("private",)}
PRIVATE_LABELS: Where = {"labels": ("private",)}
"""In the place of a setting: that something is protected, and that labels are. The unit says so."""


def setting(default: Any, *only: Where, unless: Where | None = None) -> Any:
    """Declare a setting of a dataclass that has no effect but where others have values of one of ``only``.

    It has none either where one of them has a value of ``unless``.
    """
    return field(default=default, metadata={"only": only, "unless": unless or {}})
