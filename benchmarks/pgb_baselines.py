r"""Four published generators of private graphs, each in a form that is sound at edge level: one undirected edge more or less.

Nodes and their number are public; every release is pure. Noise is of floating point: these are yardsticks, not for use. Each
text says what is released, why that costs epsilon in total, and where the published form protects less.
"""

from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from pgb_queries import louvain

from sfumato.bounded._topology import Pairs, largest_pairs
from sfumato.noise.coins import SecretWords

Numbers = NDArray[Any]
COUNT_SHARE = 0.1  # the share of epsilon of a single number, where a baseline needs one
CROWD = 20  # nodes of one part of PrivGraph's first partition


def tmf(edges: Numbers, num_nodes: int, epsilon: float, generator: np.random.Generator) -> Numbers:
    """TmF: the number of edges, then the pairs whose bit is largest after noise (Nguyen, Imine and Rusinowitch, 2015).

    **Formal guarantee.** An edge changes the number by 1 and one bit by 1: a tenth of epsilon and the rest add up.
    **Published.** Pairs without an edge are drawn uniformly until the noisy number is reached, in place of those that pass. The
    number of drawn pairs then tells how many edges passed, and no epsilon bounds that: let S have one pair outside of the
    graph, of N; an edge that comes there makes S likelier by a factor of about N times the chance that an edge passes.
    """
    count = max(1, round(len(edges) + generator.laplace(0, 1 / (COUNT_SHARE * epsilon))))
    pairs = Pairs(num_nodes, directed=False)
    present = np.sort(pairs.numbers(edges.min(1), edges.max(1)))
    source = SecretWords(generator.bytes(32))
    return np.asarray(pairs.ends(largest_pairs(pairs, present, (1 - COUNT_SHARE) * epsilon, count, source)))


def dp_1k(edges: Numbers, num_nodes: int, epsilon: float, generator: np.random.Generator) -> Numbers:
    """DP-dK of order 1: the histogram of degrees, then edges between free ends (Wang and Wu, 2013).

    **Formal guarantee.** An edge moves two nodes by one degree, which changes four entries by 1: scale 4 / epsilon. The largest
    degree changes by at most 1, and bounds the histogram; nodes above it count there, which moves no more of them.
    **Published.** PGB's code ends its histogram at the true largest degree, which it thereby tells. DP-2K has noise of a smooth
    sensitivity, and so a delta.
    """
    degrees = np.bincount(edges.ravel(), minlength=num_nodes)
    most = round(degrees.max() + generator.laplace(0, 1 / (COUNT_SHARE * epsilon)))
    counts = histogram(degrees, min(max(most, 1), num_nodes - 1))
    counts = nearest(counts + generator.laplace(0, 4 / ((1 - COUNT_SHARE) * epsilon), len(counts)), num_nodes)
    return joined(generator.permutation(np.repeat(np.arange(len(counts)), counts)), generator)


def dgg(edges: Numbers, num_nodes: int, epsilon: float, generator: np.random.Generator) -> Numbers:
    """DGG: the degree of every node, then dense blocks of nodes of like degree (Qin et al., 2017, as PGB makes it central).

    **Formal guarantee.** An edge changes two degrees by 1 each: scale 2 / epsilon.
    **Published.** PGB's code draws noise of scale 1 / epsilon: it protects an edge with twice the epsilon that it states.
    """
    degrees = np.bincount(edges.ravel(), minlength=num_nodes) + generator.laplace(0, 2 / epsilon, num_nodes)
    degrees = np.clip(np.rint(degrees), 0, num_nodes - 1).astype(np.int64)
    order, found, start = np.argsort(degrees, kind="stable"), [], int((degrees == 0).sum())
    while start < num_nodes:
        block = order[start : start + degrees[order[start]] + 1]
        first, second = np.triu_indices(len(block), 1)
        kept = generator.random(len(first)) < np.log(len(block) + 1) / np.log(degrees.max() + 1.0)
        found.append(np.column_stack([block[first[kept]], block[second[kept]]]))
        start += len(block)
    inside = np.concatenate(found) if found else np.zeros((0, 2), np.int64)
    left = np.maximum(degrees - np.bincount(inside.ravel(), minlength=num_nodes), 0)
    return np.concatenate([inside, joined(left, generator)])


