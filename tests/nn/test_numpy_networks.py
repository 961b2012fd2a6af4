"""Networks of arrays against the same ones in Torch, and the loop: it learns, keeps the best pass, and stops."""

import copy

import numpy as np
import pytest
import scipy.sparse as sp
import torch
from torch.nn import functional

from sfumato.nn import _numpy_networks as networks
from sfumato.nn._decoupled import Blocks
from sfumato.nn._numpy_networks import Hidden, Logistic, log_loss, train

NOBODY = np.zeros((0, 5), np.float32), np.zeros(0, np.int64)


def coins(seed=0):
    return np.random.default_rng(seed)


@pytest.fixture
def task():
    rng = coins()
    x = rng.normal(size=(200, 5)).astype(np.float32)
    return x, np.argmax(x[:, :3], axis=1)


def as_torch(model):
    twin = Blocks([5], 8, 3)
    twin.load_state_dict({name: torch.from_numpy(array.copy()) for name, array in model.state.items()})
    return twin


def test_a_hidden_layer_has_the_gradient_and_the_moments_of_torch(task, monkeypatch):
    x, y = task
    masks = [coins(1).integers(0, 2, shape).astype(np.uint8) for shape in ((8, 5), (200, 8))]
    model = Hidden(5, 8, 3, coins())
    twin, given = as_torch(model), iter(copy.deepcopy(masks))
    monkeypatch.setattr(networks, "_half", lambda _, shape: next(given).reshape(shape))
    loss, gradient = model.gradient(x, y, coins())
    inner = torch.from_numpy(x) @ (twin.maps[0].weight * torch.from_numpy(masks[0]) * 2).T
    hidden = functional.relu(twin.norm(inner)) * torch.from_numpy(masks[1]) * 2
    expected = functional.cross_entropy(twin.head(hidden), torch.from_numpy(y))
    expected.backward()
    assert loss == pytest.approx(expected.item(), rel=1e-5)
    for name, parameter in twin.named_parameters():
        np.testing.assert_allclose(gradient[name], parameter.grad.numpy(), atol=1e-6)
    for name, buffer in twin.named_buffers():
        np.testing.assert_allclose(model.state[name], buffer.numpy(), atol=1e-6)
    twin.eval()
    np.testing.assert_allclose(model.scores(x), twin(torch.from_numpy(x)).detach().numpy(), atol=1e-5)


def test_steps_are_those_of_adam_with_weight_decay(task):
    x, y = task
    model, twin = Logistic(5, 3), torch.nn.Linear(5, 3)
    torch.nn.init.zeros_(twin.weight)
    torch.nn.init.zeros_(twin.bias)
    optimizer = torch.optim.Adam(twin.parameters(), lr=0.05, weight_decay=0.1)
    for _ in range(10):
        optimizer.zero_grad()
        functional.cross_entropy(twin(torch.from_numpy(x)), torch.from_numpy(y)).backward()
        optimizer.step()
    train(model, x, y, epochs=10, learning_rate=0.05, weight_decay=0.1, held_out=NOBODY, coins=coins())
    np.testing.assert_allclose(model.state["weight"], twin.weight.detach().numpy(), atol=1e-5)
    np.testing.assert_allclose(model.state["bias"], twin.bias.detach().numpy(), atol=1e-5)


@pytest.mark.parametrize("batch_size", [None, 32])
@pytest.mark.parametrize("make", [lambda: Logistic(5, 3, coins()), lambda: Hidden(5, 16, 3, coins())])
def test_sparse_rows_have_the_gradient_of_dense_ones_and_both_learn(task, make, batch_size):
    x, y = task
    sparse = sp.csr_matrix(x)
    for one, other in zip(*(make().gradient(rows, y, coins())[1].values() for rows in (x, sparse)), strict=True):
        np.testing.assert_allclose(one, other, atol=1e-6)
    for rows in (x, sparse):
        model, how = make(), {"epochs": 40, "learning_rate": 0.05, "batch_size": batch_size}
        losses = train(model, rows, y, **how, held_out=NOBODY, coins=coins())
        assert len(losses) == 40
        assert losses[-1] < 0.8 * losses[0]
        assert (model.scores(rows).argmax(axis=1) == y).mean() > 0.85


def test_every_row_is_read_once_a_pass(task):
    x, y = task
    seen = []
    model = Logistic(5, 3)
    real = model.gradient
    model.gradient = lambda rows, *rest: (seen.append(rows), real(rows, *rest))[1]
    train(model, x, y, epochs=1, learning_rate=0.01, batch_size=64, held_out=NOBODY, coins=coins())
    assert [len(part) for part in seen] == [50] * 4
    np.testing.assert_array_equal(np.sort(np.concatenate(seen), axis=0), np.sort(x, axis=0))


def test_the_pass_with_the_least_loss_is_kept_and_training_stops_without_a_lesser_one(task):
    x, y = task
    found, steps = [], []
    for epochs in (1, 2, 3, 4, 5):
        model = Hidden(5, 4, 3, coins(2))
        train(model, x, y, epochs=epochs, learning_rate=0.5, held_out=NOBODY, coins=coins())
        found.append((model.scores(x) @ np.ones(3, np.float32), log_loss(model.scores(x), y)))
    best = int(np.argmin([loss for _, loss in found]))
    assert best < 4, "the last pass is not the best one, so that keeping it would be seen"
    model = Hidden(5, 4, 3, coins(2))
    losses = train(
        model, x, y, epochs=5, learning_rate=0.5, held_out=(x, y), coins=coins(), progress=lambda *at: steps.append(at)
    )
    np.testing.assert_allclose(model.scores(x) @ np.ones(3, np.float32), found[best][0], atol=1e-5)
    assert (len(losses), steps) == (5, [(at, 5) for at in range(1, 6)])
    model = Hidden(5, 4, 3, coins(2))
    assert len(train(model, x, y, epochs=50, learning_rate=0.0, held_out=(x, y), coins=coins(), patience=60)) == 50
    flat = Logistic(5, 3)
    assert len(train(flat, x, y, epochs=50, learning_rate=0.0, held_out=(x, y), coins=coins(), patience=3)) == 4


def test_without_columns_the_bias_learns():
    y = np.array([0, 1, 1, 1])
    for model in (Logistic(0, 2, coins()), Hidden(0, 4, 2, coins())):
        rows = np.zeros((4, 0), np.float32)
        train(model, rows, y, epochs=200, learning_rate=0.1, held_out=(rows[:0], y[:0]), coins=coins())
        assert model.scores(rows).argmax(axis=1).tolist() == [1] * 4
