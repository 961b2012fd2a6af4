"""Model inversion against optima that are known, steps taken by hand, and gradients by differences."""

import math
from dataclasses import replace

import numpy as np
import pytest
import torch

from sfumato.attacks._inversion import Inversion, bilateral_variation
from sfumato.datasets._loading import load_dataset
from sfumato.errors import InputError
from sfumato.nn._convolution import image_network
from sfumato.nn._weights import seeded


def linear(weights, biases):
    """A network of one linear layer: weights [classes, pixels]."""
    network = torch.nn.Linear(len(weights[0]), len(weights))
    network.weight.data.copy_(torch.tensor(weights))
    network.bias.data.copy_(torch.tensor(biases))
    return network


def small_network(seed=0, pixels=20, classes=3):
    """An untrained network with a hidden layer."""
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        return torch.nn.Sequential(torch.nn.Linear(pixels, 16), torch.nn.Tanh(), torch.nn.Linear(16, classes))


@pytest.mark.parametrize("box", [True, False])
def test_known_optimum_of_one_pixel_is_found(box):
    """1 - s(a x + b) + lambda x has its minimum where s (1 - s) = lambda / a, on the branch above one half."""
    a, b, weight = 8.0, -2.0, 0.4
    best = (1 + math.sqrt(1 - 4 * weight / a)) / 2
    optimum = (math.log(best / (1 - best)) - b) / a
    attack = Inversion(steps=4000, rate=0.01, weight=weight, box=box, target="probability")
    images = attack.invert(linear([[a], [0.0]], [b, 0.0]), (1, 1, 1), [0, 1])
    assert images.ravel() == pytest.approx([optimum, 0.0], abs=1e-3)
    assert 0.3 < optimum < 0.7  # inside: neither the start, nor a corner


def test_under_scores_each_pixel_is_on_that_is_worth_its_weight():
    """1 - a x + lambda x is linear: a pixel ends white if a is above lambda, and black below."""
    images = Inversion().invert(linear([[0.06, 0.04, -1.0], [0.0, 0.2, 0.049]], [0.0, 9.0]), (1, 1, 3), [0, 1])
    assert images.reshape(2, 3).round(2).tolist() == [[1, 0, 0], [0, 1, 0]]


def test_two_steps_of_adam_are_as_printed():
    attack = Inversion(steps=2, rate=0.3, weight=0.05, target="probability", start=0.0)
    a, w, m, v = 4.0, 0.0, 0.0, 0.0
    for _ in range(2):
        x = (math.tanh(w) + 1) / 2
        f = 1 / (1 + math.exp(-a * x))
        g = (-a * f * (1 - f) + 0.05) * (1 - math.tanh(w) ** 2) / 2  # the chain rule through the tanh
        m, v = 0.9 * m + 0.1 * g, 0.999 * v + 0.001 * g**2
        w -= 0.3 * m / math.sqrt(v + 1e-8)
    found = attack.invert(linear([[a], [0.0]], [0.0, 0.0]), (1, 1, 1), [0])
    assert found.item() == pytest.approx((math.tanh(w) + 1) / 2, abs=1e-6)


def test_the_original_attack_descends_from_black_and_clips():
    a = 4.0
    found = replace(Inversion.original(), steps=1, start=0.0).invert(
        linear([[a, -a], [0.0, 0.0]], [0.0, 0.0]), (1, 1, 2), [0]
    )
    assert found.ravel() == pytest.approx([0.1 * a / 4, 0.0])  # f (1 - f) = 1/4; the second pixel would turn negative


@pytest.mark.parametrize("attack", [Inversion(), Inversion.faces(), Inversion.original()])
def test_a_batch_is_as_each_class_alone(attack):
    attack = replace(attack, steps=25)
    network = small_network()
    together = attack.invert(network, (1, 4, 5), [2, 0, 1])
    alone = [attack.invert(network, (1, 4, 5), [one])[0] for one in (2, 0, 1)]
    np.testing.assert_allclose(together, np.stack(alone), atol=1e-5)
    assert np.abs(together[0] - together[1]).max() > 1e-3


@pytest.mark.parametrize("attack", [Inversion(steps=200, rate=2.0), Inversion.faces(), Inversion.original()])
def test_pixels_stay_in_range_and_the_class_is_reached(attack):
    network = small_network()
    images = attack.invert(network, (1, 4, 5), [0, 1, 2])
    assert (images.shape, images.dtype) == ((3, 1, 4, 5), np.float32)
    assert images.min() >= 0
    assert images.max() <= 1
    if attack.regularizer != "l1":
        kind = torch.nn.Softmax(1) if attack.target == "probability" else torch.nn.Identity()
        said = kind(network(torch.from_numpy(images).flatten(1))).detach().numpy()
        start = kind(network(torch.full((1, 20), 0.5 if attack.box else 0.0))).detach().numpy()[0]
        assert all(said[one, one] > start[one] for one in range(3))


def by_definition(x, p, alpha):
    """Equation 4.3 pixel by pixel; only pairs of pixels that both exist."""
    channels, height, width = x.shape
    total = 0.0
    for l in range(-p, p + 1):  # noqa: E741
        for m in range(p + 1):
            if m + l < 0:
                continue
            for c in range(channels):
                for i in range(height):
                    for j in range(width):
                        if i >= m and 0 <= j - l < width:
                            total += alpha ** (m + l) * abs(x[c, i, j] - x[c, i - m, j - l])
    return total


