"""One noisy hop over 46 million arcs on a Ray cluster of this machine and in one process: the bits, and both times.

python benchmarks/ray_hop.py [--train STORE [--batch 0]] [--nodes 116713] [--arcs 46000000] [--workers 2] [--rounds 3]

With ``--train`` GAP learns from a stored graph with both engines, with one fixed key: every released byte, and both times. The
store is one that `sfumato data import` wrote, for example of `benchmarks/rmat.py --like-46m`. A key that anyone knows has no
guarantee: the released files are compared and removed. With ``--batch`` the unit is a node, and samples have this expected size.
"""

from __future__ import annotations

import tempfile
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import numba
import numpy as np
import study
from speed import arcs

import sfumato as sf
from sfumato.bounded._engine import LOCAL, Engine, using
from sfumato.bounded.aggregation import Arcs, noisy_neighborhood_sum, normalize_rows, sum_in_blocks, to_steps
from sfumato.catalog import method_named
from sfumato.distributed._ray import RayEngine
from sfumato.graph._graph import Graph
from sfumato.loops.kernels import INT16_ONE
from sfumato.method import _opening as opening
from sfumato.noise.gaussian import rounded_gaussian
from sfumato.noise.keys import operand_mac

WIDTH, METHOD, KEY = 16, "gap", bytes(range(32))


def main() -> None:
    """Print whether the bits are the same, both times, and what each part costs."""
    given = study.options(__doc__, train=None, batch=0, nodes=116_713, arcs=46_000_000, workers=2, rounds=3)
    if given.train:
        train(given)
        return
    numba.set_num_threads(min(given.workers, numba.config.NUMBA_NUM_THREADS))
    random = np.random.default_rng(0)
    graph = Arcs(*arcs(random, given.nodes, given.arcs, "skewed"))
    rows = normalize_rows(random.normal(size=(given.nodes, WIDTH)))
    expected, _ = hop(LOCAL, graph, rows)
    with RayEngine(workers=given.workers) as engine:
        released, first = hop(engine, graph, rows)
        assert np.array_equal(released, expected)
        pairs = []
        for _ in range(given.rounds):
            released, there = hop(engine, graph, rows)
            assert np.array_equal(released, expected)
            pairs.append((hop(LOCAL, graph, rows)[1], there))
    here, there = np.median(np.array(pairs), axis=0)
    print(f"{given.nodes:,} nodes, {given.arcs:,} arcs, {WIDTH} columns; the same bits in {1 + given.rounds} releases")
    print(f"local, {numba.get_num_threads()} threads: {here:.2f} s; Ray: {there:.2f} s, the first time {first:.2f} s; "
          f"{given.arcs / there:,.0f} arcs a second, {graph.sources.nbytes / given.arcs:.0f} bytes an arc sent")  # fmt: skip
    forecast(graph, rows)


def train(given: Any) -> None:
    """Print whether the releases are the same, and the seconds of both engines."""
    opening.new_key = lambda: KEY
    graph, unit, method = Graph.load(given.train).with_split(seed=0), sf.EdgeLevel(directed=False), method_named(METHOD)
    if given.batch:
        unit, method = sf.NodeLevel(max_out_degree=20), replace(method, batch_size=given.batch)
    plan = method.calibrate(sf.Budget(1.0, 1e-8), unit, graph.public_facts(unit))
    with tempfile.TemporaryDirectory() as folder, RayEngine(workers=given.workers) as there:
        kept = []
        for name, engine in (("local", LOCAL), (f"Ray, {given.workers} workers", there)):
            out = Path(folder, str(len(kept)))
            with using(engine):
                took = study.seconds(lambda out=out: plan.fit(graph, ledger=out / "release" / "ledger.jsonl").save(out))
            print(f"{name}: {took:.1f} s", flush=True)
            kept.append({path.name: path.read_bytes() for path in (out / "release").iterdir()})
    assert kept[0] == kept[1]
    size = sum(map(len, kept[0].values())) / 2**20
    print(f"{len(graph.indices):,} arcs: the same bytes in {len(kept[0])} files, {size:.1f} MiB")


def forecast(graph: Arcs, rows: np.ndarray) -> None:
    """What one process does alone whatever the number of workers, and what is shared, each by itself."""
    steps, values = to_steps(rows), rows.size
    mac = study.seconds(lambda: operand_mac(bytes(32), steps, graph.offsets, graph.sources)) / len(graph.sources)
    noise = study.seconds(lambda: rounded_gaussian(bytes(32), 10.0 * INT16_ONE, 0, values)) / values
    grid = study.seconds(lambda: to_steps(rows)) / values
    numba.set_num_threads(1)
    sums = study.seconds(lambda: sum_in_blocks(graph, steps)) / len(graph.sources)
    print(f"alone: MAC {1e9 * mac:.2f} ns an arc, steps {1e9 * grid:.2f} and noise {1e9 * noise:.2f} ns a value")
    print(f"shared: sums {1e9 * sums:.2f} ns an arc on one processor")


def hop(engine: Engine, graph: Arcs, rows: np.ndarray) -> tuple[np.ndarray, float]:
    start = time.perf_counter()
    with using(engine):
        released = noisy_neighborhood_sum(graph, rows, 10.0, bytes(32))
    return released, time.perf_counter() - start


if __name__ == "__main__":
    main()
