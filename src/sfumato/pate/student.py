r"""A student that learns from few noisy labels and many public images: neighbors first, then consistency under augmentation.

**Formal guarantee.** Post-processing: public images, noisy answers and a public seed go in, and nothing else, so a student
costs nothing beyond its labels. No step reads a teacher, a count of votes or a true label.

**Training.** (1) Every image is described by histograms of its edges' directions, and joined to its nearest neighbors;
answers spread over this graph, :math:`Z \leftarrow \alpha S Z + (1 - \alpha) Y` with S the symmetrically normalized
similarities and Y the one-hot answers, so that each image, answered or not, gets a class that its neighborhood agrees upon:
noise that aggregation added is outvoted. alpha is the one of ``SPREADS`` that best foretells answers left out. (2) A
network learns these classes from strongly augmented views s(x) (affine map, cut-out),

.. math:: L = \frac{1}{|U|} \sum_U H(\hat y(x), p(s(x))),

all images alike, for those that neighbors disagree about teach most. After a warm-up, the class :math:`\hat y` of an image
is the one that the moving average of the network's weights sees in a weak view (shift, mirror), where it is surer than a
threshold.

Source: Zhou et al. (2004), Learning with Local and Global Consistency; Iscen et al. (2019), Label Propagation for Deep
Semi-supervised Learning; Sohn et al. (2020), FixMatch; Tarvainen and Valpola (2017), Mean teachers.
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
from scipy import sparse
from torch import Tensor, nn
from torch.nn import functional

from sfumato._validate import check_int, check_real
from sfumato.nn.training import Adam, Progress
from sfumato.pate.histograms import SIDE, edge_histograms, upright
from sfumato.pate.public_rows import check_public

STUDENT_SETTINGS: Mapping[str, Mapping[str, Any]] = MappingProxyType(
    {
        "mnist": MappingProxyType({"slanted": True}),
        "fashion_mnist": MappingProxyType({"max_degrees": 8.0, "mirror": True}),
    }
)
"""For the named images: digits are slanted and have no mirror image, clothes are upright and have one."""
SPREADS = (0.99, 0.97, 0.9, 0.8)
"""Candidates of alpha, how far answers spread; the first of equals is taken."""

_AT_ONCE = 500
_ROUNDS = 60  # of spreading
_FOLDS = 5
_POWER = 4  # of similarities


@dataclass(frozen=True)
class ConsistencyStudent:
    """Public settings of the recommended student, which learns from noisy labels and unlabeled images.

    Args:
        num_classes: public.
        channels: of the first convolution and of the other two.
        neighbors: to which an image is joined.
        slanted: set images upright first (:func:`upright`), as handwriting needs.
        steps: minibatches of the network.
        batch_size: images of a minibatch.
        threshold: how sure the moving average must be for its class to count.
        learning_rate: of Adam at its peak; it falls to 0 along a cosine.
        average: decay of the moving average of the weights.
        warm_up: share of the steps that learn the neighbors' classes alone.
        max_shift: pixels in each direction.
        max_degrees: of rotation, strong views.
        max_scale: share by which a strong view grows, shrinks and shears, each axis by itself.
        cut_out: side of the square that a strong view loses, in pixels.
        mirror: images are mirrored left to right, half of the time.
        seed: of folds, initial weights and minibatches.

    Raises:
        InputError: a setting out of range.

    >>> x = np.zeros((40, 1, 28, 28), np.float32)
    >>> x[::2, :, :, :14] = x[1::2, :, :14] = 1
    >>> student = ConsistencyStudent(2, channels=(4, 4), steps=40).fit(x[:10], np.array([0, 1] * 5), x[10:])
    >>> student.predict(x[:4]).tolist()
    [0, 1, 0, 1]
    """

    num_classes: int = 10
    channels: tuple[int, int] = (16, 32)
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
        for name, low, high in (
            ("num_classes", 2, None), ("steps", 1, None), ("batch_size", 1, None), ("neighbors", 1, None),
            ("max_shift", 0, SIDE // 2), ("cut_out", 0, SIDE), ("seed", 0, None),
        ):  # fmt: skip
            check_int("", low=low, high=high, **{name: getattr(self, name)})
        for i, width in enumerate(self.channels):
            check_int("", low=1, **{f"channels[{i}]": width})
        check_real(low=0, open_low=True, learning_rate=self.learning_rate)
        for name in ("threshold", "average", "warm_up", "max_scale"):
            check_real("", low=0, high=1, open_high=True, **{name: getattr(self, name)})
        check_real(low=0, high=180, max_degrees=self.max_degrees)

    def fit(
        self,
        x_labeled: NDArray[np.floating],
        y_noisy: NDArray[np.integer],
        x_unlabeled: NDArray[np.floating],
        progress: Progress | None = None,
    ) -> NetworkStudent:
        """Train from public images and noisy labels.

        Args:
            x_labeled: images [n, channels, 28, 28] in 0 to 1 that an aggregator answered.
            y_noisy: its answers [n].
            x_unlabeled: other public images [m, channels, 28, 28]; m may be 0.
            progress: called with (step, steps).

        Raises:
            InputError: wrong shapes, no labels, or labels out of range.
        """
        known, y, pool = check_public(x_labeled, y_noisy, x_unlabeled, self.num_classes, sides=(SIDE, SIDE))
        x = torch.from_numpy(np.concatenate([known, pool]))
        x = upright(x) if self.slanted else x
        near = similarities(edge_histograms(x), self.neighbors)
        label = spread(near, torch.from_numpy(y), self.num_classes, self.seed)
        draw = torch.Generator().manual_seed(self.seed)
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(self.seed)
            network, average = (image_network(x.shape[1], self.channels, self.num_classes) for _ in range(2))
        average.load_state_dict(network.state_dict())
        average.requires_grad_(False)
        optimizer = Adam(network.parameters(), self.learning_rate)
        for step in range(self.steps):
            optimizer.learning_rate = self.learning_rate * _cosine(step, self.steps)
            rows = torch.randint(len(x), (self.batch_size,), generator=draw)
            weak = self._weak(x[rows], draw)
            target = label[rows]
            if step >= self.warm_up * self.steps:
                with torch.no_grad():
                    sure, guess = average(weak).softmax(1).max(1)
                target = torch.where(sure >= self.threshold, guess, target)
            functional.cross_entropy(network(self._strong(weak, draw)), target).backward()
            optimizer.step()
            decay = min(self.average, (1 + step) / (10 + step))
            for mean, new in zip(average.parameters(), network.parameters(), strict=True):
                mean.lerp_(new.detach(), 1 - decay)
            if progress is not None:
                progress(step + 1, self.steps)
        return NetworkStudent(average, self.slanted)

    def _weak(self, x: Tensor, draw: torch.Generator) -> Tensor:
        """Shifted, and perhaps mirrored, views."""
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
    """A trained network; it may leave under the guarantee of its labels."""

    network: nn.Module
    slanted: bool = False

    def predict_proba(self, x: NDArray[np.floating]) -> NDArray[np.float32]:
        """Probabilities [images, classes]."""
        rows = torch.from_numpy(np.ascontiguousarray(x, np.float32)).split(_AT_ONCE)
        with torch.no_grad():
            seen = (upright(part) if self.slanted else part for part in rows)
            return np.concatenate([self.network(part).softmax(1).numpy() for part in seen])

    def predict(self, x: NDArray[np.floating]) -> NDArray[np.int64]:
        """Classes [images]."""
        return np.asarray(self.predict_proba(x).argmax(1), np.int64)


def similarities(rows: Tensor, neighbors: int) -> sparse.csr_matrix:
    """Join every row to its nearest ones: symmetrically normalized fourth powers of cosines.

    Shapes: unit rows [n, d] to [n, n].

    >>> similarities(torch.tensor([[1.0, 0.0], [1.0, 0.0], [0.0, 1.0]]), 1).toarray().round(3).tolist()
    [[0.0, 1.0, 0.0], [1.0, 0.0, 0.0], [0.0, 0.0, 0.0]]
    """
    count = len(rows)
    neighbors = min(neighbors, count - 1)
    cosines, nearest = np.empty((count, neighbors)), np.empty((count, neighbors), np.int64)
    for start in range(0, count, _AT_ONCE):
        products = rows[start : start + _AT_ONCE] @ rows.T
        own = torch.arange(len(products))
        products[own, start + own] = -1.0
        found = products.topk(neighbors)
        cosines[start : start + _AT_ONCE], nearest[start : start + _AT_ONCE] = found.values, found.indices
    weights = np.maximum(cosines, 0) ** _POWER
    places = np.repeat(np.arange(count), neighbors), nearest.ravel()
    graph = sparse.csr_matrix((weights.ravel(), places), shape=(count, count))
    graph = graph + graph.T
    scale = sparse.diags(1 / np.sqrt(np.maximum(np.asarray(graph.sum(1)).ravel(), 1e-12)))
    return (scale @ graph @ scale).tocsr()


def spread(graph: sparse.csr_matrix, y: Tensor, num_classes: int, seed: int = 0) -> Tensor:
    """Spread the classes of the first rows over the graph, as far as best foretells those left out.

    An answer weighs the less the more often its class was answered, by the root: halfway to equal mass for all classes.

    Shapes: classes [labeled] to classes [rows]; a row that nothing reaches gets class 0.

    >>> path = sparse.diags([0.5, 0.5], [-1, 1], shape=(6, 6)).tocsr()[[0, 5, 1, 2, 3, 4]][:, [0, 5, 1, 2, 3, 4]]
    >>> spread(path, torch.tensor([0, 1]), 2).tolist()
    [0, 1, 0, 0, 1, 1]
    """
    labels = y.numpy()
    counts = np.bincount(labels, minlength=num_classes)
    fold = np.random.default_rng(seed).permutation(len(labels)) % _FOLDS
    shown = np.zeros((graph.shape[0], _FOLDS + 1, num_classes))
    for i in range(_FOLDS + 1):  # the last one shows all
        kept = np.flatnonzero(fold != i)
        shown[kept, i, labels[kept]] = 1 / np.sqrt(counts[labels[kept]])
    best, mass = -1, shown[:, -1]
    for alpha in SPREADS:
        held = shown.reshape(len(shown), -1)
        for _ in range(_ROUNDS):
            held = alpha * (graph @ held) + (1 - alpha) * shown.reshape(len(shown), -1)
        found = held.reshape(shown.shape)
        right = int((found[np.arange(len(labels)), fold].argmax(1) == labels).sum())
        if right > best:
            best, mass = right, found[:, -1]
    return torch.from_numpy(mass.argmax(1))


def image_network(inputs: int, channels: tuple[int, int], num_classes: int) -> nn.Sequential:
    """Three convolutions, two of them with stride 2, and two linear layers: from images of 28 x 28 to scores.

    >>> sum(weight.numel() for weight in image_network(1, (16, 32), 10).parameters())
    216426
    """
    first, second = channels
    return nn.Sequential(
        nn.Conv2d(inputs, first, 5, stride=2, padding=2),
        nn.ReLU(),
        nn.Conv2d(first, second, 3, stride=2, padding=1),
        nn.ReLU(),
        nn.Conv2d(second, second, 3, padding=1),
        nn.ReLU(),
        nn.Flatten(),
        nn.Linear(49 * second, 128),
        nn.ReLU(),
        nn.Linear(128, num_classes),
    )


def _cosine(step: int, steps: int) -> float:
    """Share of the peak learning rate: decided by the number of the step."""
    return (1 + math.cos(math.pi * step / steps)) / 2
