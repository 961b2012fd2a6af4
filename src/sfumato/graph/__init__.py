"""This package reads, generates, splits and stores graphs. Nothing here knows of privacy."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sfumato._optional import lazily

if TYPE_CHECKING:
    from sfumato.graph.convert import from_networkx as from_networkx
    from sfumato.graph.convert import from_pyg as from_pyg
    from sfumato.graph.convert import to_networkx as to_networkx
    from sfumato.graph.convert import to_pyg as to_pyg
    from sfumato.graph.datasets import load_dataset as load_dataset
    from sfumato.graph.frames import from_frames as from_frames
    from sfumato.graph.frames import from_scipy as from_scipy
    from sfumato.graph.graph import Graph as Graph
    from sfumato.graph.graph import PublicFacts as PublicFacts
    from sfumato.graph.importing import import_tables as import_tables
    from sfumato.graph.io import read_csv as read_csv
    from sfumato.graph.io import read_parquet as read_parquet
    from sfumato.graph.io import read_sql as read_sql
    from sfumato.graph.listing import list_datasets as list_datasets
    from sfumato.graph.newcomers import Newcomers as Newcomers
    from sfumato.graph.newcomers import read_new_nodes as read_new_nodes
    from sfumato.graph.newcomers import read_newcomers as read_newcomers
    from sfumato.graph.rare_outcomes import outcomes as outcomes
    from sfumato.graph.schema import Schema as Schema
    from sfumato.graph.splits import random_roles as random_roles
    from sfumato.graph.splits import stratified_roles as stratified_roles
    from sfumato.graph.subgraph import induced as induced
    from sfumato.graph.synthetic import campus as campus
    from sfumato.graph.synthetic import interests as interests
    from sfumato.graph.synthetic import rmat as rmat
    from sfumato.graph.synthetic import stochastic_block_model as stochastic_block_model
    from sfumato.graph.targets import Targets as Targets
    from sfumato.graph.weights import EdgeWeights as EdgeWeights

_HOME = {
    "campus": "synthetic",
    "EdgeWeights": "weights",
    "from_frames": "frames",
    "from_networkx": "convert",
    "from_pyg": "convert",
    "from_scipy": "frames",
    "Graph": "graph",
    "import_tables": "importing",
    "induced": "subgraph",
    "interests": "synthetic",
    "list_datasets": "listing",
    "load_dataset": "datasets",
    "Newcomers": "newcomers",
    "outcomes": "rare_outcomes",
    "PublicFacts": "graph",
    "random_roles": "splits",
    "read_csv": "io",
    "read_new_nodes": "newcomers",
    "read_newcomers": "newcomers",
    "read_parquet": "io",
    "read_sql": "io",
    "rmat": "synthetic",
    "Schema": "schema",
    "stochastic_block_model": "synthetic",
    "stratified_roles": "splits",
    "Targets": "targets",
    "to_networkx": "convert",
    "to_pyg": "convert",
}

__all__ = sorted(_HOME)

__getattr__, __dir__ = lazily(__name__, _HOME)
