"""The scattering transform equals convolutions written out in space, and each image's coefficients are its own."""

import math
from itertools import product

import numpy as np
import pytest
import torch

from sfumato.errors import InputError
from sfumato.nn._scattering import CHANNELS, group_norm, scattering


def morlet(scale, angle, reach=40):
    """A wavelet on the plane, cut where it is zero."""
    x, y = np.mgrid[-reach : reach + 1, -reach : reach + 1]
    u, v = x * math.cos(angle) + y * math.sin(angle), y * math.cos(angle) - x * math.sin(angle)
    sigma = 0.8 * scale
    envelope = np.exp(-(u**2 + v**2 / 4) / (2 * sigma**2)) / (4 * math.pi * sigma**2)
    wave = envelope * np.exp(0.75j * math.pi / scale * u)
    return wave - envelope * wave.sum() / envelope.sum()


def gaussian(reach=40):
    x, y = np.mgrid[-reach : reach + 1, -reach : reach + 1]
    return np.exp(-(x**2 + y**2) / (2 * 1.6**2)) / (2 * math.pi * 1.6**2)


def convolve(picture, kernel):
    """On a torus, pixel by pixel of the kernel."""
    reach, out = kernel.shape[0] // 2, np.zeros(picture.shape, complex)
    for row, column in zip(*np.nonzero(np.abs(kernel) > 1e-12), strict=True):
        out += kernel[row, column] * np.roll(picture, (row - reach, column - reach), (0, 1))
    return out


def written_out(image):
    """All 81 pictures of an image, all convolutions in space and at full resolution."""
    height, width = image.shape
    sides = [((side // 4 + 2) * 4 - side) for side in image.shape]
    padded = np.pad(image, [(side // 2, side - side // 2) for side in sides], mode="reflect")
    wavelets = [[morlet(2.0**j, (3 - k) * math.pi / 8) for k in range(8)] for j in (0, 1)]
    fine = [np.abs(convolve(padded, one)) for one in wavelets[0]]
    coarse = [np.abs(convolve(padded, one)) for one in wavelets[1]]
    second = [np.abs(convolve(one, wavelet)) for one, wavelet in product(fine, wavelets[1])]
    low = gaussian()
    smooth = [convolve(one, low).real[4:-4:4, 4:-4:4] for one in (padded, *fine, *coarse, *second)]
    return np.array(smooth)[:, : height // 4, : width // 4]


@pytest.mark.parametrize("shape", [(28, 28), (14, 21)])
def test_it_equals_convolutions_written_out(shape):
    image = np.random.default_rng(0).random(shape)
    expected = written_out(image)
    found = scattering(torch.from_numpy(image[None, None]).float())[0].numpy()
    assert found.shape == expected.shape
    # pictures of scale 1 are sampled at every second pixel before the low pass, which folds the ends of their spectra
    exact = [0, *range(1, 9)]
    np.testing.assert_allclose(found[exact], expected[exact], atol=2e-6)
    assert np.abs(found - expected).max() < 0.02 * np.abs(expected[1:]).max()
    others = np.roll(expected[17:].reshape(8, 8, *expected.shape[1:]), 1, axis=0).reshape(-1, *expected.shape[1:])
    assert np.abs(found[17:] - others).max() > 0.05 * np.abs(expected[17:]).max()


def test_it_equals_kymatio():
    frontend = pytest.importorskip("kymatio.scattering2d.frontend.torch_frontend", reason="kymatio is not installed")
    for shape in ((28, 28), (32, 32), (30, 45)):
        image = torch.rand(2, *shape)
        expected = frontend.ScatteringTorch2D(J=2, shape=shape)(image)
        assert torch.allclose(scattering(image[:, None]), expected, rtol=1e-4, atol=1e-5)


def test_channels_are_transformed_one_by_one():
    images = torch.rand(3, 2, 12, 16)
    both = scattering(images)
    assert both.shape == (3, 2 * CHANNELS, 3, 4)
    for channel in (0, 1):
        alone = scattering(images[:, channel : channel + 1])
        assert torch.allclose(both[:, channel * CHANNELS : (channel + 1) * CHANNELS], alone, atol=1e-6)


def test_one_image_changes_no_bit_of_the_others():
    images = torch.rand(150, 1, 28, 28)
    before = scattering(images)
    changed = images.clone()
    for row, value in ((0, 0.0), (77, 1e30), (149, float("nan"))):
        changed[row] = value
    after = scattering(changed)
    others = torch.tensor([row for row in range(150) if row not in (0, 77, 149)])
    assert torch.equal(before[others], after[others])
    assert not torch.equal(before[77], after[77])
    assert torch.equal(group_norm(before, 27)[others], group_norm(after, 27)[others])


def test_groups_of_pictures_have_mean_0_and_variance_1():
    rows = group_norm(100 * scattering(torch.rand(5, 1, 28, 28)), 27)
    groups = rows.view(5, 27, -1)
    assert groups.mean(2).abs().max() < 1e-4
    assert (groups.var(2, correction=0) - 1).abs().max() < 1e-2


def test_progress_counts_images_and_small_images_are_refused():
    told = []
    scattering(torch.rand(70, 1, 8, 8), lambda done, total: told.append((done, total)))
    assert told == [(64, 70), (70, 70)]
    with pytest.raises(InputError, match="7 x 28"):
        scattering(torch.zeros(1, 1, 7, 28))
