"""`sfumato methods`: what can be trained."""

from __future__ import annotations

import json

import typer

from sfumato.catalog import CARDS, WORDS
from sfumato.cli._output import plain_console
from sfumato.cli._table import JSON

NAMES = ", ".join(word for word in WORDS if word != "auto")
METHOD = f"The method to train: auto (recommended), or one that `sfumato methods` explains: {NAMES}."


def methods(as_json: bool = JSON) -> None:
    """List the methods that can be trained, and what each does."""
    found = {word: CARDS[name].summary for word, name in WORDS.items()}
    if as_json:
        typer.echo(json.dumps(found))
        return
    from rich import box
    from rich.table import Table

    table = Table("method", "what it is", box=box.SIMPLE_HEAD)
    for word, summary in found.items():
        table.add_row(word, summary)
    plain_console().print(table)
