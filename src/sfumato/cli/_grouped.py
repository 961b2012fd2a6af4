"""How commands are grouped: the help of one with many options, by what it decides, and a group that says what a stop costs."""

from __future__ import annotations

from typing import Any

from typer.core import TyperCommand, TyperGroup

from sfumato.cli._options import Options
from sfumato.cli._table import PANELS, RUNS, rows
from sfumato.evaluation._stopped import NOTHING, notes_of

_ROWS = rows(Options)


class GroupedCommand(TyperCommand):
    """A command whose help shows its options in groups.

    >>> import typer
    >>> app = typer.Typer(rich_markup_mode=None)
    >>> @app.command(cls=GroupedCommand)
    ... def fit(out: str = typer.Option(""), verbose: bool = False): ...
    >>> shown = typer.main.get_command(app).get_help(typer.Context(typer.main.get_command(app)))
    >>> shown.index("--out") < shown.index("How it runs:") < shown.index("--verbose")
    True
    """

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """Write arguments, then the options of each group in the order of the groups."""
        found = {param.name: (param, param.get_help_record(ctx)) for param in self.get_params(ctx)}
        shown = {name: (param, record) for name, (param, record) in found.items() if record is not None}
        arguments = [record for param, record in shown.values() if param.param_type_name == "argument"]
        if arguments:
            with formatter.section("Arguments"):
                formatter.write_dl(arguments)
        groups: dict[str, list[Any]] = {panel: [] for panel in PANELS}
        for name, (param, record) in shown.items():
            if param.param_type_name == "option":
                groups[_ROWS[name].panel if name in _ROWS else RUNS].append(record)
        for title, records in groups.items():
            if records:
                with formatter.section(title):
                    formatter.write_dl(records)


class StopError(Exception):
    """Ctrl-C stopped a command. The text says what is charged and how to go on."""


class StoppableGroup(TyperGroup):
    """A group of commands that say what a stop by Ctrl-C costs. Those of Typer would end in silence."""

    def invoke(self, ctx: Any) -> Any:
        """Run the command that the context names."""
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt as error:
            raise StopError(f"Stopped. {notes_of(error) or NOTHING}") from error
