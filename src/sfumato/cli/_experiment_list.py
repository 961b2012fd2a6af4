"""`sfumato experiment list`: the tables and figures of the sources, in their order, with what runs each."""

from __future__ import annotations

import json
import textwrap
from collections.abc import Iterator
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import typer

from sfumato.cli._output import plain_console
from sfumato.cli._table import JSON

if TYPE_CHECKING:
    from sfumato.experiments._sources import Document, Entry

_NUMBER = 18  # columns of the number of a table or figure
_COSTS = ("cells", "quick", "minutes")


def list_sources(
    as_json: bool = JSON,
) -> None:
    """List the tables and figures of the sources that report a measurement, and what runs each.

    Below each stand the names of its specifications, for `experiment run`, with the cells (fits) of the full and of the quick
    profile and the minutes that --quick takes on two cores; or the script that runs it; or why it is not run.
    """
    from sfumato.experiments._sources import read_sources

    documents = read_sources()
    costs = {name: _cost(name) for document in documents for name in document.specs}
    if as_json:
        typer.echo(json.dumps({"documents": [_plain(document, costs) for document in documents]}))
        return
    width = plain_console().width
    for document in documents:
        if any(entry.measured for entry in document.entries):
            typer.echo("\n".join(_lines(document, costs, width)))


def _cost(name: str) -> dict[str, Any]:
    from sfumato.experiments._spec import find

    spec = find(name)
    return {"cells": len(spec.cells()), "quick": len(spec.cells("quick")), "minutes": spec.quick.minutes}


def _plain(document: Document, costs: dict[str, dict[str, Any]]) -> dict[str, Any]:
    def plain(entry: Entry) -> dict[str, Any]:
        named = {key: [{"name": name, **costs[name]} for name in getattr(entry, key)] for key in ("specs", "absent")}
        return {**asdict(entry), **named, "why": entry.reason}

    return {
        "key": document.key,
        "citation": document.citation,
        "entries": [plain(entry) for entry in document.entries],
    }


def _lines(document: Document, costs: dict[str, dict[str, Any]], width: int) -> Iterator[str]:
    heads = "".join(f"{name:>9}" for name in _COSTS)
    yield from textwrap.wrap(document.citation, width)
    yield f"{'':{width - len(heads)}}{heads}"
    for entry in document.entries:
        if entry.measured:
            yield from _indented(entry.title, width, entry.number)
            for name in (*entry.specs, *entry.absent):
                row = "".join(f"{costs[name][key]:>9g}" for key in _COSTS)
                row = f"{'no data':>{len(row)}}" if name in entry.absent else row
                yield f"{'':{_NUMBER}}{name:{width - _NUMBER - len(row)}}{row}"
            for script in entry.scripts:
                yield from _indented(f"python {script}", width)
            if entry.absent or not entry.runs:
                yield from _indented(f"Missing: {entry.why}", width)
    yield ""


def _indented(text: str, width: int, number: str = "") -> list[str]:
    return textwrap.wrap(
        text,
        width,
        initial_indent=f"{number:{_NUMBER}}",
        subsequent_indent=" " * _NUMBER,
        break_long_words=False,
        break_on_hyphens=False,
    )
