"""Methods for images learn what they should, and say what is wrong."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import nn

import sfumato as sf
from sfumato.catalog import load
from sfumato.classlevel._cells import cells_of
from sfumato.errors import DataError, InputError, UnsupportedUnitError
from sfumato.nn._training import SGD, Adam, Momentum
from sfumato.verify import verify

RNG = np.random.default_rng(0)
CLASSES, EACH = 10, 40
Y = np.repeat(np.arange(CLASSES), EACH)
PATTERNS = RNG.random((CLASSES, 14, 14)) > 0.5
IMAGES = np.clip(PATTERNS[Y] * 0.8 + RNG.normal(0, 0.1, (len(Y), 14, 14)), 0, 1).astype(np.float32)
ROLES = np.where(np.arange(len(Y)) % EACH < 30, 0, 2)
GRAPH = sf.images.from_arrays(IMAGES, Y, classes=[str(k) for k in range(CLASSES)], roles=ROLES)
LOOSE = sf.Budget(30.0, 1e-3)


def fitted(method, unit, budget=LOOSE, graph=GRAPH):
    return method.calibrate(budget, unit, graph.public_facts(unit)).fit(graph)


def accuracy(made, graph=GRAPH):
    return (made.predict(graph) == graph.y)[graph.test_mask].mean()


@pytest.mark.parametrize(
    ("method", "unit"),
    [
        (sf.CNN(steps=60, batch_size=100), sf.RecordLevel()),
        (sf.CNN(steps=20, batch_size=60, augment=1, network="softmax"), sf.RecordLevel()),
        (sf.CNN(steps=15, batch_size=60, learn_filters=True), sf.RecordLevel()),
        (sf.ClassDP(sampling_prob=0.5, steps=100), sf.ClassLevel()),
        (sf.SubclassDP(steps=60), sf.SubclassLevel(5)),
        (sf.SubclassDP(steps=60, public_rows=100), sf.SubclassLevel(2, "centroids")),
    ],
)
def test_a_loose_budget_is_enough_to_learn(method, unit, tmp_path):
    graph = GRAPH
    if getattr(method, "public_rows", 0):  # the first training images hold all classes
        order = np.argsort(np.arange(len(Y)) % EACH, kind="stable")
        graph = replace(GRAPH, x=GRAPH.x[order], y=GRAPH.y[order], roles=ROLES[order])
    made = fitted(method, unit, graph=graph)
    least = 0.3 if isinstance(unit, sf.ClassLevel) else 0.5  # guessing reaches 0.1; class-dp spreads from 0.5 to 0.9
    assert accuracy(made, graph) > least
    run = made.save(tmp_path / "run")
    assert verify(run).valid
    again = load(run)
    assert np.array_equal(again.predict(graph), made.predict(graph))


def test_without_privacy_all_layers_learn():
    made = fitted(sf.ClassDP(), sf.NoPrivacy(), None)
    assert accuracy(made) > 0.9
    assert {"network.edges.weight", "network.head.0.weight"} <= made.weights.keys()


def test_filters_stay_public_unless_they_learn():
    kept = fitted(sf.CNN(steps=2), sf.RecordLevel()).weights
    learned = fitted(sf.CNN(steps=2, learn_filters=True), sf.RecordLevel()).weights
    assert "network.edges.weight" not in kept
    assert "network.edges.weight" in learned


def test_declared_cells_and_clusters():
    users = replace(GRAPH, cells=np.arange(len(Y)) % 20)
    unit = sf.SubclassLevel(20, "declared")
    assert set(cells_of(unit, users)[0][ROLES == 0]) == set(range(20))
    clusters, _ = cells_of(sf.SubclassLevel(30, "declared"), GRAPH, kmeans=True)
    assert np.array_equal(clusters[ROLES == 0] // 3, Y[ROLES == 0])
    with pytest.raises(DataError, match="declare the cell"):
        cells_of(unit, GRAPH)


def test_public_images_are_in_no_cell():
    order = np.argsort(np.arange(len(Y)) % EACH, kind="stable")
    graph = replace(GRAPH, x=GRAPH.x[order], y=GRAPH.y[order], roles=ROLES[order])
    cells, public = cells_of(sf.SubclassLevel(3, "centroids"), graph, 50)
    train = np.flatnonzero(graph.train_mask)
    assert (cells[train[:50]] == -1).all()
    assert (cells[train[50:]] >= 0).all()
    assert public["cells.centroids"].shape == (CLASSES, 3, 196)
    with pytest.raises(DataError, match="at least 6 public images"):
        cells_of(sf.SubclassLevel(6, "centroids"), graph, 50)


@pytest.mark.parametrize(
    ("method", "unit", "error", "fragment"),
    [
        (sf.ClassDP(), sf.RecordLevel(), UnsupportedUnitError, "Use one of its units"),
        (sf.ClassDP(), sf.NodeLevel(max_out_degree=3), UnsupportedUnitError, "no bounded"),
        (sf.CNN(), sf.ClassLevel(), UnsupportedUnitError, "more than one example"),
        (sf.SubclassDP(), sf.SubclassLevel(5, "centroids"), InputError, "public_rows"),
        (sf.SubclassDP(public_rows=5), sf.SubclassLevel(5), InputError, "public_rows"),
        (sf.SubclassDP(kmeans=True), sf.SubclassLevel(5), InputError, "kmeans"),
        (sf.SubclassDP(kmeans=True), sf.SubclassLevel(31, "declared"), InputError, "a multiple of"),
    ],
)
def test_what_does_not_fit_is_refused_before_data(method, unit, error, fragment):
    with pytest.raises(error, match=fragment):
        method.calibrate(LOOSE, unit, GRAPH.public_facts(unit))


def test_convolutions_need_images():
    plain = replace(GRAPH, image_shape=None)
    unit = sf.ClassLevel()
    with pytest.raises(InputError, match="mlp or softmax"):
        sf.ClassDP().calibrate(LOOSE, unit, plain.public_facts(unit))
    with pytest.raises(InputError, match="no images"):
        fitted(sf.ClassDP(network="softmax", augment=2), unit, graph=plain)
    assert accuracy(fitted(sf.ClassDP(network="softmax"), sf.NoPrivacy(), None, plain), plain) > 0.9


def test_copies_of_an_image_are_a_function_of_its_place_and_the_image():
    from sfumato.nn._augmentation import Copies

    x = torch.rand(6, 196, generator=torch.Generator().manual_seed(0))
    copies = Copies(10, 3, (1, 14, 14), seed=0)
    together = copies.of(x, np.arange(6)).reshape(6, 4, 196)
    alone = copies.of(x[2:3], np.array([2])).reshape(4, 196)
    assert torch.equal(together[2, 0], x[2])
    assert torch.allclose(together[2], alone, atol=1e-6)
    assert not torch.allclose(alone[1], alone[2], atol=0.05)
    assert ((together >= 0) & (together <= 1)).all()


def test_a_gradient_is_that_of_the_scaled_mean_loss_of_one_cell(monkeypatch):
    from sfumato.classlevel import _class_dp as class_dp

    seen = []

    def class_steps(optimizer, mean_gradient, total, settings, key, progress):
        seen.append([mean_gradient(cell, 0) for cell in range(total)])
        return bytes(32)

    monkeypatch.setattr(class_dp, "class_steps", class_steps)
    trains = np.arange(len(Y)) % EACH < 3
    graph = replace(GRAPH, y=np.where(Y == 4, -1, Y), roles=np.where(trains, 0, 2))
    for scale in (1.0, 1000.0):
        fitted(sf.ClassDP(network="softmax", steps=1, loss_scale=scale), sf.ClassLevel(), graph=graph)
    one, thousand = seen
    assert [gradient is None for gradient in one] == [cell == 4 for cell in range(CLASSES)]
    for cell in (0, 9):
        assert torch.allclose(1000 * one[cell], thousand[cell], rtol=1e-4)
        rows = one[cell][: CLASSES * 196].reshape(CLASSES, 196)
        assert torch.allclose(rows.sum(0), torch.zeros(196), atol=1e-5)
        assert (rows[cell] <= 0).all()


def test_few_images_are_learned():
    """Ten passes alone are ten steps here, after which 27 % of these images are right."""
    images = np.random.default_rng(0).random((60, 12, 12), np.float32)
    graph = sf.images.from_arrays(images, np.arange(60) % 6, roles=np.zeros(60, np.int64))
    plan = sf.CNN(network="softmax").calibrate(None, sf.NoPrivacy(), graph.public_facts(sf.NoPrivacy()))
    assert (plan.fit(graph).predict(graph) == graph.y).mean() > 0.97


def test_images_without_a_class_are_left_out():
    images = np.random.default_rng(0).random((20, 4, 4), np.float32)
    graph = sf.images.from_arrays(
        images, np.where(np.arange(20) < 4, -1, np.arange(20) % 2), roles=np.zeros(20, np.int64)
    )
    plan = sf.CNN(network="softmax").calibrate(None, sf.NoPrivacy(), graph.public_facts(sf.NoPrivacy()))
    assert set(plan.fit(graph).predict(graph)) <= {0, 1}


@pytest.mark.parametrize(("name", "kind"), [("momentum", Momentum), ("adam", Adam), ("sgd", SGD)])
def test_every_name_is_that_of_its_own_optimizer(name, kind):
    assert type(sf.CNN(optimizer=name).stepper(nn.Linear(2, 2), 3)) is kind
