"""`sfumato export onnx`: the model of a run as an ONNX file."""

from __future__ import annotations

import json
from pathlib import Path

import typer

from sfumato._files import whole_file
from sfumato._optional import check_installed
from sfumato._validate import fail
from sfumato.cli._completing import complete_run
from sfumato.cli._options import of
from sfumato.cli._table import JSON
from sfumato.errors import InputError
from sfumato.method._decisions import Decision

RUN = typer.Argument(..., help="The folder of a run, or a copy of its release/.", autocompletion=complete_run)


def onnx(
    run: Path = RUN,
    out: Path = typer.Option(..., "--out", help="The ONNX file to write, such as model.onnx. It must not exist yet."),
    table: bool = typer.Option(
        False,
        "--table",
        help="Take cells of the node table in place of features: an input for each column, texts or numbers.",
    ),
    positive: str | None = of("positive", "predict"),
    threshold: str | None = of("threshold", "predict"),
    as_json: bool = JSON,
) -> None:
    """Write the model of a run as ONNX: features and released rows in, class probabilities out.

    For label-messages and graph-free at edge level, linear, mlp, and gap. The file also gives the number of the predicted class,
    and with --threshold (a number or cost=FP:FN) which nodes are chosen. This spends nothing.
    """
    check_installed("onnx", "safetensors")
    from sfumato.record._release_folder import read_release
    from sfumato.serving._onnx_model import onnx_model

    if out.exists():
        raise InputError(f"Expected out to be a new file, got {str(out)!r}, which exists. Name another.")
    if table:
        _check_table(run)
    decision = Decision(positive=positive, threshold=threshold)
    content = onnx_model(read_release(run), table=table, decision=decision if decision.asked else None)
    out.parent.mkdir(parents=True, exist_ok=True)
    with whole_file(out) as file:
        file.write(content)
    if as_json:
        typer.echo(json.dumps({"out": str(out), "bytes": len(content)}))
    else:
        typer.echo(f"Wrote {len(content):,} bytes to {out}. They hold what release/ holds, and may leave with it.")


def _check_table(run: Path) -> None:
    """Refuse a run of which it is not known that its features are cells of a table: those of a text have such names, too."""
    from sfumato.evaluation._source import Source

    source = Source.of_run(run)
    if source.nodes is None or source.text:
        raise fail("run", str(run), "to have learned from a node table without texts", "Export it without --table.")
