r"""The scattering transform turns an image into rows by fixed wavelets: nothing is learned, so nothing is charged.

With :math:`\psi_{j,\theta}` a Morlet wavelet of scale j in {0, 1} and one of 8 angles, and :math:`\phi` a Gaussian low pass,
an image x gives 81 small pictures: :math:`x * \phi`, :math:`|x * \psi_{j,\theta}| * \phi` (16 of them) and
:math:`||x * \psi_{0,\theta}| * \psi_{1,\theta'}| * \phi` (64), each sampled at every fourth pixel. The image is reflected at
its border first; convolutions are products in the Fourier domain, and sampling folds spectra.

A Morlet wavelet is :math:`\psi(u) = g(u) (e^{i \xi \cdot u} - \beta)`: g has standard deviation :math:`0.8 \cdot 2^j` along
the wave and 2 times that across it, :math:`|\xi| = \frac{3 \pi}{4} 2^{-j}`, and :math:`\beta` makes its sum zero. The low
pass has standard deviation :math:`0.8 \cdot 2`. These are the values of kymatio 0.3.0, whose results tests compare.

**What is assumed.** The result for one image is a function of this image. Torch is assumed to compute it to the same bits
whatever the other images of its block hold; ids fix block and place. A test checks it.

Source: Oyallon and Mallat (2015), Deep roto-translation scattering for object classification, section 2; as features of
private learning: Tramèr and Boneh (2021), Differentially private learning needs better features, section 3.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional

from sfumato._validate import fail

if TYPE_CHECKING:
    from sfumato.nn._training import Steps

ANGLES, STRIDE = 8, 4
CHANNELS = 1 + 2 * ANGLES + ANGLES**2
"""Pictures that one channel of an image becomes."""
_BLOCK = 64
_WIDTH = 0.8
_FILTERS, _HIDDEN = (16, 32), 32


def scattering(images: Tensor, progress: Steps | None = None) -> Tensor:
    """Return the scattering coefficients of images, of order 0, 1 and 2.

    Images [n, channels, height, width] become [n, 81 channels, height // 4, width // 4]: 3,969 numbers for an image of MNIST.
    """
    count, channels, height, width = images.shape
    if min(height, width) < 2 * STRIDE:
        raise fail("images", f"{height} x {width} pixels", f"to have at least {2 * STRIDE} x {2 * STRIDE}")
    out = torch.empty(count, channels, CHANNELS, height // STRIDE, width // STRIDE)
    flat, results = images.reshape(-1, height, width), out.view(-1, *out.shape[2:])
    for at in range(0, len(flat), _BLOCK):
        results[at : at + _BLOCK] = _block(flat[at : at + _BLOCK])
        if progress is not None:
            progress(min(at + _BLOCK, len(flat)) // channels, count)
    return out.flatten(1, 2)


def group_norm(pictures: Tensor, groups: int) -> Tensor:
    """Scale groups of pictures of each image to mean 0 and variance 1, within the image: no statistics of the data are read.

    1e-5 is added to the variance before it divides.
    """
    return functional.group_norm(pictures, groups).flatten(1)


class PictureHead(nn.Module):
    """Two convolutions and two dense layers score the small pictures of an image, which come as a row.

    Convolutions are of 3 x 3 places, the first at every second one; tanh stands between all layers.
    """

    def __init__(self, shape: tuple[int, int, int], num_classes: int) -> None:
        super().__init__()
        self.shape = shape
        self.first = nn.Conv2d(shape[0], _FILTERS[0], 3, 2, padding=1)
        self.second = nn.Conv2d(*_FILTERS, 3, padding=1)
        self.hidden = nn.Linear(_FILTERS[1] * math.prod((side + 1) // 2 for side in shape[1:]), _HIDDEN)
        self.out = nn.Linear(_HIDDEN, num_classes)

    def forward(self, rows: Tensor) -> Tensor:
        """Return scores [n, num_classes] of rows [n, pictures x height x width]."""
        found = torch.tanh(self.first(rows.reshape(-1, *self.shape)))
        found = torch.tanh(self.second(found)).flatten(1)
        scores: Tensor = self.out(torch.tanh(self.hidden(found)))
        return scores


def _block(images: Tensor) -> Tensor:
    """The 81 pictures of each image [n, height, width]."""
    sides = images.shape[1:]
    sizes = [(side // STRIDE + 2) * STRIDE for side in sides]
    border = [
        at for size, side in zip(sizes, sides, strict=True) for at in ((size - side + 1) // 2, (size - side) // 2)
    ]
    padded = functional.pad(images[:, None], border[::-1], mode="reflect")
    psi, spectrum = _wavelets(*sizes), torch.fft.fft2(padded)
    fine = torch.fft.ifft2(spectrum * psi[0]).abs()
    coarse = torch.fft.ifft2(_folded(spectrum, psi[1])).abs()
    second = torch.fft.ifft2(_folded(torch.fft.fft2(fine)[:, :, None], psi[1])).abs().flatten(1, 2)
    return torch.cat([_smooth(part, sides, sizes) for part in (padded, fine, coarse, second)], dim=1)


def _folded(spectrum: Tensor, psi: Tensor) -> Tensor:
    """The spectrum of every second pixel of a convolution: the mean of the product over frequencies that become one."""
    height, width = (size // 2 for size in psi.shape[-2:])
    out = torch.zeros(())
    for rows in (slice(height), slice(height, None)):
        for columns in (slice(width), slice(width, None)):
            out = out + spectrum[..., rows, columns] * (psi[:, rows, columns] / 4)
    return out


def _smooth(pictures: Tensor, sides: Sequence[int], sizes: Sequence[int]) -> Tensor:
    """Pictures of all pixels, or of every second one, become [n, channels, height // 4, width // 4]."""
    down, across = (
        _low_pass(size, size // got, side // STRIDE)
        for size, got, side in zip(sizes, pictures.shape[-2:], sides, strict=True)
    )
    return down @ pictures @ across.T


@lru_cache(maxsize=4)
def _wavelets(height: int, width: int) -> Tensor:
    """The wavelets' spectra, which are real numbers: complex64 [2, 8, height, width]."""
    found = [
        [_morlet(height, width, 2.0**j, (ANGLES // 2 - 1 - k) * math.pi / ANGLES) for k in range(ANGLES)]
        for j in (0, 1)
    ]
    return torch.from_numpy(np.fft.fft2(np.array(found)).real.astype(np.complex64))


def _morlet(height: int, width: int, scale: float, angle: float) -> NDArray[np.complex128]:
    """A Morlet wavelet on a torus: what leaves at one side enters at the other."""
    slant, sigma, frequency = 4 / ANGLES, _WIDTH * scale, 3 * math.pi / 4 / scale
    x, y = np.mgrid[-2 * height : 3 * height, -2 * width : 3 * width]
    along, across = x * math.cos(angle) + y * math.sin(angle), y * math.cos(angle) - x * math.sin(angle)
    envelope = np.exp(-(along**2 + (slant * across) ** 2) / (2 * sigma**2)) * slant / (2 * math.pi * sigma**2)
    wave = envelope * np.exp(1j * frequency * along)
    wavelet = wave - envelope * (wave.sum() / envelope.sum())
    return wavelet.reshape(5, height, 5, width).sum((0, 2))


@lru_cache(maxsize=8)
def _low_pass(size: int, step: int, count: int) -> Tensor:
    """The matrix that smooths a line of ``size / step`` pixels and keeps every fourth one of ``size``, without the first."""
    x = np.arange(-2 * size, 3 * size)
    sigma = 2 * _WIDTH
    gauss = (np.exp(-(x**2) / (2 * sigma**2)) / math.sqrt(2 * math.pi * sigma**2)).reshape(5, size).sum(0)
    spectrum = np.fft.fft(gauss).real
    kept = np.concatenate(
        [spectrum[: size // step // 2], spectrum[size - size // step // 2 :]]
    )  # the lowest frequencies
    kernel = np.fft.ifft(kept).real
    at, pixel = np.arange(1, count + 1)[:, None] * (STRIDE // step), np.arange(size // step)
    return torch.from_numpy(kernel[(at - pixel) % (size // step)].astype(np.float32))
