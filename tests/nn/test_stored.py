from types import SimpleNamespace

import numpy as np
import pytest
import scipy.sparse as sp
import torch
from torch.nn.functional import cross_entropy

from sfumato.central import _learning
from sfumato.nn import _stored as stored
from sfumato.nn._models import MLP, Linear, SparseRows
from sfumato.nn._stored import StoredRows
from sfumato.nn._training import Adam, train_full_batch
from sfumato.privacy.events import PoissonGaussianEvent

X = np.random.default_rng(0).normal(size=(40, 5)).astype(np.float32)
DENSE = [None, np.arange(40), np.arange(0, 40, 2), np.array([3, 1, 2, 2])]
SPARSE = [np.array([0, 39]), np.array([39, 5])]


@pytest.mark.parametrize(("block", "kept"), [(35, 0), (35, 100), (1 << 22, 100)])
@pytest.mark.parametrize("ids", DENSE + SPARSE)
def test_products_and_gradients_are_those_of_a_copy(ids, block, kept, monkeypatch):
    monkeypatch.setattr(stored, "_BLOCK", block)
    monkeypatch.setattr(stored, "_KEPT", kept)
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


def test_each_step_takes_the_next_part():
    targets = torch.from_numpy(np.arange(40) % 3)
    targets[5] = -1
    parts = torch.from_numpy(X).tensor_split(3)

    def network():
        torch.manual_seed(0)
        return MLP((5, 4, 3))

    mine, theirs = network(), network()
    settings = {"num_classes": 3, "learning_rate": 0.1, "validation_targets": targets[:0]}
    losses = train_full_batch(mine, [lambda part=part: mine(part) for part in parts], targets, epochs=5, **settings)
    optimizer, expected = Adam(theirs.parameters(), 0.1), []
    for step in range(5):
        loss = cross_entropy(theirs(parts[step % 3]), targets.tensor_split(3)[step % 3], ignore_index=-1)
        loss.backward()
        optimizer.step()
        expected.append(loss.item())
    np.testing.assert_allclose(losses, expected, rtol=1e-5)
    torch.testing.assert_close(mine.layers[0].weight, theirs.layers[0].weight, rtol=1e-4, atol=1e-5)


def test_many_nodes_are_divided_at_random_and_few_are_left_alone(monkeypatch):
    ids = np.arange(0, 200, 2)
    (own,) = _learning._drawn(ids, 3, 9)
    assert own is ids
    monkeypatch.setattr(_learning, "MOST_IN_STEP", 30)
    parts = _learning._drawn(ids, 3, 9)
    assert [len(part) for part in parts] == [25] * 4
    assert np.array_equal(np.sort(np.concatenate(parts)), ids)
    assert all(np.all(np.diff(part) > 0) and part[-1] - part[0] > 100 for part in parts)
    for mine, again in zip(parts[:2], _learning._drawn(ids, 3, 2), strict=True):
        assert np.array_equal(mine, again)


def test_what_all_nodes_get_does_not_depend_on_the_parts(monkeypatch):
    network = MLP((5, 4, 3)).eval()

    def found():
        return _learning.of_all(network, lambda ids: StoredRows(X, ids), len(X))

    whole = found()
    monkeypatch.setattr(_learning, "MOST_AT_ONCE", 7)
    np.testing.assert_allclose(found(), whole, atol=1e-6)


@pytest.mark.parametrize("kind", ["dense", "stored", "sparse"])
def test_rows_that_are_kept_as_integers_change_no_bit(monkeypatch, kind):
    y, ids = np.arange(len(X)) % 3, []
    graph = SimpleNamespace(train_mask=np.arange(len(X)) % 4 > 0, y=y, targets=None)
    kinds = {
        "dense": lambda part: torch.from_numpy(X[part]),
        "stored": lambda part: StoredRows(X, part),
        "sparse": lambda part: SparseRows(sp.csr_matrix(X[part])),
    }

    def trained():
        torch.manual_seed(0)
        network, event = MLP((X.shape[1], 4, 3)), PoissonGaussianEvent(1.0, 0.3, 5)
        rows = lambda part: ids.append(len(part)) or kinds[kind](part)  # noqa: E731
        settings = SimpleNamespace(l2_clip_norm=1.0, learning_rate=0.1)
        read = _learning.train_charged(settings, event, bytes(32), network, graph, rows, None)
        return read, torch.cat([part.detach().ravel() for part in network.parameters()])

    monkeypatch.setattr(_learning, "_MOST_COPIED", 8 * X.shape[1])
    kept, read_at_once = trained(), ids.copy()
    assert read_at_once == ([1, 30] if kind == "sparse" else [1, 8, 8, 7, 7])  # sparse rows stay as few as they are
    monkeypatch.setattr(_learning, "_MOST_KEPT", 1)
    again = trained()
    assert kept[0] == again[0]
    assert torch.equal(kept[1], again[1])
