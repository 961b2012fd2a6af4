r"""Networks for images whose pixels come as rows: softmax regression, a perceptron, and a small convolutional network.

The convolutional network starts from public filters: the first convolution from derivatives of a Gaussian in eight directions
(edges; what is below the mean over directions becomes 0), the second from a Gaussian that adds them up in places, less that
mean again. Under privacy the filters stay as they are, and the dense layers learn: noise on filters costs more than learning
them gains. Without privacy all layers learn.

The first dense layer meets inputs that are scaled down and starts with weights that are larger by as much: so a step changes it
less, and noise on it costs less. Maxima and :func:`~sfumato.nn._reproducible.selu` give the same bits at every place of a batch.

Source of the filters: Dalal and Triggs (2005), Histograms of Oriented Gradients for Human Detection.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.nn import functional

from sfumato._validate import fail
from sfumato.nn._reproducible import selu

NETWORKS = ("cnn", "mlp", "softmax")
LEAST_SIDE = 12
_DIRECTIONS, _EDGE, _EDGE_WIDTH = 8, 5, 1.0
_PLACE, _PLACE_WIDTH, _STRIDE, _MARGIN = 9, 2.5, 5, 2
_SHRUNK, _GAIN = 0.01, 0.5
_LEAST_SPREAD = 0.05


class Selu(nn.Module):
    """SELU as a layer."""

    def forward(self, x: Tensor) -> Tensor:
        return selu(x)


class ConvNet(nn.Module):
    """Two convolutions and two dense layers score images that come as rows.

    Each image is set to mean 0 and spread 1 by its own pixels first. :meth:`describe` gives what the convolutions find, and
    ``head`` are the dense layers.
    """

    def __init__(self, shape: tuple[int, int, int], width: int, num_classes: int) -> None:
        super().__init__()
        if min(shape[1:]) < LEAST_SIDE:
            expected = f"to be at least {LEAST_SIDE} x {LEAST_SIDE} pixels"
            raise fail("image_shape", shape, expected, "Choose network='mlp'.")
        self.shape = shape
        self.edges = nn.Conv2d(shape[0], _DIRECTIONS, _EDGE, padding=_EDGE // 2, bias=False)
        self.places = nn.Conv2d(_DIRECTIONS, _DIRECTIONS, _PLACE, _STRIDE, padding=_MARGIN, bias=False)
        size = _DIRECTIONS * math.prod((side + 2 * _MARGIN - _PLACE) // _STRIDE + 1 for side in shape[1:])
        hidden, out = nn.Linear(size, width, bias=False), nn.Linear(width, num_classes)
        self.head = nn.Sequential(hidden, Selu(), out)
        away = torch.eye(_DIRECTIONS) - 1 / _DIRECTIONS
        with torch.no_grad():
            self.edges.weight.copy_(_edges().expand(-1, shape[0], -1, -1) / shape[0])
            self.places.weight.copy_(away[:, :, None, None] * _gaussian(_PLACE, _PLACE_WIDTH))
            nn.init.orthogonal_(hidden.weight, _GAIN / _SHRUNK)
            nn.init.zeros_(out.weight)
            nn.init.zeros_(out.bias)

    def describe(self, x: Tensor) -> Tensor:
        """Return what the convolutions find in images [n, pixels], of mean 0 and spread 1 for each image."""
        x = _standard(x, _LEAST_SPREAD)
        found = functional.relu(self.edges(x.reshape(-1, *self.shape)))
        found = functional.relu(found - found.mean(1, keepdim=True))
        return _SHRUNK * _standard(self.places(found).flatten(1), 1e-3)

    def forward(self, x: Tensor) -> Tensor:
        """Return scores [n, num_classes] of images [n, pixels]."""
        scores: Tensor = self.head(self.describe(x))
        return scores


def image_network(
    kind: str, num_features: int, image_shape: tuple[int, int, int] | None, num_classes: int, width: int
) -> nn.Module:
    """Build a network that scores rows of pixels: ``cnn``, ``mlp`` (one hidden layer) or ``softmax`` (no hidden layer)."""
    if kind == "softmax":
        return nn.Linear(num_features, num_classes)
    if kind == "mlp":
        return nn.Sequential(nn.Linear(num_features, width), nn.ReLU(), nn.Linear(width, num_classes))
    if image_shape is None:
        raise fail("network", kind, "to be mlp or softmax for data that are no images", "Choose one of these.")
    return ConvNet(image_shape, width, num_classes)


def learning_part(network: nn.Module) -> tuple[Callable[[Tensor], Tensor] | None, nn.Module]:
    """Return the layers of a network that stay as they are under privacy, as a function, and those that learn.

    ``network`` comes from :func:`image_network`. Only a convolutional network has layers that stay.
    """
    return (network.describe, network.head) if isinstance(network, ConvNet) else (None, network)


def _standard(rows: Tensor, least: float) -> Tensor:
    rows = rows - rows.mean(1, keepdim=True)
    return rows / rows.square().mean(1, keepdim=True).clamp_min(least**2).sqrt()  # the root of 0 has no gradient


def _gaussian(size: int, width: float) -> Tensor:
    at = torch.arange(size) - size // 2
    bell = torch.exp(-at.square() / (2 * width**2))
    return bell[:, None] * bell / bell.sum() ** 2


def _edges() -> Tensor:
    """Derivatives of a Gaussian in eight directions, [8, 1, 5, 5], each with absolute values that sum to 1."""
    at = (torch.arange(_EDGE) - _EDGE // 2).float()
    angles = [2 * math.pi * number / _DIRECTIONS for number in range(_DIRECTIONS)]
    bell = _gaussian(_EDGE, _EDGE_WIDTH)
    found = torch.stack([(math.cos(a) * at[None, :] + math.sin(a) * at[:, None]) * bell for a in angles])
    return (found / found.abs().sum((1, 2), keepdim=True))[:, None]
