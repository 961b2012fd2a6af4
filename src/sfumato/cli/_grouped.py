"""The help of a command with many options, which are grouped by what they decide."""

from __future__ import annotations

from typing import Any

from typer.core import TyperCommand

from sfumato.cli._options import Options
from sfumato.cli._table import ALL, PANELS, RUNS, rows

_ROWS = rows(Options)


class GroupedCommand(TyperCommand):
    """A command whose help shows in groups what a first user needs, and with ``--help-all`` every option.

    >>> import typer
    >>> app = typer.Typer(rich_markup_mode=None)
    >>> @app.command(cls=GroupedCommand)
    ... def fit(out: str = typer.Option(""), verbose: bool = False): ...
    >>> shown = typer.main.get_command(app).get_help(typer.Context(typer.main.get_command(app)))
    >>> "--out" in shown, "--verbose" in shown
    (True, False)
    """

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """Write arguments, then the options of each group in the order of the groups."""
        found = {param.name: (param, param.get_help_record(ctx)) for param in self.get_params(ctx)}
        shown = {name: (param, record) for name, (param, record) in found.items() if record is not None}
        arguments = [record for param, record in shown.values() if param.param_type_name == "argument"]
        if arguments:
            with formatter.section("Arguments"):
                formatter.write_dl(arguments)
        groups, hidden = {panel: list[Any]() for panel in PANELS}, 0
        for name, (param, record) in shown.items():
            row = _ROWS.get(name)
            if param.param_type_name != "option":
                continue
            panel, first = (RUNS, True) if row is None else row.place(str(ctx.command.name))
            if first or ctx.meta.get(ALL):
                groups[panel].append(record)
            else:
                hidden += 1
        for title, records in groups.items():
            if records:
                with formatter.section(title):
                    formatter.write_dl(records)
        if hidden:
            formatter.write_paragraph()
            formatter.write_text(f"{ctx.command_path} --help-all shows {hidden} more options.")
