"""Speed of single parts beside named peers, in alternating rounds of one run.

    python benchmarks/speed.py --parts hop noise roofline steps [--rounds 5] [--nodes 1000000] [--arcs 20000000]

* *hop*: one hop in C and in Numba beside SciPy and torch CSR x dense float32, two threads; the same bits of all sums.
* *noise*: rounded Gaussian and Laplace noise beside torch.randn and NumPy, in blocks of a hop of width 16.
* *roofline*: one hop beside reads of the same rows by the same indices without arithmetic (gather.c), for 8 to 64 columns and
  each number of threads; `--orders given degree rcm` also numbers the nodes in other orders. Two minutes an order.
* *steps*: test accuracy where a step of GAP or ProGAP reads at most so many training nodes (central/_learning.py).
"""

import ctypes
import itertools
import os
import runpy
import tempfile
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numba
import numpy as np
import scipy.sparse as sp
import study
import torch
from scipy.sparse.csgraph import reverse_cuthill_mckee

from sfumato.bounded.aggregation import Arcs, noisy_neighborhood_sum, normalize_rows, to_steps
from sfumato.central import _learning
from sfumato.graph._synthetic import rmat
from sfumato.loops import _native, _numba, kernels
from sfumato.noise._laplace import rounded_laplace
from sfumato.noise.gaussian import rounded_gaussian
from sfumato.privacy.budget import Budget
from sfumato.privacy.units import EdgeLevel

ROOT, WIDTH, LAWS = Path(__file__).parents[1], 16, ("uniform", "skewed")
STEP_DATA = ("facebook100/Berkeley13", "facebook100/Rutgers89", "facebook100/Cornell5", "facebook100/UCSC68", "musae/facebook",
             "npz/coauthor_cs", "npz/amazon_cs")  # fmt: skip


def arcs(random: np.random.Generator, nodes: int, count: int, law: str) -> tuple[np.ndarray, np.ndarray]:
    """Offsets and sources of random arcs: destinations are uniform, sources uniform or skewed."""
    offsets = np.zeros(nodes + 1, np.int64)
    np.cumsum(np.bincount(random.integers(0, nodes, count), minlength=nodes), out=offsets[1:])
    uniform = random.random(count)
    return offsets, (nodes * (uniform if law == "uniform" else uniform**2)).astype(np.int32)


def hop(given: Any) -> None:
    """Each compiled loop beside SciPy and torch, and whether all bits are the same."""
    random = np.random.default_rng(0)
    for law in LAWS:
        offsets, sources = arcs(random, given.nodes, given.arcs, law)
        rows = normalize_rows(random.normal(size=(given.nodes, WIDTH)))
        matrix = sp.csr_matrix((np.ones(given.arcs, np.float32), sources, offsets), shape=(given.nodes,) * 2)
        parts = (torch.from_numpy(part) for part in (matrix.indptr, matrix.indices, matrix.data))
        dense, tensor = torch.from_numpy(rows), torch.sparse_csr_tensor(*parts, size=matrix.shape)
        out = np.empty((given.nodes, WIDTH), np.int64)

        def summed(loops: Any, rows=rows, offsets=offsets, sources=sources, out=out) -> study.Call:
            packed = loops.pack(to_steps(rows))
            return lambda: loops.sum_rows(offsets, sources, packed, 0, out)

        compiled = _native.load()
        ours = {loops.NAME: summed(loops) for loops in ([compiled] if compiled else []) + [_numba]}
        print(f"hop, {law}, {given.nodes:,} nodes, {given.arcs:,} arcs; in use: {kernels.loops().NAME}")
        peers = {"SciPy float32": lambda m=matrix, r=rows: m @ r, "torch CSR float32": lambda t=tensor, d=dense: t @ d}
        study.compared(ours | peers, given.rounds)
        sums, releases = [(call(), out.copy())[1] for call in ours.values()], []
        for threads, block in ((2, 1 << 14), (1, 1 << 14), (2, 100_003)):
            numba.set_num_threads(threads)
            releases.append(noisy_neighborhood_sum(Arcs(offsets, sources), rows, 10.0, bytes(32), block=block))
        assert all(np.array_equal(group[0], other) for group in (sums, releases) for other in group[1:])
        print(f"  the same bits in {len(sums)} loops, and of the noisy release at 1 and 2 threads and other blocks")


def noise(given: Any, values: int = 10**8, block: int = 1 << 20) -> None:
    """Both samplers beside samplers without keys."""
    generator, scale = np.random.default_rng(0), 216815.0

    def drawn(draw: Callable[[int, int], object]) -> study.Call:
        return lambda: [draw(low, min(low + block, values)) for low in range(0, values, block)] and None

    study.compared(
        {
            "rounded Gaussian": drawn(lambda low, high: rounded_gaussian(bytes(32), scale, low, high)),
            "rounded Laplace": drawn(lambda low, high: rounded_laplace(bytes(32), scale, low, high)),
            "torch.randn float32": drawn(lambda low, high: torch.randn(high - low)),
            "NumPy standard_normal float64": drawn(lambda low, high: generator.standard_normal(high - low)),
        },
        given.rounds,
    )


