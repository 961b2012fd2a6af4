"""Record-level DP-SGD of a convolutional network on images: the baseline of class-level privacy."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import numpy as np
from numpy.typing import NDArray

from sfumato._validate import AT_LEAST_1, PRIVATE, check_fields, real, setting
from sfumato.bounded._classes import class_steps
from sfumato.bounded._clip_kernel import LEAST_CLIP, MOST_CLIP
from sfumato.bounded._example_gradients import clipped_example_sum
from sfumato.bounded._gradients import (
    PrivateSGD,
    check_examples,
    clipped_gradient_sum,
    noisy_steps,
    rounding_margin,
    to_grid,
)
from sfumato.classlevel._images import CONTROLS, ImageMethod
from sfumato.method.card import Audience, Card
from sfumato.nn._dense import mean_gradient
from sfumato.privacy.events import PoissonGaussianEvent

if TYPE_CHECKING:
    from torch import Tensor, nn

    from sfumato.classlevel._images import Training
    from sfumato.graph._graph import Graph, PublicFacts
    from sfumato.method.contract import Arrays, Planned, Session
    from sfumato.privacy.units import Unit


@dataclass(frozen=True)
class CNN(ImageMethod):
    """A convolutional network by DP-SGD: the record is one image, with the changed copies that were made of it.

    The scores of an image are those of the network, float32 [num_nodes, num_classes]. Other settings are those of
    :class:`~sfumato.classlevel._images.ImageMethod`.

    **Formal guarantee.** One Poisson-sampled Gaussian run: over images
    (:func:`~sfumato.bounded._gradients.clipped_gradient_sum`; :func:`~sfumato.bounded._example_gradients.clipped_example_sum`
    where filters learn), or with copies over images as cells (:func:`~sfumato.bounded._classes.class_steps`), whose mean gradient
    over an image and its copies is clipped.

    Errors: ``calibrate`` raises UnsupportedUnitError under every unit but record and none.

    Args:
        steps: T, the number of steps.
        learning_rate: step size of the optimizer, in (0, 100].
        l2_clip_norm: C, so small that nearly every gradient is scaled to it.
        batch_size: expected number of images in a Poisson sample; at most all of them.

    Raises:
        InputError: a setting is out of range.

    >>> from sfumato.graph._graph import PublicFacts
    >>> from sfumato.privacy.budget import Budget
    >>> from sfumato.privacy.units import RecordLevel
    >>> facts = PublicFacts(70000, 60000, 784, 10, directed=False, image_shape=(1, 28, 28))
    >>> round(CNN().calibrate(Budget(1.0, 1e-5), RecordLevel(), facts).epsilon, 2)
    1.0

    Source: Abadi et al. (2016), Deep Learning with Differential Privacy, algorithm 1.
    """

    learning_rate: float = setting(50.0, PRIVATE)
    l2_clip_norm: float = setting(0.01, PRIVATE)
    steps: int = setting(500, PRIVATE)
    batch_size: int = setting(256, PRIVATE)
    card: ClassVar[Card] = Card(
        name="cnn",
        summary="convolutional network for images",
        options={"network": "network", "steps": "steps", "augment": "augment"},
        units=("record",),
        audience=Audience(("weights",), predictions="predictions"),
        controls=CONTROLS,
        reads_links=False,
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        check_fields(self, steps=AT_LEAST_1, batch_size=AT_LEAST_1, l2_clip_norm=real(LEAST_CLIP, MOST_CLIP))

    def event(self, unit: Unit, public: PublicFacts, noise_multiplier: float) -> PoissonGaussianEvent:
        """Describe all steps as one event: the sampling probability follows from the public number of images.

        Raises:
            UnsupportedUnitError: a record of the unit is not one image.
        """
        check_examples(unit)
        rows = max(public.num_train, 1)
        relation = "replace" if unit.relation == "replace" else "add-remove"
        return PoissonGaussianEvent(min(self.batch_size, rows) / rows, noise_multiplier, self.steps, relation)

    def train(self, plan: Planned, graph: Graph, session: Session, head: nn.Module, data: Training) -> Arrays:
        """Train by noisy steps over images.

        The arguments are those of :meth:`~sfumato.classlevel._images.ImageMethod.train`.
        """
        event = plan.event("network")
        assert isinstance(event, PoissonGaussianEvent)
        key, progress = session.charge("network"), session.watch.stage("network")
        settings = PrivateSGD(
            event.sampling_prob, event.steps, self.l2_clip_norm, event.noise_multiplier, self.learning_rate
        )
        optimizer = self.stepper(head.double(), event.steps)

        def clipped_sum(drawn: NDArray[np.int64], _: int) -> NDArray[np.int64]:
            inputs, targets = data.take(drawn)
            if self.learn_filters:
                return clipped_example_sum(head, inputs.double(), targets, self.l2_clip_norm)
            return to_grid(clipped_gradient_sum(head, [inputs.double()], targets, self.l2_clip_norm))

        def mean_of(record: int, _: int) -> Tensor | None:
            inputs, targets = data.take(np.array([record]))
            if targets[0] < 0:
                return None
            return mean_gradient(head, inputs.double(), targets)

        if self.augment:
            operands = class_steps(optimizer, mean_of, len(data.rows), settings, key, progress)
        else:
            margin = rounding_margin(len(optimizer.flat))
            operands = noisy_steps(optimizer, clipped_sum, data.rows, settings, key, margin, progress)
        head.float()
        session.bind("network", np.frombuffer(operands, np.uint8))
        return {}
