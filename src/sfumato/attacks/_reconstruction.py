"""Model inversion of one trained run, with what it came near to."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from sfumato._validate import fail
from sfumato.attacks._distances import Nearest
from sfumato.errors import InputError

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from sfumato.attacks._inversion import Inversion
    from sfumato.graph._graph import Graph
    from sfumato.method._plan import Fitted

MEANS = {
    "mia_distance": "train",
    "matched_distance": "train_matched",
    "heldout_distance": "heldout",
    "blank_distance": "blank",
    "confidence": "confidence",
}
"""The name of each mean over classes, and what it is the mean of."""


@dataclass(frozen=True)
class Reconstructions:
    """What model inversion made of each class, and how near it came. It reads training images: outside the guarantee.

    ``nearest`` holds the smallest distances by the name of the class, in the order of ``images``. ``confidence`` is the
    probability that the network gives each reconstruction to be of its class; ``samples`` are the first training images.
    """

    images: NDArray[np.float32]
    nearest: Mapping[str, Nearest]
    confidence: NDArray[np.float32]
    samples: NDArray[np.float32]

    def to_dict(self) -> dict[str, Any]:
        """Return distances and confidences for scripts: their means over classes, and by class."""
        classes = {
            name: one.to_dict() | {"confidence": float(confidence)}
            for (name, one), confidence in zip(self.nearest.items(), self.confidence, strict=True)
        }
        return {title: float(np.mean([one[key] for one in classes.values()])) for title, key in MEANS.items()} | {
            "classes": classes
        }


def reconstruct(
    fitted: Fitted,
    graph: Graph,
    attack: Inversion,
    distance: str = "euclidean",
    classes: Sequence[str] = (),
    progress: Callable[[int, int], None] | None = None,
) -> Reconstructions:
    """Run model inversion on a trained model, and measure it on training images and on test images of each class.

    The attack reads the weights alone. The images of ``graph`` only measure what it found.
    """
    if graph.image_shape is None:
        raise InputError(
            f"Expected a run on images, got {graph.name!r}, whose features are no pixels. Train on mnist or a folder of images."
        )
    network = fitted.ran.method.pixel_network(fitted.ran, fitted.weights)
    if not _trained_on(fitted, graph):
        raise InputError(
            f"Expected the images that the run was trained on, in the same split and size, got {graph.name!r} with others: only "
            "then are held-out images held out. Name the data set of the run."
        )
    unknown = [name for name in classes if name not in graph.classes]
    if unknown:
        raise fail("classes", unknown[0], f"to be among {', '.join(graph.classes)}")
    names = tuple(classes) or graph.classes
    numbers = [graph.classes.index(name) for name in names]
    sides = [[_images(graph, number, role) for role in (graph.train_mask, graph.test_mask)] for number in numbers]
    for name, both in zip(names, sides, strict=True):
        if not all(len(images) for images in both):
            raise fail("class", name, "to have training and test images", "Leave it out with --classes.")
    images = attack.invert(network, graph.image_shape, numbers, progress)
    with torch.no_grad():
        probabilities = network(torch.from_numpy(images).flatten(1)).softmax(1).numpy()
    found = {name: Nearest.of(distance, image, *both) for name, image, both in zip(names, images, sides, strict=True)}
    confidence = probabilities[np.arange(len(numbers)), numbers]
    return Reconstructions(images, found, confidence, np.stack([train[0] for train, _ in sides]))


def _trained_on(fitted: Fitted, graph: Graph) -> bool:
    trained, public = fitted.graph_key, fitted.plan.public
    same_images = trained.has_ids_of(graph) and graph.classes == trained.classes
    return same_images and (graph.image_shape, graph.train_mask.sum()) == (public.image_shape, public.num_train)


def _images(graph: Graph, number: int, role: NDArray[np.bool_]) -> NDArray[np.float32]:
    assert graph.y is not None
    assert graph.image_shape is not None
    rows: NDArray[np.float32] = np.asarray(graph.x)[role & (graph.y == number)]
    return rows.reshape(-1, *graph.image_shape)
