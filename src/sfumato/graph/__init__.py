"""Graphs: reading, generating, splitting and storing them. Nothing here knows of privacy."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sfumato.graph.convert import from_networkx, from_pyg, to_networkx, to_pyg
    from sfumato.graph.datasets import list_datasets, load_dataset
    from sfumato.graph.graph import Graph, PublicFacts
    from sfumato.graph.io import read_csv, read_parquet, read_sql
    from sfumato.graph.schema import Schema
    from sfumato.graph.splits import random_roles, stratified_roles
    from sfumato.graph.subgraph import induced
    from sfumato.graph.synthetic import campus, interests, rmat, stochastic_block_model

_HOME = {
    "Graph": "graph",
    "PublicFacts": "graph",
    "Schema": "schema",
    "campus": "synthetic",
    "from_networkx": "convert",
    "from_pyg": "convert",
    "induced": "subgraph",
    "interests": "synthetic",
    "list_datasets": "datasets",
    "load_dataset": "datasets",
    "random_roles": "splits",
    "read_csv": "io",
    "read_parquet": "io",
    "read_sql": "io",
    "rmat": "synthetic",
    "stochastic_block_model": "synthetic",
    "stratified_roles": "splits",
    "to_networkx": "convert",
    "to_pyg": "convert",
}

__all__ = [
    "Graph",
    "PublicFacts",
    "Schema",
    "campus",
    "from_networkx",
    "from_pyg",
    "induced",
    "interests",
    "list_datasets",
    "load_dataset",
    "random_roles",
    "read_csv",
    "read_parquet",
    "read_sql",
    "rmat",
    "stochastic_block_model",
    "stratified_roles",
    "to_networkx",
    "to_pyg",
]


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOME[name]}"), name)


def __dir__() -> list[str]:
    return __all__
