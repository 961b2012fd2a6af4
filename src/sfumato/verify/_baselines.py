"""What the verifier knows of methods linear and graph-free, which others build on."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from ._kinds import Planned, Weights
from ._rules import OWN, Rules, Sizes, sizes
from ._units import no_arc_change, public_parts

if TYPE_CHECKING:
    from ._rules import Audience, Certificate, Tensors
    from ._tensors import Stored

OF_EDGES: Audience = {"anyone": ["weights", "predictions"], "the node itself": [], "never": []}
OF_RECORDS: Audience = {"anyone": ["weights"], "the node itself": OWN, "never": []}
_ROUNDS, _NODES = 100, 61  # of trees
_SCALE_STEPS = 50
_CENTER_SHARE, _SCALE_SHARE = 0.02, 0.03


class Linear(Rules):
    """The rules of method linear: a center of features, where their matrix may be dense, logistic regression, and a scale."""

    settings: ClassVar = {"epochs": "count", "learning_rate": "positive up to 10", "l2_clip_norm": "positive"}
    audience: ClassVar = {
        "edge": OF_EDGES,
        "person": OF_EDGES,
        "node": OF_RECORDS,
        "person-nodes": OF_RECORDS,
        "record": OF_RECORDS,
    }
    reads_links = False
    scaled: ClassVar[bool] = True  # runs that were made before there was a scale have none

    def faults(self, certificate: Certificate) -> Iterator[str]:
        """Yield a problem for noise that is not split by the public rule, that of before for runs without a scale."""
        shares = {"center": _CENTER_SHARE} if is_centered(certificate) else {}
        shares |= {"scale": _SCALE_SHARE} if self._has_scale(certificate) else {}
        yield from split_faults(certificate, {**shares, "head": 1 - sum(shares.values())}, "head")

    def releases(self, certificate: Certificate) -> list[Planned]:
        head = super().releases(certificate)
        scale = Weights("scale", [1], _SCALE_STEPS, arc_change=no_arc_change(certificate))
        return [*center(certificate), *head, *([scale] * self._has_scale(certificate))] if head else []

    def layers(self, certificate: Certificate) -> dict[str, Sizes]:
        _, features, classes = sizes(certificate)
        return {"head": ({"": (classes, features)}, {})}

    def networks(self, certificate: Certificate, found: Iterable[str] = ()) -> Tensors:
        private = "labels" not in public_parts(certificate)
        scale: Tensors = {"scale": [1]} if private and self._has_scale(certificate) else {}
        return {**super().networks(certificate, found), **center_tensors(certificate, found), **scale}

    def _has_scale(self, certificate: Certificate) -> bool:
        return self.scaled and not lacks(certificate, "scale", 1 + len(center(certificate)))


def is_centered(certificate: Certificate) -> bool:
    """Return whether features are read around a center: if public counts say that their matrix may be dense."""
    public = certificate["public_facts"]
    return bool(0 < public["num_nodes"] * public["num_features"] <= 30_000_000)


def center(certificate: Certificate) -> list[Planned]:
    columns = certificate["public_facts"]["num_features"]
    found = Weights("center", [columns], columns, arc_change=no_arc_change(certificate))
    return [found] if is_centered(certificate) else []


def center_tensors(certificate: Certificate, found: Iterable[str]) -> Tensors:
    """Return the shape of the center. Weights from another run have one if that run had: then it is ``found``."""
    borrowed = bool(certificate["composition"]["builds_on"])
    there = "center" in found if borrowed else is_centered(certificate)
    return {"center": [certificate["public_facts"]["num_features"]]} if there else {}


def lacks(certificate: Certificate, name: str, number: int) -> bool:
    """Return whether a run, or each trial of a selection, was made before its method had a release."""
    charged = certificate["releases"]
    for one in charged:
        if one["event"]["type"] == "selection":  # each trial has its score, too
            return any(len(events) == number + 1 for events in one["event"]["candidates"])
    return bool(charged) and all(one["name"] != name for one in charged)


def tree_faults(weights: Mapping[str, Stored], prefix: str = "") -> Iterator[str]:
    """Yield a problem for trees in which a row may find no leaf: a node must be its own child or come before its children."""
    names = [f"{prefix}trees.{part}" for part in ("left", "right")]
    if any(name not in weights for name in names):
        return
    own = np.arange(_NODES)
    left, right = (weights[name].array() for name in names)
    leaf = (left == own) & (right == own)
    inner = (left > own) & (right > own) & (left < _NODES) & (right < _NODES) & (left % 1 == 0) & (right % 1 == 0)
    if not (leaf | inner).all():
        yield f"{prefix}trees: holds a node that is neither a leaf nor before its children"
    feature = weights[f"{prefix}trees.feature"].array()
    if ((feature < 0) | (feature % 1 != 0)).any():
        yield f"{prefix}trees.feature: holds numbers that are no columns"


def of_graph_free(certificate: Certificate, width: int, found: Iterable[str]) -> Tensors:
    """Return the tensors of a model that reads no graph, of the kind that is ``found``: trees, linear layer, or a network."""
    _, features, classes = sizes(certificate)
    kept = {name.partition(".")[0] for name in found}
    if kept == {"trees"}:
        parts = ("feature", "threshold", "left", "right", "value")
        return {f"trees.{part}": [_ROUNDS, classes, _NODES] for part in parts} | {"trees.baseline": [classes]}
    if kept == {"linear"}:
        return {"linear.weight": [classes, features], "linear.bias": [classes]}
    norm = {f"network.norm.{leaf}": [width] for leaf in ("weight", "bias", "running_mean", "running_var")}
    return {
        "network.maps.0.weight": [width, features],
        "network.head.weight": [classes, width],
        "network.head.bias": [classes],
        "network.norm.num_batches_tracked": [1],
        **norm,
    }


def split_faults(certificate: Certificate, shares: Mapping[str, float], first: str) -> Iterator[str]:
    """Yield a problem for each noise multiplier that does not follow from the ``first`` one and the public split.

    That noise was drawn cannot be seen; but a method that splits a budget by a constant rule never states noise of another
    split. ``shares`` are the parts, by name, of the squares of what Gaussian releases, and full batches of DP-SGD in all their
    steps, move in units of noise.
    """
    events = {release["name"]: release["event"] for release in certificate["releases"]}
    if first not in events or "noise_multiplier" not in events[first]:
        return  # no privacy, or named as a wrong release
    double = 2 if certificate["unit"]["relation"] == "replace" else 1

    def factor(name: str) -> float:
        steps = events[name].get("steps")
        return math.sqrt(1 / shares[name]) if steps is None else math.sqrt(steps / shares[name]) * double

    whole = events[first]["noise_multiplier"] / factor(first)
    for index, release in enumerate(certificate["releases"]):
        name, noise = release["name"], release["event"].get("noise_multiplier")
        if name not in shares or noise is None:
            continue
        expected = whole * factor(name)
        if not math.isclose(noise, expected, rel_tol=1e-9):
            yield (
                f"certificate.json: releases[{index}].event.noise_multiplier: expected {expected:.9g}, as the noise of the "
                f"{first} says, got {noise:.9g}"
            )
