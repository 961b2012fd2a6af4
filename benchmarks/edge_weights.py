"""Payments whose amounts tell more than who paid whom: accuracy with and without weights, and without the graph.

    python benchmarks/edge_weights.py

A block model of 3,000 accounts in 4 lines of business: 40 % of the payments stay within a line, where chance is 25 %, and those
are larger. Rows of one unit spend the same budget. ``graph-free`` and ``linear`` read no payment: they are the floor.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

import sfumato as sf
from sfumato.catalog import method_named
from sfumato.graph import Graph, stochastic_block_model
from sfumato.scoring._scores import score

BOUND = 100.0
UNITS = {"edge": (sf.EdgeLevel(directed=False), 1.0), "node": (sf.NodeLevel(max_out_degree=40), 8.0)}
METHODS = {"edge": ("gap", "progap", "label-messages", "graph-free"), "node": ("gap", "label-messages", "linear")}
SEEDS = range(3)


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
    """Print mean and standard deviation of the test accuracy in percent, over seeds."""
    print("| Unit | Method | With weights | Without |\n|---|---|---|---|")
    for word, (unit, epsilon) in UNITS.items():
        for name in METHODS[word]:
            rows = []
            for seed in SEEDS:
                graph = payments(seed)
                for one in (graph, replace(graph, weights=None)):
                    plan = method_named(name).calibrate(sf.Budget(epsilon, 1e-6), unit, one.public_facts(unit))
                    rows.append(100 * score(plan.fit(one, seed=seed), one)["accuracy"])
            cells = (f"{np.mean(found):.1f} ± {np.std(found):.1f}" for found in (rows[::2], rows[1::2]))
            print(f"| {word}, epsilon {epsilon:g} | {name} | {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()
