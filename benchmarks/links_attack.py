"""Link stealing on citation graphs: models without privacy, edge-level methods, and what features alone give.

    OMP_NUM_THREADS=1 python benchmarks/links_attack.py [--graphs planetoid/cora planetoid/citeseer] [--methods gap ...]
        [--epsilons 1 2 4 8] [--seeds 5] [--first-seed 500] [--log FILE] [--only-print] [--page FILE] [--data-dir DIR]

Unit: one undirected edge, delta 1e-6 (EdgeRand: 0). Seed i draws split i (75/10/15), initialization, the candidates (at most
2,000 links and as many other pairs) and their split; noise is fresh. Numbers are means with 95 % t-intervals over seeds, in
percent. *AUC* is that of attack 0 of He et al. (2021), correlation of two posteriors; *learned* is attack 3 with half of the
pairs known, *with features* attack 6; *best distance* looks at the truth, so it is an upper bound; *influence* is LinkTeller.
Below each graph stand the same attacks on features alone, and what the true classes give. Settings of all methods are their
defaults. Nothing was chosen by these numbers.

Fits that ``--log`` holds are not repeated, so a run that was stopped goes on. ``--page`` puts the tables at the end of
a page.
"""

from __future__ import annotations

import argparse
import json
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from sfumato._threads import set_threads
from sfumato.attacks._influence import Influence
from sfumato.attacks._links import FEATURES, Links
from sfumato.attacks._pairs import DISTANCES
from sfumato.catalog import method_named
from sfumato.graph import load_dataset
from sfumato.privacy.budget import Budget
from sfumato.privacy.units import EdgeLevel, NoPrivacy
from sfumato.scoring._scores import Summary, score

if TYPE_CHECKING:
    from collections.abc import Iterator

GRAPHS = ("planetoid/cora", "planetoid/citeseer")
PLAIN = ("sage", "gap")
PRIVATE = ("gap", "progap", "label-messages", "edgerand")
CONTROL = "mlp"  # reads no arc: epsilon 0
UNIT, DELTA = EdgeLevel(directed=False), 1e-6
ATTACKS = {
    "posteriors": Links(most=2000),
    "learned": Links(known=0.5, most=2000),
    "with features": Links(known=0.5, features=True, most=2000),
}
MARK = "<!-- tables -->"
Cell = tuple[str, str, float | None, int]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--graphs", nargs="+", default=GRAPHS)
    parser.add_argument("--methods", nargs="+", default=PRIVATE)
    parser.add_argument("--epsilons", nargs="+", type=float, default=(1.0, 2.0, 4.0, 8.0))
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--first-seed", type=int, default=500)
    parser.add_argument("--log", type=Path, default=Path("runs/links_attack.jsonl"))
    parser.add_argument("--only-print", action="store_true")
    parser.add_argument("--page", type=Path)
    parser.add_argument("--data-dir", default=os.environ.get("SFUMATO_DATA", "../shared/data"))
    options = parser.parse_args()
    set_threads(None)
    done = read(options.log)
    if not options.only_print:
        options.log.parent.mkdir(parents=True, exist_ok=True)
        with options.log.open("a", encoding="utf-8") as file:
            for cell in cells(options):
                if cell not in done:
                    done[cell] = attacked(cell, options.data_dir)
                    file.write(json.dumps([*cell, done[cell]]) + "\n")
                    file.flush()
    tables = "\n".join(line for name in options.graphs for line in table(name, done))
    print(tables)
    if options.page:
        put_tables(options.page, tables)


def cells(options: argparse.Namespace) -> Iterator[Cell]:
    """All fits, a seed after the other, so that a stopped run has every method."""
    for seed in range(options.first_seed, options.first_seed + options.seeds):
        for name in options.graphs:
            yield from ((name, method, None, seed) for method in PLAIN)
            yield name, CONTROL, 0.0, seed
            yield from ((name, method, epsilon, seed) for method in options.methods for epsilon in options.epsilons)


def read(log: Path) -> dict[Cell, dict[str, Any]]:
    rows = (json.loads(line) for line in log.read_text().splitlines()) if log.exists() else ()
    return {(row[0], row[1], row[2], row[3]): row[4] for row in rows}


def put_tables(page: Path, tables: str) -> None:
    """Replace all that follows the mark in a page."""
    page.write_text(page.read_text().partition(MARK)[0] + f"{MARK}\n{tables}\n")


def attacked(cell: Cell, data_dir: str) -> dict[str, Any]:
    """Fit one method once, and run all attacks on it."""
    name, method, epsilon, seed = cell
    graph = load_dataset(name, data_dir).with_split(seed=seed)
    unit = NoPrivacy() if epsilon is None else UNIT
    budget = None if epsilon is None else Budget(max(epsilon, 1.0), 0.0 if method == "edgerand" else DELTA)
    fitted = method_named(method).calibrate(budget, unit, graph.public_facts(unit)).fit(graph, seed=seed)
    found: dict[str, Any] = {"accuracy": score(fitted, graph)["accuracy"], "epsilon": fitted.plan.epsilon}
    for word, attack in ATTACKS.items():
        one = attack.run(fitted, graph, seed=seed)
        found[word], found[f"{word} {FEATURES}"] = one.scores.auc().value, one.baselines[FEATURES].auc().value
        found |= one.measures
    found["influence"] = Influence(most=2000).run(fitted, graph, seed=seed).scores.auc().value
    return found


def table(name: str, done: dict[Cell, dict[str, Any]]) -> list[str]:
    """The Markdown table of one graph."""
    lines = [
        f"\n## {name}\n",
        "| method | epsilon | seeds | accuracy | AUC | learned | with features | best distance | influence |",
    ]
    lines.append("|---" * 9 + "|")
    groups: dict[tuple[str, float | None], list[dict[str, Any]]] = {}
    for (graph, method, epsilon, _), found in sorted(done.items(), key=lambda one: one[0][3]):
        if graph == name:
            groups.setdefault((method, epsilon), []).append(found)
    for (method, epsilon), rows in groups.items():
        best = [max(row[f"auc_{one}"] for one in DISTANCES) for row in rows]
        columns = [[row[key] for row in rows] for key in ("accuracy", *ATTACKS)]
        columns += [best, [row["influence"] for row in rows]]
        word = "none" if epsilon is None else f"{epsilon:g}"
        lines.append("| " + " | ".join([method, word, str(len(rows)), *map(told, columns)]) + " |")
    every = [row for rows in groups.values() for row in rows]
    seeds = {
        row["auc_true_classes"]: row for row in every
    }.values()  # one a seed: candidates are drawn by the seed alone
    alone = [told([row[f"{key} {FEATURES}"] for row in seeds]) for key in ATTACKS]
    best = told([max(row[f"features_auc_{one}"] for one in DISTANCES) for row in seeds])
    lines.append(f"| features alone | | | | {' | '.join(alone)} | {best} | |")
    lines.append(f"| true classes alone | | | | {told([row['auc_true_classes'] for row in seeds])} | | | | |")
    return lines


def told(values: list[float]) -> str:
    summary = Summary.of(values)
    if summary.low is None or summary.high is None:
        return f"{100 * summary.mean:.1f}"
    return f"{100 * summary.mean:.1f} ± {100 * float(np.ptp([summary.low, summary.high])) / 2:.1f}"


if __name__ == "__main__":
    main()
