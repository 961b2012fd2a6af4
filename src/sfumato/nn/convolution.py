"""Networks for images whose pixels come as rows: softmax regression, a perceptron, and a small convolutional network."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from sfumato._validate import fail

NETWORKS = ("cnn", "mlp", "softmax")


class ConvNet(nn.Module):
    """Two convolutions and two dense layers score images that come as rows.

    Args:
        shape: channels, height and width of an image, at least 12 x 12.
        width: number of units of the dense layer between.
        num_classes: number of scores.

    Raises:
        InputError: the images are too small.

    >>> ConvNet((1, 28, 28), 32, 10)(torch.zeros(2, 784)).shape
    torch.Size([2, 10])
    """

    def __init__(self, shape: tuple[int, int, int], width: int, num_classes: int) -> None:
        super().__init__()
        if min(shape[1:]) < 12:
            raise fail("image_shape", shape, "to be at least 12 x 12 pixels", "Choose network='mlp'.")
        self.shape = shape
        self.features = nn.Sequential(
            nn.Conv2d(shape[0], 16, 8, stride=2, padding=3),
            nn.Tanh(),
            nn.MaxPool2d(2, 1),
            nn.Conv2d(16, 32, 4, stride=2),
            nn.Tanh(),
            nn.MaxPool2d(2, 1),
            nn.Flatten(),
        )
        size = self.features(torch.zeros(1, *shape)).shape[1]
        self.head = nn.Sequential(nn.Linear(size, width), nn.Tanh(), nn.Linear(width, num_classes))

    def forward(self, x: Tensor) -> Tensor:
        """Return scores [n, num_classes] of images [n, pixels]."""
        scores: Tensor = self.head(self.features(x.reshape(-1, *self.shape)))
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
        InputError: a convolutional network for data that are no images.

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
