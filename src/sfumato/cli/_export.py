"""`sfumato export`: a finished run in the forms that other tools read."""

from __future__ import annotations

import typer

from sfumato.cli._export_card import card
from sfumato.cli._export_mlflow import mlflow
from sfumato.cli._export_onnx import onnx
from sfumato.cli._export_registry import registry

app = typer.Typer(
    no_args_is_help=True, help="Take a finished run into other tools. This spends nothing.", rich_markup_mode=None
)
app.command("card")(card)
app.command("mlflow")(mlflow)
app.command("onnx")(onnx)
app.command("registry")(registry)
