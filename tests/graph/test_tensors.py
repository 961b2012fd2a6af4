"""Tensors of any type and layout are read from PyTorch Geometric, and masks that are none are refused with what to do."""

import numpy as np
import pytest
import scipy.sparse as sp
import torch
from torch_geometric.data import Data

from sfumato.errors import DataError, InputError
from sfumato.graph import Graph, from_pyg, to_pyg

EDGES = torch.tensor([[0, 1, 2, 1, 2, 3], [1, 2, 3, 0, 1, 2]])
X = torch.tensor([[0.5, 0], [1, -2], [0, 0], [3, 4]])


def read(**fields):
    return from_pyg(Data(edge_index=EDGES, **{"num_nodes": 4, **fields}), directed=False)


HELD = {
    "bfloat16": X.to(torch.bfloat16),
    "float16": X.half(),
    "float64": X.double(),
    "needs a gradient": X.clone().requires_grad_(),
    "not contiguous": X.t().contiguous().t(),
    "every second row": X.repeat_interleave(2, 0)[::2],
    "coo": X.to_sparse(),
    "csr": "to_sparse_csr",
    "csc": "to_sparse_csc",
    "sparse bfloat16": X.to(torch.bfloat16).to_sparse(),
    "sparse with a gradient": X.to_sparse().requires_grad_(),
    "repeated entries": torch.sparse_coo_tensor(
        [[0, 0, 1, 1, 3, 3], [0, 0, 0, 1, 0, 1]], [0.25, 0.25, 1, -2, 3, 4], (4, 2), check_invariants=True
    ),
    "rows of sparse": torch.sparse_coo_tensor([[0, 1, 3]], X[[0, 1, 3]], (4, 2), check_invariants=True),
    "array": X.numpy(),
    "list": X.tolist(),
    "scipy": sp.coo_matrix(X.numpy()),
    "conjugate view": torch.complex(X, X).conj().real,
    "parameter": torch.nn.Parameter(X),
}


@pytest.mark.filterwarnings("ignore:Sparse (CSR|CSC) tensor support:UserWarning")
@pytest.mark.parametrize("x", HELD.values(), ids=HELD)
def test_features_are_the_same_however_they_are_held(x):
    found = read(x=getattr(X, x)() if isinstance(x, str) else x).x
    assert found.dtype == np.float32
    np.testing.assert_array_equal(found.toarray() if sp.issparse(found) else found, X.numpy())


@pytest.mark.parametrize("kind", [torch.int8, torch.uint8, torch.int16, torch.int64, torch.bool])
def test_whole_numbers_are_features(kind):
    np.testing.assert_array_equal(read(x=X.abs().to(kind)).x, X.abs().to(kind).float().numpy())


WRONG = {
    "complex": (torch.complex(X, X), "data.x to be a tensor of numbers, got complex64"),
    "meta": (X.to("meta"), "data.x to be a tensor of numbers"),
    "text": (["a", "b", "c", "d"], "data.x to be a tensor of numbers, got list"),
    "one number a node": (X[:, 0], r"Expected x to be numbers of shape \[4, num_features\]"),
    "three axes": (X[:, :, None], "Expected x to be numbers of shape"),
    "another count": (X[:3], "Expected x to be numbers of shape"),
    "sparse complex": (torch.complex(X, X).to_sparse(), "Expected x to be numbers of shape"),
}


@pytest.mark.parametrize(("x", "said"), WRONG.values(), ids=WRONG)
def test_other_features_are_refused(x, said):
    with pytest.raises(DataError, match=said):
        read(x=x)


@pytest.mark.parametrize(
    "y", [[0, 1, 1, -1], torch.tensor([0.0, 1, 1, -1]).bfloat16(), torch.tensor([[0], [1], [1], [-1]])]
)
def test_labels_are_read_from_any_type(y):
    assert read(y=y).y.tolist() == [0, 1, 1, -1]


@pytest.mark.parametrize("mask", [torch.tensor([True, False, False, True]), [True, False, False, True]])
def test_masks_are_read(mask):
    assert read(train_mask=mask).roles.tolist() == [0, 3, 3, 0]


