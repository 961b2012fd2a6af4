"""A question before what cannot be undone."""

from __future__ import annotations

import sys

import typer

from sfumato.errors import InputError

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
