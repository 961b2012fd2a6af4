"""Graphs from data frames, Arrow tables and sparse matrices."""

import warnings
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp

from sfumato.errors import DataError, DroppedWarning, InputError
from sfumato.graph import Graph, from_frames, from_networkx, from_pyg, from_scipy, read_csv

pd = pytest.importorskip("pandas")
pa = pytest.importorskip("pyarrow")

NODES = "id,age,dorm,year\nann,3,north,2005\nbob,,,2004\n007,6,south,\n"
EDGES = "to,from,weight\nann,bob,0.5\nbob,007,2\n"


class Stream:
    """Any other frame, such as one of Polars: it speaks Arrow, and nothing else is known of it."""

    def __init__(self, table):
        self.table = table

    def __arrow_c_stream__(self, requested_schema=None):
        return self.table.__arrow_c_stream__(requested_schema)


@pytest.fixture
def files(written):
    return written(NODES, EDGES)


@pytest.mark.parametrize("kind", [lambda frame: frame, pa.Table.from_pandas, lambda f: Stream(pa.Table.from_pandas(f))])
def test_frames_give_the_graph_of_the_files(files, kind):
    how = {"label": "year", "schema": {"columns": {"age": {"min": 0, "max": 10}}}}
    frames = [kind(pd.read_csv(path, dtype={"id": str, "from": str, "to": str})) for path in files]
    graph, other = from_frames(*frames, **how), read_csv(*files, **how)
    assert graph.node_ids.tolist() == other.node_ids.tolist() == ["ann", "bob", "007"]
    assert graph.feature_names == other.feature_names
    assert graph.x.tolist() == other.x.tolist()
    assert graph.x[:, 0].tolist() == pytest.approx([0.3, 0.0, 0.6])  # bob has no value at all
    assert (graph.classes, graph.y.tolist()) == (other.classes, other.y.tolist()) == (("2004", "2005"), [1, 0, -1])
    assert graph.indices.tolist() == other.indices.tolist()
    assert graph.assumed_public == other.assumed_public


def test_a_named_index_is_a_column_and_no_other(files):
    nodes, edges = (pd.read_csv(path, dtype=str) for path in files)
    kept = from_frames(nodes.set_index("id")[["dorm"]], edges)
    assert kept.node_ids.tolist() == ["ann", "bob", "007"]
    assert from_frames(nodes.iloc[::-1][["id", "dorm"]], edges).feature_names == ("dorm=north", "dorm=south")


def test_missing_numbers_become_the_public_default():
    nodes = pd.DataFrame({"id": [1, 2], "a": [None, 40.0], "b": [None, 3.0], "c": [np.nan, 1.0], "d": ["x", None]})
    schema = {"columns": {"a": {"min": 20, "max": 60}, "b": {"min": 2}}}
    graph = from_frames(nodes, pd.DataFrame({"u": [1], "v": [2]}), schema=schema)
    assert graph.x.tolist() == [[0.5, 2, 0, 1], [0.5, 3, 1, 0]]
    assert graph.outside == {}


def test_what_is_no_table_is_refused(files):
    edges = pd.DataFrame({"u": [1], "v": [1]})
    with pytest.raises(InputError, match="nodes to be a table of pandas, Polars or Arrow, got 'int'"):
        from_frames(3, edges)
    with pytest.raises(DataError, match="every column of nodes to hold values of one kind") as caught:
        from_frames(pd.DataFrame({"id": [1, 2], "a": ["secret", 3]}), edges)
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize("kind", [sp.csr_matrix, sp.coo_array, sp.csc_array])
def test_matrices_hold_arcs_where_entries_differ_from_zero(kind):
    matrix = kind(np.array([[0, 1, 0], [0, 0, 1], [0, 0, 0]]))
    graph = from_scipy(matrix, np.eye(3), [0, 1, 0], directed=True)
    assert (graph.indptr.tolist(), graph.indices.tolist()) == ([0, 1, 2, 2], [1, 2])
    assert graph.assumed_public == ("num_features", "classes", "rare classes")
    with pytest.raises(DataError, match="reverse"):
        from_scipy(matrix, directed=False)


def test_stored_zeros_are_no_arcs():
    matrix = sp.csr_matrix((np.array([0.0, 1.0]), ([0, 1], [1, 0])), shape=(2, 2))
    assert from_scipy(matrix, directed=True).indices.tolist() == [0]


def test_matrices_are_checked():
    with pytest.raises(InputError, match="sparse matrix of SciPy, got 'ndarray'"):
        from_scipy(np.eye(2), directed=False)
    with pytest.raises(DataError, match="square"):
        from_scipy(sp.csr_matrix((2, 3)), directed=False)
    with pytest.raises(InputError, match="directed"):
        from_scipy(sp.csr_matrix((2, 2)), directed=None)


def told(read):
    """What a reader says that it leaves out."""
    with warnings.catch_warnings(record=True, action="always", category=DroppedWarning) as caught:
        read()
    assert {Path(one.filename).name for one in caught} <= {"test_frames.py"}
    return [str(one.message) for one in caught if one.category is DroppedWarning]


def test_readers_name_what_they_leave_out(files):
    nx, torch = pytest.importorskip("networkx"), pytest.importorskip("torch")
    data = pytest.importorskip("torch_geometric.data").Data
    edge_index = torch.tensor([[0, 1], [1, 0]])
    assert told(lambda: read_csv(*files)) == [f"Not read: weight of {files[1]}. Every edge counts the same."]
    g = nx.Graph([(0, 1, {"weight": 2.0}), (1, 2, {"since": 3})])
    assert told(lambda: from_networkx(g)) == ["Not read: since, weight of the edges of g. Every edge counts the same."]
    weighted = data(edge_index=edge_index, edge_attr=torch.ones(2, 1), num_nodes=2)
    assert told(lambda: from_pyg(weighted, directed=False)) == [
        "Not read: edge_attr of data. Every edge counts the same."
    ]
    assert told(lambda: from_scipy(2 * sp.eye(2), directed=False)) == [
        "Not read: weights of adjacency. Every edge counts the same."
    ]
    assert told(lambda: from_scipy(sp.csr_matrix([[0, 1], [1, 0]]), directed=False)) == []
    assert told(lambda: from_networkx(nx.path_graph(3))) == []
    assert told(lambda: Graph.from_edges([0], [1], 2, directed=False)) == []
