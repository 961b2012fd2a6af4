"""The `sfumato` command: thin functions that parse, call the library and print.

Exit codes: 0 done, 1 a check failed or the budget was refused, 2 bad input, 130 stopped by Ctrl-C. Progress goes to standard
error. With ``--json`` a command prints one object on standard output.
"""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Callable
from functools import cache, partial
from typing import Any

import typer

from sfumato._optional import explained
from sfumato._version import __version__
from sfumato.cli._commands import Commands, StopError
from sfumato.errors import DroppedWarning, InputError, MissingDependencyError, SfumatoError, SfumatoWarning, TextWarning

_OF_READERS = (DroppedWarning, TextWarning)

app = typer.Typer(
    name="sfumato",
    cls=Commands,
    help="Differentially private learning on graphs, with guarantees a reviewer can check.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)


def _version(value: bool) -> None:
    if value:
        typer.echo(__version__)
        raise typer.Exit


@app.callback()
def _root(
    version: bool = typer.Option(
        False, "--version", callback=_version, is_eager=True, help="Print the version and exit."
    ),
) -> None:
    """Differentially private learning on graphs, with guarantees a reviewer can check."""


def main(arguments: list[str] | None = None) -> None:
    """Run the command line, and end the process with the exit code of the command.

    Every expected failure is one line on standard error. The process ends without unloading its libraries one by one, which
    would take longer than most commands. ``arguments`` are the words
    after ``sfumato``; None takes those of this process.
    """
    code = invoke(arguments)
    try:
        sys.stdout.flush()
        sys.stderr.flush()
    except BrokenPipeError:
        code = code or 1
    os._exit(code)


def invoke(arguments: list[str] | None = None) -> int:
    """Run one command and return its exit code.

    Every expected failure is one line on standard error; an unexpected error is raised. ``arguments`` are the words
    after ``sfumato``; None takes those of this process.
    """
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", SfumatoWarning)  # commands print these themselves
            for category in _OF_READERS:
                warnings.simplefilter("default", category)
            warnings.showwarning = partial(_note, warnings.showwarning)
            code = _parser().main(arguments, prog_name="sfumato", standalone_mode=False)
        return code if isinstance(code, int) else 0
    except (InputError, MissingDependencyError) as error:
        return _fail(error, 2)
    except SfumatoError as error:
        return _fail(error, 1)
    except StopError as error:
        print(error, file=sys.stderr)
        return 130
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except OSError as error:
        where = f": {error.filename}" if error.filename else ""
        return _fail(error, 2, f"{error.strerror or error}{where}. Check the path, its rights and the disk.")
    except ModuleNotFoundError as error:
        missing = explained(error)
        if missing is error:
            raise
        return _fail(error, 2, str(missing))
    except Exception as error:
        if type(error).__name__ == "NoArgsIsHelpError":
            print(error, file=sys.stderr)
            return 2
        if hasattr(error, "format_message") and hasattr(error, "exit_code"):
            about = getattr(getattr(error, "param", None), "help", None) if "Missing" in type(error).__name__ else None
            from sfumato.cli._misread import no_number, other_command, with_remedy

            said = no_number(error, sys.argv[1:] if arguments is None else arguments)
            said = said or other_command(error) or with_remedy(error.format_message() or "See --help.")
            return _fail(error, int(error.exit_code), f"{said} Expected: {about}" if about else said)
        raise


@cache
def _parser() -> Any:
    """The parser of all commands: made once in a process, since that takes longer than most refusals."""
    return typer.main.get_command(app)


def _note(
    other: Callable[..., None], message: Warning | str, category: type[Warning], *place: Any, **more: Any
) -> None:
    """Print on standard error, as one line, what a reader says; the place in the code says nothing to a user."""
    if issubclass(category, _OF_READERS):
        print(message, file=sys.stderr)
    else:
        other(message, category, *place, **more)


def _fail(error: Exception, code: int, message: str | None = None) -> int:
    from sfumato.cli._stored import by_options
    from sfumato.evaluation._kept import notes_of

    text = f"{str(error) if message is None else message} {notes_of(error)}"
    print("Error: " + by_options(" ".join(text.split())), file=sys.stderr)
    return code
