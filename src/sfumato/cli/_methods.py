"""`sfumato methods`: what can be trained, and what each method can be told."""

from __future__ import annotations

import json
from collections.abc import Iterator
from textwrap import wrap
from typing import Any

import typer

from sfumato.catalog import CARDS, WORDS, explained
from sfumato.cli._output import plain_console
from sfumato.cli._table import JSON

NAMES = ", ".join(word for word in WORDS if word != "auto")
METHOD = f"The method to train: auto (recommended), or one that `sfumato methods` explains: {NAMES}."


def complete_method(incomplete: str) -> Iterator[tuple[str, str]]:
    """Yield the methods whose names begin like this, with what they do."""
    return ((word, CARDS[name].summary) for word, name in WORDS.items() if word.startswith(incomplete))


def complete_setting(ctx: typer.Context, incomplete: str) -> Iterator[tuple[str, str]]:
    """Yield the settings of the method on the command line whose names begin like this, with what they mean."""
    word = str(ctx.params.get("method"))
    if word in WORDS:
        for setting in explained(word).values():
            if setting.name.startswith(incomplete) and not setting.option:
                yield f"{setting.name}=", setting.meaning


def methods(
    method: str | None = typer.Argument(
        None, help="Explain this method and its settings.", autocompletion=complete_method
    ),
    as_json: bool = JSON,
) -> None:
    """List the methods that can be trained, or explain the settings of one.

    Settings are given to `sfumato train` by the option that is named beside them, or with --set NAME=VALUE.
    """
    if method is not None:
        told = _one(method)
        typer.echo(json.dumps(told) if as_json else "\n".join(_lines(told)))
        return
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
    typer.echo("`sfumato methods METHOD` explains the settings of one.")


def _one(word: str) -> dict[str, Any]:
    """What is known of a method."""
    settings = explained(word)  # refuses a wrong word
    card = CARDS[WORDS[word]]
    listed = [
        {
            "name": one.name,
            "option": one.option,
            "takes": one.takes,
            "default": one.default,
            "meaning": one.meaning,
        }
        for one in settings.values()
    ]
    return {"method": word, "summary": card.summary, "units": list(card.units), "settings": listed}


def _lines(told: dict[str, Any]) -> Iterator[str]:
    yield f"{told['method']}: {told['summary']}."
    yield f"Units: {', '.join(told['units']) or 'those of the method it becomes'}."
    known = explained(told["method"])
    for one in told["settings"]:
        how = f", set with {one['option']}" if one["option"] else ""
        yield f"\n  {one['name']}: {one['takes']} (default: {known[one['name']].usual}){how}"
        yield from wrap(
            one["meaning"][:1].upper() + one["meaning"][1:], 96, initial_indent=" " * 6, subsequent_indent=" " * 6
        )
    free = [one["name"] for one in told["settings"] if not one["option"]]
    if free:
        shown = next((name for name in ("learning_rate", "steps", "max_epochs") if name in free), free[0])
        usual, task = known[shown].usual, " --task link" * CARDS[WORDS[told["method"]]].scores_pairs
        yield f"\nGive one as: sfumato train {told['method']}{task} --set {shown}={usual} ..."
    elif not told["settings"]:
        yield "It has no settings."
