"""The fifteen queries of PGB (Liu et al., 2408.02928) on an undirected graph, and the errors of their answers.

Definitions follow section V of the paper and its published figures: distances are over pairs that a path joins; the diameter is
the largest of all components; clustering of a node of degree below 2 is 0; communities are those of Louvain's method. Up to
10,000 nodes distances are exact; above, they start at 1,024 nodes of a fixed seed, and the diameter is a lower bound, which
searches from the farthest nodes twice more.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numba
import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from scipy.sparse.linalg import eigsh
from sklearn.metrics import normalized_mutual_info_score

EXACT, SOURCES, TOP = 10_000, 1_024, 0.01
NAMES = (
    "nodes", "edges", "triangles", "mean degree", "degree variance", "degrees (KL)", "diameter", "mean distance",
    "distances (KL)", "global clustering", "mean clustering", "communities (1 - NMI)", "modularity", "assortativity",
    "eigenvector centrality (MAE)",
)  # fmt: skip
Numbers = NDArray[Any]


def arcs_of(edges: Numbers, num_nodes: int) -> sp.csr_matrix:
    """The symmetric matrix of edges [m, 2]; loops and repeated edges are dropped."""
    low, high = edges.min(1), edges.max(1)
    numbers = np.unique((low.astype(np.int64) * num_nodes + high)[low != high])
    first, second = np.divmod(numbers, num_nodes)
    upper = sp.csr_matrix((np.ones(len(numbers), np.int64), (first, second)), (num_nodes, num_nodes))
    return sp.csr_matrix(upper + upper.T)


@dataclass(frozen=True)
class Answers:
    """What a graph answers to the fifteen queries."""

    numbers: dict[str, float]
    degrees: Numbers
    distances: Numbers
    communities: Numbers
    centrality: Numbers

    def errors(self, real: Answers) -> dict[str, float]:
        """The error of each query: relative but for those that name another."""
        found = {
            name: abs(value - real.numbers[name]) / (abs(real.numbers[name]) + 1e-15)
            for name, value in self.numbers.items()
        }
        found["degrees (KL)"] = divergence(real.degrees, self.degrees)
        found["distances (KL)"] = divergence(real.distances, self.distances)
        found["communities (1 - NMI)"] = 1 - float(normalized_mutual_info_score(real.communities, self.communities))
        most = max(1, int(TOP * len(real.centrality)))
        found["eigenvector centrality (MAE)"] = float(np.abs(real.centrality[:most] - self.centrality[:most]).mean())
        return {name: float(found[name]) for name in NAMES}


def divergence(real: Numbers, other: Numbers) -> float:
    """The Kullback-Leibler divergence of two counts; a part of 0 counts as 2.2e-16, as in PGB."""
    size, least = max(len(real), len(other)), np.finfo(float).eps
    p, q = (np.pad(one / one.sum(), (0, size - len(one))) for one in (real, other))
    return float((p * np.log((p + least) / (q + least))).sum())


def answers(arcs: sp.csr_matrix, seed: int = 0) -> Answers:
    """Answer all queries on a symmetric matrix of 0 and 1 without loops."""
    degrees = np.diff(arcs.indptr)
    size, wedges = arcs.shape[0], degrees * (degrees - 1) / 2
    closed = triangles_at(arcs)
    counts, diameter = distances(arcs, seed)
    communities = louvain(arcs, seed)
    rows = np.repeat(degrees, degrees)
    others = degrees[arcs.indices]
    spread = rows.std() * others.std() if arcs.nnz else 0.0
    steps = np.arange(len(counts))
    numbers = {
        "nodes": size,
        "edges": arcs.nnz / 2,
        "triangles": closed.sum() / 3,
        "mean degree": degrees.mean(),
        "degree variance": degrees.var(ddof=1),
        "diameter": diameter,
        "mean distance": (steps * counts).sum() / max(1, counts[1:].sum()),
        "global clustering": closed.sum() / max(1.0, wedges.sum()),
        "mean clustering": (closed / np.maximum(wedges, 1)).mean(),
        "modularity": modularity(arcs, communities),
        "assortativity": ((rows * others).mean() - rows.mean() * others.mean()) / spread if spread else 0.0,
    }
    return Answers(
        {name: float(one) for name, one in numbers.items()}, np.bincount(degrees), counts, communities, centrality(arcs)
    )


def triangles_at(arcs: sp.csr_matrix) -> Numbers:
    """Triangles at each node, int64 [n]: arcs point to the end of larger degree, so that no row is long."""
    size, degrees = arcs.shape[0], np.diff(arcs.indptr)
    rank = np.empty(size, np.int64)
    rank[np.argsort(degrees, kind="stable")] = np.arange(size)
    first, second = rank[np.repeat(np.arange(size), degrees)], rank[arcs.indices]
    up = sp.csr_matrix(
        (np.ones(int((first < second).sum()), np.int64), (first[first < second], second[first < second])), (size, size)
    )
    ends = (up @ up).multiply(up)  # by the first and the last node of a triangle
    middle = (up.T @ up).multiply(up)  # by the middle one and the last
    found = np.asarray(ends.sum(1)).ravel() + np.asarray(ends.sum(0)).ravel() + np.asarray(middle.sum(1)).ravel()
    return np.asarray(found[rank], np.int64)


def centrality(arcs: sp.csr_matrix) -> Numbers:
    """The eigenvector of the largest eigenvalue, of norm 1, in descending order."""
    vector = eigsh(arcs.astype(float), k=1, which="LA", v0=np.ones(arcs.shape[0]), return_eigenvectors=True)[1]
    return np.sort(np.abs(vector[:, 0]))[::-1]


def distances(arcs: sp.csr_matrix, seed: int) -> tuple[Numbers, int]:
    """Count ordered pairs by their distance, 0 included, and find the diameter."""
    linked = np.flatnonzero(np.diff(arcs.indptr))
    size, inner = arcs.shape[0], sp.csr_matrix(arcs[linked][:, linked])
    exact = size <= EXACT
    starts = np.arange(len(linked)) if exact else np.random.default_rng(seed).permutation(len(linked))[:SOURCES]
    counts, far, last = np.zeros(1, np.int64), 0, starts
    for start in range(0, len(starts), 512):
        found, ends = searched(inner, starts[start : start + 512])
        width = max(len(counts), len(found))
        counts = np.pad(counts, (0, width - len(counts))) + np.pad(found, (0, width - len(found)))
        if len(found) - 1 > far:
            far, last = len(found) - 1, ends
    for _ in range(0 if exact else 2):
        found, ends = searched(inner, last[:512])
        if len(found) - 1 > far:
            far, last = len(found) - 1, ends
    counts[0] += round((size - len(linked)) * (1 if exact else len(starts) / max(1, len(linked))))
    return counts, far


def searched(arcs: sp.csr_matrix, starts: Numbers) -> tuple[Numbers, Numbers]:
    """Search from many nodes at once, one bit each: pairs by distance, and the nodes that were reached last."""
    front = np.zeros((arcs.shape[0], -(-len(starts) // 64)), np.uint64)
    bits = np.arange(len(starts))
    np.bitwise_or.at(front, (starts, bits // 64), np.uint64(1) << (bits % 64).astype(np.uint64))
    reached, counts, last = front.copy(), [len(starts)], starts
    while True:
        front = np.bitwise_or.reduceat(front[arcs.indices], arcs.indptr[:-1], axis=0) & ~reached
        new = int(np.bitwise_count(front).sum())
        if not new:
            return np.array(counts), last
        reached |= front
        counts.append(new)
        last = np.flatnonzero(front.any(1))


def louvain(arcs: sp.csr_matrix, seed: int = 0) -> Numbers:
    """The communities of Louvain's method, int64 [n], in an order of nodes that the seed draws."""
    generator, weights = np.random.default_rng(seed), sp.csr_matrix(arcs.astype(float))
    labels = np.arange(arcs.shape[0])
    while True:
        size = weights.shape[0]
        strength = np.asarray(weights.sum(1)).ravel()
        moved = np.arange(size)
        _settle(weights.indptr, weights.indices, weights.data, strength, moved, generator.permutation(size))
        names, moved = np.unique(moved, return_inverse=True)
        labels = moved[labels]
        if len(names) == size:
            return labels
        member = sp.csr_matrix((np.ones(size), (np.arange(size), moved)))
        weights = sp.csr_matrix(member.T @ weights @ member)


