"""Does a step that reads a part of the training nodes cost accuracy? Prints a Markdown table.

    OMP_NUM_THREADS=1 python benchmarks/steps.py [--seeds 5] [--methods gap progap] [--data NAME ...]

Where labels are public, one step of full-batch training reads at most ``MOST_IN_STEP`` nodes (central/_learning.py). No graph at
hand is larger than that, so this limit is lowered here, for graphs of 6,000 to 22,000 nodes, until a step reads a small part of
them. Epsilon is 1 for an undirected edge, delta 1e-6. Seed i draws split i (75/10/15) and the initialization; noise is fresh.
Each cell is the mean test accuracy in percent and the half-width of its 95 % interval. SFUMATO_DATA names the folder of the data.
"""

from __future__ import annotations

import argparse
import os
import warnings

import numpy as np
from scipy.stats import t

from sfumato.catalog import method_named
from sfumato.central import _learning
from sfumato.graph import load_dataset
from sfumato.privacy.budget import Budget
from sfumato.privacy.units import EdgeLevel
from sfumato.scoring._scores import score

CHOSEN = ("facebook100/Berkeley13", "facebook100/Rutgers89")
CONFIRMED = ("facebook100/Cornell5", "facebook100/UCSC68", "musae/facebook", "npz/coauthor_cs", "npz/amazon_cs")
LIMITS = (1 << 15, 1 << 11)


def accuracies(name: str, method: str, limit: int, seeds: int) -> str:
    """Mean test accuracy with one limit, and the half-width of its interval."""
    _learning.MOST_IN_STEP = limit
    graph, unit, found = load_dataset(name, os.environ["SFUMATO_DATA"]), EdgeLevel(directed=False), []
    for seed in range(seeds):
        split = graph.with_split(seed=seed)
        plan = method_named(method).calibrate(Budget(1.0, 1e-6), unit, split.public_facts(unit))
        found.append(100 * score(plan.fit(split, seed=seed), split)["accuracy"])
    half = t.ppf(0.975, seeds - 1) * np.std(found, ddof=1) / np.sqrt(seeds)
    return f"{np.mean(found):.1f} ± {half:.1f}"


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--methods", nargs="+", default=["gap", "progap"])
    parser.add_argument("--data", nargs="+", default=[*CHOSEN, *CONFIRMED])
    parser.add_argument("--seeds", type=int, default=5)
    asked = parser.parse_args()
    warnings.simplefilter("ignore")
    print("| data set | method |", " | ".join(f"at most {limit:,}" for limit in LIMITS), "|")
    print("| --- | --- |" + " --- |" * len(LIMITS))
    for name in asked.data:
        for method in asked.methods:
            cells = [accuracies(name, method, limit, asked.seeds) for limit in LIMITS]
            print(f"| {name} | {method} |", " | ".join(cells), "|", flush=True)


if __name__ == "__main__":
    main()
