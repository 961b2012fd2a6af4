"""Defaults, what settings accept, what cards say, and named constants are those that are written down in defaults.json.

Such a number decides what a run costs and reaches, and hardly another test would see it move. Whoever changes one on
purpose writes the file anew (``python tests/golden/test_defaults.py``) and says so in the changelog.
"""

import ast
import dataclasses
import inspect
import json
import math
from pathlib import Path

import sfumato
from sfumato.catalog import _HOMES, _import
from sfumato.errors import InputError
from sfumato.privacy.events import (
    ComposedEvent,
    ExponentialEvent,
    GaussianEvent,
    LaplaceEvent,
    PoissonGaussianEvent,
    PureEvent,
    RandomizedResponseEvent,
    RepeatedGaussianEvent,
    SelectionEvent,
    ZCDPEvent,
)

FILE = Path(__file__).with_name("defaults.json")
SOURCE = Path(sfumato.__file__).parent
PACKAGES = (
    "bounded", "central", "classlevel", "collect", "local", "method", "noise", "pate", "privacy", "randomizers", "record",
    "verify",
)  # fmt: skip
LADDER = (
    True, -1, 0, 1, 2, 3, 6, 100, 10**7, 10**12, 1e-15, 1e-4, 0.5, 1.0, 1.5, 10.0, 10.5, 101.0, 1e7, 1e12, math.nan, math.inf,
    "word", (1,),
)  # fmt: skip
EXAMPLES = (
    GaussianEvent(2.0), PoissonGaussianEvent(0.5, 2.0, 10), RepeatedGaussianEvent(0.5, 3, 2.0, 10), LaplaceEvent(2.0),
    RandomizedResponseEvent(1.0), ExponentialEvent(1.0), PureEvent(1.0), ZCDPEvent(0.5), ComposedEvent((PureEvent(1.0),)),
    SelectionEvent(((PureEvent(1.0),),), "geometric", 4.0), sfumato.Budget(1.0, 1e-6), sfumato.EdgeLevel(directed=False),
    sfumato.NodeLevel(), sfumato.RecordLevel(), sfumato.ClassLevel(), sfumato.SubclassLevel(5),
)  # fmt: skip
TABLES = {"METHODS"}  # compared with the methods themselves, in tests/contracts/test_rules.py
IN_WORDS = {"summary", "citations", "title", "defaults", "options", "words"}  # said elsewhere, or tested there


def plain(value):
    """Literals as they are; a thing of the library by its fields; anything else by its class."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        fields = [one.name for one in dataclasses.fields(value) if one.init and one.name not in IN_WORDS]
        return {name: plain(getattr(value, name)) for name in fields}
    if isinstance(value, dict):
        return {str(name): plain(one) for name, one in value.items()}
    if isinstance(value, tuple | list):
        return [plain(one) for one in value]
    return value if value is None or isinstance(value, bool | int | float | str) else type(value).__name__


def defaults(function):
    """The defaults of the parameters of a function or class; nothing where there is no signature."""
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        return {}
    return {one.name: plain(one.default) for one in parameters if one.default is not one.empty}


def accepted(base):
    """Which values of a ladder each setting takes, beside those of the others; every other one is an InputError."""
    found = {}
    for one in dataclasses.fields(base):
        taken = []
        for value in LADDER if one.init and not isinstance(getattr(base, one.name), tuple) else ():
            try:
                dataclasses.replace(base, **{one.name: value})
            except InputError:
                continue
            taken.append(repr(value))
        found[one.name] = " ".join(taken)
    return found


def constants(path):
    """The named constants of a file in which there is a number, as they are written."""
    found = {}
    for node in ast.parse(path.read_text()).body:
        target = node.targets[0] if isinstance(node, ast.Assign) else getattr(node, "target", None)
        value = getattr(node, "value", None)
        numbers = value and [one for one in ast.walk(value) if isinstance(getattr(one, "value", None), int | float)]
        if (
            numbers
            and isinstance(target, ast.Name | ast.Tuple)
            and ast.unparse(target).isupper()
            and ast.unparse(target) not in TABLES
        ):
            found[ast.unparse(target)] = ast.unparse(value)
    return found


def written():
    """What the file should hold."""
    files = sorted(path for name in PACKAGES for path in (SOURCE / name).rglob("*.py"))
    methods = {name: _import(home) for name, home in _HOMES.items()}
    functions = {name: defaults(getattr(sfumato, name)) for name in sfumato.__all__ if callable(getattr(sfumato, name))}
    return {
        "cards": {name: plain(method.card) for name, method in sorted(methods.items())},
        "defaults": {name: defaults(method) for name, method in sorted(methods.items())},
        "accepts": {name: accepted(method()) for name, method in sorted(methods.items())},
        "accepted by events, units and budgets": {type(one).__name__: accepted(one) for one in EXAMPLES},
        "functions": {name: found for name, found in sorted(functions.items()) if found},
        "constants": {path.relative_to(SOURCE).as_posix(): found for path in files if (found := constants(path))},
    }


def test_defaults_are_those_that_are_written_down():
    """What is new has no line yet, and needs none."""
    found, kept = json.loads(json.dumps(written())), json.loads(FILE.read_text())
    for part, entries in kept.items():
        for name, values in entries.items():
            there = {key: found[part].get(name, {}).get(key, "gone") for key in values}
            assert there == values, f"{part} of {name}: write the file anew, and say it in the changelog"


def text():
    """One line for each entry, so that changes of several do not conflict."""
    parts = []
    for part, entries in written().items():
        lines = [f"  {json.dumps(name)}: {json.dumps(values, sort_keys=True)}" for name, values in entries.items()]
        parts.append(f" {json.dumps(part)}: {{\n" + ",\n".join(lines) + "\n }")
    return "{\n" + ",\n".join(parts) + "\n}\n"


if __name__ == "__main__":
    FILE.write_text(text())
