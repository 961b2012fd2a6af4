"""`sfumato export onnx`: the model of a run as an ONNX file."""

from __future__ import annotations

import json
from pathlib import Path

import typer

from sfumato._files import whole_file
from sfumato._optional import check_installed
from sfumato.cli._table import JSON
from sfumato.errors import InputError

RUN = typer.Argument(..., help="The folder of a run, or a copy of its release/.")


def onnx(
    run: Path = RUN,
    out: Path = typer.Option(..., "--out", help="The ONNX file to write, such as model.onnx. It must not exist yet."),
    as_json: bool = JSON,
) -> None:
    """Write the model of a run as ONNX: features and released rows in, class probabilities out.

    For label-messages and graph-free at edge level, linear, and gap. This spends nothing.
    """
    check_installed("onnx", "safetensors")
    from sfumato.record._release_folder import read_release
    from sfumato.serving._onnx_model import onnx_model

    if out.exists():
        raise InputError(f"Expected out to be a new file, got {str(out)!r}, which exists. Name another.")
    content = onnx_model(read_release(run))
    out.parent.mkdir(parents=True, exist_ok=True)
    with whole_file(out) as file:
        file.write(content)
    if as_json:
        typer.echo(json.dumps({"out": str(out), "bytes": len(content)}))
    else:
        typer.echo(f"Wrote {len(content):,} bytes to {out}. They hold what release/ holds, and may leave with it.")
