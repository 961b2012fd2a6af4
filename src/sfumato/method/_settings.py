"""The settings of a method as words: what each is called, takes and means, and values read from ``NAME=VALUE``.

A setting is a field of the method's class. Its meaning stands in the docstring of the class, or of the class that the field
comes from, and nowhere else.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import MISSING, fields
from typing import TYPE_CHECKING, Any, NamedTuple

from sfumato._validate import check_choice
from sfumato.errors import InputError

if TYPE_CHECKING:
    from sfumato.method.contract import Listed

_ENTRY = re.compile(r" {4}(\w+): ((?:.*\n?)(?: {8,}.*\n?)*)")
_ROLE = re.compile(r":\w+:`([^`]*)`")
_TRUTH = {"true": True, "false": False}


class Setting(NamedTuple):
    """One setting: its name, its type, its default, what it means, and the option that sets it, if there is one."""

    name: str
    kind: str
    default: Any
    meaning: str
    option: str | None = None

    @property
    def takes(self) -> str:
        """Return what a value of it has to be."""
        first, *none = self.kind.split(" | ")
        return _KINDS[first][0] + ", or none" * bool(none)

    @property
    def usual(self) -> str:
        """Return the default as a word."""
        return (
            "none" if self.default is None else str(self.default).lower() if self.kind == "bool" else str(self.default)
        )

    def read(self, word: str) -> Any:
        """Return the value that a word stands for."""
        first, *none = self.kind.split(" | ")
        if none and word.lower() == "none":
            return None
        try:
            return _KINDS[first][1](word)
        except (KeyError, ValueError):
            raise InputError(f"Expected setting {self.name} to be {self.takes}, got {word!r}.") from None


_KINDS: dict[str, tuple[str, Callable[[str], Any]]] = {
    "int": ("an integer", int),
    "float": ("a number", float),
    "str": ("a word", str),
    "bool": ("true or false", lambda word: _TRUTH[word.lower()]),
}


def settings_of(method: type[Listed]) -> dict[str, Setting]:
    """Return the settings of a method by name, in the order of its class."""
    meanings = dict(_meanings(method))
    options = {name: "--" + option.replace("_", "-") for option, name in method.card.options.items()}
    kinds = {one.name: one.type.__name__ if isinstance(one.type, type) else str(one.type) for one in fields(method)}
    return {
        one.name: Setting(one.name, kinds[one.name], one.default, meanings.get(one.name, ""), options.get(one.name))
        for one in fields(method)
        if kinds[one.name].split(" | ")[0] in _KINDS and one.default is not MISSING
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
        lambda found: found[1].rpartition(".")[2].lstrip("_") if found[1].startswith("~") else found[1], text
    )
    return plain.replace("`", "").replace("\\", "")


def read_settings(method: type[Listed], words: Sequence[str]) -> dict[str, Any]:
    """Read settings of a method from words ``NAME=VALUE``; a name that an option has is left to the option."""
    known = settings_of(method)
    found: dict[str, Any] = {}
    for word in words:
        name, equals, value = (part.strip() for part in word.partition("="))
        if not equals:
            raise InputError(
                f"Expected --set NAME=VALUE, got {word!r}. Write a setting and its value, such as --set width=32."
            )
        spoken = method.card.spoken[0]
        if not known:
            raise InputError(
                f"Expected no --set with {spoken}, which has no settings, got {word!r}. Name another method, or drop it."
            )
        check_choice(tuple(known), f"`sfumato methods {spoken}` explains them.", **{f"--set with {spoken}": name})
        if option := known[name].option:
            raise InputError(
                f"Expected {option} {value} instead of --set {word}: the setting has an option. Give that."
            )
        if name in found:
            raise InputError(f"Expected --set {name} once, got it twice. Drop one.")
        found[name] = known[name].read(value)
    return found
