"""Graph convolutions with less training data and with privacy, and whether they fail at the same nodes; prints Markdown tables.

    python benchmarks/graph_split_data.py [--datasets planetoid/cora ...] [--networks "10 splits, SGD" ...] [--seeds 5]

Figures 1, 2, 5 and 6 of Igamberdiev and Habernal (2022), after their experiments A and B, by SGD and by Adam.
Splits are 45/18/37, one a seed. A part of the training nodes keeps its labels; messages flow over the whole graph. *Hard cases*
are test nodes that the network without privacy, of the same optimizer and with all training nodes, gets wrong; shown is the part
that another network gets wrong as well, and what a guess by its class frequencies would. The last table has, for each class,
where its hard cases go. The paper's largest epsilon, 136.51, is beyond what our noise sampler accounts for: delta would be gone.
Means in percent with 95 % t-intervals over seeds. The figures read true labels: evaluation only. No constant was chosen here.
"""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np
import study
from numpy.typing import NDArray

import sfumato as sf
from sfumato.central._graph_split import GraphSplit

if TYPE_CHECKING:
    from sfumato.graph._graph import Graph

SHARES, PRIVATE_SHARES, EPSILONS = (0.1, 0.25, 0.5, 0.75, 1.0), (0.25, 0.5, 0.75, 1.0), (9.75, 4.91, 2.0)
SGD = {"optimizer": "sgd", "learning_rate": 100.0}
PLAIN = {
    "Adam": GraphSplit(num_groups=1, batch_size=1, learning_rate=0.01, dropout=0.5, steps=500),
    "SGD": GraphSplit(num_groups=1, batch_size=1, optimizer="sgd", learning_rate=1.0, dropout=0.5, steps=2000),
}
PRIVATE = {
    "one graph, Adam": GraphSplit(num_groups=1, dropout=0.5),
    "10 splits, Adam": GraphSplit(num_groups=10, batch_size=1, dropout=0.5, steps=500),
    "1,000 groups (default), Adam": GraphSplit(),
    "one graph, SGD": GraphSplit(num_groups=1, dropout=0.5, **SGD),
    "10 splits, SGD": GraphSplit(num_groups=10, batch_size=1, dropout=0.5, steps=2000, **SGD),
    "1,000 groups, SGD": GraphSplit(**SGD),
}
NETWORKS = {**{f"without privacy, {by}": PLAIN[by] for by in PLAIN}, **PRIVATE}
INCIDENT, NONE = sf.NodeLevel(arcs="incident"), sf.NoPrivacy()


def fewer(graph: Graph, share: float, seed: int) -> Graph:
    """The graph with a part of its training nodes; the others have no role."""
    train = np.random.default_rng(seed).permutation(np.flatnonzero(graph.train_mask))
    roles = graph.roles.copy()
    roles[train[int(np.ceil(share * len(train))) :]] = 3
    return graph.with_roles(roles)


@lru_cache(maxsize=2)
def predicted(method: GraphSplit, graph: Graph, epsilon: float | None, seed: int) -> NDArray[np.int64]:
    """Classes of all nodes by one fit."""
    unit, budget = (NONE, None) if epsilon is None else (INCIDENT, sf.Budget(epsilon, 1e-5))
    return study.fitted(replace(method, group_seed=seed), budget, unit, graph, seed).predict(graph)


def chance(found: NDArray[np.int64], truth: NDArray[np.int64], hard: NDArray[np.bool_]) -> float:
    """How many hard cases a guess gets wrong that has the class frequencies of ``found``."""
    return float(1 - (np.bincount(found, minlength=truth.max() + 1) / len(found))[truth[hard]].mean())


def measured(name: str, what: str, epsilon: float | None, share: float, seed: int, data_dir: str) -> list[Any]:
    """Accuracy, share of hard cases that stay wrong, that of a guess, and where hard cases go: [class, answer] counts."""
    full = study.graph_of(name, data_dir, seed, (0.45, 0.18, 0.37))
    test = full.test_mask & (full.y >= 0)
    truth = full.y[test]
    hard = predicted(PLAIN[what.split(", ")[-1]], full, None, seed)[test] != truth
    found = predicted(NETWORKS[what], full if share == 1 else fewer(full, share, seed), epsilon, seed)[test]
    where = np.zeros((full.num_classes,) * 2, int)
    np.add.at(where, (truth[hard], found[hard]), 1)
    missed = found != truth
    return [1 - float(missed.mean()), float(missed[hard].mean()), chance(found, truth, hard), where.tolist()]


def main() -> None:
    """Measure what is missing, and print two tables for each graph."""
    names = ("planetoid/cora", "planetoid/citeseer")
    given = study.options(__doc__, log="graph_split_data.jsonl", datasets=names, networks=NETWORKS, seeds=5)
    plain = [(what, None, share) for what in NETWORKS if what not in PRIVATE for share in SHARES]
    private = [(what, epsilon, share) for what in PRIVATE for epsilon in EPSILONS for share in PRIVATE_SHARES]
    networks = [one for one in plain + private if one[0] in given.networks]
    asked = ((name, *one, seed) for name in given.datasets for seed in range(given.seeds) for one in networks)
    found = study.grouped(study.kept(given, asked, lambda *cell: measured(*cell, given.data_dir)), 4)
    for name in given.datasets:
        rows, lines, classes = [], [], study.graph_of(name, given.data_dir).classes
        for what, epsilon, share in networks:
            runs = found[name, what, epsilon, share]
            told = (study.told([one[k] for one in runs]) for k in range(3))
            rows.append((what, "-" if epsilon is None else f"{epsilon:g}", f"{100 * share:.0f} %", *told))
            if share == 1:
                where = np.sum([one[3] for one in runs], axis=0)
                most = [f"{classes[int(one.argmax())]} {100 * one.max() / max(one.sum(), 1):.0f} %" for one in where]
                lines.append((f"{what}, epsilon {epsilon or '-'}", *most))
        columns = ("network", "epsilon", "training nodes", "accuracy", "hard cases still wrong", "by chance")
        study.table(columns, rows, f"### {name}")
        title = f"Where hard cases of each class go on {name}: the most frequent answer"
        study.table(("network", *classes), lines, title)


if __name__ == "__main__":
    main()
