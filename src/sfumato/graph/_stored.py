"""What of a graph is kept on disk: its arrays, and its facts in graph.json."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from sfumato.errors import DataError
from sfumato.graph._arcs import check_arcs
from sfumato.graph._bounds import check_promise
from sfumato.graph._storage import features_apart, load_arrays, save_arrays, stored_features
from sfumato.graph._targets import Targets
from sfumato.graph._types import EdgeTypes
from sfumato.graph._weights import EdgeWeights, check_steps

_STORED = (
    "directed", "name", "max_degree", "mean_degree", "merged", "outside", "classes", "feature_names", "assumed_public",
    "undeclared", "num_features", "image_shape", "ranges", "target", "widths", "max_weight", "window", "edges_per_person",
    "nodes_per_person",
)  # fmt: skip
_DERIVED = ("num_features", "target", "widths", "max_weight")
"""What graph.json says of arrays."""
_TYPES = "edge_types"
"""Said of graphs with types alone: those without have the file that they always had."""


def save_graph(graph: Any, directory: Path) -> Path:
    """Write a graph into a new directory, whole or not at all."""
    plain = ("indptr", "indices", "y", "node_ids", "roles", "degree_bounds", "cells")
    arrays: dict[str, Any] = {name: getattr(graph, name) for name in plain}
    arrays |= {"targets": graph.targets and graph.targets.values, "weights": graph.weights and graph.weights.steps}
    arrays |= {"types": graph.types and graph.types.marks}
    arrays |= features_apart(graph.stored_x)
    there = {name: array for name, array in arrays.items() if array is not None}
    return save_arrays(directory, there, stored_facts(graph))


def stored_facts(graph: Any) -> dict[str, Any]:
    """Return what graph.json says beside the arrays."""
    facts = {name: getattr(graph, name) for name in _STORED if name == "num_features" or name not in _DERIVED}
    facts |= {} if graph.weights is None else {"max_weight": graph.weights.bound}
    facts |= {} if graph.types is None else {_TYPES: {"names": graph.types.names, "public": graph.types.public}}
    target, widths = None if graph.targets is None else graph.targets.facts(), getattr(graph.stored_x, "widths", None)
    return facts | {"target": target, "widths": widths}


def loaded_fields(directory: Path, mmap: bool) -> tuple[dict[str, Any], tuple[Any, ...]]:
    """Return the fields of a stored graph, and those of its arrays that passed their checks here."""
    absent: dict[str, Any] = {"outside": {}, "ranges": (), "undeclared": ()}
    absent |= dict.fromkeys(
        ("image_shape", "target", "widths", "max_weight", "window", "edges_per_person", "nodes_per_person", _TYPES)
    )
    arrays, facts = load_arrays(directory, (*_STORED, _TYPES), absent, mmap)
    arrays["x"] = stored_features(arrays, len(arrays["indptr"]) - 1, facts["num_features"], facts["widths"])
    indptr, indices = check_arcs(arrays.pop("indptr"), arrays.pop("indices"))
    fields: dict[str, Any] = {name: facts[name] for name in _STORED if name not in _DERIVED}
    fields |= {name: tuple(value) for name, value in fields.items() if isinstance(value, list)}
    fields["ranges"] = tuple(map(tuple, fields["ranges"]))
    if facts["target"] is not None:
        fields["targets"] = Targets(values=arrays.pop("targets"), names=fields["classes"], **facts["target"])
    if facts["max_weight"] is not None:
        fields["weights"] = EdgeWeights(arrays.pop("weights"), facts["max_weight"])
        check_steps(fields["weights"].steps, len(indices))
    if facts[_TYPES] is not None:
        fields["types"] = EdgeTypes(arrays.pop("types"), **{k: tuple(v) for k, v in facts[_TYPES].items()})
        fields["types"].check(indptr, indices, directed=fields["directed"])
    for name in ("x", "node_ids"):
        if arrays.get(name) is not None and arrays[name].shape[0] != len(indptr) - 1:
            raise DataError(f"Expected {directory} to hold {name} of every node, got others. Import or save it again.")
    check_promise(fields["max_degree"], indptr, indices)
    checked = indptr, indices, fields["directed"], fields["max_degree"], arrays["x"], arrays.get("node_ids")
    known = (*checked, None, fields.get("weights"), fields.get("types"))
    return {"indptr": indptr, "indices": indices, **arrays, **fields}, known
