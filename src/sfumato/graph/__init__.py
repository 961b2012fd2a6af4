"""This package reads, generates, splits and stores graphs. Nothing here knows of privacy."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sfumato._optional import homes_in, lazily

if TYPE_CHECKING:
    from sfumato.datasets._listing import list_datasets as list_datasets
    from sfumato.datasets._loading import load_dataset as load_dataset
    from sfumato.graph._graph import Graph as Graph
    from sfumato.graph._graph import PublicFacts as PublicFacts
    from sfumato.graph._owned import of_persons as of_persons
    from sfumato.graph._rare_outcomes import outcomes as outcomes
    from sfumato.graph._schema import Schema as Schema
    from sfumato.graph._splits import random_roles as random_roles
    from sfumato.graph._splits import stratified_roles as stratified_roles
    from sfumato.graph._subgraph import induced as induced
    from sfumato.graph._synthetic import campus as campus
    from sfumato.graph._synthetic import interests as interests
    from sfumato.graph._synthetic import rmat as rmat
    from sfumato.graph._synthetic import stochastic_block_model as stochastic_block_model
    from sfumato.graph._targets import Targets as Targets
    from sfumato.graph._weights import EdgeWeights as EdgeWeights
    from sfumato.tables._convert import from_networkx as from_networkx
    from sfumato.tables._convert import from_pyg as from_pyg
    from sfumato.tables._convert import to_networkx as to_networkx
    from sfumato.tables._convert import to_pyg as to_pyg
    from sfumato.tables._frames import from_frames as from_frames
    from sfumato.tables._frames import from_scipy as from_scipy
    from sfumato.tables._importing import import_tables as import_tables
    from sfumato.tables._io import read_csv as read_csv
    from sfumato.tables._io import read_parquet as read_parquet
    from sfumato.tables._io import read_sql as read_sql
    from sfumato.tables._newcomers import Newcomers as Newcomers
    from sfumato.tables._newcomers import node_names as node_names
    from sfumato.tables._newcomers import read_new_nodes as read_new_nodes
    from sfumato.tables._newcomers import read_newcomers as read_newcomers

_HOME = homes_in(__file__)

__all__ = sorted(_HOME)

__getattr__, __dir__ = lazily(__name__, _HOME)
