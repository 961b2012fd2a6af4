"""Generated graphs: same seed, same graph; heavy tails, homophily and informative neighbors are measured."""

import numpy as np
import pytest
import scipy.sparse

from sfumato.errors import InputError
from sfumato.graph._synthetic import campus, interests, rmat, stochastic_block_model


def degrees(graph):
    return np.diff(graph.indptr)


def share_within_classes(graph):
    source = np.repeat(np.arange(graph.num_nodes), degrees(graph))
    return float((graph.y[source] == graph.y[graph.indices]).mean())


def neighbor_labels(graph):
    """Share of each class among the neighbors: [num_nodes, num_classes]."""
    arcs = scipy.sparse.csr_matrix((np.ones(graph.num_arcs), graph.indices, graph.indptr), shape=(graph.num_nodes,) * 2)
    counts = arcs @ np.eye(graph.num_classes)[graph.y]
    return counts / np.maximum(counts.sum(axis=1, keepdims=True), 1)


def least_squares_accuracy(columns, y):
    """Accuracy on the last quarter of one-hot least squares fitted on the rest."""
    rows = np.column_stack((columns, np.ones(len(y))))
    train = len(y) * 3 // 4
    weights = np.linalg.lstsq(rows[:train], np.eye(y.max() + 1)[y[:train]], rcond=None)[0]
    return float((np.argmax(rows[train:] @ weights, axis=1) == y[train:]).mean())


def same(first, second):
    return np.array_equal(first.indptr, second.indptr) and np.array_equal(first.indices, second.indices)


@pytest.mark.parametrize(
    "generate",
    [
        lambda seed: campus(200, seed),
        lambda seed: interests(200, seed),
        lambda seed: rmat(300, 2000, seed, num_features=4, num_classes=3),
        lambda seed: stochastic_block_model(200, 3, seed=seed),
    ],
)
def test_the_seed_decides_everything(generate):
    first, again, other = generate(7), generate(7), generate(8)
    assert same(first, again)
    np.testing.assert_array_equal(first.y, again.y)
    assert abs(first.x - again.x).max() == 0
    assert not same(first, other)


@pytest.fixture(scope="module")
def default_campus():
    return campus()


def test_campus_shape(default_campus):
    graph = default_campus
    assert (graph.name, graph.num_nodes, graph.num_features, graph.num_classes) == ("campus", 4000, 71, 6)
    assert not graph.directed
    assert graph.assumed_public == ()
    assert graph.feature_names[0] == "status=student"
    assert np.bincount(graph.y).min() > 300


def test_campus_features_are_one_hot_with_missing_dorms(default_campus):
    x = default_campus.x.toarray()
    assert set(np.unique(x)) == {0, 1}
    for first, last in ((0, 3), (3, 5), (5, 35)):
        assert (x[:, first:last].sum(axis=1) == 1).all()
    in_dorm = x[:, 35:].sum(axis=1)
    assert set(np.unique(in_dorm)) == {0, 1}
    assert 0.2 < (in_dorm == 0).mean() < 0.6


def test_campus_degrees_have_a_heavy_tail(default_campus):
    degree = degrees(default_campus)
    assert 40 < degree.mean() < 60
    assert np.median(degree) < 0.8 * degree.mean()
    assert np.quantile(degree, 0.99) > 3 * degree.mean()
    assert degree.max() < 1000


def test_campus_is_homophilous_by_year_and_dorm(default_campus):
    graph = default_campus
    chance = float((np.bincount(graph.y) / graph.num_nodes) @ (np.bincount(graph.y) / graph.num_nodes))
    assert share_within_classes(graph) > 2 * chance
    dorm = graph.x[:, 35:]
    source = np.repeat(np.arange(graph.num_nodes), degrees(graph))
    together = dorm[source].multiply(dorm[graph.indices]).sum() / graph.num_arcs
    shuffled = np.random.default_rng(0).permutation(graph.indices)
    assert together > 2 * dorm[source].multiply(dorm[shuffled]).sum() / graph.num_arcs


def test_campus_neighbors_tell_more_than_features(default_campus):
    graph = default_campus
    from_features = least_squares_accuracy(graph.x.toarray(), graph.y)
    from_both = least_squares_accuracy(np.hstack((graph.x.toarray(), neighbor_labels(graph))), graph.y)
    assert 0.42 < from_features < 0.56
    assert 0.75 < from_both < 0.95


def test_small_campus():
    graph = campus(50, seed=3)
    assert graph.num_nodes == 50
    assert 0 < degrees(graph).mean() < 25
    with pytest.raises(InputError, match="num_nodes"):
        campus(10)


@pytest.fixture(scope="module")
def default_interests():
    return interests(10_000)


def test_sets_of_interests_are_sparse_and_binary(default_interests):
    graph = default_interests
    assert (graph.name, graph.num_features, graph.num_classes, graph.directed) == ("interests", 60, 5, False)
    assert set(np.unique(graph.x.data)) == {1}
    sizes = graph.x.getnnz(axis=1)
    assert 5.7 < sizes.mean() < 6.2
    assert np.quantile(sizes, 0.99) < 14
    assert 9.9 < degrees(graph).mean() < 10.0


def test_own_interests_tell_the_class_ten_times_as_often(default_interests):
    graph = default_interests
    rates = np.array([np.asarray(graph.x[graph.y == c].mean(axis=0)).ravel() for c in range(5)])
    own = np.arange(60) % 5 == np.arange(5)[:, None]
    assert rates[own].mean() / rates[~own].mean() == pytest.approx(10, rel=0.1)
    assert least_squares_accuracy(graph.x.toarray(), graph.y) > 0.93


