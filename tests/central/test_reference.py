"""The ceiling: rows that never hold a node's own label, and networks that are better than what they replace."""

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

import sfumato as sf
from sfumato.central._reference import Reference, directions, grown, label_histograms, neighborhoods, symmetric
from sfumato.graph._graph import Graph
from sfumato.graph._synthetic import stochastic_block_model

NONE = sf.NoPrivacy()


def random_graph(directed, seed):
    rng = np.random.default_rng(seed)
    source, target = rng.integers(0, 12, (2, 30))
    return Graph.from_edges(
        source, target, 12, directed=directed, self_loops="keep" if directed else "remove",
        y=rng.integers(-1, 3, 12), classes=("a", "b", "c"), roles=rng.integers(0, 3, 12).astype(np.uint8),
    )  # fmt: skip


def accuracy(method, graph):
    fitted = method.calibrate(None, NONE, graph.public_facts(NONE)).fit(graph)
    return (fitted.predict(graph) == graph.y)[graph.test_mask].mean()


@pytest.mark.parametrize("directed", [True, False])
@pytest.mark.parametrize("seed", range(5))
def test_no_row_holds_its_own_label(directed, seed):
    graph = random_graph(directed, seed)
    before = label_histograms(graph, directions(graph))
    for node in np.flatnonzero(graph.train_mask & (graph.y >= 0)):
        y = graph.y.copy()
        y[node] = (y[node] + 1) % 3
        after = label_histograms(replace(graph, y=y), directions(graph))
        np.testing.assert_allclose(after[node], before[node], atol=1e-6)


def test_the_test_above_sees_what_returns_after_two_hops():
    graph = Graph.from_edges([0, 1], [1, 2], 3, directed=False, y=[0, 1, 1], roles=[0, 0, 0])
    (hop,) = directions(graph)
    rows = [(hop @ (hop @ np.eye(2)[labels]))[0] for labels in ([0, 1, 1], [1, 1, 1])]
    assert (rows[0] != rows[1]).any()


@pytest.mark.parametrize("directed", [True, False])
def test_labels_of_other_roles_are_not_read(directed):
    graph = random_graph(directed, 1)
    hidden = replace(graph, y=np.where(graph.train_mask, graph.y, -1))
    np.testing.assert_array_equal(
        neighborhoods(graph, directions(graph), np.zeros((12, 0))),
        neighborhoods(hidden, directions(hidden), np.zeros((12, 0))),
    )


def test_a_hop_of_a_path_by_hand():
    graph = Graph.from_edges([0, 1], [1, 2], 3, directed=True)
    hop = symmetric(directions(graph)[0]).toarray()
    root = 1 / np.sqrt(6)
    np.testing.assert_allclose(hop, [[1 / 2, root, 0], [root, 1 / 3, root], [0, root, 1 / 2]], atol=1e-6)


def test_it_is_better_than_two_plain_layers_where_classes_avoid_each_other_and_where_they_do_not():
    for seed, mixing in ((1, 0.8), (2, 0.05)):
        graph = stochastic_block_model(600, 3, mean_degree=12, homophily=mixing, num_features=4, seed=seed).with_split()
        assert accuracy(Reference(epochs=100), graph) > accuracy(sf.SAGE(), graph) - 0.02


def test_graphs_without_features_and_directed_ones_are_learned():
    graph = stochastic_block_model(300, 3, mean_degree=12, num_features=4, seed=3).with_split()
    bare = replace(graph, x=None)
    assert accuracy(Reference(epochs=60), bare) > 0.6
    arcs = np.repeat(np.arange(300), np.diff(graph.indptr)), graph.indices
    directed = Graph.from_edges(*arcs, 300, directed=True, y=graph.y, roles=graph.roles)
    assert accuracy(Reference(epochs=60), directed) > 0.6


def test_trees_tell_pages_that_copy_whom_they_link_to():
    """A page links to the eight pages that one of 40 originals links to, all of any class: no mean over neighbors tells it."""
    rng = np.random.default_rng(0)
    originals, kind = rng.integers(0, 200, (40, 8)), rng.integers(0, 40, 400)
    source, target = np.repeat(np.arange(200, 600), 8), originals[kind].ravel()
    classes = np.concatenate([rng.integers(0, 3, 200), rng.integers(0, 3, 40)[kind]])
    graph = Graph.from_edges(source, target, 600, directed=True, y=classes, classes=("a", "b", "c")).with_split()
    plan = Reference().calibrate(None, NONE, graph.public_facts(NONE))
    opened = SimpleNamespace(seed=0, watch=SimpleNamespace(stage=lambda name: None))
    right = grown(graph, directions(graph), opened).numpy().argmax(1) == graph.y
    assert right[graph.test_mask & (np.arange(600) >= 200)].mean() > 0.95
    assert (plan.fit(graph).predict(graph) == graph.y)[graph.test_mask].mean() > 0.6
