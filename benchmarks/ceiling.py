"""The ceiling (method `reference`, no privacy) beside published non-private accuracies; prints a Markdown table.

    python benchmarks/ceiling.py [--graphs planetoid/cora ...] [--seeds 10] [--data-dir ../shared/data]

The splits are those of the papers: the public one of Planetoid, and 20 training and 30 validation nodes a class of the largest
component, all others for testing (Shchur et al. 2018; they average 100 splits, here seed i draws split i).
"""

import time

import numpy as np
import scipy.sparse as sp
import study
from scipy.sparse.csgraph import connected_components

import sfumato as sf
from sfumato.graph import load_dataset

PUBLISHED = {
    "planetoid/cora": "GCN 81.5, GAT 83.0, APPNP 83.3, GCNII 85.5",
    "planetoid/citeseer": "GCN 70.3, GAT 72.5, APPNP 71.8, GCNII 73.4",
    "npz/coauthor_cs": "GCN 91.1, GAT 90.5, GraphSAGE 91.3, MLP 88.3",
    "npz/amazon_cs": "GCN 82.6, GAT 78.0, GraphSAGE 82.4, MLP 44.9",
}


def main() -> None:
    """Print the table."""
    given = study.options(__doc__, graphs=PUBLISHED, seeds=10)

    def row(name: str) -> tuple[str, ...]:
        unit, start, scores = sf.NoPrivacy(), time.perf_counter(), []
        for seed in range(given.seeds):
            graph = paper_split(name, given.data_dir, seed)
            scores.append(study.accuracy(graph, study.fitted("reference", None, unit, graph, seed)))
        split = "public" if name.startswith("planetoid") else "20 + 30 a class"
        return name, split, study.told(scores), PUBLISHED[name], f"{(time.perf_counter() - start) / given.seeds:.0f}"

    study.table(("graph", "split", "reference", "published", "seconds a fit"), map(row, given.graphs))


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


if __name__ == "__main__":
    main()
