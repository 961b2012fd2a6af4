"""This package reads, generates, splits and stores graphs. Nothing here knows of privacy."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sfumato._optional import lazily

if TYPE_CHECKING:
    from sfumato.datasets.listing import list_datasets as list_datasets
    from sfumato.datasets.loading import load_dataset as load_dataset
    from sfumato.graph.graph import Graph as Graph
    from sfumato.graph.graph import PublicFacts as PublicFacts
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
    from sfumato.tables.convert import from_networkx as from_networkx
    from sfumato.tables.convert import from_pyg as from_pyg
    from sfumato.tables.convert import to_networkx as to_networkx
    from sfumato.tables.convert import to_pyg as to_pyg
    from sfumato.tables.frames import from_frames as from_frames
    from sfumato.tables.frames import from_scipy as from_scipy
    from sfumato.tables.importing import import_tables as import_tables
    from sfumato.tables.io import read_csv as read_csv
    from sfumato.tables.io import read_parquet as read_parquet
    from sfumato.tables.io import read_sql as read_sql
    from sfumato.tables.newcomers import Newcomers as Newcomers
    from sfumato.tables.newcomers import read_new_nodes as read_new_nodes
    from sfumato.tables.newcomers import read_newcomers as read_newcomers

_HOME = {
    "campus": "synthetic",
    "EdgeWeights": "weights",
    "from_frames": "sfumato.tables.frames",
    "from_networkx": "sfumato.tables.convert",
    "from_pyg": "sfumato.tables.convert",
    "from_scipy": "sfumato.tables.frames",
    "Graph": "graph",
    "import_tables": "sfumato.tables.importing",
    "induced": "subgraph",
    "interests": "synthetic",
    "list_datasets": "sfumato.datasets.listing",
    "load_dataset": "sfumato.datasets.loading",
    "Newcomers": "sfumato.tables.newcomers",
    "outcomes": "rare_outcomes",
    "PublicFacts": "graph",
    "random_roles": "splits",
    "read_csv": "sfumato.tables.io",
    "read_new_nodes": "sfumato.tables.newcomers",
    "read_newcomers": "sfumato.tables.newcomers",
    "read_parquet": "sfumato.tables.io",
    "read_sql": "sfumato.tables.io",
    "rmat": "synthetic",
    "Schema": "schema",
    "stochastic_block_model": "synthetic",
    "stratified_roles": "splits",
    "Targets": "targets",
    "to_networkx": "sfumato.tables.convert",
    "to_pyg": "sfumato.tables.convert",
}

__all__ = sorted(_HOME)

__getattr__, __dir__ = lazily(__name__, _HOME)
