"""Node level with every arc in or out: promised messages beside their controls; prints and stores a Markdown table.

    OMP_NUM_THREADS=1 python benchmarks/incident.py [--graphs facebook100/Berkeley13 ...] [--epsilons 8 ...] [--seeds 10] \\
        [--first-seed 610] [--results FILE] [--only-print]

Seed i draws split i (75/10/15) and the initialization; noise is fresh. Delta is 1e-5. Numbers are mean test accuracies in percent
with 95 % t-intervals over seeds. Columns:

* *public degrees*: every node's true degree is declared public, and is its bound;
* *promise*: one bound for everybody: 1,500 for the schools (Berkeley13's largest degree is 1,110), elsewhere
  the next power of two above the largest degree;
* *mlp*, *linear*: controls that read no arc, at the same budget and unit; *floor* is the better of both by its mean;
* *owned arcs*: label messages under the weaker unit, in which arcs that others own are no part of a record.

Constants of the method were chosen on Rutgers89, UCSC68, Cora-ML and Amazon Computers, at seed 0. Fits that
``--results`` holds are not repeated, so a run that was stopped goes on.
"""

from __future__ import annotations

import argparse
import warnings
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
from kept import add_options, finished
from scipy.special import stdtrit

from sfumato.catalog import method_named
from sfumato.graph import load_dataset
from sfumato.graph._bounds import most_arcs
from sfumato.graph._declared import with_public_degrees
from sfumato.privacy.budget import Budget
from sfumato.privacy.units import NodeLevel
from sfumato.scoring._scores import Summary, score

if TYPE_CHECKING:
    from sfumato.graph._graph import Graph

GRAPHS = (
    "facebook100/Berkeley13",
    "facebook100/Duke14",
    "facebook100/UCSC68",
    "npz/cora_ml",
    "planetoid/citeseer",
    "npz/amazon_cs",
    "npz/coauthor_cs",
    "musae/facebook",
    "musae/twitch_ENGB",
    "musae/wiki_chameleon",
)
EPSILONS, DELTA = (1.0, 2.0, 4.0, 8.0), 1e-5
RUNS = {
    "degrees": ("promised-messages", "incident"),
    "promise": ("promised-messages", "incident"),
    "mlp": ("mlp", "incident"),
    "linear": ("linear", "incident"),
    "owned": ("label-messages", "owned"),
}
Cell = tuple[str, float, str, int]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--graphs", nargs="+", default=GRAPHS)
    parser.add_argument("--epsilons", nargs="+", type=float, default=EPSILONS)
    parser.add_argument("--runs", nargs="+", choices=tuple(RUNS), default=tuple(RUNS))
    add_options(parser, "runs/incident.jsonl", 610)
    options = parser.parse_args()
    done = finished(options, cells(options), fit)
    table(options, done)


def cells(options: argparse.Namespace) -> list[Cell]:
    """All fits, seed by seed, so that a run that is stopped leaves whole seeds."""
    seeds = range(options.first_seed, options.first_seed + options.seeds)
    return [
        (g, e, run, seed) for seed in seeds for g in options.graphs for e in options.epsilons for run in options.runs
    ]


def fit(cell: Cell, data_dir: str) -> float:
    """Test accuracy of one fit."""
    name, epsilon, run, seed = cell
    method, arcs = RUNS[run]
    graph, unit = load_dataset(name, data_dir).with_split(seed=seed), NodeLevel(arcs=arcs)
    if run == "degrees":
        graph = with_public_degrees(graph)
    elif run == "promise":
        graph = replace(graph, max_degree=promise(name, graph))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # implausible promises are said of small graphs
        plan = method_named(method).calibrate(Budget(epsilon, DELTA), unit, graph.public_facts(unit))
        return score(plan.fit(graph, seed=seed), graph)["accuracy"]


def promise(name: str, graph: Graph) -> int:
    """The bound that is promised for everybody."""
    if name.startswith("facebook100/"):
        return 1500
    most = int(most_arcs(graph.indptr, graph.indices).max())
    return min(1 << most.bit_length(), graph.num_nodes)


def table(options: argparse.Namespace, done: dict[Cell, float]) -> None:
    """Print a row for each graph and epsilon."""
    print(
        "| graph | epsilon | public degrees | promise | mlp | linear | degrees - mlp | promise - mlp | degrees - floor | ",
        end="",
    )
    print("promise - floor | owned arcs (weaker unit) | seeds |")
    print("|---" * 12 + "|")
    for graph in options.graphs:
        for epsilon in options.epsilons:
            found = {run: values(options, done, graph, epsilon, run) for run in RUNS}
            if not all(len(one) for one in found.values()):
                continue
            floor = max(("mlp", "linear"), key=lambda run, found=found: float(found[run].mean()))
            gains = [gain(found[one], found[other]) for other in ("mlp", floor) for one in ("degrees", "promise")]
            shown = [str(Summary.of(one.tolist())).replace(" %", "") for one in found.values()]
            row = [graph, f"{epsilon:g}", *shown[:4], *gains, shown[4], str(len(found["mlp"]))]
            print("| " + " | ".join(row) + " |")


def values(options: argparse.Namespace, done: dict[Cell, float], graph: str, epsilon: float, run: str) -> np.ndarray:
    """Accuracies of the seeds that every run of the row has."""
    seeds = range(options.first_seed, options.first_seed + options.seeds)
    whole = [seed for seed in seeds if all((graph, epsilon, one, seed) in done for one in RUNS)]
    return np.array([done[graph, epsilon, run, seed] for seed in whole])


def gain(own: np.ndarray, other: np.ndarray) -> str:
    """Mean difference in points of pairs with one seed, and half its 95 % t-interval (0 for one seed)."""
    pairs = 100 * (own - other)
    half = stdtrit(len(pairs) - 1, 0.975) * pairs.std(ddof=1) / np.sqrt(len(pairs)) if len(pairs) > 1 else 0.0
    return f"{pairs.mean():+.1f} ± {half:.1f}"


if __name__ == "__main__":
    main()
