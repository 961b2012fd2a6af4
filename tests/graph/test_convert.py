"""Graphs from and to PyTorch Geometric and NetworkX."""

import numpy as np
import pytest
import scipy.sparse as sp

from sfumato.errors import DataError, InputError, SchemaError
from sfumato.graph import Graph, from_networkx, from_pyg, to_networkx, to_pyg

nx = pytest.importorskip("networkx")
torch = pytest.importorskip("torch")

pytestmark = pytest.mark.filterwarnings("ignore:`torch.jit.script` is deprecated:DeprecationWarning")


@pytest.fixture
def new_data():
    return pytest.importorskip("torch_geometric.data").Data


@pytest.fixture(params=[True, False])
def graph(request):
    return Graph.from_edges(
        [0, 1, 2],
        [1, 2, 3],
        4,
        directed=request.param,
        x=np.array([[1, 0], [0, 2], [0, 0], [3, 3]]),
        y=[0, 1, -1, 1],
        classes=("0", "1"),
        roles=[0, 1, 2, 3],
    )


def same(one, other):
    assert one.directed == other.directed
    assert np.array_equal(one.indptr, other.indptr)
    assert np.array_equal(one.indices, other.indices)
    assert np.array_equal(one.x, other.x)
    assert np.array_equal(one.y, other.y)
    assert np.array_equal(one.roles, other.roles)
    assert one.classes == other.classes


def test_pyg_round_trip(graph):
    again = from_pyg(to_pyg(graph), directed=graph.directed)
    same(again, graph)
    assert again.assumed_public == ("num_features", "classes", "rare classes")


def test_pyg_gets_copies_and_dense_features(graph):
    data = to_pyg(graph)
    data.x[0, 0] = 9
    assert graph.x[0, 0] == 1
    sparse = Graph.from_edges([0], [1], 4, directed=True, x=sp.csr_matrix(graph.x))
    assert to_pyg(sparse).x.tolist() == graph.x.tolist()
    assert to_pyg(sparse).edge_index.dtype == torch.int64


def test_sparse_torch_features_stay_sparse(new_data):
    x = torch.eye(3).to_sparse()
    graph = from_pyg(new_data(edge_index=torch.zeros(2, 0, dtype=torch.long), x=x), directed=True)
    assert isinstance(graph.x, sp.csr_matrix)
    assert graph.x.toarray().tolist() == np.eye(3).tolist()


def test_pyg_columns_of_labels_and_partial_masks(new_data):
    data = new_data(
        edge_index=torch.tensor([[0, 1, 1], [1, 0, 1]]),
        y=torch.tensor([[0], [1]]),
        num_nodes=2,
        train_mask=torch.tensor([True, False]),
    )
    graph = from_pyg(data, directed=False)
    assert graph.y.tolist() == [0, 1]
    assert graph.roles.tolist() == [0, 3]
    assert graph.merged["self_loops"] == 1


@pytest.mark.parametrize(
    ("fields", "directed", "message"),
    [
        ({"edge_index": [[0], [1]]}, False, "an arc without its reverse"),
        ({"edge_index": [[0], [1]]}, None, "Declare the direction"),
        ({"edge_index": [[0, 1]]}, True, r"shape \[2, num_arcs\], got \(1, 2\)"),
        ({"edge_index": [[0], [9]]}, True, r"target\[0\] is no node"),
        ({}, True, "edge_index, got Data without it"),
        ({"edge_index": [[0], [1]], "y": [[0, 1], [1, 2], [1, 1]]}, True, "0, 1 or missing"),
        ({"edge_index": [[0], [1]], "y": [0.5, 1.0, 2.0]}, True, "For a number"),
        ({"edge_index": [[0], [1]], "x": [[float("nan")], [0.0], [0.0]]}, True, r"x\[0, 0\] is not"),
        ({"edge_index": [[0], [1]], "train_mask": [[True], [False], [True]]}, True, "Choose one split"),
        ({"edge_index": [[0], [1]], "train_mask": [0, 1, 2]}, True, "train_mask to be bool"),
        (
            {"edge_index": [[0], [1]], "train_mask": [True, True, False], "test_mask": [False, True, False]},
            True,
            "node 1 is in two. Correct test_mask",
        ),
    ],
)
def test_pyg_errors_teach(new_data, fields, directed, message):
    data = new_data(num_nodes=3, **{name: torch.tensor(values) for name, values in fields.items()})
    with pytest.raises(InputError, match=message):
        from_pyg(data, directed)


