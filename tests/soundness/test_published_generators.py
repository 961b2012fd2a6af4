"""Generators that the benchmark of synthetic graphs compares: what one edge changes, on all graphs of five nodes."""

import importlib.util
import sys
from itertools import combinations
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp

FOLDER = Path(__file__).parents[2] / "benchmarks"
PAIRS = list(combinations(range(5), 2))
LABELS = [np.array(one) for one in ([0, 0, 1, 1, 2], [0, 0, 0, 0, 1], [0, 1, 2, 3, 4])]


def imported(name, patch):
    spec = importlib.util.spec_from_file_location(name, FOLDER / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    patch.setitem(sys.modules, name, module)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def patch():
    with pytest.MonkeyPatch.context() as found:
        yield found


@pytest.fixture(scope="module")
def queries(patch):
    return imported("pgb_queries", patch)


@pytest.fixture(scope="module")
def baselines(queries, patch):
    return imported("pgb_baselines", patch)


def neighbors():
    """Every graph of five nodes with every edge that it lacks: the edges without it and with it."""
    for bits in range(1 << len(PAIRS)):
        present = [pair for k, pair in enumerate(PAIRS) if bits >> k & 1]
        less = np.array(present, int).reshape(-1, 2)
        for pair in PAIRS:
            if pair not in present:
                yield less, np.concatenate([less, [pair]])


def most(count):
    """The largest change in L1 norm of a count that an edge makes."""
    return max(np.abs(np.subtract(count(more), count(less), dtype=float)).sum() for less, more in neighbors())


def degrees_of(edges):
    return np.bincount(edges.ravel(), minlength=5)


def test_one_edge_changes_degrees_by_2_their_histogram_by_4_and_the_largest_by_1(baselines):
    assert most(degrees_of) == 2
    assert most(lambda edges: degrees_of(edges).max()) == 1
    for end in (1, 2, 4):
        assert most(lambda edges, end=end: baselines.histogram(degrees_of(edges), end)) == 4


@pytest.mark.parametrize("labels", LABELS, ids=str)
def test_one_edge_changes_one_count_between_parts_or_two_degrees_inside(baselines, labels):
    assert most(lambda edges: baselines.pairs_of_labels(edges, labels)) == 1
    inside, between = 0.0, 0.0
    for less, more in neighbors():
        first, second = baselines.counted(less, 5, labels), baselines.counted(more, 5, labels)
        changes = [np.abs(one - other).sum() for one, other in zip(first, second, strict=True)]
        assert sorted(changes) in ([0, 1], [0, 2])  # never both, so one epsilon pays for either
        inside, between = max(inside, changes[0]), max(between, changes[1])
    assert (inside, between) == (2 if len(set(labels)) < 5 else 0, 1)


def test_one_edge_changes_the_score_of_one_community_at_its_two_ends_and_lowers_none(baselines):
    labels = LABELS[0]

    def scores(edges):
        rows, columns = np.concatenate([edges, edges[:, ::-1]]).T
        arcs = sp.csr_matrix((np.ones(len(rows)), (rows, columns)), (5, 5))
        return np.array([baselines.beside_of(arcs, node, labels, 3) for node in range(5)])

    for less, more in neighbors():
        change = scores(more) - scores(less)
        assert change.min() == 0
        assert sorted(change.sum(1)) == [0, 0, 0, 1, 1]


def test_every_generator_returns_edges_of_the_same_nodes(baselines):
    generator = np.random.default_rng(0)
    edges = np.array([pair for pair in combinations(range(60), 2) if generator.random() < 0.1])
    for name, draw in baselines.BASELINES.items():
        found = draw(edges, 60, 1.0, np.random.default_rng(1))
        assert found.shape[1] == 2, name
        assert 0 <= found.min() <= found.max() < 60, name


def test_whole_numbers_keep_their_sum(baselines):
    assert baselines.nearest(np.array([3.4, -1.0, 2.4]), 5).tolist() == [3, 0, 2]


def test_queries_agree_with_networkx(queries):
    nx = pytest.importorskip("networkx")
    graph = nx.powerlaw_cluster_graph(120, 3, 0.5, seed=1)
    graph.add_edges_from([(120, 121)])
    graph.add_node(122)
    arcs = queries.arcs_of(np.array(graph.edges()), 123)
    found = queries.answers(arcs)
    inner = graph.subgraph(range(120))
    lengths = [one for _, row in nx.all_pairs_shortest_path_length(graph) for one in row.values()]
    numbers = found.numbers
    assert numbers["triangles"] == sum(nx.triangles(graph).values()) / 3
    assert numbers["global clustering"] == pytest.approx(nx.transitivity(graph))
    assert numbers["mean clustering"] == pytest.approx(nx.average_clustering(graph))
    assert numbers["assortativity"] == pytest.approx(nx.degree_assortativity_coefficient(graph))
    assert numbers["diameter"] == nx.diameter(inner)
    assert found.distances.tolist() == np.bincount(lengths).tolist()
    assert numbers["mean distance"] == pytest.approx(sum(lengths) / np.count_nonzero(lengths))
    communities = [set(np.flatnonzero(found.communities == one)) for one in np.unique(found.communities)]
    assert numbers["modularity"] == pytest.approx(nx.community.modularity(graph, communities))
    best = nx.community.modularity(graph, nx.community.louvain_communities(graph, seed=0))
    assert numbers["modularity"] > best - 0.03
    central = sorted(nx.eigenvector_centrality(inner, max_iter=10000).values(), reverse=True)
    assert found.centrality[:5] == pytest.approx(central[:5], abs=1e-4)
    same = found.errors(found)
    assert max(same.values()) < 1e-9


def test_divergence_counts_what_is_missing(queries):
    assert queries.divergence(np.array([1, 1]), np.array([1, 1])) == 0
    assert queries.divergence(np.array([1, 1]), np.array([2])) == pytest.approx(17.33, abs=0.01)
