"""Kinds of single values, named by the words in which tables and problems call them.

``index`` is an integer from 0 on, and ``count`` an integer from 1 on. ``number`` is any finite number, ``amount`` and
``budget`` a number from 0 on, ``positive`` a number above 0, ``share`` a number in (0, 1], ``part`` a fraction strictly between
0 and 1, ``fraction`` a number in [0, 1), ``votes`` a number from 2^-10 to 2^15, ``flag`` true or false, ``name`` at most 200
characters. ``one of a, b`` is one of these words. `` or null`` after a kind admits null, and `` up to N`` after that bounds the
magnitude.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from ._documents import plain


def kind_faults(values: Mapping[str, Any], kinds: Mapping[str, str], where: str, owner: str) -> Iterator[str]:
    """Name each value that is missing, not known, or not of its kind.

    >>> list(kind_faults({"width": 0}, {"width": "count"}, "settings", "a setting of method gap"))
    ['settings.width: expected count, got 0']
    """
    for name in sorted(values.keys() | kinds.keys()):
        if name not in kinds:
            yield f"{where}.{plain(name)}: is not {owner}"
        elif name not in values:
            yield f"{where}.{plain(name)}: is missing"
        else:
            yield from (f"{where}.{plain(name)}: {text}" for text in _value_faults(values[name], kinds[name]))


def _value_faults(value: Any, kind: str) -> Iterator[str]:
    kind, _, most = kind.partition(" up to ")
    if not is_kind(value, kind):
        yield f"expected {kind}, got {plain(repr(value))}"
    elif most and value is not None and abs(value) > int(most):
        yield f"{value} is beyond what can be verified here: at most {most}"


def case_faults(value: Mapping[str, Any], cases: Mapping[str, Mapping[str, str]], where: str) -> Iterator[str]:
    """Name what is wrong with an object whose name says which fields it has, and of what kinds.

    >>> list(case_faults({"name": "gnmax"}, {"lnmax": {"scale": "votes"}}, "mechanism"))
    ['mechanism.name: expected one of lnmax, got gnmax']
    """
    name = value.get("name")
    if not isinstance(name, str) or name not in cases:
        yield f"{where}.name: expected one of {', '.join(cases)}, got {plain(str(name))}"
    else:
        fields = {field: one for field, one in value.items() if field != "name"}
        yield from kind_faults(fields, cases[name], where, f"a parameter of {name}")


def is_kind(value: Any, kind: str) -> bool:
    """Return whether a value is of a kind.

    >>> is_kind(None, "count or null"), is_kind(True, "count"), is_kind("b", "one of a, b")
    (True, False, True)
    """
    if kind.endswith(" or null") and value is None:
        return True
    kind = kind.removesuffix(" or null")
    if kind.startswith("one of "):
        return isinstance(value, str) and value in kind.removeprefix("one of ").split(", ")
    return _KINDS[kind](value)


def is_number(value: Any) -> bool:
    """Return whether a value is a finite number; true and false are not."""
    return type(value) in (int, float) and abs(value) <= 1e300


_KINDS: Mapping[str, Callable[[Any], bool]] = {
    "flag": lambda value: isinstance(value, bool),
    "index": lambda value: type(value) is int and 0 <= value <= 2**53,
    "count": lambda value: type(value) is int and 1 <= value <= 2**53,
    "counts": lambda value: isinstance(value, list) and all(is_kind(one, "count") for one in value),
    "number": is_number,
    "amount": lambda value: is_number(value) and value >= 0,
    "budget": lambda value: is_number(value) and value >= 0,
    "positive": lambda value: is_number(value) and value > 0,
    "share": lambda value: is_number(value) and 0 < value <= 1,
    "part": lambda value: type(value) is float and 0 < value < 1,
    "fraction": lambda value: is_number(value) and 0 <= value < 1,
    "votes": lambda value: is_number(value) and 2**-10 <= value <= 2**15,
    "name": lambda value: isinstance(value, str) and len(value) <= 200,
    "device": lambda value: isinstance(value, str) and bool(re.fullmatch(r"cpu|cuda(:[0-9]{1,2})?", value)),
    "object": lambda value: isinstance(value, dict),
}
