"""``auto`` on graphs with three types of edges, beside each type alone and all without their types; prints a Markdown table.

    OMP_NUM_THREADS=1 python benchmarks/kinds.py [--unit node] [--graphs made-1 ...] [--epsilons 1 4] [--seeds 5] [--log FILE]

Unit: one undirected edge of one type, delta 0, or one node with the arcs it owns, delta 1e-5. ``made-k`` is generated anew for
each seed: 4,000 nodes of four classes, features that tell little, and types with four edges a node, of which k link nodes of one
class half of the time and else anybody. Real graphs have their own edges and two further types: students of one dorm and of one
high school (eight of each at random; dorms are no features), or nodes that share a word of at most twenty, and random pairs. Seed
i draws split i (75/10/15 of the labeled nodes). Numbers are mean test accuracies in percent with 95 % t-intervals.
"""

from itertools import product
from typing import Any

import numpy as np
import scipy.sparse as sp
import study
from scipy.io import loadmat

import sfumato as sf
from sfumato.graph._arcs import owners

GRAPHS = ["made-1", "made-2", "made-3", "facebook100/UCSC68", "facebook100/Duke14", "musae/facebook",
          "text/citeseer_text"]  # fmt: skip
UNITS = {"edge": (sf.EdgeLevel(directed=False), 0.0, "graph-free"), "node": (sf.NodeLevel(), 1e-5, "linear")}
VIEWS = ("auto", "merged", "floor", 0, 1, 2)
Ends = tuple[np.ndarray, np.ndarray]


def main() -> None:
    """Fit what is missing, and print the table."""
    given = study.options(__doc__, log="kinds.jsonl", unit="edge", graphs=GRAPHS, epsilons=(1.0, 4.0), seeds=5)
    seeds = range(410, 410 + given.seeds)
    cells = [(given.unit, *cell, seed) for seed, *cell in product(seeds, given.graphs, given.epsilons, VIEWS)]
    groups = study.grouped(study.kept(given, cells, lambda *cell: fit(*cell, given.data_dir)), 4)
    rows = []
    for name, epsilon in product(given.graphs, given.epsilons):
        own, merged, floor, *alone = (groups.get((given.unit, name, epsilon, view), []) for view in VIEWS)
        best = max((one for one in alone if one), key=np.mean, default=[])
        gain = np.subtract(own, best) if len(own) == len(best) else []
        told = (study.told(own), study.told(best), study.told(gain, sign="+"))
        rows.append((name, f"{epsilon:g}", *told, *map(study.told, (*alone, merged, floor)), len(own)))
    columns = ("graph", "epsilon", "auto", "best alone", "auto - best", "type 1", "type 2", "type 3", "without types")
    study.table((*columns, "floor", "seeds"), rows)


def fit(unit: str, name: str, epsilon: float, view: Any, seed: int, data_dir: str) -> float:
    """Test accuracy of one fit, on all types, on all edges without their types, on one type alone, or on no edge."""
    nodes, kinds = made(int(name[-1]), seed) if name.startswith("made") else real(name, data_dir)
    kinds = [kinds[view]] if isinstance(view, int) else kinds
    if view == "auto":
        nodes |= {"edge_type": np.repeat(range(3), [len(one) for one, _ in kinds]), "edge_types": list("abc")}
    ends = map(np.concatenate, zip(*kinds, strict=True))
    graph = sf.graph.Graph.from_edges(*ends, len(nodes["y"]), directed=False, **nodes)
    graph, (what, delta, floor) = graph.with_split(seed=seed, labeled=True), UNITS[unit]
    fitted = study.fitted(floor if view == "floor" else "auto", sf.Budget(epsilon, delta), what, graph, seed)
    return study.accuracy(graph, fitted)


def made(telling: int, seed: int) -> tuple[dict[str, Any], list[Ends]]:
    """A generated graph: fields of its nodes, and the ends of the edges of each type."""
    rng, n = np.random.default_rng(seed), 4000
    y, kinds = rng.integers(4, size=n), []
    for kind in range(3):
        source, target = rng.integers(n, size=(2, 4 * n))
        for row in np.flatnonzero(rng.random(4 * n) < 0.5 * (kind < telling)):
            target[row] = rng.choice(np.flatnonzero(y == y[source[row]]))
        kinds.append((source, target))
    x = np.eye(4, dtype=np.float32)[np.where(rng.random(n) < 0.3, y, rng.integers(4, size=n))]
    return {"x": x, "y": y, "classes": tuple("abcd")}, kinds


def real(name: str, data_dir: str) -> tuple[dict[str, Any], list[Ends]]:
    """A data set: fields of its nodes, and the ends of its own edges and of two further types."""
    rng, school = np.random.default_rng(0), name.startswith("facebook100")
    how = {"min_class_size": 1000} if school else {"text_features": "hashing:4096"} if name.startswith("text") else {}
    graph = study.graph_of(name, data_dir, **how)
    x, own = sp.csr_matrix(graph.x), (owners(graph.indptr), graph.indices.astype(np.int64))
    if school:
        x = x[:, [at for at, column in enumerate(graph.feature_names) if not column.startswith("dorm=")]]
        codes = loadmat(f"{data_dir}/{name}.mat")["local_info"][np.asarray(graph.node_ids).astype(int)]
        groups = [[np.flatnonzero(codes[:, at] == one) for one in np.unique(codes[:, at]) if one] for at in (4, 6)]
        more = [within(one, 8, rng) for one in groups]
    else:
        words = np.split(x.tocsc().indices, x.tocsc().indptr[1:-1])
        more = [within([one for one in words if len(one) <= 20], 1, rng)]
        more.append(tuple(rng.integers(graph.num_nodes, size=(2, len(own[0]) // 2))))
    return {"x": x, "y": graph.y, "classes": graph.classes}, [own, *more]


def within(groups: list[np.ndarray], each: int, rng: np.random.Generator) -> Ends:
    """Every member of each group beside so many members of it at random."""
    source = np.concatenate([np.repeat(one, each) for one in groups])
    return source, np.concatenate([rng.choice(one, len(one) * each) for one in groups if len(one)])


if __name__ == "__main__":
    main()
