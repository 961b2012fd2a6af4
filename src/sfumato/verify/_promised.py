"""What the verifier knows of method promised-messages. Part of the verifier: it needs NumPy and the standard library."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from math import prod
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from ._baselines import Linear, is_centered, split_faults
from ._kinds import Matrix, OwnRows
from ._rules import OWN

if TYPE_CHECKING:
    from ._kinds import Planned
    from ._rules import Audience, Certificate, Tensors
    from ._tensors import Stored

_PAIRS, _TEST, _CENTER = 0.05, 0.01, 0.02
_LEVELS, _TAIL, _LARGE = {"typical": 0.03, "bound": 0.09}, 11.5, 24


class PromisedMessages(Linear):
    """The rules of method promised-messages: features, pairs of classes, a test, and the rest for a hop or for features.

    It protects incident arcs. Where no node's degree is public, and one bound for everybody is large beside its noise, a smaller
    one is found by two levels of counts of senders. Rows are for their own node alone, and not among releases.
    """

    audience: ClassVar = {
        "node": {
            "anyone": ["weights", "noisy pairs of classes", "noisy counts of right answers"],
            "the node itself": ["its noisy row of neighbors' classes", *OWN],
            "never": ["sums before noise"],
        }
    }
    reads_links = True
    scaled = False

    def faults(self, certificate: Certificate) -> Iterator[str]:
        unit = certificate["unit"]
        if unit["name"] == "none":
            return
        if unit["arcs"] != "incident":
            yield f"certificate.json: unit.arcs: expected incident, got {unit['arcs']}"
        yield from _noise_faults(certificate)

    def who_may_see(self, certificate: Certificate) -> Audience:
        seen = super().who_may_see(certificate)
        more = ["noisy levels of how many senders nodes have"] * _has_levels(certificate)
        return {**seen, "anyone": [*seen["anyone"], *more]}

    def releases(self, certificate: Certificate) -> list[Planned]:
        found = super().releases(certificate)
        if not found:
            return found
        facts, size = certificate["public_facts"], sum(map(prod, self._of_head(certificate).values()))
        nodes, classes = facts["num_nodes"], facts["num_classes"]
        touched = nodes * classes + certificate["settings"]["epochs"] * size
        return [
            *found,
            *(Matrix(name, [1, 1], 2) for name in _LEVELS if _has_levels(certificate)),
            Matrix("pairs", [classes, classes], classes**2),
            Matrix("test", [1, 2], 2),
            OwnRows("aggregate/1", [nodes, classes], touched),
        ]

    def networks(self, certificate: Certificate, found: Iterable[str] = ()) -> Tensors:
        return {**super().networks(certificate, found), "bounds": [certificate["public_facts"]["num_nodes"]]}

    def _of_head(self, certificate: Certificate) -> Tensors:
        return {name: shape for name, shape in self.networks(certificate).items() if name.startswith("head.")}

    def weight_faults(self, certificate: Certificate, weights: Mapping[str, Stored]) -> Iterator[str]:
        bounds, facts = weights["bounds"].array(), certificate["public_facts"]
        if ((bounds < 1) | (bounds % 1 != 0)).any():
            yield "bounds: holds numbers that bound no degree"
        elif not facts.get("degree_bounds") and (bounds != np.float32(_most(certificate))).any():
            yield f"bounds: holds other numbers than the bound on degrees for every node, {_most(certificate)}"


def _most(certificate: Certificate) -> int:
    """The bound that is promised for everybody; without one the number of nodes."""
    facts = certificate["public_facts"]
    most: int = facts["num_nodes"] if facts["max_degree"] is None else facts["max_degree"]
    return most


def _noise_of_pairs(certificate: Certificate) -> float | None:
    found = {release["name"]: release["event"].get("noise_multiplier") for release in certificate["releases"]}
    noise = found.get("pairs")
    return float(noise) if isinstance(noise, int | float) else None


def _has_levels(certificate: Certificate) -> bool:
    """Whether a bound is found, by the public rule; runs with a promise that were made before there was one have none."""
    noise, facts = _noise_of_pairs(certificate), certificate["public_facts"]
    if noise is None or facts.get("degree_bounds"):
        return False
    moved = 2 if certificate["unit"]["relation"] == "replace" else 1
    least = moved + _TAIL * noise * math.sqrt(_PAIRS / _LEVELS["bound"]) * moved
    before = facts["max_degree"] is not None and all(one["name"] not in _LEVELS for one in certificate["releases"])
    return _most(certificate) > _LARGE * least and not before


def _noise_faults(certificate: Certificate) -> Iterator[str]:
    noise = _noise_of_pairs(certificate)
    if noise is None:
        return  # named as a wrong release
    facts, whole = certificate["public_facts"], noise * math.sqrt(_PAIRS)
    needed = 30 * whole * math.sqrt(facts["num_features"]) / max(facts["num_train"], 1)
    features, centered = min(max(needed, 0.1), 0.5), is_centered(certificate)
    levels = _LEVELS if _has_levels(certificate) else {}
    shares = {
        "center": _CENTER * features,
        "head": features * (1 - _CENTER * centered),
        "pairs": _PAIRS,
        "test": _TEST,
        **levels,
        "aggregate/1": 1 - features - _PAIRS - _TEST - sum(levels.values()),
    }
    yield from split_faults(certificate, shares, "pairs")
