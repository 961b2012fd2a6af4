"""Tables of a graph whose nodes arrive in three batches."""

import csv

import numpy as np

from sfumato.graph._synthetic import stochastic_block_model

BATCH = np.repeat([0, 1, 2], [200, 30, 20])


def write_tables(folder):
    """Nodes and edges of three batches: n0.csv, e0.csv and so on; an edge is in the batch of its later end."""
    graph = stochastic_block_model(250, 3, mean_degree=50, homophily=0.9, num_features=4, seed=1)
    source = np.repeat(np.arange(250), np.diff(graph.indptr))
    pairs = [(u, v) for u, v in zip(source.tolist(), graph.indices.tolist(), strict=True) if u < v]
    for b in range(3):
        with (folder / f"n{b}.csv").open("w", newline="") as file:
            rows = [
                [f"n{v}", *graph.x[v].tolist(), "xy"[v % 2], 2004 + int(graph.y[v])] for v in np.flatnonzero(b == BATCH)
            ]
            csv.writer(file).writerows([["id", "f0", "f1", "f2", "f3", "kind", "year"], *rows])
        with (folder / f"e{b}.csv").open("w", newline="") as file:
            rows = [[f"n{u}", f"n{v}"] for u, v in pairs if max(BATCH[u], BATCH[v]) == b]
            csv.writer(file).writerows([["source", "target"], *rows])
    return graph
