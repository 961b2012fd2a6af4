"""One noisy hop over 46 million arcs on a Ray cluster of this machine and in one process: the bits, and both times.

python benchmarks/ray_hop.py [--nodes 116713] [--arcs 46000000] [--workers 2] [--rounds 3]
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable

import numba
import numpy as np

from sfumato.bounded._engine import LOCAL, Engine, using
from sfumato.bounded.aggregation import Arcs, noisy_neighborhood_sum, normalize_rows, sum_in_blocks, to_steps
from sfumato.bounded.kernels import INT16_ONE
from sfumato.distributed._ray import RayEngine
from sfumato.noise.gaussian import rounded_gaussian
from sfumato.noise.keys import operand_mac

WIDTH = 16


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--nodes", type=int, default=116_713)
    parser.add_argument("--arcs", type=int, default=46_000_000)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    numba.set_num_threads(min(options.workers, numba.config.NUMBA_NUM_THREADS))
    random = np.random.default_rng(0)
    graph = arcs(random, options.nodes, options.arcs)
    rows = normalize_rows(random.normal(size=(options.nodes, WIDTH)))
    expected, _ = hop(LOCAL, graph, rows)
    start = time.perf_counter()
    with RayEngine(workers=options.workers) as engine:
        print(f"{options.workers} workers started in {time.perf_counter() - start:.1f} s")
        released, first = hop(engine, graph, rows)
        assert np.array_equal(released, expected)
        pairs = []
        for _ in range(options.rounds):
            released, there = hop(engine, graph, rows)
            assert np.array_equal(released, expected)
            pairs.append((hop(LOCAL, graph, rows)[1], there))
    here, there = np.median(np.array(pairs), axis=0)
    print(
        f"{options.nodes:,} nodes, {options.arcs:,} arcs, {WIDTH} columns; the same bits in {1 + options.rounds} releases"
    )
    print(f"local, {numba.get_num_threads()} threads: {here:.2f} s; Ray: {there:.2f} s, the first time {first:.2f} s")
    print(
        f"{options.arcs / there:,.0f} arcs a second on Ray, {graph.sources.nbytes / options.arcs:.0f} bytes an arc sent"
    )
    forecast(graph, rows)


def forecast(graph: Arcs, rows: np.ndarray) -> None:
    """What one process does alone whatever the number of workers, and what is shared, each by itself."""
    steps, values = to_steps(rows), rows.size
    mac = seconds(lambda: operand_mac(bytes(32), steps, graph.offsets, graph.sources)) / len(graph.sources)
    noise = seconds(lambda: rounded_gaussian(bytes(32), 10.0 * INT16_ONE, 0, values)) / values
    grid = seconds(lambda: to_steps(rows)) / values
    numba.set_num_threads(1)
    sums = seconds(lambda: sum_in_blocks(graph, steps)) / len(graph.sources)
    print(f"alone: MAC {1e9 * mac:.2f} ns an arc, steps {1e9 * grid:.2f} and noise {1e9 * noise:.2f} ns a value")
    print(f"shared: sums {1e9 * sums:.2f} ns an arc on one processor")


def seconds(call: Callable[[], object]) -> float:
    start = time.perf_counter()
    call()
    return time.perf_counter() - start


def arcs(random: np.random.Generator, nodes: int, count: int) -> Arcs:
    """Arcs whose sources are skewed, and whose destinations are uniform."""
    offsets = np.zeros(nodes + 1, np.int64)
    np.cumsum(np.bincount(random.integers(0, nodes, count), minlength=nodes), out=offsets[1:])
    return Arcs(offsets, (nodes * random.random(count) ** 2).astype(np.int32))


def hop(engine: Engine, graph: Arcs, rows: np.ndarray) -> tuple[np.ndarray, float]:
    start = time.perf_counter()
    with using(engine):
        released = noisy_neighborhood_sum(graph, rows, 10.0, bytes(32))
    return released, time.perf_counter() - start


if __name__ == "__main__":
    main()
