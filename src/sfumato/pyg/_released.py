"""What a run released, as a graph of PyTorch Geometric: noisy rows and released edges, never the private ones."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from sfumato._optional import require
from sfumato._validate import fail
from sfumato.errors import InputError
from sfumato.loops.kernels import INT16_ONE
from sfumato.method._graph_key import GraphKey
from sfumato.privacy.units import unit_from_dict
from sfumato.record._release_folder import read_release
from sfumato.record.ledger import OWN
from sfumato.tables._tensors import MASKS

if TYPE_CHECKING:
    from torch_geometric.data import Data

    from sfumato.graph._graph import Graph

_EDGES, _ROWS = "edges", "aggregate/"


def released_to_pyg(run: str | Path, graph: Graph | None = None) -> Data:
    """Read what a run released about its graph into a PyTorch Geometric ``Data``. It spends nothing.

    * ``x``: released noisy rows that anyone may see, hop by hop side by side, float32 [num_nodes, columns]; a message of norm 1
      has norm 1. Where no rows were released, the features of ``graph``, if they are public.
    * ``edge_index``: released edges, int64 [2, num_arcs], undirected ones both ways. It is empty where none were released.
    * ``y`` and the three masks: those of ``graph``, if they are public under the unit of the run.
    * ``node_ids``: a list, if the ids left with the release.

    **Formal guarantee.** Arcs of ``graph`` are never read, nor anything else of it that its unit protects: the result is
    post-processing of the release.

    Args:
        run: a run folder, or a copy of its ``release/``.
        graph: the graph of the run, for what is public of it; None takes the release alone.

    Raises:
        InputError: the run released neither rows nor edges, has no privacy, or ``graph`` has other node ids.
        DataError: the folder is not a finished run, or was altered.
    """
    stored = read_release(Path(run))
    unit = unit_from_dict(stored.spec["unit"])
    if not unit.private:
        raise fail("run", "a run without privacy", "to be of a private unit", "Use sf.graph.to_pyg for its graph.")
    own = {one["name"] for one in stored.certificate["releases"] if one["visible_to"] == OWN}
    rows = [stored.released[name] for name in sorted(stored.released.keys() - own, key=_hop) if name.startswith(_ROWS)]
    edges = stored.released.get(_EDGES)
    if not rows and edges is None:
        raise InputError(
            f"Expected a run that released rows or edges of its graph, got one of {stored.spec['method']!r}. Use its predictions."
        )
    torch, pyg = require("torch"), require("torch_geometric.data")
    arcs = np.zeros((2, 0), np.int64) if edges is None else edges.T
    if not stored.spec["unit"].get("directed", True):
        arcs = np.hstack([arcs, arcs[::-1]])
    data = pyg.Data(edge_index=torch.tensor(arcs), num_nodes=stored.spec["public"]["num_nodes"])
    if rows:
        data.x = torch.tensor((np.hstack(rows) / INT16_ONE).astype(np.float32))
    if stored.ids is not None:
        data.node_ids = list(stored.ids)
    if graph is not None:
        _add_public(data, graph, unit.public, GraphKey.from_dict(stored.spec["graph"], stored.identity))
    return data


def _hop(name: str) -> tuple[int, str]:
    """The order of hops: 2 comes before 10."""
    return len(name), name


def _add_public(data: Data, graph: Graph, public: tuple[str, ...], key: GraphKey) -> None:
    """Add what everybody may know of the graph, in the order of the released rows."""
    torch: Any = require("torch")
    if not key.has_ids_of(graph):
        raise fail("graph", graph.name, "to have the node ids of the run", "Pass the graph that was fitted.")
    if key.identity is not None:
        graph = key.identity.ordered(key.in_columns(graph))
        other = key.identity.difference(graph)
        if other is not None:
            raise fail("graph", graph.name, f"to have the {other} of the run", "Pass the graph that was fitted.")
    if "features" in public and data.x is None and graph.x is not None:
        data.x = torch.tensor(graph.x if isinstance(graph.x, np.ndarray) else graph.x.toarray())
    if "labels" in public and (graph.y is not None or graph.targets is not None):
        data.y = torch.tensor(graph.y if graph.targets is None else graph.targets.values)
    if "roles" in public and graph.roles is not None:
        for mask in MASKS:
            data[mask] = torch.tensor(getattr(graph, mask))
