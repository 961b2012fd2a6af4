"""A released model as a folder in the format of MLflow, without MLflow: a description of the ONNX file and what it needs.

Facts about the format are those of MLflow 3.17: ``MLmodel`` is YAML, of which JSON is a part; the flavor ``onnx`` and the Python
function both load ``model.onnx``. Identifiers and times are left out, so one run gives the same bytes again.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from sfumato._optional import require

MODEL = "model.onnx"
_PYTHON = "3.11"
_NEEDS = ("mlflow", "numpy", "onnx", "onnxruntime")
_TYPES = {1: "float32", 7: "int64", 9: "bool"}  # of TensorProto


def mlflow_files(model: bytes, metadata: Mapping[str, Any]) -> dict[str, bytes]:
    """Return the files of an MLflow model by their names.

    Args:
        model: an ONNX file (:func:`~sfumato.serving._onnx_model.onnx_model`).
        metadata: what ``MLmodel`` says beside it, such as the claim. Values are written as text.
    """
    graph = require("onnx").load_from_string(model).graph
    described = {
        "flavors": {
            "onnx": {"data": MODEL, "providers": ["CPUExecutionProvider"]},
            "python_function": {
                "data": MODEL,
                "env": {"virtualenv": "python_env.yaml"},
                "loader_module": "mlflow.onnx",
                "python_version": _PYTHON,
            },
        },
        "metadata": {name: str(value) for name, value in metadata.items()},
        "signature": {name: json.dumps([_tensor(one) for one in ends])
                      for name, ends in (("inputs", graph.input), ("outputs", graph.output))},
    }  # fmt: skip
    environment = {"python": _PYTHON, "dependencies": ["-r requirements.txt"]}
    return {
        "MLmodel": _yaml(described),
        "python_env.yaml": _yaml(environment),
        "requirements.txt": "".join(f"{name}\n" for name in _NEEDS).encode(),
        MODEL: model,
    }


def _tensor(value: Any) -> dict[str, Any]:
    kind = value.type.tensor_type
    columns = [one.dim_value for one in kind.shape.dim[1:]]  # the first is any number of rows
    return {"name": value.name, "type": "tensor",
            "tensor-spec": {"dtype": _TYPES[kind.elem_type], "shape": [-1, *columns]}}  # fmt: skip


def _yaml(values: Mapping[str, Any]) -> bytes:
    """Return values as JSON, which YAML contains."""
    return (json.dumps(values, indent=1) + "\n").encode()
