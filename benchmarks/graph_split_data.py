"""Graph convolutions with less training data and with privacy, and whether they fail at the same nodes; prints Markdown tables.

    python benchmarks/graph_split_data.py [--datasets planetoid/cora planetoid/citeseer] [--seeds 5]

Figures 1, 2, 5 and 6 of Igamberdiev and Habernal (2022), after their experiments A and B, by Adam; theirs are of one graph.
Splits are 45/18/37, one a seed. A part of the training nodes keeps its labels; messages flow over the whole graph. *Hard cases*
are test nodes that the network without privacy and with all training nodes gets wrong; shown is the part of them that another
network gets wrong as well, beside what a guess by that network's class frequencies would. The last table has, for each class,
where its hard cases go. The paper's largest epsilon, 136.51, is beyond what our noise sampler accounts for: delta would be gone.
Means in percent with 95 % t-intervals over seeds. The figures read true labels: evaluation only. No constant was chosen here.
"""

from __future__ import annotations

import argparse
import math
import os
import warnings
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray
from scipy.stats import t as student

import sfumato as sf
from sfumato.central._graph_split import GraphSplit
from sfumato.datasets._loading import load_dataset
from sfumato.errors import SfumatoWarning

if TYPE_CHECKING:
    from sfumato.graph._graph import Graph

SHARES, PRIVATE_SHARES, EPSILONS = (0.1, 0.25, 0.5, 0.75, 1.0), (0.25, 0.5, 0.75, 1.0), (9.75, 4.91, 2.0)
PLAIN = GraphSplit(num_groups=1, batch_size=1, learning_rate=0.01, dropout=0.5, steps=500)
PRIVATE = {
    "10 splits, Adam": GraphSplit(num_groups=10, batch_size=1, dropout=0.5, steps=500),
    "1,000 groups (default)": GraphSplit(),
}
INCIDENT, NONE = sf.NodeLevel(arcs="incident"), sf.NoPrivacy()


def fewer(graph: Graph, share: float, seed: int) -> Graph:
    """The graph with a part of its training nodes; the others have no role."""
    train = np.random.default_rng(seed).permutation(np.flatnonzero(graph.train_mask))
    assert graph.roles is not None
    roles = graph.roles.copy()
    roles[train[math.ceil(share * len(train)) :]] = 3
    return graph.with_roles(roles)


def predicted(method: GraphSplit, graph: Graph, epsilon: float | None, seed: int) -> NDArray[np.int64]:
    """Classes of all nodes by one fit."""
    unit = NONE if epsilon is None else INCIDENT
    budget = None if epsilon is None else sf.Budget(epsilon, 1e-5)
    method = replace(method, group_seed=seed)
    return method.calibrate(budget, unit, graph.public_facts(unit)).fit(graph, seed=seed).predict(graph)


def row(*cells: object) -> None:
    print("| " + " | ".join(map(str, cells)) + " |", flush=True)


def mean(values: list[float]) -> str:
    """In percent, with half the width of its interval."""
    if len(values) < 2:
        return f"{100 * values[0]:.1f}"
    half = student.ppf(0.975, len(values) - 1) * np.std(values, ddof=1) / math.sqrt(len(values))
    return f"{100 * np.mean(values):.1f} ± {100 * half:.1f}"


def chance(found: NDArray[np.int64], truth: NDArray[np.int64], hard: NDArray[np.bool_]) -> float:
    """How many hard cases a guess gets wrong that has the class frequencies of ``found``."""
    shares = np.bincount(found, minlength=truth.max() + 1) / len(found)
    return float(1 - shares[truth[hard]].mean())


def measure(name: str, data_dir: str, seeds: int) -> None:
    runs: dict[tuple[str, str, float], list[tuple[float, float, float]]] = {}
    where: dict[str, NDArray[np.float64]] = {}
    for seed in range(seeds):
        full = load_dataset(name, data_dir).with_split((0.45, 0.18, 0.37), seed=seed)
        assert full.y is not None
        test = full.test_mask & (full.y >= 0)
        truth = full.y[test]
        base = predicted(PLAIN, full, None, seed)[test]
        hard = base != truth

        size = (full.num_classes, full.num_classes)

        def note(
            what: str, epsilon: str, share: float, found: NDArray[np.int64], truth=truth, hard=hard, size=size
        ) -> None:
            same = (found != truth)[hard].mean()
            told = float((found == truth).mean()), float(same), chance(found, truth, hard)
            runs.setdefault((what, epsilon, share), []).append(told)
            if share == 1:
                table = where.setdefault(f"{what}, epsilon {epsilon}", np.zeros(size))
                np.add.at(table, (truth[hard], found[hard]), 1)

        note("without privacy", "-", 1.0, base)
        for share in SHARES[:-1]:
            note("without privacy", "-", share, predicted(PLAIN, fewer(full, share, seed), None, seed)[test])
        for what, method in PRIVATE.items():
            for epsilon in EPSILONS:
                for share in PRIVATE_SHARES:
                    found = predicted(method, fewer(full, share, seed), epsilon, seed)[test]
                    note(what, f"{epsilon:g}", share, found)
    print(f"\n### {name}, {seeds} seeds\n")
    row("network", "epsilon", "training nodes", "accuracy", "hard cases still wrong", "by chance")
    row(*["---"] * 6)
    for (what, epsilon, share), told in sorted(runs.items(), key=lambda one: (one[0][0], one[0][1], one[0][2])):
        row(what, epsilon, f"{100 * share:.0f} %", *(mean([one[k] for one in told]) for k in range(3)))
    classes = full.classes or tuple(map(str, range(full.num_classes)))
    print(
        f"\nWhere hard cases of each class go on {name} (all training nodes): the most frequent answer and its share.\n"
    )
    row("network", *classes)
    row(*["---"] * (1 + len(classes)))
    for what, table in where.items():
        most = [f"{classes[int(line.argmax())]} {100 * line.max() / max(line.sum(), 1):.0f} %" for line in table]
        row(what, *most)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--data-dir", default=os.environ.get("SFUMATO_DATA", "../shared/data"))
    parser.add_argument("--datasets", nargs="+", default=("planetoid/cora", "planetoid/citeseer"))
    parser.add_argument("--seeds", type=int, default=5)
    chosen = parser.parse_args()
    warnings.simplefilter("ignore", SfumatoWarning)
    for name in chosen.datasets:
        measure(name, chosen.data_dir, chosen.seeds)


if __name__ == "__main__":
    main()
