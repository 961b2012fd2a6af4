"""The default method beside its controls on graphs of several families; prints a Markdown table.

    OMP_NUM_THREADS=1 python benchmarks/defaults.py [--graphs npz/amazon_cs ...] [--units edge node] [--methods auto ...] \\
        [--seeds 10] [--first-seed 310] [--log FILE] [--only-print]

Seed i draws split i (75/10/15) and the networks' initialization; noise is fresh. No promise about degrees is given. Delta is
1e-7 (edge) and 1e-5 (node). Numbers are mean test accuracies in percent with their 95 % t-intervals. The floor is the best
graph-free model at the same unit and budget by its mean over the seeds, the ceiling the better of label messages without
privacy and the reference network. ``worst`` is the largest loss of ``auto`` to the floor.

Seeds from 310 on chose nothing. Constants of
the default were chosen on Rutgers89, UCSC68, Cornell5, Cora-ML, Citeseer and Amazon Computers (docs/decisions/0018).
"""

from collections.abc import Iterator
from itertools import product
from typing import Any

import numpy as np
import study

from sfumato.privacy.budget import Budget
from sfumato.privacy.units import EdgeLevel, NodeLevel, NoPrivacy

GRAPHS = (
    "facebook100/Berkeley13", "facebook100/UCSC68", "planetoid/cora", "planetoid/citeseer", "npz/coauthor_cs",
    "npz/amazon_cs", "musae/facebook", "musae/twitch_ENGB", "musae/wiki_chameleon",
)  # fmt: skip
EPSILONS = (1.0, 2.0, 4.0, 8.0)
DELTAS = {"edge": 1e-7, "node": 1e-5}
FLOORS = {"edge": ("graph-free", "mlp"), "node": ("linear", "mlp")}
FREE = ("graph-free", "mlp", "label-messages", "reference")  # at edge level they cost nothing, or run without privacy
CEILINGS = ("label-messages", "reference")


def main() -> None:
    """Fit what is missing, and print a table for each unit."""
    given = study.options(
        __doc__, log="defaults.jsonl", graphs=GRAPHS, units=dict(DELTAS), epsilons=EPSILONS, seeds=10, first_seed=310,
        methods=("auto", "linear", "mlp", "graph-free", "progap", "gap", *CEILINGS),
    )  # fmt: skip
    found = study.kept(given, cells(given), lambda *cell: fit(*cell, given.data_dir))
    for unit in given.units:
        table(unit, given, study.grouped(found, 4))


def cells(given: Any) -> Iterator[tuple[str, str, float, str, int]]:
    """All fits, seed by seed, so that a run that is stopped leaves whole seeds. Epsilon 0 stands for fits without a budget."""
    for seed in range(given.first_seed, given.first_seed + given.seeds):
        for method, graph, unit in product(given.methods, given.graphs, given.units):
            if method not in ("linear", "graph-free", "mlp") or method in FLOORS[unit]:
                free = method in CEILINGS or (unit == "edge" and method in FREE)
                for epsilon in (0.0,) if free else given.epsilons:
                    yield graph, "none" if method in CEILINGS else unit, epsilon, method, seed


def fit(name: str, unit: str, epsilon: float, method: str, seed: int, data_dir: str) -> float:
    """Test accuracy of one fit."""
    graph = study.graph_of(name, data_dir, seed)
    most = 100 if method in ("gap", "progap") else None
    kind = {"none": NoPrivacy(), "edge": EdgeLevel(directed=graph.directed), "node": NodeLevel(max_out_degree=most)}[
        unit
    ]
    budget = Budget(epsilon or 1.0, DELTAS[unit]) if kind.private else None
    return study.accuracy(graph, study.fitted(method, budget, kind, graph, seed))


def table(unit: str, given: Any, found: dict[Any, list[float]]) -> None:
    """A row for each graph and epsilon, and the least gain."""
    rows, least = [], []
    for graph, epsilon in product(given.graphs, given.epsilons):
        own = found.get((graph, unit, epsilon, "auto"), [])
        alone = [found.get((graph, unit, at, name), []) for name in FLOORS[unit] for at in (epsilon, 0.0)]
        free = [found.get((graph, "none", 0.0, name), []) for name in CEILINGS]
        floor, ceiling = (max((one for one in many if one), key=np.mean, default=[]) for many in (alone, free))
        if own:
            gains = np.subtract(own, floor) if len(floor) == len(own) else []
            least += [(np.mean(gains), f"{graph}, epsilon {epsilon:g}")] * bool(len(gains))
            others = [study.told(found.get((graph, unit, epsilon, name), [])) for name in ("progap", "gap")]
            shown = (study.told(own), study.told(floor), study.told(gains, sign="+"), *others, study.told(ceiling))
            rows.append((graph, f"{epsilon:g}", *shown, len(own)))
    columns = ("graph", "epsilon", "auto", "floor", "auto - floor", "progap", "gap", "ceiling", "seeds")
    study.table(columns, rows, f"### {unit} level, delta {DELTAS[unit]:g}")
    if least:
        print(f"\nLeast gain over the floor: {100 * min(least)[0]:+.1f} ({min(least)[1]}).")


if __name__ == "__main__":
    main()
