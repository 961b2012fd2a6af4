"""Nodes that arrive later, beside test nodes of the same run and beside their features alone; prints a Markdown table.

    python benchmarks/arrivals.py [--datasets planetoid/cora ...] [--units edge node] [--seeds 10]

Seed i draws who is there first (70 %), and who arrives in two batches of 15 %. The trained graph is split 75/10/15. At edge level
an edge pays once in the run and both batches; at node level each batch pays epsilon again. Mean accuracy in percent with its 95 %
t-interval, over seeds; no constant was chosen here.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import study

import sfumato as sf
from sfumato.central._arrivals import calibrate_arrival, graph_free
from sfumato.graph._subgraph import induced
from sfumato.tables._newcomers import Newcomers, node_names

DATASETS = ("npz/cora_ml", "planetoid/citeseer", "facebook100/Berkeley13", "npz/amazon_cs")
SETTINGS = (("edge", 1.0), ("edge", 4.0), ("node", 8.0))


def batches(full: sf.graph.Graph, seed: int) -> tuple[list[sf.graph.Graph], list[np.ndarray]]:
    """The trained graph and two batches of newcomers, and the rows of the full graph that they are."""
    order = np.random.default_rng(seed).permutation(full.num_nodes)
    parts = np.split(order, [int(share * len(order)) for share in (0.7, 0.85)])
    batch = np.empty(len(order), np.int64)
    for number, part in enumerate(parts):
        batch[part] = number
    source, target = np.repeat(np.arange(full.num_nodes), np.diff(full.indptr)), full.indices
    later = np.maximum(batch[source], batch[target])
    graphs = [induced(full, parts[0]).with_split(seed=seed)]
    for number in (1, 2):
        rows, count = parts[number], len(parts[number])
        place = np.zeros(full.num_nodes, np.int64)
        place[np.concatenate([rows, *parts[:number]])] = np.arange(count + sum(map(len, parts[:number])))
        alone = replace(induced(full, rows), indptr=np.zeros(count + 1, np.int64), indices=np.zeros(0, np.int32))
        kept = later == number
        graphs.append(Newcomers.join(alone, graphs, place[source[kept]], place[target[kept]]))
    return graphs, parts


def measure(full: sf.graph.Graph, word: str, epsilon: float, seed: int) -> tuple[float, float, float]:
    """Accuracy of test nodes, of both batches, and of both from their features alone."""
    (trained, *late), parts = batches(full, seed)
    unit = sf.EdgeLevel(directed=trained.directed) if word == "edge" else sf.NodeLevel()
    budget = sf.Budget(epsilon, 1e-7 if word == "edge" else 1e-5)
    runs = [sf.LabelMessages().calibrate(budget, unit, trained.public_facts(unit)).fit(trained, seed=seed)]
    right, alone = [], []
    for newcomers, rows in zip(late, parts[1:], strict=True):
        facts = newcomers.public_facts(unit)
        plan = calibrate_arrival(runs, node_names(newcomers), facts, None if word == "edge" else budget)
        runs.append(plan.fit(newcomers, seed=seed))
        known = full.y[rows] >= 0
        right.append((runs[-1].predict(newcomers) == full.y[rows])[known])
        alone.append((graph_free(runs[0], newcomers).argmax(1) == full.y[rows])[known])
    tested = trained.test_mask & (trained.y >= 0)
    before = (runs[0].predict(trained) == trained.y)[tested].mean()
    return before, np.concatenate(right).mean(), np.concatenate(alone).mean()


def main() -> None:
    """Print a row for each graph and setting."""
    given = study.options(__doc__, datasets=DATASETS, units={"edge": None, "node": None}, seeds=10)
    columns = ("graph", "unit", "epsilon", "test nodes of the run", "nodes that arrive later", "their features alone")

    def row(name: str, word: str, epsilon: float) -> tuple[str, ...]:
        full = study.graph_of(name, given.data_dir)
        found = [measure(full, word, epsilon, seed) for seed in range(given.seeds)]
        return name, word, f"{epsilon:g}", *map(study.told, zip(*found, strict=True))

    asked = ((name, *one) for name in given.datasets for one in SETTINGS if one[0] in given.units)
    study.table(columns, (row(*one) for one in asked))


if __name__ == "__main__":
    main()
