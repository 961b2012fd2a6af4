"""The settings of a method as words: what each is called, takes and means, and values read from ``NAME=VALUE``.

A setting is a field of the method's class. Its meaning stands in the docstring of the class, or of the class that the field
comes from, and nowhere else.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import MISSING, fields
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple

from sfumato._numbers import hint
from sfumato._validate import Where, check_choice, check_int
from sfumato.errors import InputError

if TYPE_CHECKING:
    from sfumato.privacy.units import Unit

_ENTRY = re.compile(r" {4}(\w+): ((?:.*\n?)(?: {8,}.*\n?)*)")
_SEE = re.compile(r" \(:\w+:`[^`]*`\)")
_ROLE = re.compile(r":\w+:`([^`]*)`")
_MOST = 1 << 40
_TRUTH = {"true": True, "false": False}


class Setting(NamedTuple):
    """One setting: its name, its type, its default, what it means, the option that sets it, and where it has an effect.

    ``only`` and ``unless`` hold values of other settings, by name (:func:`~sfumato._validate.setting`).
    """

    name: str
    kind: str
    default: Any
    meaning: str
    option: str | None = None
    only: tuple[Where, ...] = ()
    unless: Where = MappingProxyType({})

    @property
    def spelled(self) -> str:
        """Return how a command line names it."""
        return self.option or f"--set {self.name}"

    def where(self, known: Mapping[str, Setting]) -> str:
        """Return where it has an effect, as sentences; "" where it always has. ``known`` holds all settings of its method."""
        idle = [_with(known, {name: values}) for name, values in self.unless.items() if name in known]
        told = [f"Has an effect only {_some(known, self.only)}."] * bool(self.only)
        return " ".join([*told, *([f"Has no effect {' or '.join(idle)}."] if idle else [])])

    @property
    def takes(self) -> str:
        """Return what a value of it has to be."""
        first, *none = self.kind.split(" | ")
        return _KINDS[first][0] + ", or none" * bool(none)

    @property
    def usual(self) -> str:
        """Return the default as a word."""
        return _word(self.default)

    def read(self, word: str) -> Any:
        """Return the value that a word stands for."""
        first, *none = self.kind.split(" | ")
        if none and word.lower() == "none":
            return None
        try:
            value = _KINDS[first][1](word)
        except (KeyError, ValueError):
            remedy = hint(word, whole=first == "int") if first in ("int", "float") else ""
            raise InputError(
                f"Expected setting {self.name} to be {self.takes}, got {word!r}. {remedy}".rstrip()
            ) from None
        if first == "int":
            check_int(high=_MOST, **{f"setting {self.name}": value})  # beyond, libraries fail in ways of their own
        return value


_KINDS: dict[str, tuple[str, Callable[[str], Any]]] = {
    "int": ("an integer", int),
    "float": ("a number", float),
    "str": ("a word", str),
    "tuple[int, ...]": ("integers with commas between", lambda word: tuple(int(part) for part in word.split(","))),
    "bool": ("true or false", lambda word: _TRUTH[word.lower()]),
}


def settings_of(method: type[Any]) -> dict[str, Setting]:
    """Return the settings of a method by name, in the order of its class."""
    return fields_of(method, {name: "--" + word.replace("_", "-") for word, name in method.card.options.items()})


def fields_of(kind: type[Any], options: Mapping[str, str]) -> dict[str, Setting]:
    """Return the fields of a dataclass as settings by name; ``options`` hold those that an option sets."""
    meanings = dict(_meanings(kind))
    kinds = {one.name: one.type.__name__ if isinstance(one.type, type) else str(one.type) for one in fields(kind)}
    return {
        name: Setting(name, kinds[name], one.default, meanings.get(name, ""), options.get(name), **one.metadata)
        for name, one in ((one.name, one) for one in fields(kind))
        if kinds[name].split(" | ")[0] in _KINDS and one.default is not MISSING
    }


def _meanings(method: type) -> Iterator[tuple[str, str]]:
    """The entry of each setting, from the most general class on: what a class says itself comes last."""
    for one in reversed(method.__mro__):
        _, _, text = inspect.cleandoc(one.__doc__ or "").partition("Args:\n")
        for name, words in _ENTRY.findall(text):
            yield name, _plain(" ".join(words.split()))


def _plain(text: str) -> str:
    r"""The text without marks of markup."""
    plain = _ROLE.sub(
        lambda found: found[1].rpartition(".")[2].lstrip("_") if found[1].startswith("~") else found[1],
        _SEE.sub("", text),
    )
    return plain.replace("`", "").replace("\\", "")


def read_settings(method: type[Any], words: Sequence[str]) -> dict[str, Any]:
    """Read settings of a method from words ``NAME=VALUE``; a name that an option has is left to the option."""
    spoken = method.card.spoken[0]
    return read_words(settings_of(method), words, spoken, f"sfumato methods {spoken}")


def read_words(known: Mapping[str, Setting], words: Sequence[str], spoken: str, command: str) -> dict[str, Any]:
    """Read settings from words ``NAME=VALUE``; ``spoken`` names what has them, and the ``command`` explains them."""
    free = tuple(name for name, one in known.items() if not one.option)
    found: dict[str, Any] = {}
    for word in words:
        name, equals, value = (part.strip() for part in word.partition("="))
        if not equals:
            raise InputError(
                f"Expected --set NAME=VALUE, got {word!r}. Write a setting and its value, such as --set width=32."
            )
        if not known:
            raise InputError(
                f"Expected no --set with {spoken}, which has no settings, got {word!r}. Name another method, or drop it."
            )
        if option := known[name].option if name in known else None:
            raise InputError(
                f"Expected {option} {value} instead of --set {word}: the setting has an option. Give that."
            )
        check_choice(free, f"`{command}` explains them.", **{f"--set with {spoken}": name})
        if name in found:
            raise InputError(f"Expected --set {name} once, got it twice. Drop one.")
        found[name] = known[name].read(value)
    return found


def check_effects(made: Any, given: Mapping[str, Any], unit: Unit | None) -> None:
    """Refuse a setting that was given and that the others leave without effect; ``unit`` is None where it is not known.

    Raises:
        InputError: there is one.
    """
    known, held = settings_of(type(made)), _held(made, unit)
    for name, value in given.items():
        one = known[name]
        some, there = _idle(one, held)
        if there:
            words = (
                _with(known, {other: (held[other],)}) if other in known or unit is None else f"with --unit {unit.name}"
                for other in there
            )
            got = " and ".join(dict.fromkeys(words))
            lacking = [{other: where[other]} for where in one.only if (other := _failing(where, held))]
            only = f"{one.spelled} only {_some(known, lacking)}, got it {got}"
            raise InputError(
                f"Expected {only if some else f'no {one.spelled} {got}'}, where it has no effect. Drop it."
            )
        if held[name] != value:
            raise InputError(
                f"Expected {one.spelled} to be {_word(held[name])}, as the other settings fix it, got {_word(value)}. Drop it."
            )


def with_effect(made: Any, unit: Unit) -> dict[str, str]:
    """Return the settings of a method that have an effect under a unit, as words by name."""
    held = _held(made, unit)
    return {name: _word(held[name]) for name, one in settings_of(type(made)).items() if not _idle(one, held)[1]}


def _held(made: Any, unit: Unit | None) -> dict[str, Any]:
    """The values of all settings, and what the unit says."""
    if unit is None:
        return dict(vars(made))
    labels = "public" if "labels" in unit.public else "private"
    return {**vars(made), "unit": "private" if unit.private else "none", "labels": labels}


def _idle(one: Setting, held: Mapping[str, Any]) -> tuple[bool, list[str]]:
    """What leaves a setting without effect, by name, and whether that is for lack of a value in ``only``."""
    there = [other for other, values in one.unless.items() if held.get(other, _UNKNOWN) in values]
    failing = [_failing(where, held) for where in one.only]
    return (False, there) if there else (True, list(dict.fromkeys(failing)) if all(failing) else [])


_UNKNOWN = object()
_OF_UNIT = {
    ("unit", "private"): "under a private unit",
    ("unit", "none"): "under unit none",
    ("labels", "private"): "where labels are private",
    ("labels", "public"): "where labels are public",
}


def _failing(where: Where, held: Mapping[str, Any]) -> str:
    """The first setting that has none of its values; "" where each known one has."""
    return next((other for other, values in where.items() if other in held and held[other] not in values), "")


def _some(known: Mapping[str, Setting], only: Sequence[Where]) -> str:
    return ", or ".join(dict.fromkeys(_with(known, where) for where in only))


def _with(known: Mapping[str, Setting], where: Where) -> str:
    """The words for settings that have values; those that the method lacks are left out."""
    told, of_unit = [], [words for (name, value), words in _OF_UNIT.items() if value in where.get(name, ())]
    for name, values in where.items():
        clear = "inf" if name.startswith("epsilon_") else "none"  # as options say it
        *words, last = [clear if value is None else _word(value) for value in values]
        if name in known:
            told.append(f"with {known[name].option or name} {', '.join(words)}{' or ' * bool(words)}{last}")
    return " ".join([*([" and ".join(told)] if told else []), *of_unit])


def _word(value: Any) -> str:
    """A value as a command line spells it."""
    if isinstance(value, float):
        return str(value).removesuffix(".0")
    if isinstance(value, tuple):
        return ",".join(map(str, value))
    return "none" if value is None else str(value).lower() if isinstance(value, bool) else str(value)
