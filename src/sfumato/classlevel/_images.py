"""The methods of this package share this: networks on rows of pixels, plain training, and scores in batches."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from sfumato._validate import ABOVE_0, AT_LEAST_1, PRIVATE, check_fields, fail, flag, integer, one_of, real, setting
from sfumato.errors import InputError
from sfumato.graph._subgraph import dense_rows
from sfumato.method.card import Control
from sfumato.method.contract import Arrays, Outcome, Planned, Session
from sfumato.method.curator import CuratorMethod
from sfumato.nn._augmentation import Copies
from sfumato.nn._convolution import NETWORKS, image_network, learning_part
from sfumato.nn._training import SGD, Adam, Momentum, Steps, train_in_batches
from sfumato.nn._weights import load_weights, network_arrays, num_parameters, seeded
from sfumato.record.ledger import Release

if TYPE_CHECKING:
    from sfumato.graph._graph import Graph, PublicFacts
    from sfumato.privacy.events import PoissonGaussianEvent
    from sfumato.privacy.units import Unit

_AT_ONCE = 1000
_PLAIN_EPOCHS, _PLAIN_STEPS, _PLAIN_BATCH, _PLAIN_RATE = 10, 500, 128, 0.001
_HEAD = "network.head"
_OPTIMIZERS = ("momentum", "adam", "sgd")
CONTROLS = (
    Control(
        "floor",
        "floor: softmax regression, same budget",
        settings={"network": "softmax"},
        unless={"network": "softmax"},
    ),
    Control("ceiling", "ceiling: no privacy", private=False),
)


@dataclass(frozen=True)
class ImageMethod(CuratorMethod):
    """An image method trains one network on rows of pixels: by noisy steps, or plainly without privacy.

    Args:
        network: "cnn" (two convolutions, two dense layers), "mlp" (one hidden layer) or "softmax" (none).
        width: number of units of the hidden dense layer.
        optimizer: "momentum" (descent with momentum 0.9, whose rate falls to 0), "adam" or "sgd" (plain descent).
        learning_rate: step size of the optimizer, in (0, 100].
        l2_clip_norm: S, the most that one record of the unit adds to a step.
        learn_filters: whether convolutions learn under privacy, too; else they stay at their public filters.
        augment: changed copies of each training image (:mod:`~sfumato.nn._augmentation`); they belong to its record.
    """

    network: str = "cnn"
    width: int = setting(200, unless={"network": ("softmax",)})
    optimizer: str = setting("momentum", PRIVATE)
    learning_rate: float = setting(0.33, PRIVATE)
    l2_clip_norm: float = setting(3.0, PRIVATE)
    learn_filters: bool = setting(False, {"network": ("cnn",), **PRIVATE})
    augment: int = 0

    def __post_init__(self) -> None:
        check_fields(self, network=one_of(*NETWORKS), width=AT_LEAST_1, optimizer=one_of(*_OPTIMIZERS))
        check_fields(self, learning_rate=real(0, 100, above=True), l2_clip_norm=ABOVE_0, augment=integer(0, 1000))
        check_fields(self, learn_filters=flag())

    @abstractmethod
    def event(self, unit: Unit, public: PublicFacts, noise_multiplier: float) -> PoissonGaussianEvent:
        """Describe the noisy steps as an event, from public facts alone."""

    @abstractmethod
    def train(self, plan: Planned, graph: Graph, session: Session, head: nn.Module, data: Training) -> Arrays:
        """Train layers in place by the noisy steps of the plan. Return public arrays that are kept beside the weights."""

    def releases(self, unit: Unit, public: PublicFacts, noise_multiplier: float) -> tuple[Release, ...]:
        event = self.event(unit, public, noise_multiplier)
        with torch.device("meta"):
            size = num_parameters(self._learning(self._build(public))[1])
        return (Release("network", event, (size,), size, arc_change=unit.no_arc_change),)

    def run(self, plan: Planned, graph: Graph, session: Session) -> Outcome:
        with seeded(session.seed):
            network = self._build(plan.public)
        if not plan.unit.private:
            data = Training(graph, plan.public, self.augment)
            data.train_plainly(network, session.seed, session.watch.stage("network"))
            return Outcome(network_arrays("network", network.eval()), {})
        describe, head = self._learning(network)
        public = self.train(plan, graph, session, head, Training(graph, plan.public, self.augment, describe))
        return Outcome(network_arrays("network" if head is network else _HEAD, head) | public, {})

    def scores(self, plan: Planned, weights: Arrays, released: Arrays, graph: Graph) -> NDArray[np.float32]:
        network = self.pixel_network(plan, weights)
        x = _pixels(graph)
        with torch.no_grad():
            parts = [network(x[at : at + _AT_ONCE]).numpy() for at in range(0, len(x), _AT_ONCE)]
        return np.concatenate(parts)

    def pixel_network(self, plan: Planned, weights: Arrays) -> nn.Module:
        """Return the trained network, from rows of pixels [n, pixels] to scores [n, num_classes]."""
        network = self._build(plan.public)
        load_weights(network, network_arrays("network", network) | weights, "network")
        return network

    def stepper(self, head: nn.Module, steps: int) -> Adam:
        parameters = list(head.parameters())
        if self.optimizer == "momentum":
            return Momentum(parameters, self.learning_rate, steps)
        return (Adam if self.optimizer == "adam" else SGD)(parameters, self.learning_rate)

    def check(self, graph: Graph) -> None:
        if graph.x is None:
            raise InputError(
                f"Expected images or other features, but {graph.name!r} has none. Give it feature columns."
            )
        with torch.device("meta"):
            self._build(graph)

    def _learning(self, network: nn.Module) -> tuple[Callable[[Tensor], Tensor] | None, nn.Module]:
        return (None, network) if self.learn_filters else learning_part(network)

    def _build(self, public: PublicFacts | Graph) -> nn.Module:
        if self.augment and public.image_shape is None:
            raise fail("augment", self.augment, "to be 0 for data that are no images", "Leave it out.")
        return image_network(self.network, public.num_features, public.image_shape, public.num_classes, self.width)


class Training:
    """Training rows: pixels, or what fixed layers (``describe``) find in them, with labels and changed copies of each image.

    What fixed layers find is computed for all training nodes in chunks that their numbers decide, empty records included: so it
    is a function of the image, its public place and the public filters.
    """

    def __init__(
        self, graph: Graph, public: PublicFacts, copies: int, describe: Callable[[Tensor], Tensor] | None = None
    ) -> None:
        assert graph.y is not None
        self.rows = np.flatnonzero(graph.train_mask)
        self._y, self._describe = torch.from_numpy(graph.y[self.rows]), describe
        self._copies = Copies(graph.num_nodes, copies, public.image_shape or (1, 1, 1), seed=0)
        self._x = _pixels(graph)[self.rows]
        if describe is not None and not copies:
            with torch.no_grad():
                self._x = torch.cat([describe(part) for part in self._x.split(_AT_ONCE)])

    def take(self, places: NDArray[np.integer]) -> tuple[Tensor, Tensor]:
        """Return images with their copies, [n (1 + copies), numbers of an image], and their labels."""
        x, labels = self._x[places], self._y[places].repeat_interleave(1 + self._copies.copies)
        if self._copies.copies:
            x = self._copies.of(x, self.rows[places])
            if self._describe is not None:
                with torch.no_grad():
                    x = self._describe(x)
        return x, labels

    def train_plainly(self, network: nn.Module, seed: int, progress: Steps | None) -> None:
        """Train a network in place without privacy: ten passes over the images, and at least 500 steps."""
        labeled = np.flatnonzero((self._y >= 0).numpy())
        batches = max(1, -(-len(labeled) // _PLAIN_BATCH))
        epochs = max(_PLAIN_EPOCHS, -(-_PLAIN_STEPS // batches))
        train_in_batches(
            network, self.take, labeled, epochs=epochs, batch_size=_PLAIN_BATCH, learning_rate=_PLAIN_RATE,
            seed=seed, progress=progress,
        )  # fmt: skip


def _pixels(graph: Graph) -> Tensor:
    return torch.from_numpy(dense_rows(graph))
