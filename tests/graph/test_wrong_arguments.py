"""Converters take what they document, and answer anything else by an error of ours that tells no value."""

import inspect
import sqlite3
import warnings

import numpy as np
import pytest
import scipy.sparse as sp

from sfumato.errors import DataError, DroppedWarning, InputError, SfumatoError
from sfumato.graph import (
    Graph,
    from_frames,
    from_networkx,
    from_pyg,
    from_scipy,
    read_csv,
    read_parquet,
    read_sql,
    to_networkx,
    to_pyg,
)
from sfumato.privacy.events import ComposedEvent, SelectionEvent

torch = pytest.importorskip("torch")
nx = pytest.importorskip("networkx")
pa = pytest.importorskip("pyarrow")
pd = pytest.importorskip("pandas")
pl = pytest.importorskip("polars")
duckdb = pytest.importorskip("duckdb")
Data = pytest.importorskip("torch_geometric.data").Data

RING = sp.csr_matrix([[0, 1], [1, 0]])


class Hostile:
    """What is no array, and says why with a private value in its words."""

    def __array__(self, *args, **more):
        raise RuntimeError("secret")


ODD = [
    None, True, -1, 2.5, float("nan"), 2**1100, 1j, "", "year", "a\ud800", b"a", [], ["year", "year"], [1], [["a"]],
    {}, {"a": 1}, {1}, object(), np.array([[1.0]]), np.array(["secret"]), np.array([object()]), [[1], [1, 2]],
    pd.DataFrame({"a": ["secret"]}), pl.DataFrame(), sp.coo_array([1, 2, 3]), torch.zeros(2), nx.Graph(), Hostile(), slice(1),
]  # fmt: skip


def club():
    g = nx.path_graph(3)
    for node in g:
        g.nodes[node].update(age=node, year=str(node % 2), role="train", v=[1.0, 2.0])
    nx.set_edge_attributes(g, 1.0, "w")
    return g


def data():
    return Data(edge_index=torch.tensor([[0, 1], [1, 0]]), x=torch.eye(2), y=torch.tensor([0, 1]), w=torch.ones(2))


NODES, EDGES = pd.DataFrame({"id": [1, 2], "year": [3, 4]}), pd.DataFrame({"source": [1], "target": [2], "w": [1.0]})
READING = [*inspect.signature(read_csv).parameters][2:]
READING.remove("told")  # any function will do
FIELDS = [
    "x", "y", "self_loops", "max_weight", "classes", "feature_names", "node_ids", "roles", "name", "targets", "degree_bounds",
    "cells", "max_degree", "mean_degree", "image_shape", "assumed_public",
]  # fmt: skip
CALLS = {
    "frames": (from_frames, {"nodes": NODES, "edges": EDGES}, READING),
    "csv": (read_csv, {"nodes": "nope.csv", "edges": "nope.csv"}, []),
    "parquet": (read_parquet, {"nodes": "nope.parquet", "edges": "nope.parquet"}, []),
    "query": (read_sql, {"connection": duckdb, "nodes": "SELECT 1 AS id", "edges": "SELECT 1 AS u, 1 AS v"}, ["label"]),
    "scipy": (from_scipy, {"adjacency": RING, "directed": True}, FIELDS),
    "pyg": (from_pyg, {"data": data(), "directed": True}, [*inspect.signature(from_pyg).parameters][2:]),
    "networkx": (from_networkx, {"g": club()}, [*inspect.signature(from_networkx).parameters][1:]),
    "to pyg": (to_pyg, {"graph": None}, []),
    "to networkx": (to_networkx, {"graph": None}, []),
    "edges": (Graph.from_edges, {"source": [0], "target": [1], "num_nodes": 2, "directed": True}, ["edge_weight"]),
    "arcs": (Graph.from_arcs, {"source": [0], "target": [1], "num_nodes": 2, "directed": True}, []),
    "rows": (Graph.from_csr, {"indptr": [0, 1, 1], "indices": [1], "directed": True}, []),
}


@pytest.mark.parametrize("call", CALLS)
def test_whatever_is_passed_no_error_is_raw_and_none_tells_a_value(call):
    build, usual, more = CALLS[call]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for name in [*usual, *more]:
            for odd in ODD:
                said = ""
                try:
                    build(**{**usual, name: odd})
                except SfumatoError as error:
                    said = str(error)
                assert "secret" not in said, name


