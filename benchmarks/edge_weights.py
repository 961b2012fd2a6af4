"""Payments whose amounts tell more than who paid whom: accuracy with and without weights, and without the graph.

    python benchmarks/edge_weights.py

A block model of 3,000 accounts in 4 lines of business: 40 % of the payments stay within a line, where chance is 25 %, and those
are larger. Rows of one unit spend the same budget. ``graph-free`` and ``linear`` read no payment: they are the floor.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import study

import sfumato as sf
from sfumato.graph import Graph, stochastic_block_model

BOUND = 100.0
UNITS = {"edge": (sf.EdgeLevel(directed=False), 1.0), "node": (sf.NodeLevel(max_out_degree=40), 8.0)}
METHODS = {"edge": ("gap", "progap", "label-messages", "graph-free"), "node": ("gap", "label-messages", "linear")}


def payments(seed: int) -> Graph:
    """Return accounts, and payments with amounts: log-normal, with a median of 80 within a line of business and of 8 else."""
    plain = stochastic_block_model(3000, 4, mean_degree=40, homophily=0.4, num_features=8, seed=seed)
    source = np.repeat(np.arange(plain.num_nodes), np.diff(plain.indptr))
    first = source < plain.indices
    ends = source[first], plain.indices[first]
    assert plain.y is not None
    median = np.where(plain.y[ends[0]] == plain.y[ends[1]], 80.0, 8.0)
    amounts = median * np.exp(np.random.default_rng(seed).normal(size=len(median)))
    kept = {"x": plain.x, "y": plain.y, "classes": plain.classes, "name": "payments"}
    return Graph.from_edges(*ends, 3000, directed=False, edge_weight=amounts, max_weight=BOUND, **kept).with_split(
        seed=seed
    )


def main() -> None:
    """Print mean and interval of the test accuracy in percent, over seeds."""
    given = study.options(__doc__, seeds=3)

    def row(word: str, name: str) -> tuple[str, ...]:
        (unit, epsilon), found = UNITS[word], ([], [])
        for seed in range(given.seeds):
            graph = payments(seed)
            for place, one in enumerate((graph, replace(graph, weights=None))):
                found[place].append(study.accuracy(one, study.fitted(name, sf.Budget(epsilon, 1e-6), unit, one, seed)))
        return f"{word}, epsilon {epsilon:g}", name, *map(study.told, found)

    rows = (row(word, name) for word, names in METHODS.items() for name in names)
    study.table(("Unit", "Method", "With weights", "Without"), rows)


if __name__ == "__main__":
    main()
