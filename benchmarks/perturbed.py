"""Perturbing a topology: seconds and memory on all pairs of Berkeley13; prints a Markdown table.

    python benchmarks/perturbed.py [--dataset facebook100/Berkeley13] [--epsilon 4]

One draw of each mechanism over all pairs, in one process, beside a draw of as many uniform floats by NumPy (one for each pair, in
blocks): what a method pays that visits every pair. Peak memory is that of the process so far.
"""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import study

import sfumato as sf
from sfumato.bounded._topology import edge_numbers, largest_pairs, pairs_of, randomized_pairs, sampling_share
from sfumato.evaluation._memory import peak_mb
from sfumato.noise.coins import SecretWords

UNIT = sf.EdgeLevel(directed=False)


def visit_all(total: int) -> int:
    """Draw one float for each pair, in blocks."""
    generator, found = np.random.default_rng(0), 0
    for start in range(0, total, 1 << 24):
        found += np.count_nonzero(generator.random(min(1 << 24, total - start)) < 0.01)
    return int(found)


def main() -> None:
    """Print the table."""
    given = study.options(__doc__, dataset="facebook100/Berkeley13", epsilon=4.0)
    graph, epsilon = study.graph_of(given.dataset, given.data_dir), given.epsilon
    pairs = pairs_of(UNIT, graph.num_nodes)
    present = edge_numbers(pairs, graph)
    share, wanted = sampling_share(pairs, epsilon, len(present)), len(present)
    work = {
        "NumPy, a float for each pair": lambda: visit_all(pairs.total),
        "randomized response": lambda: len(randomized_pairs(pairs, present, epsilon, Fraction(1), SecretWords())),
        "asymmetric": lambda: len(randomized_pairs(pairs, present, epsilon, share, SecretWords())),
        "largest cells": lambda: len(largest_pairs(pairs, present, epsilon, wanted, SecretWords())),
    }

    def row(name: str, draw: study.Call) -> tuple[str, ...]:
        found: list[int] = []
        times = [study.seconds(lambda: found.append(draw())) for _ in range(2)]
        return name, f"{found[-1]:,}", ", ".join(f"{one:.2f}" for one in times), f"{peak_mb():.0f}"

    title = f"{pairs.total:,} pairs, {len(present):,} with an edge, epsilon {epsilon:g}"
    study.table(
        ("draw", "pairs that come out", "seconds (two runs)", "peak MB"), (row(*one) for one in work.items()), title
    )


if __name__ == "__main__":
    main()