@pytest.mark.parametrize("call", ["frames", "scipy", "pyg", "networkx", "edges", "arcs", "rows"])
def test_unknown_arguments_are_those_of_python(call):
    build, usual, _ = CALLS[call]
    with pytest.raises(TypeError, match="unexpected keyword argument 'lable'"):
        build(**usual, lable="year")


def test_other_connections_are_refused():
    with (
        sqlite3.connect(":memory:") as connection,
        pytest.raises(InputError, match=r"DuckDB.*got 'Connection'.*ATTACH"),
    ):
        read_sql(connection, "SELECT 1 AS id", "SELECT 1 AS u, 1 AS v")


@pytest.mark.parametrize("events", [True, None, 3, "gaussian", [3]])
def test_events_are_composed_of_events_alone(events):
    with pytest.raises(InputError, match="events"):
        ComposedEvent(events)
    for candidates in (events, (events,)):
        with pytest.raises(InputError, match="candidates"):
            SelectionEvent(candidates, "logarithmic", 10)


@pytest.mark.parametrize(
    ("matrix", "said"),
    [
        (sp.coo_array([1, 2, 3]), r"square, got shape \(3,\)"),
        (sp.csr_matrix([[0, 1j], [0, 0]]), "numbers, got entries of complex128"),
        (sp.csr_matrix(np.array([[0, np.nan], [0, 0]])), "finite numbers"),
        (sp.csr_matrix(np.array([[0, np.inf], [0, 0]])), "finite numbers"),
        (sp.coo_matrix(([np.inf, -np.inf], ([0, 0], [1, 1])), shape=(2, 2)), "finite numbers"),
    ],
)
def test_matrices_hold_finite_numbers(matrix, said):
    with pytest.raises(DataError, match=said):
        from_scipy(matrix, directed=True)


@pytest.mark.parametrize("form", [sp.coo_matrix, sp.coo_array])
def test_entries_of_one_place_are_added_as_a_matrix_is_read(form):
    where = ([0, 0, 1, 1, 2, 2], [1, 1, 0, 0, 0, 0])
    cancelled = form((np.array([1, -1, 2, 3, 200, 56], np.int16), where), shape=(3, 3))
    with pytest.warns(DroppedWarning, match="weights of adjacency"):
        assert from_scipy(cancelled, directed=True).indptr.tolist() == [0, 0, 1, 2]
    weighted = from_scipy(cancelled, directed=True, max_weight=1000)
    assert weighted.weights.values.tolist() == pytest.approx([5, 256], rel=1e-2)
    wrapping = form((np.array([200, 56], np.uint8), ([0, 0], [1, 1])), shape=(2, 2))
    assert from_scipy(wrapping, directed=True, max_weight=512).weights.values.tolist() == [256]
    with warnings.catch_warnings(action="error"):
        twice = form((np.array([True, True]), ([0, 0], [1, 1])), shape=(2, 2))
        assert from_scipy(twice, directed=True).num_arcs == 1
    assert cancelled.nnz == 6  # the matrix that was given stays as it is


@pytest.mark.parametrize("kind", [np.uint8, np.uint16, np.uint32, np.uint64])
def test_what_minus_one_becomes_in_unsigned_numbers_is_no_class(kind):
    y = np.array([0, 1, -1]).astype(kind)
    graph = {"source": [0], "target": [1], "num_nodes": 3, "directed": False}
    with pytest.raises(DataError, match=r"y\[2\] is"):
        Graph.from_edges(**graph, y=y)
    with pytest.raises(DataError, match="Expected cells"):
        Graph.from_edges(**graph, cells=y)
    if kind is np.uint8:
        data = Data(edge_index=torch.zeros(2, 0, dtype=torch.long), y=torch.tensor(y), num_nodes=3)
        with pytest.raises(DataError, match="the largest number of uint8, which -1 for missing becomes there"):
            from_pyg(data, directed=True)
        declared = Graph.from_edges(**graph, y=y, classes=[str(one) for one in range(256)])
        assert declared.y.tolist() == [0, 1, 255]


def test_names_of_features_are_distinct_in_every_graph():
    with pytest.raises(InputError, match="feature_names to be distinct names, got 'a' twice"):
        from_scipy(RING, np.eye(2), directed=True, feature_names=["a", "a"])
