"""How a table of options becomes the options of commands: each row is an option, and a field of a dataclass that holds its value.

The name of the field is that of the option, its annotation says the type, and :func:`option` the rest.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, fields, replace
from functools import wraps
from pathlib import Path
from types import MappingProxyType
from typing import Any, get_args, get_type_hints

import typer

from sfumato.cli._completing import COMPLETE

NEEDED = "Required (a named data set, a stored graph, or two tables)"
DATA = "Data"
RECORD = "What a record is"
METHOD = "Method"
ASKED = "What is asked, and how it is shown"
LOCAL = "Local methods, where devices randomize"
SCORES = "Scores, which are outside the guarantee"
BUDGET = "One budget for all runs on a data set"
RUNS = "How it runs"
PANELS = (NEEDED, ASKED, DATA, RECORD, METHOD, LOCAL, SCORES, BUDGET, RUNS)

JSON = typer.Option(False, "--json", help="Print one JSON object on standard output.")
ALL = "every option"
_LISTS = {list[str], tuple[str, ...]}


@dataclass(frozen=True)
class Row:
    """What a table says of an option beside its name and type.

    ``help`` is its help text, by command; ``panel`` the group that shows it; ``flags`` its spelling, if that is another than the
    name; ``environment`` a variable that may hold it. An ``argument`` is named by its place. An option ``decides`` a run, unless
    it only says how the command goes about it. Those to be named ``again`` say graph, unit and budget, for another method.
    ``read`` is the type on the command line, if the value that is kept has another. Help shows those of the panel of what is
    needed and what a first user looks for, ``first``, or looks for in a command, ``first_in``, which has it in a panel of its
    own; ``eager`` is called as soon as the option is read, and ``complete`` lists values for the shell.
    """

    help: Mapping[str, str]
    panel: str
    flags: str | None = None
    environment: str | None = None
    argument: bool = False
    decides: bool = True
    again: bool = False
    read: Any = None
    first: bool = False
    first_in: Mapping[str, str] = field(default_factory=dict)
    eager: Callable[..., None] | None = None
    complete: Callable[..., Iterable[Any]] | None = None

    def place(self, command: str) -> tuple[str, bool]:
        """Return the panel of the option in the help of a command, and whether a first user is shown it there."""
        own = self.first_in.get(command)
        return (self.panel, self.first or self.panel == NEEDED) if own is None else (own, True)


def option(
    text: str = "",
    panel: str = RUNS,
    commands: str = "",
    *,
    default: Any = None,
    also: Mapping[str, str] | None = None,
    **row: Any,
) -> Any:
    """Return a row: ``text`` is the help of all these ``commands``, and ``also`` that of others, by command."""
    helps = {**dict.fromkeys(commands.split(), text), **(also or {})}
    return field(default=default, metadata={"row": Row(MappingProxyType(helps), panel, **row)})


def same(table: type, name: str, command: str) -> Any:
    """Return a row of another table again, for a command."""
    one = next(one for one in fields(table) if one.name == name)
    row = one.metadata["row"]
    return field(default=one.default, metadata={"row": replace(row, help={command: next(iter(row.help.values()))})})


def rows(table: type) -> dict[str, Row]:
    """Return the rows of a table by name."""
    return {one.name: one.metadata["row"] for one in fields(table)}


def spelled(name: str) -> str:
    """Return how a command line names an option."""
    return "METHOD" if name == "method" else "--" + name.replace("_", "-")


def given_option(table: type, name: str, command: str | None = None) -> Any:
    """Return an option of a table for Typer, with its help for a command, or for the first that has it."""
    row, default = rows(table)[name], next(one.default for one in fields(table) if one.name == name)
    default = None if default == () else default
    text = row.help[command or next(iter(row.help))]
    complete = row.complete or COMPLETE.get(name)
    if row.argument:
        return typer.Argument(default, help=text, autocompletion=complete)
    kinds: dict[str, Any] = {"envvar": row.environment, "show_envvar": False} if row.environment else {}
    kinds |= {"autocompletion": complete} if complete else {}
    if row.eager is not None:
        kinds |= {"callback": row.eager, "is_eager": True}
    return typer.Option(default, row.flags or spelled(name), help=text, **kinds)


def parameters(table: type, command: str) -> Iterator[inspect.Parameter]:
    """Yield the options of a command as parameters of a function that Typer reads, in the order of their panels."""
    hints = get_type_hints(table)
    for name, row in sorted(rows(table).items(), key=lambda item: PANELS.index(item[1].place(command)[0])):
        if command in row.help:
            one = given_option(table, name, command)
            kind = row.read or (
                list[str] if {list[str], tuple[str, ...]} & {hints[name], *get_args(hints[name])} else hints[name]
            )
            kind = kind | None if one.default is None else kind
            yield inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=one, annotation=kind)


def takes(
    table: type, command: str
) -> Callable[[Callable[[typer.Context, dict[str, Any]], None]], Callable[..., None]]:
    """Let a function of a context and of values by name be a command, with the options that a table has for it."""
    hints = get_type_hints(table)

    def decorate(run: Callable[[typer.Context, dict[str, Any]], None]) -> Callable[..., None]:
        @wraps(run)
        def called(context: typer.Context, **values: Any) -> None:
            run(context, {name: _held(hints[name], value) for name, value in values.items()})

        first = inspect.Parameter("context", inspect.Parameter.POSITIONAL_OR_KEYWORD, annotation=typer.Context)
        taken = (first, *parameters(table, command))
        called.__signature__ = inspect.Signature(taken)  # type: ignore[attr-defined]
        called.__annotations__ = {one.name: one.annotation for one in taken}
        return called

    return decorate


def one_or_more(words: list[str] | None) -> str | list[str] | None:
    """Return the word that an option was given, or the words; None for none."""
    found = list(dict.fromkeys(words or ()))
    return found[0] if len(found) == 1 else found or None


def _held(hint: Any, value: Any) -> Any:
    """The value as the table holds it: of an option that may be repeated all words, or the one."""
    return (
        tuple(value or ()) if hint == tuple[str, ...] else one_or_more(value) if list[str] in get_args(hint) else value
    )


def show_all(context: typer.Context, asked: bool) -> None:
    """Print the help of a command with every option, if that was asked for, and end."""
    if asked:
        context.meta[ALL] = True
        typer.echo(context.get_help())
        raise typer.Exit


def paths(table: type) -> tuple[str, ...]:
    """Return the names of the options that are files or folders."""
    return tuple(name for name, hint in get_type_hints(table).items() if hint == Path or Path in get_args(hint))
