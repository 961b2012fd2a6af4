r"""Networks for images whose pixels come as rows: softmax regression, a perceptron, and a small convolutional network.

The convolutional network starts from public filters, since noise leaves few steps in which to find any: the first convolution
from derivatives of a Gaussian in eight directions (edges), the second from a Gaussian that adds them up in places, less their
mean over directions. Both learn like the layers above.

Every activation is a maximum, a sum or a root: exact functions of single numbers, which
:mod:`~sfumato.bounded.example_gradients` asks for. Layers before the last meet inputs that are scaled by a tenth, and start ten
times as large: so a step changes them ten times less, and noise on them costs less.

Source of the filters: Dalal and Triggs (2005), Histograms of Oriented Gradients for Human Detection.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn
from torch.nn import functional

from sfumato._validate import fail

NETWORKS = ("cnn", "mlp", "softmax")
LEAST_SIDE = 12
_FILTERS, _SIZE = 8, 5
_EDGE_WIDTH, _PLACE_WIDTH = 1.0, 1.25
_STRIDES = 2, 3
_SHRUNK = 0.1
_LEAST_SPREAD = 0.05


class ConvNet(nn.Module):
    """Two convolutions and two dense layers score images that come as rows.

    Each image is set to mean 0 and spread 1 by its own pixels first.

    Args:
        shape: channels, height and width of an image, at least 12 x 12.
        width: number of units of the dense layer between.
        num_classes: number of scores.

    Raises:
        InputError: the images are too small.

    >>> ConvNet((1, 28, 28), 64, 10)(torch.zeros(2, 784)).shape
    torch.Size([2, 10])
    """

    def __init__(self, shape: tuple[int, int, int], width: int, num_classes: int) -> None:
        super().__init__()
        if min(shape[1:]) < LEAST_SIDE:
            expected = f"to be at least {LEAST_SIDE} x {LEAST_SIDE} pixels"
            raise fail("image_shape", shape, expected, "Choose network='mlp'.")
        self.shape = shape
        self.edges = nn.Conv2d(shape[0], _FILTERS, _SIZE, _STRIDES[0], padding=_SIZE // 2, bias=False)
        self.places = nn.Conv2d(_FILTERS, _FILTERS, _SIZE, _STRIDES[1], padding=_SIZE // 2, bias=False)
        self.hidden = nn.Linear(_FILTERS * math.prod(_outputs(side) for side in shape[1:]), width, bias=False)
        self.out = nn.Linear(width, num_classes)
        with torch.no_grad():
            away = torch.eye(_FILTERS) - 1 / _FILTERS
            self.edges.weight.copy_(_edges().expand(-1, shape[0], -1, -1) / (_SHRUNK * shape[0]))
            self.places.weight.copy_(away[:, :, None, None] * _gaussian(_PLACE_WIDTH) / _SHRUNK)
            nn.init.orthogonal_(self.hidden.weight, 0.5 / _SHRUNK)
            nn.init.zeros_(self.out.weight)
            nn.init.zeros_(self.out.bias)

    def forward(self, x: Tensor) -> Tensor:
        """Return scores [n, num_classes] of images [n, pixels]."""
        x = x - x.mean(1, keepdim=True)
        x = x / x.square().mean(1, keepdim=True).sqrt().clamp_min(_LEAST_SPREAD)
        found = functional.relu(self.edges(_SHRUNK * x.reshape(-1, *self.shape)))
        found = self.places(_SHRUNK * found).flatten(1)
        found = found - found.mean(1, keepdim=True)
        found = found / found.square().mean(1, keepdim=True).add(1e-5).sqrt()
        scores: Tensor = self.out(functional.relu(self.hidden(_SHRUNK * found)))
        return scores


def image_network(
    kind: str, num_features: int, image_shape: tuple[int, int, int] | None, num_classes: int, width: int
) -> nn.Module:
    """Build a network that scores rows of pixels: ``cnn``, ``mlp`` (one hidden layer) or ``softmax`` (no hidden layer).

    Args:
        kind: one of the three.
        num_features: pixels of an image, or columns of any other data.
        image_shape: channels, height and width; None for data that are no images.
        num_classes: number of scores.
        width: number of units of the hidden layer.

    Raises:
        InputError: a convolutional network for data that are no images, or for images that are too small.

    >>> sum(p.numel() for p in image_network("softmax", 784, None, 10, 32).parameters())
    7850
    """
    if kind == "softmax":
        return nn.Linear(num_features, num_classes)
    if kind == "mlp":
        return nn.Sequential(nn.Linear(num_features, width), nn.ReLU(), nn.Linear(width, num_classes))
    if image_shape is None:
        raise fail("network", kind, "to be mlp or softmax for data that are no images", "Choose one of these.")
    return ConvNet(image_shape, width, num_classes)


def _outputs(side: int) -> int:
    """How many places both convolutions leave of one side of an image."""
    for stride in _STRIDES:
        side = (side - 1) // stride + 1
    return side


def _gaussian(width: float) -> Tensor:
    at = torch.arange(_SIZE) - _SIZE // 2
    bell = torch.exp(-at.square() / (2 * width**2))
    return bell[:, None] * bell / bell.sum() ** 2


def _edges() -> Tensor:
    """Derivatives of a Gaussian in eight directions, [8, 1, 5, 5], each with absolute values that sum to 1."""
    at = (torch.arange(_SIZE) - _SIZE // 2).float()
    angles = [2 * math.pi * number / _FILTERS for number in range(_FILTERS)]
    bell = _gaussian(_EDGE_WIDTH)
    found = torch.stack([(math.cos(a) * at[None, :] + math.sin(a) * at[:, None]) * bell for a in angles])
    return (found / found.abs().sum((1, 2), keepdim=True))[:, None]
