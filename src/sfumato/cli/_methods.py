"""`sfumato methods`: what can be trained, and what each method can be told."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from textwrap import wrap
from typing import TYPE_CHECKING, Any

import typer

from sfumato.catalog import CARDS, WORDS, explained, words_with
from sfumato.cli._output import plain_console
from sfumato.cli._table import JSON
from sfumato.errors import InputError

if TYPE_CHECKING:
    from sfumato.method._settings import Setting

NAMES = ", ".join(word for word in WORDS if word != "auto")
METHOD = f"The method to train: auto (recommended), or one that `sfumato methods` explains: {NAMES}."


def complete_method(incomplete: str) -> Iterator[tuple[str, str]]:
    """Yield the methods whose names begin like this, with what they do."""
    return ((word, CARDS[name].summary) for word, name in WORDS.items() if word.startswith(incomplete))


def complete_setting(ctx: typer.Context, incomplete: str) -> Iterator[tuple[str, str]]:
    """Yield the settings of the method on the command line whose names begin like this, with what they mean."""
    word, preset = str(ctx.params.get("method") or ctx.params.get("target")), ctx.params.get("preset")
    if word in WORDS:
        for setting in explained(word, preset if word in words_with("preset") else None).values():
            if setting.name.startswith(incomplete) and not setting.option:
                yield f"{setting.name}=", setting.meaning


def methods(
    method: str | None = typer.Argument(
        None, help="Explain this method and its settings.", autocompletion=complete_method
    ),
    preset: str | None = typer.Option(
        None, "--preset", help="Explain the settings of this published form of lpgnn: lpgnn-2021 or pgc-2020."
    ),
    as_json: bool = JSON,
) -> None:
    """List the methods that can be trained, or explain the settings of one.

    A setting that has an option is given to `sfumato train` by that option, and every other one with --set NAME=VALUE. What has
    no effect beside the others is refused.
    """
    if method is not None:
        told = _one(method, preset)
        typer.echo(json.dumps(told) if as_json else "\n".join(_lines(told)))
        return
    if preset is not None:
        raise InputError("Expected METHOD with --preset, got none. Name lpgnn.")
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


def _one(word: str, preset: str | None) -> dict[str, Any]:
    """What is known of a method, or of a published form of it."""
    settings = explained(word, preset)  # refuses a wrong word
    card = CARDS[WORDS[word]]
    listed = [setting_told(one, settings) for one in settings.values()]
    return {
        "method": word,
        "preset": preset,
        "summary": card.summary,
        "units": list(card.units),
        "settings": listed,
    }


def setting_told(one: Setting, known: Mapping[str, Setting]) -> dict[str, Any]:
    """Return a setting as JSON values; ``known`` holds all of its method."""
    told = {name: getattr(one, name) for name in ("name", "option", "takes", "default")}
    return {**told, "effect": one.where(known), "meaning": one.meaning}


def setting_lines(known: Mapping[str, Setting]) -> Iterator[str]:
    """Yield lines that explain settings."""
    for one in known.values():
        how = f", set with {one.option}" if one.option else ""
        yield f"\n  {one.name}: {one.takes} (default: {one.usual}){how}"
        meaning = f"{one.meaning[:1].upper()}{one.meaning[1:]} {one.where(known)}".strip()
        yield from wrap(meaning, 96, initial_indent=" " * 6, subsequent_indent=" " * 6)


def _lines(told: dict[str, Any]) -> Iterator[str]:
    word, preset = told["method"], told["preset"]
    known, form = explained(word, preset), f" --preset {preset}" if preset else ""
    yield f"{word}{form}: {told['summary']}."
    units = told["units"] or ["those of the method it becomes" if word == "auto" else "none, without privacy alone"]
    yield f"Units: {', '.join(units)}."
    yield from setting_lines(known)
    free = [one["name"] for one in told["settings"] if not one["option"]]
    if free:
        shown = next((name for name in ("learning_rate", "steps", "max_epochs") if name in free), free[0])
        usual, task = known[shown].usual, " --task link" * CARDS[WORDS[word]].scores_pairs
        yield f"\nGive one as: sfumato train {word}{form}{task} --set {shown}={usual} ..."
    elif not told["settings"]:
        yield "It has no settings."
    if preset is None and word in words_with("preset"):
        yield f"A published form has settings of its own: sfumato methods {word} --preset lpgnn-2021 (or pgc-2020)"
