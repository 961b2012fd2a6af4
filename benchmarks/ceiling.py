"""The ceiling (method `reference`, no privacy) beside published non-private accuracies; prints two Markdown tables.

    python benchmarks/ceiling.py [--graphs planetoid/cora ...] [--seeds 10] [--data-dir ../shared/data]

The first table has the splits of the papers: the public one of Planetoid, and 20 training and 30 validation nodes a class of
the largest component, all others for testing (Shchur et al. 2018; they average 100 splits, here seed i draws split i). The
second compares the ceiling with GraphSAGE, the ceiling of earlier versions, and with the default method without privacy, on
splits of 75/10/15 %.
"""

from __future__ import annotations

import argparse
import os
import time

import numpy as np
import scipy.sparse as sp
from scipy.sparse.csgraph import connected_components

import sfumato as sf
from sfumato.catalog import method_named
from sfumato.graph import load_dataset, stochastic_block_model
from sfumato.scoring._scores import Summary, score

PUBLISHED = {
    "planetoid/cora": "GCN 81.5, GAT 83.0, APPNP 83.3, GCNII 85.5",
    "planetoid/citeseer": "GCN 70.3, GAT 72.5, APPNP 71.8, GCNII 73.4",
    "npz/coauthor_cs": "GCN 91.1, GAT 90.5, GraphSAGE 91.3, MLP 88.3",
    "npz/amazon_cs": "GCN 82.6, GAT 78.0, GraphSAGE 82.4, MLP 44.9",
}
OURS = ("block-model", "directed/email-Eu-core", "lastfm_asia", "musae/wiki_chameleon", "npz/cora_ml",
        "facebook100/UCSC68", "facebook100/Berkeley13")  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--graphs", nargs="+", choices=(*PUBLISHED, *OURS), default=(*PUBLISHED, *OURS))
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--data-dir", default=os.environ.get("SFUMATO_DATA", "../shared/data"))
    options = parser.parse_args()
    published = [name for name in options.graphs if name in PUBLISHED]
    if published:
        print(f"{options.seeds} seeds, 95 % t-intervals\n\n| graph | split | reference | published | seconds a fit |")
        print("|---|---|---|---|---|", flush=True)
    for name in published:
        graphs = [paper_split(name, options.data_dir, seed) for seed in range(options.seeds)]
        shown, seconds = accuracy("reference", graphs)
        split = "public" if name.startswith("planetoid") else "20 + 30 a class"
        print(f"| {name} | {split} | {shown} | {PUBLISHED[name]} | {seconds:.0f} |", flush=True)
    ours, methods = [name for name in options.graphs if name in OURS], ("reference", "label-messages", "sage")
    if ours:
        print(f"\n{options.seeds} seeds, 95 % t-intervals, no privacy\n\n| graph | {' | '.join(methods)} |")
        print("|---|---|---|---|", flush=True)
    for name in ours:
        graph = block_model() if name == "block-model" else load_dataset(name, options.data_dir)
        graphs = [graph.with_split(seed=seed) for seed in range(options.seeds)]
        print(f"| {name} | {' | '.join(accuracy(method, graphs)[0] for method in methods)} |", flush=True)


def block_model() -> sf.graph.Graph:
    return stochastic_block_model(3000, 4, mean_degree=12, num_features=8, seed=1)


def paper_split(name: str, data_dir: str, seed: int) -> sf.graph.Graph:
    """The public split, or 20 and 30 nodes of each class in the largest component; nodes outside have no role."""
    if name.startswith("planetoid"):
        return load_dataset(name, data_dir, split="public")
    graph = load_dataset(name, data_dir)
    arcs = sp.csr_matrix((np.ones(len(graph.indices)), graph.indices, graph.indptr), shape=(graph.num_nodes,) * 2)
    component = connected_components(arcs, directed=False)[1]
    inside = component == np.bincount(component).argmax()
    roles, generator = np.where(inside, 2, 3).astype(np.uint8), np.random.default_rng(seed)
    for label in range(graph.num_classes):
        members = generator.permutation(np.flatnonzero(inside & (graph.y == label)))
        roles[members[:20]], roles[members[20:50]] = 0, 1
    return graph.with_roles(roles)


def accuracy(method: str, graphs: list[sf.graph.Graph]) -> tuple[str, float]:
    """Mean test accuracy in percent with its interval, and the mean seconds of a fit; graph i is fitted with seed i."""
    unit, start = sf.NoPrivacy(), time.perf_counter()
    fits = [
        method_named(method).calibrate(None, unit, graph.public_facts(unit)).fit(graph, seed=seed)
        for seed, graph in enumerate(graphs)
    ]
    seconds = (time.perf_counter() - start) / len(graphs)
    found = Summary.of([score(fit, graph)["accuracy"] for fit, graph in zip(fits, graphs, strict=True)])
    ends = "" if found.low is None else f" [{100 * found.low:.1f}, {100 * found.high:.1f}]"
    return f"{100 * found.mean:.1f}{ends}", seconds


if __name__ == "__main__":
    main()
