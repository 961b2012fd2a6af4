"""What leaves of a fitted model with a row for each node, as attackers see it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from sfumato.central._dpar import DPAR
from sfumato.central._perturbed import EDGES
from sfumato.errors import InputError
from sfumato.record.ledger import ANYONE

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from sfumato.graph._graph import Graph
    from sfumato.method._plan import Fitted

SIGHTS = ("posteriors", "releases", "embeddings")
WORDS = {
    "posteriors": "predictions for all nodes",
    "releases": "all that was released about nodes",
    "embeddings": "the hidden layer of each node, which never leaves",
}


def node_rows(fitted: Fitted, graph: Graph, sees: str) -> NDArray[np.float64]:
    """Return a row for each node of what an attacker sees, float64 [num_nodes, columns].

    Posteriors are centered log-probabilities. Releases are those with a row for each node that anyone may see, side by side; of
    released edges it is the degree that they say. Without privacy nothing was released, and it is what prediction reads. The
    embeddings are those of dpar, an evaluation alone.
    """
    nodes = graph.num_nodes
    if sees == "posteriors":
        said = np.log(np.maximum(fitted.predict_proba(graph).astype(np.float64), 1e-30))
        return np.asarray(said - said.mean(1, keepdims=True))
    ran = fitted.ran
    if sees == "embeddings" and isinstance(ran.method, DPAR):
        return ran.method.embeddings(ran, fitted.weights, fitted.released, graph).astype(np.float64)
    parts = []
    if sees == "releases":
        own = {one.name for one in (*fitted.plan.releases, *ran.releases) if one.visible_to != ANYONE}
        for name, rows in fitted.released.items():
            if name == EDGES:
                parts.append(np.bincount(rows.ravel(), minlength=nodes)[:, None])
            elif name not in own and rows.ndim == 2 and len(rows) == nodes:
                parts.append(rows)
    if not parts:
        raise InputError(
            f"Expected a model with {WORDS[sees]}, got {ran.method.name!r}, which has none. Let the attack see posteriors."
        )
    return np.hstack(parts).astype(np.float64)
