"""Networks: shapes, gradients through sparse rows, normalized encodings."""

import numpy as np
import pytest
import scipy.sparse as sp
import torch
from torch import nn
from torch.nn import functional

from sfumato.nn._models import MLP, Encoder, GraphSAGE, Linear, MultiHopClassifier, SparseRows


@pytest.fixture(autouse=True)
def _seed():
    torch.manual_seed(0)


def sparse(rows, columns, density=0.4, seed=0):
    return sp.random(rows, columns, density, format="csr", dtype=np.float32, random_state=seed)


def test_empty_rows_and_columns_are_zero():
    rows = SparseRows(sp.csr_matrix((3, 2), dtype=np.float32))
    assert (rows @ torch.ones(2, 4) == 0).all()
    assert tuple(rows.shape) == (3, 2)


def test_memory_mapped_features_are_read_without_a_warning():
    """Arrays of a stored graph are read-only."""
    matrix = sparse(5, 4)
    for part in (matrix.indptr, matrix.indices, matrix.data):
        part.flags.writeable = False
    assert np.allclose((SparseRows(matrix) @ torch.eye(4)).numpy(), matrix.toarray())


@pytest.mark.parametrize(
    "make", [lambda: Linear(6, 3), lambda: MLP((6, 5, 3)), lambda: Encoder(6, 5, 3, batch_norm=False)]
)
def test_sparse_and_dense_inputs_agree(make):
    matrix, model = sparse(8, 6), make()
    dense = torch.from_numpy(matrix.toarray())
    results = []
    for x in (SparseRows(matrix), dense):
        out = model(x)
        results.append((out, *torch.autograd.grad(out.square().sum(), list(model.parameters()))))
    for one, other in zip(*results, strict=True):
        assert torch.allclose(one, other, rtol=1e-4, atol=1e-5)


def test_mlp_is_linear_layers_with_selu_between():
    model, x = MLP((4, 5, 3)), torch.randn(7, 4)
    first, second = model.layers
    assert torch.allclose(model(x), second(functional.selu(first(x))))


def test_mlp_without_a_plain_last_layer_ends_in_selu():
    model, x = MLP((4, 3), plain_last=False), torch.randn(7, 4)
    assert torch.allclose(model(x), functional.selu(model.layers[0](x)))


@pytest.mark.parametrize(("plain_last", "count"), [(True, 2), (False, 3)])
def test_batch_norm_stands_before_each_selu(plain_last, count):
    model = MLP((4, 5, 6, 3), batch_norm=True, plain_last=plain_last)
    assert sum(isinstance(module, nn.BatchNorm1d) for module in model.modules()) == count
    assert not any(isinstance(module, nn.BatchNorm1d) for module in MLP((4, 5, 3)).modules())


def test_text_form_lists_the_layers():
    text = str(MLP((4, 5, 3), batch_norm=True))
    assert "Linear(in_features=4, out_features=5, bias=True)" in text
    assert "BatchNorm1d(5" in text


def test_encodings_have_norm_one():
    model, x = Encoder(6, 5, 3, batch_norm=True), torch.randn(20, 6) * 100
    rows = model.encode(x)
    assert rows.shape == (20, 5)
    assert torch.allclose(rows.norm(dim=1), torch.ones(20), atol=1e-5)
    assert torch.allclose(model.eval()(x), model.head(model.encode(x)))
    assert model(x).shape == (20, 3)


def test_hops_enter_through_their_own_map():
    model, hops = MultiHopClassifier(2, 4, 3, batch_norm=False), torch.randn(6, 3, 4)
    joint = functional.normalize(torch.cat([model.base[k](hops[:, k]) for k in range(3)], dim=1), dim=1)
    assert torch.allclose(model(hops), model.head(functional.selu(joint)))
    swapped = hops.flip(1)
    assert not torch.allclose(model(hops), model(swapped))


def test_hops_are_added_or_weighted_by_their_scores():
    hops = torch.randn(6, 3, 4)
    for combine in ("sum", "attention"):
        model = MultiHopClassifier(2, 4, 3, batch_norm=False, combine=combine)
        mapped = [model.base[k](hops[:, k]) for k in range(3)]
        shares = torch.ones(6, 3)
        if combine == "attention":
            shares = torch.cat([model.score[k](mapped[k]) for k in range(3)], dim=1).softmax(1)
            assert torch.allclose(shares.sum(1), torch.ones(6))
        joint = functional.normalize(sum(shares[:, k : k + 1] * mapped[k] for k in range(3)), dim=1)
        assert torch.allclose(model(hops), model.head(functional.selu(joint)), atol=1e-6)
        assert model.head.in_features == 4


def test_graphsage_on_four_nodes_takes_the_mean_of_neighbors():
    """Path 0 - 1 - 2 and node 3 alone; projecting first equals propagating first."""
    adjacency = sp.csr_matrix(np.array([[0, 1, 0, 0], [0.5, 0, 0.5, 0], [0, 1, 0, 0], [0, 0, 0, 0]], np.float32))
    model, x = GraphSAGE(5, 6, 3).eval(), torch.randn(4, 5)
    mean = torch.from_numpy(adjacency.toarray())
    neighbor = (mean @ x) @ model.neighbor[0].weight.T + mean.sum(1, keepdim=True) * model.neighbor[0].bias
    hidden = functional.selu(model.norm(model.own[0](x) + neighbor))
    last = (mean @ hidden) @ model.neighbor[1].weight.T + mean.sum(1, keepdim=True) * model.neighbor[1].bias
    assert torch.allclose(model(x, SparseRows(adjacency)), model.own[1](hidden) + last, atol=1e-5)


def test_sparse_rows_sum_entries_stored_twice():
    matrix = sp.csr_matrix((np.array([1.0, 2.0], np.float32), np.array([0, 0]), np.array([0, 2])), shape=(1, 2))
    assert SparseRows(matrix).matrix.to_dense().tolist() == [[3.0, 0.0]]