def test_pyg_wants_the_direction_said(new_data):
    with pytest.raises(TypeError, match="directed"):
        from_pyg(new_data(num_nodes=1))


def test_networkx_round_trip(graph):
    again = from_networkx(to_networkx(graph), label="label", features="x", role="role")
    same(again, graph)
    assert again.assumed_public == ("num_features", "classes", "rare classes")


def test_networkx_round_trip_of_ids_and_sparse_features():
    graph = Graph.from_edges([0], [2], 3, directed=False, node_ids=["a", "b", "c"], x=sp.csr_matrix(np.eye(3)))
    g = to_networkx(graph)
    assert sorted(g.edges) == [("a", "c")]
    assert g.nodes["b"] == {"x": [0.0, 1.0, 0.0]}
    again = from_networkx(g, features="x")
    assert again.node_ids.tolist() == ["a", "b", "c"]
    assert again.x.tolist() == np.eye(3).tolist()


def test_networkx_attributes_are_encoded_like_columns():
    g = nx.DiGraph([("a", "b"), ("b", "a"), (("c", 1), "a")])
    for node, age, dorm in zip(g, (1, 2, 3), ("n", None, "s"), strict=True):
        g.nodes[node].update(age=age, dorm=dorm, year=2000 + age)
    graph = from_networkx(g, label="year", features=["age", "dorm"])
    assert graph.directed
    assert graph.node_ids.tolist() == ["a", "b", "('c', 1)"]
    assert graph.indices.tolist() == [1, 0, 0]
    assert graph.x.tolist() == [[1, 1, 0], [2, 0, 0], [3, 0, 1]]
    assert graph.classes == ("2001", "2002", "2003")
    assert graph.assumed_public == ("num_features", "rare categories of column dorm", "classes", "rare classes")
    schema = {"classes": [2001, 2002, 2003], "columns": {"age": {}, "dorm": {"categories": ["n", "s"]}}}
    assert from_networkx(g, label="year", features=["age", "dorm"], schema=schema).assumed_public == ()
    partly = from_networkx(
        g, label="year", features=["age"], schema={"classes": [2002], "columns": {"age": {"max": 2}}}
    )
    assert (partly.y.tolist(), partly.x.ravel().tolist()) == ([-1, 0, -1], [1, 2, 2])
    assert partly.outside == {"age": 1, "year": 2}
    with pytest.raises(SchemaError, match="'year' to hold some of the classes 1999, got none"):
        from_networkx(g, label="year", schema={"classes": [1999]})
    with pytest.raises(SchemaError, match="directed=True in g beside directed=False"):
        from_networkx(g, schema={"directed": False})


def test_networkx_without_attributes_or_edges():
    graph = from_networkx(nx.empty_graph(3))
    assert (graph.num_nodes, graph.num_arcs, graph.x, graph.y) == (3, 0, None, None)


@pytest.mark.parametrize(
    ("g", "how", "message"),
    [
        (nx.MultiGraph([(0, 1)]), {}, "simple graph, got MultiGraph"),
        (nx.Graph(), {}, "at least one node"),
        (nx.path_graph(2), {"label": "year"}, "attribute 'year', got none with it"),
        (nx.Graph([(1, "1")]), {}, "every node once, but column 'id' of the nodes of g has 1 in rows 1 and 2"),
    ],
)
def test_networkx_errors_teach(g, how, message):
    with pytest.raises(DataError, match=message):
        from_networkx(g, **how)


@pytest.mark.parametrize(
    ("values", "features", "message"),
    [
        (([1.0, 2.0], None), "v", "list of 2 numbers on every node, but node 1 has something else"),
        (([1.0, 2.0], [1.0]), "v", "list of 2 numbers"),
        ((1.0, 2.0), "v", "list of some numbers"),
        ((["a"], ["b"]), "v", "list of 1 numbers"),
        ((1, "a"), ["v"], "values of one kind"),
    ],
)
def test_networkx_feature_vectors_are_checked(values, features, message):
    g = nx.path_graph(2)
    for node, value in enumerate(values):
        g.nodes[node]["v"] = value
    with pytest.raises(DataError, match=message) as caught:
        from_networkx(g, features=features)
    assert "\n" not in str(caught.value)
