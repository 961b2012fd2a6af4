"""Questions at the terminal: before what cannot be undone, and for what no file can tell."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

import typer

from sfumato.errors import InputError

T = TypeVar("T")
YES = typer.Option(False, "--yes", help="Do not ask. Needed where nobody can be asked, as in a script.")


def agreed(question: str) -> bool:
    """Ask for a "y"; anything else is a no, and so is the end of the input."""
    try:
        return input(f"{question} [y/N] ").strip().lower() in ("y", "yes")
    except EOFError:
        return False


def ask_first(what: str, *, yes: bool) -> None:
    """Say ``what`` cannot be undone, and ask, unless ``yes`` was given. Without a yes the command ends here, with exit code 1."""
    typer.echo(what, err=True)
    if yes:
        return
    if not sys.stdin.isatty():
        raise InputError("Expected --yes where no terminal is there to ask at, got none. Nothing was changed.")
    if not agreed("Go on?"):
        typer.echo("Nothing was changed.", err=True)
        raise typer.Exit(1)


@dataclass(frozen=True)
class Questions:
    """Questions on standard error, answered on standard input, a terminal or a pipe. With ``yes`` all defaults are taken."""

    yes: bool = False

    def ask(self, question: str, read: Callable[[str], T], default: str | None = None) -> T:
        """Ask until ``read`` takes the answer; an empty one is the ``default``.

        Raises:
            InputError: there is no default where nobody is asked, or no answer is left.
        """
        while True:
            typer.echo(f"{question}{'' if not default else f' [{default}]'} ", nl=False, err=True)
            line = "" if self.yes else sys.stdin.readline()
            if self.yes or not sys.stdin.isatty():
                typer.echo(line.strip() or default or "", err=True)
            if (not line and not self.yes) or (self.yes and default is None):
                raise InputError(f"Expected an answer to {question!r}, got none. Nothing was written. Answer it.")
            try:
                return read(line.strip() or default or "")
            except InputError as error:
                if self.yes:
                    raise
                typer.echo(f"{error}", err=True)

    def whether(self, question: str, default: bool | None = None) -> bool:
        """Ask for yes or no."""
        usual = None if default is None else "y" if default else "n"
        return self.ask(question if usual else f"{question} (y/n)", _truth, usual)


def _truth(answer: str) -> bool:
    if answer.lower() not in ("y", "yes", "n", "no"):
        raise InputError("Expected y or n. Type one of them.")
    return answer.lower().startswith("y")
