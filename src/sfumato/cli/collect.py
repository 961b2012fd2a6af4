"""`sfumato collect`: the collection service on the command line."""

from __future__ import annotations

import typer

from sfumato.cli import collect_estimate

app = typer.Typer(help="Collect reports that users' devices randomize.", no_args_is_help=True, rich_markup_mode=None)
app.command("estimate")(collect_estimate.estimate)


@app.callback()
def _root() -> None:
    """Collect reports that users' devices randomize."""
