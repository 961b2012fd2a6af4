"""Perturbing a topology: seconds and memory on all pairs of Berkeley13, and accuracy without any delta; prints Markdown tables.

    python benchmarks/perturbed.py [--dataset facebook100/Berkeley13] [--epsilon 4] [--seeds 10]

The first table times one draw of each mechanism over all pairs, in one process, beside a draw of as many uniform floats by NumPy
(one for each pair, in blocks): what a method pays that visits every pair. Peak memory is that of the process so far. The second
table is the accuracy of test nodes at one undirected edge and delta 0, in percent with a 95 % t-interval over seeds (split
75/10/15); no constant was chosen here.
"""

from __future__ import annotations

import argparse
import math
import os
import time
import warnings
from fractions import Fraction

import numpy as np
from scipy.stats import t as student

import sfumato as sf
from sfumato.bounded._topology import (
    edge_numbers,
    largest_pairs,
    pairs_of,
    randomized_pairs,
    sampling_share,
)
from sfumato.central._edgerand import EdgeRand
from sfumato.central._lapgraph import LapGraph
from sfumato.central._lpgnet import LPGNet
from sfumato.datasets._loading import load_dataset
from sfumato.errors import SfumatoWarning
from sfumato.evaluation._memory import peak_mb
from sfumato.noise.coins import SecretWords

UNIT = sf.EdgeLevel(directed=False)
METHODS = {
    "EdgeRand, GraphSAGE": EdgeRand(),
    "EdgeRand, known labels counted": EdgeRand(backbone="mlp"),
    "EdgeRand, all that comes out, known labels counted": EdgeRand(backbone="mlp", asymmetric=False),
    "LapGraph, GraphSAGE": LapGraph(),
    "LPGNet": LPGNet(),
    "Label messages, one hop": sf.LabelMessages(num_hops=1),
    "Label messages": sf.LabelMessages(),
}


def visit_all(total: int) -> int:
    """Draw one float for each pair, in blocks."""
    generator, found = np.random.default_rng(0), 0
    for start in range(0, total, 1 << 24):
        found += np.count_nonzero(generator.random(min(1 << 24, total - start)) < 0.01)
    return int(found)


def draws(graph: sf.graph.Graph, epsilon: float) -> None:
    """The first table."""
    pairs = pairs_of(UNIT, graph.num_nodes)
    present = edge_numbers(pairs, graph)
    share, wanted = sampling_share(pairs, epsilon, len(present)), len(present)
    work = {
        "NumPy, a float for each pair": lambda: visit_all(pairs.total),
        "randomized response": lambda: len(randomized_pairs(pairs, present, epsilon, Fraction(1), SecretWords())),
        "asymmetric": lambda: len(randomized_pairs(pairs, present, epsilon, share, SecretWords())),
        "largest cells": lambda: len(largest_pairs(pairs, present, epsilon, wanted, SecretWords())),
    }
    print(f"{pairs.total:,} pairs, {len(present):,} with an edge, epsilon {epsilon:g}\n")
    print("| draw | pairs that come out | seconds (two runs) | peak MB |\n|---|---|---|---|")
    for name, draw in work.items():
        seconds = []
        for _ in range(2):
            start = time.perf_counter()
            found = draw()
            seconds.append(time.perf_counter() - start)
        print(f"| {name} | {found:,} | {seconds[0]:.2f}, {seconds[1]:.2f} | {peak_mb():.0f} |", flush=True)


def accuracies(full: sf.graph.Graph, epsilon: float, seeds: int) -> None:
    """The second table."""
    print("\n| method | accuracy | peak MB |\n|---|---|---|")
    for name, method in METHODS.items():
        right = []
        for seed in range(seeds):
            graph = full.with_split(seed=seed)
            fitted = method.calibrate(sf.Budget(epsilon, 0.0), UNIT, graph.public_facts(UNIT)).fit(graph, seed=seed)
            right.append(100 * float((fitted.predict(graph) == graph.y)[graph.test_mask].mean()))
        half = student.ppf(0.975, seeds - 1) * np.std(right, ddof=1) / math.sqrt(seeds) if seeds > 1 else math.nan
        print(f"| {name} | {np.mean(right):.1f} ± {half:.1f} | {peak_mb():.0f} |", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--data-dir", default=os.environ.get("SFUMATO_DATA", "../shared/data"))
    parser.add_argument("--dataset", default="facebook100/Berkeley13")
    parser.add_argument("--epsilon", type=float, default=4.0)
    parser.add_argument("--seeds", type=int, default=10)
    chosen = parser.parse_args()
    warnings.simplefilter("ignore", SfumatoWarning)
    graph = load_dataset(chosen.dataset, chosen.data_dir)
    draws(graph, chosen.epsilon)
    accuracies(graph, chosen.epsilon, chosen.seeds)


if __name__ == "__main__":
    main()