def test_neighbors_hardly_tell_the_class(default_interests):
    graph = default_interests
    assert 0.2 < share_within_classes(graph) < 0.22
    assert least_squares_accuracy(neighbor_labels(graph), graph.y) < 0.25
    source = np.repeat(np.arange(graph.num_nodes), degrees(graph))
    shared = graph.x[source].multiply(graph.x[graph.indices]).sum() / graph.num_arcs
    by_chance = float(np.square(np.asarray(graph.x.mean(axis=0))).sum())
    assert shared > 1.05 * by_chance  # topics tie neighbors' sets all the same
    homophilous = interests(10_000, homophily=0.6)
    assert 0.58 < share_within_classes(homophilous) < 0.62
    assert least_squares_accuracy(neighbor_labels(homophilous), homophilous.y) > 0.7


def test_interests_of_other_sizes():
    graph = interests(60, num_classes=3, num_features=3, set_size=0.5, mean_degree=2, homophily=1 / 3)
    assert (graph.num_nodes, graph.num_features, graph.num_classes) == (60, 3, 3)
    assert interests(100, set_size=60).x.nnz < 100 * 60  # rates are cut at 0.95


def test_rmat_degrees_follow_a_power_law_not_a_uniform_law():
    degree = degrees(rmat(20_000, 400_000))
    assert degree.max() > 40 * degree.mean()
    largest = np.sort(degree)[::-1][:200]
    assert largest.sum() > 0.15 * degree.sum()
    assert (degree == 0).mean() > 0.05


def test_rmat_quadrants_have_the_stated_probabilities():
    from sfumato.graph._synthetic import rmat_pairs

    class Unshuffled(np.random.Generator):
        def permutation(self, count):
            return np.arange(count)

    source, target = next(rmat_pairs(2**6, 200_000, Unshuffled(np.random.PCG64(0))))
    for bit in range(6):
        quadrants = np.bincount(2 * (source >> bit & 1) + (target >> bit & 1), minlength=4) / 200_000
        np.testing.assert_allclose(quadrants, (0.57, 0.19, 0.19, 0.05), atol=0.006)


@pytest.mark.parametrize("num_nodes", [2, 3, 1000, 1025])
def test_rmat_at_any_size(num_nodes):
    graph = rmat(num_nodes, 4 * num_nodes, directed=True)
    assert graph.num_nodes == num_nodes
    assert graph.directed
    assert 0 < graph.num_arcs <= 4 * num_nodes
    assert graph.x is None
    assert graph.y is None


def test_rmat_undirected_stores_at_most_the_arcs_asked_for():
    graph = rmat(1000, 20_000, num_features=3, num_classes=2)
    assert not graph.directed
    assert 10_000 < graph.num_arcs <= 20_000
    assert graph.x.shape == (1000, 3)
    assert set(np.unique(graph.y)) == {0, 1}


def test_features_of_a_generated_graph_tell_the_class():
    graph = stochastic_block_model(2000, 3, num_features=16)
    assert least_squares_accuracy(graph.x, graph.y) > 0.55
    assert least_squares_accuracy(neighbor_labels(graph), graph.y) > 0.9


def test_block_model_matches_its_probabilities():
    graph = stochastic_block_model(3000, 3, mean_degree=30, homophily=0.7, seed=1)
    within = share_within_classes(graph) * graph.num_arcs / 2
    p_in, p_out = 0.7 * 30 / 999, 0.3 * 30 / 2000
    for count, pairs, probability in (
        (within, 3 * 1000 * 999 / 2, p_in),
        (graph.num_edges - within, 3 * 1000 * 1000, p_out),
    ):
        assert abs(count - pairs * probability) < 4 * np.sqrt(pairs * probability)


def test_a_dense_block_model_is_not_thinned_by_duplicates():
    graph = stochastic_block_model(200, 2, mean_degree=100, homophily=0.9, seed=2)
    pairs, probability = 2 * 100 * 99 / 2, 90 / 99
    within = share_within_classes(graph) * graph.num_arcs / 2
    assert abs(within - pairs * probability) < 4 * np.sqrt(pairs * probability * (1 - probability))


def test_one_class_has_no_outside():
    graph = stochastic_block_model(100, 1, mean_degree=5, homophily=1, num_features=0)
    assert graph.x is None
    assert 3 < degrees(graph).mean() < 7


@pytest.mark.parametrize(
    ("call", "argument"),
    [
        (lambda: stochastic_block_model(100, 4, mean_degree=40), "mean_degree"),
        (lambda: stochastic_block_model(100, 4, homophily=1.5), "homophily"),
        (lambda: stochastic_block_model(3, 2), "num_nodes"),
        (lambda: rmat(1, 10), "num_nodes"),
        (lambda: rmat(10, -1), "num_arcs"),
        (lambda: campus(seed=-1), "seed"),
        (lambda: interests(100, homophily=0.1), "homophily"),
        (lambda: interests(100, homophily=0.61), "homophily"),
        (lambda: interests(40), "num_nodes"),
        (lambda: interests(100, num_features=4), "num_features"),
        (lambda: interests(100, set_size=0), "set_size"),
    ],
)
def test_wrong_arguments_are_named(call, argument):
    with pytest.raises(InputError, match=f"Expected {argument} ") as caught:
        call()
    assert "\n" not in str(caught.value)