def roofline(given: Any) -> None:
    """A hop beside reads of the same rows, which is the least that it could take: the best of several prefetch distances."""
    with tempfile.TemporaryDirectory() as folder:
        library = Path(folder) / "gather.native"
        assert runpy.run_path(str(ROOT / "hatch_build.py"))["compile_library"](
            [ROOT / "benchmarks" / "gather.c"], library
        )
        fold = ctypes.CDLL(str(library)).gather
    fold.argtypes, fold.restype = [ctypes.c_void_p, ctypes.c_int64] * 2 + [ctypes.c_int64], ctypes.c_uint64
    compiled, random = _native.load(), np.random.default_rng(0)
    assert compiled is not None, "There is no compiled loop here."
    graph = rmat(given.nodes, given.arcs, directed=True)
    graphs = {"uniform": arcs(random, given.nodes, given.arcs, "uniform"), "R-MAT": (graph.indptr, graph.indices)}
    sizes = [*itertools.product((8, 16, 32, 64), range(1, (os.cpu_count() or 1) + 1))]

    def row(
        law: str, order: str, offsets: np.ndarray, sources: np.ndarray, width: int, threads: int
    ) -> tuple[str, ...]:
        rows, out = _native.aligned(given.nodes, width), np.empty((given.nodes, width), np.int64)
        rows[:] = random.integers(-9000, 9000, (given.nodes, width))
        cuts, pool = np.linspace(0, len(sources), 8 * threads + 1).astype(int), ThreadPoolExecutor(threads)
        parts = [
            (sources[low:].ctypes.data, high - low, rows.ctypes.data, width) for low, high in itertools.pairwise(cuts)
        ]
        calls = [
            lambda ahead=ahead: list(pool.map(lambda part: fold(*part, ahead), parts)) for ahead in (0, 16, 32, 64)
        ]
        numba.set_num_threads(threads)
        times = study.alternating([*calls, lambda: compiled.sum_rows(offsets, sources, rows, 0, out)], given.rounds)
        *reads, summed = np.median(times, axis=0)
        rate = 2 * width * len(sources) / min(reads) / 1e9
        shown = (f"{1e3 * min(reads):.0f}", f"{rate:.1f}", f"{1e3 * summed:.0f}", f"{100 * min(reads) / summed:.0f}")
        return law, order, str(width), str(threads), *shown

    kinds = (
        (law, order, *ordered(*found, order)) for (law, found), order in itertools.product(graphs.items(), given.orders)
    )
    heads = ("arcs", "order of nodes", "d", "threads", "gather, ms", "GB/s", "hop, ms", "% of roofline")
    study.table(
        heads, (row(*kind, *size) for kind in kinds for size in sizes), f"{given.nodes:,} nodes, {given.arcs:,} arcs"
    )
    print("\n" + "\n".join(f"- {name}: {words}" for name, words in study.machine().items()))


def ordered(offsets: np.ndarray, sources: np.ndarray, order: str) -> tuple[np.ndarray, np.ndarray]:
    """The same graph with its nodes in another order: most named first, or reverse Cuthill-McKee."""
    nodes = len(offsets) - 1
    matrix = sp.csr_matrix((np.ones(len(sources), np.int8), sources, offsets), shape=(nodes, nodes))
    if order == "given":
        return offsets, sources
    first = np.argsort(-np.bincount(sources, minlength=nodes)) if order == "degree" else reverse_cuthill_mckee(matrix)
    matrix = matrix[first][:, first]
    return matrix.indptr.astype(np.int64), matrix.indices.astype(np.int32)


def steps(given: Any, limits: tuple[int, ...] = (1 << 15, 1 << 11)) -> None:
    """Accuracy by the most nodes of a step; seed i draws split i and the initialization."""

    def cell(name: str, method: str, limit: int) -> str:
        _learning.MOST_IN_STEP = limit
        unit, found = EdgeLevel(directed=False), []
        for seed in range(given.rounds):
            graph = study.graph_of(name, given.data_dir, seed)
            found.append(study.accuracy(graph, study.fitted(method, Budget(1.0, 1e-6), unit, graph, seed)))
        return study.told(found)

    rows = (
        (name, method, *(cell(name, method, limit) for limit in limits))
        for name in STEP_DATA
        for method in ("gap", "progap")
    )
    study.table(("data set", "method", *(f"at most {limit:,}" for limit in limits)), rows)


if __name__ == "__main__":
    parts = {part.__name__: part for part in (hop, noise, roofline, steps)}
    given = study.options(__doc__, parts=parts, rounds=5, nodes=1_000_000, arcs=20_000_000, orders=("given",))
    numba.set_num_threads(2)
    torch.set_num_threads(2)
    for name in given.parts:
        parts[name](given)
