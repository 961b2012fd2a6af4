"""`sfumato export card`: the model card of a run, for registries of models."""

from __future__ import annotations

import json
from pathlib import Path

import typer

from sfumato.cli._completing import complete_run
from sfumato.cli._described import with_answers
from sfumato.cli._table import JSON
from sfumato.cli._verified import verified
from sfumato.errors import InputError
from sfumato.evaluation._kept import write_page

RUN = typer.Argument(..., help="The folder of a run, or a copy of its release/.", autocompletion=complete_run)


def card(
    run: Path = RUN,
    out: Path = typer.Option(
        ..., "--out", help="The Markdown file to write, such as README.md. It must not exist yet."
    ),
    as_json: bool = JSON,
) -> None:
    """Write a model card as Hugging Face shows it: YAML on top, then Markdown, all from the certificate.

    It holds the guarantee, who may see what, limits, and the deployment record, but no score. A run that sfumato verify refuses
    is refused. Nothing is spent.
    """
    from sfumato.report import model_card, read_run

    if out.exists():
        raise InputError(f"Expected out to be a new file, got {str(out)!r}, which exists. Name another.")
    read = read_run(run)
    read.claimed()
    verified(run)
    write_page(out, model_card(with_answers(run, read)))
    typer.echo(
        json.dumps({"out": str(out)}) if as_json else f"Wrote {out}. It holds no score, and may leave with the release."
    )
