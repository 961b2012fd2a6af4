"""The layers of networks, by settings and public facts. Part of the verifier: it needs the standard library."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import chain, pairwise
from math import prod
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ._kinds import Planned
    from ._rules import Known, Sizes, Tensors

CENTROIDS = "cells.centroids"
_FIXED = ("network.edges.", "network.places.")
"""Convolutions, which stay at public filters under privacy, unless a setting says that they learn, and are not stored."""


def two_layers(known: Known) -> dict[str, Sizes]:
    first, second = (known.width, known.num_features), (known.num_classes, known.width)
    return {"network": ({"first": first, "second": second}, {})}


def mlp_layers(known: Known) -> dict[str, Sizes]:
    """Linear layers, two where no other number is named, with a norm before each of them but the first."""
    widths = [known.num_features, *[known.width] * ((known.num_layers or 2) - 1), known.num_classes]
    linear = {f"layers.{k}": (after, before) for k, (before, after) in enumerate(pairwise(widths))}
    return {"network": (linear, {f"norms.{k}": known.width for k in range(len(linear) - 1)})}


def gap_layers(known: Known) -> dict[str, Sizes]:
    """An encoder, if there is one, and a classifier that combines all hops."""
    rows = len(known.edge_types) + 1 if known.edge_types else 1  # of a hop: one for each type of edges, and their sum
    width, classes, stages = known.width, known.num_classes, (known.num_hops or 2) * rows + 1
    inputs, combine = width if known.encoder else known.num_features, known.combine
    encoder = {"mlp.layers.0": (width, known.num_features), "mlp.layers.1": (width, width), "head": (classes, width)}
    bases = {f"base.{k}": (width, inputs) for k in range(stages)}
    if combine == "attention":
        bases |= {f"score.{k}": (1, width) for k in range(stages)}
    joint = width if combine else width * stages
    classifier: Sizes = {**bases, "head": (classes, joint)}, {"norm": joint}
    if not known.encoder:
        return {"classifier": classifier}
    return {"encoder": (encoder, {"mlp.norms.0": width, "mlp.norms.1": width}), "classifier": classifier}


def progap_hops(known: Known) -> int:
    """One less than there are stages."""
    return int(known.depth or (4 if known.unit["name"] == "node" else 5))


def progap_layers(known: Known) -> dict[str, Sizes]:
    """Every stage reads the hops of all stages before it."""
    return {f"stage/{k}": _stage(known, k) for k in range(progap_hops(known) + 1)}


def _stage(known: Known, stage: int) -> Sizes:
    width, depth = known.width, known.base_layers or (2 if known.unit["name"] == "node" else 1)
    inputs = [known.num_features, *[width * (len(known.edge_types or ()) or 1)] * stage][
        stage if known.layerwise else 0 :
    ]
    linear = {
        f"base.{k}.{layer}": (width, width if layer else first)
        for k, first in enumerate(inputs)
        for layer in range(depth)
    }
    norms = {f"norms.{layer}": width * len(inputs) for layer in range(depth)}
    return {**linear, "head": (known.num_classes, width * (stage + 1))}, norms


def in_turns(networks: list[Planned], hops: list[Planned]) -> list[Planned]:
    """A hop before every network except the first."""
    pairs = zip(hops, networks[1:], strict=True)
    return [networks[0], *chain.from_iterable(pairs)] if networks else hops


def dpgnn_layers(known: Known) -> dict[str, Sizes]:
    """Two linear layers; the first reads the node's features and one average a layer of messages."""
    columns = known.num_features * (known.num_layers + 1)
    return {"network": ({"layers.0": (known.width, columns), "layers.1": (known.num_classes, known.width)}, {})}


def dpgnn_terms(known: Known) -> int:
    """A node's own term, and those of all that it reaches by kept arcs, before and after it is replaced."""
    reached = sum(_kept(known) ** layer for layer in range(1, known.num_layers + 1))
    return int(1 + reached * (1 + (known.unit["relation"] == "replace")))


def dpgnn_arc_terms(known: Known) -> int:
    """The terms of a node that gains an arc where another owner lost one, and of all that it reaches in one layer less."""
    return int(sum(_kept(known) ** layer for layer in range(known.num_layers)))


def _kept(known: Known) -> int:
    most, cap = known.max_arcs, known.unit["max_out_degree"]
    return int(most if cap is None else min(most, cap))


def lpgnet_layers(known: Known) -> dict[str, Sizes]:
    """A network more than stages; each reads what the earlier ones said, and all counts."""
    width, classes = known.width, known.num_classes
    found: dict[str, Sizes] = {}
    for k in range(known.num_hops + 1):
        layers = {"layers.0": (width, 2 * k * classes or known.num_features), "layers.1": (classes, width)}
        found[f"network.{k}"] = layers, {"norms.0": width}
    return found


def coefficients(known: Known) -> int:
    """Return how many numbers an image becomes: 81 pictures of a quarter of its height and width for each channel; 0 for none."""
    channels, height, width = known.image_shape or (0, 0, 0)
    return int(channels * 81 * (height // 4) * (width // 4)) if min(height, width) >= 8 else 0


def scattering_tensors(known: Known, _: Iterable[str]) -> Tensors:
    """Weights and biases of one linear layer, or of two convolutions, the first at every second place, and two dense layers."""
    if known.head != "cnn":
        return {"head.weight": [known.num_classes, coefficients(known)], "head.bias": [known.num_classes]}
    channels, *sides = known.image_shape
    places = prod((side // 4 + 1) // 2 for side in sides)
    weights = {"first": [16, 81 * channels, 3, 3], "second": [32, 16, 3, 3], "hidden": [32, 32 * places],
               "out": [known.num_classes, 32]}  # fmt: skip
    return {
        f"head.{name}.{leaf}": shape[:last]
        for name, shape in weights.items()
        for leaf, last in (("weight", None), ("bias", 1))
    }


def image_tensors(known: Known, _: Iterable[str]) -> Tensors:
    """Weights and biases of every layer that learned, and the public centroids, where cells are found by these."""
    fixed = known.unit["name"] != "none" and not known.learn_filters
    shapes = {name: shape for name, shape in _image_layers(known).items() if not (fixed and name.startswith(_FIXED))}
    if known.unit.get("partition") == "centroids":
        shapes[CENTROIDS] = [known.num_classes, known.unit["cells"], known.num_features]
    return shapes


def _image_layers(known: Known) -> Tensors:
    width, classes, pixels = known.width, known.num_classes, known.num_features
    if known.network == "softmax":
        return {"network.weight": [classes, pixels], "network.bias": [classes]}
    head = {"network.2.weight": [classes, width], "network.2.bias": [classes]}
    if known.network == "mlp":
        return {"network.0.weight": [width, pixels], "network.0.bias": [width], **head}
    channels, *sides = known.image_shape
    return {
        "network.edges.weight": [8, channels, 5, 5],
        "network.places.weight": [8, 8, 9, 9],
        "network.head.0.weight": [width, 8 * prod((side - 5) // 5 + 1 for side in sides)],
        "network.head.2.weight": [classes, width],
        "network.head.2.bias": [classes],
    }
