r"""This student learns from few noisy labels and many public images: neighbors first, then consistency under augmentation.

**Formal guarantee.** Post-processing: public images, noisy answers and a public seed go in, and nothing else, so a student
costs nothing beyond its labels. No step reads a teacher, a count of votes or a true label.

**Training.** (1) Every image is described by histograms of its edges' directions; regression on the answers and agreement
among neighbors give each a class, answered or not (:mod:`sfumato.students._neighborhood`): most noise that
aggregation added is outvoted. (2) A network of one hidden layer on these histograms learns the classes from strongly
augmented views s(x) (affine map, cut-out),

.. math:: L = \frac{1}{|U|} \sum_U H(\hat y(x), p(s(x))),

all images alike, for those that neighbors disagree about teach most. After a warm-up, the class :math:`\hat y` of an image
is the one that the moving average of the network's weights sees in a weak view (shift, mirror), where it is surer than a
threshold.

Source: Iscen et al. (2019), Label Propagation for Deep Semi-supervised Learning; Sohn et al. (2020), FixMatch; Tarvainen and
Valpola (2017), Mean teachers.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional

from sfumato._validate import ABOVE_0, AT_LEAST_1, check_fields, fail, integer, real
from sfumato.nn._training import Adam, Steps
from sfumato.students._histograms import EDGES, SIDE, edge_histograms, upright
from sfumato.students._neighborhood import label_all
from sfumato.students._public_rows import check_public

STUDENT_SETTINGS: Mapping[str, Mapping[str, Any]] = MappingProxyType(
    {
        "mnist": MappingProxyType({"slanted": True}),
        "fashion_mnist": MappingProxyType({"max_degrees": 8.0, "mirror": True}),
    }
)
"""For the named images: digits are slanted and have no mirror image, clothes are upright and have one."""

_AT_ONCE = 500
_SCALE = math.sqrt(EDGES)  # of unit rows, so that their entries are about 1


@dataclass(frozen=True)
class ConsistencyStudent:
    """The recommended student learns from noisy labels and unlabeled images; these are its public settings.

    Args:
        num_classes: number of classes, which is public.
        width: number of units in the hidden layer.
        neighbors: number of images to which an image is joined.
        slanted: set images upright first (:func:`upright`), as handwriting needs.
        steps: minibatches of the network.
        batch_size: images of a minibatch.
        threshold: how sure the moving average must be for its class to count.
        learning_rate: step size of Adam at its peak; it falls to 0 along a cosine.
        average: decay of the moving average of the weights.
        warm_up: share of the steps that learn the neighbors' classes alone.
        max_shift: pixels in each direction.
        max_degrees: largest rotation of a strong view, in degrees.
        max_scale: share by which a strong view grows, shrinks and shears, each axis by itself.
        cut_out: side of the square that a strong view loses, in pixels.
        mirror: images are mirrored left to right, half of the time.
        seed: decides folds, initial weights and minibatches.

    Raises:
        InputError: a setting out of range.

    >>> x = np.zeros((40, 1, 28, 28), np.float32)
    >>> x[::2, :, :, :14] = x[1::2, :, :14] = 1
    >>> student = ConsistencyStudent(2, width=8, steps=40).fit(x[:10], np.array([0, 1] * 5), x[10:])
    >>> student.predict(x[:4]).tolist()
    [0, 1, 0, 1]
    """

    num_classes: int = 10
    width: int = 512
    neighbors: int = 5
    slanted: bool = False
    steps: int = 1200
    batch_size: int = 128
    threshold: float = 0.95
    learning_rate: float = 2e-3
    average: float = 0.99
    warm_up: float = 0.5
    max_shift: int = 1
    max_degrees: float = 10.0
    max_scale: float = 0.1
    cut_out: int = 6
    mirror: bool = False
    seed: int = 0

    def __post_init__(self) -> None:
        share = real(0, 1, below=True)
        check_fields(self, num_classes=integer(2), steps=AT_LEAST_1, batch_size=AT_LEAST_1, neighbors=AT_LEAST_1)
        check_fields(self, width=AT_LEAST_1, max_shift=integer(0, SIDE // 2), cut_out=integer(0, SIDE), seed=integer(0))
        check_fields(self, learning_rate=ABOVE_0, threshold=share, average=share, warm_up=share, max_scale=share)
        check_fields(self, max_degrees=real(0, 180))

    def fit(
        self,
        x_labeled: NDArray[np.floating],
        y_noisy: NDArray[np.integer],
        x_unlabeled: NDArray[np.floating],
        progress: Steps | None = None,
    ) -> NetworkStudent:
        """Train from public images and noisy labels.

        Args:
            x_labeled: images [n, channels, 28, 28] in 0 to 1 that an aggregator answered.
            y_noisy: its answers [n].
            x_unlabeled: other public images [m, channels, 28, 28]; m may be 0.
            progress: a function, called with (step, steps).

        Raises:
            InputError: wrong shapes, no labels, or labels out of range.
        """
        known, y, pool = check_public(x_labeled, y_noisy, x_unlabeled, self.num_classes, sides=(SIDE, SIDE))
        x = torch.from_numpy(np.concatenate([known, pool]))
        x = upright(x) if self.slanted else x
        rows, answers = edge_histograms(x), torch.from_numpy(y)
        label = label_all(rows, answers, self.num_classes, neighbors=self.neighbors, seed=self.seed)
        draw = torch.Generator().manual_seed(self.seed)
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(self.seed)
            network, average = (edge_network(self.width, self.num_classes) for _ in range(2))
        average.load_state_dict(network.state_dict())
        average.requires_grad_(False)
        optimizer = Adam(network.parameters(), self.learning_rate)
        for step in range(self.steps):
            optimizer.learning_rate = self.learning_rate * _cosine(step, self.steps)
            chosen = torch.randint(len(x), (self.batch_size,), generator=draw)
            weak = self._weak(x[chosen], draw)
            target = label[chosen]
            if step >= self.warm_up * self.steps:
                with torch.no_grad():
                    sure, guess = average(_described(weak)).softmax(1).max(1)
                target = torch.where(sure >= self.threshold, guess, target)
            functional.cross_entropy(network(_described(self._strong(weak, draw))), target).backward()
            optimizer.step()
            decay = min(self.average, (1 + step) / (10 + step))
            for mean, new in zip(average.parameters(), network.parameters(), strict=True):
                mean.lerp_(new.detach(), 1 - decay)
            if progress is not None:
                progress(step + 1, self.steps)
        return NetworkStudent(average, self.slanted)

    def _weak(self, x: Tensor, draw: torch.Generator) -> Tensor:
        """Make weak views of images: shifted, and perhaps mirrored."""
        size, reach = len(x), self.max_shift
        if reach:
            down, right = torch.randint(2 * reach + 1, (2, size), generator=draw)
            padded = functional.pad(x, (reach,) * 4)
            x = padded.unfold(2, SIDE, 1).unfold(3, SIDE, 1)[torch.arange(size), :, down, right]
        if self.mirror:
            flipped = torch.rand(size, 1, 1, 1, generator=draw) < 0.5
            x = torch.where(flipped, x.flip(-1), x)
        return x

    def _strong(self, x: Tensor, draw: torch.Generator) -> Tensor:
        """Rotated, stretched, sheared views with a square cut out."""
        turn, wide, high, shear = torch.rand(4, len(x), generator=draw) * 2 - 1
        angle = turn * math.radians(self.max_degrees)
        wide, high = 1 + wide * self.max_scale, 1 + high * self.max_scale
        shear = shear * self.max_scale
        rows = torch.stack([wide * angle.cos(), shear - angle.sin(), torch.zeros_like(angle)], 1)
        columns = torch.stack([angle.sin(), high * angle.cos(), torch.zeros_like(angle)], 1)
        grid = functional.affine_grid(torch.stack([rows, columns], 1), list(x.shape), align_corners=False)
        x = functional.grid_sample(x, grid, align_corners=False)
        if self.cut_out:
            corner = torch.randint(SIDE - self.cut_out + 1, (2, len(x), 1), generator=draw)
            at = torch.arange(SIDE)
            inside_row, inside_column = ((at >= start) & (at < start + self.cut_out) for start in corner)
            x = x * ~(inside_row[:, None, :, None] & inside_column[:, None, None, :])
        return x


@dataclass(frozen=True, eq=False)
class NetworkStudent:
    """A trained network student may leave under the guarantee of its labels."""

    network: nn.Module
    slanted: bool = False

    def predict_proba(self, x: NDArray[np.floating]) -> NDArray[np.float32]:
        """Compute probabilities [images, classes] of images [n, channels, 28, 28]."""
        if np.shape(x)[2:] != (SIDE, SIDE):
            raise fail(
                "x", np.shape(x), f"to have the shape [n, channels, {SIDE}, {SIDE}]", "The student saw such images."
            )
        rows = torch.from_numpy(np.ascontiguousarray(x, np.float32)).split(_AT_ONCE)
        with torch.no_grad():
            seen = (upright(part) if self.slanted else part for part in rows)
            return np.concatenate([self.network(_described(part)).softmax(1).numpy() for part in seen])

    def predict(self, x: NDArray[np.floating]) -> NDArray[np.int64]:
        return np.asarray(self.predict_proba(x).argmax(1), np.int64)


def edge_network(width: int, num_classes: int) -> nn.Sequential:
    """Build a network of one hidden layer, from histograms of edges to scores."""
    return nn.Sequential(nn.Linear(EDGES, width), nn.ReLU(), nn.Linear(width, num_classes))


def _described(x: Tensor) -> Tensor:
    return edge_histograms(x) * _SCALE


def _cosine(step: int, steps: int) -> float:
    """Share of the peak learning rate: decided by the number of the step."""
    return (1 + math.cos(math.pi * step / steps)) / 2
