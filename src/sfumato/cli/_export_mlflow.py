"""`sfumato export mlflow`: the model of a run as a folder that MLflow loads, with its model card."""

from __future__ import annotations

import json
from pathlib import Path

import typer

from sfumato._files import whole_folder
from sfumato._optional import check_installed
from sfumato.cli._completing import complete_run
from sfumato.cli._table import JSON
from sfumato.cli._verified import verified
from sfumato.errors import InputError
from sfumato.evaluation._kept import check_outside

RUN = typer.Argument(..., help="The folder of a run, or a copy of its release/.", autocompletion=complete_run)


def mlflow(
    run: Path = RUN,
    out: Path = typer.Option(..., "--out", help="The folder to write, such as model. It must not exist yet."),
    as_json: bool = JSON,
) -> None:
    """Write a folder that MLflow loads: the ONNX model of a run, its signature, the claim, and a model card.

    For the runs that export onnx takes. MLflow need not be installed. A run that sfumato verify refuses is refused. Nothing is
    spent.
    """
    check_installed("onnx", "safetensors")
    from sfumato.record._release_folder import read_release
    from sfumato.report import model_card, read_run
    from sfumato.serving._mlflow_model import mlflow_files
    from sfumato.serving._onnx_model import onnx_model

    if out.exists():
        raise InputError(f"Expected out to be a new folder, got {str(out)!r}, which exists. Name another.")
    check_outside(out)
    read = read_run(run)
    values = read.claimed()
    verified(run)
    told = {name: values[name] for name in ("method", "version", "protects", "trust_model", "ledger_head")}
    told |= {"unit": values["unit"]["name"], **values["claim"]}
    files = mlflow_files(onnx_model(read_release(run)), told)
    out.parent.mkdir(parents=True, exist_ok=True)
    with whole_folder(out) as folder:
        for name, content in {**files, "README.md": model_card(read).encode()}.items():
            (folder / name).write_bytes(content)
    typer.echo(
        json.dumps({"out": str(out)})
        if as_json
        else f"Wrote {out}. It holds what release/ holds, and may leave with it. Load it with mlflow.pyfunc.load_model."
    )
