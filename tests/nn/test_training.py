"""The plain loop: it learns, keeps the best epoch when asked, and leaves missing labels out."""

import copy

import pytest
import torch
from torch.nn import functional

from sfumato.nn._models import MLP
from sfumato.nn._training import train_full_batch


def fit(model, x, y, **settings):
    return train_full_batch(model, lambda: model(x), y, **{"validation_targets": y, "num_classes": 2, **settings})


@pytest.fixture
def task():
    torch.manual_seed(0)
    x = torch.randn(200, 3)
    return MLP((3, 8, 2)), x, (x[:, 0] > x[:, 1]).long()


def test_four_nodes_are_learned():
    torch.manual_seed(0)
    x, y, model = torch.tensor([[0.0, 0], [0, 1], [1, 0], [1, 1]]), torch.tensor([0, 1, 1, 0]), MLP((2, 16, 2))
    losses = fit(model, x, y, epochs=200, learning_rate=0.05)
    assert len(losses) == 200
    assert losses[-1] < 0.1 < losses[0]
    assert model(x).argmax(1).tolist() == y.tolist()
    assert not model.training


def test_first_step_is_adam_on_cross_entropy(task):
    model, x, y = task
    twin = copy.deepcopy(model)
    optimizer = torch.optim.Adam(twin.parameters(), lr=0.01)
    loss = functional.cross_entropy(twin(x), y)
    loss.backward()
    optimizer.step()
    losses = fit(model, x, y, epochs=1, learning_rate=0.01)
    assert losses[0] == pytest.approx(loss.item())
    assert all(torch.allclose(a, b, atol=1e-6) for a, b in zip(model.parameters(), twin.parameters(), strict=True))


def test_missing_labels_have_no_loss(task):
    model, x, y = task
    twin, masked = copy.deepcopy(model), y.clone()
    masked[100:] = -1
    left = fit(model, x, masked, epochs=3, learning_rate=0.01)
    right = fit(twin, x[:100], y[:100], epochs=3, learning_rate=0.01)
    assert left == pytest.approx(right, rel=1e-5)


def test_validation_keeps_the_best_epoch(task):
    """Validation labels are the opposite of the training labels, so the untrained epoch is the best one."""
    model, x, y = task
    states, accuracies = [], []

    def validate():
        assert not model.training
        states.append(copy.deepcopy(model.state_dict()))
        scores = model(x)
        accuracies.append(float((scores.argmax(1) == 1 - y).double().mean()))
        return scores

    fit(model, x, y, epochs=40, learning_rate=0.05, validate=validate, validation_targets=1 - y)
    best = accuracies.index(max(accuracies))
    assert best < 39
    assert all(torch.equal(value, states[best][name]) for name, value in model.state_dict().items())


def test_without_validation_the_last_iterate_stays(task):
    model, x, y = task
    twin = copy.deepcopy(model)
    fit(model, x, y, epochs=5, learning_rate=0.05)
    fit(twin, x, y, epochs=6, learning_rate=0.05)
    assert not torch.equal(model.layers[0].weight, twin.layers[0].weight)
    assert model.layers[0].weight.requires_grad


def test_progress_counts_every_epoch(task):
    model, x, y = task
    seen = []
    fit(model, x, y, epochs=3, learning_rate=0.01, progress=lambda *at: seen.append(at))
    assert seen == [(1, 3), (2, 3), (3, 3)]
