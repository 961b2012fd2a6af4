"""Node level with every arc in or out: promised messages beside their controls; prints a Markdown table.

    OMP_NUM_THREADS=1 python benchmarks/incident.py [--graphs facebook100/Berkeley13 ...] [--epsilons 8 ...] [--runs ...] \\
        [--seeds 10] [--first-seed 610] [--log FILE] [--only-print]

Seed i draws split i (75/10/15) and the initialization; noise is fresh. Delta is 1e-5. Numbers are mean test accuracies in percent
with 95 % t-intervals over seeds. Columns:

* *public degrees*: every node's true degree is declared public, and is its bound;
* *promise*: one bound for everybody: 1,500 for the schools (Berkeley13's largest degree is 1,110), elsewhere
  the next power of two above the largest degree;
* *nothing*: no bound is declared, and one is found within the budget;
* *mlp*, *linear*: controls that read no arc, at the same budget and unit; *floor* is the better of both by its mean;
* *owned arcs*: label messages under the weaker unit, in which arcs that others own are no part of a record.

Constants of the method were chosen on Rutgers89, UCSC68, Cora-ML and Amazon Computers, at seed 0.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import product
from typing import TYPE_CHECKING

import defaults
import numpy as np
import study

import sfumato as sf
from sfumato.graph._bounds import most_arcs
from sfumato.graph._declared import with_public_degrees

if TYPE_CHECKING:
    from sfumato.graph._graph import Graph

GRAPHS = ("facebook100/Duke14", "npz/cora_ml", *(name for name in defaults.GRAPHS if name != "planetoid/cora"))
EPSILONS, DELTA = (1.0, 2.0, 4.0, 8.0), 1e-5
RUNS = {
    "degrees": ("promised-messages", "incident"),
    "promise": ("promised-messages", "incident"),
    "nothing": ("promised-messages", "incident"),
    "mlp": ("mlp", "incident"),
    "linear": ("linear", "incident"),
    "owned": ("label-messages", "owned"),
}


def main() -> None:
    """Fit what is missing, and print a row for each graph and epsilon."""
    given = study.options(
        __doc__, log="incident.jsonl", graphs=GRAPHS, epsilons=EPSILONS, runs=RUNS, seeds=10, first_seed=610
    )
    seeds = range(given.first_seed, given.first_seed + given.seeds)
    cells = ((g, e, run, seed) for seed in seeds for g in given.graphs for e in given.epsilons for run in given.runs)
    groups = study.grouped(study.kept(given, cells, lambda *cell: fit(*cell, given.data_dir)), 3)
    rows = []
    for graph, epsilon in product(given.graphs, given.epsilons):
        found = {run: groups.get((graph, epsilon, run), []) for run in RUNS}
        if not (found["mlp"] and len(found["mlp"]) == len(found["linear"])):
            continue
        floor = max(("mlp", "linear"), key=lambda run, found=found: np.mean(found[run]))
        gains = (
            study.told(np.subtract(found[run], found[floor]), sign="+") if len(found[run]) == len(found[floor]) else "-"
            for run in ("degrees", "promise", "nothing")
        )
        rows.append((graph, f"{epsilon:g}", *map(study.told, found.values()), *gains, len(found["mlp"])))
    heads = ("public degrees", "promise", "nothing", "mlp", "linear", "owned arcs (weaker unit)")
    study.table(("graph", "epsilon", *heads, *(f"{name} - floor" for name in heads[:3]), "seeds"), rows)


def fit(name: str, epsilon: float, run: str, seed: int, data_dir: str) -> float:
    """Test accuracy of one fit."""
    method, arcs = RUNS[run]
    graph = study.graph_of(name, data_dir, seed)
    if run == "degrees":
        graph = with_public_degrees(graph)
    elif run == "promise":
        graph = replace(graph, max_degree=promise(name, graph))
    return study.accuracy(graph, study.fitted(method, sf.Budget(epsilon, DELTA), sf.NodeLevel(arcs=arcs), graph, seed))


def promise(name: str, graph: Graph) -> int:
    """The bound that is promised for everybody."""
    if name.startswith("facebook100/"):
        return 1500
    most = int(most_arcs(graph.indptr, graph.indices).max())
    return min(1 << most.bit_length(), graph.num_nodes)


if __name__ == "__main__":
    main()
