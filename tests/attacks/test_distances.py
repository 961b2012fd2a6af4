"""Distances by brute force and by another library, and the held-out control on a model that remembers."""

from itertools import combinations

import numpy as np
import pytest
import torch

from sfumato.attacks._distances import Nearest, euclidean, expected_minimum, ssim_distance
from sfumato.attacks._inversion import Inversion
from sfumato.errors import InputError


def drawn(*shape, seed=0):
    return np.random.default_rng(seed).random(shape, dtype=np.float32)


def test_euclidean_is_its_definition():
    images, image = drawn(5, 2, 3, 4), drawn(2, 3, 4, seed=1)
    expected = [sum(float(a - b) ** 2 for a, b in zip(one.flat, image.flat, strict=True)) ** 0.5 for one in images]
    assert euclidean(image, images) == pytest.approx(expected, rel=1e-5)


def ssim_by_definition(one, other):
    """Every 7 x 7 window by itself, from NumPy's covariance matrix."""
    found = []
    for i in range(one.shape[0] - 6):
        for j in range(one.shape[1] - 6):
            a, b = (image[i : i + 7, j : j + 7].ravel().astype(float) for image in (one, other))
            (va, cov), (_, vb) = np.cov(a, b)
            luminance = (2 * a.mean() * b.mean() + 1e-4) / (a.mean() ** 2 + b.mean() ** 2 + 1e-4)
            found.append(luminance * (2 * cov + 9e-4) / (va + vb + 9e-4))
    return np.mean(found)


def test_ssim_is_its_definition():
    images, image = drawn(3, 1, 9, 11), drawn(1, 9, 11, seed=1)
    images[0] = 0.9 * image + 0.05
    expected = [1 - ssim_by_definition(one[0], image[0]) for one in images]
    assert ssim_distance(image, images) == pytest.approx(expected, abs=1e-9)
    assert expected[0] < 0.1 < expected[1]


@pytest.mark.parametrize("channels", [1, 3])
def test_ssim_is_that_of_scikit_image(channels):
    metrics = pytest.importorskip("skimage.metrics", reason="scikit-image, the oracle of SSIM, is not installed")
    images, image = drawn(4, channels, 28, 30), drawn(channels, 28, 30, seed=1)
    images[0] = np.clip(image + 0.1 * drawn(channels, 28, 30, seed=2), 0, 1)
    images[1] = 0
    oracle = [metrics.structural_similarity(one, image, data_range=1.0, channel_axis=0) for one in images]
    assert ssim_distance(image, images) == pytest.approx(1 - np.array(oracle), abs=1e-5)


def test_expected_minimum_by_all_subsets():
    values = drawn(7).astype(float)
    for size in range(1, 8):
        every = [min(chosen) for chosen in combinations(values, size)]
        assert expected_minimum(values, size) == pytest.approx(np.mean(every))
    assert expected_minimum(values, 7) == values.min()
    assert expected_minimum(drawn(6000).astype(float), 1000) < 0.01


@pytest.mark.parametrize(("n_train", "n_heldout"), [(6, 3), (3, 6), (4, 4)])
def test_both_sides_are_searched_equally(n_train, n_heldout):
    train, heldout, image = drawn(n_train, 1, 2, 2), drawn(n_heldout, 1, 2, 2, seed=1), drawn(1, 2, 2, seed=2)
    found = Nearest.of("euclidean", image, train, heldout)
    size = min(n_train, n_heldout)
    assert found.blank == min(euclidean(np.full_like(image, shade), train).min() for shade in (0, 0.5, 1))
    assert found.train == euclidean(image, train).min()
    assert found.train_matched == expected_minimum(euclidean(image, train), size)
    assert found.heldout == expected_minimum(euclidean(image, heldout), size)
    swapped = Nearest.of("euclidean", image, heldout, train)
    assert (swapped.train_matched, swapped.heldout) == (found.heldout, found.train_matched)


def matched_less_heldout(network, train, heldout):
    """How much nearer a reconstruction is to held-out images than to training images, mean over two classes."""
    images = Inversion(steps=400, rate=0.05, weight=0.0, regularizer="none").invert(network, (1, 8, 8), [0, 1])
    found = [Nearest.of("euclidean", images[k], train[k], heldout[k]) for k in (0, 1)]
    return np.mean([one.heldout - one.train_matched for one in found])


def test_the_control_tells_memory_from_the_class():
    """Images of black and white pixels at random: a class has no look of its own, so only memory can bring a picture near.

    The network that remembers scores a class by its likeness to one of its training images; the other knows only a random
    direction. Each has 5 training and 5 held-out images a class.
    """
    generator = np.random.default_rng(0)
    images = generator.integers(0, 2, (2, 2, 5, 1, 8, 8)).astype(np.float32)  # class, training or held-out
    train, heldout = images[:, 0], images[:, 1]
    flat = torch.from_numpy(train[:, 0].reshape(2, 64))
    remembers, knows_nothing = torch.nn.Linear(64, 2, bias=False), torch.nn.Linear(64, 2, bias=False)
    remembers.weight.data.copy_(flat - 0.5)
    knows_nothing.weight.data.copy_(torch.from_numpy(generator.integers(0, 2, (2, 64)) - 0.5).float())
    assert matched_less_heldout(remembers, train, heldout) > 1.5
    assert abs(matched_less_heldout(knows_nothing, train, heldout)) < 0.75
    assert matched_less_heldout(remembers, heldout, train) < -1.5  # the other way round, had it learned from the others


@pytest.mark.parametrize(
    ("distance", "shape", "count", "fragment"),
    [
        ("cosine", (1, 8, 8), 2, "distance to be one of euclidean, ssim, got 'cosine'"),
        ("euclidean", (1, 8, 8), 0, "images_of_the_class to be an integer >= 1, got 0"),
        ("euclidean", (1, 8, 9), 2, "to have the shape of the reconstruction"),
        ("ssim", (1, 6, 8), 2, "to have sides of 7 pixels or more for SSIM"),
    ],
)
def test_wrong_arguments_are_named(distance, shape, count, fragment):
    image = drawn(1, 8, 8) if shape[1] == 8 else drawn(*shape)
    with pytest.raises(InputError) as caught:
        Nearest.of(distance, image, drawn(3, *shape), drawn(count, *shape))
    assert fragment in str(caught.value)
