"""Approximate PageRank against dense solves of the same problem, and against the exact vectors of the lazy walk."""

from itertools import chain, combinations

import numba
import numpy as np
import pytest
import scipy.sparse as sp

from sfumato.bounded._pagerank import Walk, approximate_pagerank
from sfumato.errors import InputError
from sfumato.graph._graph import Graph

WALK = Walk(alpha=0.25, rho=0.01, gamma=1e-4)


def random_graph(rng, nodes, *, directed=False, density=None):
    adjacency = rng.random((nodes, nodes)) < (rng.uniform(0.05, 0.6) if density is None else density)
    owner, target = np.nonzero(np.triu(adjacency, 1) if not directed else adjacency)
    return Graph.from_edges(owner, target, nodes, directed=directed)


def dense(graph):
    """The matrix of the residual, r(p) = alpha e - matrix p, as a function of alpha, and degrees of at least 1."""
    adjacency = np.zeros((graph.num_nodes,) * 2)
    adjacency[graph.indices, np.repeat(np.arange(graph.num_nodes), np.diff(graph.indptr))] = 1
    lonely = adjacency.sum(0) == 0
    adjacency[lonely, lonely] = 1
    degrees = adjacency.sum(0)
    eye = np.eye(graph.num_nodes)
    return lambda alpha: (1 + alpha) / 2 * eye - (1 - alpha) / 2 * adjacency / degrees, degrees


def solved(graph, root, walk):
    """Try every support until the conditions hold: the reference has no iteration."""
    of, degrees = dense(graph)
    matrix, start = of(walk.alpha), walk.alpha * np.eye(graph.num_nodes)[root]
    nodes, level = range(graph.num_nodes), walk.rho * walk.alpha * degrees
    for support in map(list, chain.from_iterable(combinations(nodes, size) for size in range(graph.num_nodes + 1))):
        p = np.zeros(graph.num_nodes)
        p[support] = np.linalg.solve(matrix[np.ix_(support, support)], (start - level)[support])
        if (p >= 0).all() and (start - matrix @ p <= level + 1e-12).all():
            return p
    raise AssertionError("no support fits")


def ours(graph, roots, walk):
    return approximate_pagerank(graph.indptr, graph.indices, np.asarray(roots), walk).toarray()


@pytest.mark.parametrize("directed", [False, True])
def test_it_agrees_with_the_dense_solution_of_the_same_problem(directed):
    rng = np.random.default_rng(0)
    for _ in range(30):
        graph, root = random_graph(rng, 6, directed=directed), int(rng.integers(6))
        walk = Walk(rng.uniform(0.1, 0.9), 10 ** rng.uniform(-3, -0.7), 1e-4)
        missing = solved(graph, root, walk) - ours(graph, [root], walk)[0]
        assert missing.min() > -1e-12
        assert missing.sum() <= walk.gamma


def test_it_is_below_the_exact_vector_by_at_most_rho_degree():
    rng = np.random.default_rng(3)
    for _ in range(20):
        graph = random_graph(rng, 40)
        of, degrees = dense(graph)
        for rho in (0.1, 0.01, 1e-3, 1e-4):
            walk = Walk(0.25, rho)
            exact = np.linalg.solve(of(walk.alpha), walk.alpha * np.eye(40)[:5].T).T
            missing = exact - ours(graph, range(5), walk)
            assert missing.min() > -1e-12
            assert (missing <= (1 + walk.gamma) * rho * degrees + 1e-12).all()


def test_a_root_without_arcs_keeps_its_walk():
    graph = Graph.from_edges([0], [1], 3, directed=False)
    vector = ours(graph, [2], WALK)[0]
    assert vector[:2].tolist() == [0, 0]
    assert vector[2] == pytest.approx(1 - WALK.rho, abs=WALK.gamma)


def test_only_the_neighborhood_is_touched():
    """Entries are at most 1 / rho, and arcs far away change no bit."""
    path = Graph.from_edges(np.arange(2999), np.arange(1, 3000), 3000, directed=False)
    far = Graph.from_edges(np.r_[np.arange(2999), 2900], np.r_[np.arange(1, 3000), 2990], 3000, directed=False)
    near, other = (approximate_pagerank(graph.indptr, graph.indices, np.array([5]), WALK) for graph in (path, far))
    assert near.nnz < 1 / WALK.rho
    assert (near != other).nnz == 0


def test_bits_depend_on_neither_threads_nor_company():
    graph = random_graph(np.random.default_rng(4), 600, density=0.01)
    roots, threads = np.r_[np.arange(600), 7, 7], numba.get_num_threads()
    whole = ours(graph, roots, WALK)
    try:
        numba.set_num_threads(1)
        assert np.array_equal(whole, ours(graph, roots, WALK))
    finally:
        numba.set_num_threads(threads)
    assert np.array_equal(whole[[7, 299]], ours(graph, [7, 299], WALK))
    assert np.array_equal(whole[600], whole[7])


def test_no_root_and_a_root_outside():
    graph = random_graph(np.random.default_rng(5), 4)
    assert ours(graph, [], WALK).shape == (0, 4)
    with pytest.raises(InputError, match="roots to be nodes from 0 to 3"):
        ours(graph, [4], WALK)


@pytest.mark.parametrize(
    "values",
    [{"alpha": 0}, {"alpha": 1e-9}, {"alpha": 1.1}, {"rho": 0}, {"rho": 1}, {"gamma": 0}, {"gamma": 1e-20}, {"gamma": 1}],
)  # fmt: skip
def test_walks_out_of_range_are_refused(values):
    with pytest.raises(InputError, match=next(iter(values))):
        Walk(**values)


@pytest.mark.parametrize("seed", range(5))
def test_the_rounds_end_at_the_smallest_tolerance(seed):
    rng = np.random.default_rng(seed)
    arcs = sp.csr_array(rng.random((60, 60)) < (0.03, 0.08, 0.3)[seed % 3])
    walk = Walk(alpha=rng.uniform(0.02, 1), rho=10.0 ** -rng.uniform(1, 6), gamma=1e-12)
    found = approximate_pagerank(arcs.indptr.astype(np.int64), arcs.indices.astype(np.int32), np.arange(60), walk)
    assert np.isfinite(found.data).all()
