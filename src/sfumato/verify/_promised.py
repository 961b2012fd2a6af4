"""What the verifier knows of method promised-messages. Part of the verifier: it needs NumPy and the standard library."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from math import prod
from typing import TYPE_CHECKING, ClassVar

from ._baselines import Linear, is_centered, split_faults
from ._kinds import Matrix, OwnRows
from ._rules import OWN

if TYPE_CHECKING:
    from ._kinds import Planned
    from ._rules import Certificate, Tensors
    from ._tensors import Stored

_PAIRS, _TEST, _CENTER = 0.05, 0.01, 0.02


class PromisedMessages(Linear):
    """The rules of method promised-messages: features, pairs of classes, a test, and the rest for a hop or for features.

    It protects incident arcs, and needs a public bound on degrees. Rows are for their own node alone, and not among releases.
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
        unit, facts = certificate["unit"], certificate["public_facts"]
        if unit["name"] == "none":
            return
        if unit["arcs"] != "incident":
            yield f"certificate.json: unit.arcs: expected incident, got {unit['arcs']}"
        if facts["max_degree"] is None and not facts.get("degree_bounds"):
            yield "certificate.json: public_facts.max_degree: expected a promise, since degree_bounds are not public"
        yield from _noise_faults(certificate)

    def releases(self, certificate: Certificate) -> list[Planned]:
        found = super().releases(certificate)
        if not found:
            return found
        facts, size = certificate["public_facts"], sum(map(prod, self._of_head(certificate).values()))
        nodes, classes = facts["num_nodes"], facts["num_classes"]
        touched = nodes * classes + certificate["settings"]["epochs"] * size
        return [
            *found,
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
        elif not facts.get("degree_bounds") and (bounds != facts["max_degree"]).any():
            yield f"bounds: holds other numbers than public_facts.max_degree, {facts['max_degree']}, which is for every node"


def _noise_faults(certificate: Certificate) -> Iterator[str]:
    found = {release["name"]: release["event"].get("noise_multiplier") for release in certificate["releases"]}
    if not isinstance(found.get("pairs"), int | float):
        return  # named as a wrong release
    facts, whole = certificate["public_facts"], found["pairs"] * math.sqrt(_PAIRS)
    needed = 30 * whole * math.sqrt(facts["num_features"]) / max(facts["num_train"], 1)
    features, centered = min(max(needed, 0.1), 0.5), is_centered(certificate)
    shares = {
        "center": _CENTER * features,
        "head": features * (1 - _CENTER * centered),
        "pairs": _PAIRS,
        "test": _TEST,
        "aggregate/1": 1 - features - _PAIRS - _TEST,
    }
    yield from split_faults(certificate, shares, "pairs")