@numba.njit(cache=True)
def _settle(indptr, indices, weights, strength, labels, order):  # type: ignore[no-untyped-def]
    """Move nodes to the neighboring community of the largest gain in modularity, until none moves."""
    sums, beside, total = strength.copy(), np.zeros(len(labels)), max(strength.sum(), 1e-300)
    for _ in range(100):
        changed = False
        for node in order:
            own = labels[node]
            for k in range(indptr[node], indptr[node + 1]):
                if indices[k] != node:
                    beside[labels[indices[k]]] += weights[k]
            sums[own] -= strength[node]
            best, most = own, beside[own] - strength[node] * sums[own] / total
            for k in range(indptr[node], indptr[node + 1]):
                other = labels[indices[k]]
                gain = beside[other] - strength[node] * sums[other] / total
                if gain > most + 1e-9:
                    best, most = other, gain
            for k in range(indptr[node], indptr[node + 1]):
                beside[labels[indices[k]]] = 0
            sums[best] += strength[node]
            labels[node] = best
            changed |= best != own
        if not changed:
            return


def modularity(arcs: sp.csr_matrix, labels: Numbers) -> float:
    """The modularity of a partition."""
    degrees = np.diff(arcs.indptr)
    inside = labels[np.repeat(np.arange(len(labels)), degrees)] == labels[arcs.indices]
    return float(inside.mean() - ((np.bincount(labels, degrees) / max(1, arcs.nnz)) ** 2).sum()) if arcs.nnz else 0.0
