import numpy as np
import pytest
import torch

from sfumato.central import _learning
from sfumato.nn import stored
from sfumato.nn.models import MLP, Linear
from sfumato.nn.stored import StoredRows
from sfumato.nn.training import train_full_batch

X = np.random.default_rng(0).normal(size=(40, 5)).astype(np.float32)
DENSE = [None, np.arange(40), np.arange(0, 40, 2), np.array([3, 1, 2, 2])]
SPARSE = [np.array([0, 39]), np.array([39, 5])]


@pytest.mark.parametrize("block", [7, 1 << 16])
@pytest.mark.parametrize("ids", DENSE + SPARSE)
def test_products_and_gradients_are_those_of_a_copy(ids, block, monkeypatch):
    monkeypatch.setattr(stored, "_BLOCK", block)
    rows, copy = StoredRows(X, ids), torch.from_numpy(X if ids is None else X[ids])
    assert rows.shape == tuple(copy.shape)
    assert len(rows) == len(copy)
    assert torch.equal(rows.dense(), copy)
    found = {}
    for left in (rows, copy):
        weight = torch.linspace(-1, 1, 10).view(5, 2).requires_grad_()
        product = left @ weight
        (product**2).sum().backward()
        found[left is rows] = product.detach(), weight.grad
    for mine, theirs in zip(found[True], found[False], strict=True):
        torch.testing.assert_close(mine, theirs)


@pytest.mark.parametrize("ids", DENSE)
def test_rows_that_lie_together_are_not_copied(ids):
    own = {part.data_ptr() - X.ctypes.data for _, part, _ in StoredRows(X, ids).blocks()}
    assert all(0 <= offset < X.nbytes for offset in own)


def test_a_layer_takes_stored_rows():
    layer = Linear(5, 3)
    torch.testing.assert_close(layer(StoredRows(X)), layer(torch.from_numpy(X)))


def test_parts_train_as_the_whole_does():
    targets = torch.from_numpy(np.arange(40) % 3)
    targets[5] = -1

    def trained(num_parts):
        torch.manual_seed(0)
        network = MLP((5, 4, 3))
        parts = torch.from_numpy(X).tensor_split(num_parts)
        losses = train_full_batch(
            network,
            [lambda part=part: network(part) for part in parts],
            targets,
            num_classes=3,
            epochs=20,
            learning_rate=0.1,
            validation_targets=targets[:0],
        )
        return torch.tensor(losses), network.layers[0].weight.detach()

    for mine, theirs in zip(trained(3), trained(1), strict=True):
        torch.testing.assert_close(mine, theirs, rtol=1e-4, atol=1e-5)


def test_what_all_nodes_get_does_not_depend_on_the_parts(monkeypatch):
    network = MLP((5, 4, 3)).eval()

    def found():
        return _learning.of_all(network, lambda ids: StoredRows(X, ids), len(X))

    whole = found()
    monkeypatch.setattr(_learning, "MOST_AT_ONCE", 7)
    np.testing.assert_allclose(found(), whole, atol=1e-6)
