"""What the verifier knows of methods class-dp, subclass-dp and cnn: networks on pixels, by noisy steps over cells or images.

Part of the verifier: it needs the standard library.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from math import prod
from typing import ClassVar

from ._central import OWN
from ._kinds import Network, Planned
from ._rules import Audience, Certificate, Rules, Tensors

LEAST_CLIP = 1e-9
CENTROIDS = "cells.centroids"
_IMAGES = {"network": "one of cnn, mlp, softmax", "width": "count", "optimizer": "one of momentum, adam, sgd",
           "learning_rate": "positive up to 100", "l2_clip_norm": "positive up to 1000000000",
           "learn_filters": "flag", "augment": "index up to 1000"}  # fmt: skip
_CELLS = {
    "steps": "count",
    "sampling_prob": "share",
    "records_per_cell": "count",
    "loss_scale": "positive up to 1000000000",
}
_WEIGHTS: Audience = {"anyone": ["weights"], "the node itself": OWN, "never": []}
_FIXED = ("network.edges.", "network.places.")
"""Convolutions, which stay at public filters under privacy, unless a setting says that they learn, and are not stored."""
_WHERE = "certificate.json: settings."


class Images(Rules):
    """The common rules of methods that train one network on rows of pixels; all it releases are weights."""

    reads_links: ClassVar[bool] = False

    def faults(self, certificate: Certificate) -> Iterator[str]:
        """Yield a problem for a network or copies that need images, and for a clip below the range of float64."""
        settings, shape = certificate["settings"], certificate["public_facts"].get("image_shape")
        if settings["l2_clip_norm"] < LEAST_CLIP:
            yield f"{_WHERE}l2_clip_norm: expected at least {LEAST_CLIP:g}"
        if settings["network"] == "cnn" and (shape is None or min(shape[1:]) < 12):
            yield f"{_WHERE}network: expected mlp or softmax, since public_facts.image_shape is not at least 12 x 12"
        if settings["augment"] and shape is None:
            yield f"{_WHERE}augment: expected 0, since public_facts has no image_shape"

    def networks(self, certificate: Certificate, found: Iterable[str] = ()) -> Tensors:
        """Return the shapes of weights and biases of every layer that learned."""
        fixed = certificate["unit"]["name"] != "none" and not certificate["settings"]["learn_filters"]
        shapes = _shapes(certificate)
        return {name: shape for name, shape in shapes.items() if not (fixed and name.startswith(_FIXED))}

    def releases(self, certificate: Certificate) -> list[Planned]:
        """Return the network that noisy steps trained; nothing without privacy."""
        if certificate["unit"]["name"] == "none":
            return []
        size = sum(prod(shape) for name, shape in self.networks(certificate).items() if name.startswith("network."))
        return [self.trained(certificate, size)]

    def trained(self, certificate: Certificate, size: int) -> Network:
        """Return the release of a network of so many parameters."""
        raise NotImplementedError


class ClassDP(Images):
    """The rules of method class-dp: a cell is a class."""

    settings: ClassVar = {**_IMAGES, **_CELLS}
    audience: ClassVar = {"class": _WEIGHTS}

    def trained(self, certificate: Certificate, size: int) -> Network:
        """Return the network, of which every number of steps and every probability is a setting."""
        settings = certificate["settings"]
        return Network("network", [size], size, settings["sampling_prob"], settings["steps"])


class SubclassDP(ClassDP):
    """The rules of method subclass-dp: a cell is a part of a class, and the unit says how it is found."""

    settings: ClassVar = {**ClassDP.settings, "public_rows": "index", "kmeans": "flag"}
    audience: ClassVar = {"subclass": _WEIGHTS}

    def faults(self, certificate: Certificate) -> Iterator[str]:
        """Yield a problem for public images or clusters that do not fit the partition of the unit."""
        yield from super().faults(certificate)
        settings, facts = certificate["settings"], certificate["public_facts"]
        partition = certificate["unit"].get("partition")
        if (settings["public_rows"] > 0) != (partition == "centroids"):
            yield f"{_WHERE}public_rows: expected {'a number above 0' if partition == 'centroids' else '0'} with this partition"
        if settings["public_rows"] > facts["num_train"]:
            yield f"{_WHERE}public_rows: {settings['public_rows']} exceeds public_facts.num_train, {facts['num_train']}"
        if settings["kmeans"] and partition != "declared":
            yield f"{_WHERE}kmeans: expected false, since the unit's partition is not declared"
        if (
            settings["kmeans"]
            and partition == "declared"
            and certificate["unit"]["cells"] % max(facts["num_classes"], 1)
        ):
            yield f"certificate.json: unit.cells: expected a multiple of {facts['num_classes']}, the number of classes"

    def networks(self, certificate: Certificate, found: Iterable[str] = ()) -> Tensors:
        """Return the shapes of all layers, and that of the public centroids, where cells are found by these."""
        unit, facts = certificate["unit"], certificate["public_facts"]
        shapes = super().networks(certificate, found)
        if unit.get("partition") == "centroids":
            shapes[CENTROIDS] = [facts["num_classes"], unit["cells"], facts["num_features"]]
        return shapes

    def caveats(self, certificate: Certificate) -> list[str]:
        """Return what the way in which cells are found leaves unprotected."""
        settings, found = certificate["settings"], []
        if settings["kmeans"]:
            found.append(
                "The cells are clusters of the private images by k-means: which image is in which cell, and what the clusters "
                "tell, is not protected."
            )
        if settings["public_rows"]:
            found.append(
                f"The first {settings['public_rows']} training images are declared public, and centroids are fitted on them."
            )
        return found


class CNN(Images):
    """The rules of method cnn: a record is one image."""

    settings: ClassVar = {**_IMAGES, "steps": "count", "batch_size": "count"}
    audience: ClassVar = {"record": _WEIGHTS}

    def trained(self, certificate: Certificate, size: int) -> Network:
        """Return the network; the probability of an image follows from the public number of training images."""
        settings, rows = certificate["settings"], max(certificate["public_facts"]["num_train"], 1)
        return Network("network", [size], size, min(settings["batch_size"], rows) / rows, settings["steps"])


def _shapes(certificate: Certificate) -> Tensors:
    """Return the shapes of weights and biases of all layers."""
    settings, facts = certificate["settings"], certificate["public_facts"]
    width, classes, pixels = settings["width"], facts["num_classes"], facts["num_features"]
    if settings["network"] == "softmax":
        return {"network.weight": [classes, pixels], "network.bias": [classes]}
    if settings["network"] == "mlp":
        return {
            "network.0.weight": [width, pixels],
            "network.0.bias": [width],
            "network.2.weight": [classes, width],
            "network.2.bias": [classes],
        }
    channels, *sides = facts["image_shape"]
    places = prod((side - 5) // 5 + 1 for side in sides)
    return {
        "network.edges.weight": [8, channels, 5, 5],
        "network.places.weight": [8, 8, 9, 9],
        "network.head.0.weight": [width, 8 * places],
        "network.head.2.weight": [classes, width],
        "network.head.2.bias": [classes],
    }
