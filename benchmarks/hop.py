"""One hop in C and in Numba against SciPy and torch CSR x dense float32, and noise against torch.randn.

Medians of alternating rounds in one run, and medians of the ratios round by round, on two threads.

python benchmarks/hop.py [--nodes 1000000] [--arcs 20000000] [--rounds 5]
"""

from __future__ import annotations

import argparse
import time
import warnings
from collections.abc import Callable

import numba
import numpy as np
import scipy.sparse as sp
import torch

from sfumato.bounded import _native, _numba, kernels
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
    print(f"{values:.0e} noise values")
    compare(
        {
            "Sfumato": lambda: rounded_gaussian(bytes(32), 216815.0, 0, values),
            "torch.randn": lambda: torch.randn(values),
        },
        options.rounds,
    )


def compare_hop(random: np.random.Generator, options: argparse.Namespace, law: str) -> None:
    offsets, sources = arcs(random, options.nodes, options.arcs, law)
    rows = normalize_rows(random.normal(size=(options.nodes, WIDTH)))
    matrix = sp.csr_matrix((np.ones(options.arcs, np.float32), sources, offsets), shape=(options.nodes,) * 2)
    dense, tensor = torch.from_numpy(rows), sparse_tensor(matrix)
    out = np.empty((options.nodes, WIDTH), np.int64)

    def summed_by(loops: kernels._Loops) -> Callable[[], object]:
        packed = loops.pack(to_steps(rows))
        return lambda: loops.sum_rows(offsets, sources, packed, 0, out)

    print(f"hop, {law}, {options.nodes:,} nodes, {options.arcs:,} arcs; in use: {kernels.language()}")
    compiled = _native.load()
    ours = {loops.NAME: summed_by(loops) for loops in ([compiled] if compiled else []) + [_numba]}
    compare(
        ours | {"SciPy float32": lambda: matrix @ rows, "torch CSR float32": lambda: tensor @ dense}, options.rounds
    )
    check_bits(Arcs(offsets, sources), rows, list(ours.values()), out)


def sparse_tensor(matrix: sp.csr_matrix) -> torch.Tensor:
    warnings.filterwarnings("ignore", message="Sparse ")
    parts = (torch.from_numpy(part) for part in (matrix.indptr, matrix.indices, matrix.data))
    return torch.sparse_csr_tensor(*parts, size=matrix.shape)


def arcs(random: np.random.Generator, nodes: int, count: int, law: str) -> tuple[np.ndarray, np.ndarray]:
    destination = np.sort(random.integers(0, nodes, count))
    offsets = np.zeros(nodes + 1, np.int64)
    np.cumsum(np.bincount(destination, minlength=nodes), out=offsets[1:])
    uniform = random.random(count)
    return offsets, (nodes * (uniform if law == "uniform" else uniform**2)).astype(np.int32)


def compare(calls: dict[str, Callable[[], object]], rounds: int) -> None:
    """Alternate all calls after one warm-up each; print medians, and of each but the last the ratios to those after it."""
    for call in calls.values():
        call()
    times = np.array([[seconds(call) for call in calls.values()] for _ in range(rounds)])
    for i, name in enumerate(calls):
        ratios = [f"{np.median(times[:, k] / times[:, i]):.2f} x {other}" for k, other in enumerate(calls) if k > i]
        print("; ".join([f"  {name}: {np.median(times[:, i]):.3f} s", *ratios]), flush=True)


def seconds(call: Callable[[], object]) -> float:
    start = time.perf_counter()
    call()
    return time.perf_counter() - start


def check_bits(graph: Arcs, rows: np.ndarray, sums: list[Callable[[], object]], out: np.ndarray) -> None:
    """The sums must not depend on the loops, nor the noisy release on threads or blocking."""
    results = [(call(), out.copy())[1] for call in sums]
    releases = []
    for threads, block in ((2, 1 << 14), (1, 1 << 14), (2, 100_003)):
        numba.set_num_threads(threads)
        releases.append(noisy_neighborhood_sum(graph, rows, 10.0, bytes(32), block=block))
    numba.set_num_threads(2)
    same = all(np.array_equal(group[0], other) for group in (results, releases) for other in group[1:])
    print(f"  sums bit-identical in {len(sums)} loops, noisy release at 1 and 2 threads and other blocks: {same}")
    assert same


if __name__ == "__main__":
    main()