NO_MASK = {
    "list of numbers": ([0, 2, 3], "make a mask: mask = torch.zeros"),
    "tensor of numbers": (torch.tensor([0, 2, 3]), "data.train_mask = mask"),
    "as many numbers as nodes": (torch.tensor([0, 1, 2, 3]), "make a mask"),
    "bytes": (torch.tensor([1, 0, 0, 1], dtype=torch.uint8), r"data.train_mask = data.train_mask.bool\(\)"),
    "floats": (torch.tensor([1.0, 0, 0, 1]), r"got float32 of shape \(4,\). Convert it, if it is a mask"),
    "too short": (torch.tensor([True, False]), "Give one True or False a node"),
    "none": (torch.zeros(0, dtype=torch.bool), "Give one True or False a node"),
    "public splits": (torch.ones(4, 10, dtype=torch.bool), r"data.train_mask = data.train_mask\[:, 0\]"),
    "one public split": (torch.ones(4, 1, dtype=torch.bool), r"data.train_mask = data.train_mask\[:, 0\]"),
    "for arcs": (torch.zeros(6, dtype=torch.bool), "Give one True or False a node"),
    "one number": (torch.tensor(2), "Expected train_mask to be bool"),
    "text": ("0,2,3", "data.train_mask to be a tensor of numbers, got str"),
}


@pytest.mark.parametrize(("mask", "said"), NO_MASK.values(), ids=NO_MASK)
def test_what_is_no_mask_is_refused_with_what_to_do(mask, said):
    with pytest.raises(DataError, match=said):
        read(train_mask=mask)


@pytest.mark.filterwarnings("ignore:Unable to accurately infer 'num_nodes':UserWarning")
def test_nodes_are_counted_by_what_says_it_and_never_by_ids_far_above_the_arcs():
    edges = torch.tensor([[0, 10**9], [10**9, 0]])
    with pytest.raises(DataError, match=r"Expected data.num_nodes beside edge_index"):
        from_pyg(Data(edge_index=edges), directed=False)
    data = Data(edge_index=EDGES, y=torch.tensor([0, 1, 0, 1, 0]))
    assert from_pyg(data, directed=False).num_nodes == 5


@pytest.mark.parametrize("edges", [EDGES.double(), EDGES[0], EDGES.t(), "0 1"])
def test_other_ends_of_arcs_are_refused(edges):
    with pytest.raises(DataError, match=r"edge_index|integers"):
        from_pyg(Data(edge_index=edges, num_nodes=4), directed=False)


@pytest.mark.parametrize("directed", [True, False])
def test_a_graph_goes_there_and_comes_back(directed):
    x = np.array([[1, 0], [0, 2], [0, 0], [3, 3]])
    fields = {"y": [0, 1, -1, 1], "classes": ("0", "1"), "roles": [0, 1, 2, 3]}
    for held in (x, sp.csr_matrix(x)):
        graph = Graph.from_edges([0, 1, 2], [1, 2, 3], 4, directed=directed, x=held, **fields)
        data = to_pyg(graph)
        again = from_pyg(data, directed=directed)
        for name in ("indptr", "indices", "y", "roles"):
            assert np.array_equal(getattr(again, name), getattr(graph, name)), name
        assert (again.directed, again.classes, again.x.tolist()) == (directed, ("0", "1"), x.tolist())
        assert again.assumed_public == ("num_features", "classes", "rare classes")
        assert data.edge_index.dtype == torch.int64
    assert sp.issparse(read(x=X.to_sparse()).x)
    data = to_pyg(graph := Graph.from_edges([0], [1], 4, directed=True, x=x))
    data.x[0, 0] = 9
    assert graph.x[0, 0] == 1, "tensors are copies"


def test_pyg_columns_of_labels_and_partial_masks():
    data = Data(
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
def test_pyg_errors_teach(fields, directed, message):
    data = Data(num_nodes=3, **{name: torch.tensor(values) for name, values in fields.items()})
    with pytest.raises(InputError, match=message):
        from_pyg(data, directed)


def test_pyg_wants_the_direction_said():
    with pytest.raises(TypeError, match="directed"):
        from_pyg(Data(num_nodes=1))
