"""PATE on graphs: a node and all of its arcs reach one teacher."""

import numpy as np
import pytest
import scipy.sparse as sp
import torch

from sfumato.errors import InputError
from sfumato.graph._graph import Graph
from sfumato.graph._subgraph import induced
from sfumato.graph._synthetic import stochastic_block_model
from sfumato.pate import _graph_teachers as graph_teachers
from sfumato.pate._graph_teachers import GraphTeachers
from sfumato.pate._teachers import assign

NODES, TEACHERS = 24, 3
SETTINGS = GraphTeachers(TEACHERS, 3, 2, width=4, epochs=3)


@pytest.fixture
def graph():
    generator = np.random.default_rng(0)
    source, target = generator.integers(0, NODES, (2, 90))
    x, y = generator.random((NODES, 3), np.float32), generator.integers(0, 2, NODES)
    return Graph.from_edges(source, target, NODES, directed=False, x=x, y=y)


def edges(graph):
    source = np.repeat(np.arange(graph.num_nodes), np.diff(graph.indptr))
    return source, graph.indices


def without(graph, node):
    """The graph in which this node's record is empty: features, label and every arc."""
    source, target = edges(graph)
    kept = (source != node) & (target != node) & (source < target)
    x, y = graph.x.copy(), graph.y.copy()
    x[node], y[node] = 0, -1
    return Graph.from_edges(
        source[kept], target[kept], graph.num_nodes, directed=False, x=x, y=y, classes=graph.classes
    )


def changed_teachers(first, second):
    return {
        i
        for i, (a, b) in enumerate(zip(first.models, second.models, strict=True))
        if any(not torch.equal(p, q) for p, q in zip(a.parameters(), b.parameters(), strict=True))
    }


def check_one_node_one_teacher(graph, settings=SETTINGS):
    queries = stochastic_block_model(30, 2, seed=1)
    x = np.random.default_rng(5).random((queries.num_nodes, 3), np.float32)
    queries = Graph.from_csr(queries.indptr, queries.indices, directed=False, x=x)
    before = settings.fit(graph)
    votes, moved = before.votes(queries), 0
    for node in range(graph.num_nodes):
        after = settings.fit(without(graph, node))
        assert changed_teachers(before, after) == {assign([node], settings.num_teachers)[0]}
        difference = after.votes(queries) - votes
        assert np.square(difference).sum(axis=1).max() <= 2
        moved += np.abs(difference).sum()
    return moved


def test_one_node_reaches_one_teacher(graph):
    assert check_one_node_one_teacher(graph) > 0


def test_arcs_across_groups_are_caught(monkeypatch, graph):
    """A group with its neighbors in other groups, as a sampler over the whole graph would give."""

    def with_neighbors(whole, nodes):
        source, target = edges(whole)
        return induced(whole, np.union1d(nodes, target[np.isin(source, nodes)]))

    monkeypatch.setattr(graph_teachers, "induced", with_neighbors)
    with pytest.raises(AssertionError):
        check_one_node_one_teacher(graph)


def test_groups_by_structure_are_caught(monkeypatch, graph):
    class ByDegree(GraphTeachers):
        def fit(self, whole, progress=None):
            order = np.argsort(np.diff(whole.indptr), kind="stable")
            monkeypatch.setattr(graph_teachers, "parts", lambda ids, teachers, seed: np.array_split(order, teachers))
            return super().fit(whole, progress)

    with pytest.raises(AssertionError):
        check_one_node_one_teacher(graph, ByDegree(TEACHERS, 3, 2, width=4, epochs=3))


def test_order_of_nodes_and_ids(graph):
    """A graph stored in another order under the same ids gives the same groups."""
    order = np.random.default_rng(2).permutation(NODES)
    first, second = SETTINGS.fit(graph), SETTINGS.fit(induced(graph, order))
    assert changed_teachers(first, second) == set()


def test_labels_of_other_roles_are_not_learned(graph):
    roles = np.where(np.arange(NODES) % 2, 0, 2).astype(np.uint8)
    y = np.where(roles == 0, graph.y, 1 - graph.y)
    first = SETTINGS.fit(graph.with_roles(roles))
    other = Graph.from_csr(graph.indptr, graph.indices, directed=False, x=graph.x, y=y, roles=roles)
    assert changed_teachers(first, SETTINGS.fit(other)) == set()
    assert changed_teachers(first, SETTINGS.fit(graph)) == {0, 1, 2}


def test_teachers_learn_and_sparse_features_do():
    whole = stochastic_block_model(300, 3, seed=0)
    noise = np.random.default_rng(0).random((300, 3))
    x = (np.eye(3)[whole.y] + 2 * noise).astype(np.float32)
    graph = Graph.from_csr(whole.indptr, whole.indices, directed=False, x=x, y=whole.y)
    private, public = induced(graph, np.arange(0, 300, 2)), induced(graph, np.arange(1, 300, 2))
    trained = GraphTeachers(4, 3, 3).fit(private)
    assert (trained.votes(public).argmax(axis=1) == public.y).mean() > 0.8
    sparse = Graph.from_csr(private.indptr, private.indices, directed=False, x=sp.csr_matrix(private.x), y=private.y)
    assert (GraphTeachers(4, 3, 3).fit(sparse).votes(public).argmax(axis=1) == public.y).mean() > 0.8


def test_a_group_without_labels_votes_its_number(graph):
    y = np.where(np.arange(NODES), -1, graph.y)
    unlabeled = Graph.from_csr(graph.indptr, graph.indices, directed=False, x=graph.x, y=y, classes=("a", "b"))
    others = [teacher for teacher in range(TEACHERS) if teacher != assign([0], TEACHERS)[0]]
    predicted = SETTINGS.fit(unlabeled).predict(graph)
    assert [set(predicted[teacher].tolist()) for teacher in others] == [{teacher % 2} for teacher in others]


def test_a_caller_s_random_state_is_left(graph):
    torch.manual_seed(3)
    expected = torch.rand(1)
    torch.manual_seed(3)
    SETTINGS.fit(graph)
    assert torch.rand(1) == expected


@pytest.mark.parametrize(
    ("settings", "fragment"),
    [({"num_features": 4}, "num_features=4"), ({"num_classes": 2, "num_features": 3}, "num_classes=2")],
)
def test_graphs_other_than_declared_are_named(graph, settings, fragment):
    three = Graph.from_csr(graph.indptr, graph.indices, directed=False, x=graph.x, y=np.arange(NODES) % 3)
    with pytest.raises(InputError) as error:
        GraphTeachers(**{"num_teachers": 2, "num_classes": 3, **settings}).fit(three)
    assert fragment in str(error.value)
    with pytest.raises(InputError, match="backbone"):
        GraphTeachers(2, 3, 2, backbone="transformer")
