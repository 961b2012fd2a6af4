"""The semi-supervised GAN with feature matching has a generator, a discriminator of K classes, and their losses."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

NETWORKS = ("edges", "cnn", "deep", "mlp")
LEAST_WIDTHS = {"edges": 1, "cnn": 3, "deep": 3, "mlp": 1}
"""How many widths a network needs at least."""
_INPUT_NOISE = {"edges": 0.1, "cnn": 0.3, "deep": 0.0, "mlp": 0.3}
_HIDDEN_NOISE = {"edges": 0.5, "cnn": 0.5, "deep": 0.0, "mlp": 0.5}
_SLOPE = 0.2


class Discriminator(nn.Module):
    """The discriminator gives K scores a row; the score of the class "generated" is fixed at 0.

    Gaussian noise is added to the input and to every hidden layer while training, but for "deep"; there is no batch norm,
    which would mix labeled, unlabeled and generated rows.

    For "cnn", ``widths`` begin with the channels after a 5 x 5 and a 3 x 3 convolution, both of stride 2; for "deep", with
    those of the first three convolutions and of the last four. Hidden widths follow, the last being the features. "deep" are
    the seven convolutions of the published teachers, which are (96, 192, 192, 192) wide, and "edges" is "mlp" with less noise
    on its input.

    Source: Salimans et al. (2016), section 5; Papernot et al. (2017), the deeper network of its published code.
    """

    def __init__(self, shape: tuple[int, ...], widths: Sequence[int], num_classes: int, network: str) -> None:
        super().__init__()
        self.shape, self.network = shape, network
        self.convolutions = nn.ModuleList()
        if network in ("cnn", "deep"):
            first, second, *widths = widths
            for channels, kernel, stride, padding in _convolutions(network, first, second):
                self.convolutions.append(nn.Conv2d(shape[0], channels, kernel, stride=stride, padding=padding))
                shape = (channels, *((side + 2 * padding - kernel) // stride + 1 for side in shape[1:]))
        self.layers = nn.ModuleList([nn.Linear(a, b) for a, b in pairwise([int(np.prod(shape)), *widths])])
        self.head = nn.Linear(widths[-1], num_classes)
        if network == "deep":  # the usual weights of torch would let signals die out over so many layers
            for layer in (*self.convolutions, *self.layers):
                nn.init.kaiming_normal_(layer.weight, _SLOPE)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        noise = _HIDDEN_NOISE[self.network]
        out = self._noisy(x, _INPUT_NOISE[self.network])
        for layer in self.convolutions:
            out = functional.leaky_relu(layer(out), _SLOPE)
        out = out.flatten(1)
        for i, layer in enumerate(self.layers):
            out = functional.leaky_relu(layer(self._noisy(out, noise) if i else out), _SLOPE)
        return out, self.head(self._noisy(out, noise))

    def _noisy(self, x: Tensor, scale: float) -> Tensor:
        return x + scale * torch.randn_like(x) if self.training and scale else x


def _convolutions(network: str, first: int, second: int) -> tuple[tuple[int, int, int, int], ...]:
    """Channels, kernel, stride and padding of each convolution."""
    if network == "cnn":
        return (first, 5, 2, 0), (second, 3, 2, 1)
    part = [((width, 3, 1, 1), (width, 3, 1, 1), (width, 3, 2, 1)) for width in (first, second)]
    return *part[0], *part[1], (second, 5, 1, 2)


class Generator(nn.Module):
    """The generator makes rows in 0 to 1 from uniform noise.

    It has three linear layers, with batch norm and softplus between them.

    Source: Salimans et al. (2016), the generator for MNIST.
    """

    def __init__(self, shape: tuple[int, ...], width: int, num_inputs: int = 100) -> None:
        super().__init__()
        self.shape, self.num_inputs = shape, num_inputs
        self.layers = nn.ModuleList([nn.Linear(num_inputs, width), nn.Linear(width, width)])
        self.norms = nn.ModuleList([nn.BatchNorm1d(width) for _ in self.layers])
        self.last = nn.Linear(width, int(np.prod(shape)))

    def forward(self, rows: int) -> Tensor:
        out = torch.rand(rows, self.num_inputs, device=self.last.weight.device)
        for layer, norm in zip(self.layers, self.norms, strict=True):
            out = functional.softplus(norm(layer(out)))
        return torch.sigmoid(self.last(out)).view(rows, *self.shape)


def unlabeled_loss(real: Tensor, generated: Tensor) -> Tensor:
    r"""Compute half of :math:`-E \log(1 - p(K+1 \mid x)) - E \log p(K+1 \mid G(z))`.

    Here :math:`p(K+1 \mid x) = 1 / (1 + \sum_k e^{s_k(x)})` is the probability of "generated", whose score is 0.

    Source: Salimans et al. (2016), section 5; the half is that of its published training.
    """
    return (functional.softplus(-real.logsumexp(1)).mean() + functional.softplus(generated.logsumexp(1)).mean()) / 2


def matching_loss(real: Tensor, generated: Tensor) -> Tensor:
    """Compute the loss of feature matching: the mean over features of :math:`(E f(x) - E f(G(z)))^2`.

    Source: Salimans et al. (2016), section 3.1, with the norm's sum over features as a mean.
    """
    return (real.mean(0) - generated.mean(0)).square().mean()