def privgraph(edges: Numbers, num_nodes: int, epsilon: float, generator: np.random.Generator) -> Numbers:
    """PrivGraph: communities of noisy counts, then degrees inside them and edges between them (Yuan et al., 2023).

    **Formal guarantee.** Three releases of epsilon / 3. *Parts*: random parts of 20 nodes; an edge is in one pair of parts, and
    changes its count by 1. *Communities*: node after node draws one by the exponential mechanism, from how many neighbors it has
    in each. An edge makes one entry larger by 1 at each of its two ends, and none smaller: so draws with weights
    exp(epsilon / 6 x score) cost epsilon / 6 twice. *Counts*: an edge is inside a community, where it changes two degrees by 1,
    or between two, where it changes one number by 1; the partition is released, so noise of scales 2 and 1 over epsilon / 3
    costs that once.
    **Published.** The authors' code has weights of half that exponent, which the exponential mechanism needs where scores may
    fall as well; what it draws costs no more than stated.
    """
    third = epsilon / 3
    labels = parts(edges, num_nodes, third, generator)
    labels = adjusted(edges, num_nodes, labels, third, generator)
    size = int(labels.max()) + 1
    degrees, between = counted(edges, num_nodes, labels)
    noisy = between + generator.laplace(0, 1 / third, len(between))
    counts = nearest(noisy, round(max(noisy.sum(), 0)))
    degrees = degrees + generator.laplace(0, 2 / third, num_nodes)
    members, found = [np.flatnonzero(labels == one) for one in range(size)], []
    for nodes in members:
        kept = np.minimum(nearest(degrees[nodes], round(max(degrees[nodes].sum(), 0))), len(nodes) - 1)
        found.append(nodes[joined(kept, generator)])
    for first, second, count in zip(*np.triu_indices(size, 1), counts, strict=True):
        if count:
            found.append(np.column_stack([generator.choice(members[one], count) for one in (first, second)]))
    return np.concatenate(found)


def counted(edges: Numbers, num_nodes: int, labels: Numbers) -> tuple[Numbers, Numbers]:
    """The degree of each node inside its community, and the edges between each two communities."""
    ends, size = labels[edges], int(labels.max()) + 1
    inner = ends[:, 0] == ends[:, 1]
    degrees = np.bincount(edges[inner].ravel(), minlength=num_nodes)
    return degrees, pairs_of_labels(edges[~inner], labels)[np.triu_indices(size, 1)]


def pairs_of_labels(edges: Numbers, labels: Numbers) -> Numbers:
    """Edges by the labels of both ends, int64 [labels, labels], the smaller label first."""
    size = int(labels.max()) + 1
    found = np.sort(labels[edges], axis=1) @ [size, 1]
    return np.asarray(np.bincount(found, minlength=size * size).reshape(size, size))


def parts(edges: Numbers, num_nodes: int, epsilon: float, generator: np.random.Generator) -> Numbers:
    """The communities of a noisy graph whose nodes are random parts, int64 [n]."""
    part = generator.permutation(np.arange(num_nodes) // CROWD)
    size = int(part.max()) + 1
    upper = np.triu_indices(size)
    noisy = pairs_of_labels(edges, part)[upper]
    noisy = noisy + generator.laplace(0, 1 / epsilon, len(noisy))
    kept = nearest(noisy, round(max(noisy.sum(), 0)))
    table = sp.csr_matrix((kept[kept > 0], (upper[0][kept > 0], upper[1][kept > 0])), (size, size))
    return np.asarray(louvain(sp.csr_matrix(table + table.T), int(generator.integers(1 << 30)))[part])


def adjusted(
    edges: Numbers, num_nodes: int, labels: Numbers, epsilon: float, generator: np.random.Generator
) -> Numbers:
    """Draw the community of each node from its neighbors in each, int64 [n]."""
    rows, columns = np.concatenate([edges, edges[:, ::-1]]).T
    arcs = sp.csr_matrix((np.ones(len(rows)), (rows, columns)), (num_nodes, num_nodes))
    size, labels = int(labels.max()) + 1, labels.copy()
    for node in generator.permutation(num_nodes):
        beside = beside_of(arcs, node, labels, size)
        labels[node] = np.argmax(epsilon / 2 * beside + generator.gumbel(size=size))
    return np.asarray(np.unique(labels, return_inverse=True)[1])


def beside_of(arcs: sp.csr_matrix, node: int, labels: Numbers, size: int) -> Numbers:
    """How many neighbors a node has in each community."""
    return np.bincount(labels[arcs.indices[arcs.indptr[node] : arcs.indptr[node + 1]]], minlength=size)


def histogram(degrees: Numbers, most: int) -> Numbers:
    """Count nodes by degree, int64 [most + 1]; larger ones count as the largest."""
    return np.bincount(np.minimum(degrees, most), minlength=most + 1)


def nearest(values: Numbers, total: int) -> Numbers:
    """Whole numbers from 0 on with this sum, nearest to the values but for rounding."""
    if total <= 0:
        return np.zeros(len(values), np.int64)
    ordered = np.sort(values)[::-1]
    excess = (np.cumsum(ordered) - total) / np.arange(1, len(values) + 1)
    sums = np.cumsum(np.maximum(values - excess[np.flatnonzero(ordered > excess)[-1]], 0))
    return np.diff(np.rint(sums * (total / sums[-1])), prepend=0).astype(np.int64)


def joined(degrees: Numbers, generator: np.random.Generator) -> Numbers:
    """Edges between free ends that are paired at random, int64 [m, 2]; some are loops or twice there."""
    ends = generator.permutation(np.repeat(np.arange(len(degrees)), degrees))
    return ends[: len(ends) // 2 * 2].reshape(-1, 2)


BASELINES = {"TmF": tmf, "DP-1K": dp_1k, "DGG": dgg, "PrivGraph": privgraph}
