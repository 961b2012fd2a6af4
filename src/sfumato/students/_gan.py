r"""The student of PATE-G is a semi-supervised GAN: it learns from noisy labels of few public rows and from many unlabeled rows.

A discriminator has K scores :math:`s_k(x)` and a fixed score 0 for "generated". It minimizes the cross-entropy of
:math:`p(k \mid x, k \le K)` on labeled rows, plus :func:`sfumato.nn._gan.unlabeled_loss` on unlabeled and generated ones; the
generator minimizes :func:`sfumato.nn._gan.matching_loss`, the mean over discriminators if there are two.

**Formal guarantee.** The student is a function of public rows, public settings, its own coins and the noisy labels alone; it
is as private as the labels are, however long it trains and however often it predicts (post-processing). That holds while
settings come from public knowledge: one tuned on private rows, on votes or on clean labels of private rows is another release.

Source: Salimans et al. (2016), sections 3.1 and 5; Papernot et al. (2017), section 2.3.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional

from sfumato._validate import ABOVE_0, AT_LEAST_1, check_fields, check_int, fail, integer, one_of
from sfumato.nn._gan import LEAST_WIDTHS, NETWORKS, Discriminator, Generator, matching_loss, unlabeled_loss
from sfumato.nn._training import Adam, Steps
from sfumato.students._histograms import SIDE, edge_histograms
from sfumato.students._public_rows import check_public

_EDGE_SCALE = 4  # of unit rows, so that their entries fill 0 to 1
_GENERATOR_WIDTH = 256
_MOMENTUM = 0.5
_AVERAGING = {"edges": 0.999, "cnn": 0.999, "deep": 0.0, "mlp": 0.999}  # of the running mean of weights, which predicts
_ROWS_AT_ONCE = 1000
_LEAST_SIDE = 5  # of an image: that of the first convolution


@dataclass(frozen=True, eq=False)
class Batch:
    """The labeled rows of one step: their positions and noisy labels; ``epoch`` counts from 1, and ``step`` from 0 in it."""

    rows: Tensor
    labels: Tensor
    epoch: int
    step: int


Watch = Callable[[list[Tensor], Batch], None]


@dataclass(frozen=True)
class GANStudent:
    """The student of PATE-G has one discriminator and takes every noisy label as it is; these are its public settings.

    **Formal guarantee.** Post-processing of the noisy labels, see :mod:`sfumato.students._gan`.

    Args:
        num_classes: number of classes; public, not read off the labels.
        network: "edges" for images [n, channels, 28, 28], of which discriminators see, and the generator makes, histograms of
            edges (:func:`sfumato.students._histograms.edge_histograms`); "cnn" for images; "deep" for images, with the last
            weights where others predict with a running mean; "mlp" for rows of any shape.
        widths: the widths of the discriminator's layers (:class:`~sfumato.nn._gan.Discriminator`).
        epochs: passes over the larger of the labeled and the unlabeled set; the smaller is repeated to its size.
        batch_size: rows of each kind a step: labeled, unlabeled, generated.
        learning_rate: step size of Adam.
        seed: decides the weights, the order of rows, and all noise. Public.
        device: "cpu" or "cuda"; results are bit-identical only on one device with one number of threads.

    Raises:
        InputError: a setting out of range.

    >>> GANStudent(10).discriminators
    1
    """

    num_classes: int
    network: str = "edges"
    widths: tuple[int, ...] = (300, 150)
    epochs: int = 100
    batch_size: int = 100
    learning_rate: float = 3e-3
    seed: int = 0
    device: str = "cpu"

    discriminators: ClassVar[int] = 1

    def __post_init__(self) -> None:
        check_fields(self, network=one_of(*NETWORKS), num_classes=integer(2), epochs=AT_LEAST_1)
        check_fields(self, batch_size=integer(2), seed=integer(0))
        for i, width in enumerate(self.widths):
            check_int("", low=1, high=None, **{f"widths[{i}]": width})
        least = LEAST_WIDTHS[self.network]
        if len(self.widths) < least:
            expected = f"to be at least {least} for network={self.network!r}"
            raise fail("widths", self.widths, expected, "Give one width a layer.")
        check_fields(self, learning_rate=ABOVE_0)

    def fit(
        self,
        x_labeled: NDArray[np.floating],
        y_noisy: NDArray[np.integer],
        x_unlabeled: NDArray[np.floating],
        *,
        progress: Steps | None = None,
    ) -> TrainedStudent:
        """Train a student on public rows.

        Args:
            x_labeled: public rows that were answered [n, ...], 0 to 1.
            y_noisy: the answers [n], integers: noisy labels and nothing else.
            x_unlabeled: further public rows [m, ...], 0 to 1; no row that will measure accuracy.
            progress: a function, called with (epoch, epochs).

        Raises:
            InputError: wrong shapes, values outside 0 to 1, labels out of range, no rows.
        """
        return train(self, *self._checked(x_labeled, y_noisy, x_unlabeled), progress=progress)

    def supervised(self, scores: list[Tensor], batch: Batch) -> list[Tensor]:
        """Compute the supervised loss of each discriminator from the scores [batch, classes] of each."""
        return [functional.cross_entropy(own, batch.labels) for own in scores]

    def _checked(
        self, x_labeled: Any, y_noisy: Any, x_unlabeled: Any
    ) -> tuple[NDArray[np.float32], NDArray[np.int64], NDArray[np.float32]]:
        images = (_LEAST_SIDE, math.inf)
        sides = {"edges": (SIDE, SIDE), "cnn": images, "deep": images, "mlp": None}[self.network]
        x, y, pool = check_public(x_labeled, y_noisy, x_unlabeled, self.num_classes, sides=sides, least_unlabeled=1)
        return seen(x, self.network), y, seen(pool, self.network)


@dataclass(frozen=True, eq=False)
class TrainedStudent:
    """A trained student is as private as the labels it saw; two discriminators predict by the mean of their probabilities.

    ``generator`` is None in a student that was loaded: predicting needs none.
    """

    discriminators: tuple[Discriminator, ...]
    generator: Generator | None
    device: str

    def predict_proba(self, x: NDArray[np.floating]) -> NDArray[np.float32]:
        """Compute probabilities [rows, classes] of rows shaped like the public ones."""
        first = self.discriminators[0]
        images = first.network == "edges"
        if (np.shape(x)[2:] != (SIDE, SIDE)) if images else (np.shape(x)[1:] != first.shape):
            expected = f"[n, channels, {SIDE}, {SIDE}]" if images else f"{[len(x), *first.shape]}"
            raise fail("x", np.shape(x), f"to have the shape {expected}", "The student saw such rows.")
        rows = torch.from_numpy(seen(np.ascontiguousarray(x, np.float32), first.network)).split(_ROWS_AT_ONCE)
        with torch.no_grad():
            parts = [sum(net(part.to(self.device))[1].softmax(1) for net in self.discriminators) for part in rows]
        return np.asarray((torch.cat(parts) / len(self.discriminators)).cpu().numpy())

    def predict(self, x: NDArray[np.floating]) -> NDArray[np.int64]:
        return self.predict_proba(x).argmax(1)


def seen(x: NDArray[np.float32], network: str) -> NDArray[np.float32]:
    """Return what networks of a kind see of rows: the rows themselves, or histograms of their edges."""
    return x if network != "edges" else np.asarray(edge_histograms(torch.from_numpy(x)) * _EDGE_SCALE)


def train(
    settings: GANStudent,
    x: NDArray[np.float32],
    y: NDArray[np.int64],
    pool: NDArray[np.float32],
    *,
    progress: Steps | None = None,
    watch: Watch | None = None,
) -> TrainedStudent:
    """Run algorithm 1 of the thesis for any number of discriminators and any choice of labeled rows."""
    with torch.random.fork_rng():
        torch.manual_seed(settings.seed)
        networks = _Networks(settings, x.shape[1:])
        rows, labels, unlabeled = (torch.from_numpy(part).to(settings.device) for part in (x, y, pool))
        for epoch in range(1, settings.epochs + 1):
            for step, (own, other) in enumerate(_epoch(len(rows), len(unlabeled), settings.batch_size)):
                batch = Batch(own.to(settings.device), labels[own], epoch, step)
                networks.step(rows[own], unlabeled[other], batch, watch)
            if progress is not None:
                progress(epoch, settings.epochs)
    return TrainedStudent(networks.averaged(), networks.generator.eval().requires_grad_(False), settings.device)


class _Networks:
    def __init__(self, settings: GANStudent, shape: tuple[int, ...]) -> None:
        self.settings = settings
        self.discriminators = tuple(
            Discriminator(shape, settings.widths, settings.num_classes, settings.network).to(settings.device)
            for _ in range(settings.discriminators)
        )
        self.generator = Generator(shape, _GENERATOR_WIDTH).to(settings.device)
        self.optimizers = [
            Adam(net.parameters(), settings.learning_rate, momentum=_MOMENTUM) for net in self.discriminators
        ]
        self.generating = Adam(self.generator.parameters(), settings.learning_rate, momentum=_MOMENTUM)
        self.means = [optimizer.flat.clone() for optimizer in self.optimizers]

    def step(self, labeled: Tensor, unlabeled: Tensor, batch: Batch, watch: Watch | None) -> None:
        generated = self.generator(self.settings.batch_size)
        sizes = [len(labeled), len(unlabeled), len(generated)]
        joint = torch.cat([labeled, unlabeled, generated.detach()])
        scores = [net(joint)[1].split(sizes) for net in self.discriminators]
        own = [parts[0] for parts in scores]
        if watch is not None:
            watch([part.detach() for part in own], batch)
        losses = self.settings.supervised(own, batch)
        totals = [loss + unlabeled_loss(*parts[1:]) for loss, parts in zip(losses, scores, strict=True)]
        torch.stack(totals).sum().backward()
        kept = _AVERAGING[self.settings.network]
        for optimizer, mean in zip(self.optimizers, self.means, strict=True):
            optimizer.step()
            mean.lerp_(optimizer.flat, 1 - min(kept, optimizer.steps / (optimizer.steps + 9)))
        self._generate(unlabeled, generated)

    def _generate(self, unlabeled: Tensor, generated: Tensor) -> None:
        losses = []
        for net in self.discriminators:
            net.requires_grad_(False)
            losses.append(matching_loss(net(unlabeled)[0], net(generated)[0]))
        torch.stack(losses).mean().backward()
        self.generating.step()
        for net in self.discriminators:
            net.requires_grad_(True)

    def averaged(self) -> tuple[Discriminator, ...]:
        """The discriminators at the running mean of their weights, ready to predict."""
        for net, optimizer, mean in zip(self.discriminators, self.optimizers, self.means, strict=True):
            optimizer.flat.copy_(mean)
            net.eval().requires_grad_(False)
        return self.discriminators


def _epoch(labeled: int, unlabeled: int, batch_size: int) -> Iterator[tuple[Tensor, Tensor]]:
    """Positions of labeled and of unlabeled rows, step by step: the smaller set repeated to the size of the larger."""
    size = max(labeled, unlabeled)
    orders = [_repeated(count, size).split(batch_size) for count in (labeled, unlabeled)]
    return zip(*orders, strict=True)


def _repeated(count: int, size: int) -> Tensor:
    """All positions below ``count``, equally often up to one, in random order."""
    whole, rest = divmod(size, count)
    return torch.cat([torch.arange(count).repeat(whole), torch.randperm(count)[:rest]])[torch.randperm(size)]
