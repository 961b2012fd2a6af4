"""Class numbers that would make a list of classes far longer than the graph are refused, whoever builds the graph."""

import json

import numpy as np
import pytest
import scipy.sparse as sp
import torch
from torch_geometric.data import Data

import sfumato as sf
from sfumato.errors import DataError
from sfumato.graph._graph import Graph

RING = np.array([[0, 1, 2], [1, 2, 0]])


def by_pyg(y):
    edges = torch.tensor(np.hstack([RING, RING[::-1]]))
    return sf.graph.from_pyg(Data(edge_index=edges, y=torch.as_tensor(y), num_nodes=3), directed=False)


def by_edges(y):
    return Graph.from_edges(*RING, 3, directed=False, y=y)


def by_arcs(y):
    return Graph.from_arcs(*np.hstack([RING, RING[::-1]]), 3, directed=False, y=y)


def by_rows(y):
    return Graph.from_csr([0, 1, 2, 3], [1, 2, 0], directed=True, y=y)


def by_scipy(y):
    return sf.graph.from_scipy(sp.csr_matrix((np.ones(3), RING), (3, 3)), y=y, directed=True)


BUILDERS = [by_pyg, by_edges, by_arcs, by_rows, by_scipy]
WRONG = {
    "far above": np.array([0, 10**9, 2005]),
    "years": np.array([2004, 2005, 2004]),
    "largest": np.array([0, 1, 2**63 - 1]),
    "floats": np.array([0, 1e9, 1]),
    "huge floats": np.array([0, 1e300, 1]),
    "below -1": np.array([0, -2, 1]),
    "smallest": np.array([0, -(2**63), 1]),
    "fraction": np.array([0, 1.5, 1]),
    "negative fraction": np.array([0, -0.5, 1]),
    "missing as NaN": np.array([0, np.nan, 1]),
    "infinite": np.array([0, np.inf, 1]),
}
UNSIGNED = {"2**63": np.array([0, 1, 2**63], np.uint64), "2**64 - 1": np.array([0, 1, 2**64 - 1], np.uint64)}


@pytest.mark.parametrize("build", BUILDERS)
@pytest.mark.parametrize("y", WRONG.values(), ids=WRONG)
def test_other_class_numbers_are_refused(build, y):
    with pytest.raises(DataError, match=r"Expected y to be (a class from 0 to 999|class numbers).*y\[\d\]"):
        build(y)


@pytest.mark.parametrize("build", BUILDERS[1:])
@pytest.mark.parametrize("y", UNSIGNED.values(), ids=UNSIGNED)
def test_unsigned_numbers_do_not_turn_negative(build, y):
    with pytest.raises(DataError, match=r"but y\[2\] is not"):
        build(y)


@pytest.mark.parametrize("build", BUILDERS)
@pytest.mark.parametrize("kind", ["int8", "uint8", "int16", "int64", "float32", "float64", "bool"])
def test_whole_numbers_of_any_type_are_classes(build, kind):
    graph = build(np.array([0, 1, 1]).astype(kind))
    assert (graph.y.dtype, graph.y.tolist(), graph.classes) == (np.int64, [0, 1, 1], ("0", "1"))


def test_a_graph_may_have_as_many_classes_as_nodes_and_declared_ones_are_the_limit():
    assert Graph.from_edges([0], [1], 1500, directed=False, y=np.arange(1500)).num_classes == 1500
    with pytest.raises(DataError, match=r"from 0 to 1499 \(no classes are declared\)"):
        Graph.from_edges([0], [1], 1500, directed=False, y=np.arange(1500) + 1)
    with pytest.raises(DataError, match=r"from 0 to 1 \(2 classes\)"):
        Graph.from_edges([0], [1], 2, directed=False, y=[0, 2], classes=("a", "b"))


def test_a_store_without_its_classes_is_refused(tmp_path):
    store = by_edges(np.array([0, 1, -1])).save(tmp_path / "store")
    np.save(store / "y.npy", np.array([0, 10**9, 2005]))
    facts = json.loads((store / "graph.json").read_text())
    (store / "graph.json").write_text(json.dumps(facts | {"classes": []}))
    with pytest.raises(DataError, match=r"y\[1\] is not"):
        Graph.load(store)


def test_ids_and_cells_of_unsigned_numbers_are_not_wrapped():
    large = np.array([0, 1, 2**63], np.uint64)
    with pytest.raises(DataError, match=r"2\*\*63 or more"):
        Graph.from_edges(*RING, 3, directed=False, node_ids=large)
    with pytest.raises(DataError, match="Expected cells"):
        Graph.from_edges(*RING, 3, directed=False, cells=large)