def test_bilateral_variation_is_its_definition():
    x = np.random.default_rng(0).random((2, 2, 6, 5))
    found = bilateral_variation(torch.from_numpy(x), 2, 0.9)
    assert found.tolist() == pytest.approx([by_definition(image, 2, 0.9) for image in x])
    assert found.tolist() != pytest.approx([by_definition(image, 1, 0.9) for image in x])
    assert bilateral_variation(torch.full((1, 1, 6, 5), 0.3), 2, 0.9).item() == 0.0


def test_gradient_of_the_bilateral_cost_by_differences():
    """The gradient in w, through the tanh, against central differences in double precision."""
    network = small_network().double()
    attack = Inversion(regularizer="bilateral", weight=0.3, target="probability")
    w = torch.from_numpy(np.random.default_rng(1).normal(size=(1, 1, 4, 5)))
    label = torch.tensor([1])

    def cost(w):
        x = (np.tanh(w) + 1) / 2
        scores = network(torch.from_numpy(x).reshape(1, -1)).softmax(1).detach().numpy()
        return 1 - scores[0, 1] + 0.3 * by_definition(x[0], 2, 0.9)

    differences = np.zeros(20)
    for i in range(20):
        step = np.zeros(20)
        step[i] = 1e-6
        step = step.reshape(1, 1, 4, 5)
        differences[i] = (cost(w.numpy() + step) - cost(w.numpy() - step)) / 2e-6
    found = attack._gradient(network, w, label).numpy().ravel()
    np.testing.assert_allclose(found, differences, atol=1e-7)


def test_a_network_of_differences_is_inverted_from_noise_alone():
    """At a constant image such a network has no gradient: from there the printed start never leaves."""
    with torch.random.fork_rng():
        torch.manual_seed(0)
        network = image_network("cnn", 144, (1, 12, 12), 2, 8)
        torch.nn.init.normal_(network.head[2].weight)
    attack = Inversion(steps=100, weight=0.0, regularizer="none")
    from_zero = replace(attack, start=0.0).invert(network, (1, 12, 12), [0, 1])
    assert (from_zero == 0.5).all()
    images = attack.invert(network, (1, 12, 12), [0, 1])
    assert images.std(axis=(1, 2, 3)).min() > 0.1
    assert np.isfinite(images).all()


def test_weights_stay_and_progress_is_told():
    network = small_network()
    before = [one.clone() for one in network.parameters()]
    seen = []
    Inversion(steps=3).invert(network, (1, 4, 5), [0], lambda done, total: seen.append((done, total)))
    assert seen == [(1, 3), (2, 3), (3, 3)]
    assert all(torch.equal(one, other) for one, other in zip(before, network.parameters(), strict=True))
    assert all(one.grad is None for one in network.parameters())


@pytest.mark.parametrize(
    ("arguments", "fragment"),
    [
        ({"image_shape": (4, 5)}, "to be channels, height and width, got (4, 5)"),
        ({"image_shape": (1, 0, 5)}, "image_shape to be an integer >= 1, got 0"),
        ({"classes": [0, 3]}, "to be different numbers from 0 to 2, got [0, 3]"),
        ({"classes": [1, 1]}, "to be different numbers"),
        ({"image_shape": (1, 2, 10)}, "window to be below the 2 pixels of the shorter side, got 2"),
    ],
)
def test_wrong_arguments_are_named(arguments, fragment):
    with pytest.raises(InputError) as caught:
        Inversion.faces().invert(small_network(), **{"image_shape": (1, 4, 5), "classes": [0], **arguments})
    assert fragment in str(caught.value)


@pytest.mark.parametrize(
    "settings",
    [
        {"steps": 0},
        {"rate": 0.0},
        {"weight": -1.0},
        {"regularizer": "l2"},
        {"target": "loss"},
        {"decay": 0.0},
        {"beta2": 1.0},
    ],
)
def test_wrong_settings_are_refused(settings):
    with pytest.raises(InputError):
        Inversion(**settings)


@pytest.mark.data
def test_only_scores_outweigh_the_published_l1_norm(data_dir):
    """Softmax regression, two passes over 10,000 training images (seed 0)."""
    graph = load_dataset("mnist", data_dir, split="public")
    rows = np.flatnonzero(graph.train_mask)[:10_000]
    x, y = torch.from_numpy(graph.x[rows]), torch.from_numpy(graph.y[rows])
    with seeded(0):
        network = torch.nn.Linear(784, 10)
        adam = torch.optim.Adam(network.parameters(), 0.003)
        for batch in (*torch.randperm(len(x)).split(100), *torch.randperm(len(x)).split(100)):
            adam.zero_grad()
            torch.nn.functional.cross_entropy(network(x[batch]), y[batch]).backward()
            adam.step()
    found = {}
    for target in ("score", "probability"):
        attack = replace(Inversion.digits(), steps=1000, target=target)
        images = attack.invert(network, (1, 28, 28), range(10))
        said = network(torch.from_numpy(images).flatten(1)).softmax(1).detach().numpy()
        found[target] = said.diagonal().mean(), np.mean(images.mean(axis=(1, 2, 3)) < 0.005)
    assert found["score"] == pytest.approx((1.0, 0.0), abs=0.1)  # the class is reached, and no image is black
    confidence, black = found["probability"]
    assert confidence < 0.7
    assert black > 0.4
