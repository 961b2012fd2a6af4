"""JSON as the verifier reads it: a single canonical text for each value, and the forms of the published JSON Schema."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator
from decimal import ROUND_CEILING, Context, Decimal
from functools import cache
from pathlib import Path
from typing import Any

from . import events

SCHEMA = Path(__file__).with_name("certificate-3.schema.json")
_TYPES: dict[str, Any] = {"object": dict, "array": list, "string": str, "boolean": bool, "integer": int,
                          "number": (int, float), "null": type(None)}  # fmt: skip
_UPWARD = Context(prec=400, rounding=ROUND_CEILING)
_LONGEST = 2**53  # a longer integer is not exact in every reader of JSON, and could hide a message


def one_line(text: str) -> str:
    r"""Return a text in which everything is escaped that could look like another line or word of a verdict.

    >>> one_line("run\nVALID: run")
    'run\\nVALID: run'
    """
    return ascii(text)[1:-1]


def plain(text: str) -> str:
    r"""Keep a word from the run on one line, short and free of control characters.

    >>> plain("VALID\x1b")
    'VALID\\x1b'
    """
    shown = one_line(text)
    return shown if len(shown) <= 80 else shown[:77] + "..."


def round_up(epsilon: float) -> str:
    """Print an epsilon with six decimals, or three digits where it is smaller than they tell, never below its value.

    >>> round_up(7.994783104)
    '7.994784'
    >>> round_up(1.2341e-9)
    '0.00000000124'
    """
    if 0 < epsilon < 1e-6:
        return f"{Context(prec=3, rounding=ROUND_CEILING).create_decimal_from_float(epsilon):f}"
    return f"{Decimal(epsilon).quantize(Decimal('0.000001'), context=_UPWARD).normalize(_UPWARD):f}"


def canonical(value: Any) -> bytes:
    """Return a value in the single JSON form that is hashed and compared.

    >>> canonical({"b": 1, "a": [1.5]})
    b'{"a":[1.5],"b":1}'
    """
    text = json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
    return text.encode("utf-8")


def differences(left: Any, right: Any, path: str) -> Iterator[str]:
    """Name the fields in which two JSON values, ``left`` and ``right``, differ. True, 1 and 1.0 are three values.

    >>> list(differences({"a": [1, 2]}, {"a": [1, 3]}, "b"))
    ['b.a[1]: 2 differs from 3']
    """
    if isinstance(left, dict) and isinstance(right, dict):
        for key in sorted(left.keys() | right.keys()):
            if key in left and key in right:
                yield from differences(left[key], right[key], f"{path}.{plain(key)}")
            else:
                yield f"{path}.{plain(key)}: is {'missing' if key in right else 'not expected'}"
    elif isinstance(left, list) and isinstance(right, list):
        for index, pair in enumerate(zip(left, right, strict=False)):
            yield from differences(*pair, f"{path}[{index}]")
        if len(left) != len(right):
            yield f"{path}: holds {len(left)} items, expected {len(right)}"
    elif canonical(left) != canonical(right):
        yield f"{path}: {plain(repr(left))} differs from {plain(repr(right))}"


def loads(data: bytes) -> Any:
    """Read JSON in which no field appears twice.

    >>> loads(b'{"a": 1, "a": 2}')
    Traceback (most recent call last):
    ValueError: a field appears twice
    """

    def unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        if len(dict(pairs)) < len(pairs):
            raise ValueError("a field appears twice")
        return dict(pairs)

    return json.loads(data.decode("utf-8"), object_pairs_hook=unique)


def parse(where: str, contents: dict[str, bytes], form: str, problems: list[str]) -> Any:
    """Return a document that is canonical JSON of its form, or None and a problem for each fault; None for a missing file."""
    if where not in contents:
        return None
    try:
        value = loads(contents[where])
        faults = [*form_faults(value, forms()[form], ""), *hiding(value, "")]
        if not faults and canonical(value) + b"\n" != contents[where]:
            faults = ["is not canonical JSON (sorted keys, no spaces, one newline at the end)"]
    except (ValueError, RecursionError) as error:
        faults = [f"is not valid JSON: {plain(str(error))}"]
    problems.extend(f"{where}: {fault}" for fault in faults)
    return None if faults else value


def hiding(value: Any, path: str) -> Iterator[str]:
    """Yield what could hide anything in a ``value``: a control, formatting or private character, and an integer beyond 2^53."""
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from hiding(key, f"{path}.{plain(key)}")
            yield from hiding(inner, f"{path}.{plain(key)}")
    elif isinstance(value, list):
        for index, inner in enumerate(value):
            yield from hiding(inner, f"{path}[{index}]")
    elif isinstance(value, str) and not value.isprintable():
        yield f"{path.removeprefix('.')}: expected printable characters, got {plain(value)}"
    elif isinstance(value, int) and abs(value) > _LONGEST:
        yield f"{path.removeprefix('.')}: expected an integer of at most 2^53 in magnitude, got {plain(str(value))}"


@cache
def forms() -> dict[str, Any]:
    """Return the definitions of the JSON Schema: the form of every file, and those of events from where they stand."""
    return {**json.loads(SCHEMA.read_text(encoding="utf-8"))["$defs"], "event": events.form()}


def form_faults(value: Any, form: dict[str, Any], path: str) -> Iterator[str]:
    """Check a ``value`` against a ``form``, in the part of JSON Schema that the schema uses; ``path`` names the value.

    Of oneOf, required[0] names the case. Of what anyOf offers, the nearest case is named.
    """
    if "$ref" in form:
        form = forms()[form["$ref"].removeprefix("#/$defs/")]
    label, dot = (f"{path}: ", ".") if path else ("", "")
    if "const" in form:
        yield from differences(value, form["const"], path)
    elif "anyOf" in form:
        yield from min((list(form_faults(value, case, path)) for case in form["anyOf"]), key=len)
    elif not _fits(value, form):
        yield f"{label}expected {_expected(form)}, got {plain(repr(value))}"
    elif "oneOf" in form:
        tag = form["required"][0]
        cases = {case["properties"][tag]["const"]: case for case in form["oneOf"]}
        given = value.get(tag)
        if isinstance(given, str) and given in cases:
            yield from form_faults(value, cases[given], path)
        else:
            yield f"{path}{dot}{tag}: expected {_expected({'enum': list(cases)})}, got {plain(repr(given))}"
    elif "items" in form:
        for index, item in enumerate(value):
            yield from form_faults(item, form["items"], f"{path}[{index}]")
    elif "properties" in form:
        known = form["properties"]
        for key in sorted(known.keys() | value.keys()):
            if key in known and key in value:
                yield from form_faults(value[key], known[key], f"{path}{dot}{plain(key)}")
            elif key not in known or key in form["required"]:
                yield f"{path}{dot}{plain(key)}: is {'missing' if key in known else 'not a known field'}"


def _fits(value: Any, form: dict[str, Any]) -> bool:
    """Return whether type, bounds, pattern and choice of a single value are right; true is no number, and 1.0 no integer."""
    if "enum" in form:
        return isinstance(value, str) and value in form["enum"]
    names = form["type"] if isinstance(form["type"], list) else [form["type"]]
    if not any(isinstance(value, _TYPES[name]) and isinstance(value, bool) == (name == "boolean") for name in names):
        return False
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        low, high = form.get("minimum", -math.inf), form.get("maximum", math.inf)
        above, below = form.get("exclusiveMinimum", -math.inf), form.get("exclusiveMaximum", math.inf)
        return bool(low <= value <= high and above < value < below)
    if isinstance(value, str):
        fits = form.get("minLength", 0) <= len(value) <= form.get("maxLength", math.inf)
        return fits and bool(re.fullmatch(form.get("pattern", "(?s).*"), value))
    return not isinstance(value, list) or len(value) <= form.get("maxItems", math.inf)


def _expected(form: dict[str, Any]) -> str:
    if "enum" in form:
        return "one of " + ", ".join(form["enum"])
    most = f" of at most {form['maxItems']} items" if "maxItems" in form else ""
    return str(form.get("title") or {"object": "an object", "array": "a list"}[form["type"]] + most)
