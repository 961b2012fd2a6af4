"""The default method beside its controls on graphs of several families; prints and stores a Markdown table.

    OMP_NUM_THREADS=1 python benchmarks/defaults.py [--graphs npz/amazon_cs ...] [--units edge node] [--methods auto ...] \\
        [--seeds 10] [--first-seed 310] [--results FILE] [--only-print]

Seed i draws split i (75/10/15) and the networks' initialization; noise is fresh. No promise about degrees is given. Delta is
1e-7 (edge) and 1e-5 (node). Numbers are mean test accuracies in percent with their 95 % t-intervals. The floor is the best
graph-free model at the same unit and budget by its mean over the seeds, the ceiling the better of label messages without
privacy and the reference network. ``worst`` is the largest loss of ``auto`` to the floor.

Fits that ``--results`` holds are not repeated, so a run that was stopped goes on. Seeds from 310 on chose nothing. Constants of
the default were chosen on Rutgers89, UCSC68, Cornell5, Cora-ML, Citeseer and Amazon Computers (docs/decisions/0018).
"""

from __future__ import annotations

import argparse
import warnings
from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np
from kept import add_options, finished
from scipy.special import stdtrit

from sfumato.catalog import method_named
from sfumato.graph import load_dataset
from sfumato.privacy.budget import Budget
from sfumato.privacy.units import EdgeLevel, NodeLevel, NoPrivacy, Unit
from sfumato.scoring._scores import Summary, score

if TYPE_CHECKING:
    from sfumato.graph._graph import Graph

GRAPHS = (
    "facebook100/Berkeley13",
    "facebook100/UCSC68",
    "planetoid/cora",
    "planetoid/citeseer",
    "npz/coauthor_cs",
    "npz/amazon_cs",
    "musae/facebook",
    "musae/twitch_ENGB",
    "musae/wiki_chameleon",
)
EPSILONS = (1.0, 2.0, 4.0, 8.0)
DELTAS = {"edge": 1e-7, "node": 1e-5}
FLOORS = {"edge": ("graph-free", "mlp"), "node": ("linear", "mlp")}
FREE = ("graph-free", "mlp", "label-messages", "reference")  # at edge level they cost nothing, or run without privacy
CEILINGS = ("label-messages", "reference")
Cell = tuple[str, str, float, str, int]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--graphs", nargs="+", default=GRAPHS)
    parser.add_argument("--units", nargs="+", choices=tuple(DELTAS), default=tuple(DELTAS))
    parser.add_argument("--epsilons", nargs="+", type=float, default=EPSILONS)
    parser.add_argument(
        "--methods", nargs="+", default=("auto", "linear", "mlp", "graph-free", "progap", "gap", *CEILINGS)
    )
    add_options(parser, "runs/defaults.jsonl", 310)
    options = parser.parse_args()
    done = finished(options, cells(options), fit)
    for unit in options.units:
        print(f"\n## {unit} level, delta {DELTAS[unit]:g}\n")
        table(unit, options, done)


def cells(options: argparse.Namespace) -> Iterator[Cell]:
    """All fits, seed by seed, so that a run that is stopped leaves whole seeds. Epsilon 0 stands for fits without a budget."""
    for seed in range(options.first_seed, options.first_seed + options.seeds):
        for method in options.methods:
            for graph in options.graphs:
                for unit in options.units:
                    if method in ("linear", "graph-free", "mlp") and method not in FLOORS[unit]:
                        continue
                    free = method in CEILINGS or (unit == "edge" and method in FREE)
                    for epsilon in (0.0,) if free else options.epsilons:
                        yield graph, "none" if method in CEILINGS else unit, epsilon, method, seed


def fit(cell: Cell, data_dir: str) -> float:
    """Test accuracy of one fit."""
    name, unit, epsilon, method, seed = cell
    graph = load_dataset(name, data_dir).with_split(seed=seed)
    kind = unit_of(unit, graph, method)
    budget = Budget(epsilon or 1.0, DELTAS[unit]) if kind.private else None
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # implausible promises are said of small graphs
        plan = method_named(method).calibrate(budget, kind, graph.public_facts(kind))
        return score(plan.fit(graph, seed=seed), graph)["accuracy"]


def unit_of(name: str, graph: Graph, method: str) -> Unit:
    if name == "none":
        return NoPrivacy()
    if name == "edge":
        return EdgeLevel(directed=graph.directed)
    return NodeLevel(max_out_degree=100 if method in ("gap", "progap") else None)


def table(unit: str, options: argparse.Namespace, done: dict[Cell, float]) -> None:
    """Print a row for each graph and epsilon, and the worst loss."""
    print("| graph | epsilon | auto | floor | auto - floor | progap | gap | ceiling | seeds |")
    print("|---" * 9 + "|")
    worst = []
    for graph in options.graphs:
        for epsilon in options.epsilons:
            own = values(done, graph, unit, epsilon, "auto")
            own = {seed: own[seed] for seed in own if options.first_seed <= seed < options.first_seed + options.seeds}
            if not own:
                continue
            floor = best([values(done, graph, unit, epsilon, name) for name in FLOORS[unit]], own)
            ceiling = best([values(done, graph, "none", 0.0, name) for name in CEILINGS], own)
            others = [shown(values(done, graph, unit, epsilon, name)) for name in ("progap", "gap")]
            gain = difference(own, floor)
            if gain is not None:
                worst.append((gain[0], f"{graph}, epsilon {epsilon:g}"))
            gained = "-" if gain is None else f"{100 * gain[0]:+.1f} ± {100 * gain[1]:.1f}"
            row = [graph, f"{epsilon:g}", shown(own), shown(floor), gained, *others, shown(ceiling), str(len(own))]
            print("| " + " | ".join(row) + " |")
    if worst:
        least, where = min(worst)
        print(f"\nLeast gain over the floor: {100 * least:+.1f} ({where}).")


def values(done: dict[Cell, float], graph: str, unit: str, epsilon: float, method: str) -> dict[int, float]:
    """Accuracies by seed."""
    if unit == "edge" and method in FREE:
        epsilon = 0.0
    return {s: value for (g, u, e, m, s), value in done.items() if (g, u, e, m) == (graph, unit, epsilon, method)}


def best(found: list[dict[int, float]], own: dict[int, float]) -> dict[int, float]:
    """The candidate with the best mean, of those that have all seeds of the default."""
    whole = [{seed: one[seed] for seed in own} for one in found if own.keys() <= one.keys()]
    return max(whole, key=lambda one: sum(one.values()), default={})


def difference(own: dict[int, float], other: dict[int, float]) -> tuple[float, float] | None:
    """Mean difference of pairs with one seed, and half its 95 % t-interval (0 for one seed)."""
    if not other:
        return None
    pairs = np.array([own[seed] - other[seed] for seed in own])
    if len(pairs) == 1:
        return float(pairs[0]), 0.0
    return float(pairs.mean()), float(stdtrit(len(pairs) - 1, 0.975) * pairs.std(ddof=1) / np.sqrt(len(pairs)))


def shown(found: dict[int, float]) -> str:
    return str(Summary.of(list(found.values()))).replace(" %", "") if found else "-"


if __name__ == "__main__":
    main()
