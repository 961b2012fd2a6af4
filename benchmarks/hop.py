"""One hop against SciPy CSR x dense float32, and noise against torch.randn: ratios in one run, alternating.

python benchmarks/hop.py [--nodes 1000000] [--arcs 20000000] [--rounds 5]
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable

import numba
import numpy as np
import scipy.sparse as sp
import torch

from sfumato.bounded import kernels
from sfumato.bounded.aggregation import Arcs, noisy_neighborhood_sum, normalize_rows, to_steps
from sfumato.noise.gaussian import rounded_gaussian

WIDTH = 16


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--nodes", type=int, default=1_000_000)
    parser.add_argument("--arcs", type=int, default=20_000_000)
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    numba.set_num_threads(2)
    torch.set_num_threads(2)
    random = np.random.default_rng(0)
    for law in ("uniform", "skewed"):
        compare_hop(random, options, law)
    values = options.nodes * WIDTH
    compare(
        f"{values:.0e} noise values",
        lambda: rounded_gaussian(bytes(32), 216815.0, 0, values),
        "torch.randn",
        lambda: torch.randn(values),
        options.rounds,
    )


def compare_hop(random: np.random.Generator, options: argparse.Namespace, law: str) -> None:
    offsets, sources = arcs(random, options.nodes, options.arcs, law)
    rows = normalize_rows(random.normal(size=(options.nodes, WIDTH)))
    matrix = sp.csr_matrix((np.ones(options.arcs, np.float32), sources, offsets), shape=(options.nodes,) * 2)
    packed, out = kernels.pack(to_steps(rows)), np.empty((options.nodes, WIDTH), np.int64)
    compare(
        f"hop, {law}",
        lambda: kernels.sum_rows(offsets, sources, packed, 0, out),
        "SciPy float32",
        lambda: matrix @ rows,
        options.rounds,
    )
    check_bits(Arcs(offsets, sources), rows)


def arcs(random: np.random.Generator, nodes: int, count: int, law: str) -> tuple[np.ndarray, np.ndarray]:
    destination = np.sort(random.integers(0, nodes, count))
    offsets = np.zeros(nodes + 1, np.int64)
    np.cumsum(np.bincount(destination, minlength=nodes), out=offsets[1:])
    uniform = random.random(count)
    return offsets, (nodes * (uniform if law == "uniform" else uniform**2)).astype(np.int32)


def compare(name: str, ours: Callable[[], object], peer_name: str, peer: Callable[[], object], rounds: int) -> None:
    """Alternate the two after one warm-up each; print medians and the median of the paired ratios."""
    ours(), peer()
    pairs = np.array([(seconds(ours), seconds(peer)) for _ in range(rounds)])
    mine, theirs = np.median(pairs, axis=0)
    ratio = np.median(pairs[:, 1] / pairs[:, 0])
    print(f"{name}: {mine:.3f} s; {peer_name}: {theirs:.3f} s; {ratio:.2f} x as fast", flush=True)


def seconds(call: Callable[[], object]) -> float:
    start = time.perf_counter()
    call()
    return time.perf_counter() - start


def check_bits(graph: Arcs, rows: np.ndarray) -> None:
    """The noisy release must not depend on threads or blocking."""
    releases = []
    for threads, block in ((2, 1 << 14), (1, 1 << 14), (2, 100_003)):
        numba.set_num_threads(threads)
        releases.append(noisy_neighborhood_sum(graph, rows, 10.0, bytes(32), block=block))
    numba.set_num_threads(2)
    same = all(np.array_equal(releases[0], other) for other in releases[1:])
    print(f"  noisy release bit-identical at 1 and 2 threads and other blocks: {same}")
    assert same


if __name__ == "__main__":
    main()
