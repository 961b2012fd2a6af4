"""`sfumato collect`: collections of reports that users' devices randomize."""

from __future__ import annotations

import typer

from sfumato.cli.collect_server import close, export, serve

app = typer.Typer(help="Collect reports that users' devices randomize.", no_args_is_help=True, rich_markup_mode=None)
app.command()(serve)
app.command()(close)
app.command()(export)
