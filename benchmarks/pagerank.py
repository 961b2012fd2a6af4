"""Approximate PageRank against the same iteration in SciPy (one dense vector a root): roots a second, alternating in one run.

python benchmarks/pagerank.py [--dataset npz/coauthor_cs] [--roots 10000] [--peer-roots 50] [--rounds 5]
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Callable

import numba
import numpy as np
import scipy.sparse as sp

from sfumato.bounded._pagerank import Walk, approximate_pagerank
from sfumato.datasets._loading import load_dataset


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--dataset", default="npz/coauthor_cs")
    parser.add_argument("--data-dir", default=os.environ.get("SFUMATO_DATA", "../shared/data"))
    parser.add_argument("--roots", type=int, default=10_000)
    parser.add_argument("--peer-roots", type=int, default=50)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--threads", type=int, default=2)
    options = parser.parse_args()
    numba.set_num_threads(options.threads)
    graph = load_dataset(options.dataset, data_dir=options.data_dir)
    roots = np.random.default_rng(0).permutation(graph.num_nodes)[: options.roots]
    few, walk = roots[: options.peer_roots], Walk()
    adjacency = sp.csr_array((np.ones(len(graph.indices)), graph.indices, graph.indptr), shape=(graph.num_nodes,) * 2)
    ours, peer = approximate_pagerank(graph.indptr, graph.indices, roots, walk), in_scipy(adjacency, few, walk)
    apart = abs(ours[: len(few)] - peer).sum(axis=1).max()
    print(
        f"{options.dataset}: {graph.num_nodes} nodes, {len(graph.indices)} arcs; {ours.nnz / len(roots):.0f} entries a root"
    )
    print(f"largest l1 distance of {len(few)} rows to SciPy's: {apart:.1e} (documented: {walk.gamma:g})")
    assert apart <= walk.gamma
    pairs = np.array([
        (
            len(roots) / seconds(lambda: approximate_pagerank(graph.indptr, graph.indices, roots, walk)),
            len(few) / seconds(lambda: in_scipy(adjacency, few, walk)),
        )
        for _ in range(options.rounds)
    ])  # fmt: skip
    mine, theirs = np.median(pairs, axis=0)
    ratio = np.median(pairs[:, 0] / pairs[:, 1])
    print(f"{mine:.0f} roots a second ({len(roots) / mine:.2f} s in all); SciPy: {theirs:.0f}; {ratio:.1f} x as fast")


def in_scipy(adjacency: sp.csr_array, roots: np.ndarray, walk: Walk) -> sp.csr_array:
    """ISTA as it is written down, on vectors of the length of the graph."""
    degrees = np.asarray(adjacency.sum(axis=1)).ravel()
    keep, to_neighbors, least = (
        (1 + walk.alpha) / 2,
        (1 - walk.alpha) / 2,
        walk.rho * walk.alpha * np.maximum(degrees, 1),
    )
    lost, incoming = np.where(degrees > 0, keep, walk.alpha), sp.csr_array(adjacency.T)
    rows = []
    for root in roots:
        p, r = np.zeros(len(degrees)), np.zeros(len(degrees))
        r[root] = walk.alpha
        while (r > (1 + walk.gamma) * least).any():
            step = np.maximum(r - least, 0)  # of length 1 in the metric of the degrees, as in the source
            p += step
            r += to_neighbors * (incoming @ (step / np.maximum(degrees, 1))) - lost * step
        rows.append(sp.csr_array(p[None]))
    return sp.csr_array(sp.vstack(rows))


def seconds(call: Callable[[], object]) -> float:
    start = time.perf_counter()
    call()
    return time.perf_counter() - start


if __name__ == "__main__":
    main()
